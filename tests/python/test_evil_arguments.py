# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A part of what `evil_arguments.py` calls: LOT_EVIL_PART, or the first. All 150 take ten minutes and more."""

import os
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).with_name("evil_arguments.py")
PARTS = 150


def run(*arguments):
    return subprocess.run(
        [sys.executable, PROGRAM, *arguments], capture_output=True, text=True, timeout=600
    )


def test_no_argument_ends_the_process():
    part = os.environ.get("LOT_EVIL_PART", "0")
    done = run("--slice", f"{part}/{PARTS}", "--jobs", "2")
    assert done.returncode == 0, f"part {part} of {PARTS}\n{done.stdout}{done.stderr}"


def test_every_class_has_an_object_or_cannot_have_one():
    """Such a class cannot be made, or is of convolutions, which nothing here has."""
    lonely = set(run("--list").stdout.splitlines()[0].partition("no object of: ")[2].split(", "))
    assert lonely <= {"AttrBuilder", "ConvolutionDimensions", "_GlobalDebug", "_Globals"}


def test_no_operation_ends_the_process():
    """A part of what `evil_operations.py` makes; all of it takes a minute."""
    program = PROGRAM.with_name("evil_operations.py")
    part = int(os.environ.get("LOT_EVIL_PART", "0")) % 20
    command = [sys.executable, program, "--slice", f"{part}/20", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing found" in done.stdout
