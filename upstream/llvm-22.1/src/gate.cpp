// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/gate.h"

#include <algorithm>
#include <vector>

#include "lot_python/tracking.h"

namespace lot_python {

namespace {

std::vector<Frame *> frames; // of all threads; guarded by the GIL

/// Differs between threads that live at the same time.
const void *thisThread() noexcept {
  thread_local char mark;
  return &mark;
}

bool isInside(const Frame &frame, MlirOperation operation) { return encloses(frame.root, operation); }

bool isAround(const Frame &frame, MlirOperation operation) {
  return operation.ptr != frame.root.ptr && encloses(operation, frame.root);
}

std::string atWork(const Frame &frame) {
  return std::string("MLIR is at work on ") + quotedName(frame.root) + (frame.isMine() ? "." : " on another thread.");
}

} // namespace

Frame::Frame(MlirOperation root, MlirOperation writable, Kind kind)
    : root(root), writable(writable), kind(kind), thread(thisThread()) {
  frames.push_back(this);
}

Frame::~Frame() {
  // Guards of several threads may be interleaved.
  frames.erase(std::find(frames.rbegin(), frames.rend(), this).base() - 1);
}

bool Frame::isMine() const { return thread == thisThread(); }

bool encloses(MlirOperation outer, MlirOperation inner) {
  for (; !mlirOperationIsNull(inner); inner = mlirOperationGetParentOperation(inner))
    if (inner.ptr == outer.ptr)
      return true;
  return false;
}

void requireEditable(MlirOperation operation) {
  for (Frame *frame : frames)
    if (!frame->isMine() && isInside(*frame, operation))
      refuse(quotedName(operation) + " cannot be changed now: " + atWork(*frame));
}

void requireChangeable(MlirOperation operation, bool inside) {
  for (Frame *frame : frames) {
    if (frame->kind == Frame::Kind::Kept)
      continue;
    bool around = encloses(operation, frame->root) && !(inside && operation.ptr == frame->root.ptr);
    if (!around && !isInside(*frame, operation))
      continue;
    bool allowed = !around && frame->isMine() && frame->writable.ptr &&
                   (inside || operation.ptr != frame->writable.ptr) && encloses(frame->writable, operation);
    if (!allowed)
      refuse(quotedName(operation) + " cannot be erased or moved now: " + atWork(*frame));
  }
}

void requireEndable(MlirOperation operation) {
  requireChangeable(operation);
  for (Frame *frame : frames)
    if (frame->kind == Frame::Kind::Kept && encloses(operation, frame->root))
      refuse(quotedName(operation) + " cannot be erased now: a PDL function has appended it, or a value of it, to its results.");
}

void requireStays(MlirOperation operation, MlirOperation target) {
  for (Frame *frame : frames)
    if (frame->kind == Frame::Kind::Driver && isInside(*frame, operation) && !isInside(*frame, target))
      refuse(quotedName(operation) + " cannot be moved out of " + quotedName(frame->root) +
             " now: the rewrite driver that works on it keeps a list of operations. Clone it, or move it afterwards.");
}

void requireRunnable(MlirOperation root, const char *what, const Frame *besides) {
  for (Frame *frame : frames) {
    if (frame == besides)
      continue;
    bool inside = isInside(*frame, root);
    if (!inside && !isAround(*frame, root))
      continue;
    std::string text = std::string(what) + " cannot be started on " + quotedName(root) + " now: " + atWork(*frame);
    if (frame->kind == Frame::Kind::Driver)
      refuse(text + " A rewrite driver does not survive that. Run it when the driver is done, or on other IR.");
    if (!inside || !frame->isMine() || !frame->writable.ptr || !encloses(frame->writable, root))
      refuse(text + " Run it when that is over, on what the callback was given, or on other IR.");
  }
}

namespace {

MlirOperation rootOf(MlirOperation operation) {
  for (MlirOperation outer; outer = mlirOperationGetParentOperation(operation), !mlirOperationIsNull(outer);)
    operation = outer;
  return operation;
}

/// Looks for ties between a part of a tree of operations and what is not in that tree.
class Ties {
public:
  explicit Ties(MlirOperation root) : tree(rootOf(root)) {}

  /// The operation outside of the tree and the one inside, if there are such.
  MlirOperation outside = {nullptr}, inside = {nullptr};

  MlirWalkResult visit(MlirOperation operation) {
    MlirBlock home = mlirOperationGetBlock(operation);
    for (intptr_t i = 0, e = mlirOperationGetNumOperands(operation); i < e; ++i) {
      MlirValue operand = mlirOperationGetOperand(operation, i);
      if (mlirValueIsNull(operand))
        continue;
      bool isArgument = mlirValueIsABlockArgument(operand);
      MlirBlock block = isArgument ? mlirBlockArgumentGetOwner(operand) : mlirOperationGetBlock(mlirOpResultGetOwner(operand));
      if (isArgument || block.ptr == nullptr || block.ptr != home.ptr)
        check(operation, isArgument ? mlirBlockGetParentOperation(block) : mlirOpResultGetOwner(operand), block, home);
    }
    for (intptr_t i = 0, e = mlirOperationGetNumSuccessors(operation); i < e; ++i) {
      MlirBlock block = mlirOperationGetSuccessor(operation, i);
      if (mlirBlockGetParentRegion(block).ptr != mlirBlockGetParentRegion(home).ptr)
        check(operation, mlirBlockGetParentOperation(block), block, home);
    }
    for (intptr_t i = 0, e = mlirOperationGetNumResults(operation); i < e; ++i)
      checkUsers(operation, mlirOperationGetResult(operation, i), home);
    for (intptr_t r = 0, e = mlirOperationGetNumRegions(operation); r < e; ++r)
      for (MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, r)); !mlirBlockIsNull(block);
           block = mlirBlockGetNextInRegion(block)) {
        for (intptr_t i = 0, n = mlirBlockGetNumArguments(block); i < n; ++i)
          checkUsers(operation, mlirBlockGetArgument(block, i), block);
        for (intptr_t i = 0, n = mlirBlockGetNumPredecessors(block); i < n; ++i) {
          MlirBlock from = mlirBlockGetPredecessor(block, i);
          if (mlirBlockIsNull(from))
            outside = inside = operation; // a branch that is in no block
          else if (mlirBlockGetParentRegion(from).ptr != mlirBlockGetParentRegion(block).ptr)
            check(operation, mlirBlockGetTerminator(from), from, block);
        }
      }
    return mlirOperationIsNull(inside) ? MlirWalkResultAdvance : MlirWalkResultInterrupt;
  }

private:
  void check(MlirOperation operation, MlirOperation other, MlirBlock place, MlirBlock home) {
    if (!mlirBlockIsNull(place) && place.ptr == home.ptr)
      return;
    MlirOperation root = mlirOperationIsNull(other) ? other : rootOf(other);
    if (root.ptr != tree.ptr)
      inside = operation, outside = mlirOperationIsNull(other) ? operation : other;
  }

  void checkUsers(MlirOperation operation, MlirValue value, MlirBlock home) {
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
      MlirOperation user = mlirOpOperandGetOwner(use);
      check(operation, user, mlirOperationGetBlock(user), home);
    }
  }

  MlirOperation tree;
};

} // namespace

static bool hasTies(MlirOperation root, Ties &ties) {
  if (rootCount < 2)
    return false;
  mlirOperationWalk(
      root, [](MlirOperation operation, void *ties) { return static_cast<Ties *>(ties)->visit(operation); }, &ties,
      MlirWalkPreOrder);
  return !mlirOperationIsNull(ties.inside);
}

void collectStrays(MlirOperation root) {
  Ties ties(root);
  if (hasTies(root, ties))
    nanobind::module_::import_("gc").attr("collect")(); // PyGC_Collect does nothing if the program has switched it off
}

void requireSelfContained(MlirOperation root, const char *what) {
  Ties ties(root);
  if (hasTies(root, ties))
    refuse(std::string(what) + " cannot work on " + quotedName(root) + ": " + quotedName(ties.inside) + " in it and " +
           quotedName(ties.outside) + " outside of it use one another's values or blocks, and the latter is not in the same "
           "tree of operations. Insert it, erase it, or drop it first.");
}

bool isInFrame(MlirOperation operation) {
  return std::any_of(frames.begin(), frames.end(), [&](Frame *frame) { return encloses(operation, frame->root); });
}

bool isAtWork(MlirContext context) {
  return std::any_of(frames.begin(), frames.end(),
                     [&](Frame *frame) { return mlirOperationGetContext(frame->root).ptr == context.ptr; });
}

bool isAnythingAtWork() noexcept { return !frames.empty(); }

} // namespace lot_python
