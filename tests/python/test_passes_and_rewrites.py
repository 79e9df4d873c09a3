# Runs of C++ code over IR that Python has references into: what they remove ends, what they keep lives
# (in structural mode nobody can tell, so all below the root ends), and what Python is called with only
# lasts for the call.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import gc
import threading

import pytest

from mlir import ir, rewrite
from mlir.dialects import arith, builtin, func, pdl
from mlir.dialects.transform import interpreter
from mlir.passmanager import PassManager

from refs import EXACT, dead, in_child, name_if_alive, names, refused, settle, survives

FOLDABLE = """module { func.func @f(%a: i32) -> i32 {
  %dead = arith.constant 7 : i32
  %x = arith.muli %a, %a : i32
  %y = arith.muli %a, %a : i32
  %z = arith.addi %x, %y : i32
  return %z : i32 } }"""


def body(module, index=0):
    return module.body.operations[index].regions[0].blocks[0]


# ---- Passes.


def test_pass_ends_exactly_what_it_removes(ctx):
    module = ir.Module.parse(FOLDABLE, ctx)
    constant, x, y, z, ret = list(body(module).operations)
    block, value = body(module), x.results[0]
    PassManager.parse("builtin.module(canonicalize,cse)", ctx).run(module.operation)
    settle(ctx)
    dead(lambda: constant.operation.name, "PassManager.run")
    dead(lambda: y.results[0].type)
    survives(lambda: x.operation.name, "arith.muli")
    survives(lambda: str(value.type), "i32")
    survives(lambda: len(block.operations), 3)
    survives(lambda: z.operands[0] == z.operands[1], True)
    assert names(body(module)) == ["arith.muli", "arith.addi", "func.return"]


def test_pass_on_a_part_leaves_the_rest_alone(ctx):
    module = ir.Module.parse(FOLDABLE.replace("} }", "} func.func @g() { %c = arith.constant 1 : i32 return } }"), ctx)
    f, g = list(module.body.operations)
    beside = list(g.regions[0].blocks[0].operations)
    PassManager.parse("func.func(canonicalize)", ctx).run(f.operation)
    assert f.operation.name == g.operation.name == "func.func"
    assert [op.operation.name for op in beside] == ["arith.constant", "func.return"]


def test_python_pass(ctx):
    module = ir.Module.parse(FOLDABLE, ctx)
    kept = []

    def work(op, pass_):
        kept.append((op, op.regions[0].blocks[0].operations[0], pass_))
        op.regions[0].blocks[0].operations[0].attributes["seen"] = ir.UnitAttr.get(ctx)

    manager = PassManager("builtin.module", ctx)
    manager.add(work)
    manager.add("canonicalize")
    manager.run(module.operation)
    op, function, pass_ = kept[0]
    assert op is module.operation
    survives(lambda: "seen" in function.attributes, True)
    dead(lambda: pass_.signal_pass_failure(), "callback")


def test_python_pass_that_raises(ctx):
    module = ir.Module.parse(FOLDABLE, ctx)

    def broken(op, pass_):
        raise KeyError("mine")

    manager = PassManager("builtin.module", ctx)
    manager.add(broken)
    with pytest.raises(KeyError, match="mine"):
        manager.run(module.operation)
    dropped = list(body(module).operations)[0]
    PassManager.parse("builtin.module(canonicalize)", ctx).run(module.operation)
    dead(lambda: dropped.operation.name)


def test_python_pass_for_another_operation(ctx):
    manager = PassManager("builtin.module", ctx)
    refused(lambda: manager.add(lambda op, pass_: None, name="x", op_name="func.func"), "'func.func'", "'builtin.module'")
    assert str(manager) == "builtin.module()"
    manager.add(lambda op, pass_: None, name="x", op_name="builtin.module")
    PassManager("any", ctx).add(lambda op, pass_: None, name="x", op_name="func.func")


def test_python_pass_must_not_erase_what_is_being_worked_on(ctx):
    module = ir.Module.parse("module { module @a { func.func private @x() } module @b {} }", ctx)
    troubles = []

    def work(op, pass_):
        for accident in (lambda: op.erase(), lambda: op.parent.erase(), lambda: op.detach_from_parent(),
                         lambda: op.move_after(module.body.operations[1]), lambda: module.body.append(op)):
            try:
                accident()
                troubles.append(accident)
            except ValueError:
                pass
        op.regions[0].blocks[0].operations[0].erase()  # this one is inside

    manager = PassManager("builtin.module", ctx)
    manager.add(work)
    manager.run(module.body.operations[0].operation)
    assert not troubles
    assert [len(m.regions[0].blocks[0].operations) for m in module.body.operations] == [0, 0]


def test_pass_manager_that_is_busy(ctx):
    module = ir.Module.parse(FOLDABLE, ctx)
    manager = PassManager("builtin.module", ctx)
    troubles = []

    def work(op, pass_):
        for accident in (lambda: manager.add("cse"), lambda: manager.run(module.operation), lambda: manager.add(work)):
            try:
                accident()
                troubles.append(accident)
            except ValueError:
                pass

    manager.add(work)
    manager.run(module.operation)
    assert not troubles


def test_module_dropped_by_its_own_pass(ctx):
    box = [ir.Module.parse(FOLDABLE, ctx)]

    def work(op, pass_):
        box.clear()
        gc.collect()

    manager = PassManager("func.func", ctx)
    manager.add(work)
    function = box[0].body.operations[0]
    manager.run(function.operation)
    settle(ctx)
    dead(lambda: function.operation.name)


def test_failed_pass(ctx):
    module = ir.Module.parse(FOLDABLE, ctx)
    constant, x = list(body(module).operations)[:2]
    manager = PassManager("builtin.module", ctx)
    manager.add("canonicalize")
    manager.add(lambda op, pass_: pass_.signal_pass_failure(), name="fail")
    with pytest.raises(ir.MLIRError):
        manager.run(module.operation)
    dead(lambda: constant.operation.name)
    survives(lambda: x.operation.name, "arith.muli")


def test_diagnostic_handler_during_a_pass(ctx):
    module = ir.Module.parse('module { func.func @f() { %0 = arith.constant 1 : i32 "test.op"() : () -> () return } }', ctx)
    held = list(body(module).operations)
    seen = []

    def handler(diagnostic):
        seen.extend(map(name_if_alive, held))
        try:
            module.body.operations[0].erase()
        except ValueError:
            seen.append("refused")
        return True

    ctx.emit_error_diagnostics = True

    def fail(op, pass_):
        op.location.emit_error("now")
        pass_.signal_pass_failure()

    manager = PassManager("builtin.module", ctx)
    manager.add("canonicalize")
    manager.add(fail)
    with ctx.attach_diagnostic_handler(handler), pytest.raises(ir.MLIRError):
        manager.run(module.operation)
    assert seen[0] is None
    assert seen[1] == ("test.op" if EXACT else None)


def test_diagnostic_handler_of_what_a_pass_has_removed(ctx):
    module = ir.Module.parse('module { func.func @f() { %0 = arith.constant 1 : i32 "test.op"() : () -> () return } }', ctx)
    held, seen = [], []

    def handler(diagnostic):
        seen.extend(map(name_if_alive, held))
        return True

    ctx.emit_error_diagnostics = True
    manager = PassManager("builtin.module", ctx)
    manager.add(lambda op, pass_: held.extend(body(module).operations), name="look")
    manager.add("canonicalize,ownership-based-buffer-deallocation")  # the second one complains of test.op
    with ctx.attach_diagnostic_handler(handler), pytest.raises(ir.MLIRError):
        manager.run(module.operation)
    assert seen[:3] == ([None, "test.op", "func.return"] if EXACT else [None] * 3)


def test_diagnostic_after_its_callback(ctx):
    module = ir.Module.parse('module { func.func @f() { %0 = "test.a"() : () -> i32 "test.b"(%0) : (i32) -> () return } }', ctx)
    a, b, _ = list(body(module).operations)
    a.operation.move_after(b)
    kept, seen = [], []

    def handler(diagnostic):
        notes = diagnostic.notes
        seen.append((diagnostic.message, [note.message for note in notes]))
        kept.extend([diagnostic, *notes])
        return True

    ctx.emit_error_diagnostics = True
    with ctx.attach_diagnostic_handler(handler), pytest.raises(ir.MLIRError):
        module.operation.verify()
    assert len(seen) == 1 and "dominate" in seen[0][0] and any("defined here" in note for note in seen[0][1])
    for diagnostic in kept:
        for use in (lambda: diagnostic.message, lambda: diagnostic.severity, lambda: diagnostic.location, lambda: diagnostic.notes):
            refused(use, "outside of callback")
        assert str(diagnostic) == "<Invalid Diagnostic>"


def test_diagnostic_handler_outlives_its_context():
    ctx = ir.Context()
    handler, other = ctx.attach_diagnostic_handler(lambda d: True), ctx.attach_diagnostic_handler(lambda d: True)
    other.detach()
    other.detach()
    assert handler.attached and not other.attached
    del ctx
    gc.collect()
    assert not handler.attached
    handler.detach()


def test_released_pass_manager(ctx):
    manager = PassManager("builtin.module", ctx)
    manager._testing_release()
    dead(lambda: str(manager))
    dead(lambda: manager.add("cse"))
    dead(lambda: manager._CAPIPtr)


# ---- Rewrite drivers.


def apply(ctx, module, root, fn, driver="greedy"):
    with ctx:
        patterns = rewrite.RewritePatternSet()
        patterns.add(root, fn)
        frozen = patterns.freeze()
        if driver == "greedy":
            rewrite.apply_patterns_and_fold_greedily(module, frozen)
        elif driver == "greedy on op":
            rewrite.apply_patterns_and_fold_greedily(module.operation, frozen)
        else:
            rewrite.walk_and_apply_patterns(module.operation, frozen)


DRIVERS = ["greedy", "greedy on op", "walk"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_pattern_that_replaces(ctx, driver):
    module = ir.Module.parse(FOLDABLE, ctx)
    x, z = body(module).operations[1], body(module).operations[3]
    old, arg = x.results[0], body(module).arguments[0]
    kept = []

    def replace(op, rewriter):
        with rewriter.ip, op.operation.location:
            new = arith.AddIOp(op.operands[0], op.operands[1])
        rewriter.replace_op(op, new)
        kept.extend([rewriter, op, new])

    apply(ctx, module, arith.MulIOp, replace, driver)
    settle(ctx)
    rewriter, op, new = kept[:3]
    dead(lambda: op.operation.name)
    dead(lambda: old.type)
    dead(lambda: x.operation.name)
    dead(lambda: rewriter.ip, "rewriter")
    dead(lambda: rewriter.erase_op(module.body.operations[0].operation), "rewriter")
    dead(lambda: rewriter.replace_op(module.body.operations[0], []), "rewriter")
    survives(lambda: new.operation.name, "arith.addi")
    survives(lambda: str(arg.type), "i32")
    assert "arith.muli" not in names(body(module))


@pytest.mark.parametrize("driver", DRIVERS)
def test_pattern_that_replaces_by_values(ctx, driver):
    module = ir.Module.parse(FOLDABLE, ctx)

    def replace(op, rewriter):
        rewriter.replace_op(op, [op.operands[0]])

    apply(ctx, module, "arith.muli", replace, driver)
    assert module.operation.verify()
    assert "arith.muli" not in names(body(module))


@pytest.mark.parametrize("driver", DRIVERS)
def test_pattern_that_erases_without_the_rewriter(ctx, driver):
    module = ir.Module.parse(
        "module { func.func @f(%a: i32) { " + " ".join('"test.old"() : () -> ()' for _ in range(20)) + ' "test.keep"(%a) : (i32) -> () return } }', ctx)
    keep, calls = body(module).operations[20], []

    def erase(op, rewriter):
        calls.append(op)
        others = [other for other in op.operation.block.operations if other.operation.name == "test.old" and other != op]
        op.erase()
        dead(lambda: op.operation.name)
        if driver != "walk":
            others[0].erase()  # it is in the driver's list

    apply(ctx, module, "test.old", erase, driver)
    settle(ctx)
    assert len(calls) == (20 if driver == "walk" else 10)
    survives(lambda: keep.operation.name, "test.keep")
    assert names(body(module)) == ["test.keep", "func.return"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_pattern_that_asks_for_the_impossible(ctx, driver):
    module = ir.Module.parse(FOLDABLE, ctx)
    troubles, calls = [], []

    def accidents(op, rewriter):
        calls.append(op.operation.name)
        z = op.results[0].uses.__next__().owner if len(list(op.results[0].uses)) else None
        for accident in (
            lambda: rewriter.erase_op(op.operation), lambda: op.erase(), lambda: rewriter.replace_op(op, op),
            lambda: rewriter.replace_op(op, []), lambda: rewriter.replace_op(op, [op.results[0]]),
            lambda: rewriter.replace_op(op, [op.operands[0], op.operands[0]]), lambda: module.operation.erase(),
            lambda: rewriter.erase_op(module.operation),
        ):
            try:
                accident()
                troubles.append(accident)
            except ValueError:
                pass
        return True

    apply_failed = None
    apply(ctx, module, "arith.muli", accidents, driver)
    assert calls and not troubles
    assert module.operation.verify()


def test_walk_driver_must_not_lose_its_place(ctx):
    module = ir.Module.parse('module { func.func @f() { "test.a"() : () -> () "test.b"() : () -> () "test.b"() : () -> () return } }', ctx)
    troubles = []

    def erase_next(op, rewriter):
        for other in list(body(module).operations)[1:3]:
            try:
                rewriter.erase_op(other.operation)
                troubles.append(other)
            except ValueError:
                pass

    apply(ctx, module, "test.a", erase_next, "walk")
    assert not troubles and names(body(module)) == ["test.a", "test.b", "test.b", "func.return"]
    apply(ctx, module, "test.a", lambda op, rewriter: [rewriter.erase_op(o.operation) for o in list(body(module).operations)[:3]] and None)
    assert names(body(module)) == ["func.return"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_pattern_that_raises(ctx, driver):
    module = ir.Module.parse(FOLDABLE, ctx)
    calls = []

    def broken(op, rewriter):
        calls.append(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        apply(ctx, module, "arith.muli", broken, driver)
    assert len(calls) == 1
    with pytest.raises(ir.DeadReferenceError):
        apply(ctx, module, "arith.muli", lambda op, r: (r.replace_op(op, [op.operands[0]]), op.operation.name)[1], driver)
    assert module.operation.verify()


@pytest.mark.parametrize("driver", DRIVERS)
def test_pattern_that_moves_and_detaches(ctx, driver):
    module = ir.Module.parse(
        """module { func.func @f() { "test.a"() : () -> () "test.b"() ({ "test.c"() : () -> () }) : () -> () return } func.func @g() { return } }""", ctx)
    troubles, done = [], []

    def pattern(op, rewriter):
        if done:
            return True
        done.append(op)
        a, b, ret = list(body(module).operations)
        for accident in (lambda: op.operation.detach_from_parent(), lambda: b.operation.detach_from_parent(), lambda: b.regions[0].blocks[0].operations[0].operation.detach_from_parent()):
            try:
                accident()
                troubles.append(accident)
            except ValueError:
                pass
        end = body(module, 1).operations[0]
        if driver == "walk":
            refused(lambda: b.operation.move_before(end), "walk_and_apply_patterns")
            refused(lambda: body(module, 1).append(b), "walk_and_apply_patterns")
            refused(lambda: b.regions[0].blocks[0].append_to(module.body.operations[1].regions[0]), "walk_and_apply_patterns")
            op.operation.move_before(end)
        else:
            b.operation.move_before(end)

    apply(ctx, module, "test.a", pattern, driver)
    assert done and not troubles
    assert names(body(module, 1)) == (["test.a", "func.return"] if driver == "walk" else ["test.b", "func.return"])


def test_pattern_set_used_twice(ctx):
    with ctx:
        patterns = rewrite.RewritePatternSet()
        patterns.add("arith.muli", lambda op, rewriter: True)
        frozen = patterns.freeze()
    refused(lambda: patterns.freeze(), "frozen")
    refused(lambda: patterns.add("arith.addi", lambda op, rewriter: True), "frozen")
    module = ir.Module.parse(FOLDABLE, ctx)
    rewrite.walk_and_apply_patterns(module.operation, frozen)
    rewrite.walk_and_apply_patterns(module.operation, frozen)


def test_patterns_keep_their_context():
    gc.collect()
    before = ir.Context._get_live_count()
    context = ir.Context()
    patterns = rewrite.RewritePatternSet(context)
    del context
    gc.collect()
    patterns.add("arith.muli", lambda op, rewriter: True)
    frozen = patterns.freeze()
    del patterns
    gc.collect()
    assert ir.Context._get_live_count() == before + 1
    del frozen
    gc.collect()
    assert ir.Context._get_live_count() == before


PDL = """module {
  pdl.pattern : benefit(1) {
    %i32 = pdl.type : i32
    %in = pdl.operand
    %op = pdl.operation "arith.muli" (%in, %in : !pdl.value, !pdl.value) -> (%i32 : !pdl.type)
    pdl.apply_native_constraint "allow"(%op : !pdl.operation)
    pdl.rewrite %op {
      %new = pdl.apply_native_rewrite "make"(%op, %in : !pdl.operation, !pdl.value) : !pdl.operation
      pdl.replace %op with %new
    }
  } }"""


def pdl_set(ctx, allow, make):
    module = rewrite.PDLModule(ir.Module.parse(PDL, ctx))
    module.register_constraint_function("allow", allow)
    module.register_rewrite_function("make", make)
    return module.freeze()


def test_pdl_functions(ctx):
    module = ir.Module.parse(FOLDABLE, ctx)
    x = body(module).operations[1]
    kept = []

    def make(rewriter, results, values):
        op, operand = values
        with rewriter.ip, op.location:
            new = arith.AddIOp(operand, operand)
        results.append(new.operation)
        kept.extend([rewriter, results, op])

    frozen = pdl_set(ctx, lambda rewriter, results, values: None, make)
    settle(ctx)
    rewrite.apply_patterns_and_fold_greedily(module, frozen)
    settle(ctx)
    assert "arith.muli" not in names(body(module))
    dead(lambda: x.operation.name)
    dead(lambda: kept[2].name)
    dead(lambda: kept[0].ip, "rewriter")
    dead(lambda: kept[1].append(ir.UnitAttr.get(ctx)), "result list")


def test_pdl_functions_that_raise(ctx):
    def broken(rewriter, results, values):
        raise KeyError("mine")

    for constraint, make in ((broken, lambda r, l, v: None), (lambda r, l, v: None, broken)):
        module = ir.Module.parse(FOLDABLE, ctx)
        with pytest.raises(KeyError, match="mine"):
            rewrite.apply_patterns_and_fold_greedily(module, pdl_set(ctx, constraint, make))
        assert "arith.muli" in names(body(module))
        assert module.operation.verify()


def test_pdl_functions_that_answer_nonsense(ctx):
    allow = lambda rewriter, results, values: None
    for make in (lambda r, l, v: None, lambda r, l, v: l.append(v[1]), lambda r, l, v: (l.append(v[0]), l.append(v[0])) and None,
                 lambda r, l, v: True, lambda r, l, v: r.erase_op(v[0]), lambda r, l, v: v[0].erase(),
                 lambda r, l, v: r.replace_op(v[0], [v[1]])):
        module = ir.Module.parse(FOLDABLE, ctx)
        refused(lambda: rewrite.apply_patterns_and_fold_greedily(module, pdl_set(ctx, allow, make)))
        assert module.operation.verify()
    module = ir.Module.parse(FOLDABLE, ctx)
    refused(lambda: rewrite.apply_patterns_and_fold_greedily(module, pdl_set(ctx, lambda r, l, v: l.append(v[0]), None or (lambda r, l, v: None))))
    rewrite.apply_patterns_and_fold_greedily(module, pdl_set(ctx, lambda r, l, v: True, lambda r, l, v: None))
    assert "arith.muli" in names(body(module))


def test_pdl_function_that_does_the_whole_rewrite(ctx):
    source = PDL[: PDL.index("pdl.apply_native_constraint")] + 'pdl.rewrite %op with "replace"(%in : !pdl.value) } }'
    patterns = rewrite.PDLModule(ir.Module.parse(source, ctx))
    patterns.register_rewrite_function("replace", lambda rewriter, results, values: rewriter.replace_op(values[0], [values[1]]))
    module = ir.Module.parse(FOLDABLE, ctx)
    x = body(module).operations[1]
    rewrite.apply_patterns_and_fold_greedily(module, patterns.freeze())
    dead(lambda: x.operation.name)
    assert "arith.muli" not in names(body(module)) and module.operation.verify()


def test_pdl_module_is_taken_over(ctx):
    source = ir.Module.parse(PDL, ctx)
    inside = source.body.operations[0]
    module = rewrite.PDLModule(source)
    dead(lambda: source.operation)
    with pytest.raises(ir.DeadReferenceError):
        rewrite.PDLModule(source)
    module.register_constraint_function("allow", lambda r, l, v: None)
    module.register_rewrite_function("make", lambda r, l, v: None)
    frozen = module.freeze()
    refused(lambda: module.freeze(), "frozen")
    del module, source, inside, frozen
    settle(ctx)


# ---- The transform interpreter.

SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %f = transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %f { transform.apply_patterns.canonicalization } : !transform.any_op
    transform.apply_cse to %f : !transform.any_op
    transform.yield } }"""


def test_named_sequence(ctx):
    script, module = ir.Module.parse(SCRIPT, ctx), ir.Module.parse(FOLDABLE, ctx)
    sequence = script.body.operations[0]
    steps = list(sequence.regions[0].blocks[0].operations)
    constant, x, y, z, ret = list(body(module).operations)
    interpreter.apply_named_sequence(module.operation, sequence, script.operation)
    settle(ctx)
    dead(lambda: constant.operation.name, "apply_named_sequence")
    dead(lambda: y.operation.name)
    survives(lambda: x.operation.name, "arith.muli")
    assert [s.operation.name for s in steps][-1] == "transform.yield"
    assert module.operation.name == "builtin.module"


def test_named_sequence_on_a_detached_module(ctx):
    script = ir.Module.parse(SCRIPT, ctx)
    with ctx:
        payload = builtin.ModuleOp.parse(FOLDABLE)
    for _ in range(3):
        interpreter.apply_named_sequence(payload, script.body.operations[0], script)
        settle(ctx)
    assert payload.operation.name == "builtin.module" and not payload.operation.attached
    x = payload.body.operations[0].regions[0].blocks[0].operations[0]
    del payload
    settle(ctx)
    dead(lambda: x.operation.name)


def test_named_sequence_that_fails(ctx):
    script = ir.Module.parse(
        """module attributes {transform.with_named_sequence} {
             transform.named_sequence @__transform_main(%root: !transform.any_op) {
               %c = transform.structured.match ops{["arith.constant"]} in %root : (!transform.any_op) -> !transform.any_op
               transform.apply_dce to %root : !transform.any_op
               transform.test_this_does_not_exist } }""".replace("transform.test_this_does_not_exist", "transform.yield"), ctx)
    module = ir.Module.parse(FOLDABLE, ctx)
    dead_before = body(module).operations[0]
    interpreter.apply_named_sequence(module.operation, script.body.operations[0], script.operation)
    dead(lambda: dead_before.operation.name)
    with pytest.raises(ValueError):
        interpreter.apply_named_sequence(module.operation, body(module).operations[0], module.operation)
    gone = module.body.operations[0]
    gone.erase()
    dead(lambda: interpreter.apply_named_sequence(gone, script.body.operations[0], script.operation))
    dead(lambda: interpreter.apply_named_sequence(module.operation, gone, script.operation))
    dead(lambda: interpreter.apply_named_sequence(module.operation, script.body.operations[0], gone))


def test_named_sequence_inside_of_its_payload(ctx):
    module = ir.Module.parse(SCRIPT.rsplit("}", 1)[0] + FOLDABLE.split("{", 1)[1].rsplit("}", 1)[0] + "}", ctx)
    sequence, function = list(module.body.operations)
    constant, x = list(function.regions[0].blocks[0].operations)[:2]
    interpreter.apply_named_sequence(module.operation, sequence, module.operation)
    dead(lambda: constant.operation.name, "apply_named_sequence")
    survives(lambda: sequence.operation.name, "transform.named_sequence")
    survives(lambda: x.operation.name, "arith.muli")


def test_merged_symbols(ctx):
    target = ir.Module.parse("module attributes {transform.with_named_sequence} { transform.named_sequence private @s(!transform.any_op {transform.readonly}) }", ctx)
    other = ir.Module.parse("""module attributes {transform.with_named_sequence} {
        transform.named_sequence @s(%r: !transform.any_op {transform.readonly}) { transform.yield } }""", ctx)
    declaration, definition = target.body.operations[0], other.body.operations[0]
    interpreter.copy_symbols_and_merge_into(target, other)
    settle(ctx)
    dead(lambda: declaration.operation.name)
    assert definition.operation.name == "transform.named_sequence"
    assert len(target.body.operations) == 1


# ---- Threads.


def test_passes_in_threads(ctx):
    troubles = []

    def work():
        try:
            for _ in range(20):
                own = ir.Context()
                module = ir.Module.parse(FOLDABLE, own)
                constant, x = list(body(module).operations)[:2]
                PassManager.parse("builtin.module(canonicalize,cse)", own).run(module.operation)
                dead(lambda: constant.operation.name)
                survives(lambda: x.operation.name, "arith.muli")
        except BaseException as e:
            troubles.append(e)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not troubles


def test_many_functions_on_many_threads(ctx):
    module = ir.Module.parse("module {" + " ".join(f"func.func @f{i}(%a: i32) -> i32 {{ %d = arith.constant {i} : i32 %x = arith.muli %a, %a : i32 return %x : i32 }}" for i in range(200)) + "}", ctx)
    ops = [list(f.regions[0].blocks[0].operations) for f in module.body.operations]
    ctx.enable_multithreading(True)
    PassManager.parse("builtin.module(func.func(canonicalize))", ctx).run(module.operation)
    settle(ctx)
    for constant, x, ret in ops:
        dead(lambda: constant.operation.name, "PassManager.run")
        survives(lambda: x.operation.name, "arith.muli")
