// What the C++ benchmarks share: made-up objects, a shuffle that is the same in each run, and trackers.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_BENCHES_COMMON_HPP
#define LOT_BENCHES_COMMON_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "lot/lot.hpp"

namespace bench {

/// A benchmark that did not do its work must not look fast.
inline void check(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "benchmark failed: %s (%s)\n", what, lot_last_error_message());
  std::exit(1);
}

/// The distance of made-up objects: that of small operations.
constexpr std::uintptr_t kStep = 112;

/// The tracker never follows an address, so they can be made up, and are the same in each run.
inline const void *object(std::size_t number) {
  return reinterpret_cast<const void *>(0x555556000000 + number * kStep);
}

/// An address between those that `object` gives: nobody tracks it.
inline const void *stranger(std::size_t number) {
  return reinterpret_cast<const void *>(0x555556000000 + number * kStep + 64);
}

inline std::uint64_t nextRandom(std::uint64_t &state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

template <typename T> void shuffle(std::vector<T> &items) {
  std::uint64_t state = 0x2545f4914f6cdd1d;
  for (std::size_t last = items.size(); last > 1; --last)
    std::swap(items[last - 1], items[nextRandom(state) % last]);
}

/// 0 to count - 1, shuffled.
inline std::vector<std::uint32_t> shuffledNumbers(std::size_t count) {
  std::vector<std::uint32_t> numbers(count);
  for (std::size_t number = 0; number < count; ++number)
    numbers[number] = static_cast<std::uint32_t>(number);
  shuffle(numbers);
  return numbers;
}

inline lot::Ref track(const lot::Tracker &tracker, const void *object,
                      lot::Ancestors ancestors = {}, std::uint64_t scope = 1) {
  lot::Ref ref;
  check(bool(tracker.track(object, scope, 0, ancestors, nullptr, ref)), "track");
  return ref;
}

} // namespace bench

#endif // LOT_BENCHES_COMMON_HPP
