#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs upstream MLIR's own Python tests on the stock bindings and on the tracked ones, and compares.

    tools/upstream-tests/run.py                          LLVM 19.1.7 and 22.1.8, from Debian's source packages
    tools/upstream-tests/run.py --llvm 22 --only ir/     one of them, and only files whose path has "ir/"
    tools/upstream-tests/run.py --tests DIR              also a checkout's mlir/test/python

Each file runs twice on each of the two bindings: whole, as its RUN lines say (the file on Python, its output
through FileCheck), and case by case (see each.py), where the output is compared as well. What passes on stock
and does not on the tracked bindings is an error unless expected.toml gives a reason, and so is a crash where
stock only fails; an entry in expected.toml that is no longer needed is an error too. docs/upstream-tests.md has the results.

None of upstream's files enter the repository: they are downloaded to build/upstream-tests.
"""

import argparse
import collections
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import dialect

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
BUILD = REPOSITORY / "build"
RELEASES = {"19": "19.1.7", "22": "22.1.8"}
SUITE = "trixie"  # has the sources of both
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


# ---- Upstream's tests, by Debian's own tools, with nothing changed in the system's configuration.


def apt_options(folder):
    apt = folder / "apt"
    for sub in ("lists/partial", "cache/archives/partial"):
        (apt / sub).mkdir(parents=True, exist_ok=True)
    sources = apt / "sources.list"
    sources.write_text(f"deb-src [signed-by={KEYRING}] {MIRROR} {SUITE} main\n")
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


def debian_version(options, package, release):
    shown = subprocess.run(["apt-cache", *options, "showsrc", "--only-source", package], check=True,
                           capture_output=True, text=True).stdout
    found = re.search(rf"^Version: (\d+:{re.escape(release)}-\S+)$", shown, re.MULTILINE)
    if not found:
        sys.exit(f"{SUITE} has no {package} of {release} any more: take --tests with an LLVM checkout")
    return found[1]


def upstream_tests(llvm, folder):
    """The folder with the Python tests of this LLVM; downloads it (160 to 200 MB, most thrown away) if needed."""
    release = RELEASES[llvm]
    tests = folder / release
    if tests.is_dir():
        return tests
    package = f"llvm-toolchain-{llvm}"
    options = apt_options(folder)
    print(f"downloading the source of LLVM {release} ...", flush=True)
    subprocess.run(["apt-get", *options, "-qq", "update"], check=True)
    version = debian_version(options, package, release)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        subprocess.run(["apt-get", *options, "-qq", "source", "--only-source", "--tar-only", "--download-only",
                        f"{package}={version}"], cwd=scratch, check=True)
        (archive,) = Path(scratch).glob("*.orig.tar.*")
        subprocess.run(["tar", "-xf", archive.name, "--strip-components=1", "--wildcards",
                        "--no-wildcards-match-slash", "*/mlir/test/python"], cwd=scratch, check=True)
        (Path(scratch) / "mlir/test/python").rename(tests)
    return tests


def site_packages(python, folder):
    """numpy and the like, which the tests import and the bindings' environment lacks."""
    requirements = HERE / "requirements.txt"
    site, stamp = folder / "site", folder / "site.stamp"
    if not (stamp.exists() and stamp.read_text() == requirements.read_text()):
        shutil.rmtree(site, ignore_errors=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--target", site, "-r", requirements],
                       check=True)
        stamp.write_text(requirements.read_text())
    return site


def environment(folders):
    path = [*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}


# ---- One file on one build of the bindings.


class Bindings:
    def __init__(self, name, python, environment, arguments):
        self.name = name
        self.python = os.path.abspath(python)
        self.environment = environment
        self.arguments = arguments

    def _execute(self, command, seconds):
        """Status as in each.py, and the output. In a folder and a process group of its own."""
        with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as output:
            child = subprocess.Popen(command, cwd=scratch, env=self.environment, stdin=subprocess.DEVNULL,
                                     stdout=output, stderr=output, start_new_session=True)
            try:
                code = child.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        if code is None:
            return "time", text
        # A shell says 128 + N for a command that signal N ended.
        number = -code if code < 0 else code - 128
        if 0 < number < 65:
            return f"signal {number}", text
        return ("ok" if code == 0 else f"exit {code}"), text

    def whole(self, path):
        """All RUN lines of the file; the status of the first that fails."""
        for line in run_lines(path):
            substitutions = {"%PYTHON": self.python, "%s": str(path),
                             "%mlir_runner_utils": self.arguments.runner_utils,
                             "%mlir_c_runner_utils": self.arguments.c_runner_utils}
            command = re.sub(r"%\w+", lambda m: shlex.quote(substitutions[m[0]]), line)
            command = re.sub(r"\bFileCheck\b", shlex.quote(self.arguments.filecheck), command)
            # Without pipefail, a crash after the last expected line would pass.
            status, text = self._execute(["bash", "-o", "pipefail", "-c", command], self.arguments.file_seconds)
            if status != "ok":
                return status, text
        return "ok", ""

    def cases(self, path):
        """What each.py says: {case: (status, output)}, the output without what differs for no reason."""
        with tempfile.TemporaryDirectory() as scratch:
            results = os.path.join(scratch, "results.json")
            status, text = self._execute(
                [self.python, HERE / "each.py", path, results, str(self.arguments.case_seconds)],
                self.arguments.file_seconds * 4)
            if status != "ok" or not os.path.exists(results):
                return {"(file)": (status, self.normal(text))}
            with open(results) as file:
                return {r["name"]: (r["status"], self.normal(r["output"])) for r in json.load(file)}

    def normal(self, text):
        text = re.sub(r"0x[0-9a-fA-F]{4,}", "ADDRESS", text)
        text = re.sub(r'"[^"\n]*/mlir/', '".../mlir/', text)
        # Stock says no more than this much; ours goes on with the reason.
        return re.sub(r"(the operation has been invalidated): .*", r"\1", text)


def run_lines(path):
    lines = re.findall(r"^(?:#|//)\s*RUN:\s*(.*?)\s*$", path.read_text(errors="replace"), re.MULTILINE)
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return joined.splitlines()


# ---- The comparison.

Difference = collections.namedtuple("Difference", "test kind stock tracked stock_output tracked_output")


def compare(test, stock, tracked):
    """None if both pass alike; otherwise what differs, or "neither" if both fail."""
    if short(tracked) == "crashes" and short(stock) != "crashes":
        kind = "crash"
    elif stock[0] == "ok" and tracked[0] != "ok":
        kind = "fail"
    elif stock[0] == "ok" and stock[1] != tracked[1]:
        kind = "output"
    elif stock[0] != "ok":
        kind = "better" if tracked[0] == "ok" else "neither"
    else:
        return None
    return Difference(test, kind, stock[0], tracked[0], stock[1], tracked[1])


WORSE = ("crash", "fail", "output")


def compare_file(test, path, stock, tracked, counts):
    """The differences of this file; counts[(what, stock's kind of status, ours)] of whole files and cases."""
    differences = []

    def add(what, name, on_stock, on_tracked):
        counts[what, short(on_stock), short(on_tracked)] += 1
        difference = compare(name, on_stock, on_tracked)
        if difference:
            differences.append(difference)

    if run_lines(path):
        add("files", test, stock.whole(path), tracked.whole(path))
    on_stock, on_tracked = stock.cases(path), tracked.cases(path)
    if any(on_tracked.get(name, ("absent", "")) != result for name, result in on_stock.items()):
        # What is not the same twice on stock says nothing about ours.
        again = stock.cases(path)
        for name, result in on_stock.items():
            if result[0] == "ok" and again.get(name, ("absent", ""))[1] != result[1]:
                counts["unsteady", name, ""] += 1
                on_tracked[name] = (on_tracked.get(name, ("absent", ""))[0], result[1])
    for name in dict.fromkeys([*on_stock, *on_tracked]):
        add("cases", f"{test}::{name}", on_stock.get(name, ("absent", "")), on_tracked.get(name, ("absent", "")))
    return differences


def short(result):
    status = result[0]
    if status == "ok":
        return "passes"
    return "crashes" if status.startswith(("signal", "time")) else "fails"


def indent(text, limit):
    lines = text.rstrip().splitlines()
    if len(lines) > limit:
        lines = [f"... {len(lines) - limit} lines ...", *lines[-limit:]]
    return "".join(f"        | {line}\n" for line in lines)


def print_totals(counts):
    for what in ("files", "cases"):
        rows = {key[1:]: number for key, number in counts.items() if key[0] == what}
        if not rows:
            continue
        print(f"\n{what:<16}{'ours passes':>14}{'ours fails':>14}{'ours crashes':>14}")
        for stock in ("passes", "fails", "crashes"):
            numbers = [rows.get((stock, ours), 0) for ours in ("passes", "fails", "crashes")]
            print(f"stock {stock:<10}" + "".join(f"{n:>14}" for n in numbers))
        print(f"{sum(rows.values())} {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llvm", choices=[*RELEASES, "none"], action="append",
                        help="whose tests to take from Debian (default: both)")
    parser.add_argument("--tests", type=Path, action="append", default=[], metavar="DIR",
                        help="also the tests in this folder, named by --name")
    parser.add_argument("--name", action="append", default=[], help="what to call the tests of --tests (default: its path)")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="only files whose path has it")
    parser.add_argument("--stock", default=BUILD / "bindings/stock-python", type=Path)
    parser.add_argument("--tracked", default=BUILD / "bindings/tracked-python", type=Path)
    parser.add_argument("--bindings-build", default=BUILD / "upstream", type=Path,
                        help="the CMake build folder of the bindings; its headers are for upstream's test dialect")
    parser.add_argument("--no-test-dialect", action="store_true",
                        help="do without that dialect: the tests that need it fail on both")
    parser.add_argument("--tblgen", default=shutil.which("mlir-tblgen-22") or shutil.which("mlir-tblgen"),
                        help="Debian: package mlir-22-tools")
    parser.add_argument("--filecheck", default=shutil.which("FileCheck-22") or shutil.which("FileCheck"),
                        help="Debian: package llvm-22-tools")
    parser.add_argument("--runner-utils", default="/usr/lib/llvm-22/lib/libmlir_runner_utils.so")
    parser.add_argument("--c-runner-utils", default="/usr/lib/llvm-22/lib/libmlir_c_runner_utils.so")
    parser.add_argument("--folder", default=BUILD / "upstream-tests", type=Path, help="for what is downloaded")
    parser.add_argument("--file-seconds", default=180.0, type=float)
    parser.add_argument("--case-seconds", default=60.0, type=float)
    parser.add_argument("--json", type=Path, help="also all that fails or differs, with its output, for a program to read")
    parser.add_argument("--verbose", "-v", action="store_true", help="the outputs of what differs")
    arguments = parser.parse_args()

    for name in ("stock", "tracked"):
        if not getattr(arguments, name).exists():
            sys.exit(f"{getattr(arguments, name)} is missing: `make bindings` builds it")
    if not arguments.filecheck:
        sys.exit("FileCheck is missing: on Debian it is in llvm-22-tools")
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    trees = {llvm: upstream_tests(llvm, folder)
             for llvm in (arguments.llvm or RELEASES) if llvm != "none"}
    for index, tests in enumerate(arguments.tests):
        name = arguments.name[index] if index < len(arguments.name) else str(tests)
        trees[name] = tests.resolve(strict=True)

    site = site_packages(arguments.stock, folder)
    overlay = {}
    if not arguments.no_test_dialect:
        overlay = dialect.build(
            trees.get("22") or upstream_tests("22", folder), arguments.bindings_build,
            {"stock": arguments.stock, "tracked": arguments.tracked}, folder / "dialect", arguments.tblgen)
    stock, tracked = (
        Bindings(name, getattr(arguments, name),
                 environment([site, *([overlay[name]] if overlay else [])]), arguments)
        for name in ("stock", "tracked"))

    with open(HERE / "expected.toml", "rb") as file:
        expected = {entry["test"]: entry["reason"] for entry in tomllib.load(file).get("expected", [])}
    needless, unexpected, everything = set(), [], []
    for tree, tests in trees.items():
        counts = collections.Counter()
        better, otherwise = [], []
        print(f"\n==== {tree}: {tests}")
        for path in sorted(tests.rglob("*.py")):
            relative = path.relative_to(tests).as_posix()
            if arguments.only and not any(text in relative for text in arguments.only):
                continue
            test = f"{tree}/{relative}"
            differences = compare_file(test, path, stock, tracked, counts)
            everything += differences
            worse = {d.test: d for d in differences if d.kind in WORSE}
            better += [d for d in differences if d.kind == "better"]
            otherwise += [d for d in differences if d.kind == "neither" and d.stock != d.tracked]
            needless |= {name for name in expected
                         if name.partition("::")[0] == test and name not in worse}
            for name, difference in worse.items():
                if name in expected:
                    print(f"  expected   {name}: stock {difference.stock}, ours {difference.tracked}")
                else:
                    unexpected.append(difference)
                    print(f"  {difference.kind.upper():<10} {name}: stock {difference.stock}, "
                          f"ours {difference.tracked}")
                    if arguments.verbose:
                        print(indent(difference.tracked_output, 25), end="")
                        if difference.kind == "output":
                            print("        stock:\n" + indent(difference.stock_output, 25), end="")
                sys.stdout.flush()
        for difference in better:
            print(f"  better     {difference.test}: stock {difference.stock}, ours passes")
        for difference in otherwise:
            print(f"  otherwise  {difference.test}: stock {difference.stock}, ours {difference.tracked}")
        print_totals(counts)
        unsteady = sorted(name for what, name, _ in counts if what == "unsteady")
        if unsteady:
            print("output not the same twice on stock, so not compared: " + ", ".join(unsteady))
        if not any(what in ("files", "cases") for what, *_ in counts):
            sys.exit(f"no test was run in {tests}")

    if arguments.json:
        arguments.json.write_text(json.dumps([d._asdict() for d in everything], indent=1) + "\n")
    for name in sorted(needless):
        print(f"expected.toml has {name}, which is not worse than on stock")
    print(f"\n{len(unexpected)} worse than on stock without a reason in expected.toml, "
          f"{len(needless)} needless entries there")
    sys.exit(1 if unexpected or needless else 0)


main()
