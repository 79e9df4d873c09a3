// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// lot/mlir_c.h on real IR, compiled as C.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "c_interface.h"
#include "lot/lot.hpp"
#include "source.hpp"

namespace {

constexpr lot_kind kinds[] = {LOT_MLIR_OPERATION, LOT_MLIR_BLOCK, LOT_MLIR_BLOCK_ARGUMENT};

TEST(CInterface, ItsSelfTestProvesTheSource) {
  lot::OwnedTracker tracker("C");
  EXPECT_EQ(source::install(tracker, c_self_test), LOT_OK) << lot_last_error_message();
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
  lot::OwnedTracker without("no source");
  ASSERT_TRUE(without.exactBegin());
  EXPECT_FALSE(c_self_test(without.raw(), nullptr)) << "it passes whatever is reported";
}

TEST(CInterface, AncestorsAreCompleteAndNearestFirst) {
  c_tower *tower = c_build(3);
  // Around the innermost operation there are two more, each with its block.
  std::vector<const void *> list(10, nullptr);
  ASSERT_EQ(c_ancestors(tower, LOT_MLIR_OPERATION, list.data(), list.size()), 4u);
  EXPECT_EQ(list[3], c_outermost(tower));
  EXPECT_EQ(list[4], nullptr);
  std::vector<const void *> ofBlock(10, nullptr);
  ASSERT_EQ(c_ancestors(tower, LOT_MLIR_BLOCK, ofBlock.data(), ofBlock.size()), 5u);
  EXPECT_EQ(ofBlock[0], tower->innermost.ptr);
  EXPECT_TRUE(std::equal(list.begin(), list.begin() + 4, ofBlock.begin() + 1));
  std::vector<const void *> ofArgument(10, nullptr);
  ASSERT_EQ(c_ancestors(tower, LOT_MLIR_BLOCK_ARGUMENT, ofArgument.data(), 10), 6u);
  EXPECT_EQ(ofArgument[0], tower->block.ptr);
  EXPECT_TRUE(std::equal(ofBlock.begin(), ofBlock.begin() + 5, ofArgument.begin() + 1));
  // As far as there is room.
  const void *few[3] = {nullptr, nullptr, nullptr};
  EXPECT_EQ(c_ancestors(tower, LOT_MLIR_OPERATION, few, 2), 4u);
  EXPECT_EQ(few[1], list[1]);
  EXPECT_EQ(few[2], nullptr);
  EXPECT_EQ(c_ancestors(tower, LOT_MLIR_OPERATION, nullptr, 0), 4u);
  c_destroy(tower);
}

TEST(CInterface, TracksCreatesAndMoves) {
  for (unsigned depth : {2u, 500u}) { // The second one has more ancestors than fit on the stack.
    lot::OwnedTracker tracker("C");
    c_tower *tower = c_build(depth), *other = c_build(1);
    int user = 0;
    for (lot_kind kind : kinds) {
      lot_ref first, second;
      void *known = nullptr;
      ASSERT_EQ(c_track(tracker.raw(), tower, kind, &user, &first, &known), LOT_OK)
          << lot_last_error_message();
      EXPECT_EQ(known, &user);
      ASSERT_EQ(c_track(tracker.raw(), tower, kind, nullptr, &second, &known), LOT_OK);
      EXPECT_EQ(known, &user);
      EXPECT_EQ(first.epoch, second.epoch);
      EXPECT_EQ(tracker.countInScope(c_scope(tower), kind), 1u);
      ASSERT_EQ(c_create(tracker.raw(), tower, kind, nullptr, &second), LOT_OK);
      EXPECT_FALSE(lot_is_live(first));
      EXPECT_TRUE(lot_is_live(second));
    }
    // Below the outermost one, by what was reported.
    ASSERT_TRUE(tracker.parentDestroy(c_outermost(tower)));
    EXPECT_EQ(tracker.count(), 0u);

    lot_ref argument, operation;
    ASSERT_EQ(c_track(tracker.raw(), tower, LOT_MLIR_BLOCK_ARGUMENT, nullptr, &argument, nullptr),
              LOT_OK);
    ASSERT_EQ(c_track(tracker.raw(), tower, LOT_MLIR_OPERATION, nullptr, &operation, nullptr),
              LOT_OK);
    mlirOperationRemoveFromParent(tower->innermost);
    ASSERT_TRUE(tracker.detach(tower->innermost.ptr));
    ASSERT_TRUE(tracker.parentDestroy(c_outermost(tower)));
    EXPECT_TRUE(lot_is_live(argument) && lot_is_live(operation));
    mlirBlockAppendOwnedOperation(other->block, tower->innermost);
    ASSERT_EQ(c_moved(tracker.raw(), tower, LOT_MLIR_OPERATION), LOT_OK);
    ASSERT_TRUE(tracker.parentDestroy(c_outermost(other)));
    EXPECT_FALSE(lot_is_live(argument) || lot_is_live(operation));
    // They are of different contexts, so that it is taken out again.
    mlirOperationRemoveFromParent(tower->innermost);
    mlirOperationDestroy(tower->innermost);
    c_destroy(other);
    c_destroy(tower);
  }
}

TEST(CInterface, AnObserverKnowsNameAndLocation) {
  for (bool exact : {false, true}) {
    lot::OwnedTracker tracker("C");
    if (exact) {
      ASSERT_EQ(source::install(tracker, c_self_test), LOT_OK) << lot_last_error_message();
    }
    c_tower *tower = c_build(2);
    c_text text = {};
    ASSERT_EQ(c_track_all(tracker.raw(), tower), LOT_OK) << lot_last_error_message();
    ASSERT_TRUE(tracker.setObserver(c_observe, &text));
    if (!exact) {
      ASSERT_TRUE(tracker.erase(c_outermost(tower)));
    }
    mlirOperationDestroy(tower->outermost); // Their memory is gone before the text is looked at.
    tower->outermost = {nullptr};
    std::string floor = "test.floor loc(unknown) ";
    EXPECT_EQ(std::string(text.text, text.length),
              exact ? floor + "destroyed\n" + floor + "destroyed\n"
                    : floor + "ancestor destroyed\n" + floor + "erased\n");
    ASSERT_TRUE(tracker.setObserver(nullptr, nullptr));
    if (exact) {
      EXPECT_EQ(source::uninstall(tracker), LOT_OK);
    }
    c_destroy(tower);
  }
}

} // namespace
