# Diagnostic handlers in Python: called when MLIR's call is over, in order, on its thread, and free to do anything.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import gc
import threading
import warnings

import pytest
from refs import EXACT, dead, in_child, name_if_alive, refused

from mlir import ir, rewrite
from mlir.passmanager import PassManager

INVALID = 'module { func.func @f() { "func.return"() : () -> () } func.func @g() { "func.return"() : () -> () } }'


@pytest.fixture
def place(ctx):
    return ir.Location.file("user.py", 3, 1, ctx)


@pytest.fixture
def invalid(ctx):
    """A module whose functions have no terminators."""
    module = ir.Module.parse(INVALID, ctx)
    for function in module.body.operations:
        function.regions[0].blocks[0].operations[0].erase()
    return module


def noting(seen, name, answer=False):
    def handler(diagnostic):
        seen.append((name, diagnostic.message))
        return answer

    return handler


# ---- Who is told, of what, in which order.


def test_the_newest_handler_is_asked_first_and_true_ends_it(ctx, place):
    seen = []
    ctx.attach_diagnostic_handler(noting(seen, "old"))
    new = ctx.attach_diagnostic_handler(noting(seen, "new", answer=True))
    place.emit_error("one")
    new.detach()
    place.emit_error("two")
    assert seen == [("new", "one"), ("old", "two")]


def test_what_a_handler_is_shown(ctx):
    module = ir.Module.parse('func.func @f() { %0 = "t.a"() : () -> i32 "t.b"(%0) : (i32) -> () return }', ctx)
    first, second, _ = module.body.operations[0].regions[0].blocks[0].operations
    first.operation.move_after(second)
    seen = []

    def handler(diagnostic):
        seen.append((diagnostic.severity, str(diagnostic.location), diagnostic.message,
                     [(note.severity, note.message) for note in diagnostic.notes]))
        return True

    ctx.emit_error_diagnostics = True
    with ctx.attach_diagnostic_handler(handler), pytest.raises(ir.MLIRError):
        module.operation.verify()
    [(severity, location, message, notes)] = seen
    assert severity == ir.DiagnosticSeverity.ERROR and "loc(" in location and "dominate" in message
    assert all(kind == ir.DiagnosticSeverity.NOTE for kind, _ in notes) and "defined here" in notes[-1][1]


def test_captured_errors_are_in_the_exception_and_nowhere_else(ctx, invalid, capfd):
    seen = []
    with ctx.attach_diagnostic_handler(noting(seen, "told")), pytest.raises(ir.MLIRError) as caught:
        invalid.operation.verify()
    assert seen == [] and len(caught.value.error_diagnostics) == 2
    assert capfd.readouterr().err == ""


def test_what_nobody_handles_is_printed_as_mlir_does(ctx, place, capfd):
    place.emit_error("nobody hears me")
    ir.Location.unknown(ctx).emit_error("nor me")
    assert capfd.readouterr().err == 'loc("user.py":3:1): error: nobody hears me\nerror: nor me\n'


def test_what_all_handlers_decline_is_printed(ctx, place, capfd):
    seen = []
    with ctx.attach_diagnostic_handler(noting(seen, "told")):
        place.emit_error("declined")
    assert seen == [("told", "declined")]
    assert "error: declined" in capfd.readouterr().err


def test_a_handler_is_not_told_of_what_was_before_it(ctx, place):
    seen = []

    def attaches(diagnostic):
        if not seen:
            ctx.attach_diagnostic_handler(noting(seen, "late", answer=True))
        seen.append(("first", diagnostic.message))
        return False

    ctx.attach_diagnostic_handler(attaches)
    place.emit_error("one")
    place.emit_error("two")
    assert seen == [("first", "one"), ("late", "two")]


def test_two_of_one_call_come_in_order(ctx):
    seen = []
    ctx.attach_diagnostic_handler(noting(seen, "told", answer=True))
    manager = PassManager("builtin.module", ctx)
    manager.add(lambda op, pass_: [op.location.emit_error(str(i)) for i in range(5)] and None, name="complain")
    manager.run(ir.Module.create(ir.Location.unknown(ctx)).operation)
    assert [message for _, message in seen] == list("01234")


# ---- What a handler may do: anything.


@pytest.mark.parametrize("what", ["itself", "others", "all"])
def test_handler_that_detaches(ctx, place, what):
    seen, handlers = [], []

    def busy(diagnostic):
        seen.append("busy")
        for handler in {"itself": handlers[1:], "others": handlers[:1], "all": handlers}[what]:
            handler.detach()
        return False

    handlers.append(ctx.attach_diagnostic_handler(lambda d: seen.append("quiet") or False))
    handlers.append(ctx.attach_diagnostic_handler(busy))
    place.emit_error("one")
    place.emit_error("two")
    assert seen == {"itself": ["busy", "quiet", "quiet"], "others": ["busy", "busy"], "all": ["busy"]}[what]


def test_handler_that_uses_the_bindings(ctx, place, invalid):
    good = ir.Module.parse("module { func.func private @unused() }", ctx)
    unused = good.body.operations[0]
    done = []

    def handler(diagnostic):
        if done:
            return True
        done.append("begun")
        str(invalid)  # MLIR verifies what it prints
        with pytest.raises(ir.MLIRError):
            invalid.operation.verify()
        with pytest.raises(ir.MLIRError):
            ir.Module.parse("nonsense", ctx)
        PassManager.parse("builtin.module(symbol-dce)", ctx).run(good.operation)
        patterns = rewrite.RewritePatternSet(ctx)
        patterns.add("t.a", lambda op, rewriter: rewriter.erase_op(op.operation))
        own = ir.Module.parse('"t.a"() : () -> ()', ctx)
        rewrite.apply_patterns_and_fold_greedily(own, patterns.freeze())
        assert len(own.body.operations) == 0
        with ctx.attach_diagnostic_handler(lambda d: True):
            pass
        done.append("done")
        return True

    with ctx.attach_diagnostic_handler(handler) as attached:
        place.emit_error("now")
        assert not attached.had_error
    assert done == ["begun", "done"]
    dead(lambda: unused.operation.name)


def test_handler_that_erases_what_was_verified(ctx, invalid):
    functions = list(invalid.body.operations)
    ctx.emit_error_diagnostics = True
    handler = ctx.attach_diagnostic_handler(lambda d: functions.pop().erase() or True)
    with pytest.raises(ir.MLIRError):
        invalid.operation.verify()
    assert not handler.had_error and functions == [] and len(invalid.body.operations) == 0


def test_handler_that_erases_what_a_driver_had_worked_on(ctx, place):
    module = ir.Module.parse('"t.a"() : () -> () "t.b"() : () -> ()', ctx)
    other = module.body.operations[1].operation
    patterns = rewrite.RewritePatternSet(ctx)
    emitted = []

    def complain(op, rewriter):
        if not emitted:
            emitted.append(place)
            place.emit_error("a pattern complains")  # told here: this call of MLIR is over
        return True

    told = []

    def handler(diagnostic):
        told.append(name_if_alive(other))
        refused(lambda: PassManager.parse("builtin.module(cse)", ctx).run(module.operation), "at work")
        return True

    patterns.add("t.a", complain)
    with ctx.attach_diagnostic_handler(handler) as attached:
        rewrite.apply_patterns_and_fold_greedily(module, patterns.freeze())
        assert not attached.had_error
    assert told == ["t.b" if EXACT else None]


def test_handler_of_a_run_that_has_failed_may_erase(ctx):
    module = ir.Module.parse('module { func.func @f() { "test.op"() : () -> () return } }', ctx)
    ctx.emit_error_diagnostics = True
    manager = PassManager.parse("builtin.module(ownership-based-buffer-deallocation)", ctx)  # it does not know test.op
    handler = ctx.attach_diagnostic_handler(lambda d: [op.erase() for op in module.body.operations] is None or True)
    with pytest.raises(ir.MLIRError):
        manager.run(module.operation)
    assert not handler.had_error and len(module.body.operations) == 0


def test_handler_that_drops_the_last_reference_to_the_context():
    held = [ir.Context()]
    place = [ir.Location.unknown(held[0])]
    seen = []

    def handler(diagnostic):
        seen.append(diagnostic.message)
        held.clear()
        place.clear()
        gc.collect()
        return True

    held[0].attach_diagnostic_handler(handler)
    place[0].emit_error("now")
    assert seen == ["now"]


def test_handler_that_complains_itself_ends_with_an_exception(ctx, place, capfd):
    with ctx.attach_diagnostic_handler(lambda d: place.emit_error("again") or True) as handler:
        place.emit_error("now")
        assert handler.had_error
    assert "RecursionError" in capfd.readouterr().err


def test_handler_with_no_stack_left(ctx, place):
    code, output = in_child("""
import sys, threading
from mlir import ir
ctx = ir.Context()
ctx.attach_diagnostic_handler(lambda d: deeper(d))
def deeper(d): return deeper(d)
def parse_with_less_and_less_left():
    try: parse_with_less_and_less_left()
    except RecursionError:
        try: ir.Module.parse("nonsense", ctx)
        except (ir.MLIRError, RecursionError): pass
for limit in range(200, 260):
    sys.setrecursionlimit(limit)
    parse_with_less_and_less_left()
sys.setrecursionlimit(1000)
done = threading.Event()
def other():
    try: ir.Module.parse("nonsense", ctx)
    except ir.MLIRError: done.set()
threading.Thread(target=other, daemon=True).start()
print("ok" if done.wait(20) else "hangs")
""")
    assert code == 0 and output.splitlines()[-1] == "ok", output


# ---- Exceptions.


def test_exception_of_a_handler_is_printed_and_the_next_one_asked(ctx, place, capfd):
    seen = []
    ctx.attach_diagnostic_handler(noting(seen, "old", answer=True))
    bad = ctx.attach_diagnostic_handler(lambda d: 1 / 0)
    place.emit_error("now")
    assert bad.had_error and seen == [("old", "now")]
    assert "ZeroDivisionError" in capfd.readouterr().err


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interruption_in_a_handler_comes_through(ctx, place, invalid, kind, capfd):
    def handler(diagnostic):
        raise kind("stop")

    handler = ctx.attach_diagnostic_handler(handler)
    calls = {
        "emit_error": lambda: place.emit_error("now"),
        "verify": lambda: invalid.operation.verify(),
        "parse": lambda: ir.Module.parse("nonsense", ctx),
        "attribute": lambda: ir.Attribute.parse("nonsense", ctx),
    }
    ctx.emit_error_diagnostics = True
    for name, call in calls.items():
        with pytest.raises(kind):
            call()
        assert "error: " in capfd.readouterr().err, name  # nobody has handled it
    assert not handler.had_error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interruption_in_other_callbacks_comes_through(ctx, kind):
    module = ir.Module.parse('module { "t.a"() : () -> () }', ctx)

    def stop(*arguments):
        raise kind("stop")

    patterns = rewrite.RewritePatternSet(ctx)
    patterns.add("t.a", stop)
    frozen = patterns.freeze()
    manager = PassManager("builtin.module", ctx)
    manager.add(stop)
    for call in (
        lambda: module.operation.walk(stop),
        lambda: module.operation.walk(stop, ir.WalkOrder.PRE_ORDER),
        lambda: ir.SymbolTable.walk_symbol_tables(module.operation, True, stop),
        lambda: manager.run(module.operation),
        lambda: rewrite.apply_patterns_and_fold_greedily(module, frozen),
        lambda: rewrite.walk_and_apply_patterns(module.operation, frozen),
    ):
        with pytest.raises(kind):
            call()


# ---- Runs that succeed although something was wrong.


# A layout that this pass complains of, before it goes on and succeeds.
STRANGE = "func.func private @f(memref<4x4xf32, affine_map<(i, j) -> (j, i)>>)"


def lower(ctx):
    module = ir.Module.parse(STRANGE, ctx)
    PassManager.parse("builtin.module(convert-func-to-llvm)", ctx).run(module.operation)


def test_error_of_a_pass_that_succeeds_becomes_a_warning(ctx, capfd):
    with pytest.warns(RuntimeWarning, match="error: conversion to strided form failed"):
        lower(ctx)
    assert capfd.readouterr().err == ""


def test_such_a_warning_may_be_an_exception(ctx):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="strided form"):
            lower(ctx)


@pytest.mark.parametrize("emit", [False, True])
def test_handler_hears_an_error_of_a_pass_that_succeeds(ctx, emit):
    seen = []
    ctx.emit_error_diagnostics = emit
    with ctx.attach_diagnostic_handler(noting(seen, "told", answer=True)), warnings.catch_warnings():
        warnings.simplefilter("error")
        lower(ctx)
    assert seen and all("strided form" in message for _, message in seen)


def test_error_of_a_pass_that_succeeds_is_printed_if_that_is_wanted(ctx, capfd):
    ctx.emit_error_diagnostics = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower(ctx)
    assert "error: conversion to strided form failed" in capfd.readouterr().err


def test_error_of_a_pass_before_one_that_raises_is_not_lost(ctx):
    manager = PassManager.parse("builtin.module(convert-func-to-llvm)", ctx)
    manager.add(lambda op, pass_: 1 / 0, name="raises")
    with pytest.warns(RuntimeWarning, match="strided form"), pytest.raises(ZeroDivisionError):
        manager.run(ir.Module.parse(STRANGE, ctx).operation)


# ---- Threads.


def test_threads_that_share_a_handler(ctx, place):
    import sys

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    by_thread = {}

    def handler(diagnostic):
        by_thread.setdefault(threading.get_ident(), []).append(diagnostic.message)
        sum(range(500))
        return True

    wrong = []
    both = threading.Barrier(2)

    def work(name):
        both.wait(60)  # or one might get the number of the other
        for i in range(100):
            place.emit_error(f"{name} {i}")
            try:
                ir.Module.parse(f'module {{ "{name} {i}', ctx)
            except ir.MLIRError as error:
                if len(error.error_diagnostics) != 1:
                    wrong.append(error.error_diagnostics)
        if by_thread.get(threading.get_ident()) != [f"{name} {i}" for i in range(100)]:
            wrong.append(name)
        both.wait(60)

    try:
        with ctx.attach_diagnostic_handler(handler):
            threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not any(thread.is_alive() for thread in threads)
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


def test_error_of_another_thread_is_not_in_the_exception(ctx, place):
    other_done = threading.Event()

    def other():
        place.emit_error("of the other thread")
        with pytest.raises(ir.MLIRError):
            ir.Module.parse("nonsense", ctx)
        other_done.set()

    def fail(op, pass_):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(30)
        op.location.emit_error("of this one")
        pass_.signal_pass_failure()

    manager = PassManager("builtin.module", ctx)
    manager.add(fail)
    seen = []
    with ctx.attach_diagnostic_handler(noting(seen, "told", answer=True)), pytest.raises(ir.MLIRError) as caught:
        manager.run(ir.Module.create(ir.Location.unknown(ctx)).operation)
    assert other_done.is_set()
    assert [message for _, message in seen] == ["of the other thread", "of this one"]
    assert "other" not in str(caught.value)


# ---- Lifetime.


def test_circle_through_a_handler_is_collected():
    gc.collect()
    before = ir.Context._get_live_count()
    ctx = ir.Context()
    handler = ctx.attach_diagnostic_handler(lambda diagnostic: ctx is None)
    del ctx
    gc.collect()
    assert ir.Context._get_live_count() == before
    assert not handler.attached
    handler.detach()


def test_handler_holds_no_context(ctx):
    handler = ir.Context().attach_diagnostic_handler(lambda diagnostic: True)
    gc.collect()
    assert not handler.attached


# ---- Each call that may emit something.


def test_calls_that_emit_tell_before_they_return(ctx, invalid):
    from mlir.execution_engine import ExecutionEngine

    seen = []
    strange = ir.Module.parse("module { func.func @f() { return } }", ctx)
    i32 = ir.Type.parse("i32", ctx)
    calls = {
        "engine": lambda: ExecutionEngine(strange),
        "parse": lambda: ir.Module.parse("nonsense", ctx),
        "verify": invalid.operation.verify,
        "type": lambda: ir.Type.parse("tensor<wrong", ctx),
        "attribute": lambda: ir.Attribute.parse("dense<", ctx),
        "checked": lambda: ir.VectorType.get([-3], i32, loc=ir.Location.unknown(ctx)),
    }
    ctx.emit_error_diagnostics = True
    with ctx.attach_diagnostic_handler(noting(seen, "told", answer=True)):
        for name, call in calls.items():
            seen.clear()
            try:
                call()
            except Exception:
                pass
            assert seen, name
