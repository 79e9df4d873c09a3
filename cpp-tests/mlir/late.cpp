// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An extension that is loaded late and destroys operations itself.

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

extern "C" void late_erase(mlir::Operation *operation) { operation->erase(); }
extern "C" void late_delete(mlir::Block *block) { delete block; }
// The address, taken from the table of this library's data.
extern "C" {
void (mlir::Operation::*late_member)() = &mlir::Operation::erase;
}
extern "C" void late_erase_by_address(mlir::Operation *operation) {
  (operation->*late_member)();
}
