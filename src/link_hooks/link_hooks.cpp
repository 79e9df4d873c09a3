// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Link hooks: with -Wl,--wrap=NAME the linker makes calls of NAME in a static MLIR arrive at
// __wrap_NAME, and gives NAME itself the name __real_NAME. Each function here reports the end first,
// since afterwards another thread may already have a new object at that address.
//
// The names are those that the load hooks watch (src/mlir/names.rs says why these). A test in
// tests/mlir_names.rs compares the two lists with the linker options in CMakeLists.txt.

#include "lot/mlir.h"

#define LOT_HOOK(NAME, REPORT)                                                                     \
  extern "C" void __real_##NAME(void *object);                                                     \
  extern "C" void __wrap_##NAME(void *object);                                                     \
  extern "C" void __wrap_##NAME(void *object) {                                                    \
    REPORT(object);                                                                                \
    __real_##NAME(object);                                                                         \
  }

LOT_HOOK(_ZN4mlir9Operation5eraseEv, lot_mlir_report_operation)
LOT_HOOK(_ZN4mlir9Operation7destroyEv, lot_mlir_report_operation)
LOT_HOOK(_ZN4llvm12ilist_traitsIN4mlir9OperationEE10deleteNodeEPS2_, lot_mlir_report_operation)
LOT_HOOK(_ZN4mlir5BlockD1Ev, lot_mlir_report_block)
LOT_HOOK(_ZN4mlir5BlockD2Ev, lot_mlir_report_block)
LOT_HOOK(_ZN4mlir5Block5eraseEv, lot_mlir_report_block)
