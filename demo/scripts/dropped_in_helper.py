# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A helper function returns operations, and drops their module"""

from mlir.ir import Context, Module

from accident import stale, survives


def functions_in(text, context):
    module = Module.parse(text, context)
    return list(module.body.operations)


context = Context()
kept = Module.parse("func.func private @kept()", context)
lost, *_ = functions_in("func.func @lost() { return }", context)

stale("the returned function", lambda: str(lost))
survives("a function of another module", lambda: kept.body.operations[0].name.value, "kept")
