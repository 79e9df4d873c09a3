// The gate: what may be changed or run while MLIR is at work further up on some stack. All of the bindings' code that
// changes IR or runs something on it asks here first (changes.h makes the calls), so liveness, places and threads are
// looked at in one place.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_GATE_H
#define LOT_PYTHON_GATE_H

#include <string>

#include "lot_python/observers.h"
#include "mlir-c/IR.h"

namespace lot_python {

/// An in-use guard: C++ code of MLIR on this thread's stack works on `root`, or will use it later, and has called
/// Python. While the guard lives, Python may end, move or run things strictly inside of `writable` only (nothing, if
/// that is null), and only on this thread. Other threads may not change `root` at all. Needs the GIL.
class LOT_PYTHON_API Frame {
public:
  enum class Kind {
    Work,   ///< a pass pipeline, a transform script, a callback of these
    Driver, ///< a rewrite driver: it keeps a list of operations, so nothing may be run, and nothing may leave `root`
    Kept,   ///< a result that MLIR will use: it must not end, but may find a place
  };

  explicit Frame(MlirOperation root, MlirOperation writable = {nullptr}, Kind kind = Kind::Work);
  Frame(const Frame &) = delete;
  Frame &operator=(const Frame &) = delete;
  ~Frame();

  /// Whether it was made on this thread.
  bool isMine() const;

  MlirOperation root, writable;
  Kind kind;

private:
  const void *thread;
  Deferral deferral; // goes when the guard is off the list
};

/// Whether `outer` is `inner` or encloses it.
LOT_PYTHON_API bool encloses(MlirOperation outer, MlirOperation inner);

// Each of these raises ValueError, and the text says what is at work and what to do.

/// Before something in or at the operation is changed in place: attributes, operands, locations, types, new
/// operations in its blocks.
LOT_PYTHON_API void requireEditable(MlirOperation operation);
/// Before the operation is ended or moved; with `inside`, before something in its regions is.
LOT_PYTHON_API void requireChangeable(MlirOperation operation, bool inside = false);
/// Before the operation is ended.
LOT_PYTHON_API void requireEndable(MlirOperation operation);
/// Before the operation, or what is inside of it, is put into `target`.
LOT_PYTHON_API void requireStays(MlirOperation operation, MlirOperation target);
/// Before `what` (a pass pipeline, a driver, a script) is run on the operation. `besides`: a guard of the same run.
LOT_PYTHON_API void requireRunnable(MlirOperation root, const char *what, const Frame *besides = nullptr);

/// Before C++ code works on the operation, and goes on with it: nothing outside of the tree that it is in may use values
/// or blocks in it, and it may use none from there. MLIR ends the process, or leaves null pointers, if such a value
/// goes, and if it looks for the place of such a user.
LOT_PYTHON_API void requireSelfContained(MlirOperation root, const char *what);
/// To be called first of all: if there are such uses, collects garbage, since what nobody can reach does not count. That
/// runs Python code, so the caller looks at everything else afterwards.
LOT_PYTHON_API void collectStrays(MlirOperation root);

/// Whether ending the operation would pull it from under MLIR.
bool isInFrame(MlirOperation operation);
/// Whether MLIR is at work in a context, on whatever thread.
LOT_PYTHON_API bool isAtWork(MlirContext context);
/// Whether MLIR is at work anywhere, and has called Python.
bool isAnythingAtWork() noexcept;

} // namespace lot_python

#endif // LOT_PYTHON_GATE_H
