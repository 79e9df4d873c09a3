#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Erases and creates operations until addresses are reused, many times over, and looks for one wrong answer.

Each run is a process of its own with the tracked bindings. It erases and creates 10,000 operations, keeps old
references, live neighbours and values, and at the end asks all of them: an old reference that answers, or a live
one that is refused or answers for another, fails the run.

    tools/address-reuse.py [--runs 200] [--python build/bindings/tracked-python]
"""
import argparse
import subprocess
import sys

SCRIPT = r"""
import random, sys
from mlir import ir

seed = int(sys.argv[1])
chance = random.Random(seed)
context = ir.Context()
context.allow_unregistered_dialects = True
module = ir.Module.parse("module {}", context)
i64 = ir.IntegerType.get_signless(64, context)
i32 = ir.IntegerType.get_signless(32, context)
number = lambda op: ir.IntegerAttr(op.attributes["n"]).value
live, dead = {}, []
addresses, reused = set(), 0
with context, ir.Location.unknown(), ir.InsertionPoint(module.body):
    for n in range(10_000):
        results = [i32] * chance.randrange(3)
        op = ir.Operation.create("test.op", results=results, attributes={"n": ir.IntegerAttr.get(i64, n)})
        address = hash(op)
        reused += address in addresses
        addresses.add(address)
        live[n] = (op, list(op.results))
        # About fifty stay alive; which ones go, and in which order, differs from run to run.
        while len(live) > 50:
            gone = chance.choice(list(live))
            op, values = live.pop(gone)
            op.erase()
            if chance.random() < 0.2:
                dead.append((gone, op, values))
wrong = 0
for n, op, values in dead:
    for use in [lambda: number(op), lambda: op.name, *[lambda v=v: v.type for v in values]]:
        try:
            use()
        except ir.DeadReferenceError:
            continue
        wrong += 1
    wrong += sum(op == other for other, _ in live.values())
for n, (op, values) in live.items():
    wrong += number(op) != n
    wrong += sum(value.owner != op or str(value.type) != "i32" for value in values)
fetched = [number(op) for op in module.body.operations]
wrong += fetched != sorted(live)
print(wrong, len(dead), len(live), reused)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--python", default="build/bindings/tracked-python")
    arguments = parser.parse_args()
    failed = dead = live = reused = 0
    for seed in range(arguments.runs):
        run = subprocess.run([arguments.python, "-c", SCRIPT, str(seed)], capture_output=True, text=True)
        answer = run.stdout.split()
        if run.returncode or len(answer) != 4 or int(answer[0]):
            failed += 1
            print(f"run {seed}: exit status {run.returncode}, {run.stdout.strip()} {run.stderr.strip()[-500:]}", flush=True)
            continue
        dead, live, reused = (total + int(n) for total, n in zip((dead, live, reused), answer[1:]))
    print(f"{dead} old references asked, {live} live ones; {reused} new operations were at the address of an old one")
    if not reused:
        print("no address was ever reused: this says nothing")
        failed += 1
    print(f"{arguments.runs - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
