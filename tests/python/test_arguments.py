# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that a function of the bindings cannot use are refused by an exception."""

import array
import gc
import io

import pytest
from mlir import ir, passmanager, rewrite
from mlir._mlir_libs import (
    _mlirDialectsIRDL,
    _mlirDialectsLinalg,
    _mlirDialectsLLVM,
    _mlirDialectsSMT,
)
from mlir._mlir_libs import _mlirExecutionEngine, _mlirTransformInterpreter
from mlir.dialects import arith

TEXT = """
"t.outer"() ({
^first(%x: i32):
  %0 = "t.def"(%x) : (i32) -> i32
  "t.branch"(%0)[^second] : (i32) -> ()
^second:
  "t.end"() : () -> ()
}) : () -> ()
"""


class Parts:
    def __init__(self, context):
        self.context = context
        self.module = ir.Module.parse(TEXT, context)
        self.outer = self.module.body.operations[0].operation
        self.region = self.outer.regions[0]
        self.first, self.second = self.region.blocks
        self.definition, self.branch = (op.operation for op in self.first.operations)
        self.value, self.argument = self.definition.result, self.first.arguments[0]
        self.type, self.location = ir.Type.parse("i32", context), ir.Location.unknown(context)
        self.attribute = ir.StringAttr.get("text", context)
        self.expr, self.map = ir.AffineDimExpr.get(0, context), ir.AffineMap.get_identity(
            2, context
        )


def other_context():
    context = ir.Context()
    context.allow_unregistered_dialects = True
    return context


@pytest.fixture
def here(ctx):
    with ctx, ir.Location.unknown():
        yield Parts(ctx)


@pytest.fixture
def there():
    return Parts(other_context())


class Sequence:
    """Calls `act` while it is asked for its last element."""

    def __init__(self, act, *items):
        self.act, self.items = act, items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        if i == len(self.items) - 1:
            self.act()
        return self.items[i]


class View(ir.OpView):
    OPERATION_NAME = "t.view"
    _ODS_REGIONS = (0, True)
    _ODS_OPERAND_SEGMENTS = [-1]
    _ODS_RESULT_SEGMENTS = [-1]


def detached(results=1):
    return ir.Operation.create("t.made", results=[ir.IntegerType.get_signless(32)] * results)


# ---- Sequences that end what they gave before.

BUILDERS = {
    "create": lambda values: ir.Operation.create("t.use", operands=values),
    "build_generic": lambda values: View.build_generic(results=[[]], operands=[values]),
    "OpView": lambda values: ir.OpView("t.use", (0, True), [-1], None, [], [values]),
    "inferReturnTypes": lambda values: ir.InferTypeOpInterface(arith.AddIOp).inferReturnTypes(
        [values]
    ),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_operands_that_end_while_they_are_fetched(here, build):
    first, second = detached(), detached()

    def end_first():
        first.erase()
        [ir.Operation.create("t.filler") for _ in range(50)]

    with pytest.raises(ir.DeadReferenceError, match="'t.made' was erased"):
        build(Sequence(end_first, first.result, second.result))


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_operands_of_a_view_that_nobody_holds(here, build):
    op = detached(results=2)
    for _ in range(20):
        made = build(op.results)
        if isinstance(made, list):
            assert made == [here.type]
        else:
            assert list(made.operands) == list(op.results)


def test_result_types_that_nobody_holds(here):
    for _ in range(20):
        types = Sequence(gc.collect, *[ir.IntegerType.get_signless(i) for i in range(1, 9)])
        made = View.build_generic(results=[types], operands=[[]])
        assert [str(r.type) for r in made.results] == [f"i{i}" for i in range(1, 9)]


def test_successors_of_a_view_that_nobody_holds(here):
    for _ in range(20):
        branch = ir.Operation.create("t.branch", successors=here.first.successors)
        assert list(branch.successors) == [here.second]


def test_list_that_changes_while_an_operation_is_built(here):
    operands = []

    operands += [Sequence(operands.clear, here.value), here.value]

    class Two(View):
        _ODS_OPERAND_SEGMENTS = [-1, 1]

    assert list(Two.build_generic(results=[[]], operands=operands).operands) == [
        here.value,
        here.value,
    ]


BLOCK_MAKERS = {
    "append": lambda p, types, locs: p.region.blocks.append(*types, arg_locs=locs),
    "create_at_start": lambda p, types, locs: ir.Block.create_at_start(p.region, types, locs),
    "create_before": lambda p, types, locs: p.first.create_before(*types, arg_locs=locs),
    "create_after": lambda p, types, locs: p.first.create_after(*types, arg_locs=locs),
}


@pytest.mark.parametrize("make", BLOCK_MAKERS.values(), ids=BLOCK_MAKERS)
def test_block_whose_operation_ends_while_locations_are_fetched(here, make):
    with pytest.raises(ir.DeadReferenceError, match="was erased"):
        make(here, [here.type], Sequence(here.outer.erase, here.location))


@pytest.mark.parametrize("make", BLOCK_MAKERS.values(), ids=BLOCK_MAKERS)
def test_number_of_locations(here, make):
    with pytest.raises(ValueError, match="Expected 2 locations, got: 1"):
        make(here, [here.type] * 2, [here.location])
    assert len(make(here, [here.type] * 2, [here.location] * 2).arguments) == 2


def test_exceptions_that_nobody_holds(here):
    user, other = (ir.Operation.create("t.use", operands=[here.value]) for _ in range(2))
    by = detached()
    here.value.replace_all_uses_except(by.result, Sequence(gc.collect, user, here.branch))
    assert [op.operands[0] == here.value for op in (user, here.branch, other)] == [
        True,
        True,
        False,
    ]


def test_exceptions_that_end_while_they_are_fetched(here):
    user, other = (ir.Operation.create("t.use", operands=[here.value]) for _ in range(2))
    with pytest.raises(ir.DeadReferenceError):
        here.value.replace_all_uses_except(detached().result, Sequence(user.erase, user, other))


def test_numbers_that_change_their_list(here):
    numbers = []

    class Number:
        def __index__(self):
            numbers.clear()
            return 4

    for get in (
        lambda n: ir.VectorType.get(n, here.type),
        ir.DenseI64ArrayAttr.get,
        lambda n: ir.AffineMap.get_permutation(n),
    ):
        numbers[:] = [Number(), 2, 3] + [1] * 1000
        try:
            get(numbers)
        except (TypeError, ValueError, RuntimeError, ir.MLIRError):
            pass
    numbers[:] = [Number()] + [1] * 1000
    with pytest.raises((TypeError, RuntimeError)):
        ir.DenseI64ArrayAttr.get([1]) + [Number(), None]


def test_collection_while_live_objects_are_listed(ctx):
    with ctx, ir.Location.unknown():
        for _ in range(5):
            cycle = [[ir.Operation.create("t.garbage") for _ in range(50)]]
            cycle.append(cycle)
            gc.disable()
            del cycle
            gc.set_threshold(1, 1, 1)
            gc.enable()
            try:
                live = ctx._get_live_operation_objects()
            finally:
                gc.set_threshold(700, 10, 10)
            assert all(op.name == "t.garbage" for op in live)
            del live


def test_types_of_arguments_of_a_block_that_has_moved(here):
    old, new = (ir.Operation.create("t.home", regions=1) for _ in range(2))
    block = old.regions[0].blocks.append(here.type, here.type)
    arguments = block.arguments
    block.append_to(new.regions[0])
    del block, old
    assert arguments.types == [here.type] * 2


# ---- Contexts.

MIXED = {
    "operand of create": lambda h, t: ir.Operation.create(
        "t.use", operands=[t.value], loc=h.location
    ),
    "type of create": lambda h, t: ir.Operation.create("t.use", results=[t.type], loc=h.location),
    "attribute of create": lambda h, t: ir.Operation.create(
        "t.use", attributes={"a": t.attribute}, loc=h.location
    ),
    "successor of create": lambda h, t: ir.Operation.create(
        "t.use", successors=[t.first], loc=h.location
    ),
    "location of create": lambda h, t: ir.Operation.create(
        "t.use", operands=[h.value], loc=t.location
    ),
    "point of create": lambda h, t: ir.Operation.create(
        "t.use", ip=ir.InsertionPoint(t.first), loc=h.location
    ),
    "clone": lambda h, t: h.definition.clone(ip=ir.InsertionPoint(t.first)),
    "insert": lambda h, t: ir.InsertionPoint(t.first).insert(detached()),
    "move_before": lambda h, t: h.definition.move_before(t.branch),
    "move_after": lambda h, t: h.definition.move_after(t.branch),
    "append": lambda h, t: t.first.append(h.definition),
    "append_to": lambda h, t: h.first.append_to(t.region),
    "table": lambda h, t: ir.SymbolTable(t.module.operation).insert(
        ir.Operation.create("t.symbol", attributes={"sym_name": ir.StringAttr.get("a")})
    ),
    "attributes": lambda h, t: h.definition.attributes.__setitem__("a", t.attribute),
    "operands": lambda h, t: h.definition.operands.__setitem__(0, t.value),
    "successors": lambda h, t: h.branch.successors.__setitem__(0, t.second),
    "location": lambda h, t: setattr(h.definition, "location", t.location),
    "replace_uses_of_with": lambda h, t: h.branch.replace_uses_of_with(h.value, t.value),
    "replace_all_uses_with": lambda h, t: h.value.replace_all_uses_with(t.value),
    "replace_all_uses_except": lambda h, t: h.value.replace_all_uses_except(t.value, h.branch),
    "set_type": lambda h, t: h.value.set_type(t.type),
    "set_type of an argument": lambda h, t: h.argument.set_type(t.type),
    "set_location": lambda h, t: h.argument.set_location(t.location),
    "add_argument": lambda h, t: h.first.add_argument(t.type, h.location),
    "blocks.append": lambda h, t: h.region.blocks.append(t.type),
    "ArrayAttr": lambda h, t: ir.ArrayAttr.get([h.attribute, t.attribute]),
    "DictAttr": lambda h, t: ir.DictAttr.get({"a": t.attribute}),
    "FloatAttr": lambda h, t: ir.FloatAttr.get(ir.F32Type.get(t.context), 1.0),
    "TupleType": lambda h, t: ir.TupleType.get_tuple([t.type]),
    "FunctionType": lambda h, t: ir.FunctionType.get([h.type], [t.type]),
    "VectorType": lambda h, t: ir.VectorType.get([4], t.type),
    "tensor encoding": lambda h, t: ir.RankedTensorType.get([4], h.type, t.attribute),
    "memref space": lambda h, t: ir.MemRefType.get([4], h.type, None, t.attribute),
    "struct": lambda h, t: _mlirDialectsLLVM.StructType.get_literal([t.type]),
    "fused": lambda h, t: ir.Location.fused([h.location, t.location]),
    "callsite": lambda h, t: ir.Location.callsite(h.location, [t.location]),
    "name": lambda h, t: ir.Location.name("n", t.location),
    "sum": lambda h, t: h.expr + t.expr,
    "compose": lambda h, t: h.expr.compose(t.map),
    "AffineMap": lambda h, t: ir.AffineMap.get(1, 0, [t.expr]),
    "IntegerSet": lambda h, t: ir.IntegerSet.get(1, 0, [t.expr], [True]),
    "inferReturnTypes": lambda h, t: ir.InferTypeOpInterface(arith.AddIOp).inferReturnTypes(
        [t.value, t.value]
    ),
    "named sequence": lambda h, t: _mlirTransformInterpreter.apply_named_sequence(
        h.module.operation, t.module.operation, t.module.operation
    ),
    "merge": lambda h, t: _mlirTransformInterpreter.copy_symbols_and_merge_into(
        h.module.operation, t.module.operation
    ),
}


@pytest.mark.parametrize("mix", MIXED.values(), ids=MIXED)
def test_mixed_contexts_are_refused(here, there, mix):
    before = str(here.module), str(there.module)
    with pytest.raises(ValueError, match="two contexts"):
        mix(here, there)
    assert (str(here.module), str(there.module)) == before


def test_default_context_that_ends_during_a_call():
    class Leaves(Sequence):
        def __getitem__(self, i):
            if i:
                raise IndexError
            ir.Context.current.__exit__(None, None, None)
            return True

    def get():
        ir.Context().__enter__()
        return ir.DenseBoolArrayAttr.get(Leaves(None, True))

    assert str(get()) == "array<i1: true>"


def test_stack_of_contexts_that_a_finalizer_uses(ctx):
    module, other = ir.Module.parse(TEXT, ctx), Parts(other_context())

    class Point(ir.InsertionPoint):
        def __del__(self):
            ir.InsertionPoint(other.first).__enter__()

    plain = ir.InsertionPoint(module.body)
    for _ in range(3):
        Point(module.body).__enter__()
        plain.__exit__(None, None, None)
        assert ir.Context.current is other.context
        plain.__exit__(None, None, None)
    assert ir.Context.current is None


# ---- Classes.


@pytest.mark.parametrize("cls", [ir.InsertionPoint, ir.Value, ir.Operation, ir.StringAttr, int])
def test_class_that_is_no_view_is_refused(ctx, cls):
    wrong = type("Wrong", (cls,), {"OPERATION_NAME": "t.a", "parse": ir.OpView.__dict__["parse"]})
    with pytest.raises(TypeError):
        wrong.parse('"t.a"() : () -> ()', context=ctx)


def test_registered_class_that_is_no_view(ctx):
    from mlir._mlir_libs._mlir import globals as registered

    registered._register_operation_impl("arith.floordivsi", ir.InsertionPoint, replace=True)
    try:
        module = ir.Module.parse(
            "%0 = arith.constant 1 : i32\n%1 = arith.floordivsi %0, %0 : i32", ctx
        )
        with pytest.raises(TypeError, match="derived from OpView"):
            module.body.operations[1]
    finally:
        registered._register_operation_impl("arith.floordivsi", arith.FloorDivSIOp, replace=True)


def test_caster_that_raises_inside_of_a_dialect(ctx):
    with ctx:
        struct = ir.Type.parse("!llvm.struct<(vector<4xi32>)>")
        typeid = ir.Type.parse("vector<4xi32>").typeid

        def fails(*_):
            raise KeyError("caster")

        ir.register_type_caster(typeid, replace=True)(fails)
        try:
            with pytest.raises(KeyError):
                struct.body
        finally:
            ir.register_type_caster(typeid, replace=True)(ir.VectorType)


def test_operation_class_that_is_replaced(here, monkeypatch):
    class Evil:
        @staticmethod
        def _CAPICreate(capsule):
            raise AssertionError("the bindings use their own class")

    monkeypatch.setattr(ir, "Operation", Evil)
    names = []
    here.module.operation.walk(lambda op: names.append(op.name) or ir.WalkResult.ADVANCE)
    assert "t.def" in names


# ---- What MLIR asserts.

REFUSED = {
    "callee": lambda h: h.location.callee,
    "caller": lambda h: h.location.caller,
    "filename": lambda h: h.location.filename,
    "name_str": lambda h: h.location.name_str,
    "child_loc": lambda h: h.location.child_loc,
    "from_attr": lambda h: ir.Location.from_attr(h.attribute),
    "integer of float": lambda h: ir.IntegerAttr.get(ir.F32Type.get(), 1),
    "float of integer": lambda h: ir.FloatAttr.get_unchecked(h.type, 1.0),
    "empty name": lambda h: ir.DictAttr.get({"": h.attribute}),
    "empty attribute": lambda h: h.definition.attributes.__setitem__("", h.attribute),
    "opaque attribute": lambda h: ir.OpaqueAttr.get("not.a.name", b"", h.type),
    "opaque type": lambda h: ir.OpaqueType.get("not a name", ""),
    "width": lambda h: ir.IntegerType.get_signless(2**24),
    "signed width": lambda h: ir.IntegerType.get_signed(2**31),
    "unsigned width": lambda h: ir.IntegerType.get_unsigned(2**24 + 1),
    "vector": lambda h: ir.VectorType.get_unchecked([-5], h.type),
    "tensor": lambda h: ir.RankedTensorType.get_unchecked([-5], h.type),
    "tensor of tensors": lambda h: ir.UnrankedTensorType.get_unchecked(
        ir.UnrankedTensorType.get(h.type)
    ),
    "layout": lambda h: ir.MemRefType.get([4], h.type, h.attribute),
    "memref": lambda h: ir.MemRefType.get_unchecked([4], ir.NoneType.get()),
    "unranked memref": lambda h: ir.UnrankedMemRefType.get_unchecked(ir.NoneType.get(), None),
    "dense of memref": lambda h: ir.DenseElementsAttr.get(
        array.array("i", [1]), type=ir.MemRefType.get([1], h.type)
    ),
    "dense of dynamic": lambda h: ir.DenseElementsAttr.get(
        array.array("i", [1]), type=ir.Type.parse("tensor<?xi32>")
    ),
    "dense of opaque": lambda h: ir.DenseElementsAttr.get(
        array.array("i", [1]), type=ir.Type.parse('tensor<1x!t<"x">>')
    ),
    "number of elements": lambda h: ir.DenseElementsAttr.get(
        [ir.IntegerAttr.get(h.type, 1)] * 3, ir.Type.parse("tensor<2xi32>")
    ),
    "alignment": lambda h: ir.DenseResourceElementsAttr.get_from_buffer(
        array.array("i", [1]), "r", ir.Type.parse("tensor<1xi32>"), alignment=3
    ),
    "minor identity": lambda h: ir.AffineMap.get_minor_identity(1, 2),
    "identity": lambda h: ir.AffineMap.get_identity(-1),
    "empty permutation": lambda h: ir.AffineMap.get_permutation([]),
    "too few dimensions": lambda h: ir.AffineMap.get(0, 0, [h.expr]),
    "too few symbols": lambda h: ir.IntegerSet.get(1, 0, [ir.AffineSymbolExpr.get(0)], [True]),
    "dimensions": lambda h: ir.IntegerSet.get_empty(2**40, 0),
    "position": lambda h: ir.AffineDimExpr.get(-1),
    "submap": lambda h: h.map.get_major_submap(0),
    "minor submap": lambda h: h.map.get_minor_submap(-1),
    "replace": lambda h: h.map.replace(h.expr, ir.AffineDimExpr.get(5), 2, 0),
    "get_replaced": lambda h: ir.IntegerSet.get(1, 0, [h.expr], [True]).get_replaced(
        [ir.AffineDimExpr.get(3)], [], 1, 0
    ),
    "simplify": lambda h: ir.AffineExpr.simplify_affine_expr(h.expr, 0, 0),
    "shift_dims": lambda h: h.expr.shift_dims(1, 1, 2),
    "shift_symbols": lambda h: h.expr.shift_symbols(2**31, 0, 0),
    "bit vector": lambda h: _mlirDialectsSMT.BitVectorType.get(0),
    "body of a literal": lambda h: _mlirDialectsLLVM.StructType.get_literal([h.type]).set_body(
        [h.type]
    ),
    "struct of nothing": lambda h: _mlirDialectsLLVM.StructType.new_identified(
        "n", [ir.Type.parse("!llvm.void")]
    ),
    "inferred and given": lambda h: ir.Operation.create(
        "arith.addi", results=[h.type], operands=[h.value] * 2, infer_type=True
    ),
    "regions": lambda h: ir.Operation.create("t.many", regions=2**31 - 1),
    "successors of no terminator": lambda h: ir.Operation.create(
        "arith.addi", successors=[h.first]
    ),
    "bytecode of a user": lambda h: h.definition.write_bytecode(io.BytesIO()),
    "bytecode of a branch": lambda h: h.branch.write_bytecode(io.BytesIO(), desired_version=1),
    "driver": lambda h: rewrite.apply_patterns_and_fold_greedily(
        h.outer, rewrite.RewritePatternSet().freeze()
    ),
    "translation": lambda h: _mlirDialectsLLVM.translate_module_to_llvmir(h.outer),
    "translation of what is no LLVM": lambda h: _mlirDialectsLLVM.translate_module_to_llvmir(
        ir.Module.parse("func.func private @f()").operation
    ),
    "optimization": lambda h: _mlirExecutionEngine.ExecutionEngine(h.module, opt_level=7),
    "region of linalg": lambda h: _mlirDialectsLinalg.fill_builtin_region(h.outer),
    "merge": lambda h: _mlirTransformInterpreter.copy_symbols_and_merge_into(
        h.outer, h.module.operation
    ),
    "thread pool": lambda h: (
        h.context.enable_multithreading(False),
        h.context._mlir_thread_pool_ptr(),
    ),
    "unregistered PDL function": lambda h: rewrite.PDLModule(
        ir.Module.parse(
            'pdl.pattern : benefit(1) { %0 = pdl.operation "t.x"  pdl.rewrite %0 with "nobody" }'
        )
    ).freeze(),
    "PDL constraint": lambda h: rewrite.PDLModule(
        ir.Module.parse(
            'pdl.pattern : benefit(1) { %0 = pdl.operation "t.x" '
            'pdl.apply_native_constraint "nobody"(%0 : !pdl.operation) '
            "pdl.rewrite %0 { pdl.erase %0 } }"
        )
    ).freeze(),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_mlir_asserts_is_refused(here, call):
    with pytest.raises((ValueError, ir.MLIRError)):
        call(here)
    assert here.module.operation.verify()


INDEXES = {
    "ArrayAttr": lambda i: ir.ArrayAttr.get([ir.UnitAttr.get()])[i],
    "DictAttr": lambda i: ir.DictAttr.get({"a": ir.UnitAttr.get()})[i],
    "DenseBoolArrayAttr": lambda i: ir.DenseBoolArrayAttr.get([True])[i],
    "DenseI8ArrayAttr": lambda i: ir.DenseI8ArrayAttr.get([1])[i],
    "DenseI16ArrayAttr": lambda i: ir.DenseI16ArrayAttr.get([1])[i],
    "DenseI32ArrayAttr": lambda i: ir.DenseI32ArrayAttr.get([1])[i],
    "DenseI64ArrayAttr": lambda i: ir.DenseI64ArrayAttr.get([1])[i],
    "DenseF32ArrayAttr": lambda i: ir.DenseF32ArrayAttr.get([1])[i],
    "DenseF64ArrayAttr": lambda i: ir.DenseF64ArrayAttr.get([1])[i],
    "DenseIntElementsAttr": lambda i: ir.Attribute.parse("dense<[1, 2]> : tensor<2xi32>")[i],
    "DenseFPElementsAttr": lambda i: ir.Attribute.parse("dense<[1.0, 2.0]> : tensor<2xf32>")[i],
    "get_dim_size": lambda i: ir.Type.parse("tensor<4xi32>").get_dim_size(i),
    "is_dynamic_dim": lambda i: ir.Type.parse("tensor<4xi32>").is_dynamic_dim(i),
    "is_static_dim": lambda i: ir.Type.parse("tensor<4xi32>").is_static_dim(i),
    "TupleType": lambda i: ir.Type.parse("tuple<i32>").get_type(i),
    "results of a map": lambda i: ir.AffineMap.get_identity(1).results[i],
}


@pytest.mark.parametrize("index", [2, 2**31, 2**62, -3, -(2**31), -(2**63)])
@pytest.mark.parametrize("get", INDEXES.values(), ids=INDEXES)
def test_index_out_of_range(ctx, get, index):
    with ctx, pytest.raises((IndexError, ValueError, TypeError, OverflowError)):
        get(index)


def test_wide_integers(ctx):
    wide = ir.Attribute.parse("-1 : i99", ctx)
    with pytest.raises(OverflowError, match="64 bits"):
        wide.value


def test_types_of_a_dialect_that_is_not_loaded():
    with ir.Context():
        assert str(_mlirDialectsLLVM.PointerType.get()) == "!llvm.ptr"
        assert str(_mlirDialectsSMT.IntType.get()) == "!smt.int"


def test_irdl_dialects_loaded_twice(ctx):
    module = ir.Module.parse("irdl.dialect @loaded_twice { irdl.operation @a }", ctx)
    _mlirDialectsIRDL.load_dialects(module)
    with pytest.raises(ValueError, match="'loaded_twice' already"):
        _mlirDialectsIRDL.load_dialects(module)


def test_buffer_without_dimensions(ctx):
    flat = memoryview(array.array("i", [7])).cast("B").cast("i", shape=[])
    with ctx:
        assert str(ir.DenseElementsAttr.get(flat)) == "dense<7> : tensor<i32>"
        assert "dense_resource" in str(
            ir.DenseResourceElementsAttr.get_from_buffer(flat, "flat", ir.Type.parse("tensor<i32>"))
        )


def test_views_of_regions_go_their_way(ctx):
    with ctx, ir.Location.unknown():
        op = ir.Operation.create("t.three", regions=3)
        a, b, c = op.regions
        assert list(op.regions[::-1]) == [c, b, a]
        assert list(op.regions[::2]) == [a, c]
        assert list(op.regions[:1]) == [a] and list(op.regions[1:][::-1]) == [c, b]
        assert list(ir.Operation.create("t.none").regions[::-1]) == []


def test_tree_that_uses_a_detached_value(ctx):
    with ctx, ir.Location.unknown():
        made = detached()
        tree = ir.Operation.create("t.tree", regions=1)
        block = tree.regions[0].blocks.append()
        user = ir.Operation.create(
            "t.user",
            operands=[made.result],
            results=[made.result.type],
            ip=ir.InsertionPoint(block),
        )
        for shown in (tree, user, user.result):
            assert "t.user" in str(shown)
        assert tree.get_asm() and ir.AsmState(tree) and user.result.get_name()
        for refused in (
            tree.verify,
            user.verify,
            lambda: str(block),
            lambda: passmanager.PassManager("any").run(tree),
        ):
            with pytest.raises(ValueError, match="in no block|not in the same tree"):
                refused()
        ir.InsertionPoint.at_block_begin(block).insert(made)
        assert tree.verify() and "t.made" in str(block)


# ---- Names.


def test_names_of_values_that_took_the_place_of_others(ctx):
    many = "".join(f'%{i} = "t.v"() : () -> i32\n' for i in range(50))
    module = ir.Module.parse(
        f'"t.gone"() ({{ {many} }}) : () -> ()\n"t.stays"() ({{ {many} }}) : () -> ()', ctx
    )
    gone, stays = (op.operation for op in module.body.operations)
    state = ir.AsmState(module.operation)
    inside = [op.result for op in stays.regions[0].blocks[0].operations]
    names = [v.get_name(state) for v in inside]
    del inside
    gc.collect()
    gone.erase()
    others = [ir.Module.parse(many, ctx) for _ in range(5)]
    assert {op.result.get_name(state) for m in others for op in m.body.operations} == {
        "<<UNKNOWN SSA VALUE>>"
    }
    assert [op.result.get_name(state) for op in stays.regions[0].blocks[0].operations] == names
    for m in others:
        try:
            m.operation.print(state, file=io.StringIO())
        except ValueError as error:
            assert "has changed since the AsmState was made" in str(error)


def test_state_does_not_count_as_references(ctx):
    module = ir.Module.parse(TEXT, ctx)
    before = ctx._get_live_operation_count()
    state = ir.AsmState(module.operation)
    assert ctx._get_live_operation_count() <= before + 1
    del state
    gc.collect()
    assert ctx._get_live_operation_count() <= before + 1


# ---- Symbol tables.


def test_erased_symbol_that_was_renamed_by_its_attribute(ctx):
    module = ir.Module.parse("func.func private @a()\nfunc.func private @b()", ctx)
    table = ir.SymbolTable(module.operation)
    symbol = table["a"].operation
    with ctx:
        symbol.attributes["sym_name"] = ir.StringAttr.get("z")
    table.erase(symbol)
    others = [ir.Operation.parse("func.func private @a()", context=ctx) for _ in range(100)]
    assert "a" not in table and "z" not in table and "b" in table
    with pytest.raises(KeyError):
        table["a"]
    assert not any(op.operation.attached for op in others)


def test_table_that_has_lost_its_block(ctx):
    with ctx, ir.Location.unknown():
        module = ir.Module.create()
        table = ir.SymbolTable(module.operation)
        module.body.append_to(ir.Operation.create("t.home", regions=1).regions[0])
        symbol = ir.Operation.parse("func.func private @a()")
        for use in (lambda: table.insert(symbol), lambda: table["a"], lambda: "a" in table):
            with pytest.raises((TypeError, ValueError)):
                use()


# ---- As in the published bindings.


def test_successor_belongs_to_the_branch_that_shows_it(here):
    block = here.branch.successors[0]
    assert block.owner == here.branch and block == here.second and block.region == here.region
    assert here.second.owner == here.outer
    here.branch.erase()
    assert block.owner == here.outer


def test_point_in_a_dead_block_raises_when_it_is_made(here):
    block = here.second
    here.outer.erase()
    with pytest.raises(ir.DeadReferenceError, match="when 't.outer' was erased"):
        ir.InsertionPoint(block)


def test_text_of_a_block_argument_names_what_ended_it(here):
    argument = here.argument
    here.outer.erase()
    with pytest.raises(
        ir.DeadReferenceError, match="a block argument in 't.outer' ended when 't.outer' was erased"
    ):
        argument.type


def test_passes_and_patterns_of_another_context_are_refused():
    mine, other = ir.Context(), ir.Context()
    text = "module { func.func @f() { return } }"
    module = ir.Module.parse(text, other)
    passes = passmanager.PassManager.parse("any(canonicalize)", mine)
    with mine:
        patterns = rewrite.RewritePatternSet().freeze()
    calls = (
        lambda: passes.run(module.operation),
        lambda: rewrite.apply_patterns_and_fold_greedily(module, patterns),
        lambda: rewrite.apply_patterns_and_fold_greedily(module.operation, patterns),
        lambda: rewrite.walk_and_apply_patterns(module.operation, patterns),
    )
    for call in calls:
        with pytest.raises(ValueError, match="two contexts"):
            call()
    own = ir.Module.parse(text, mine)
    passes.run(own.operation)
    rewrite.apply_patterns_and_fold_greedily(own, patterns)
    rewrite.walk_and_apply_patterns(own.operation, patterns)
