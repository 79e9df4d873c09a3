// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Structural mode on real IR: no exact source, only what a binding reports itself; and the listener.

#include "ir.hpp"
#include "source.hpp"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace {

class Structural : public ::testing::Test {
protected:
  Structural() : tracker("structural") { ir::load(context); }

  lot::Ref track(mlir::Operation *operation) {
    lot::Ref ref;
    EXPECT_TRUE(lot::mlir::track(tracker, operation, ref));
    return ref;
  }

  lot::OwnedTracker tracker;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_F(Structural, SaysWhy) {
  lot_mlir_status status = source::status(tracker);
  EXPECT_EQ(status.source, LOT_MLIR_SOURCE_STRUCTURAL);
  EXPECT_STREQ(status.reason, "no exact source was asked for");
  EXPECT_FALSE(tracker.isExact());
}

TEST_F(Structural, ABindingsOwnErase) { // R4, R5
  ir::Module module = ir::parse(context, ir::text(1));
  std::vector<lot::Ref> below;
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  function->walk([&](mlir::Operation *operation) { below.push_back(track(operation)); });
  lot::Ref other = track(&*std::next(module->begin()));
  lot::Ref root = track(*module);
  ASSERT_TRUE(tracker.erase(function));
  function->erase();
  for (lot::Ref ref : below)
    EXPECT_FALSE(ref.isLive());
  EXPECT_TRUE(other.isLive());
  EXPECT_TRUE(root.isLive());
  ASSERT_TRUE(tracker.parentDestroy(*module));
  module = {};
  EXPECT_EQ(tracker.count(), 0u);
}

TEST_F(Structural, ABindingsOwnMove) { // R8
  ir::Module from = ir::parse(context, ir::text(1)), to = ir::parse(context, "");
  auto function = *from->getOps<mlir::func::FuncOp>().begin();
  lot::Ref inner = track(&function.getBody().front().front());
  function->moveBefore(to->getBody(), to->getBody()->end());
  ASSERT_TRUE(lot::mlir::moved(tracker, function.getOperation()));
  ASSERT_TRUE(tracker.parentDestroy(*from));
  from = {};
  EXPECT_TRUE(inner.isLive());
  ASSERT_TRUE(tracker.parentDestroy(*to));
  to = {};
  EXPECT_FALSE(inner.isLive());
}

TEST_F(Structural, APassIsAnOpaqueMutation) { // R9
  for (const ir::Pipeline &pipeline : ir::pipelines) {
    ir::Module module = ir::parse(context, ir::text(2));
    lot::Ref root = track(*module);
    std::vector<lot::Ref> below;
    for (mlir::Operation &operation : *module->getBody())
      operation.walk([&](mlir::Operation *each) { below.push_back(track(each)); });
    mlir::PassManager manager(&context);
    pipeline.add(manager);
    ASSERT_TRUE(mlir::succeeded(manager.run(*module)));
    ASSERT_TRUE(tracker.opaqueMutation(*module));
    EXPECT_TRUE(root.isLive());
    for (lot::Ref ref : below)
      EXPECT_FALSE(ref.isLive());
    // What is there now gets new refs, whatever was at its address before.
    module->walk([&](mlir::Operation *each) {
      lot::Ref ref = track(each);
      EXPECT_TRUE(ref.isLive());
      for (lot::Ref old : below)
        EXPECT_NE(ref, old);
    });
    ASSERT_TRUE(tracker.parentDestroy(*module));
    EXPECT_EQ(tracker.count(), 0u);
  }
}

TEST_F(Structural, AnAddressThatIsUsedAgainIsAMissedEnd) { // R6
  mlir::OperationState state(mlir::UnknownLoc::get(&context), "test.op");
  std::vector<lot::Ref> old;
  for (int round = 0; round < 1000000; ++round) {
    mlir::Operation *operation = mlir::Operation::create(state);
    lot::Ref ref;
    ASSERT_TRUE(lot::mlir::create(tracker, &context, operation, ref));
    lot_stats stats;
    ASSERT_TRUE(tracker.stats(stats));
    EXPECT_TRUE(ref.isLive());
    operation->destroy(); // Behind the tracker's back.
    if (stats.missed_ends > 0) {
      EXPECT_EQ(stats.missed_ends, 1u);
      unsigned dead = 0;
      for (lot::Ref each : old)
        dead += !each.isLive();
      EXPECT_EQ(dead, 1u);
      return;
    }
    old.push_back(ref);
  }
  FAIL() << "no address was used again";
}

/// Counts what is forwarded, and checks that it comes at a time when the object is still known.
struct Next : mlir::RewriterBase::Listener {
  lot::Tracker tracker;
  int inserted = 0, erased = 0, blocksInserted = 0, blocksErased = 0, replaced = 0, modified = 0;
  explicit Next(lot::Tracker tracker) : tracker(tracker) {}
  void notifyOperationInserted(mlir::Operation *, mlir::OpBuilder::InsertPoint) override {
    ++inserted;
  }
  void notifyBlockInserted(mlir::Block *, mlir::Region *, mlir::Region::iterator) override {
    ++blocksInserted;
  }
  void notifyOperationErased(mlir::Operation *operation) override {
    ++erased;
    EXPECT_TRUE(tracker.find(operation).isNull() || tracker.find(operation).isLive());
    last = tracker.find(operation);
  }
  void notifyBlockErased(mlir::Block *) override { ++blocksErased; }
  void notifyOperationReplaced(mlir::Operation *, mlir::ValueRange) override { ++replaced; }
  void notifyOperationModified(mlir::Operation *) override { ++modified; }
  lot::Ref last;
};

TEST_F(Structural, TheListenerReportsWhatItsRewriterDoes) {
  ir::Module module = ir::parse(context, ir::text(1));
  Next next(tracker);
  {
    lot::mlir::Listener listener(tracker, &next);
    EXPECT_EQ(source::status(tracker).source, LOT_MLIR_SOURCE_LISTENER);
    EXPECT_STRNE(source::status(tracker).reason, "");
    EXPECT_FALSE(tracker.isExact());
    mlir::IRRewriter rewriter(&context, &listener);

    auto functions = module->getOps<mlir::func::FuncOp>();
    mlir::func::FuncOp unused = *functions.begin(), caller = *std::next(functions.begin(), 2),
                       branches = *std::next(functions.begin(), 3);

    // Erased, with all that is in it.
    mlir::Operation *constant = &unused.getBody().front().front();
    lot::Ref unusedRef = track(unused), constantRef = track(constant);
    lot::Ref callerRef = track(caller);
    rewriter.eraseOp(unused);
    EXPECT_FALSE(unusedRef.isLive() || constantRef.isLive());
    EXPECT_TRUE(callerRef.isLive());
    EXPECT_EQ(next.last, unusedRef); // It saw a live one.
    EXPECT_EQ(next.erased, 3);

    // Moved: erasing the old parent leaves it.
    mlir::Operation *moved = &branches.getBody().back().front();
    lot::Ref movedRef = track(moved);
    rewriter.moveOpBefore(moved, &caller.getBody().front(), caller.getBody().front().begin());
    moved->setOperands({caller.getArgument(0), caller.getArgument(0)});
    branches.getBody().back().getTerminator()->setOperands({branches.getArgument(1)});
    EXPECT_EQ(next.inserted, 1);
    lot::Ref block;
    ASSERT_TRUE(lot::mlir::track(tracker, &context, &branches.getBody().back(), block));
    rewriter.eraseOp(branches);
    EXPECT_TRUE(movedRef.isLive());
    EXPECT_FALSE(block.isLive());

    // Blocks: inserted, inlined elsewhere, erased.
    mlir::Block *made = rewriter.createBlock(&caller.getBody());
    EXPECT_EQ(next.blocksInserted, 1);
    ASSERT_TRUE(lot::mlir::track(tracker, &context, made, block));
    rewriter.eraseBlock(made);
    EXPECT_FALSE(block.isLive());
    EXPECT_GE(next.blocksErased, 1);

    // Replaced.
    auto constants = caller.getBody().front().getOps<mlir::arith::ConstantOp>();
    mlir::arith::ConstantOp first = *constants.begin(), second = *std::next(constants.begin());
    lot::Ref firstRef = track(first), secondRef = track(second);
    rewriter.replaceOp(second, first);
    EXPECT_TRUE(firstRef.isLive());
    EXPECT_FALSE(secondRef.isLive());
    EXPECT_GE(next.replaced, 1);

    ASSERT_TRUE(tracker.parentDestroy(caller));
    rewriter.eraseOp(caller);
    EXPECT_FALSE(movedRef.isLive());
  }
  EXPECT_EQ(source::status(tracker).source, LOT_MLIR_SOURCE_STRUCTURAL);
  EXPECT_EQ(lot_mlir_listener_end(tracker.raw()), LOT_ERROR_NOT_ACTIVE);
}

TEST_F(Structural, TheListenerAddsNothingWrongToExactMode) {
  ASSERT_EQ(source::install(tracker), LOT_OK);
  ir::Module module = ir::parse(context, ir::text(3));
  truth::forget();
  ir::Census census(tracker);
  census.addAll(*module);
  {
    lot::mlir::Listener listener(tracker);
    EXPECT_EQ(source::status(tracker).source, source::kind);
    mlir::IRRewriter rewriter(&context, &listener);
    auto functions = module->getOps<mlir::func::FuncOp>();
    mlir::func::FuncOp unused = *functions.begin(), caller = *std::next(functions.begin(), 2);
    mlir::Operation *moved = &unused.getBody().front().front();
    rewriter.moveOpBefore(moved, &caller.getBody().front(), caller.getBody().front().begin());
    rewriter.eraseOp(unused);
    census.check();
  }
  module = {};
  EXPECT_EQ(census.check().allLive(), 0u);
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
}

} // namespace
