#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the tracked Python bindings against the stock ones, in alternation."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import build
import instructions

WORKLOAD = pathlib.Path(__file__).with_name("python_workload.py")
JOBS = ["visit", "build", "drop", "erase"]
KINDS = ("stock", "tracked")


def times(bindings, size, rounds):
    """Seconds of each job, by kind of bindings: a list with one number for each round."""
    found = {kind: {} for kind in KINDS}
    for number in range(rounds + 1):
        # The other one first each time, so that a machine that gets slower or faster favours neither.
        for kind in KINDS if number % 2 else reversed(KINDS):
            line = [bindings / f"{kind}-python", WORKLOAD, str(size), *JOBS]
            run = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True)
            if number:  # The first round only fills the caches of the file system.
                for job, seconds in json.loads(run.stdout).items():
                    found[kind].setdefault(job, []).append(seconds)
    return found


def counts(bindings, size):
    """Instructions of each job, by kind of bindings."""
    found = {}
    switch = build.cpp("callgrind_switch") / "libcallgrind_switch.so"
    for kind in KINDS:
        # valgrind wants the program itself, not the script that starts it.
        ask = "import os, sys; print(sys.executable); print(os.environ.get('PYTHONPATH', ''))"
        run = subprocess.run([bindings / f"{kind}-python", "-c", ask], stdout=subprocess.PIPE, text=True, check=True)
        program, path = run.stdout.splitlines()
        env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "LOT_BENCH_SWITCH": str(switch)}
        _, found[kind] = instructions.callgrind([program, WORKLOAD, size, *JOBS], ["--instr-atstart=no"], env)
    return found


def measure(bindings, quick):
    """For each job: seconds by kind and round, and instructions by kind."""
    seconds = times(bindings, 20_000 if quick else 100_000, 3 if quick else 9)
    counted = counts(bindings, 2_000 if quick else 10_000)
    return {
        job: {
            "seconds": {kind: seconds[kind][job] for kind in KINDS},
            "instructions": {kind: counted[kind].get(job) for kind in KINDS},
        }
        for job in seconds["stock"]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bindings", type=pathlib.Path, default=build.ROOT / "build" / "bindings")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for job, found in measure(options.bindings, options.quick).items():
        stock, tracked = (statistics.median(found["seconds"][kind]) for kind in KINDS)
        counted = found["instructions"]
        line = f"{job:13} stock {1000 * stock:8.1f} ms  tracked {1000 * tracked:8.1f} ms  {tracked / stock:6.3f}"
        if counted["stock"]:
            line += f"   instructions {counted['tracked'] / counted['stock']:6.3f}"
        print(line)


if __name__ == "__main__":
    sys.exit(main())
