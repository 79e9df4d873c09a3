# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A pass removes an operation that a reference is kept to"""

from mlir.ir import Context, Module
from mlir.passmanager import PassManager

from accident import stale, survives

context = Context()
module = Module.parse(
    """
    func.func @store(%where: memref<i32>, %what: i32) {
      %unused = arith.constant 10 : i32
      %always = arith.constant true
      scf.if %always { memref.store %what, %where[] : memref<i32> }
      return
    }
    """,
    context,
)
function = module.body.operations[0]
unused, always, branch, end = function.regions[0].blocks[0].operations
moved = branch.regions[0].blocks[0].operations[0]
PassManager.parse("builtin.module(canonicalize)", context).run(module.operation)

stale("the removed operation", lambda: str(unused))
survives("the operation that the pass moved out", lambda: moved.operation.name, "memref.store")
survives("what the pass left alone", lambda: end.operation.name, "func.return")
