# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the `python_test` dialect that three of upstream's tests need and no package of the bindings has.

Its sources are beside the tests. The extension module is compiled twice, as it holds references to IR: with
upstream's headers for the stock bindings, with the patched ones for the tracked ones.
"""

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MODULE = "_mlirPythonTestNanobind"
GENERATED = {
    "dialect-decls": "PythonTestDialect.h", "dialect-defs": "PythonTestDialect.cpp",
    "op-decls": "PythonTestOps.h", "op-defs": "PythonTestOps.cpp",
    "attrdef-decls": "PythonTestAttributes.h", "attrdef-defs": "PythonTestAttributes.cpp",
    "typedef-decls": "PythonTestTypes.h", "typedef-defs": "PythonTestTypes.cpp",
}  # fmt: skip
DEFINITIONS = ["-DMLIR_BINDINGS_PYTHON_DOMAIN=mlir", "-DMLIR_BINDINGS_PYTHON_NB_DOMAIN=mlir", "-DNB_DOMAIN=mlir",
               "-DNB_SHARED", "-DMLIR_PYTHON_PACKAGE_PREFIX=mlir.", "-DNDEBUG"]

# `mlir` and `mlir.dialects` are namespace packages, so what is in a second folder joins them; `_mlir_libs` is
# not one, hence the finder.
DIALECT = """\
import importlib

from mlir.dialects._python_test_ops_gen import *


def register_python_test_dialect(registry):
    importlib.import_module("mlir._mlir_libs.{module}").register_dialect(registry)
"""
SITE = """\
import importlib.util
import os
import sys


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "mlir._mlir_libs.{module}":
            file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "{module}{suffix}")
            return importlib.util.spec_from_file_location(name, file)


sys.meta_path.insert(0, Finder())
"""


def ask(python, code):
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def build(tests, bindings_build, pythons, folder, tblgen):
    """{"stock": FOLDER, "tracked": FOLDER} for PYTHONPATH; built anew if the bindings are newer."""
    dev, patched = bindings_build / "dev", bindings_build / "patched"
    suffix = ask(pythons["stock"], "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
    newest = max(p.stat().st_mtime for p in [*(patched / "include").rglob("*.h"), *(tests / "lib").iterdir()])
    modules = {kind: folder / kind / (MODULE + suffix) for kind in pythons}
    if any(not m.exists() or m.stat().st_mtime < newest for m in modules.values()):
        print("compiling upstream's test dialect ...", flush=True)
        compile_all(tests, bindings_build, pythons, folder, tblgen, modules, suffix)
    return {kind: folder / kind for kind in pythons}


def compile_all(tests, bindings_build, pythons, folder, tblgen, modules, suffix):
    dev, patched = bindings_build / "dev", bindings_build / "patched"
    lib, generated = tests / "lib", folder / "generated"
    generated.mkdir(parents=True, exist_ok=True)
    for kind, name in GENERATED.items():
        subprocess.run([tblgen, f"-gen-{kind}", "-I", dev / "mlir/include", tests / "python_test_ops.td",
                        "-o", generated / f"{name}.inc"], check=True)  # fmt: skip

    include = ask(pythons["stock"], "import sysconfig; print(sysconfig.get_path('include'))")
    compiler = ["g++", "-std=c++17", "-O0", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-w",
                "-I", lib, "-I", generated]  # fmt: skip
    system = [part for path in (dev / "mlir/include", dev / "llvm/include", dev / "nanobind/include", include)
              for part in ("-isystem", path)]  # fmt: skip
    objects = []
    for source in ("PythonTestCAPI", "PythonTestDialect"):
        objects.append(generated / f"{source}.o")
        # Like MLIR itself, without run-time type information.
        subprocess.run([*compiler, *system, "-fno-rtti", "-DNDEBUG", "-c", lib / f"{source}.cpp",
                        "-o", objects[-1]], check=True)  # fmt: skip
    ours = ["-I", patched / "include", "-I", REPOSITORY / "upstream/llvm-22.1/include",
            "-I", REPOSITORY / "include"]  # fmt: skip
    for kind, module in modules.items():
        libs = Path(ask(pythons[kind], "import mlir._mlir_libs as m; print(m.__path__[0])"))
        dialects = module.parent / "mlir/dialects"
        dialects.mkdir(parents=True, exist_ok=True)
        subprocess.run([tblgen, "-gen-python-op-bindings", "-bind-dialect=python_test",
                        "-I", dev / "mlir/include", tests / "python_test_ops.td",
                        "-o", dialects / "_python_test_ops_gen.py"], check=True)  # fmt: skip
        (dialects / "python_test.py").write_text(DIALECT.format(module=MODULE))
        (module.parent / "sitecustomize.py").write_text(SITE.format(module=MODULE, suffix=suffix))
        subprocess.run([*compiler, *(ours if kind == "tracked" else []), *system, *DEFINITIONS, "-shared",
                        lib / "PythonTestModuleNanobind.cpp", *objects, "-o", module, "-L", libs,
                        "-lMLIRPythonSupport-mlir", "-lMLIRPythonCAPI", "-lnanobind-mlir",
                        bindings_build / "stock/llvm/lib/libLLVM.so"], check=True)  # fmt: skip
