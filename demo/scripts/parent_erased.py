# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parent is erased, and a reference to a child is used"""

from mlir.ir import Context, Module

from accident import stale, survives

context = Context()
module = Module.parse(
    """
    func.func @old(%a: i32) -> i32 { %0 = arith.addi %a, %a : i32 return %0 : i32 }
    func.func @new(%a: i32) -> i32 { %0 = arith.muli %a, %a : i32 return %0 : i32 }
    """,
    context,
)
old, new = module.body.operations
sum_, product = (function.regions[0].blocks[0].operations[0] for function in (old, new))
old.erase()

stale("the child", lambda: str(sum_))
survives("the other function's child", lambda: product.operation.name, "arith.muli")
survives("the module", lambda: len(module.body.operations), 1)
