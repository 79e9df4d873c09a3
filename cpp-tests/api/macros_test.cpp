// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lot/lot.hpp"

extern "C" const char *lot_macros_in_c(void);
extern "C" bool lot_is_live_in_c(lot_ref ref);

namespace {

struct Named {
  std::int64_t value;
  std::string macro;
};

const std::vector<Named> statuses = {
#define STATUS(name) {name, #name},
#define CAUSE(name)
#include "lot_names.inc"
#undef STATUS
#undef CAUSE
};

const std::vector<Named> causes = {
#define STATUS(name)
#define CAUSE(name) {name, #name},
#include "lot_names.inc"
#undef STATUS
#undef CAUSE
};

TEST(Macros, VersionMacrosAreWhatTheFunctionsReturn) {
  EXPECT_STREQ(lot_macros_in_c(), nullptr);
  EXPECT_STREQ(lot_version_string(), LOT_VERSION_STRING);
  EXPECT_EQ(lot_abi_version(), static_cast<std::uint32_t>(LOT_ABI_VERSION));
  EXPECT_EQ(std::string(LOT_VERSION_STRING), std::to_string(LOT_VERSION_MAJOR) + "." +
                                                 std::to_string(LOT_VERSION_MINOR) + "." +
                                                 std::to_string(LOT_VERSION_PATCH));
}

TEST(Macros, EveryStatusIsDistinctAndKnowsItsName) {
  ASSERT_GE(statuses.size(), 10u);
  std::set<std::int64_t> values;
  for (const Named &status : statuses) {
    EXPECT_TRUE(values.insert(status.value).second) << status.macro;
    EXPECT_STREQ(lot_status_name(static_cast<lot_status>(status.value)), status.macro.c_str());
  }
  // An unknown one has some name, and not that of a known one.
  for (lot_status unknown : {-1, 1000, 0x7fffffff}) {
    const char *name = lot_status_name(unknown);
    ASSERT_NE(name, nullptr);
    for (const Named &status : statuses)
      EXPECT_STRNE(name, status.macro.c_str());
  }
}

TEST(Macros, EveryCauseIsDistinctAndKnowsItsName) {
  ASSERT_GE(causes.size(), 8u);
  std::set<std::int64_t> values;
  for (const Named &cause : causes) {
    EXPECT_TRUE(values.insert(cause.value).second) << cause.macro;
    // LOT_CAUSE_MISSED_END is "missed end".
    std::string words = cause.macro.substr(std::strlen("LOT_CAUSE_"));
    std::transform(words.begin(), words.end(), words.begin(), [](unsigned char letter) {
      return letter == '_' ? ' ' : static_cast<char>(std::tolower(letter));
    });
    EXPECT_EQ(lot_cause_name(static_cast<lot_cause>(cause.value)), words);
  }
  ASSERT_NE(lot_cause_name(12345), nullptr);
}

TEST(Macros, KindsFitTheirCount) {
  EXPECT_EQ(LOT_KIND_COUNT, 16);
  EXPECT_GE(LOT_KIND_ANY, LOT_KIND_COUNT);
}

TEST(Macros, CAndCxxPassARefAlike) {
  lot::OwnedTracker tracker("macros");
  int object = 0;
  lot::Ref ref;
  ASSERT_TRUE(tracker.track(&object, 1, 0, lot::Ancestors(), nullptr, ref));
  EXPECT_TRUE(lot_is_live_in_c(ref.raw()));
  EXPECT_TRUE(tracker.erase(&object));
  EXPECT_FALSE(lot_is_live_in_c(ref.raw()));
}

} // namespace
