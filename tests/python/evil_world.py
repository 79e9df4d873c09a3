# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One object of each kind, alive, dead, foreign and half-made, for `evil_arguments.py`.

Every name here is an argument. What begins with `dead_` ends before the calls begin; what begins
with `f_` belongs to another context. `evil_arguments.py` prints the classes that no name is an instance
of.
"""

import array
import copy
import gc
import io
import pickle
import weakref

from mlir import ir, passmanager, rewrite
from mlir._mlir_libs import _mlir
from mlir._mlir_libs import _mlirDialectsIRDL as _irdl
from mlir._mlir_libs import _mlirDialectsLinalg as _linalg
from mlir._mlir_libs import _mlirDialectsLLVM as _llvm
from mlir._mlir_libs import _mlirDialectsSMT as _smt
from mlir._mlir_libs import _mlirExecutionEngine as _engine
from mlir._mlir_libs import _mlirTransformInterpreter as _transform
from mlir.dialects import arith, func, irdl, llvm, pdl, smt, tosa, transform  # noqa: F401

_ir, _passes, _rewrite = _mlir.ir, _mlir.passmanager, _mlir.rewrite

TEXT = """
module @top {
  func.func private @declared(i32)
  func.func @f(%a: i32, %b: i32) -> i32 {
    %0 = arith.addi %a, %b {note = "here"} : i32
    %1 = arith.muli %0, %a : i32
    %c = arith.constant 7 : i32
    %dead = arith.subi %c, %c : i32
    func.call @declared(%1) : (i32) -> ()
    return %1 : i32
  }
  func.func @g(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>)
                       outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
  module @inner { func.func private @deep() }
  "t.two"() ({
  ^first(%x: i32, %y: f32):
    "t.branch"(%x)[^second, ^third] : (i32) -> ()
  ^second:
    "t.end"() : () -> ()
  ^third:
    "t.end"() : () -> ()
  }, {
    "t.other"() : () -> ()
  }, {}) : () -> ()
}
"""


def new_context():
    context = ir.Context()
    context.allow_unregistered_dialects = True
    context.enable_multithreading(False)  # a forked child has no other threads
    return context


def types_of(context):
    with context:
        return [
            ir.Type.parse(text)
            for text in (
                "i32",
                "i1",
                "si8",
                "ui64",
                "f32",
                "f64",
                "bf16",
                "index",
                "none",
                "complex<f32>",
                "vector<4x[8]xi32>",
                "tensor<4x8xf32>",
                "tensor<?x2xi1>",
                "tensor<*xf32>",
                "memref<4x?xf32>",
                "memref<4x4xf32, affine_map<(d0, d1) -> (d1, d0)>>",
                "memref<*xf32>",
                "tuple<i32, f32>",
                "(i32, f32) -> i1",
                '!t<"opaque">',
                "!llvm.ptr",
                "!llvm.struct<(i32, f32)>",
                '!llvm.struct<"named", (i32)>',
                '!llvm.struct<"opaque", opaque>',
                "!smt.bool",
                "!smt.int",
                "!smt.bv<8>",
                "!transform.any_op",
                "f16",
                "f4E2M1FN",
                "f6E2M3FN",
                "f6E3M2FN",
                "f8E3M4",
                "f8E4M3",
                "f8E4M3FN",
                "f8E4M3B11FNUZ",
                "f8E4M3FNUZ",
                "f8E5M2",
                "f8E5M2FNUZ",
                "f8E8M0FNU",
                "tf32",
            )
        ]


def attributes_of(context):
    with context:
        return [
            ir.Attribute.parse(text)
            for text in (
                "1 : i32",
                "true",
                "7 : index",
                "-1 : si8",
                "255 : ui8",
                "1.5 : f32",
                "2.5 : f64",
                '"text"',
                '"typed" : i32',
                "unit",
                "[1, 2]",
                "[]",
                "{a = 1, b = unit}",
                "{}",
                "@symbol",
                "@nested::@symbol",
                "i32",
                "tensor<2xi32>",
                "dense<[1, 2]> : tensor<2xi32>",
                "dense<3> : tensor<4x4xi8>",
                "dense<[true, false, true]> : tensor<3xi1>",
                "dense<[1.5, 2.5]> : tensor<2xf32>",
                "dense<> : tensor<0xi32>",
                "dense<1> : tensor<i64>",
                "dense<1.0> : tensor<2xbf16>",
                "sparse<[[0]], [1]> : tensor<4xi32>",
                "array<i1: true>",
                "array<i8: 1, 2>",
                "array<i16: 1>",
                "array<i32: 1, 2>",
                "array<i64: 1>",
                "array<f32: 1.0>",
                "array<f64: 1.0>",
                "affine_map<(d0, d1)[s0] -> (d0 + s0, d1)>",
                "affine_set<(d0) : (d0 >= 0)>",
                "strided<[1, ?], offset: 3>",
                'loc("a.py":1:2)',
                '#t<"opaque">',
                "array<i32>",
            )
        ]


def locations_of(context):
    with context:
        file = ir.Location.file("a.py", 3, 7)
        return [
            ir.Location.unknown(),
            file,
            ir.Location.file("a.py", 3, 7, 4, 9),
            ir.Location.name("n", file),
            ir.Location.name("alone"),
            ir.Location.fused([file, ir.Location.name("m")]),
            ir.Location.fused([file], ir.UnitAttr.get()),
            ir.Location.callsite(file, [ir.Location.file("b.py", 1, 2)]),
        ]


class Parts:
    """The parts of one module."""

    def __init__(self, context):
        with context, ir.Location.unknown():
            self.module = ir.Module.parse(TEXT)
            self.root = self.module.operation
            self.body = self.module.body
            self.declared, self.f, self.g, self.inner, self.two = self.body.operations
            self.block = self.f.regions[0].blocks[0]
            self.add, self.mul, self.constant, self.sub, self.call, self.ret = self.block.operations
            self.add_op = self.add.operation
            self.matmul = self.g.regions[0].blocks[0].operations[0].operation
            self.value, self.argument = (
                self.add.operands[0].owner.arguments[0],
                self.block.arguments[1],
            )
            self.result = self.add.results[0]
            self.region = self.two.regions[0]
            self.empty_region = self.two.regions[2]
            self.first, self.second, self.third = self.region.blocks
            self.branch = self.first.operations[0].operation
            self.regions, self.blocks, self.operations = (
                self.two.regions,
                self.region.blocks,
                self.first.operations,
            )
            self.operands, self.results, self.arguments = (
                self.add.operands,
                self.add.results,
                self.first.arguments,
            )
            self.successors, self.block_successors = self.branch.successors, self.first.successors
            self.predecessors = self.second.predecessors
            self.backwards, self.some = self.operands[::-1], self.arguments[::2]
            self.attribute_map, self.named = self.add.attributes, self.add.attributes[0]
            self.region_iterator, self.block_iterator = iter(self.regions), iter(self.blocks)
            self.operation_iterator, self.use_iterator = iter(self.operations), self.value.uses
            self.use = next(self.value.uses)
            self.point, self.point_before = ir.InsertionPoint(self.body), ir.InsertionPoint(
                self.add
            )
            self.table, self.state = ir.SymbolTable(self.root), ir.AsmState(self.root)


def detached_of(context):
    """A detached operation, its result, and a detached tree that uses it."""
    with context, ir.Location.unknown():
        made = ir.Operation.create("t.made", results=[ir.IntegerType.get_signless(32)])
        tree = ir.Operation.create("t.tree", regions=1)
        home = tree.regions[0].blocks.append(ir.IndexType.get())
        ir.Operation.create("t.user", operands=[made.result], ip=ir.InsertionPoint(home))
        return made, made.result, tree, home


PDL = """
module {
  pdl.pattern : benefit(1) {
    %type = pdl.type : i32
    %old = pdl.operation "t.never" -> (%type : !pdl.type)
    pdl.rewrite %old with "rewriter"
  }
}
"""
TRANSFORM = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) { transform.yield }
}
"""
CONSTRAINED = """
module {
  pdl.pattern : benefit(1) {
    %old = pdl.operation "t.other"
    pdl.apply_native_constraint "constrain"(%old : !pdl.operation)
    pdl.rewrite %old { pdl.erase %old }
  }
}
"""
IRDL = "irdl.dialect @evil { irdl.type @a irdl.attribute @b irdl.operation @c }"



def break_parts(parts):
    """Makes operations invalid, as far as that can be done without ending any of the parts."""
    del parts.f.operation.attributes["function_type"]
    del parts.constant.operation.attributes["value"]
    del parts.call.operation.attributes["callee"]
    parts.ret.operation.move_before(parts.sub.operation)  # not the last one any more
    for block in (parts.third, parts.g.regions[0].blocks[0]):  # without a terminator, or anything at all
        for operation in reversed(list(block.operations)[-1:]):
            operation.erase()
    parts.matmul.attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([7, 7])
    parts.inner.operation.attributes["sym_name"] = ir.UnitAttr.get()


def callback_objects(context):
    """What is shown to callbacks, after their end."""
    kept = {}
    with context, ir.Location.unknown():

        def rewrites(operation, rewriter):
            kept["rewriter"] = rewriter
            kept["rewriter_point"] = rewriter.ip
            return True

        patterns = rewrite.RewritePatternSet()
        patterns.add("t.other", rewrites)
        module = ir.Module.parse('"t.other"() : () -> ()')
        rewrite.apply_patterns_and_fold_greedily(module, patterns.freeze())

        def run_pass(operation, external_pass):
            kept["external_pass"] = external_pass
            kept["pass_operation"] = operation

        manager = passmanager.PassManager("any")
        manager.add(run_pass)
        manager.run(module.operation)

        def constrain(rewriter, results, values):
            kept["pdl_rewriter"], kept["pdl_results"] = rewriter, results

        try:
            pdl_module = rewrite.PDLModule(ir.Module.parse(CONSTRAINED))
            pdl_module.register_constraint_function("constrain", constrain)
            rewrite.apply_patterns_and_fold_greedily(module, pdl_module.freeze())
        except Exception as error:  # noqa: BLE001
            print("no PDL objects:", error)
    return kept


ctx, f_ctx = new_context(), new_context()
alone, f_alone = Parts(ctx), Parts(f_ctx)
gone, late = Parts(ctx), Parts(ctx)
broken = Parts(ctx)
ctx.__enter__()
loc = ir.Location.name("default")
loc.__enter__()

with ctx:
    break_parts(broken)
for _prefix, _context, _parts in (
    ("", ctx, alone),
    ("f_", f_ctx, f_alone),
    ("dead_", ctx, gone),
    ("broken_", ctx, broken),
):
    for _name, _value in vars(_parts).items():
        globals()[_prefix + _name] = _value
for _prefix, _context in (("", ctx), ("f_", f_ctx)):
    for _kind, _values in (
        ("type", types_of(_context)),
        ("attr", attributes_of(_context)),
        ("location", locations_of(_context)),
    ):
        for _i, _value in enumerate(_values):
            globals()[f"{_prefix}{_kind}{_i}"] = _value
    for _name, _value in zip(
        ("detached", "detached_result", "tree", "tree_block"), detached_of(_context)
    ):
        globals()[_prefix + _name] = _value
    with _context:
        globals()[_prefix + "dim"] = ir.AffineDimExpr.get(0)
        globals()[_prefix + "symbol"] = ir.AffineSymbolExpr.get(1)
        globals()[_prefix + "number"] = ir.AffineConstantExpr.get(4)
        globals()[_prefix + "sum"] = ir.AffineExpr.get_add(
            ir.AffineDimExpr.get(0), ir.AffineSymbolExpr.get(0)
        )
        globals()[_prefix + "floor"] = ir.AffineExpr.get_floor_div(
            ir.AffineDimExpr.get(0), ir.AffineConstantExpr.get(3)
        )
        globals()[_prefix + "ceil"] = ir.AffineExpr.get_ceil_div(
            ir.AffineDimExpr.get(0), ir.AffineConstantExpr.get(3)
        )
        globals()[_prefix + "product"] = ir.AffineExpr.get_mul(
            ir.AffineDimExpr.get(0), ir.AffineConstantExpr.get(3)
        )
        globals()[_prefix + "rest"] = ir.AffineExpr.get_mod(
            ir.AffineDimExpr.get(0), ir.AffineConstantExpr.get(3)
        )
        globals()[_prefix + "map"] = ir.AffineMap.get(
            2, 1, [ir.AffineDimExpr.get(0), ir.AffineSymbolExpr.get(0)]
        )
        globals()[_prefix + "identity"] = ir.AffineMap.get_identity(3)
        globals()[_prefix + "empty_map"] = ir.AffineMap.get_empty()
        globals()[_prefix + "integer_set"] = ir.IntegerSet.get(
            2, 1, [ir.AffineDimExpr.get(0)], [True]
        )
        globals()[_prefix + "empty_set"] = ir.IntegerSet.get_empty(1, 1)
        globals()[_prefix + "manager"] = passmanager.PassManager.parse(
            "builtin.module(canonicalize,cse)"
        )
        globals()[_prefix + "manager_any"] = passmanager.PassManager()
        globals()[_prefix + "patterns"] = rewrite.RewritePatternSet()
        globals()[_prefix + "frozen"] = rewrite.RewritePatternSet().freeze()
        globals()[_prefix + "pdl_text"] = ir.Module.parse(PDL)
        globals()[_prefix + "pdl_module"] = rewrite.PDLModule(ir.Module.parse(PDL))
        globals()[_prefix + "script"] = ir.Module.parse(TRANSFORM)
        globals()[_prefix + "irdl_module"] = ir.Module.parse(IRDL)
        globals()[_prefix + "llvm_module"] = ir.Module.parse(
            "module { llvm.func @main() attributes {llvm.emit_c_interface} { llvm.return } }"
        )
        globals()[_prefix + "smt_module"] = ir.Module.parse(
            "module { smt.solver() : () -> () { } }"
        )
        globals()[_prefix + "dialects"] = _context.dialects
        globals()[_prefix + "descriptor"] = _context.get_dialect_descriptor("arith")
        globals()[_prefix + "dialect"] = _context.dialects["arith"]
        globals()[_prefix + "handler"] = _context.attach_diagnostic_handler(lambda d: True)
        globals().update({_prefix + _name: _value for _name, _value in callback_objects(_context).items()})
        globals()[_prefix + "shape"] = ir.ShapedTypeComponents.get(
            [2, 3], ir.IntegerType.get_signless(32)
        )
        globals()[_prefix + "bit_vector"] = _smt.BitVectorType.get(8)
        globals()[_prefix + "smt_bool"] = _smt.BoolType.get()
        globals()[_prefix + "smt_int"] = _smt.IntType.get()
        globals()[_prefix + "resource"] = ir.DenseResourceElementsAttr.get_from_buffer(
            array.array("i", [1, 2]), "evil", ir.Type.parse("tensor<2xi32>")
        )
        globals()[_prefix + "end_handler"] = _context.on_operation_end(lambda end: None)

integer_set_constraints, map_results = integer_set.constraints, map.results  # noqa: F821
constraint = integer_set_constraints[0]
for _name in [_name for _name in globals() if _name.startswith("attr")]:
    try:
        globals()["iterator_of_" + _name] = iter(globals()[_name])
    except TypeError:
        pass
registry = ir.DialectRegistry()
config = rewrite.GreedyRewriteConfig()
pool = ir.ThreadPool()
pre_order, post_order = ir.WalkOrder.PRE_ORDER, ir.WalkOrder.POST_ORDER
advance, interrupt, skip = ir.WalkResult.ADVANCE, ir.WalkResult.INTERRUPT, ir.WalkResult.SKIP
severity = ir.DiagnosticSeverity.WARNING
strictness = rewrite.GreedyRewriteStrictness.EXISTING_OPS
region_level = rewrite.GreedySimplifyRegionLevel.AGGRESSIVE
display = _passes.PassDisplayMode.PIPELINE
shaped_interface = ir.InferShapedTypeOpInterface(tosa.AddOp)
interface_of_broken = ir.InferTypeOpInterface(broken_add)  # noqa: F821
contraction = _linalg.infer_contraction_dimensions(matmul)  # noqa: F821
interface = ir.InferTypeOpInterface(arith.AddIOp)
interface_of = ir.InferTypeOpInterface(add)  # noqa: F821
type_id = attr0.typeid  # noqa: F821
dead_diagnostic = None
diagnostic_info = None


def _keep(diagnostic):
    globals()["dead_diagnostic"], globals()["diagnostic_info"] = diagnostic, ir.DiagnosticInfo(
        diagnostic
    )
    return True


with ctx.attach_diagnostic_handler(_keep):
    loc.emit_error("an error")
engine = _engine.ExecutionEngine(llvm_module, opt_level=0)  # noqa: F821
options = _transform.TransformOptions()
ends = []
with ctx.on_operation_end(ends.append, stack=True):
    for _op in list(gone.body.operations):
        for _r in _op.results:
            _r.replace_all_uses_with(_r)
        _op.erase()
operation_end = ends[0] if ends else None
del gone, _parts, _value, _values, _op


def capsule(x):
    return x._CAPIPtr


def half(cls):
    """An object whose constructor was never called."""
    return cls.__new__(cls)


# ---- What happens while an argument is asked for something.


def act_erase():
    for op in reversed(list(body.operations)):  # noqa: F821
        for inner in reversed(
            list(op.regions[0].blocks[0].operations)
            if len(op.regions) and len(op.regions[0].blocks)
            else []
        ):
            try:
                inner.erase()
            except (RuntimeError, ValueError):
                pass
        try:
            op.erase()
        except (RuntimeError, ValueError):
            pass


def act_drop():
    for name in list(globals()):
        value = globals()[name]
        if type(value).__module__.startswith("mlir") and name not in (
            "ir",
            "passmanager",
            "rewrite",
        ):
            del globals()[name]
    for part in ("alone", "f_alone", "late"):
        globals().pop(part, None)
    gc.collect()


def act_detach():
    for x in (f, two, add, branch):  # noqa: F821
        try:
            x.operation.detach_from_parent()
        except (RuntimeError, ValueError):
            pass
    first.append_to(g.regions[0])  # noqa: F821
    block.append_to(empty_region)  # noqa: F821


def act_arguments():
    for x in (first, block):  # noqa: F821
        while len(x.arguments):
            for use in x.arguments[0].uses:
                use.owner.erase()
            x.erase_argument(0)


def act_run():
    passmanager.PassManager.parse("builtin.module(canonicalize,cse,symbol-dce)", context=ctx).run(
        root
    )  # noqa: F821


def act_leave():
    for x in (loc, ctx):
        x.__exit__(None, None, None)


def act_enter():
    f_ctx.__enter__()


def act_raise():
    raise KeyError("an argument raises")


def act_stop():
    raise StopIteration


def act_release():
    for x in (manager, patterns, pdl_module, registry, frozen, engine):  # noqa: F821
        for name in ("_testing_release", "freeze", "_CAPIPtr"):
            try:
                y = getattr(x, name)
                z = y() if callable(y) else type(x)._CAPICreate(y)
                del y, z
            except (AttributeError, RuntimeError, ValueError, TypeError):
                pass


depth = [0]
again = [lambda: None]


def act_again():
    if depth[0] < 3:
        depth[0] += 1
        again[0]()


class Seq:
    """Does something when its last element is asked for, and returns it all the same."""

    def __init__(self, act, *items):
        self.act, self.items = act, items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        if i >= len(self.items):
            raise IndexError(i)
        if i == len(self.items) - 1:
            found = self.items[i]
            self.act()
            return found() if callable(found) and not isinstance(found, type) else found
        return self.items[i]


class LongSeq(Seq):
    """Says that it is longer than it is."""

    def __len__(self):
        return 2**40


class Number:
    def __init__(self, act, value):
        self.act, self.value = act, value

    def __index__(self):
        self.act()
        return self.value

    __int__ = __index__

    def __float__(self):
        self.act()
        return float(self.value)


class Call:
    def __init__(self, act, answer=None):
        self.act, self.answer = act, answer

    def __call__(self, *args, **kwargs):
        self.act()
        return self.answer

    def __getattr__(self, name):
        if name.startswith("_nb"):
            raise AttributeError(name)
        self.act()
        return self


class File(io.StringIO):
    def __init__(self, act):
        super().__init__()
        self.act = act

    def write(self, text):
        self.act()
        return len(text)


class Cycle:
    def __init__(self, act):
        self.me, self.act = self, act

    def __del__(self):
        gc.set_threshold(0)
        try:
            self.act()
        except Exception:  # noqa: BLE001
            pass


def bomb(act):
    """The next garbage collection calls `act`; the next few new objects bring it about."""
    gc.collect()
    gc.disable()
    Cycle(act)
    gc.set_threshold(1, 1, 1)
    gc.enable()


def flat(act):
    """A memoryview without dimensions."""
    return memoryview(array.array("i", [1])).cast("B").cast("i", shape=[])


# ---- Afterwards.


def touch(x, deep=3):
    """Uses what a call returned in every way that needs no argument."""
    if type(x).__module__ == __name__:
        return
    for use in (
        str,
        repr,
        hash,
        len,
        lambda y: list(zip(y, range(5))),
        lambda y: y == y,
        memoryview,
    ):
        try:
            use(x)
        except Exception:  # noqa: BLE001
            pass
    if deep <= 0 or isinstance(x, (str, bytes, int, float, type)):
        return
    if isinstance(x, (list, tuple)):
        for y in x[:4]:
            touch(y, deep - 1)
    for name in (
        "owner",
        "operation",
        "type",
        "location",
        "context",
        "operands",
        "results",
        "regions",
        "block",
        "blocks",
        "value",
        "body",
        "operations",
        "attributes",
        "name",
        "successors",
        "arguments",
    ):
        try:
            y = getattr(x, name)
        except Exception:  # noqa: BLE001
            continue
        touch(y, 0 if name in ("context", "location", "type") else deep - 2)


def after():
    """Looks at all that is left, and lets go of it."""
    gc.set_threshold(700, 10, 10)
    for name in LAST:
        try:
            str(globals()[name])
        except Exception:  # noqa: BLE001
            pass
    for name in ROOTS:
        globals().pop(name, None)
    gc.collect()


ALL = {
    name: value
    for name, value in globals().items()
    if not name.startswith("_") and type(value).__module__.startswith("mlir")
}
gc.collect()
gc.freeze()  # a collection in a forked child need not look at all of this
LAST = (
    "module",
    "add",
    "value",
    "block",
    "attr0",
    "attr12",
    "type5",
    "location5",
    "detached",
    "tree",
    "f_module",
)
ROOTS = (
    "module",
    "root",
    "detached",
    "tree",
    "alone",
    "f_module",
    "f_root",
    "f_alone",
    "f_detached",
    "f_tree",
)
__all__ = [name for name in globals() if not name.startswith("__")] + ["__all__"]
