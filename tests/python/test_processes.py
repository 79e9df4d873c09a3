# A process with more in it than one package of the bindings: a second package, with an MLIR of its own or the
# same one; the stock package; extension modules that call MLIR's C++ functions, loaded early or late; other
# users of the hooks; and sub-interpreters. What they load is built by tests/python/processes.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import pathlib
import sys
import textwrap

import pytest

from mlir import ir

from refs import EXACT, in_child

PACKAGES = pathlib.Path(ir.__file__).parents[2]
BESIDE = PACKAGES / "processes"
if not (BESIDE / "modules").exists():
    pytest.fail("What these tests load is not built: tools/build.sh python-tests", pytrace=False)

PRELUDE = f"""
import ctypes, gc, importlib, sys

PACKAGES, BESIDE = {str(PACKAGES)!r}, {str(BESIDE)!r}
sys.path.append(BESIDE + "/modules")

def use(folder, name):
    "The module `ir` of a package that is in this folder."
    sys.path[:] = [folder] + [path for path in sys.path if path != PACKAGES + "/tracked"]
    try:
        return importlib.import_module(name + ".ir")
    finally:
        sys.path.remove(folder)

def forget(name):
    for module in [m for m in sys.modules if m.split(".")[0] == name]:
        del sys.modules[module]

def context(ir):
    made = ir.Context()
    made.allow_unregistered_dialects = True
    return made

def dead(ir, fn, *words):
    try:
        fn()
    except ir.DeadReferenceError as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("a dead reference answers")

def refused(how, fn, *words):
    try:
        fn()
    except how as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("it is not refused")

def inside(module, index=0):
    return list(module.body.operations[index].regions[0].blocks[0].operations)

def run(ir, pipeline, module):
    manager = importlib.import_module(ir.__name__.replace(".ir", ".passmanager")).PassManager
    manager.parse(pipeline, module.context).run(module.operation)

# Canonicalization removes the first one of the two inside, whatever dialects there are.
TWO = 'module {{ "t.f"() ({{ %c = "builtin.unrealized_conversion_cast"() : () -> i32 "t.keep"() : () -> () }}) : () -> () }}'
"""


def works(script, **environment):
    status, output = in_child(PRELUDE + textwrap.dedent(script), **environment)
    assert status == 0 and output.endswith("fine\n"), f"{status}\n{output}"


# ---- Two packages.

TOGETHER = """
def address(ir, op):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(op._CAPIPtr, (ir.__name__ + ".Operation._CAPIPtr").encode())

def together(first, second):
    "Both make and drop modules by turns: each has to know its own dead, wherever the other one's operations are."
    packages = [first, second]
    contexts = {p: context(p) for p in packages}
    alive, gone = {p: [] for p in packages}, {p: {} for p in packages}
    reused = 0
    for i in range(300):
        mine, other = packages[i % 2], packages[1 - i % 2]
        module = mine.Module.parse('module { "t.f%d"() : () -> () }' % i, contexts[mine])
        op = module.body.operations[0].operation
        reused += address(mine, op) in gone[other]
        alive[mine].append((module, op, f"t.f{i}"))
        if len(alive[mine]) > 5:
            module, op, name = alive[mine].pop(0)
            assert op.name == name
            gone[mine][address(mine, op)] = op
            del module
        for p in packages:
            assert all(op.name == name for _, op, name in alive[p])
    assert reused, "no address was used by one and then by the other"
    for p in packages:
        if hasattr(p, "lot_status"):
            for op in gone[p].values():
                dead(p, lambda: op.name, "ended when 'builtin.module' was dropped")
        live = alive[p][0][0].operation
        stranger = packages[1 - packages.index(p)]
        refused(ValueError, lambda: stranger.Operation._CAPICreate(live._CAPIPtr), "incorrect name")
        refused(TypeError, lambda: stranger.InsertionPoint(live))

def passes(ir):
    "A pass ends what it removes and nothing else; in structural mode, all that is below its root."
    module = ir.Module.parse(TWO, context(ir))
    cast, keep = inside(module)
    run(ir, "builtin.module(canonicalize)", module)
    dead(ir, lambda: cast.operation.name, "PassManager.run on 'builtin.module'")
    if ir.lot_status()["exact"]:
        assert keep.operation.name == "t.keep"
    else:
        dead(ir, lambda: keep.operation.name, "may have been deleted")
    assert [op.operation.name for op in inside(module)] == ["t.keep"]
"""

TRACKED, STOCK, OWN = '(PACKAGES + "/tracked", "mlir")', '(PACKAGES + "/stock", "mlir")', '(BESIDE + "/own", "second")'


@pytest.mark.parametrize("first, second", [(TRACKED, OWN), (OWN, TRACKED), (STOCK, OWN), (OWN, STOCK)],
                         ids=["tracked-second", "second-tracked", "stock-second", "second-stock"])
def test_two_packages_with_an_mlir_each(first, second):
    works(TOGETHER + f"""
first, second = use(*{first}), use(*{second})
tracked = [p for p in (first, second) if hasattr(p, "lot_status")]
for p in tracked:
    assert p.lot_status()["exact"] == {EXACT}, p.lot_status()
    assert p.lot_status()["libraries_patched"] == {int(EXACT)}, p.lot_status()
together(first, second)
for p in tracked:
    passes(p)
print("fine")
""")


@pytest.mark.parametrize("order", ["tracked-second", "second-tracked"])
def test_two_packages_with_one_mlir(order):
    """Each has a tracker of its own: only the first one's hooks can be in the tables."""
    packages = [TRACKED, '(BESIDE + "/sharing", "second")']
    first, second = packages if order == "tracked-second" else packages[::-1]
    works(TOGETHER + f"""
first, second = use(*{first}), use(*{second})
assert first.lot_status()["exact"] == {EXACT}, first.lot_status()
assert not second.lot_status()["exact"]
assert {"second copy of the tracker" if EXACT else "LOT_MLIR_SOURCE"!r} in second.lot_status()["reason"]
together(first, second)
passes(first)
passes(second)
print("fine")
""")


# ---- The same bindings, twice.


def test_importing_again():
    works("""
        from mlir import ir
        module = ir.Module.parse(TWO, context(ir))
        cast, keep = inside(module)
        importlib.reload(sys.modules["mlir._mlir_libs._mlir"])  # does nothing, as Python defines it
        assert ir.lot_status() == sys.modules["mlir._mlir_libs._mlir"].ir.lot_status()
        saved = dict(sys.modules)
        for attempt in range(2):
            forget("mlir")
            refused(ImportError, lambda: importlib.import_module("mlir.ir"), "cannot be loaded again")
        sys.modules.update(saved)
        cast.operation.erase()
        dead(ir, lambda: cast.operation.name, "was erased")
        assert keep.operation.name == "t.keep"
        del module
        gc.collect()
        dead(ir, lambda: keep.operation.name, "was dropped")
        module = ir.Module.parse(TWO, context(ir))
        assert inside(module)[1].operation.name == "t.keep"
        print("fine")
    """)


@pytest.mark.parametrize("first, second", [
    ("mlir.ir", "copied._mlir_libs._mlir"), ("copied._mlir_libs._mlir", "mlir.ir"),
])
def test_a_copy_under_other_file_names(first, second):
    """Copies share nanobind's types, whatever their files are called."""
    works(f"""
        sys.path.append(BESIDE + "/copied")
        first = importlib.import_module({first!r})
        refused(ImportError, lambda: importlib.import_module({second!r}), "cannot be loaded again", "DOMAIN")
        ir = getattr(first, "ir", first)
        assert ir.lot_status()["exact"] == {EXACT}
        assert first.__name__ != "mlir.ir" or str(ir.Module.parse(TWO, context(ir)))
        print("fine")
    """)


@pytest.mark.parametrize("first, second", [(TRACKED, STOCK), (STOCK, TRACKED)], ids=["tracked-stock", "stock-tracked"])
def test_the_stock_package_of_the_same_name(first, second):
    """Both are called `mlir`, so are their libraries: the second one would work with the first one's."""
    works(f"""
        first = use(*{first})
        module = first.Module.parse(TWO, context(first))
        saved = dict(sys.modules)
        forget("mlir")
        refused(ImportError, lambda: use(*{second}))
        sys.modules.update(saved)
        cast, keep = inside(module)
        run(first, "builtin.module(canonicalize)", module)
        if {first == TRACKED}:
            dead(first, lambda: cast.operation.name)
        assert [op.operation.name for op in inside(module)] == ["t.keep"]
        print("fine")
    """)


# ---- Extension modules that call MLIR's C++ functions on the bindings' operations.

LATE = """
def parts(ir, ctx=None):
    module = ir.Module.parse('''module { "t.f"() ({
      ^bb0(%a: i32, %b: i32): "t.one"() : () -> () "t.two"() : () -> () "t.br"()[^bb1] : () -> ()
      ^bb1: "t.three"() : () -> ()
      ^bb2: "t.four"() : () -> () "t.five"() : () -> () }) : () -> () }''', ctx or context(ir))
    return module, list(module.body.operations[0].regions[0].blocks)

def each_end(ir, late, module, blocks):
    first, middle, last = blocks
    one, two, br = first.operations
    three, (four, five) = middle.operations[0], last.operations
    a, b = first.arguments
    late.erase(one.operation._CAPIPtr)
    dead(ir, lambda: one.operation.name, "'t.one' was deleted")
    late.erase_last(first._CAPIPtr)
    dead(ir, lambda: br.operation.name, "'t.br' was deleted")
    late.erase_argument(first._CAPIPtr)
    dead(ir, lambda: a.type)
    late.erase_block(middle._CAPIPtr)
    dead(ir, lambda: middle.operations)
    dead(ir, lambda: three.operation.name)
    late.detach_and_delete(last._CAPIPtr)
    dead(ir, lambda: last.operations)
    dead(ir, lambda: four.operation.name)
    dead(ir, lambda: five.operation.name)
    assert two.operation.name == "t.two" and str(b.type) == "i32"
    assert len(module.body.operations[0].regions[0].blocks) == 1
    assert ir.lot_status()["exact"], ir.lot_status()
"""

exactly = pytest.mark.skipif(not EXACT, reason="structural mode does not see what others do")


@exactly
def test_module_that_is_loaded_before_the_bindings():
    works(LATE + """
import late
from mlir import ir
each_end(ir, late, *parts(ir))
print("fine")
""")


@exactly
def test_module_that_is_loaded_late():
    works(LATE + """
from mlir import ir
before = ir.lot_status()
assert before["libraries_patched"] == 1
module, blocks = parts(ir)
import late
assert ir.lot_status() == before
each_end(ir, late, module, blocks)
assert ir.lot_status()["libraries_patched"] == 2
print("fine")
""")


@exactly
def test_late_module_and_two_packages():
    works(LATE + TOGETHER + f"""
second, ir = use(*{OWN}), use(*{TRACKED})
module, blocks = parts(ir)
strangers = parts(second)
import late
each_end(ir, late, module, blocks)
assert second.lot_status()["libraries_patched"] == 1
together(ir, second)
assert [len(block.operations) for block in strangers[1]] == [3, 1, 2]
print("fine")
""")


@exactly
def test_late_pass():
    """A run covers what was loaded since: nothing else is done here between loading and ending."""
    works("""
        from mlir import ir, passmanager
        module = ir.Module.parse('module { "t.one"() : () -> () "t.two"() : () -> () }', context(ir))
        one, two = module.body.operations
        manager = passmanager.PassManager("builtin.module", context=module.context)
        capsule = manager._CAPIPtr
        import late
        late.add_pass(capsule)
        manager.run(module.operation)
        dead(ir, lambda: two.operation.name, "'t.two' was deleted during PassManager.run")
        assert one.operation.name == "t.one"
        print("fine")
    """)


@exactly
def test_symbol_that_a_module_erases():
    """A symbol table keeps pointers; whoever has a capsule may end what they lead to."""
    works("""
        from mlir import ir
        import late
        module = ir.Module.parse("module { func.func private @f() func.func private @g() }", context(ir))
        table = ir.SymbolTable(module.operation)
        late.erase(table["f"].operation._CAPIPtr)
        module.body.append(ir.Operation.create("t.op", loc=ir.Location.unknown(module.context), ip=False))
        refused(KeyError, lambda: table["f"])
        capsule = table["g"].operation._CAPIPtr
        assert "g" in table
        late.erase(capsule)
        assert "g" not in table
        refused(KeyError, lambda: table["g"])
        print("fine")
    """)


@exactly
@pytest.mark.skipif(not list((BESIDE / "modules").glob("intruder.*")), reason="only written for x86-64")
@pytest.mark.parametrize("next_step", ["ir.Context()", "module.operation._CAPIPtr", "run(ir, 'builtin.module()', module)"])
def test_module_that_cannot_be_covered(next_step):
    """It has put a function of its own into its table. From then on nobody knows where what was tracked is."""
    works(f"""
        from mlir import ir
        module = ir.Module.parse(TWO, context(ir))
        detached = ir.Operation.create("t.detached", loc=ir.Location.unknown(module.context), ip=False)
        cast, keep = inside(module)
        table = ir.SymbolTable(module.operation)
        block = keep.operation.block
        import intruder
        assert ir.lot_status()["exact"]
        {next_step}
        status = ir.lot_status()
        assert status["source"] == "structural" and "redirected by other code" in status["reason"], status
        for fn in (lambda: cast.operation.name, lambda: keep.operation.name, lambda: block.operations):
            dead(ir, fn, "may have been deleted")
        assert module.operation.name == "builtin.module" and detached.name == "t.detached"
        assert "f" not in table

        # Structural mode, as if it had been that from the beginning.
        cast, keep = inside(module)
        assert keep.operation.name == "t.keep"
        module.body.operations[0].operation.erase()
        dead(ir, lambda: keep.operation.name, "ended when 't.f' was erased")
        module.body.append(detached)
        del module, table, block
        gc.collect()
        dead(ir, lambda: detached.name, "ended when 'builtin.module' was dropped")
        print("fine")
    """)


# ---- Other users of the hooks.


def test_somebody_else_wants_hooks_later():
    works(TOGETHER + f"""
from mlir import ir
import observer
module = ir.Module.parse(TWO, context(ir))
before = ir.lot_status()
for attempt in range(2):
    exact, reason = observer.install()
    assert exact == {not EXACT}, reason
    assert {EXACT} == ("second copy of the tracker" in reason), reason
    ir.Context()
    assert ir.lot_status() == before
assert observer.uninstall() == {not EXACT}
ir.Context()
passes(ir)
assert ir.lot_status() == before
print("fine")
""")


def test_somebody_else_has_hooks_already():
    works(TOGETHER + f"""
import observer
assert observer.install() == (True, "")
assert observer.install() == (True, "")
from mlir import ir
status = ir.lot_status()
assert status["source"] == "structural" and not status["exact"], status
assert {"second copy of the tracker" if EXACT else "LOT_MLIR_SOURCE"!r} in status["reason"], status
passes(ir)
assert observer.uninstall()
passes(ir)
print("fine")
""")


# ---- Sub-interpreters.

INTERPRETERS = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"


@pytest.mark.parametrize("order", ["main first", "sub-interpreter first"])
def test_sub_interpreters_are_refused(order):
    works(f"""
        import os
        import {INTERPRETERS} as interpreters
        from_main = {order == "main first"}
        if from_main:
            from mlir import ir
            module = ir.Module.parse(TWO, context(ir))
            cast, keep = inside(module)
        for attempt in range(3):
            interpreter = interpreters.create()
            said, out = os.pipe()
            interpreters.run_string(interpreter, '''if True:
                import os, sys
                sys.path[:] = ''' + repr(sys.path) + '''
                for name in ("mlir.ir", "mlir.ir", "mlir.dialects.func", "mlir._mlir_libs._mlir"):
                    try:
                        __import__(name)
                    except ImportError as error:
                        text = f"ImportError: {{error}}"
                    else:
                        text = "it works"
                    os.write(%d, text.encode() + b"|")
            ''' % out)
            interpreters.destroy(interpreter)
            os.close(out)
            texts = os.read(said, 100000).decode().split("|")[:-1]
            assert len(texts) == 4, texts
            for text in texts:
                assert text.startswith("ImportError:") and "interpreter" in text, text
                assert sys.version_info >= (3, 12) or "process" in text, text
        if not from_main:
            from mlir import ir
            module = ir.Module.parse(TWO, context(ir))
            cast, keep = inside(module)
        cast.operation.erase()
        dead(ir, lambda: cast.operation.name, "was erased")
        assert keep.operation.name == "t.keep"
        assert ir.lot_status()["exact"] == {EXACT}
        print("fine")
    """)
