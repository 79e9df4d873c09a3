// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What really happened to memory, told by free() itself and not by anything that is under test.
#ifndef LOT_CPP_TESTS_TRUTH_HPP
#define LOT_CPP_TESTS_TRUTH_HPP

namespace truth {

/// From now on it is known whether this block from malloc() has been freed.
void watch(const void *memory);
/// Whether a watched block has been freed since, even if it has been handed out anew.
bool freed(const void *memory);
/// Forgets all blocks. No other thread may be freeing memory.
void forget();

} // namespace truth

#endif
