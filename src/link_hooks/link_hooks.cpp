// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Link hooks: with -Wl,--wrap=NAME the linker makes calls of NAME in a static MLIR arrive at
// __wrap_NAME, and gives NAME itself the name __real_NAME. Each function here reports the end first,
// since afterwards another thread may already have a new object at that address.
//
// The names are those that the load hooks watch (src/mlir/names.rs says why these). A test in
// tests/mlir_names.rs compares the two lists with the linker options in CMakeLists.txt.

#include <cstdint>

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

// Arguments of a block that stays. Only the function itself knows their addresses, and it tells them
// to its predicate, once for each argument, in their order, just before that one goes: so a predicate
// of ours goes in between. The other three functions are done by the same one, with a predicate that
// counts.

// An llvm::function_ref<bool(BlockArgument)>; a BlockArgument is passed as its address.
struct Predicate {
  bool (*function)(std::intptr_t data, const void *argument);
  std::intptr_t data;
};

// The parts of an llvm::BitVector that are needed: it starts with the address of its words.
struct Bits {
  const std::uint64_t *words;
};

extern "C" void __real__ZN4mlir5Block14eraseArgumentsEN4llvm12function_refIFbNS_13BlockArgumentEEEE(
    void *block, Predicate goes);

namespace {
template <typename Goes> void eraseAndReport(void *block, Goes goes) {
  struct Erasure {
    Goes goes;
    unsigned next;
  } erasure = {goes, 0};
  Predicate predicate = {
      [](std::intptr_t data, const void *argument) {
        auto *erasure = reinterpret_cast<Erasure *>(data);
        bool goes = erasure->goes(erasure->next++, argument);
        if (goes)
          lot_mlir_report_block_argument(argument);
        return goes;
      },
      reinterpret_cast<std::intptr_t>(&erasure)};
  __real__ZN4mlir5Block14eraseArgumentsEN4llvm12function_refIFbNS_13BlockArgumentEEEE(block,
                                                                                      predicate);
}
} // namespace

// The parameters, their names, and which argument (number i, address a) goes.
#define LOT_ARGUMENTS_HOOK(NAME, PARAMETERS, NAMES, GOES)                                          \
  extern "C" void __real_##NAME PARAMETERS;                                                        \
  extern "C" void __wrap_##NAME PARAMETERS;                                                        \
  extern "C" void __wrap_##NAME PARAMETERS {                                                       \
    if (!lot_mlir_wants_block_arguments())                                                         \
      return __real_##NAME NAMES;                                                                  \
    eraseAndReport(block, [&](unsigned i, const void *a) -> bool {                                 \
      (void)i, (void)a;                                                                            \
      return GOES;                                                                                 \
    });                                                                                            \
  }

LOT_ARGUMENTS_HOOK(_ZN4mlir5Block13eraseArgumentEj, (void *block, unsigned number),
                   (block, number), i == number)
LOT_ARGUMENTS_HOOK(_ZN4mlir5Block14eraseArgumentsEjj,
                   (void *block, unsigned first, unsigned count), (block, first, count),
                   i >= first && i - first < count)
LOT_ARGUMENTS_HOOK(_ZN4mlir5Block14eraseArgumentsERKN4llvm9BitVectorE,
                   (void *block, const Bits *bits), (block, bits),
                   (bits->words[i / 64] >> (i % 64) & 1) != 0)
LOT_ARGUMENTS_HOOK(
    _ZN4mlir5Block14eraseArgumentsEN4llvm12function_refIFbNS_13BlockArgumentEEEE,
    (void *block, Predicate predicate), (block, predicate), predicate.function(predicate.data, a))
