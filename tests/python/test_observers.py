# Context.on_operation_end: Python is told of operations that have ended, once each, outside of MLIR.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import gc
import os
import sys
import threading
import weakref

import pytest

from mlir import ir, rewrite
from mlir.dialects import arith
from mlir.dialects.transform import interpreter
from mlir.passmanager import PassManager

from refs import EXACT, dead, in_child, settle

FUNCTION = """func.func @f(%a: i32) -> i32 {
  %dead = arith.constant 7 : i32
  %x = arith.muli %a, %a : i32
  return %x : i32 }"""


def body(module, index=0):
    return module.body.operations[index].regions[0].blocks[0]


def make(name, ctx, text="here"):
    return ir.Operation.create(name, loc=ir.Location.name(text, context=ctx))


def pause():
    """A moment between two steps of the program: the main thread makes its pending calls."""
    for _ in range(3):
        str()


def held_by(block):
    """All operations in a block, inside out."""
    for op in block.operations:
        for region in op.regions:
            for inner in region.blocks:
                yield from held_by(inner)
        yield op.operation


@pytest.fixture
def ends(ctx):
    """What is told of the context's operations."""
    told = []
    handler = ctx.on_operation_end(told.append)
    yield told
    handler.detach()


# ---- What is told.


def test_erased_operation(ctx, ends):
    module = ir.Module.parse('module { "demo.step"() : () -> () loc("a":1:2) }', ctx)
    step = module.body.operations[0].operation
    step.erase()
    (end,) = ends
    assert (end.name, str(end.location), end.cause, end.by) == ("demo.step", 'loc("a":1:2)', "erased", None)
    assert end.operation is step
    assert end.stack is None
    assert str(end) == "'demo.step' was erased"
    assert repr(end) == "<OperationEnd: 'demo.step' was erased>"
    # What it says does not need the reference.
    dead(lambda: step.name)
    assert end.location.context is ctx


def test_erased_with_its_parent(ctx, ends):
    module = ir.Module.parse(FUNCTION, ctx)
    function = module.body.operations[0].operation
    constant = body(module).operations[0].operation
    function.erase()
    assert {end.operation: (end.name, end.cause, end.by) for end in ends} == {
        constant: ("arith.constant", "ancestor destroyed", "'func.func'"),
        function: ("func.func", "erased", None),
    }
    assert sorted(map(str, ends)) == ["'arith.constant' ended when 'func.func' was erased", "'func.func' was erased"]


@pytest.mark.parametrize("threads", [False, True])
def test_ended_by_a_pass(ctx, ends, threads):
    ctx.enable_multithreading(threads)
    count = 100
    module = ir.Module.parse("\n".join(FUNCTION.replace("@f", f"@f{i}") for i in range(count)), ctx)
    held = list(held_by(module.body))
    where = []
    with ctx.on_operation_end(lambda end: where.append(threading.get_ident())):
        PassManager.parse("builtin.module(func.func(canonicalize))", ctx).run(module.operation)
    assert len(held) == 4 * count
    gone = [op for op in held if op in {end.operation for end in ends}]
    assert len(ends) == len(gone), "somebody was told of twice, or is nobody"
    # In structural mode all of them may have gone.
    assert len(gone) == (count if EXACT else len(held))
    for end in ends:
        assert end.cause == ("destroyed" if EXACT else "opaque mutation")
        assert end.by == "PassManager.run on 'builtin.module'"
        assert end.name == "arith.constant" or not EXACT
        assert str(end).endswith(" deleted during PassManager.run on 'builtin.module'")
    for op in held:
        if op in gone:
            dead(lambda: op.name)
        else:
            assert op.name != "arith.constant"
    assert where == [threading.get_ident()] * len(gone)


def test_ended_by_a_pattern(ctx, ends):
    module = ir.Module.parse(FUNCTION, ctx)
    constant = body(module).operations[0].operation
    during = []

    def erase(op, rewriter):
        rewriter.erase_op(op.operation)
        pause()
        during.append(list(ends))

    patterns = rewrite.RewritePatternSet(ctx)
    patterns.add(arith.ConstantOp, erase)
    rewrite.walk_and_apply_patterns(module.operation, patterns.freeze())
    assert during == [[]], "a callback was called inside of MLIR"
    # In structural mode the pattern is given a new reference; the old one may have ended when the run began.
    assert {end.name for end in ends} == {"arith.constant"} and len(ends) == (1 if EXACT else 2)
    assert constant in {end.operation for end in ends}


def test_dropped_with_its_module(ctx, ends):
    module = ir.Module.parse(FUNCTION, ctx)
    function = module.body.operations[0].operation
    del module
    pause()
    (end,) = ends
    assert (end.name, end.cause, end.by) == ("func.func", "ancestor destroyed", "'builtin.module'")
    assert end.operation is function
    assert str(end) == "'func.func' ended when 'builtin.module' was dropped"


def test_dropped_by_its_last_reference(ctx, ends):
    step = make("demo.step", ctx)
    del step
    pause()
    (end,) = ends
    assert (end.name, str(end.location), end.operation) == ("demo.step", 'loc("here")', None)
    assert str(end) == "'demo.step' was deleted"


def test_a_reference_that_goes_is_no_end(ctx, ends):
    module = ir.Module.parse(FUNCTION, ctx)
    for _ in range(3):
        assert len(list(held_by(module.body))) == 4
    step = make("demo.step", ctx)
    module.body.append(step)
    step._set_invalid()
    settle(ctx)
    pause()
    assert [end for end in ends if not end.name.startswith("builtin")] == []
    # Nor is the end of what Python has no reference to any more.
    module.body.operations[0].erase()
    assert [end.name for end in ends][-1] == "func.func"
    assert not any(end.name.startswith("arith") for end in ends)


def test_held_before_anybody_asked(ctx):
    module = ir.Module.parse('module { "demo.step"() : () -> () loc("a":1:2) }', ctx)
    step = module.body.operations[0].operation
    gone = make("demo.gone", ctx)
    gone = None
    told = []
    with ctx.on_operation_end(told.append, stack=True):
        step.erase()
    (end,) = told
    assert (end.name, str(end.location), end.operation, end.stack) == ("demo.step", 'loc("a":1:2)', step, None)


def test_what_ended_before_is_not_told(ctx):
    early, late = [], []
    with ctx.on_operation_end(early.append):
        step = make("demo.step", ctx)
        step = None
        handler = ctx.on_operation_end(late.append)
        pause()
        handler.detach()
    assert len(early) == 1 and late == []


def test_location_that_was_set(ctx, ends):
    step = make("demo.step", ctx)
    step.location = ir.Location.file("b", 3, 4, context=ctx)
    step.erase()
    assert str(ends[0].location) == 'loc("b":3:4)'


def test_an_address_that_is_used_again(ctx, ends):
    for i in range(200):
        make(f"demo.step{i}", ctx, f"place{i}").erase()
    assert [(end.name, str(end.location)) for end in ends] == [(f"demo.step{i}", f'loc("place{i}")') for i in range(200)]


# ---- The stack.


def first_reference(module):
    return module.body.operations[0].operation


def test_stack(ctx):
    module = ir.Module.parse(FUNCTION, ctx)
    plain, with_stack = [], []
    with ctx.on_operation_end(plain.append), ctx.on_operation_end(with_stack.append, stack=True):
        function = first_reference(module)
        again = module.body.operations[0].operation
        again.erase()
    assert plain[0].stack is None
    stack = with_stack[0].stack
    assert (stack[-1].filename, stack[-1].name) == (__file__, "first_reference")
    assert stack[-1].line == "return module.body.operations[0].operation"
    assert (stack[-2].name, stack[-2].line) == ("test_stack", "function = first_reference(module)")
    assert any("first_reference" in line for line in stack.format())
    dead(lambda: function.name)


def test_stack_of_what_is_built(ctx):
    told = []
    with ctx.on_operation_end(told.append, stack=True), ir.Location.unknown(ctx):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            constant = arith.constant(ir.IntegerType.get_signless(32), 1)
        constant.owner.erase()
    assert "constant = arith.constant(ir.IntegerType.get_signless(32), 1)" in [line.line for line in told[0].stack]


def test_deep_stack(ctx):
    def deep(depth):
        return deep(depth - 1) if depth else make("demo.step", ctx)

    told = []
    with ctx.on_operation_end(told.append, stack=True):
        deep(100).erase()
    assert len(told[0].stack) == 32
    assert [line.name for line in told[0].stack] == ["deep"] * 31 + ["make"]


def test_stack_keeps_no_variables(ctx):
    class Big:
        pass

    def create():
        big = Big()
        return make("demo.step", ctx), weakref.ref(big)

    with ctx.on_operation_end(lambda end: None, stack=True):
        step, big = create()
        assert big() is None
        step.erase()


# ---- Callbacks.


def test_callback_that_raises(ctx, ends, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append((args.exc_type, str(args.exc_value), args.object)))

    def broken(end):
        raise KeyError(end.name)

    after = []
    with ctx.on_operation_end(broken), ctx.on_operation_end(after.append):
        make("demo.a", ctx).erase()
        make("demo.b", ctx).erase()
    assert unraisable == [(KeyError, "'demo.a'", broken), (KeyError, "'demo.b'", broken)]
    assert [end.name for end in after] == [end.name for end in ends] == ["demo.a", "demo.b"]


def test_callback_that_erases(ctx, ends):
    left = [make(f"demo.s{i}", ctx) for i in range(2000)]
    depth, deepest = 0, 0

    def erase_another(end):
        nonlocal depth, deepest
        depth += 1
        deepest = max(depth, deepest)
        if left:
            left.pop().erase()
        depth -= 1

    with ctx.on_operation_end(erase_another):
        left.pop().erase()
    assert left == [] and deepest == 1
    assert [end.name for end in ends] == [f"demo.s{i}" for i in reversed(range(2000))]


def test_callback_that_runs_passes(ctx, ends):
    module = ir.Module.parse(FUNCTION, ctx)
    held = {op: op.name for op in held_by(module.body)}

    def clean(end):
        if end.name == "demo.step":
            PassManager.parse("builtin.module(canonicalize)", ctx).run(module.operation)

    with ctx.on_operation_end(clean):
        make("demo.step", ctx).erase()
    assert [end.name for end in ends][0] == "demo.step"
    assert {end.operation for end in ends[1:]} == {op for op, name in held.items() if not EXACT or name == "arith.constant"}


def test_callback_that_detaches_itself(ctx, ends):
    told = []

    def once(end):
        told.append(end.name)
        handler.detach()

    handler = ctx.on_operation_end(once)
    module = ir.Module.parse("module { module @a { module @b {} } }", ctx)
    held = list(held_by(module.body))
    module.body.operations[0].erase()
    assert len(held) == len(ends) == 2 and len(told) == 1
    assert not handler.attached


def test_callback_that_changes_who_is_told(ctx):
    first, second, third = [], [], []

    def swap(end):
        first.append(end.name)
        if len(first) == 1:
            other.detach()
            handlers.append(ctx.on_operation_end(lambda end: third.append(end.name)))

    handlers = [ctx.on_operation_end(swap)]
    other = ctx.on_operation_end(second.append)
    make("demo.a", ctx).erase()
    assert (first, second, third) == (["demo.a"], [], [])
    make("demo.b", ctx).erase()
    assert (first, second, third) == (["demo.a", "demo.b"], [], ["demo.b"])
    for handler in handlers:
        handler.detach()


def test_walk_whose_next_operation_a_callback_erases(ctx):
    module = ir.Module.parse("module { module @a {} module @b {} module @c {} }", ctx)
    a, b, c = (op.operation for op in module.body.operations)
    step = make("demo.step", ctx)
    seen = []

    def visit(op):
        seen.append(op)
        if op is a:
            step.erase()
        return ir.WalkResult.ADVANCE

    with ctx.on_operation_end(lambda end: b.erase() if end.operation is step else None):
        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    assert [op for op in seen if op in (a, b, c)] == [a, c]


def test_symbol_table_that_a_callback_changes(ctx):
    module = ir.Module.parse("module { module @a {} module @b {} }", ctx)
    table = ir.SymbolTable(module.operation)
    a, b = (op.operation for op in module.body.operations)
    with ctx.on_operation_end(lambda end: b.erase() if end.operation is a else None):
        table.erase(a)
    dead(lambda: b.name)
    assert "a" not in table and "b" not in table


def test_handler(ctx):
    told = []
    with ctx.on_operation_end(told.append) as handler:
        assert type(handler) is ir.OperationEndHandler and handler.attached
        make("demo.a", ctx).erase()
    assert not handler.attached
    make("demo.b", ctx).erase()
    handler.detach()
    assert [end.name for end in told] == ["demo.a"]
    with pytest.raises(TypeError):
        ctx.on_operation_end(1)
    with pytest.raises(TypeError):
        ctx.on_operation_end(told.append, True)


def test_leaving_the_block_tells_what_is_left(ctx):
    told = []
    module = ir.Module.parse(FUNCTION, ctx)
    function = module.body.operations[0].operation
    with ctx.on_operation_end(told.append):
        del module
    assert [end.operation for end in told] == [function]


# ---- Contexts.


def test_two_contexts(ctx, ends):
    other = ir.Context()
    other.allow_unregistered_dialects = True
    told = []
    mine, theirs, nobodys = make("demo.mine", ctx), make("demo.theirs", other), make("demo.late", other)
    handler = other.on_operation_end(told.append)
    theirs.erase()
    mine.erase()
    handler.detach()
    nobodys.erase()
    assert [end.name for end in ends] == ["demo.mine"]
    assert [end.name for end in told] == ["demo.theirs"]
    assert told[0].location.context is other


def test_context_lives_until_all_is_told():
    live = ir.Context._get_live_count()
    told = []
    ctx = ir.Context()
    ctx.allow_unregistered_dialects = True
    ctx.on_operation_end(lambda end: told.append((end.name, str(end.location))))
    step = make("demo.step", ctx)
    del ctx
    del step
    pause()
    assert told == [("demo.step", 'loc("here")')]
    gc.collect()
    assert ir.Context._get_live_count() == live


def test_context_that_goes_takes_its_handlers_along():
    live = ir.Context._get_live_count()
    ctx = ir.Context()
    told = []
    handler = ctx.on_operation_end(lambda end: told.append(end.name))
    module = ir.Module.parse(FUNCTION, ctx)
    assert len(list(held_by(module.body))) == 4
    step = module.body.operations[0].operation
    step._set_invalid()
    del ctx, module, step
    pause()
    gc.collect()
    assert ir.Context._get_live_count() == live
    assert told == [] and not handler.attached
    handler.detach()


def test_detaching_lets_go_of_the_context():
    live = ir.Context._get_live_count()
    ctx = ir.Context()
    module = ir.Module.parse(FUNCTION, ctx)
    told = []
    handler = ctx.on_operation_end(lambda end: told.append((end, module)))  # a circle that nobody sees
    function = module.body.operations[0].operation
    function.erase()
    handler.detach()
    assert len(told) == 1
    told.clear()
    del ctx, module, function, handler
    gc.collect()
    assert ir.Context._get_live_count() == live


@pytest.mark.parametrize("end", [lambda held: held[0].erase(), lambda held: held.pop(0) and None], ids=["erased", "dropped"])
def test_context_that_ends_in_a_callback(end):
    live = ir.Context._get_live_count()
    ctx = ir.Context()
    ctx.allow_unregistered_dialects = True
    held = [make("demo.a", ctx), make("demo.b", ctx), ctx]
    told = []

    def drop(end):
        told.append(end.name)
        held.clear()

    handler = ctx.on_operation_end(drop)
    del ctx
    end(held)
    pause()
    assert told == ["demo.a", "demo.b"]
    gc.collect()
    assert ir.Context._get_live_count() == live
    assert not handler.attached


def test_cycle_through_a_callback_is_collected():
    class Tool:
        def __init__(self):
            self.context = ir.Context()
            self.context.allow_unregistered_dialects = True
            self.handler = self.context.on_operation_end(self.told)

        def told(self, end):
            pass

    live = ir.Context._get_live_count()
    tool = Tool()
    make("demo.step", tool.context).erase()
    gone = weakref.ref(tool)
    gc.collect()
    assert tool.handler.attached
    del tool
    gc.collect()
    assert gone() is None
    assert ir.Context._get_live_count() == live


# ---- Callbacks of MLIR, threads, processes.


def test_inside_of_a_diagnostic_handler(ctx, ends):
    # It is called when MLIR is done, so what it ends is told at once.
    step = make("demo.step", ctx)
    module = ir.Module.parse('module { func.func @f() { "func.return"() : () -> () } }', ctx)
    body(module).operations[0].erase()
    ends.clear()
    during = []

    def handle(diagnostic):
        if not during:
            step.erase()
        during.append([end.operation for end in ends])
        return True

    ctx.emit_error_diagnostics = True
    with ctx.attach_diagnostic_handler(handle), pytest.raises(ir.MLIRError):
        module.operation.verify()
    assert during and during[0] == [step]


def test_not_inside_of_a_diagnostic_handler_that_a_pass_has_called(ctx, ends):
    step = make("demo.step", ctx)
    during = []

    def handle(diagnostic):
        step.erase()
        pause()
        during.append(list(ends))
        return True

    manager = PassManager("builtin.module", ctx)
    manager.add(lambda op, pass_: op.location.emit_error("now"), name="complain")
    with ctx.attach_diagnostic_handler(handle):
        manager.run(ir.Module.create(ir.Location.unknown(ctx)).operation)
    assert during == [[]]
    assert [end.operation for end in ends] == [step]


def test_on_the_thread_that_erases(ctx, ends):
    step = make("demo.step", ctx)
    where = []
    with ctx.on_operation_end(lambda end: where.append(threading.current_thread())):
        thread = threading.Thread(target=step.erase)
        thread.start()
        thread.join()
    assert where == [thread]
    assert [end.operation for end in ends] == [step]


def erase_constants(module):
    patterns = rewrite.RewritePatternSet(module.context)
    patterns.add(arith.ConstantOp, lambda op, rewriter: rewriter.erase_op(op.operation))
    return patterns.freeze()


def apply_script(module):
    script = ir.Module.parse("""module attributes {transform.with_named_sequence} {
        transform.named_sequence @__transform_main(%root: !transform.any_op) {
          %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
          transform.apply_patterns to %f { transform.apply_patterns.canonicalization } : !transform.any_op
          transform.yield } }""", module.context)
    interpreter.apply_named_sequence(module.operation, script.body.operations[0], script.operation)


def run_and_fail(module):
    def fail(op, pass_):
        body(module).operations[0].erase()
        raise KeyError

    manager = PassManager("builtin.module", module.context)
    manager.add(fail)
    with pytest.raises(KeyError):
        manager.run(module.operation)


@pytest.mark.parametrize("run", [
    lambda module: PassManager.parse("builtin.module(canonicalize)", module.context).run(module.operation),
    lambda module: rewrite.apply_patterns_and_fold_greedily(module, erase_constants(module)),
    lambda module: rewrite.walk_and_apply_patterns(module.operation, erase_constants(module)),
    apply_script,
    run_and_fail,
], ids=["passes", "greedy driver", "walk driver", "transform script", "failed pass"])
def test_a_run_tells_before_it_returns(ctx, ends, run):
    # On a thread of its own, since the main one would make up for it.
    module = ir.Module.parse(FUNCTION, ctx)
    constant = body(module).operations[0].operation
    told, where = [], []

    def work():
        with ctx.on_operation_end(lambda end: where.append(threading.current_thread())):
            run(module)
            told.extend(end.operation for end in ends)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert constant in told and set(where) == {thread}


def test_dropped_on_another_thread(ctx, ends):
    modules = [ir.Module.parse(FUNCTION, ctx)]
    function = modules[0].body.operations[0].operation
    thread = threading.Thread(target=modules.clear)
    thread.start()
    thread.join()
    pause()
    assert [end.operation for end in ends] == [function]


def test_what_is_being_worked_on_waits_for_its_own_thread(ctx, ends):
    other = ir.Context()
    other.allow_unregistered_dialects = True
    module = ir.Module.parse(FUNCTION, ctx)
    constant = body(module).operations[0].operation
    steps = [make("demo.a", other)]
    during = []

    def work(op, pass_):
        body(module).operations[0].erase()
        thread = threading.Thread(target=lambda: steps[0].erase())
        thread.start()
        thread.join()
        during.append((list(told), list(ends)))

    told = []
    handler = other.on_operation_end(told.append)
    manager = PassManager("builtin.module", ctx)
    manager.add(work)
    manager.run(module.operation)
    handler.detach()
    assert during == [(told, [])] and [end.operation for end in told] == steps
    assert constant in {end.operation for end in ends}


def test_many_threads(ctx):
    contexts = [ir.Context() for _ in range(4)]
    told = [[] for _ in contexts]
    count = 300

    def work(index):
        context = contexts[index]
        with context.on_operation_end(lambda end: told[index].append(end.name)):
            for i in range(count):
                make(f"demo.s{i}", context).erase()

    for context in contexts:
        context.allow_unregistered_dialects = True
    threads = [threading.Thread(target=work, args=[i]) for i in range(len(contexts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each is told of once; threads may tell of what another one has erased.
    assert [sorted(names) for names in told] == [sorted(f"demo.s{i}" for i in range(count))] * len(contexts)


def test_fork(ctx, ends):
    step, other = make("demo.step", ctx), make("demo.other", ctx)
    child = os.fork()
    if child == 0:
        step.erase()
        os._exit(0 if [end.operation for end in ends] == [step] else 1)
    assert os.waitpid(child, 0)[1] == 0
    other.erase()
    assert [end.operation for end in ends] == [other]


SCRIPT = """
import sys, threading
from mlir import ir
ctx = ir.Context()
ctx.allow_unregistered_dialects = True
def told(end): print("told of", end)
ctx.on_operation_end(told, stack=True)
with ir.Location.unknown(ctx):
    steps = [ir.Operation.create("demo.step") for _ in range(3)]
    module = ir.Module.parse("module { func.func private @f() }")
function = module.body.operations[0].operation
"""


@pytest.mark.parametrize("ending, output", [
    ("", ""),
    ("steps.clear()", "told of 'demo.step' was deleted\n" * 3),
    ("del module", "told of 'func.func' ended when 'builtin.module' was dropped\n"),
    ("steps[0].erase(); sys.exit(0)", "told of 'demo.step' was erased\n"),
    ("ctx.on_operation_end(lambda end: sys.exit(3)); print('on'); sys.stderr.close(); steps[0].erase()",
     "told of 'demo.step' was erased\non\n"),
    ("keep = ctx.on_operation_end(lambda end: steps); del ctx", ""),
    ("import atexit; atexit.register(steps.clear)", "told of 'demo.step' was deleted\n" * 3),
    ("threading.Thread(target=lambda: (threading.main_thread().join(), steps[0].erase())).start()",
     "told of 'demo.step' was erased\n"),
])
def test_exit(ending, output):
    status, text = in_child(SCRIPT + ending)
    assert status == 0, text
    assert sorted(text.splitlines()) == sorted(output.splitlines())
