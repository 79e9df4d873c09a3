# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Erase and create, until a new operation gets an old one's address"""
# The situation of the second script in LLVM issue 92344, in a loop, since the allocator decides.

from mlir.ir import Context, InsertionPoint, IntegerAttr, IntegerType, Location, Module, Operation

from accident import address, note, stale, survives

context = Context()
context.allow_unregistered_dialects = True
module = Module.parse("module {}", context)


def number_of(operation):
    return IntegerAttr(operation.attributes["number"]).value


with context, Location.unknown(), InsertionPoint(module.body):

    def create(number):
        attribute = IntegerAttr.get(IntegerType.get_signless(64), number)
        return Operation.create("demo.step", attributes={"number": attribute})

    untouched = create(-1)
    for number in range(100_000):
        operation = create(number)
        reference = module.body.operations[1]
        where = address(operation)
        operation.erase()
        new = create(1_000_000 + number)
        if address(new) == where:
            break
        new.erase()
    else:
        raise SystemExit("no address was used again")

note(f"in round {number + 1}")
stale("the old reference", lambda: f"number {number_of(reference)}, which is the new operation's")
survives("the new operation at that address", lambda: number_of(new), 1_000_000 + number)
survives("an operation that nobody touched", lambda: number_of(untouched), -1)
