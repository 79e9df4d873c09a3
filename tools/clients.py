#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the tests of real programs on the stock and the tracked bindings; compares test by test.

    tools/clients.py extras CHECKOUT   mlir-python-extras: its folder in llvm/eudsl, at commit d7acc75, the last one
                                       that fits LLVM 22
    tools/clients.py xtc CHECKOUT      xtc-tools: its unpacked source package

Needs `make bindings`, and the network for what the clients need (into build/clients). Nothing of
the clients is kept in the repository. Exit status 1 if a test is worse on the tracked bindings.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
UPSTREAM, WORK = ROOT / "build" / "upstream", ROOT / "build" / "clients"
SECONDS = 1800
FILECHECK = "/usr/lib/llvm-22/bin"  # Debian's llvm-22-tools
# What each client needs besides the bindings, and where its tests are.
CLIENTS = {
    "extras": {
        "needs": ["numpy", "pytest", "pytest-timeout", "astpretty", "-r{checkout}/requirements.txt"],
        "tests": "tests",
    },
    "xtc": {"needs": ["numpy", "pytest", "pytest-timeout", "{checkout}"], "tests": "tests/pytest"},
}
ORDER = ["passed", "skipped", "failed", "missing"]  # from good to bad


def environment(client, checkout):
    """A virtual environment without any MLIR: the bindings come from PYTHONPATH."""
    python = WORK / client / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
    needs = [need.format(checkout=checkout) for need in CLIENTS[client]["needs"]]
    subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *needs],
        check=True,
    )
    return python


def run(client, python, checkout, kind):
    """How each test ended, by name. One that ends the process is missing, and those after it."""
    report = WORK / client / f"{kind}.xml"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=",
            "--continue-on-collection-errors",  # some files need a newer Python
            "--timeout=120",
            "--junitxml",
            report,
            CLIENTS[client]["tests"],
        ],
        cwd=checkout,
        timeout=SECONDS,
        capture_output=True,
        text=True,
        errors="replace",
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(UPSTREAM / kind), str(checkout)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": os.pathsep.join([FILECHECK, os.environ["PATH"]]),
        },
    )
    (WORK / client / f"{kind}.txt").write_text(done.stdout + done.stderr)
    print(f"{kind}: exit status {done.returncode}; {done.stdout.strip().rpartition(chr(10))[2]}")
    if not report.exists():
        return {}
    results = {}
    for case in xml.parse(report).iter("testcase"):
        bad = case.find("failure") is not None or case.find("error") is not None
        how = "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
        results[f"{case.get('classname')}::{case.get('name')}"] = how
    return results


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("checkout", type=pathlib.Path)
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    python = environment(options.client, checkout)
    stock, tracked = (run(options.client, python, checkout, kind) for kind in ("stock", "tracked"))
    if "passed" not in stock.values():
        raise SystemExit(
            f"no test passes on the stock bindings: see {WORK / options.client / 'stock.txt'}"
        )
    worse = 0
    for name in sorted(stock.keys() | tracked.keys()):
        before, after = stock.get(name, "missing"), tracked.get(name, "missing")
        if before != after:
            worse += ORDER.index(after) > ORDER.index(before)
            print(f"{name}: stock {before}, tracked {after}")
    print(
        f"{len(stock)} tests on the stock bindings, {len(tracked)} on the tracked ones; "
        f"{worse} worse"
    )
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
