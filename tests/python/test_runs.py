# Runs inside of runs, rewrite drivers, running things that are taken away, and objects on their way out.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import gc
import threading
import weakref

import pytest
from refs import dead, name_if_alive, names, refused, settle

from mlir import ir, rewrite
from mlir.dialects.transform import interpreter
from mlir.passmanager import PassManager

ADDS = 'func.func private @f(%a: i32) { "t.a"() : () -> () ' + " ".join(f"%{i} = arith.addi %a, %a : i32" for i in range(20)) + " return }"
MARKED = '"t.a"() : () -> () ' + '"t.c"() : () -> () ' * 20

SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%r: !transform.any_op {transform.consumed}) {
    %f = transform.structured.match ops{["func.func"]} in %r : (!transform.any_op) -> !transform.any_op
    transform.apply_cse to %f : !transform.any_op
    transform.yield } }"""


def greedily(module, *patterns, root=None):
    apply(rewrite.apply_patterns_and_fold_greedily, root or module, module.context, *patterns, top_down=True)


def walking(module, *patterns):
    apply(rewrite.walk_and_apply_patterns, module.operation, module.context, *patterns)


def apply(driver, root, ctx, *patterns, top_down=False):
    pattern_set = rewrite.RewritePatternSet(ctx)
    for name, function in patterns:
        pattern_set.add(name, function)
    if not top_down:
        return driver(root, pattern_set.freeze())
    config = rewrite.GreedyRewriteConfig()
    config.use_top_down_traversal = True
    driver(root, pattern_set.freeze(), config)


def passing(op, pipeline="cse"):
    anchor = op.operation.name
    PassManager.parse(f"{anchor}({pipeline})", op.operation.context).run(op.operation)


def everything_that_runs(ctx, module):
    """Each way to start a run on a module."""
    script, more = ir.Module.parse(SCRIPT, ctx), ir.Module.parse("func.func private @more()", ctx)
    none = rewrite.RewritePatternSet(ctx).freeze()
    return {
        "passes": lambda: passing(module.operation),
        "passes on a part": lambda: passing(module.body.operations[0]),
        "greedily": lambda: rewrite.apply_patterns_and_fold_greedily(module, none),
        "greedily on an operation": lambda: rewrite.apply_patterns_and_fold_greedily(module.operation, none),
        "walking": lambda: rewrite.walk_and_apply_patterns(module.operation, none),
        "script": lambda: interpreter.apply_named_sequence(module.operation, script.body.operations[0].operation, script),
        "merging": lambda: interpreter.copy_symbols_and_merge_into(module.operation, more.operation),
    }


# ---- Runs inside of runs.


@pytest.mark.parametrize("driver", [greedily, walking])
def test_nothing_runs_on_what_a_driver_works_on(ctx, driver):
    module = ir.Module.parse(ADDS, ctx)
    tried = []

    def pattern(op, rewriter):
        if not tried:
            for name, run in everything_that_runs(ctx, module).items():
                refused(run, "at work", "driver")
                tried.append(name)
        return True

    driver(module, ("t.a", pattern))
    assert len(tried) == 7
    for run in everything_that_runs(ctx, module).values():  # and afterwards all of it goes
        run()


@pytest.mark.parametrize("driver", [greedily, walking])
def test_everything_runs_on_other_ir_under_a_driver(ctx, driver):
    module = ir.Module.parse(ADDS, ctx)
    done = []

    def pattern(op, rewriter):
        if not done:
            for name, run in everything_that_runs(ctx, ir.Module.parse(ADDS, ctx)).items():
                run()
                done.append(name)
        return True

    driver(module, ("t.a", pattern))
    assert len(done) == 7


def test_a_pass_runs_what_it_likes_on_its_own_operation(ctx):
    module = ir.Module.parse(ADDS, ctx)
    seen = []

    def inner(op, pass_):
        passing(op, "canonicalize")
        seen.append(op.name)

    def outer(op, pass_):
        manager = PassManager("func.func", ctx)
        manager.add(inner)
        manager.run(op)

    manager = PassManager("func.func", ctx)
    manager.add(outer)
    manager.add("cse")
    manager.run(module.body.operations[0].operation)
    assert seen == ["func.func"] and names(module.body.operations[0].regions[0].blocks[0]) == ["t.a", "func.return"]


def test_a_pass_runs_nothing_on_what_encloses_its_operation(ctx):
    module = ir.Module.parse(ADDS + " func.func private @g() { return }", ctx)
    beside = module.body.operations[1]
    refusals = []

    def pass_on_function(op, pass_):
        for name, run in everything_that_runs(ctx, module).items():
            if name != "passes on a part":
                refused(run, "at work")
                refusals.append(name)
        passing(beside)  # nobody is at work on that

    manager = PassManager("func.func", ctx)
    manager.add(pass_on_function)
    manager.run(module.body.operations[0].operation)
    assert len(refusals) == 6 and beside.name.value == "g"


def test_another_thread_changes_and_runs_nothing_on_what_mlir_works_on(ctx):
    module = ir.Module.parse(MARKED, ctx)
    i32 = ir.Type.parse("i32", ctx)
    unknown = ir.Location.unknown(ctx)
    outcome = {}

    def pattern(op, rewriter):
        if outcome:
            return True
        target = module.body.operations[1].operation

        def parsed():
            return ir.Operation.parse('"t.z"() : () -> ()', context=ctx)

        changes = {
            "erase": target.erase,
            "erase by the rewriter": lambda: rewriter.erase_op(target),
            "replace by the rewriter": lambda: rewriter.replace_op(target, []),
            "detach": target.detach_from_parent,
            "move": lambda: target.move_after(module.body.operations[3]),
            "append": lambda: module.body.append(parsed()),
            "insert": lambda: ir.InsertionPoint(module.body).insert(parsed()),
            "attribute": lambda: target.attributes.__setitem__("x", ir.UnitAttr.get(ctx)),
            "location": lambda: setattr(target, "location", unknown),
            "argument": lambda: module.body.add_argument(i32, unknown),
            **everything_that_runs(ctx, module),
        }
        del changes["passes on a part"]

        def work():
            for name, change in changes.items():
                try:
                    change()
                    outcome[name] = "done"
                except ValueError as error:
                    outcome[name] = "refused" if "another thread" in str(error) else str(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        return True

    greedily(module, ("t.a", pattern))
    assert len(outcome) == 16 and set(outcome.values()) == {"refused"}, outcome
    assert len(module.body.operations) == 21


def test_another_thread_may_work_on_other_ir_meanwhile(ctx):
    done = []

    def pattern(op, rewriter):
        def work():
            own = ir.Module.parse(ADDS, ctx)
            passing(own.operation)
            own.body.operations[0].erase()
            done.append(len(own.body.operations))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        return True

    greedily(ir.Module.parse('"t.a"() : () -> ()', ctx), ("t.a", pattern))
    assert done and set(done) == {0}


def test_inner_pattern_erases_what_the_outer_driver_works_on(ctx):
    # It goes through the rewriter of the outer driver, which keeps a list of these operations.
    module, other = ir.Module.parse(MARKED, ctx), ir.Module.parse('"t.n"() : () -> ()', ctx)
    visited = []

    def inner(op, rewriter):
        for victim in list(module.body.operations)[1:10]:
            rewriter.erase_op(victim.operation)
        for victim in list(module.body.operations)[1:10]:
            victim.operation.erase()
        rewriter.erase_op(op.operation)

    def outer(op, rewriter):
        if len(other.body.operations):
            greedily(other, ("t.n", inner))
        return True

    greedily(module, ("t.a", outer), ("t.c", lambda op, rewriter: visited.append(str(op)) or True))
    assert len(module.body.operations) == 3 and visited


# ---- Ties to other trees.


def test_run_on_ir_that_a_detached_operation_uses(ctx):
    module = ir.Module.parse('func.func private @f() { %0 = "t.a"() : () -> i32 return }', ctx)
    value = module.body.operations[0].regions[0].blocks[0].operations[0].result
    with ir.Location.unknown(ctx):
        user = ir.Operation.create("t.use", operands=[value])
    for run in everything_that_runs(ctx, module).values():
        refused(run, "'t.use'", "Insert it, erase it, or drop it")
    assert user.operands[0] == value
    del user
    passing(module.operation, "symbol-dce")
    assert len(module.body.operations) == 0


def test_run_on_ir_that_garbage_uses(ctx):
    module = ir.Module.parse('func.func private @f() { %0 = "t.a"() : () -> i32 return }', ctx)

    class Holder:
        pass

    holder = Holder()
    holder.itself = holder
    with ir.Location.unknown(ctx):
        holder.user = ir.Operation.create("t.use", operands=[module.body.operations[0].regions[0].blocks[0].operations[0].result])
    del holder  # a circle that only the garbage collector ends
    passing(module.operation, "symbol-dce")
    assert len(module.body.operations) == 0


def test_run_on_ir_that_uses_a_detached_operation(ctx):
    with ir.Location.unknown(ctx):
        detached = ir.Operation.create("t.a", results=[ir.Type.parse("i32", ctx)])
        module = ir.Module.create()
        user = ir.Operation.create("t.use", operands=[detached.result], ip=ir.InsertionPoint(module.body))
    for name in ("passes", "greedily", "walking", "script"):
        refused(everything_that_runs(ctx, module)[name], "'t.a'")
    user.erase()
    passing(module.operation)


def test_pattern_that_leaves_a_detached_user(ctx):
    module = ir.Module.parse('func.func @f(%a: i32) { "t.a"() : () -> () %0 = arith.addi %a, %a : i32 return }', ctx)
    kept = []

    def pattern(op, rewriter):
        value = list(op.operation.block.operations)[1].result
        with ir.Location.unknown(ctx):
            kept.append(ir.Operation.create("t.use", operands=[value]))
        return True

    refused(lambda: greedily(module, ("t.a", pattern)), "'t.use'")
    assert kept[0].name == "t.use"


# ---- Rewrite drivers.


@pytest.mark.parametrize("driver", [greedily, walking])
@pytest.mark.parametrize("how", ["rewriter", "erase", "replace", "raises"])
def test_pattern_that_erases_what_it_matched_and_says_no_match(ctx, driver, how):
    module = ir.Module.parse('"t.a"() : () -> () "t.b"() : () -> ()', ctx)
    shown = []

    def first(op, rewriter):
        if how == "erase":
            op.operation.erase()
        elif how == "replace":
            rewriter.replace_op(op.operation, [])
        else:
            rewriter.erase_op(op.operation)
        if how == "raises":
            raise KeyError("now")
        return True  # no match

    def run():
        pattern_set = rewrite.RewritePatternSet(ctx)
        pattern_set.add("t.a", first, benefit=5)
        pattern_set.add("t.a", lambda op, rewriter: shown.append(str(op)) or True)
        if driver is greedily:
            rewrite.apply_patterns_and_fold_greedily(module, pattern_set.freeze())
        else:
            rewrite.walk_and_apply_patterns(module.operation, pattern_set.freeze())

    if how == "raises":
        with pytest.raises(KeyError):
            run()
    else:
        run()
    assert shown == [] and names(module.body) == ["t.b"]


def test_pattern_that_moves_things_out_of_the_driver_s_reach(ctx):
    module = ir.Module.parse(MARKED + '"t.r"() ({ "t.x"() : () -> () }) : () -> ()', ctx)
    with ir.Location.unknown(ctx):
        holder = ir.Operation.create("t.h", regions=1)
        outside = holder.regions[0].blocks.append()
        anchor = ir.Operation.create("t.anchor", ip=ir.InsertionPoint(outside))
    tried = []

    def pattern(op, rewriter):
        if not tried:
            operations = list(module.body.operations)
            inner = operations[-1].regions[0].blocks[0]
            refused(lambda: operations[1].operation.move_before(anchor), "out of", "driver")
            refused(lambda: operations[1].operation.move_after(anchor), "out of", "driver")
            refused(lambda: outside.append(operations[1]), "out of", "driver")
            refused(lambda: inner.append_to(holder.regions[0]), "out of", "driver")
            refused(lambda: operations[1].operation.detach_from_parent(), "detached")
            operations[1].operation.move_after(operations[5])  # within is fine
            module.body.append(operations[2])
            tried.append(True)
        return True

    greedily(module, ("t.a", pattern), ("t.c", lambda op, rewriter: True), ("t.x", lambda op, rewriter: True))
    assert tried and len(module.body.operations) == 22 and names(outside) == ["t.anchor"]


def test_rewriter_whose_place_has_ended(ctx):
    module = ir.Module.parse('"t.r"() ({ "t.a"() : () -> () }) : () -> ()', ctx)

    def pattern(op, rewriter):
        assert rewriter.ip.block == op.operation.block
        rewriter.erase_op(op.operation.parent)
        dead(lambda: rewriter.ip, "block")

    greedily(module, ("t.a", pattern))
    assert len(module.body.operations) == 0


def test_rewriter_whose_anchor_has_ended(ctx):
    module = ir.Module.parse('"t.a"() : () -> ()', ctx)

    def pattern(op, rewriter):
        rewriter.erase_op(op.operation)
        dead(lambda: rewriter.ip, "points to")

    greedily(module, ("t.a", pattern))


PDL = """module { pdl.pattern @p : benefit(1) {
  %t = type : i32
  %root = operation "t.a" -> (%t : !pdl.type)
  rewrite %root {
    %v = apply_native_rewrite "make"(%root : !pdl.operation) : !pdl.operation
    apply_native_rewrite "look"(%v : !pdl.operation)
    replace %root with %v } } }"""


def apply_pdl(ctx, module, **functions):
    patterns = rewrite.PDLModule(ir.Module.parse(PDL, ctx))
    for name, function in functions.items():
        patterns.register_rewrite_function(name, function)
    rewrite.apply_patterns_and_fold_greedily(module, patterns.freeze())


def test_pdl_result_that_python_drops(ctx):
    module = ir.Module.parse('%0 = "t.a"() : () -> i32 "t.u"(%0) : (i32) -> ()', ctx)
    i32 = ir.Type.parse("i32", ctx)

    def make(rewriter, results, values):
        with ir.Location.unknown(ctx):
            results.append(ir.Operation.create("t.new", results=[i32]))  # its last reference, and it is nowhere

    def look(rewriter, results, values):
        settle(ctx)
        assert values[0].name == "t.new"
        refused(values[0].erase, "cannot be erased")
        values[0].move_before(module.body.operations[0])

    apply_pdl(ctx, module, make=make, look=look)
    assert names(module.body) == ["t.new", "t.u"]


def test_pdl_module_that_is_changed_after_it_was_taken_over(ctx):
    source = ir.Module.parse(PDL, ctx)
    inner = []
    source.operation.walk(lambda op: inner.append(op) or ir.WalkResult.ADVANCE)
    root = source.operation
    patterns = rewrite.PDLModule(source)
    refused(root.erase, "somebody else owns it")
    for op in inner:
        if op.name == "pdl.apply_native_rewrite" and "make" in str(op):
            op.attributes["name"] = ir.StringAttr.get("make2", ctx)
    patterns.register_rewrite_function("make2", lambda rewriter, results, values: None)
    patterns.register_rewrite_function("look", lambda rewriter, results, values: None)
    module = ir.Module.parse('%0 = "t.a"() : () -> i32 "t.u"(%0) : (i32) -> ()', ctx)
    refused(lambda: rewrite.apply_patterns_and_fold_greedily(module, patterns.freeze()), "make2")


# ---- Running things that are taken away.


def test_pass_manager_that_is_taken_while_it_runs(ctx):
    tried = []

    def pass_(op, handle):
        refused(lambda: PassManager._CAPICreate(manager._CAPIPtr), "running")
        for change in (manager._testing_release, manager.enable_timing, manager.enable_statistics, manager.enable_ir_printing,
                       lambda: manager.enable_verifier(False), lambda: manager.add("cse"), lambda: manager.run(op)):
            refused(change, "running")
        tried.append(str(manager))

    manager = PassManager("builtin.module", ctx)
    manager.add(pass_)
    manager.add("canonicalize")
    module = ir.Module.parse(ADDS, ctx)
    manager.run(module.operation)
    taken = PassManager._CAPICreate(manager._CAPIPtr)  # now it goes
    dead(lambda: str(manager))
    assert tried == [str(taken)]


@pytest.mark.parametrize("driver", ["greedily", "greedily on an operation", "walking"])
def test_pattern_set_that_is_taken_while_a_driver_works_with_it(ctx, driver):
    module = ir.Module.parse(MARKED, ctx)
    held = []

    def pattern(op, rewriter):
        refused(lambda: rewrite.FrozenRewritePatternSet._CAPICreate(held[0]._CAPIPtr), "at work")
        own = ir.Module.parse('"t.a"() : () -> ()', ctx) if len(held) == 1 else None
        if own:  # the same patterns elsewhere, at the same time
            held.append(own)
            rewrite.walk_and_apply_patterns(own.operation, held[0])
        return True

    patterns = rewrite.RewritePatternSet(ctx)
    patterns.add("t.a", pattern)
    held.append(patterns.freeze())
    if driver == "greedily":
        rewrite.apply_patterns_and_fold_greedily(module, held[0])
    elif driver == "walking":
        rewrite.walk_and_apply_patterns(module.operation, held[0])
    else:
        rewrite.apply_patterns_and_fold_greedily(module.operation, held[0])
    assert len(held) == 2
    rewrite.FrozenRewritePatternSet._CAPICreate(held[0]._CAPIPtr)  # now it goes


def test_settings_of_a_context_in_a_python_pass(ctx):
    done = []

    def pass_(op, handle):
        ctx.enable_multithreading(True)
        ctx.set_thread_pool(ir.ThreadPool())
        ctx.enable_multithreading(False)
        ctx.allow_unregistered_dialects = not ctx.allow_unregistered_dialects
        ctx.allow_unregistered_dialects = not ctx.allow_unregistered_dialects
        ctx.append_dialect_registry(ir.DialectRegistry())
        ctx.load_all_available_dialects()
        done.append(True)

    manager = PassManager("builtin.module", ctx)
    manager.add(pass_)
    manager.add("func.func(cse)")
    manager.run(ir.Module.parse(ADDS, ctx).operation)
    assert done


# ---- Objects on their way out.


def test_module_on_its_way_out_is_not_handed_out_again(ctx):
    for _ in range(30):
        module = ir.Module.parse('"t.a"() : () -> ()', ctx)
        inner = module.body.operations[0].operation
        found = []

        def look(reference):
            found.append(inner.parent)
            found.extend(op for op in ctx._get_live_operation_objects() if name_if_alive(op) == "builtin.module")
            refused(found[0].erase, "own operation")

        reference = weakref.ref(module, look)
        del module
        assert reference() is None and found
        for op in found:
            dead(lambda: op.name)
        dead(lambda: inner.name)
        settle(ctx)


def test_module_on_its_way_out_is_not_made_of_its_capsule(ctx):
    for _ in range(30):
        module = ir.Module.parse('"t.a"() : () -> ()', ctx)
        capsule, tried = module._CAPIPtr, []
        reference = weakref.ref(module, lambda r: tried.append(dead(lambda: ir.Module._CAPICreate(capsule), "last reference")))
        del module
        assert reference() is None and tried
        dead(lambda: ir.Module._CAPICreate(capsule))
        settle(ctx)


def test_nobody_else_s_module_is_erased(ctx):
    module = ir.Module.parse('"t.a"() : () -> ()', ctx)
    operation = module.operation
    module._clear_mlir_module()
    refused(operation.erase, "somebody else owns it")
    assert operation.name == "builtin.module"
