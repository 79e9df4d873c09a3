// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/callbacks.h"

#include "lot_python/checked_calls.h"
#include "lot_python/slots.h"

namespace nb = nanobind;

namespace lot_python {

namespace {

thread_local OpaqueRun *currentRun = nullptr;
thread_local RewriteScope *currentRewrite = nullptr;

/// A pass may be in a library that was loaded a moment ago.
ContextState &prepare(ContextState &state, MlirOperation operation, lot::Ref root) {
  requirePlacedOperands(operation, "worked on"); // before any reference ends with the run
  refresh();
  if (!root.isNull() && !root.isLive())
    raiseInvalidated("the operation has been invalidated: a library was loaded that cannot be observed");
  return state;
}

} // namespace

OpaqueRun::OpaqueRun(ContextState &state, MlirContext context, MlirOperation root, lot::Ref ref, const char *what, Driver driver)
    : state(prepare(state, root, ref)), context(context), ref(ref), driver(driver), ending(root, ref, LOT_CAUSE_OPAQUE_MUTATION, what),
      frame(root, {nullptr}), outer(currentRun) {
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
}

void OpaqueRun::finish() {
  close();
  // Taken out first, so that the exception does not live on in a run that is kept.
  if (std::exception_ptr raised = std::move(error))
    std::rethrow_exception(raised);
}

void OpaqueRun::endAllBelow() noexcept {
  ++state.changes;
  tracker.opaqueMutation(frame.root.ptr).ignore(); // in exact mode this ends nothing
}

OpaqueRun *OpaqueRun::current() { return currentRun; }

void OpaqueRun::enterCallback() noexcept {
  for (OpaqueRun *run = this; run; run = run->outer)
    run->endAllBelow();
}

CallbackScope::CallbackScope() noexcept : deferral(Deferral::ReturnTo::Mlir) {
  if (currentRun)
    currentRun->enterCallback();
}

void reportUnraisable(const char *where) noexcept {
  setPythonError();
  nb::object context = nb::steal(PyUnicode_FromString(where));
  PyErr_WriteUnraisable(context.ptr());
}

WritableScope::WritableScope(MlirOperation writable) : run(currentRun) {
  if (run)
    saved = std::exchange(run->frame.writable, writable);
}

WritableScope::~WritableScope() {
  if (run)
    run->frame.writable = saved;
}

RewriteScope::RewriteScope(MlirRewriterBase rewriter, MlirOperation matched, bool frozen)
    : rewriter(rewriter), operation(matched), frozen(frozen),
      matched(matched.ptr ? tracker.find(matched.ptr) : lot::Ref()), outer(currentRewrite),
      writable(currentRun ? currentRun->getRoot() : MlirOperation{nullptr}) {
  currentRewrite = this;
}

RewriteScope::~RewriteScope() { currentRewrite = outer; }

RewriteScope *RewriteScope::current() { return currentRewrite; }

void RewriteScope::requireErasable(MlirOperation candidate) const {
  if (frozen)
    refuse(quotedName(candidate) + " cannot be erased or moved here: the pattern that called the function goes on with what it "
                                   "has matched.");
  OpaqueRun *run = OpaqueRun::current();
  // The walk driver has its next operation in hand already.
  if (run && run->getDriver() == OpaqueRun::Driver::Walk && encloses(run->getRoot(), candidate) &&
      !(matched.isLive() && encloses(operation, candidate)))
    refuse(quotedName(candidate) + " cannot be erased or moved here: walk_and_apply_patterns only allows that for the operation "
                                   "that was matched, and what is inside of it.");
}

void RewriteScope::requireAttached(MlirOperation candidate) const {
  // It could be destroyed then, and the driver, which keeps a list of operations, would not hear of that.
  OpaqueRun *run = OpaqueRun::current();
  if (run && encloses(run->getRoot(), candidate))
    refuse(quotedName(candidate) + " cannot be detached here: the rewrite driver keeps a list of operations. Erase it or move it.");
}

} // namespace lot_python
