# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The jobs that the Python bindings are measured with; run by the Python of one build of them.

python_workload.py SIZE JOB...: prints, as JSON, the seconds that each job took. With LOT_BENCH_SWITCH (the path
of libcallgrind_switch.so) callgrind counts each job instead, under its name.
"""

import ctypes
import json
import os
import sys
import time

switch = None
if "LOT_BENCH_SWITCH" in os.environ:
    switch = ctypes.CDLL(os.environ["LOT_BENCH_SWITCH"])


class Measured:
    """Measures what is done inside of `with`."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        if switch:
            switch.counting_start()
        self.start = time.perf_counter()

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.start
        if switch:
            switch.counting_stop(self.name.encode())


imported = Measured("import")
with imported:
    import mlir.ir as ir

from mlir.dialects import arith, func, scf  # noqa: E402, F401

NESTED = (func.FuncOp, scf.ForOp)


def text_of(size):
    """A module of functions of 100 operations each, with some in a nested region."""
    function = "".join(
        ["  func.func private @f{name}(%i: index) {{\n"]
        + [f"    %v{number} = arith.constant {number} : i32\n" for number in range(87)]
        + ["    scf.for %k = %i to %i step %i {{\n"]
        + [f"      %w{number} = arith.constant {number} : i32\n" for number in range(9)]
        # The end of the loop body is an operation as well, which is not written.
        + ["    }}\n", "    return\n", "  }}\n"]
    )
    return "module {\n" + "".join(function.format(name=name) for name in range(size // 100)) + "}\n"


def visit(operation, seen):
    """Collects all operations below one of a module that is like those of `text_of`: little of this takes
    time but the bindings."""
    for block in operation.regions[0]:
        for inner in block.operations:
            seen.append(inner)
            if isinstance(inner, NESTED):
                visit(inner.operation, seen)


def first_and_second_visit(size, names):
    with ir.Context():
        module = ir.Module.parse(text_of(size))
        first, second = [], []
        measured = Measured(names[0])
        with measured:
            visit(module.operation, first)
        again = Measured(names[1])
        with again:
            visit(module.operation, second)
        assert len(first) == len(second) == size // 100 * 100, (len(first), len(second), size)
        return measured.seconds, again.seconds


def build(size, name):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        i32 = ir.IntegerType.get_signless(32)
        attributes = {"value": ir.IntegerAttr.get(i32, 1)}
        measured = Measured(name)
        with ir.InsertionPoint(module.body), measured:
            for _ in range(size):
                ir.Operation.create("arith.constant", results=[i32], attributes=attributes)
        return measured.seconds


def drop(size, name):
    """The module and two thirds of its operations are let go, which destroys all of it."""
    with ir.Context():
        module = ir.Module.parse(text_of(size))
        seen = []
        visit(module.operation, seen)
        held = [operation for number, operation in enumerate(seen) if number % 3]
        seen = None
        measured = Measured(name)
        with measured:
            module = None
            held = None
        return measured.seconds


def erase(size, name):
    """An operation that encloses `size` is erased while two thirds of these are held, and stay so."""
    with ir.Context():
        module = ir.Module.parse("module {\n" + text_of(size) + "}\n")
        seen = []
        (root,) = module.body.operations
        visit(root.operation, seen)
        held = [operation for number, operation in enumerate(seen) if number % 3]
        seen = None
        measured = Measured(name)
        with measured:
            root.operation.erase()
        assert len(held) >= size // 2
        return measured.seconds


def main(size, jobs):
    seconds = {"import": imported.seconds}
    if "visit" in jobs:
        seconds["first visit"], seconds["second visit"] = first_and_second_visit(
            size, ("first visit", "second visit")
        )
    if "build" in jobs:
        seconds["build"] = build(size, "build")
    if "drop" in jobs:
        seconds["drop"] = drop(size * 6 // 10, "drop")
    if "erase" in jobs:
        seconds["erase"] = erase(size * 6 // 10, "erase")
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
