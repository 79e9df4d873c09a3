# Insertion points, symbol tables, capsules, and the stack of entered contexts.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import gc

import pytest

from mlir import ir, rewrite
from mlir._mlir_libs import _mlirDialectsLinalg as linalg  # the Python package around it needs numpy
from mlir.dialects import arith, func, irdl, llvm, smt
from mlir.execution_engine import ExecutionEngine
from mlir.passmanager import PassManager

from refs import EXACT, dead, in_child, keeps_its_context, names, refused, settle, survives
import typed  # found beside the package, thanks to refs

PAIR = "module { func.func private @f(%a: i32) -> i32 { %0 = arith.addi %a, %a : i32 return %0 : i32 } func.func @g() { return } }"


def body(module, index=0):
    return module.body.operations[index].regions[0].blocks[0]


def build(ip):
    with ip.block.owner.context, ir.Location.unknown():
        return ir.Operation.create("test.new", ip=ip)


# ---- Insertion points.


def test_anchor_that_was_erased(ctx):
    module = ir.Module.parse(PAIR, ctx)
    block = body(module, 1)
    with ctx, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(block):
        anchor = ir.Operation.create("test.anchor")
    ip = ir.InsertionPoint(anchor)
    anchor.erase()
    settle(ctx)
    loose = ir.Operation.create("test.op", loc=ir.Location.unknown(ctx), ip=False)
    for use in (lambda: ip.block, lambda: ip.ref_operation.name, lambda: ip.insert(loose), lambda: ip.__enter__()):
        dead(use, "'test.anchor'")
    assert names(block) == ["func.return"] and not loose.attached


def test_anchor_that_moved_is_followed(ctx):
    module = ir.Module.parse(PAIR, ctx)
    anchor = ir.Operation.create("test.anchor", loc=ir.Location.unknown(ctx), ip=ir.InsertionPoint.at_block_begin(body(module, 0)))
    ip = ir.InsertionPoint(anchor)
    anchor.move_before(body(module, 1).operations[0])
    build(ip)
    assert ip.block == body(module, 1)
    assert names(body(module, 1)) == ["test.new", "test.anchor", "func.return"]
    anchor.detach_from_parent()
    refused(lambda: ip.block)
    loose = ir.Operation.create("test.op", loc=ir.Location.unknown(ctx), ip=False)
    refused(lambda: ip.insert(loose))


def test_points_in_a_dead_block(ctx):
    module = ir.Module.parse(PAIR, ctx)
    block = body(module)
    points = [ir.InsertionPoint.at_block_begin(block), ir.InsertionPoint.at_block_terminator(block), ir.InsertionPoint.after(block.operations[0]),
              ir.InsertionPoint(module.body.operations[0].regions[0].blocks.append())]
    loose = ir.Operation.create("test.op", loc=ir.Location.unknown(ctx), ip=False)
    module.body.operations[0].erase()
    settle(ctx)
    for ip in points:
        dead(lambda: ip.block)
        dead(lambda: ip.insert(loose))


def test_point_on_the_stack_that_ends(ctx):
    module = ir.Module.parse(PAIR, ctx)
    with ctx, ir.Location.unknown():
        with ir.InsertionPoint.at_block_begin(body(module)):
            module.body.operations[0].erase()
            settle(ctx)
            dead(lambda: ir.Operation.create("test.op"))
            dead(lambda: arith.ConstantOp(ir.IntegerType.get_signless(32), 1))
            with ir.InsertionPoint.at_block_begin(body(module)):
                ir.Operation.create("test.op")
    assert names(body(module)) == ["test.op", "func.return"]


def test_inserting_what_is_attached_or_dead(ctx):
    module = ir.Module.parse(PAIR, ctx)
    ip = ir.InsertionPoint.at_block_begin(body(module, 1))
    op = body(module).operations[0]
    with pytest.raises(ValueError):
        ip.insert(op)
    gone = ir.Operation.create("test.op", loc=ir.Location.unknown(ctx), ip=False)
    gone.erase()
    dead(lambda: ip.insert(gone))


# ---- Symbol tables.


def name(op):
    return ir.StringAttr(op.attributes["sym_name"]).value


def missing(table, symbol):
    with pytest.raises(KeyError):
        table[symbol]
    assert symbol not in table


def test_symbol_erased_behind_the_tables_back(ctx):
    module = ir.Module.parse(PAIR, ctx)
    table = ir.SymbolTable(module.operation)
    f = table["f"]
    module.body.operations[0].erase()
    settle(ctx)
    missing(table, "f")
    dead(lambda: name(f))
    assert name(table["g"]) == "g"
    module.body.operations[0].operation.detach_from_parent()
    missing(table, "g")


def test_symbol_that_a_pass_removes(ctx):
    module = ir.Module.parse(PAIR, ctx)
    table = ir.SymbolTable(module.operation)
    f, g = table["f"], table["g"]
    PassManager.parse("builtin.module(symbol-dce)", ctx).run(module.operation)
    settle(ctx)
    missing(table, "f")
    dead(lambda: name(f))
    survives(lambda: name(g), "g")
    assert name(table["g"]) == "g"


def test_erase_and_del(ctx):
    module = ir.Module.parse(PAIR, ctx)
    table = ir.SymbolTable(module.operation)
    f, inner = module.body.operations[0], body(module).operations[0]
    table.erase(table["f"])
    dead(lambda: name(f), "'func.func'", "erased")
    dead(lambda: inner.operation.name)
    g = module.body.operations[0]
    del table["g"]
    dead(lambda: name(g))
    dead(lambda: table.erase(g))
    missing(table, "g")
    with pytest.raises(KeyError):
        del table["g"]
    assert len(module.body.operations) == 0


def test_erasing_what_is_not_in_the_table(ctx):
    module, other = ir.Module.parse(PAIR, ctx), ir.Module.parse(PAIR, ctx)
    table = ir.SymbolTable(module.operation)
    refused(lambda: table.erase(other.body.operations[0]), "not in this symbol table")
    refused(lambda: table.erase(body(module).operations[0]))
    refused(lambda: table.erase(module.operation))
    nameless = ir.Operation.create("test.op", loc=ir.Location.unknown(ctx), ip=ir.InsertionPoint(module.body))
    refused(lambda: table.erase(nameless), "symbol name")
    refused(lambda: table.insert(nameless), "symbol name")
    assert len(other.body.operations) == 2


def test_symbol_in_use_cannot_be_erased(ctx):
    module = ir.Module.parse('module { "test.sym"() ({ %0 = "test.inner"() : () -> i32 }) {sym_name = "s"} : () -> () }', ctx)
    table = ir.SymbolTable(module.operation)
    value = module.body.operations[0].regions[0].blocks[0].operations[0].results[0]
    with ctx, ir.Location.unknown(), ir.InsertionPoint(module.body):
        ir.Operation.create("test.user", operands=[value])
    symbol = module.body.operations[0]
    refused(lambda: table.erase(symbol), "'test.user'")
    assert str(value.type) == "i32"


def test_insert(ctx):
    module = ir.Module.parse(PAIR, ctx)
    table = ir.SymbolTable(module.operation)
    with ctx:
        loose = ir.Operation.parse("func.func private @f(f32)")
    new = ir.StringAttr(table.insert(loose)).value
    assert new != "f" and table[new] == loose and loose.operation.attached
    del loose
    settle(ctx)
    assert name(table[new]) == new and len(module.body.operations) == 3
    other = ir.Module.parse(PAIR, ctx)
    refused(lambda: table.insert(other.body.operations[0]))
    named = ir.Module.parse('module @me { module @inner {} }', ctx)
    refused(lambda: ir.SymbolTable(named.body.operations[0]).insert(named.operation))
    loose = named.operation.clone(ip=False)
    refused(lambda: ir.SymbolTable(loose.regions[0].blocks[0].operations[0]).insert(loose))


def test_renamed_symbol(ctx):
    module = ir.Module.parse(PAIR, ctx)
    table = ir.SymbolTable(module.operation)
    f = table["f"]
    ir.SymbolTable.set_symbol_name(f, "h")
    assert table["h"] == f
    missing(table, "f")
    f.attributes["sym_name"] = ir.StringAttr.get("i", ctx)
    missing(table, "h")


def test_table_of_a_dead_operation(ctx):
    module = ir.Module.parse("module { module @inner { func.func private @f() } }", ctx)
    inner = module.body.operations[0]
    table = ir.SymbolTable(inner)
    symbol = table["f"]
    module.body.operations[0].erase()
    settle(ctx)
    for use in (lambda: table["f"], lambda: "f" in table, lambda: table.erase(symbol), lambda: table.__delitem__("f")):
        dead(use)


def test_walk_symbol_tables_that_are_erased(ctx):
    module = ir.Module.parse("module { module @a { module @b {} } module @c {} }", ctx)
    seen = []

    def callback(op, visible):
        seen.append(op.attributes["sym_name"] if "sym_name" in op.attributes else None)
        for inner in list(module.body.operations):
            inner.erase()

    ir.SymbolTable.walk_symbol_tables(module.operation, True, callback)
    assert len(seen) == 2  # the first one, and the module itself: the others had ended

    def broken(op, visible):
        raise KeyError("mine")

    with pytest.raises(RuntimeError, match="Exception raised in callback"):
        ir.SymbolTable.walk_symbol_tables(module.operation, True, broken)


# ---- Walks.


def test_walk_that_erases(ctx):
    for order in (ir.WalkOrder.PRE_ORDER, ir.WalkOrder.POST_ORDER):
        module = ir.Module.parse(PAIR, ctx)
        seen = []

        def erase_functions(op):
            seen.append(op.name)
            if op.name == "func.func":
                op.erase()
            return ir.WalkResult.ADVANCE

        module.operation.walk(erase_functions, order)
        settle(ctx)
        assert seen.count("func.func") == 2 and len(module.body.operations) == 0
        assert ("arith.addi" in seen) == (order == ir.WalkOrder.POST_ORDER)


def test_walk_that_erases_the_next(ctx):
    module = ir.Module.parse(PAIR, ctx)
    seen = []

    def callback(op):
        seen.append(op.name)
        if op.name == "arith.addi":
            module.body.operations[1].erase()
        return ir.WalkResult.ADVANCE

    module.operation.walk(callback)
    assert seen == ["arith.addi", "func.return", "func.func", "builtin.module"]


def test_walk_results_and_errors(ctx):
    module = ir.Module.parse(PAIR, ctx)
    seen = []

    def skip(op):
        seen.append(op.name)
        return ir.WalkResult.SKIP if op.name == "func.func" else ir.WalkResult.ADVANCE

    module.operation.walk(skip, ir.WalkOrder.PRE_ORDER)
    assert seen == ["builtin.module", "func.func", "func.func"]
    seen.clear()

    def stop(op):
        seen.append(op.name)
        return ir.WalkResult.INTERRUPT

    module.operation.walk(stop)
    assert seen == ["arith.addi"]

    def broken(op):
        raise KeyError("mine")

    with pytest.raises(RuntimeError, match="Exception raised in callback") as caught:
        module.operation.walk(broken)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(Exception):
        module.operation.walk(lambda op: "nonsense")


# ---- Capsules, and parameters that are typed as one.


def test_capsule_of_a_dead_operation_stays_dead(ctx):
    module = ir.Module.parse(PAIR, ctx)
    op = body(module).operations[1].operation
    value = body(module).operations[0].results[0]
    capsules = [(ir.Operation, op._CAPIPtr), (ir.Operation, op.opview._CAPIPtr), (ir.Value, value._CAPIPtr), (ir.Value, body(module).arguments[0]._CAPIPtr)]
    assert ir.Operation._CAPICreate(capsules[0][1]) is op
    module.body.operations[0].erase()
    with ctx, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(body(module)):
        for _ in range(50):
            ir.Operation.create("test.op")
    for cls, capsule in capsules:
        dead(lambda: cls._CAPICreate(capsule))


def test_capsule_keeps_a_detached_operation(ctx):
    capsule = ir.Operation.create("test.op", loc=ir.Location.unknown(ctx), ip=False)._CAPIPtr
    settle(ctx)
    assert ir.Operation._CAPICreate(capsule).name == "test.op"
    del capsule
    settle(ctx)
    assert ctx._get_live_operation_count() == 0


def test_wrong_capsule(ctx):
    module = ir.Module.parse(PAIR, ctx)
    for cls in (ir.Operation, ir.Value, ir.Module):
        with pytest.raises(ValueError):
            cls._CAPICreate(ctx._CAPIPtr)
    assert ir.Context._CAPICreate(ctx._CAPIPtr) is ctx
    assert module.operation.name == "builtin.module"


def test_dead_object_as_a_typed_parameter(ctx):
    module = ir.Module.parse(PAIR, ctx)
    block = body(module)
    op, result, argument = block.operations[1].operation, block.operations[0].results[0], block.arguments[0]
    cleared, dropped = ir.Module.parse(PAIR, ctx), ir.Module.parse(PAIR, ctx)
    things = [(typed.count_regions, op), (typed.count_regions, op.opview), (typed.count_regions, op._CAPIPtr),
              (typed.type_of, result), (typed.type_of, argument), (typed.type_of, argument._CAPIPtr),
              (typed.count_arguments, block), (typed.count_regions_of_module, dropped._CAPIPtr), (typed.AnyResult, result)]
    for function, thing in things:
        function(thing)
    assert typed.count_regions_of_module(module) == typed.count_arguments(block) == 1
    module.body.operations[0].erase()
    cleared._clear_mlir_module()
    del dropped
    settle(ctx)
    for function, thing in things + [(typed.count_regions_of_module, cleared)]:
        dead(lambda: function(thing))
    for function in (typed.count_regions, typed.type_of, typed.count_arguments, typed.count_regions_of_module):
        with pytest.raises(TypeError):
            function("nonsense")


def test_dead_object_in_a_container_as_a_parameter(ctx):
    """A module of somebody else; nanobind's own casters of containers cannot let an exception out."""
    module = ir.Module.parse(PAIR, ctx)
    first, second = [op.operation for op in body(module).operations][:2]
    values, operations, block = list(first.results), [module.operation, first], module.body
    assert typed.count_values(values) == len(values) > 0 and typed.count_values(()) == 0
    assert typed.count_operations(operations) == 2 and typed.count_operations(block.operations) >= 1
    assert typed.count_blocks([block, block]) == 2
    assert typed.has_operation(first) and not typed.has_operation() and not typed.has_operation(None)
    assert typed.has_module(module) and not typed.has_module(None)
    assert typed.kind(values) == "values" and typed.kind("ab") == typed.kind([1]) == typed.kind(3) == "something"
    for nonsense in ("ab", 3, [1], [None], {}, None):
        with pytest.raises(TypeError):
            typed.count_values(nonsense)
    with pytest.raises(TypeError):
        typed.has_operation("nonsense")

    class Sequence:
        """Takes the operation away while it is asked for its elements."""

        def __len__(self):
            return 2

        def __getitem__(self, index):
            if index > 1:
                raise IndexError
            if index == 1:
                second.erase()
                first.erase()
            return values[0]

    dead(lambda: typed.count_values(Sequence()))
    settle(ctx)
    for use in (lambda: typed.count_values(values), lambda: typed.count_values(tuple(values)), lambda: typed.kind(values),
                lambda: typed.count_operations(operations), lambda: typed.has_operation(first)):
        dead(use)
    region = ir.Operation.parse('"test.op"() ({ ^bb0: "test.inner"() : () -> () }) : () -> ()', context=ctx)
    inside = region.regions[0].blocks[0]
    region.erase()
    dead(lambda: typed.count_blocks([block, inside]))
    module._clear_mlir_module()
    dead(lambda: typed.has_module(module))


def test_dead_object_as_a_parameter_of_a_dialect(ctx):
    module = ir.Module.parse("module { func.func @f() { return } }", ctx)
    op = body(module).operations[0].operation
    module.body.operations[0].erase()
    settle(ctx)
    for use in (lambda: linalg.fill_builtin_region(op), lambda: linalg.isa_contraction_op(op), lambda: linalg.infer_contraction_dimensions(op),
                lambda: linalg.isa_convolution_op(op), lambda: linalg.infer_convolution_dimensions(op), lambda: linalg.get_indexing_maps(op),
                lambda: llvm.translate_module_to_llvmir(op), lambda: smt.export_smtlib(op)):
        dead(use)
    cleared = ir.Module.parse("module {}", ctx)
    cleared._clear_mlir_module()
    dead(lambda: irdl.load_dialects(cleared))
    dead(lambda: smt.export_smtlib(cleared))
    dead(lambda: ExecutionEngine(cleared))


def test_dialects_keep_their_context():
    gc.collect()
    before = ir.Context._get_live_count()
    dialects = ir.Context().dialects
    arithmetic, descriptor = dialects["arith"], ir.Context().get_dialect_descriptor("builtin")
    gc.collect()
    assert ir.Context._get_live_count() == before + 2
    assert arithmetic.descriptor.namespace == "arith" and descriptor.namespace == "builtin"
    assert isinstance(dialects.builtin, ir.Dialect)
    del dialects
    gc.collect()
    assert ir.Context._get_live_count() == before + 2 and arithmetic.descriptor.namespace == "arith"
    del arithmetic, descriptor
    gc.collect()
    assert ir.Context._get_live_count() == before


def infer_contraction(ctx):
    i, j, k = (ir.AffineExpr.get_dim(n, ctx) for n in range(3))
    return linalg.infer_contraction_dimensions_from_maps([ir.AffineMap.get(3, 0, e, ctx) for e in ([i, k], [k, j], [i, j])])


def infer_convolution(ctx):
    module = ir.Module.parse("""module { func.func @f(%a: tensor<8xf32>, %b: tensor<3xf32>, %c: tensor<6xf32>) {
        %0 = linalg.conv_1d ins(%a, %b : tensor<8xf32>, tensor<3xf32>) outs(%c : tensor<6xf32>) -> tensor<6xf32> return } }""", ctx)
    return linalg.infer_convolution_dimensions(body(module).operations[0])


def test_dimensions_keep_their_context():
    def numbers(*attributes):
        return [list(ir.DenseI32ArrayAttr(attribute)) for attribute in attributes]

    keeps_its_context(infer_contraction, lambda found: numbers(found.m, found.n, found.k) == [[0], [1], [2]] or 1 / 0)
    keeps_its_context(infer_convolution, lambda found: numbers(found.output_image, found.filter_loop) == [[0], [1]] or 1 / 0)


@pytest.mark.parametrize("cls, make", [
    (ir.Context, lambda ctx: ctx), (ir.Location, ir.Location.unknown), (ir.Attribute, ir.UnitAttr.get), (ir.Type, ir.F32Type.get),
    (ir.AffineMap, lambda ctx: ir.AffineMap.get_identity(2, ctx)), (ir.AffineExpr, lambda ctx: ir.AffineExpr.get_dim(1, ctx)),
    (ir.IntegerSet, lambda ctx: ir.IntegerSet.get_empty(1, 0, ctx)),
])
def test_capsules_keep_what_they_need(cls, make):
    def use(capsule):
        str(cls._CAPICreate(capsule))

    keeps_its_context(lambda ctx: make(ctx)._CAPIPtr, use)


def test_capsule_gives_away_its_owner(ctx):
    manager = PassManager("builtin.module", ctx)
    capsule = manager._CAPIPtr
    taken = PassManager._CAPICreate(capsule)
    taken.add("cse")
    dead(lambda: manager.add("cse"))
    dead(lambda: PassManager._CAPICreate(capsule))
    registry = ir.DialectRegistry()
    again = ir.DialectRegistry._CAPICreate(registry._CAPIPtr)
    ctx.append_dialect_registry(again)
    dead(lambda: ctx.append_dialect_registry(registry))
    patterns = rewrite.RewritePatternSet(ctx).freeze()
    other = rewrite.FrozenRewritePatternSet._CAPICreate(patterns._CAPIPtr)
    module = ir.Module.parse("module {}", ctx)
    rewrite.walk_and_apply_patterns(module.operation, other)
    dead(lambda: rewrite.walk_and_apply_patterns(module.operation, patterns))
    engine = ExecutionEngine(ir.Module.parse("module { llvm.func @f() { llvm.return } }", ctx))
    released = engine._CAPIPtr
    second = ExecutionEngine._CAPICreate(released)
    assert second.raw_lookup("f") != 0
    dead(lambda: engine.raw_lookup("f"))
    del manager, registry, patterns, engine
    gc.collect()
    assert "cse" in str(taken)


def test_thread_pool_lives_as_long_as_its_context():
    ctx = ir.Context(thread_pool=ir.ThreadPool())
    gc.collect()
    assert ctx.get_num_threads() >= 1
    module = ir.Module.parse("module {" + " ".join(f"func.func @f{i}() {{ return }}" for i in range(50)) + "}", ctx)
    PassManager.parse("builtin.module(func.func(cse))", ctx).run(module.operation)
    del module, ctx
    gc.collect()


# ---- The stack of entered contexts.


def test_thread_that_ends_inside(ctx):
    status, output = in_child("""
import threading
from mlir import ir
made = []
def work():
    ctx = ir.Context(); ctx.__enter__(); ir.Location.unknown().__enter__()
    module = ir.Module.parse("module { func.func private @f() }"); ir.InsertionPoint(module.body).__enter__()
    made.append(module)
for _ in range(20):
    t = threading.Thread(target=work); t.start(); t.join()
made.clear()
import gc, time
for _ in range(100):  # what a thread held goes a little after join() has returned
    gc.collect()
    if ir.Context._get_live_count() == 0: break
    time.sleep(0.05)
print("contexts", ir.Context._get_live_count())
""")
    assert status == 0, output
    assert "contexts 0" in output


def test_exit_inside():
    status, output = in_child("""
from mlir import ir
ctx = ir.Context(); ctx.__enter__(); ir.Location.unknown().__enter__()
module = ir.Module.parse("module { func.func private @f() }")
ir.InsertionPoint(module.body).__enter__()
held = list(module.body.operations); loose = ir.Operation.parse("func.func private @g()")
capsule = loose._CAPIPtr; iterator = iter(module.body); table = ir.SymbolTable(module.operation)
dead = module.body.operations[0]; module.body.operations[0].erase()
import atexit; atexit.register(lambda: print("bye", loose))
""")
    assert status == 0, output


def test_unbalanced_exit(ctx):
    with pytest.raises(RuntimeError):
        ctx.__exit__(None, None, None)
    module = ir.Module.parse(PAIR, ctx)
    ip = ir.InsertionPoint(module.body)
    with pytest.raises(RuntimeError):
        ip.__exit__(None, None, None)


# ---- Symbols that share a name, which MLIR must not find when it makes a table.


def test_symbols_that_share_a_name(ctx):
    module = ir.Module.parse("module { func.func private @f(i32) func.func private @other() }", ctx)
    table = ir.SymbolTable(module.operation)
    twin = ir.Operation.parse("func.func private @f(f32)", context=ctx)
    module.body.append(twin)
    assert "f" in table and str(table["f"].type) == "(i32) -> ()"
    assert str(table.insert(twin)) == '"f_0"'
    assert [str(op.attributes["sym_name"]) for op in module.body.operations] == ['"f"', '"other"', '"f_0"']
    assert table["f_0"] == twin and module.operation.verify()
    # The twin comes first: it still is the one that gets another name.
    first = ir.Operation.parse("func.func private @other(f64)", context=ctx)
    ir.InsertionPoint(module.body.operations[0]).insert(first)
    new = ir.StringAttr(table.insert(first)).value
    assert new.startswith("other_")
    assert [ir.StringAttr(op.attributes["sym_name"]).value for op in module.body.operations] == [new, "f", "other", "f_0"]
    assert len({table[name].operation for name in ("f", "f_0", "other", new)}) == 4
    # The same when the table has to be made anew.
    ir.InsertionPoint(module.body.operations[0]).insert(ir.Operation.parse("func.func private @f(i1)", context=ctx))
    module.body.append(module.body.operations[1])
    assert ir.StringAttr(table.insert(module.body.operations[0])).value not in ("f", "f_0")
    assert module.operation.verify() and str(table["f"].type) == "(i32) -> ()"


# ---- The dialect modules that are not rebuilt read a context where the stock header has it.


def test_dialect_modules_of_the_stock_package(ctx):
    from mlir.dialects import amdgpu, gpu, nvgpu, pdl, quant, sparse_tensor, transform

    with ctx, ir.Location.unknown():
        f32, i8 = ir.F32Type.get(), ir.IntegerType.get_signless(8)
        types = [
            amdgpu.TDMBaseType.get(f32),
            gpu.AsyncTokenType.get(),
            nvgpu.TensorMapDescriptorType.get(ir.MemRefType.get([8], f32), 0, 0, 0, 0),
            pdl.OperationType.get(),
            quant.UniformQuantizedType.get(1, i8, f32, 0.5, 0, -128, 127),
            transform.AnyOpType.get(),
        ]
        types += [sparse_tensor.EncodingAttr.parse("#sparse_tensor.encoding<{ map = (d0) -> (d0 : compressed) }>")]
    for made in types:
        assert made.context is ctx, type(made)
        assert str(made)
