# Exit while threads are at work, and IR that is nested deeper than a stack.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import pytest
from refs import in_child

SETUP = """
import sys, threading, time
from mlir import ir, rewrite
from mlir.passmanager import PassManager

ctx = ir.Context()
ctx.allow_unregistered_dialects = True
module = ir.Module.parse('"t.a"() : () -> ()', ctx)
begun = threading.Event()

def callback(*arguments):
    begun.set()
    while True:
        time.sleep(0.001)

def patterns():
    made = rewrite.RewritePatternSet(ctx)
    made.add("t.a", callback)
    return made.freeze()

def passes():
    manager = PassManager("builtin.module", ctx)
    manager.add(callback)
    return manager

def pdl():
    with ctx:
        source = 'module { pdl.pattern @p : benefit(1) { %root = operation "t.a" rewrite %root with "make" } }'
        made = rewrite.PDLModule(ir.Module.parse(source))
        made.register_rewrite_function("make", callback)
        return made.freeze()

def handler():
    ctx.attach_diagnostic_handler(callback)
    ir.Location.unknown(ctx).emit_error("now")

def observer():
    first = module.body.operations[0]
    ctx.on_operation_end(callback)
    first.erase()
"""
RUN = """
threading.Thread(target=lambda: %s, daemon=True).start()
assert begun.wait(60)
print("exits", flush=True)
"""


@pytest.mark.parametrize("work", [
    "module.operation.walk(callback)",
    "ir.SymbolTable.walk_symbol_tables(module.operation, True, callback)",
    "passes().run(module.operation)",
    "rewrite.apply_patterns_and_fold_greedily(module, patterns())",
    "rewrite.walk_and_apply_patterns(module.operation, patterns())",
    "rewrite.apply_patterns_and_fold_greedily(module, pdl())",
    "handler()",
    "observer()",
])
def test_exit_while_a_daemon_thread_is_in_a_callback(work):
    code, output = in_child(SETUP + RUN % work)
    assert (code, output.splitlines()[-1]) == (0, "exits"), output


def test_walk_over_more_levels_than_the_stack_has_room_for():
    code, output = in_child("""
import threading
from mlir import ir
ctx = ir.Context()
ctx.allow_unregistered_dialects = True
with ctx, ir.Location.unknown():
    root = inner = ir.Operation.create("t.level", regions=1)
    for i in range(2000):
        inner = ir.Operation.create("t.level", regions=1, ip=ir.InsertionPoint(inner.regions[0].blocks.append()))

def work():
    for order in (ir.WalkOrder.PRE_ORDER, ir.WalkOrder.POST_ORDER):
        visited = []
        root.walk(lambda op: visited.append(op == root) or ir.WalkResult.ADVANCE, order)
        print(len(visited), visited.index(True), flush=True)
    root.walk(lambda op: ir.WalkResult.INTERRUPT)

threading.stack_size(256 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
""")
    assert (code, output.split()) == (0, ["2001", "0", "2001", "2000"]), output


def test_walk_skips_and_interrupts():
    code, output = in_child("""
from mlir import ir
ctx = ir.Context()
ctx.allow_unregistered_dialects = True
inside = ' '.join(f'"t.r"() ({{ "t.x"() : () -> () ^b: "t.y"() : () -> () }}, {{ "t.z"() : () -> () }}) : () -> ()' for _ in range(2))
module = ir.Module.parse(inside, ctx)
for order in (ir.WalkOrder.PRE_ORDER, ir.WalkOrder.POST_ORDER):
    for result in (ir.WalkResult.ADVANCE, ir.WalkResult.SKIP, ir.WalkResult.INTERRUPT):
        seen = []
        def callback(op):
            seen.append(op.name.split(".")[1][0])
            return result if op.name == "t.r" else ir.WalkResult.ADVANCE
        module.operation.walk(callback, order)
        print("".join(seen))
""")
    assert output.split() == ["mrxyzrxyz", "mrr", "mr", "xyzrxyzrm", "xyzrxyzrm", "xyzr"], output
    assert code == 0
