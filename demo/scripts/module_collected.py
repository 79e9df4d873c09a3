# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The module is garbage, and a reference to its function is kept"""
# The situation of the first script in LLVM issue 92344.

import gc

from mlir.ir import Context, Module

from accident import stale, survives

context = Context()
library = Module.parse("func.func private @square(f64) -> f64", context)
square = library.body.operations[0]

program = Module.parse("func.func @main() { return }", context)
main = program.body.operations[0]
program = None
gc.collect()

stale("the function", lambda: str(main))
survives("a function whose module is still there", lambda: square.name.value, "square")
