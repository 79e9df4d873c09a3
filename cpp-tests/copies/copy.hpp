// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the programs of this folder speak to one copy of the tracker in their process.
#ifndef LOT_CPP_TESTS_COPY_HPP
#define LOT_CPP_TESTS_COPY_HPP

#include <cstddef>

#include "lot/lot.h"

/// What a binary with a copy of its own shows to the others.
struct Copy {
  const char *name;
  /// Tracks an object at each of `objects`; false if the tracker refuses.
  bool (*fill)(const void *const *objects, lot_ref *out, std::size_t count);
  bool (*erase)(const void *object);
  std::size_t (*count)();
  /// lot::Ref::isLive, inline wherever the compiler inlines.
  bool (*isLiveInline)(lot_ref ref);
  bool (*isLiveByCall)(lot_ref ref);
};

#endif
