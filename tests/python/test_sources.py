# What the sources of the bindings may call.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import pathlib
import re

from mlir import ir

BUILD = pathlib.Path(ir.__file__).parents[2]  # where the package was built
PATCHED, HEADERS = BUILD / "patched", BUILD / "dev" / "mlir" / "include" / "mlir-c"
OURS = pathlib.Path(__file__).parents[2] / "upstream" / "llvm-22.1"

# Functions of MLIR's C API that change IR or run something on it, by their names, so that a new one is covered.
OBJECTS = "Operation|BlockArgument|Block|Region|Value|OpOperand|OpResult|SymbolTable|RewriterBase|PatternRewriter|Func|Linalg"
VERBS = "Set|Remove|Erase|Insert|Append|Add|Move|Detach|Destroy|Replace|Take|Inline|Merge|Fill"
CHANGES = re.compile(rf"mlir({OBJECTS})({VERBS}|[A-Z]\w*?({VERBS})(?=[A-Z]|$))\w*")
RUNS = re.compile(r"mlir(PassManagerRun|Apply[A-Z]\w*Patterns|ApplyPatterns|WalkAndApply|TransformApply|MergeSymbols)\w*")
# They make or end something that is no part of any IR yet, or any more.
NOT_IR = re.compile(r"mlir(OperationState\w*|SymbolTableDestroy|\w*Get[A-Z]\w*|LinalgInfer\w*)$")

# The one place that makes such calls.
GATE = "changes.cpp"
# They give the gate's calls their checks of arguments: each function here has the name of MLIR's that it ends in.
CHECKS = {"checked_calls.h", "checked_calls.cpp", "checked_transform.h"}


def changing(names):
    return {name for name in names if (CHANGES.fullmatch(name) or RUNS.fullmatch(name)) and not NOT_IR.fullmatch(name)}


def declared():
    """The functions of the C API."""
    text = "".join(path.read_text() for path in sorted(HEADERS.rglob("*.h")))
    return set(re.findall(r"\b(mlir[A-Z]\w*)\(", text))


def compiled(text):
    """The part of a source that is compiled, without comments: the patch leaves upstream's lines in `#if 0`."""
    text = re.sub(r"^#if 0\b.*?^#endif", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def sources():
    core = "MLIRPythonSupport Core TransformInterpreter ExecutionEngine"
    dialects = "Linalg LLVM SMT IRDL"
    folders = [PATCHED / "src/python" / f"MLIRPythonExtension.{name}" for name in core.split()]
    folders += [PATCHED / "src/python" / f"MLIRPythonExtension.Dialects.{name}.Nanobind" for name in dialects.split()]
    folders += [PATCHED / "include/mlir/Bindings/Python", OURS / "src", OURS / "include/lot_python"]
    return [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in (".cpp", ".h")]


def calls(path):
    return changing(re.findall(r"\b(mlir[A-Z]\w*)\b", compiled(path.read_text())))


def test_only_the_gate_calls_what_changes_or_runs():
    known = changing(declared())
    assert {"mlirOperationSetAttributeByName", "mlirBlockDetach", "mlirRewriterBaseEraseOp", "mlirOperationDestroy",
            "mlirPassManagerRunOnOp", "mlirApplyPatternsAndFoldGreedilyWithOp", "mlirWalkAndApplyPatterns",
            "mlirMergeSymbolsIntoFromClone", "mlirOperationReplaceUsesOfWith", "mlirRegionAppendOwnedBlock"} <= known
    found = {path.name: calls(path) for path in sources()}
    assert len(found) > 30
    assert len(found.pop(GATE)) > 25
    assert {name: names for name, names in found.items() if names and name not in CHECKS} == {}


def test_a_check_of_arguments_calls_the_function_it_stands_for_and_no_other_that_changes():
    text = compiled((OURS / "src" / "checked_calls.cpp").read_text())
    called = re.findall(r"::(mlir[A-Z]\w*)\(", text)
    defined = re.findall(r"^\w[\w ]*?[ *](mlir[A-Z]\w*)\(", text, flags=re.MULTILINE)
    assert changing(called) and changing(called) <= set(defined)


def test_each_function_of_the_gate_that_changes_ir_asks_first():
    # What ends something was asked for by `PyOperation::eraseBy`; destructors cannot ask.
    ends = {"destroyOperation", "eraseBy", "replaceBy", "eraseSymbol", "dropOperands", "redirectBranch", "setAside", "putBack"}
    text = compiled((OURS / "src" / GATE).read_text()).split("} // namespace\n", 1)[-1]
    functions = re.findall(r"^[A-Za-z]\w* (\w+)\([^{;]*\) \{(.*?)\}$", text, flags=re.MULTILINE | re.DOTALL)
    assert len(functions) > 30
    for name, body in functions:
        if changing(re.findall(r"\b(mlir[A-Z]\w*)\b", body)) and name not in ends:
            assert re.match(r"\s*(MlirOperation source = .*?;\s*)?(require\w+\(|return run\.perform\()|run\.perform\(", body.strip()), name
