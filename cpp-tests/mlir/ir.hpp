// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Real IR, real passes, and a comparison of what the tracker says with what became of the memory.
#ifndef LOT_CPP_TESTS_IR_HPP
#define LOT_CPP_TESTS_IR_HPP

#include <gtest/gtest.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "lot/mlir.hpp"
#include "truth.hpp"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

namespace ir {

using Module = mlir::OwningOpRef<mlir::ModuleOp>;

/// Gives a context the dialects of `text`, and those that the pipelines make.
void load(mlir::MLIRContext &context);

/// Functions with something to do for each of the pipelines, `copies` times.
std::string text(unsigned copies);

Module parse(mlir::MLIRContext &context, const std::string &source);

struct Pipeline {
  const char *name;
  void (*add)(mlir::OpPassManager &);
};
enum { CANONICALIZE, CSE, SYMBOL_DCE, INLINE, TO_LLVM, PIPELINES };
extern const Pipeline pipelines[PIPELINES];

/// Where an operation's block from malloc() starts: its results are before it.
inline const void *memoryOf(mlir::Operation *operation) {
  unsigned results = operation->getNumResults();
  unsigned near = std::min(results, mlir::detail::OpResultImpl::getMaxInlineResults());
  std::size_t before = near * sizeof(mlir::detail::InlineOpResult) +
                       (results - near) * sizeof(mlir::detail::OutOfLineOpResult);
  before = llvm::alignTo(before, alignof(mlir::Operation));
  return reinterpret_cast<const char *>(operation) - before;
}
inline const void *memoryOf(mlir::Block *block) { return block; }
inline const void *memoryOf(mlir::BlockArgument argument) {
  return argument.getAsOpaquePointer();
}

/// Every operation, block and block argument in `root`, itself included.
template <typename Visit> void forEach(mlir::Operation *root, Visit &&visit) {
  root->walk([&](mlir::Operation *operation) {
    visit(operation);
    for (mlir::Region &region : operation->getRegions())
      for (mlir::Block &block : region) {
        visit(&block);
        for (mlir::BlockArgument argument : block.getArguments())
          visit(argument);
      }
  });
}

struct Counts {
  unsigned gone[3] = {0, 0, 0};
  unsigned live[3] = {0, 0, 0};
  unsigned allGone() const { return gone[0] + gone[1] + gone[2]; }
  unsigned allLive() const { return live[0] + live[1] + live[2]; }
};

/// All that was in a module at some time.
class Census {
public:
  explicit Census(lot::Tracker tracker) : tracker(tracker) {}

  template <typename Object> lot::Ref add(mlir::MLIRContext *context, Object object) {
    lot::Ref ref;
    EXPECT_TRUE(lot::mlir::track(tracker, context, object, ref)) << lot::Status::message();
    const void *memory = memoryOf(object);
    truth::watch(memory, ref.raw());
    entries.push_back({ref, memory, lot::mlir::kindOf(object)});
    return ref;
  }
  void addAll(mlir::Operation *root) {
    forEach(root, [&](auto object) { add(root->getContext(), object); });
  }

  /// Exactly what was freed has ended.
  Counts check() const {
    Counts counts;
    for (const Entry &entry : entries) {
      bool gone = truth::freed(entry.memory);
      EXPECT_EQ(entry.ref.isLive(), !gone)
          << (gone ? "a stale ref counts as live" : "a live object's ref is refused") << ": kind "
          << unsigned(entry.kind) << " at " << entry.ref.address();
      EXPECT_FALSE(truth::freedWhileLive(entry.memory))
          << "the end was reported too late: kind " << unsigned(entry.kind);
      ++(gone ? counts.gone : counts.live)[entry.kind];
    }
    return counts;
  }

  /// Every live ref's object is found by a walk through `root`.
  void checkWalk(mlir::Operation *root) const {
    std::unordered_set<const void *> there;
    forEach(root, [&](auto object) { there.insert(lot::mlir::addressOf(object)); });
    for (const Entry &entry : entries)
      EXPECT_TRUE(!entry.ref.isLive() || there.count(entry.ref.address()))
          << "kind " << unsigned(entry.kind);
  }

private:
  struct Entry {
    lot::Ref ref;
    const void *memory;
    lot_kind kind;
  };
  lot::Tracker tracker;
  std::vector<Entry> entries;
};

} // namespace ir

#endif
