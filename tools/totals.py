#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""totals.py [--step-failed] FILE...: adds up test results; the last line is `N passed, M failed[, K skipped]`.

A FILE is a JUnit report, or (named *.txt) what `cargo test` printed, for documentation tests. A file that
holds no test is an error: a step that ran nothing has not passed. With --step-failed at least one failure is
counted, since a step may fail without a test of its own that does.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree


def from_junit(path):
    passed = failed = skipped = 0
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def from_cargo(path):
    results = re.findall(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", path.read_text(), re.M)
    return tuple(sum(int(result[index]) for result in results) for index in range(3))


def main(names, step_failed):
    totals = [0, 0, 0]
    for name in names:
        path = pathlib.Path(name)
        counts = from_cargo(path) if path.suffix == ".txt" else from_junit(path)
        if not any(counts):
            sys.exit(f"{path}: no test in it")
        print(f"{path.stem:20} {counts[0]:5} passed {counts[1]:5} failed {counts[2]:5} skipped")
        totals = [total + count for total, count in zip(totals, counts)]
    passed, failed, skipped = totals
    failed = max(failed, int(step_failed))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    step_failed = "--step-failed" in arguments
    if step_failed:
        arguments.remove("--step-failed")
    elif not arguments:
        sys.exit(__doc__)
    main(arguments, step_failed)
