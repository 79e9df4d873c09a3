// The live object tracker for code that uses MLIR's C++ interface: header-only, C++17.
//
// What an object is tracked as, and where it is in the tree, in one place; a self-test for the exact
// sources; and a listener for rewriters. The functions never throw, and call MLIR only to read.
// Like MLIR itself they need the IR in question to be left alone by other threads meanwhile.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_MLIR_HPP
#define LOT_MLIR_HPP

#include <cstdint>

#include "lot/lot.hpp"
#include "lot/mlir.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Value.h"

namespace lot {
namespace mlir {

/// The scope that a context's objects are tracked in.
LOT_HIDDEN inline std::uint64_t scopeOf(::mlir::MLIRContext *context) noexcept {
  return reinterpret_cast<std::uintptr_t>(context);
}

/// What encloses an object, nearest first: block, operation, block, ... up to the outermost.
using AncestorList = llvm::SmallVector<const void *, 16>;

namespace detail {
LOT_HIDDEN inline void appendFrom(AncestorList &list, ::mlir::Block *block) {
  while (block) {
    list.push_back(block);
    ::mlir::Operation *parent = block->getParentOp();
    if (!parent)
      return;
    list.push_back(parent);
    block = parent->getBlock();
  }
}
} // namespace detail

LOT_HIDDEN inline AncestorList ancestors(::mlir::Operation *operation) {
  AncestorList list;
  detail::appendFrom(list, operation->getBlock());
  return list;
}

LOT_HIDDEN inline AncestorList ancestors(::mlir::Block *block) {
  AncestorList list;
  if (::mlir::Operation *parent = block->getParentOp()) {
    list.push_back(parent);
    detail::appendFrom(list, parent->getBlock());
  }
  return list;
}

LOT_HIDDEN inline AncestorList ancestors(::mlir::BlockArgument argument) {
  AncestorList list;
  detail::appendFrom(list, argument.getOwner());
  return list;
}

/// The address that an object is tracked by.
LOT_HIDDEN inline const void *addressOf(::mlir::Operation *operation) noexcept { return operation; }
LOT_HIDDEN inline const void *addressOf(::mlir::Block *block) noexcept { return block; }
LOT_HIDDEN inline const void *addressOf(::mlir::BlockArgument argument) noexcept {
  return argument.getAsOpaquePointer();
}

LOT_HIDDEN inline constexpr lot_kind kindOf(::mlir::Operation *) noexcept {
  return LOT_MLIR_OPERATION;
}
LOT_HIDDEN inline constexpr lot_kind kindOf(::mlir::Block *) noexcept { return LOT_MLIR_BLOCK; }
LOT_HIDDEN inline constexpr lot_kind kindOf(::mlir::BlockArgument) noexcept {
  return LOT_MLIR_BLOCK_ARGUMENT;
}

/// What can be said of an operation when it has ended: both belong to the context, and live as long as that. Make
/// one while the operation lives, and have its user pointer lead there: observers are given that.
struct Origin {
  LOT_HIDDEN explicit Origin(::mlir::Operation *operation)
      : name(operation->getName()), location(operation->getLoc()) {}
  ::mlir::OperationName name;
  ::mlir::Location location;
};

/// The object (operation, block, block argument) exists: its live ref, or a new one. `context` is its
/// context, which a block that is in no operation cannot tell. See lot_track.
template <typename Object>
LOT_HIDDEN Status track(Tracker tracker, ::mlir::MLIRContext *context, Object object, Ref &out,
                        void *user = nullptr, void **outUser = nullptr) {
  return tracker.track(addressOf(object), scopeOf(context), kindOf(object), ancestors(object), user,
                       out, outUser);
}
LOT_HIDDEN inline Status track(Tracker tracker, ::mlir::Operation *operation, Ref &out,
                               void *user = nullptr, void **outUser = nullptr) {
  return track(tracker, operation->getContext(), operation, out, user, outUser);
}

/// The object was just made: whatever still counts as live at its address has ended. See lot_create.
template <typename Object>
LOT_HIDDEN Status create(Tracker tracker, ::mlir::MLIRContext *context, Object object, Ref &out,
                         void *user = nullptr) {
  return tracker.create(addressOf(object), scopeOf(context), kindOf(object), ancestors(object),
                        user, out);
}

/// The object has been put where it now is, with all that is in it. See lot_move.
template <typename Object>
LOT_HIDDEN Status moved(Tracker tracker, Object object) {
  return tracker.move(addressOf(object), ancestors(object));
}

/// A self-test for lot_mlir_install_load_hooks and lot_mlir_install_link_hooks (`data` is not used):
/// goes through each way in which MLIR destroys operations and blocks.
///
/// To be instantiated, by use, in a program or library that is linked to the MLIR in question.
LOT_HIDDEN inline bool selfTest(lot_tracker rawTracker, void *data) {
  (void)data;
  Tracker tracker(rawTracker);
  ::mlir::MLIRContext context(::mlir::MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects();
  ::mlir::Location location = ::mlir::UnknownLoc::get(&context);
  ::mlir::Type type = ::mlir::NoneType::get(&context);

  struct Tree {
    ::mlir::Operation *root;
    ::mlir::Block *block;
    ::mlir::Operation *first, *second, *inner;
    llvm::SmallVector<Ref, 8> refs; // root, block, argument, first, second, innerBlock, inner
  };
  bool passed = true;
  auto build = [&]() {
    auto make = [&](unsigned regions) {
      ::mlir::OperationState state(location, "lot.self_test");
      for (unsigned i = 0; i < regions; ++i)
        (void)state.addRegion();
      return ::mlir::Operation::create(state);
    };
    Tree tree{};
    tree.root = make(1);
    tree.block = new ::mlir::Block();
    tree.root->getRegion(0).push_back(tree.block);
    ::mlir::BlockArgument argument = tree.block->addArgument(type, location);
    tree.first = make(0);
    tree.second = make(1);
    tree.block->push_back(tree.first);
    tree.block->push_back(tree.second);
    ::mlir::Block *innerBlock = new ::mlir::Block();
    tree.second->getRegion(0).push_back(innerBlock);
    tree.inner = make(0);
    innerBlock->push_back(tree.inner);
    auto add = [&](auto object) {
      Ref ref;
      passed = passed && bool(track(tracker, &context, object, ref)) && ref.isLive();
      tree.refs.push_back(ref);
    };
    add(tree.root);
    add(tree.block);
    add(argument);
    add(tree.first);
    add(tree.second);
    add(innerBlock);
    add(tree.inner);
    return tree;
  };
  // Exactly the refs whose bit is not set have ended.
  auto check = [&](const Tree &tree, unsigned live) {
    for (unsigned i = 0; i < tree.refs.size(); ++i)
      passed = passed && tree.refs[i].isLive() == ((live >> i & 1) != 0);
  };

  Tree tree = build(); // Everything at once.
  tree.root->erase();
  check(tree, 0);

  tree = build(); // The same, by the other entrance.
  tree.root->destroy();
  check(tree, 0);

  tree = build(); // One by one, in place.
  tree.first->erase();
  check(tree, 0b1110111);
  tree.second->erase();
  check(tree, 0b0000111);
  tree.block->erase();
  check(tree, 0b0000001);
  tree.root->erase();
  check(tree, 0);

  tree = build(); // Through the lists.
  tree.block->getOperations().pop_front();
  check(tree, 0b1110111);
  tree.root->getRegion(0).getBlocks().clear();
  check(tree, 0b0000001);
  tree.root->erase();
  check(tree, 0);

  tree = build(); // Taken out first.
  tree.first->remove();
  tree.root->getRegion(0).getBlocks().remove(tree.block);
  check(tree, 0b1111111);
  tree.first->destroy();
  tree.root->erase();
  check(tree, 0b1110110);
  delete tree.block;
  check(tree, 0);

  // Arguments whose block stays, by each of the four functions. The fourth one (number 3) survives.
  tree = build();
  llvm::SmallVector<Ref, 6> arguments;
  for (int i = 0; i < 6; ++i) {
    ::mlir::BlockArgument argument = tree.block->addArgument(type, location);
    Ref ref;
    passed = passed && bool(track(tracker, &context, argument, ref));
    arguments.push_back(ref);
  }
  auto checkArguments = [&](unsigned live) {
    for (unsigned i = 0; i < arguments.size(); ++i)
      passed = passed && arguments[i].isLive() == ((live >> i & 1) != 0);
  };
  checkArguments(0b111111);
  const void *survivor = arguments[3].address();
  tree.block->eraseArgument(0); // The one that the tree came with.
  check(tree, 0b1111011);
  checkArguments(0b111111);
  tree.block->eraseArguments(1, 2);
  checkArguments(0b111001);
  llvm::BitVector last(tree.block->getNumArguments());
  last.set(tree.block->getNumArguments() - 1);
  tree.block->eraseArguments(last);
  checkArguments(0b011001);
  tree.block->eraseArguments([&](::mlir::BlockArgument argument) {
    return argument.getAsOpaquePointer() != survivor;
  });
  checkArguments(0b001000);
  passed = passed && tree.block->getNumArguments() == 1 &&
           tree.block->getArgument(0).getAsOpaquePointer() == survivor &&
           tree.block->getArgument(0).getArgNumber() == 0;
  tree.root->erase();
  check(tree, 0);
  checkArguments(0);
  return passed;
}

/// Forwards everything to another listener, and tells a tracker what goes through the rewriter: what
/// is erased ends (lot_erase), what is inserted elsewhere moves (lot_move).
///
/// In exact mode it adds nothing but the moves. Without an exact source it makes the ends known that
/// the rewriter causes; a pass or driver that also changes IR behind its rewriter's back still is an
/// opaque mutation.
class LOT_HIDDEN Listener : public ::mlir::RewriterBase::ForwardingListener {
public:
  /// `next` may be null; it must outlive this listener.
  explicit Listener(Tracker tracker, ::mlir::OpBuilder::Listener *next = nullptr)
      : ForwardingListener(next), tracker(tracker) {
    lot_mlir_listener_begin(tracker.raw());
  }
  Listener(const Listener &) = delete;
  Listener &operator=(const Listener &) = delete;
  ~Listener() override { lot_mlir_listener_end(tracker.raw()); }

  void notifyOperationInserted(::mlir::Operation *operation,
                               ::mlir::OpBuilder::InsertPoint previous) override {
    moved(tracker, operation).ignore();
    ForwardingListener::notifyOperationInserted(operation, previous);
  }
  void notifyBlockInserted(::mlir::Block *block, ::mlir::Region *previous,
                           ::mlir::Region::iterator previousIt) override {
    moved(tracker, block).ignore();
    ForwardingListener::notifyBlockInserted(block, previous, previousIt);
  }
  // The end comes last: the other listener may still look at the object, and look it up.
  void notifyOperationErased(::mlir::Operation *operation) override {
    ForwardingListener::notifyOperationErased(operation);
    tracker.erase(operation).ignore();
  }
  void notifyBlockErased(::mlir::Block *block) override {
    ForwardingListener::notifyBlockErased(block);
    tracker.erase(block).ignore();
  }

private:
  Tracker tracker;
};

} // namespace mlir
} // namespace lot

#endif // LOT_MLIR_HPP
