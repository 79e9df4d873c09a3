// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/callbacks.h"

#include "lot_python/checked_calls.h"
#include "lot_python/slots.h"

#include <unistd.h>

namespace nb = nanobind;

// MLIRContext::enterMultiThreadedExecution and exitMultiThreadedExecution, which the C API does not have. They may be
// hidden in another build of MLIR.
extern "C" {
__attribute__((weak)) void _ZN4mlir11MLIRContext27enterMultiThreadedExecutionEv(void *);
__attribute__((weak)) void _ZN4mlir11MLIRContext26exitMultiThreadedExecutionEv(void *);
}

namespace lot_python {

namespace {

thread_local OpaqueRun *currentRun = nullptr;
thread_local RewriteScope *currentRewrite = nullptr;

/// A pass may be in a library that was loaded a moment ago.
ContextState &prepare(ContextState &state, MlirOperation operation, lot::Ref root, const char *what, bool forPasses, const Frame *besides) {
  requireRunnable(operation, what, besides);
  requireSelfContained(operation, what);
  requireVerifiable(operation, "worked on"); // before any reference ends with the run
  std::string fault = findFault(operation, forPasses ? Use::Passes : Use::Driver, /*tell=*/forPasses);
  if (!fault.empty())
    throw InvalidIr(std::string(what) + " cannot work on " + quotedName(operation) + ", which is not valid", ": " + fault);
  refresh();
  if (!root.isNull() && !root.isLive())
    raiseInvalidated("the operation has been invalidated: a library was loaded that cannot be observed");
  return state;
}

} // namespace

OpaqueRun::OpaqueRun(ContextState &state, MlirContext context, MlirOperation root, lot::Ref ref, const char *what, Driver driver,
                     OpaqueRun *first)
    : state(prepare(state, root, ref, what, driver == Driver::Passes, first ? &*first->frame : nullptr)), context(context), root(root), ref(ref),
      driver(driver), outer(currentRun) {
  ending.emplace(root, ref, LOT_CAUSE_OPAQUE_MUTATION, what);
  frame.emplace(root, MlirOperation{nullptr}, driver <= Driver::Passes ? Frame::Kind::Work : Frame::Kind::Driver);
  currentRun = this;
  endAllBelow();
}

OpaqueRun::~OpaqueRun() { close(); }

void OpaqueRun::close() noexcept {
  if (closed)
    return;
  closed = true;
  currentRun = outer;
  ++state.changes;
  endAllBelow();
  ending.reset();
  kept.clear();
  frame.reset(); // tells what has ended
  holders.clear();
}

void OpaqueRun::finish() {
  close();
  // Taken out first, so that the exception does not live on in a run that is kept.
  if (std::exception_ptr raised = std::move(error))
    std::rethrow_exception(raised);
}

void OpaqueRun::keep(MlirOperation operation, nb::object holder) {
  holders.push_back(std::move(holder));
  kept.emplace_back(operation, MlirOperation{nullptr}, Frame::Kind::Kept);
}

void OpaqueRun::endAllBelow() noexcept {
  ++state.changes;
  tracker.opaqueMutation(root.ptr).ignore(); // in exact mode this ends nothing
}

OpaqueRun *OpaqueRun::current() { return currentRun; }

void OpaqueRun::noteEdit(MlirOperation operation, Edit edit) {
  edited = true;
  if (driver >= Driver::Greedy)
    edits[operation.ptr] |= edit;
}

void OpaqueRun::forgetEdits(MlirOperation ended) {
  if (edits.empty())
    return;
  edits.remove_if([&](const auto &edit) { return encloses(ended, MlirOperation{edit.first}); });
}

void OpaqueRun::inspectEdits(const char *where) noexcept {
  if (!std::exchange(edited, false))
    return;
  bool passes = driver == Driver::Passes;
  std::string fault = passes ? findFault(root, Use::Passes, /*tell=*/true) : findFault(edits);
  edits.clear();
  if (fault.empty())
    return;
  unsound = !passes;
  fail(std::make_exception_ptr(InvalidIr(std::string(where) + " has left " + quotedName(root) + " not valid", ": " + fault)));
}

void OpaqueRun::enterCallback() noexcept {
  for (OpaqueRun *run = this; run; run = run->outer)
    run->endAllBelow();
}

CallbackScope::CallbackScope() noexcept : deferral(Deferral::ReturnTo::Mlir) {
  if (currentRun)
    currentRun->enterCallback();
}

void stopThread() noexcept {
  for (;;)
    pause();
}

void reportUnraisable(const char *where) noexcept {
  setPythonError();
  nb::object context = nb::steal(PyUnicode_FromString(where));
  PyErr_WriteUnraisable(context.ptr());
}

namespace {
bool canSuspend() noexcept {
  return &_ZN4mlir11MLIRContext27enterMultiThreadedExecutionEv && &_ZN4mlir11MLIRContext26exitMultiThreadedExecutionEv;
}
} // namespace

SuspendedPasses::SuspendedPasses(MlirContext context) noexcept : context(context) {
  if (canSuspend())
    _ZN4mlir11MLIRContext26exitMultiThreadedExecutionEv(context.ptr);
}

SuspendedPasses::~SuspendedPasses() {
  if (canSuspend())
    _ZN4mlir11MLIRContext27enterMultiThreadedExecutionEv(context.ptr);
}

void requireSettable(MlirContext context) {
  if (!canSuspend() && isAtWork(context))
    refuse("The context's settings cannot be changed now: MLIR is at work in it.");
}

WritableScope::WritableScope(MlirOperation writable) : run(currentRun) {
  if (run)
    saved = std::exchange(run->frame->writable, writable);
}

WritableScope::~WritableScope() {
  if (run)
    run->frame->writable = saved;
}

RewriteScope::RewriteScope(MlirRewriterBase rewriter, MlirOperation matched, bool frozen, MlirLogicalResult *result)
    : rewriter(rewriter), operation(matched), frozen(frozen), result(result),
      matched(matched.ptr ? tracker.find(matched.ptr) : lot::Ref()), run(currentRun), outer(currentRewrite),
      writable(currentRun ? currentRun->getRoot() : MlirOperation{nullptr}) {
  currentRewrite = this;
}

RewriteScope::~RewriteScope() {
  currentRewrite = outer;
  if (result && !matched.isLive())
    *result = mlirLogicalResultSuccess();
}

RewriterPlace::RewriterPlace(MlirContext context, MlirRewriterBase rewriter)
    : block(mlirRewriterBaseGetInsertionBlock(rewriter)), next{nullptr} {
  if (mlirBlockIsNull(block))
    return;
  blockRef = trackBlock(context, block);
  next = mlirRewriterBaseGetOperationAfterInsertion(rewriter);
}

void RewriterPlace::require() const {
  if (mlirBlockIsNull(block))
    refuse("The rewriter has no insertion point.");
  if (!blockRef.isLive())
    raiseInvalidated("the insertion point has been invalidated: the block that the rewriter points into has ended");
  if (!nextRef.isNull() && !nextRef.isLive())
    raiseInvalidated("the insertion point has been invalidated: the operation that the rewriter points to has ended");
}

RewriteScope *RewriteScope::workingOn(MlirOperation operation) {
  for (RewriteScope *scope = currentRewrite; scope; scope = scope->outer)
    if (!scope->run || encloses(scope->run->getRoot(), operation))
      return scope;
  return nullptr;
}

void RewriteScope::requireErasable(MlirOperation candidate) {
  RewriteScope *scope = workingOn(candidate);
  if (!scope)
    return;
  if (scope->frozen)
    refuse(quotedName(candidate) + " cannot be erased or moved here: the pattern that called the function goes on with what it "
                                   "has matched.");
  // The walk driver has its next operation in hand already.
  if (scope->run && scope->run->getDriver() == OpaqueRun::Driver::Walk &&
      !(scope->matched.isLive() && encloses(scope->operation, candidate)))
    refuse(quotedName(candidate) + " cannot be erased or moved here: walk_and_apply_patterns only allows that for the operation "
                                   "that was matched, and what is inside of it.");
}

void RewriteScope::requireAttached(MlirOperation candidate) {
  // It could be destroyed then, and the driver, which keeps a list of operations, would not hear of that.
  RewriteScope *scope = workingOn(candidate);
  if (scope && scope->run)
    refuse(quotedName(candidate) + " cannot be detached here: the rewrite driver keeps a list of operations. Erase it or move it.");
}

} // namespace lot_python
