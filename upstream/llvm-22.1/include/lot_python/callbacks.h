// Calls from C++ code of MLIR back into Python: nothing may be thrown through MLIR's frames, and what
// Python must not pull from under them is protected meanwhile.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_CALLBACKS_H
#define LOT_PYTHON_CALLBACKS_H

#include <cxxabi.h>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lot_python/edits.h"
#include "lot_python/gate.h"
#include "lot_python/tracking.h"
#include "mlir-c/IR.h"
#include "mlir-c/Rewrite.h"

namespace lot_python {

/// Thrown through MLIR's frames, which cannot be avoided where MLIR ends the process if it is told of a failure, or if
/// it goes on. What MLIR has allocated is lost then. The failure itself is what the run keeps.
struct LOT_PYTHON_API UnwindsMlir : std::exception {
  const char *what() const noexcept override { return "a callback failed, outside of a run of the bindings"; }
};

/// What is to be run on is not made as MLIR's own code relies on (see `findFault`). A ValueError, unless it is caught.
struct LOT_PYTHON_API InvalidIr : nanobind::builtin_exception {
  InvalidIr(std::string brief, const std::string &errors)
      : builtin_exception(nanobind::exception_type::value_error, (brief + errors).c_str()), brief(std::move(brief)) {}
  std::string brief;
};

/// A run of C++ code that may change anything inside of an operation: a pass pipeline, a rewrite driver,
/// a transform script. Make one, which asks the gate whether that may be run now and looks at the operation, and make the
/// call by the functions of changes.h. No Python code runs in between, and the call's DiagnosticScope is there already.
///
/// In structural mode nobody sees what such a run erases, so everything tracked strictly below the root
/// ends with it (R9): when it begins, whenever it calls Python, and when it is over.
class LOT_PYTHON_API OpaqueRun {
public:
  enum class Driver { None, Passes, Greedy, Walk };

  /// `root`: a PyOperation, which the caller keeps alive; `what` has to be a literal.
  template <typename Operation>
  OpaqueRun(Operation &root, const char *what, Driver driver = Driver::None)
      : OpaqueRun(root.getState(), root.getContext()->get(), root.get(), root.getTrackedRef(), what, driver) {}
  /// For something else that the same C++ code changes: asks the gate as if `first` were not there.
  template <typename Operation>
  OpaqueRun(Operation &root, const char *what, OpaqueRun &first)
      : OpaqueRun(root.getState(), root.getContext()->get(), root.get(), root.getTrackedRef(), what, Driver::None, &first) {}
  OpaqueRun(const OpaqueRun &) = delete;
  OpaqueRun &operator=(const OpaqueRun &) = delete;
  ~OpaqueRun();

  /// Calls the C++ code, and throws the first exception that a Python callback raised meanwhile, if any.
  template <typename Function> auto perform(Function &&function) {
    try {
      if constexpr (std::is_void_v<decltype(function())>) {
        function();
        finish();
      } else {
        auto result = function();
        finish();
        return result;
      }
    } catch (const UnwindsMlir &) {
      finish();
      throw;
    }
  }
  /// The same when the call is over.
  void finish();

  /// The innermost run on this thread, or null.
  static OpaqueRun *current();

  /// Before each call to Python: what was handed out earlier may be gone (structural mode).
  void enterCallback() noexcept;
  bool hasFailed() const { return static_cast<bool>(error); }
  void fail(std::exception_ptr exception) {
    if (!error)
      error = std::move(exception);
  }
  Driver getDriver() const { return driver; }
  MlirOperation getRoot() const { return root; }
  OpaqueRun *getOuter() const { return outer; }

  // What Python has changed by hand since the run has called it (see edits.h). A pass manager looks at all of the IR.
  void noteEdit(MlirOperation operation, Edit edit);
  void forgetEdits(MlirOperation ended);
  bool isEdited() const { return edited; }
  /// To be called when a callback is over: looks at what it has changed. If that is not made as MLIR's code relies on, the
  /// run has failed.
  void inspectEdits(const char *where) noexcept;
  /// Whether the IR is such that MLIR must not go on.
  bool isUnsound() const { return unsound; }

  /// Keeps an operation, which MLIR will use, until the run is over.
  void keep(MlirOperation operation, nanobind::object holder);

private:
  friend class WritableScope;
  OpaqueRun(ContextState &state, MlirContext context, MlirOperation root, lot::Ref ref, const char *what, Driver driver,
            OpaqueRun *first = nullptr);
  void close() noexcept;
  void endAllBelow() noexcept;

  ContextState &state;
  MlirContext context;
  MlirOperation root;
  lot::Ref ref;
  Driver driver;
  // Until the run is over.
  std::optional<Ending> ending;
  std::optional<Frame> frame;
  OpaqueRun *outer;
  std::vector<nanobind::object> holders;
  std::deque<Frame> kept; // go first
  std::exception_ptr error;
  Edits edits;
  bool edited = false, unsound = false, closed = false;
};

/// To be made, with the GIL, before C++ code of MLIR hands anything to Python, outside of `callPython`; lives until
/// MLIR goes on.
class LOT_PYTHON_API CallbackScope {
public:
  CallbackScope() noexcept;

private:
  Deferral deferral;
};

/// Never returns. The thread goes with the process.
[[noreturn]] LOT_PYTHON_API void stopThread() noexcept;

/// Reports an exception that cannot be raised where it belongs.
LOT_PYTHON_API void reportUnraisable(const char *where) noexcept;

/// Calls Python where C++ code is further up on the stack. When the interpreter exits, Python ends a daemon thread by
/// unwinding its stack. Neither MLIR nor nanobind survives that, and the GIL is gone: such a thread stays where it is.
template <typename Function> auto enterPython(Function &&function) {
  try {
    return std::forward<Function>(function)();
  } catch (abi::__forced_unwind &) {
    stopThread();
  }
}

/// What upstream makes of an exception in the callback of a walk. What is no `Exception`, such as KeyboardInterrupt, comes
/// through as it is.
template <typename Function> auto callAndWrap(Function &&function) {
  try {
    return std::forward<Function>(function)();
  } catch (nanobind::python_error &error) {
    if (!error.matches(PyExc_Exception))
      throw;
    std::string message = std::string("Exception raised in callback: ") + error.what();
    nanobind::raise_from(error, PyExc_RuntimeError, "%s", message.c_str());
  }
}

/// Runs a callback that MLIR called. False if it raised (or an earlier one of this run did, then it is not
/// even called): the exception is raised when the run is over.
template <typename Function> bool callPython(const char *where, Function &&function) noexcept {
  nanobind::gil_scoped_acquire gil;
  OpaqueRun *run = OpaqueRun::current();
  if (run && run->hasFailed())
    return false;
  noteShown();
  CallbackScope scope;
  std::size_t roots = rootCount;
  try {
    std::forward<Function>(function)();
    if (run && rootCount > roots) { // the callback has left something detached
      collectStrays(run->getRoot());
      requireSelfContained(run->getRoot(), where);
    }
  } catch (...) {
    if (!run) {
      reportUnraisable(where);
      return false;
    }
    run->fail(std::current_exception());
  }
  if (run)
    run->inspectEdits(where);
  return !run || !run->hasFailed();
}

/// To be called after `callPython` by a callback of a rewrite driver, which nothing stops otherwise.
inline void leaveIfUnsound() {
  if (OpaqueRun *run = OpaqueRun::current(); run && run->isUnsound())
    throw UnwindsMlir();
}

/// Says whether an object that only exists during a callback still may be used. Copies share the answer.
class CallbackToken {
public:
  CallbackToken() : active(std::make_shared<bool>(true)) {}
  void expire() { *active = false; }
  void require(const char *what) const {
    if (!*active)
      raiseInvalidated(what);
  }

private:
  std::shared_ptr<bool> active;
};

/// Expires a token at the end of the callback.
class TokenScope {
public:
  explicit TokenScope(CallbackToken token) : token(std::move(token)) {}
  TokenScope(const TokenScope &) = delete;
  TokenScope &operator=(const TokenScope &) = delete;
  ~TokenScope() { token.expire(); }

private:
  CallbackToken token;
};

/// A callback that may change what is strictly inside of `writable`, as far as the run that called it is
/// concerned.
class LOT_PYTHON_API WritableScope {
public:
  explicit WritableScope(MlirOperation writable);
  WritableScope(const WritableScope &) = delete;
  WritableScope &operator=(const WritableScope &) = delete;
  ~WritableScope();

private:
  OpaqueRun *run;
  MlirOperation saved = {nullptr};
};

/// While a pass manager runs, a context counts as used by several threads: MLIR ends the process if a dialect is loaded
/// or a setting is changed. In a callback of a Python pass no other thread of MLIR's is at work, so there a program may
/// do that.
class LOT_PYTHON_API SuspendedPasses {
public:
  explicit SuspendedPasses(MlirContext context) noexcept;
  SuspendedPasses(const SuspendedPasses &) = delete;
  SuspendedPasses &operator=(const SuspendedPasses &) = delete;
  ~SuspendedPasses();

private:
  MlirContext context;
};

/// Refuses to change a context's settings while MLIR is at work in it, if that cannot be suspended.
LOT_PYTHON_API void requireSettable(MlirContext context);

/// Counts while something runs.
class Counted {
public:
  explicit Counted(unsigned &count) : count(count) { ++count; }
  Counted(const Counted &) = delete;
  Counted &operator=(const Counted &) = delete;
  ~Counted() { --count; }

private:
  unsigned &count;
};

/// Holds a flag while something runs.
class Busy {
public:
  explicit Busy(bool &flag) : flag(flag) { flag = true; }
  Busy(const Busy &) = delete;
  Busy &operator=(const Busy &) = delete;
  ~Busy() { flag = false; }

private:
  bool &flag;
};

/// A rewrite pattern is being applied on this thread: operations have to be erased through its rewriter,
/// since the driver keeps lists of them. A pattern may run another driver, on other IR: then there are several.
class LOT_PYTHON_API RewriteScope {
public:
  /// For a function of a PDL module; with `frozen` nothing may be erased at all.
  RewriteScope(MlirRewriterBase rewriter, bool frozen) : RewriteScope(rewriter, {nullptr}, frozen, nullptr) {}
  /// For a pattern that has matched an operation. If that has ended when the pattern is over, however it ends,
  /// `result` becomes success: MLIR would show the operation to other patterns otherwise.
  RewriteScope(MlirRewriterBase rewriter, MlirOperation matched, MlirLogicalResult *result)
      : RewriteScope(rewriter, matched, false, result) {}
  RewriteScope(const RewriteScope &) = delete;
  RewriteScope &operator=(const RewriteScope &) = delete;
  ~RewriteScope();

  /// The scope whose driver works on the operation, or null.
  static RewriteScope *workingOn(MlirOperation operation);
  MlirRewriterBase getRewriter() const { return rewriter; }
  // Refuse what the driver that works on the operation cannot stand.
  static void requireErasable(MlirOperation operation);
  static void requireAttached(MlirOperation operation);

private:
  RewriteScope(MlirRewriterBase rewriter, MlirOperation matched, bool frozen, MlirLogicalResult *result);

  MlirRewriterBase rewriter;
  MlirOperation operation; // what the pattern matched
  bool frozen;
  MlirLogicalResult *result;
  lot::Ref matched;
  OpaqueRun *run; // null: somebody else has started the driver
  RewriteScope *outer;
  WritableScope writable;
};

/// Where a rewriter points to. MLIR does not follow it when that ends or moves.
class LOT_PYTHON_API RewriterPlace {
public:
  RewriterPlace(MlirContext context, MlirRewriterBase rewriter);
  /// The operation that it points to; null at the end of a block.
  MlirOperation getNext() const { return next; }
  /// Keeps the wrapper of that, so that its end is noticed.
  template <typename OperationRef> void hold(OperationRef wrapper) {
    nextRef = wrapper->getTrackedRef();
    holder = wrapper.getObject();
  }
  /// Raises unless the rewriter points to a living place.
  void require() const;

private:
  MlirBlock block;
  MlirOperation next;
  lot::Ref blockRef, nextRef;
  nanobind::object holder;
};

} // namespace lot_python

#endif // LOT_PYTHON_CALLBACKS_H
