// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the API tests share.
#ifndef LOT_CPP_TESTS_SUPPORT_HPP
#define LOT_CPP_TESTS_SUPPORT_HPP

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "lot/lot.hpp"

namespace support {

// The kinds that MLIR's layer uses, so that the tests read like what happens there.
inline constexpr lot_kind Op = 0;
inline constexpr lot_kind Block = 1;
inline constexpr lot_kind Argument = 2;
inline constexpr std::uint64_t Scope = 0x5c09e;

/// Long loops are shortened where each step is slow (valgrind).
inline std::size_t times(std::size_t count) {
  const char *text = std::getenv("LOT_TEST_DIVISOR");
  std::size_t divisor = text ? std::strtoul(text, nullptr, 10) : 1;
  return divisor > 1 ? count / divisor + 1 : count;
}

/// Addresses that are nobody else's, and never read: an object of the framework's is not ours to read.
class Places {
public:
  explicit Places(std::size_t count) : memory_(new char[count * Size]), count_(count) {}
  const void *operator[](std::size_t index) const {
    EXPECT_LT(index, count_);
    return memory_.get() + index * Size;
  }
  std::size_t size() const { return count_; }

private:
  static constexpr std::size_t Size = 16;
  std::unique_ptr<char[]> memory_;
  std::size_t count_;
};

using Path = std::vector<const void *>;

inline lot::Ref track(const lot::Tracker &tracker, const void *object, const Path &ancestors = {},
                      lot_kind kind = Op, std::uint64_t scope = Scope, void *user = nullptr) {
  lot::Ref ref;
  lot::Status status = tracker.track(object, scope, kind, ancestors, user, ref);
  EXPECT_TRUE(status) << status.name() << ": " << lot::Status::message();
  EXPECT_TRUE(ref.isLive());
  return ref;
}

inline lot::Ref create(const lot::Tracker &tracker, const void *object, const Path &ancestors = {},
                       lot_kind kind = Op, std::uint64_t scope = Scope, void *user = nullptr) {
  lot::Ref ref;
  lot::Status status = tracker.create(object, scope, kind, ancestors, user, ref);
  EXPECT_TRUE(status) << status.name() << ": " << lot::Status::message();
  EXPECT_TRUE(ref.isLive());
  return ref;
}

inline lot_stats stats(const lot::Tracker &tracker) {
  lot_stats stats = {};
  EXPECT_TRUE(tracker.stats(stats));
  return stats;
}

/// The cause that a dead ref gives; LOT_CAUSE_UNKNOWN where there is no record.
inline lot_cause cause(lot::Ref ref) {
  lot_death death = {};
  return ref.death(death) ? death.cause : LOT_CAUSE_UNKNOWN;
}

} // namespace support

#endif
