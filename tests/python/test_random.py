# Random programs: whatever is done, a reference to an operation gives that operation's data while it is in
# the IR, and raises DeadReferenceError from then on. Each operation carries a number of its own, so that an
# answer can be checked; what lives is found by walking all that Python holds. Each end is told of once, and the
# callback does random things in its turn. Patterns, Python passes and diagnostic handlers do too, also on other threads,
# and runs inside of runs.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import contextlib
import gc
import os
import random
import threading

import pytest

from mlir import ir, rewrite
from mlir.dialects.transform import interpreter
from mlir.passmanager import PassManager

from refs import EXACT

SEEDS = int(os.environ.get("LOT_RANDOM_SEEDS", "12"))
FIRST = int(os.environ.get("LOT_RANDOM_FIRST", "0"))
STEPS = int(os.environ.get("LOT_RANDOM_STEPS", "250"))

NUMBER = "lot.number"  # a module takes no attribute of its own without a dialect's prefix

# What an action may raise, since it is chosen blindly.
EXPECTED = (ir.DeadReferenceError, ValueError, IndexError, KeyError, StopIteration, ir.MLIRError)

PIPELINES = ["canonicalize", "cse", "symbol-dce", "inline", "canonicalize,cse,symbol-dce", "loop-invariant-code-motion",
             "func.func(sccp)", "strip-debuginfo"]


class World:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ctx = ir.Context()
        self.ctx.allow_unregistered_dialects = True
        self.loc = ir.Location.unknown(self.ctx)
        self.i32 = ir.IntegerType.get_signless(32, self.ctx)
        self.i64 = ir.IntegerType.get_signless(64, self.ctx)
        self.next = 0
        self.modules = []  # owned
        self.loose = []  # detached operations that Python owns
        self.refs = []  # [number, OpView, how often we were told that it has ended]
        self.values, self.blocks, self.points, self.iterators, self.uses, self.capsules, self.views = [], [], [], [], [], [], []
        self.ended = set()  # numbers of the operations that a run of C++ code may have ended (structural mode)
        self.names = 0
        self.handlers = []  # of diagnostics
        self.depth = 0  # of runs inside of runs
        self.handler = self.ctx.on_operation_end(self.told)

    def told(self, end):
        for ref in self.refs:
            if ref[1].operation is end.operation:
                ref[2] += 1
        if self.random.random() < 0.1:
            self.try_one()

    # ---- Numbers.

    def number(self):
        self.next += 1
        return ir.IntegerAttr.get(self.i64, self.next)

    def tag(self, root):
        """Gives new numbers to an operation and all in it, and a new name if it has one."""

        def visit(op):
            op.attributes[NUMBER] = self.number()
            if "sym_name" in op.attributes:
                self.names += 1
                op.attributes["sym_name"] = ir.StringAttr.get(f"s{self.names}", self.ctx)
            return ir.WalkResult.ADVANCE

        root.operation.walk(visit)

    def roots(self):
        roots = [m.operation for m in self.modules]
        for op in self.loose:
            try:
                if not op.operation.attached:
                    roots.append(op.operation)
            except ir.DeadReferenceError:
                pass
        return roots

    def living(self):
        numbers = set()

        def visit(op):
            if NUMBER in op.attributes:
                numbers.add(ir.IntegerAttr(op.attributes[NUMBER]).value)
            return ir.WalkResult.ADVANCE

        for root in self.roots():
            root.walk(visit)
        return numbers

    # ---- The check.

    def check(self):
        living = self.living()
        for number, op, told in list(self.refs):
            try:
                found = ir.IntegerAttr(op.attributes[NUMBER]).value
            except ir.DeadReferenceError:
                assert number not in living or number in self.ended, f"operation {number} lives, and was refused"
                assert told == 1, f"the end of operation {number} was told {told} times"
            else:
                assert told == 0, f"the end of operation {number} was told, and it lives"
                assert found == number, f"a reference to {number} answered for {found}"
                if self.random.random() < 0.05:
                    assert f"{NUMBER} = {number}" in str(op), f"the text of {number} is another's"
        for number, value in self.values:
            try:
                str(value.type), list(value.uses)
                owner = value.owner
                if number is not None:
                    assert ir.IntegerAttr(owner.attributes[NUMBER]).value == number
            except ir.DeadReferenceError:
                assert number is None or number not in living or number in self.ended
        for thing in self.blocks + self.points + self.uses + self.views:
            try:
                getattr(thing, "owner", None), getattr(thing, "block", None)
                if not isinstance(thing, (ir.Block, ir.InsertionPoint, ir.OpOperand)):
                    len(thing), list(thing)
            except (ir.DeadReferenceError, ValueError):
                pass

    # ---- Actions.

    def pick(self, things):
        if not things:
            raise IndexError
        return self.random.choice(things)

    def op(self):
        return self.pick(self.refs)[1]

    def block(self):
        return self.pick(self.blocks) if self.random.random() < 0.3 else self.pick(list(self.pick(list(self.op().regions)).blocks))

    def module(self):
        """One to run on. What is not valid is refused, so it mostly makes room for a new one."""
        module = self.pick(self.modules)
        if self.random.random() < 0.8:
            try:
                module.operation.verify()
            except (ir.MLIRError, ValueError):
                if self.depth == 0:
                    self.modules.remove(module)
                    self.new_module()
                    module = self.modules[-1]
        return module

    def new_module(self):
        self.names += 3
        n = self.names
        module = ir.Module.parse(
            f"""module {{
              func.func @s{n - 2}(%a: i32, %c: i1) -> i32 {{
                %0 = arith.constant 7 : i32
                %1 = arith.addi %a, %0 : i32
                %2 = scf.if %c -> i32 {{ %3 = arith.muli %1, %a : i32 scf.yield %3 : i32 }} else {{ scf.yield %0 : i32 }}
                "test.keep"(%2) ({{ ^bb0(%x: i32): "test.inner"(%x) : (i32) -> () }}) : (i32) -> ()
                cf.br ^next(%2 : i32)
              ^next(%y: i32):
                return %y : i32 }}
              func.func private @s{n - 1}(%a: i32) -> i32 {{ return %a : i32 }}
              func.func @s{n}(%a: i32) -> i32 {{ %0 = func.call @s{n - 1}(%a) : (i32) -> i32 return %0 : i32 }}
            }}""".replace("@s%d(%%a) :" % (n - 1), f"@s{n - 1}(%a) :"), self.ctx)
        module.operation.attributes[NUMBER] = self.number()

        def visit(op):
            op.attributes[NUMBER] = self.number()
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        self.modules.append(module)

    def look(self):
        """Takes references to some operations."""
        found = []

        def visit(op):
            found.append(op.opview)
            return ir.WalkResult.ADVANCE

        self.pick(self.roots()).walk(visit)
        for op in self.random.sample(found, min(6, len(found))):
            if NUMBER in op.attributes:
                self.refs.append([ir.IntegerAttr(op.attributes[NUMBER]).value, op, 0])
        del self.refs[:-60]

    def look_closer(self):
        op = self.op()
        number = ir.IntegerAttr(op.attributes[NUMBER]).value
        self.values += [(number, v) for v in op.results] + [(None, v) for v in op.operands]
        self.blocks += [b for r in op.regions for b in r.blocks]
        self.values += [(None, a) for b in self.blocks[-2:] for a in b.arguments]
        self.views += [op.operands, op.regions, op.results] + [b.operations for b in self.blocks[-1:]] + [b.arguments for b in self.blocks[-1:]]
        self.uses += [u for _, v in self.values[-2:] for u in v.uses]
        self.points.append(ir.InsertionPoint(op))
        self.iterators.append(iter(self.pick(self.blocks)))
        self.capsules.append((number, op._CAPIPtr))
        for things in (self.values, self.blocks, self.views, self.uses, self.points, self.iterators, self.capsules):
            del things[:-20]

    def erase(self):
        self.op().operation.erase()

    def detach(self):
        op = self.op().operation
        op.detach_from_parent()
        self.loose.append(op)

    def move(self):
        a, b = self.op(), self.op()
        (a.operation.move_before if self.random.random() < 0.5 else a.operation.move_after)(b)

    def append(self):
        self.block().append(self.op())

    def create(self):
        operands = [v for _, v in self.random.sample(self.values, min(2, len(self.values)))]
        ip = self.pick(self.points) if self.random.random() < 0.5 else False
        op = ir.Operation.create("test.new", results=[self.i32], operands=operands, attributes={NUMBER: self.number()},
                                 regions=self.random.randrange(2), loc=self.loc, ip=ip)
        if ip is False:
            self.loose.append(op)
        self.refs.append([self.next, op.opview, 0])

    def clone(self):
        copy = self.op().operation.clone(ip=False)
        self.tag(copy)
        self.loose.append(copy)

    def insert(self):
        self.pick(self.points).insert(self.pick(self.loose))

    def new_block(self):
        region = self.pick(list(self.op().regions))
        self.blocks.append(region.blocks.append(self.i32, arg_locs=[self.loc]))

    def move_block(self):
        self.pick(self.blocks).append_to(self.pick(list(self.op().regions)))

    def erase_argument(self):
        block = self.block()
        block.erase_argument(self.random.randrange(3))

    def set_operand(self):
        op = self.op()
        op.operands[self.random.randrange(3)] = self.pick(self.values)[1]

    def replace_uses(self):
        a, b = self.pick(self.values)[1], self.pick(self.values)[1]
        if a != b:
            a.replace_all_uses_with(b)

    def advance(self):
        op = next(self.pick(self.iterators))
        if NUMBER in op.attributes:
            self.refs.append([ir.IntegerAttr(op.attributes[NUMBER]).value, op, 0])

    def uncapsule(self):
        number, capsule = self.pick(self.capsules)
        assert ir.IntegerAttr(ir.Operation._CAPICreate(capsule).attributes[NUMBER]).value == number

    def drop(self):
        owners = self.random.random() < 0.5
        things = self.pick([self.modules, self.loose] if owners else [self.refs, self.blocks, self.values])
        if things:
            del things[self.random.randrange(len(things))]
        gc.collect()

    @contextlib.contextmanager
    def opaque(self):
        """A run of C++ code: in structural mode it may end any reference."""
        self.depth += 1
        try:
            if not EXACT:
                self.ended |= self.living()
            yield
        finally:
            self.depth -= 1
            if not EXACT:
                self.ended |= self.living()

    def run_passes(self):
        module = self.module()
        with self.opaque():
            PassManager.parse(f"builtin.module({self.pick(PIPELINES)})", self.ctx).run(module.operation)

    def rewrite(self):
        module = self.module()

        def pattern(op, rewriter):
            choice = self.random.randrange(6)
            if choice == 0:
                rewriter.erase_op(op.operation)
            elif choice == 1 and len(op.operands) and len(op.results) == 1:
                rewriter.replace_op(op, [op.operands[0]])
            elif choice == 2:
                self.step(deep=self.depth < 3)
            elif choice == 3:
                self.on_another_thread()
            elif choice == 4:
                rewriter.erase_op(op.operation)
                return True  # no match, it says
            else:
                return True

        with self.ctx:
            patterns = rewrite.RewritePatternSet()
            patterns.add(self.pick(["arith.addi", "arith.muli", "test.new", "test.keep"]), pattern)
            config = rewrite.GreedyRewriteConfig()
            config.max_iterations, config.max_num_rewrites = 2, 20
            try:
                with self.opaque():
                    self.drive(module, patterns.freeze(), config)
            except RuntimeError as e:
                if "converge" not in str(e) and not isinstance(e, EXPECTED):
                    raise

    def drive(self, module, patterns, config):
        if self.random.random() < 0.5:
            rewrite.apply_patterns_and_fold_greedily(module, patterns, config)
        else:
            rewrite.walk_and_apply_patterns(module.operation, patterns)

    def python_pass(self):
        module = self.module()
        manager = PassManager("builtin.module", self.ctx)
        manager.add("canonicalize")
        manager.add(lambda op, pass_: [self.try_one(deep=self.depth < 3) for _ in range(3)] and None, name="random")
        manager.add(lambda op, pass_: self.on_another_thread(), name="threads")
        manager.add("cse")
        with self.opaque():
            manager.run(module.operation)

    def on_another_thread(self):
        """What happens there meanwhile; MLIR may be at work on this one."""
        unexpected = []

        def work():
            try:
                for _ in range(self.random.randrange(1, 4)):
                    self.try_one(deep=self.depth < 2)
            except BaseException as e:
                unexpected.append(e)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if unexpected:
            raise unexpected[0]

    def attach_handler(self):
        def handle(diagnostic):
            diagnostic.message, diagnostic.location
            if self.random.random() < 0.2:
                self.try_one(deep=self.depth < 2)
            return self.random.random() < 0.8

        if len(self.handlers) < 4:
            self.handlers.append(self.ctx.attach_diagnostic_handler(handle))

    def detach_handler(self):
        self.handlers.pop(self.random.randrange(len(self.handlers) or 1)).detach()

    def complain(self):
        self.ctx.emit_error_diagnostics = self.random.random() < 0.5
        if self.depth < 4:
            self.depth += 1
            try:
                self.loc.emit_error("random")
                ir.Module.parse("nonsense", self.ctx)
            finally:
                self.depth -= 1

    def walk(self):
        def visit(op):
            if self.random.random() < 0.2:
                self.step(deep=False)
            return self.pick([ir.WalkResult.ADVANCE] * 4 + [ir.WalkResult.SKIP])

        try:
            self.op().operation.walk(visit, self.pick([ir.WalkOrder.PRE_ORDER, ir.WalkOrder.POST_ORDER]))
        except RuntimeError as e:
            if "Exception raised in callback" not in str(e):
                raise

    def symbols(self):
        module = self.pick(self.modules)
        if len(module.operation.regions[0].blocks) != 1:
            return
        table = ir.SymbolTable(module.operation)
        name = f"s{self.random.randrange(self.names + 1)}"
        choice = self.random.randrange(3)
        if choice == 0:
            del table[name]
        elif choice == 1:
            table.insert(self.pick(self.loose))
        else:
            table.erase(self.op())

    QUIET = ["look", "look", "look_closer", "look_closer", "erase", "detach", "move", "append", "create", "create", "clone", "insert",
             "new_block", "move_block", "erase_argument", "set_operand", "replace_uses", "advance", "uncapsule", "drop", "symbols", "attach_handler", "detach_handler"]
    DEEP = QUIET + ["run_passes", "rewrite", "python_pass", "walk", "new_module", "complain", "on_another_thread"]

    def step(self, deep=True):
        getattr(self, self.random.choice(self.DEEP if deep else self.QUIET))()

    def try_one(self, deep=False):
        try:
            self.step(deep)
        except EXPECTED:
            pass


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_random_program(seed):
    world = World(seed)
    world.new_module()
    for step in range(STEPS):
        while len(world.modules) < 2:
            world.new_module()
        try:
            world.step()
        except EXPECTED:
            pass
        if step % 5 == 0:
            world.check()
    world.check()
    ctx = world.ctx
    world.handler.detach()
    assert not any(handler.had_error for handler in world.handlers)
    while world.handlers:
        world.handlers.pop().detach()
    del world
    gc.collect()
    assert ctx._get_live_operation_count() == 0
    assert ctx._get_live_module_count() == 0
