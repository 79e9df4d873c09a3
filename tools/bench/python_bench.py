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
# The stock package was compiled elsewhere and checks each reference count, so that a part of any difference from
# it is the compiler's and its flags': `rebuilt` is the same sources, compiled as the tracked ones are.
KINDS = ("stock", "rebuilt", "tracked")


def places(bindings):
    """The interpreter and the search path of each kind of bindings."""
    found = {}
    for kind in ("stock", "tracked"):
        # valgrind wants the program itself, not the script that starts it.
        ask = "import os, sys; print(sys.executable); print(os.environ['PYTHONPATH'])"
        run = subprocess.run([bindings / f"{kind}-python", "-c", ask], stdout=subprocess.PIPE, text=True, check=True)
        found[kind] = tuple(run.stdout.splitlines())
    upstream = pathlib.Path(found["tracked"][1].split(":")[0]).resolve().parent
    directory = build.BUILD / "python"
    build.run(
        "cmake", "-S", build.ROOT / "benches" / "python", "-B", directory, "-G", "Ninja",
        f"-DLOT_UPSTREAM_BUILD={upstream}",
    )  # fmt: skip
    build.run("cmake", "--build", directory)
    found["rebuilt"] = (found["stock"][0], str(directory / "rebuilt"))
    return found


def environment(path, **more):
    return {**os.environ, "PYTHONPATH": path, **more}


def times(where, size, rounds):
    """Seconds of each job, by kind of bindings: a list with one number for each round."""
    found = {kind: {} for kind in KINDS}
    for number in range(rounds + 1):
        # In another order each time, so that a machine that gets slower or faster favours none.
        for kind in KINDS if number % 2 else reversed(KINDS):
            python, path = where[kind]
            line = [python, WORKLOAD, str(size), *JOBS]
            run = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True, env=environment(path))
            if number:  # The first round only fills the caches of the file system.
                for job, seconds in json.loads(run.stdout).items():
                    found[kind].setdefault(job, []).append(seconds)
    return found


def counts(where, size):
    """Instructions of each job, by kind of bindings."""
    found = {}
    switch = build.cpp("callgrind_switch") / "libcallgrind_switch.so"
    for kind, (python, path) in where.items():
        env = environment(path, PYTHONHASHSEED="0", LOT_BENCH_SWITCH=str(switch))
        _, found[kind] = instructions.callgrind([python, WORKLOAD, size, *JOBS], ["--instr-atstart=no"], env)
    return found


def measure(bindings, quick):
    """For each job: seconds by kind and round, and instructions by kind."""
    where = places(bindings)
    seconds = times(where, 20_000 if quick else 100_000, 3 if quick else 9)
    counted = counts(where, 2_000 if quick else 10_000)
    return {
        job: {
            "seconds": {kind: seconds[kind][job] for kind in KINDS},
            "instructions": {kind: counted[kind][job] for kind in KINDS},
        }
        for job in seconds["stock"]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bindings", type=pathlib.Path, default=build.ROOT / "build" / "bindings")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for job, found in measure(options.bindings, options.quick).items():
        line = f"{job:13}"
        for kind in KINDS:
            line += f" {kind} {1000 * statistics.median(found['seconds'][kind]):8.1f} ms"
        for kind in KINDS[:-1]:
            counted = found["instructions"]["tracked"] / found["instructions"][kind]
            pairs = zip(found["seconds"]["tracked"], found["seconds"][kind])
            line += f"   to {kind}: {statistics.median(a / b for a, b in pairs):6.3f}, instructions {counted:6.3f}"
        print(line)


if __name__ == "__main__":
    sys.exit(main())
