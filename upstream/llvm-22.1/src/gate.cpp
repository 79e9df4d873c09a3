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

bool isInFrame(MlirOperation operation) {
  return std::any_of(frames.begin(), frames.end(), [&](Frame *frame) { return encloses(operation, frame->root); });
}

bool isAtWork(MlirContext context) {
  return std::any_of(frames.begin(), frames.end(),
                     [&](Frame *frame) { return mlirOperationGetContext(frame->root).ptr == context.ptr; });
}

bool isAnythingAtWork() noexcept { return !frames.empty(); }

} // namespace lot_python
