#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures everything, prints the table of targets, and writes docs/benchmarks.md with the curves."""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import time
import venv

import build
import measure
import report

RESULTS = build.BUILD / "results.json"
DOCS = build.ROOT / "docs"


def plotting_python():
    """A Python that has matplotlib."""
    directory = build.BUILD / "venv"
    python = directory / "bin" / "python"
    requirements = pathlib.Path(__file__).with_name("requirements.txt")
    done = directory / "requirements.txt"
    if not done.exists() or done.read_text() != requirements.read_text():
        venv.create(directory, with_pip=True, clear=True)
        build.run(python, "-m", "pip", "install", "--quiet", "--requirement", requirements)
        done.write_text(requirements.read_text())
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few minutes: smaller sizes, fewer rounds")
    parser.add_argument("--report-only", action="store_true", help="only write the page anew from the last results")
    parser.add_argument("--bindings", type=pathlib.Path, default=build.ROOT / "build" / "bindings",
                        help="where stock-python and tracked-python are")  # fmt: skip
    options = parser.parse_args()

    if not options.report_only:
        for kind in ("stock", "tracked"):
            if not (options.bindings / f"{kind}-python").exists():
                sys.exit(f"{options.bindings}/{kind}-python is missing: run `make bindings` first")
        start = time.monotonic()

        def say(what):
            print(f"{time.monotonic() - start:5.0f} s  {what}", file=sys.stderr, flush=True)

        say("building")
        facts = report.machine(build.ROOT)
        found = measure.everything(options.bindings, options.quick, say)
        found["machine"] = facts
        found["date"] = datetime.date.today().isoformat()
        found["quick"] = options.quick
        RESULTS.write_text(json.dumps(found, indent=1))

    found = json.loads(RESULTS.read_text())
    table = report.rows(found)
    pictures = DOCS / "benchmarks"
    pictures.mkdir(parents=True, exist_ok=True)
    subprocess.run([plotting_python(), pathlib.Path(__file__).with_name("plot.py"), RESULTS, pictures], check=True)
    (DOCS / "benchmarks.md").write_text(report.document(found, table))
    print(report.as_text(table))
    print(f"{sum(row.met for row in table)} of {len(table)} targets are met")


if __name__ == "__main__":
    main()
