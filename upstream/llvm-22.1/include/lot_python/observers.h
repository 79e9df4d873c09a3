// `Context.on_operation_end`: Python is told of operations that have ended.
//
// An operation ends inside MLIR, on whatever thread, perhaps in a destructor and without the GIL: there an end
// is only put into a queue. It is told of at the next safe point, when MLIR is not on the thread's stack:
// - when the outermost act or run of the bindings on a thread is over (`Deferral`);
// - otherwise (a reference was dropped) by a pending call of Python, which the main thread makes between two
//   steps of its program.
// What MLIR still is at work on, on whatever thread, waits: an end is not told of while there is a `Frame` in
// its context.
//
// Names and locations belong to the context. They are noted while an operation lives, and only in contexts that
// are observed.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_OBSERVERS_H
#define LOT_PYTHON_OBSERVERS_H

#include <nanobind/nanobind.h>

#include "mlir-c/IR.h"

#define LOT_PYTHON_API __attribute__((visibility("default")))

namespace mlir {
namespace python {
namespace MLIR_BINDINGS_PYTHON_DOMAIN {
class PyMlirContext;
class PyOperation;
} // namespace MLIR_BINDINGS_PYTHON_DOMAIN
} // namespace python
} // namespace mlir

namespace lot_python {

/// While one lives, no ends are told of on this thread. When the outermost one goes they are, if the bindings
/// return to Python then; soon after, if they return to MLIR.
class LOT_PYTHON_API Deferral {
public:
  enum class ReturnTo { Python, Mlir };
  explicit Deferral(ReturnTo caller = ReturnTo::Python) noexcept;
  Deferral(const Deferral &) = delete;
  Deferral &operator=(const Deferral &) = delete;
  ~Deferral();

private:
  ReturnTo caller;
};

/// A context that is observed: see observers.cpp.
struct Observed;

// What the wrappers of operations in an observed context tell.

using Wrapper = mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN::PyOperation;
/// A wrapper stands for its operation from now on.
void noteWrapper(Wrapper &wrapper);
/// A wrapper is about to be destroyed.
void noteWrapperGone(Wrapper &wrapper);
/// The operation lives on, but Python has no reference to it any more.
void noteReleased(Wrapper &wrapper);
/// The operation's location has been set.
LOT_PYTHON_API void noteLocation(Wrapper &wrapper, MlirLocation location);

/// `Context.on_operation_end`.
nanobind::object onOperationEnd(mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN::PyMlirContext &context,
                                nanobind::callable callback, bool stack);
extern const char *const onOperationEndDoc;
/// Lets Python's garbage collector see the callbacks that a context holds.
extern const PyType_Slot contextSlots[];
/// Adds the classes to the module `ir`.
void populateObservers(nanobind::module_ &m);

} // namespace lot_python

#endif // LOT_PYTHON_OBSERVERS_H
