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
    """Such a class cannot be made, its objects live during a callback only, or it is an iterator that only its array
    makes. The types of the SMT dialect are there as plain types."""
    lonely = set(run("--list").stdout.splitlines()[0].partition("no object of: ")[2].split(", "))
    assert lonely <= {
        "AttrBuilder",
        "BitVectorType",
        "BoolType",
        "ContractionDimensions",
        "ConvolutionDimensions",
        "DenseBoolArrayIterator",
        "DenseF32ArrayIterator",
        "DenseF64ArrayIterator",
        "DenseI16ArrayIterator",
        "DenseI32ArrayIterator",
        "DenseResourceElementsAttr",
        "DiagnosticSeverity",
        "ExternalPass",
        "GreedyRewriteStrictness",
        "GreedySimplifyRegionLevel",
        "InferShapedTypeOpInterface",
        "IntType",
        "PDLResultList",
        "PassDisplayMode",
        "PatternRewriter",
        "ShapedTypeComponents",
        "WalkOrder",
        "WalkResult",
        "_GlobalDebug",
        "_Globals",
    }
