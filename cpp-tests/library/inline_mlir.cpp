// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Uses what lot/mlir.hpp has.

#include "lot/mlir.hpp"

bool useAll(lot::Tracker tracker, mlir::Operation *operation, mlir::BlockArgument argument);

bool useAll(lot::Tracker tracker, mlir::Operation *operation, mlir::BlockArgument argument) {
  lot::Ref ref;
  mlir::MLIRContext *context = operation->getContext();
  lot::mlir::Origin origin(operation);
  lot::mlir::Listener listener(tracker);
  bool fine = lot::mlir::selfTest(tracker.raw(), nullptr);
  fine &= bool(lot::mlir::track(tracker, operation, ref));
  fine &= bool(lot::mlir::track(tracker, context, argument, ref));
  fine &= bool(lot::mlir::create(tracker, context, operation->getBlock(), ref));
  fine &= bool(lot::mlir::moved(tracker, operation));
  return fine && origin.name == operation->getName();
}
