// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What really happened to memory, told by free() itself and not by anything that is under test.
#ifndef LOT_CPP_TESTS_TRUTH_HPP
#define LOT_CPP_TESTS_TRUTH_HPP

#include "lot/lot.h"

namespace truth {

/// From now on it is known whether this block from malloc() has been freed, and whether the ref was
/// still live at that moment: another thread could then have got it for what is there next.
void watch(const void *memory, lot_ref ref = lot_ref{nullptr, 0});
/// Whether a watched block has been freed since, even if it has been handed out anew.
bool freed(const void *memory);
/// Whether it was freed with its ref still live.
bool freedWhileLive(const void *memory);
/// Forgets all blocks. No other thread may be freeing memory.
void forget();

} // namespace truth

#endif
