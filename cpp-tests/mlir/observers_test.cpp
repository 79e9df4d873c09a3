// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program that wants to know which operations have ended, with name and location: lot::EndQueue and
// lot::mlir::Origin on real IR.

#include <algorithm>
#include <deque>
#include <string>

#include "ir.hpp"
#include "source.hpp"

#include "llvm/Support/raw_ostream.h"

namespace {

struct Known {
  lot::mlir::Origin origin;
  std::string name, location; // what they were while the operation lived
  lot::Ref ref;
  unsigned told = 0;
};

std::string text(mlir::Location location) {
  std::string text;
  llvm::raw_string_ostream(text) << location;
  return text;
}

class Observers : public ::testing::TestWithParam<bool> {
protected:
  Observers() : tracker("observers") { ir::load(context); }
  void SetUp() override {
    if (GetParam()) {
      ASSERT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
    }
    ASSERT_TRUE(tracker.setObserver(lot::EndQueue::observe, &queue));
  }
  void TearDown() override {
    ASSERT_TRUE(tracker.setObserver(nullptr, nullptr));
    if (GetParam()) {
      EXPECT_EQ(source::uninstall(tracker), LOT_OK);
    }
  }

  void trackAll(mlir::Operation *root) {
    root->walk([&](mlir::Operation *operation) {
      Known &known = operations.emplace_back(Known{lot::mlir::Origin(operation),
                                                   operation->getName().getStringRef().str(),
                                                   text(operation->getLoc()),
                                                   {}});
      EXPECT_TRUE(lot::mlir::track(tracker, operation, known.ref, &known));
    });
  }
  /// At a moment when MLIR is not at work. Exactly those that have ended have been told of, once.
  void check(lot_cause expected) {
    for (lot_end end; queue.pop(end);) {
      Known &known = *static_cast<Known *>(end.user);
      EXPECT_EQ(lot::Ref(end.ref), known.ref);
      EXPECT_EQ(known.origin.name.getStringRef(), known.name);
      EXPECT_EQ(text(known.origin.location), known.location);
      EXPECT_EQ(end.scope, lot::mlir::scopeOf(&context));
      EXPECT_EQ(end.death.cause, expected) << known.name;
      ++known.told;
    }
    for (const Known &known : operations)
      EXPECT_EQ(known.told, known.ref.isLive() ? 0u : 1u) << known.name << " at " << known.location;
  }
  std::size_t ended() const {
    return std::count_if(operations.begin(), operations.end(),
                         [](const Known &known) { return known.told > 0; });
  }

  lot::OwnedTracker tracker;
  lot::EndQueue queue;
  mlir::MLIRContext context; // with threads
  std::deque<Known> operations;
};

TEST_P(Observers, NamesAndLocationsOutliveTheirOperations) {
  ir::Module module = ir::parse(context, ir::text(20));
  trackAll(*module);
  check(LOT_CAUSE_UNKNOWN);
  EXPECT_EQ(ended(), 0u);

  mlir::PassManager manager(&context);
  // On many threads.
  ir::pipelines[ir::CANONICALIZE].add(manager.nest("func.func"));
  ASSERT_TRUE(mlir::succeeded(manager.run(*module)));
  ASSERT_TRUE(tracker.opaqueMutation(*module));
  check(GetParam() ? LOT_CAUSE_DESTROYED : LOT_CAUSE_OPAQUE_MUTATION);
  std::size_t after = ended();
  EXPECT_GT(after, 20u);
  EXPECT_TRUE(GetParam() ? after < operations.size() - 1 : after == operations.size() - 1) << after;

  lot::Ref root = operations.back().ref;
  EXPECT_TRUE(root.isLive());
  ASSERT_TRUE(tracker.parentDestroy(*module));
  module = {};
  check(LOT_CAUSE_DESTROYED);
  EXPECT_EQ(ended(), operations.size());
}

INSTANTIATE_TEST_SUITE_P(Modes, Observers, ::testing::Bool(),
                         [](const auto &mode) { return mode.param ? "Exact" : "Structural"; });

} // namespace
