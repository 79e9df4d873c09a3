// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Another binding for the same MLIR, that has the tracker linked statically into it.

#include "lot/mlir.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

static lot::Tracker tracker;

EXPORT lot_status second_install(const void *symbol, lot_mlir_status *status) {
  if (tracker.raw().id == 0)
    lot::Tracker::create("second", tracker).ignore();
  lot_status result =
      lot_mlir_install_load_hooks(tracker.raw(), symbol, lot::mlir::selfTest, nullptr);
  lot_mlir_get_status(tracker.raw(), status);
  return result;
}

EXPORT lot_status second_uninstall() { return lot_mlir_uninstall_load_hooks(tracker.raw()); }
