#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the instructions of the hottest paths and compares them with the committed figures.

Fails if a path costs more than 5% more than its figure, so that a change that costs something is seen, and also
if it costs more than 5% less: a figure that is too high would let the next change hide. Counts of another compiler or linker are shown, and not
compared. With --write the figures
in benches/instructions.json are replaced by what is counted; commit them with the change that explains it.
"""

import argparse
import json
import platform
import subprocess
import sys
import xml.etree.ElementTree as xml

import build
import instructions

FIGURES = build.ROOT / "benches" / "instructions.json"
TOLERANCE = 0.05


def toolchain():
    """What the counts depend on besides the code: the linker's stubs alone are eight instructions of a check."""
    first_lines = [
        subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        for tool in ("rustc", "c++", "ld")
    ]
    return [platform.machine(), *first_lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make what is counted the committed figures")
    parser.add_argument("--junit", help="also write the results to this file")
    options = parser.parse_args()

    figures = json.loads(FIGURES.read_text())
    expected = figures["instructions"]
    counted = instructions.per_job(build.cpp("instructions") / "instructions")

    if options.write:
        figures["toolchain"] = toolchain()
        figures["instructions"] = {path: round(counted[path], 1) for path in expected}
        FIGURES.write_text(json.dumps(figures, indent=2) + "\n")
        expected = figures["instructions"]
    is_comparable = figures["toolchain"] == toolchain()

    suite = xml.Element("testsuite", name="instructions", tests=str(len(expected)))
    failed = 0
    for path, figure in expected.items():
        count = counted.get(path)
        case = xml.SubElement(suite, "testcase", classname="instructions", name=path)
        if count is None:
            verdict = "is not counted any more"
        elif not is_comparable:
            verdict = None
            xml.SubElement(case, "skipped", message="the figures are of another toolchain")
        elif count > figure * (1 + TOLERANCE):
            verdict = "costs more than the committed figure"
        elif count < figure * (1 - TOLERANCE):
            verdict = "costs less than the committed figure: lower it with --write"
        else:
            verdict = None
        share = "" if count is None else f"{count:9.1f} {100 * (count / figure - 1):+6.1f}%"
        word = "FAILED" if verdict else "ok" if is_comparable else "-"
        print(f"{word:7}{path:42} {figure:9.1f} {share}  {verdict or ''}".rstrip())
        if verdict:
            failed += 1
            xml.SubElement(case, "failure", message=f"{figure} instructions, now {share}: {verdict}")
    if options.junit:
        xml.ElementTree(suite).write(options.junit)
    if not is_comparable:
        # Loud, and not a pass.
        print("NOT CHECKED: the figures in benches/instructions.json are of another toolchain.")
        print(f"  they: {', '.join(figures['toolchain'])}\n  here: {', '.join(toolchain())}")
        print(f"0 passed, {failed} failed, {len(expected) - failed} skipped")
        return failed != 0
    print(f"{len(expected) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
