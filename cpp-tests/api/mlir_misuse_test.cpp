// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C functions of lot/mlir.h in a program without MLIR: each with null, made-up values, twice, and after
// the tracker's destruction. What they do with an MLIR is tested in cpp-tests/mlir.
#include <cstdlib>
#include <cstring>

#include "lot/mlir.h"
#include "support.hpp"

namespace {

using namespace support;

class MlirMisuse : public ::testing::Test {
protected:
  void SetUp() override { live = track(tracker, at[0]); }
  void TearDown() override {
    EXPECT_TRUE(live.isLive());
    EXPECT_FALSE(tracker.isExact());
    EXPECT_EQ(stats(tracker).internal_errors, 0u);
    EXPECT_EQ(selfTests, 0);
  }

  static bool selfTest(lot_tracker, void *data) {
    ++*static_cast<int *>(data);
    return true;
  }

  Places at{4};
  lot::OwnedTracker tracker{"mlir misuse"};
  lot::Ref live;
  int selfTests = 0;
};

#define EXPECT_FAILS(status, call)                                                                 \
  do {                                                                                             \
    EXPECT_EQ(call, status);                                                                       \
    EXPECT_STRNE(lot_last_error_message(), "");                                                    \
  } while (false)

TEST_F(MlirMisuse, R17_NullArguments) {
  const lot_status null = LOT_ERROR_NULL_ARGUMENT;
  const void *symbol = reinterpret_cast<const void *>(&std::malloc);
  EXPECT_FAILS(null, lot_mlir_install_load_hooks(tracker.raw(), nullptr, selfTest, &selfTests));
  EXPECT_FAILS(null, lot_mlir_install_load_hooks(tracker.raw(), symbol, nullptr, nullptr));
  EXPECT_FAILS(null, lot_mlir_install_link_hooks(tracker.raw(), nullptr, nullptr));
  EXPECT_FAILS(null, lot_mlir_get_status(tracker.raw(), nullptr));
  lot_mlir_report_operation(nullptr);
  lot_mlir_report_block(nullptr);
}

TEST_F(MlirMisuse, R17_ASymbolThatIsInNoMlirIsUnsupportedAndSaysWhy) {
  int onStack = 0;
  for (const void *symbol : {reinterpret_cast<const void *>(&std::malloc),
                             static_cast<const void *>(&onStack),
                             reinterpret_cast<const void *>(std::uintptr_t(8))}) {
    EXPECT_FAILS(LOT_ERROR_UNSUPPORTED,
                 lot_mlir_install_load_hooks(tracker.raw(), symbol, selfTest, &selfTests));
    lot_mlir_status status = {};
    ASSERT_EQ(lot_mlir_get_status(tracker.raw(), &status), LOT_OK);
    EXPECT_EQ(status.source, static_cast<lot_mlir_source>(LOT_MLIR_SOURCE_STRUCTURAL));
    EXPECT_EQ(status.slots_patched, 0u);
    EXPECT_EQ(status.libraries_patched, 0u);
    ASSERT_NE(status.reason, nullptr);
    EXPECT_STRNE(status.reason, "");
  }
}

TEST_F(MlirMisuse, R17_TakingBackWhatIsNotThere) {
  const lot_status inactive = LOT_ERROR_NOT_ACTIVE;
  EXPECT_FAILS(inactive, lot_mlir_uninstall_load_hooks(tracker.raw()));
  EXPECT_FAILS(inactive, lot_mlir_uninstall_link_hooks(tracker.raw()));
  EXPECT_FAILS(inactive, lot_mlir_listener_end(tracker.raw()));
  EXPECT_EQ(lot_mlir_listener_begin(tracker.raw()), LOT_OK);
  EXPECT_FALSE(tracker.isExact());
  lot_mlir_status status = {};
  ASSERT_EQ(lot_mlir_get_status(tracker.raw(), &status), LOT_OK);
  EXPECT_EQ(status.source, static_cast<lot_mlir_source>(LOT_MLIR_SOURCE_LISTENER));
  EXPECT_EQ(lot_mlir_listener_end(tracker.raw()), LOT_OK);
  EXPECT_FAILS(inactive, lot_mlir_listener_end(tracker.raw()));
  EXPECT_EQ(lot_mlir_refresh(tracker.raw()), LOT_OK);
}

void expectNoTracker(lot_tracker tracker, lot_mlir_self_test_fn selfTest, int *selfTests) {
  const lot_status none = LOT_ERROR_NO_TRACKER;
  const void *symbol = reinterpret_cast<const void *>(&std::malloc);
  EXPECT_FAILS(none, lot_mlir_install_load_hooks(tracker, symbol, selfTest, selfTests));
  EXPECT_FAILS(none, lot_mlir_uninstall_load_hooks(tracker));
  EXPECT_FAILS(none, lot_mlir_refresh(tracker));
  EXPECT_FAILS(none, lot_mlir_install_link_hooks(tracker, selfTest, selfTests));
  EXPECT_FAILS(none, lot_mlir_uninstall_link_hooks(tracker));
  EXPECT_FAILS(none, lot_mlir_listener_begin(tracker));
  EXPECT_FAILS(none, lot_mlir_listener_end(tracker));
  lot_mlir_status status = {};
  status.slots_patched = 77;
  EXPECT_FAILS(none, lot_mlir_get_status(tracker, &status));
  EXPECT_EQ(status.slots_patched, 77u);
}

TEST_F(MlirMisuse, R17_HandlesThatAreNoTrackers) {
  expectNoTracker({0}, selfTest, &selfTests);
  expectNoTracker({tracker.raw().id + 1}, selfTest, &selfTests);
  expectNoTracker({~std::uint64_t(0)}, selfTest, &selfTests);
  lot::Tracker destroyed;
  ASSERT_TRUE(lot::Tracker::create("destroyed", destroyed));
  ASSERT_TRUE(destroyed.destroy());
  expectNoTracker(destroyed.raw(), selfTest, &selfTests);
}

TEST_F(MlirMisuse, R11_ReportsOfAddressesThatNobodyTracks) {
  lot_mlir_report_operation(at[3]);
  lot_mlir_report_block(at[3]);
  // And of one that is tracked by a tracker which has no link hooks.
  lot_mlir_report_operation(at[0]);
  EXPECT_TRUE(live.isLive());
}

} // namespace
