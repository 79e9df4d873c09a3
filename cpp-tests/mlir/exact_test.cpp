// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exact mode on real IR (R10): an object ends when, and only when, its memory goes. The same tests are
// built for load hooks and for link hooks.

#include "ir.hpp"
#include "source.hpp"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "llvm/ADT/SmallPtrSet.h"

namespace {

class Exact : public ::testing::Test {
protected:
  Exact() : tracker("exact"), census(tracker) {}
  void SetUp() override {
    truth::forget();
    ASSERT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
    ir::load(context);
  }
  void TearDown() override {
    EXPECT_EQ(source::uninstall(tracker), LOT_OK);
    EXPECT_FALSE(tracker.isExact());
  }

  mlir::Operation *make(unsigned regions, mlir::Block *into = nullptr) {
    mlir::OperationState state(mlir::UnknownLoc::get(&context), "test.op");
    for (unsigned i = 0; i < regions; ++i)
      state.addRegion()->push_back(new mlir::Block());
    mlir::Operation *operation = mlir::Operation::create(state);
    if (into)
      into->push_back(operation);
    return operation;
  }
  lot::Ref track(mlir::Operation *operation) { return census.add(&context, operation); }
  lot::Ref track(mlir::Block *block) { return census.add(&context, block); }
  mlir::Block *body(mlir::Operation *operation) { return &operation->getRegion(0).front(); }

  lot::OwnedTracker tracker;
  ir::Census census;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

TEST_F(Exact, TheSourceSaysThatItIsActive) {
  lot_mlir_status status = source::status(tracker);
  EXPECT_EQ(status.source, source::kind);
  EXPECT_STREQ(status.reason, "");
  EXPECT_TRUE(tracker.isExact());
}

TEST_F(Exact, TheTruthIsTold) { // The test bed itself.
  for (unsigned results = 0; results < 10; ++results) {
    mlir::OperationState state(mlir::UnknownLoc::get(&context), "test.op");
    state.addTypes(std::vector<mlir::Type>(results, mlir::NoneType::get(&context)));
    mlir::Operation *operation = mlir::Operation::create(state);
    const void *memory = ir::memoryOf(operation);
    truth::watch(memory);
    EXPECT_FALSE(truth::freed(memory));
    operation->destroy();
    EXPECT_TRUE(truth::freed(memory)) << results << " results";
  }
}

TEST_F(Exact, EraseEndsAllThatIsBelow) { // R4
  mlir::Operation *root = make(1), *inner = make(1, body(root)), *leaf = make(0, body(inner));
  // The innermost first, the root last: R5.
  lot::Ref leafRef = track(leaf), blockRef = track(body(inner)), rootRef = track(root);
  leaf->getParentOp()->erase();
  EXPECT_FALSE(leafRef.isLive());
  EXPECT_FALSE(blockRef.isLive());
  EXPECT_TRUE(rootRef.isLive());
  root->erase();
  EXPECT_EQ(census.check().allLive(), 0u);
  EXPECT_EQ(tracker.count(), 0u);
}

TEST_F(Exact, MovesNeedNoReport) { // R8, R10
  mlir::Operation *from = make(1), *to = make(1), *moved = make(1, body(from));
  mlir::Operation *leaf = make(0, body(moved));
  lot::Ref movedRef = track(moved), leafRef = track(leaf), toRef = track(to);
  moved->moveBefore(body(to), body(to)->end());
  from->erase();
  EXPECT_TRUE(movedRef.isLive());
  EXPECT_TRUE(leafRef.isLive());
  to->erase();
  EXPECT_FALSE(movedRef.isLive());
  EXPECT_FALSE(leafRef.isLive());
  EXPECT_FALSE(toRef.isLive());
  EXPECT_EQ(census.check().allLive(), 0u);
}

TEST_F(Exact, BlocksMoveBetweenRegions) {
  mlir::Operation *from = make(1), *to = make(1);
  mlir::Block *block = body(from);
  lot::Ref argument =
      census.add(&context, block->addArgument(mlir::NoneType::get(&context),
                                              mlir::UnknownLoc::get(&context)));
  lot::Ref blockRef = track(block), leaf = track(make(0, block));
  to->getRegion(0).getBlocks().splice(to->getRegion(0).end(), from->getRegion(0).getBlocks());
  from->erase();
  EXPECT_TRUE(blockRef.isLive() && leaf.isLive() && argument.isLive());
  block->erase();
  EXPECT_FALSE(blockRef.isLive() || leaf.isLive() || argument.isLive());
  to->erase();
  census.check();
}

TEST_F(Exact, StructuralHooksAndOpaqueMutationsEndNothingElse) { // R9, R10
  mlir::Operation *root = make(1), *leaf = make(0, body(root));
  lot::Ref rootRef = track(root), leafRef = track(leaf);
  tracker.opaqueMutation(root).ignore();
  EXPECT_TRUE(rootRef.isLive() && leafRef.isLive());
  census.check();
  leaf->remove(); // Not reported; then the binding says that it erases the parent.
  tracker.erase(root).ignore();
  root->erase();
  EXPECT_TRUE(leafRef.isLive());
  leaf->destroy();
  census.check();
}

TEST_F(Exact, AttributionNamesWhoTookItAlong) { // R13
  mlir::Operation *root = make(1), *leaf = make(0, body(root));
  lot::Ref rootRef = track(root), leafRef = track(leaf);
  {
    lot::Attribution attribution(LOT_CAUSE_ANCESTOR_DESTROYED, rootRef);
    root->erase();
  }
  lot_death death;
  ASSERT_TRUE(leafRef.death(death));
  EXPECT_EQ(death.cause, LOT_CAUSE_ANCESTOR_DESTROYED);
  EXPECT_EQ(death.by.epoch, rootRef.epoch());
  ASSERT_TRUE(rootRef.death(death));
  EXPECT_EQ(death.cause, LOT_CAUSE_ERASED);
}

template <typename Make, typename Drop>
void reuseAddress(lot::Tracker tracker, mlir::MLIRContext *context, Make make, Drop drop) { // R1
  std::vector<lot::Ref> old;
  llvm::SmallPtrSet<const void *, 32> addresses;
  for (int round = 0; round < 1000000; ++round) {
    auto object = make();
    lot::Ref ref;
    ASSERT_TRUE(lot::mlir::track(tracker, context, object, ref));
    bool reused = !addresses.insert(lot::mlir::addressOf(object)).second;
    for (lot::Ref other : old) {
      ASSERT_FALSE(other.isLive());
      ASSERT_NE(other.epoch(), ref.epoch());
    }
    ASSERT_TRUE(ref.isLive());
    drop(object);
    ASSERT_FALSE(ref.isLive());
    if (reused && old.size() > 50)
      return;
    old.push_back(ref);
    if (old.size() > 1000)
      old.erase(old.begin(), old.begin() + 500);
  }
  FAIL() << "no address was used again";
}

TEST_F(Exact, AddressesOfOperationsAreUsedAgain) {
  mlir::Operation *root = make(1);
  reuseAddress(tracker, &context, [&] { return make(0, body(root)); },
               [](mlir::Operation *operation) { operation->erase(); });
  root->erase();
}

TEST_F(Exact, AddressesOfBlocksAreUsedAgain) {
  mlir::Operation *root = make(1);
  reuseAddress(
      tracker, &context,
      [&] {
        auto *block = new mlir::Block();
        root->getRegion(0).push_back(block);
        return block;
      },
      [](mlir::Block *block) { block->erase(); });
  root->erase();
}

TEST_F(Exact, AddressesOfBlockArgumentsAreUsedAgain) {
  mlir::Operation *root = make(1);
  reuseAddress(
      tracker, &context,
      [&] {
        return body(root)->addArgument(mlir::NoneType::get(&context),
                                       mlir::UnknownLoc::get(&context));
      },
      [&](mlir::BlockArgument argument) { body(root)->eraseArgument(argument.getArgNumber()); });
  root->erase();
}

TEST_F(Exact, AFailedConversionEndsNoSurvivor) {
  // The second function's type is one that the conversion cannot do.
  ir::Module module = ir::parse(context, R"(
    func.func @fine(%a: i32) -> i32 { return %a : i32 }
    func.func @bad(%a: tensor<2xi32>) -> tensor<2xi32> { return %a : tensor<2xi32> })");
  census.addAll(*module);
  context.getDiagEngine().registerHandler([](mlir::Diagnostic &) {});
  mlir::PassManager manager(&context);
  ir::pipelines[ir::TO_LLVM].add(manager);
  (void)manager.run(*module);
  ir::Counts counts = census.check();
  EXPECT_GT(counts.allLive(), 0u);
  census.checkWalk(*module);
}

TEST_F(Exact, AFailedParseEndsNothingElse) {
  mlir::Operation *root = make(1);
  track(root), track(make(0, body(root)));
  context.getDiagEngine().registerHandler([](mlir::Diagnostic &) {});
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(mlir::parseSourceString<mlir::ModuleOp>(ir::text(1) + "func.func @broken(",
                                                         &context));
  EXPECT_EQ(census.check().allLive(), 2u);
  root->erase();
}

class Pipelines : public Exact, public ::testing::WithParamInterface<ir::Pipeline> {};

TEST_P(Pipelines, EndExactlyWhatIsGone) {
  constexpr unsigned copies = 40;
  ir::Module module = ir::parse(context, ir::text(copies));
  census.addAll(*module);
  std::size_t before = tracker.count();
  EXPECT_EQ(census.check().allGone(), 0u);

  mlir::PassManager manager(&context);
  GetParam().add(manager);
  ASSERT_TRUE(mlir::succeeded(manager.run(*module)));

  ir::Counts counts = census.check();
  census.checkWalk(*module);
  EXPECT_EQ(counts.allLive(), tracker.count());
  EXPECT_EQ(counts.allGone(), before - tracker.count());
  // Each pipeline has something to do in each copy, and leaves something.
  EXPECT_GE(counts.gone[LOT_MLIR_OPERATION], copies);
  EXPECT_GT(counts.live[LOT_MLIR_OPERATION], 0u);
  if (GetParam().name == std::string("canonicalize")) { // The unused one of each ^bb1.
    EXPECT_GE(counts.gone[LOT_MLIR_BLOCK_ARGUMENT], copies);
  }

  std::string line = std::string(GetParam().name) + ": operations " +
                     std::to_string(counts.gone[0]) + ", blocks " + std::to_string(counts.gone[1]) +
                     ", arguments " + std::to_string(counts.gone[2]) + " of " +
                     std::to_string(before) + "\n";
  std::printf("%s", line.c_str());
  // For the comparison of the two sources.
  if (const char *path = std::getenv("LOT_TEST_COUNTS")) {
    std::FILE *file = std::fopen(path, "a");
    ASSERT_NE(file, nullptr);
    std::fputs(line.c_str(), file);
    std::fclose(file);
  }

  module = {};
  EXPECT_EQ(census.check().allLive(), 0u);
  EXPECT_EQ(tracker.count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Pipelines, ::testing::ValuesIn(ir::pipelines),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_F(Exact, PassesOnManyThreads) { // R18
  mlir::MLIRContext threaded(mlir::MLIRContext::Threading::ENABLED);
  ir::load(threaded);
  ir::Module module = ir::parse(threaded, ir::text(300));
  census.addAll(*module);
  mlir::PassManager manager(&threaded);
  mlir::OpPassManager &functions = manager.nest("func.func");
  ir::pipelines[ir::CANONICALIZE].add(functions);
  ir::pipelines[ir::CSE].add(functions);
  ASSERT_TRUE(mlir::succeeded(manager.run(*module)));
  ir::Counts counts = census.check();
  EXPECT_GE(counts.gone[LOT_MLIR_OPERATION], 300u);
  EXPECT_EQ(counts.allLive(), tracker.count());
  census.checkWalk(*module);
  module = {};
  EXPECT_EQ(census.check().allLive(), 0u);
}

TEST_F(Exact, ContextsOnManyThreads) { // R18
  lot_stats before;
  ASSERT_TRUE(tracker.stats(before));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([this] {
      mlir::MLIRContext own(mlir::MLIRContext::Threading::DISABLED);
      ir::load(own);
      for (int round = 0; round < 10; ++round) {
        ir::Module module = ir::parse(own, ir::text(5));
        std::vector<lot::Ref> refs;
        ir::forEach(*module, [&](auto object) {
          lot::Ref ref;
          EXPECT_TRUE(lot::mlir::track(tracker, &own, object, ref));
          refs.push_back(ref);
        });
        mlir::PassManager manager(&own);
        ir::pipelines[round % ir::PIPELINES].add(manager);
        EXPECT_TRUE(mlir::succeeded(manager.run(*module)));
        std::size_t live = 0;
        for (lot::Ref ref : refs)
          live += ref.isLive();
        EXPECT_EQ(live, tracker.countInScope(lot::mlir::scopeOf(&own)));
        EXPECT_GT(live, 0u);
        module = {};
        for (lot::Ref ref : refs)
          EXPECT_FALSE(ref.isLive());
        EXPECT_EQ(tracker.countInScope(lot::mlir::scopeOf(&own)), 0u);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  lot_stats after;
  ASSERT_TRUE(tracker.stats(after));
  EXPECT_EQ(after.missed_ends, before.missed_ends);
  EXPECT_EQ(after.internal_errors, before.internal_errors);
  EXPECT_EQ(after.created - before.created, after.ended - before.ended);
}

} // namespace
