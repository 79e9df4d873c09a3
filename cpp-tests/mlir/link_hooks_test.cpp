// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Link hooks, beyond what they share with load hooks.

#include "ir.hpp"
#include "source.hpp"

const lot_mlir_source source::kind = LOT_MLIR_SOURCE_LINK_HOOKS;
lot_status source::install(lot::Tracker tracker, lot_mlir_self_test_fn selfTest) {
  return lot_mlir_install_link_hooks(tracker.raw(), selfTest, nullptr);
}
lot_status source::uninstall(lot::Tracker tracker) {
  return lot_mlir_uninstall_link_hooks(tracker.raw());
}

namespace {

bool sees(lot::Tracker tracker) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects();
  mlir::Operation *operation = mlir::Operation::create(
      mlir::OperationState(mlir::UnknownLoc::get(&context), "test.op"));
  lot::Ref ref;
  EXPECT_TRUE(lot::mlir::track(tracker, operation, ref));
  operation->erase();
  bool seen = !ref.isLive();
  ref.release().ignore();
  return seen;
}

TEST(LinkHooks, TwiceIsOnce) {
  lot::OwnedTracker tracker("twice");
  EXPECT_FALSE(sees(tracker));
  ASSERT_EQ(source::install(tracker), LOT_OK);
  ASSERT_EQ(source::install(tracker), LOT_OK);
  lot_stats stats;
  ASSERT_TRUE(tracker.stats(stats));
  EXPECT_EQ(stats.exact_sources, 1u);
  EXPECT_EQ(source::status(tracker).slots_patched, 0u);
  EXPECT_TRUE(sees(tracker));
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
  EXPECT_FALSE(tracker.isExact());
  EXPECT_FALSE(sees(tracker));
  EXPECT_EQ(source::uninstall(tracker), LOT_ERROR_NOT_ACTIVE);
  EXPECT_EQ(source::status(tracker).source, LOT_MLIR_SOURCE_STRUCTURAL);
  EXPECT_STRNE(source::status(tracker).reason, "");
}

TEST(LinkHooks, ReportToEachTracker) {
  lot::OwnedTracker one("one"), two("two");
  ASSERT_EQ(source::install(one), LOT_OK);
  ASSERT_EQ(source::install(two), LOT_OK);
  EXPECT_TRUE(sees(one) && sees(two));
  EXPECT_EQ(source::uninstall(one), LOT_OK);
  EXPECT_FALSE(sees(one));
  EXPECT_TRUE(sees(two));
  EXPECT_EQ(source::uninstall(two), LOT_OK);
  for (int i = 0; i < 100; ++i) { // More than there are places: destroyed ones give theirs back.
    lot::OwnedTracker brief("brief");
    ASSERT_EQ(source::install(brief), LOT_OK) << i;
  }
}

TEST(LinkHooks, ASelfTestThatFailsMeansStructuralMode) {
  lot::OwnedTracker tracker("failing");
  EXPECT_EQ(source::install(tracker, [](lot_tracker, void *) { return true; }),
            LOT_ERROR_UNSUPPORTED);
  EXPECT_STREQ(source::status(tracker).reason, lot_last_error_message());
  EXPECT_FALSE(tracker.isExact());
  EXPECT_FALSE(sees(tracker));
}

TEST(LinkHooks, LoadHooksHaveNothingToHoldOnTo) {
  lot::OwnedTracker tracker("load hooks");
  mlir::Operation *(*symbol)(const mlir::OperationState &) = &mlir::Operation::create;
  EXPECT_EQ(lot_mlir_install_load_hooks(tracker.raw(), reinterpret_cast<const void *>(symbol),
                                        lot::mlir::selfTest, nullptr),
            LOT_ERROR_UNSUPPORTED);
  EXPECT_NE(std::string(source::status(tracker).reason).find("the main program"),
            std::string::npos)
      << source::status(tracker).reason;
}

} // namespace
