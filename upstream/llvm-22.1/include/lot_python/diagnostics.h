// Diagnostics of MLIR reach Python when MLIR's call is over. MLIR emits them under a lock, on any thread, so there they
// are only copied: one handler per context takes them, without Python. The scope that made the call then tells the
// handlers of the program, on its own thread and in order.
//
// What was emitted outside of a scope, by a thread of MLIR's or by code of others, is told by the scope of that context
// that ends next, or else by a pending call of Python's main thread.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_DIAGNOSTICS_H
#define LOT_PYTHON_DIAGNOSTICS_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "lot_python/observers.h"
#include "mlir-c/Diagnostics.h"
#include "mlir-c/IR.h"

namespace lot_python {

/// A diagnostic that owns what it shows. The location is the context's.
struct DiagnosticCopy {
  MlirDiagnosticSeverity severity;
  MlirLocation location;
  std::string message;
  std::vector<std::shared_ptr<const DiagnosticCopy>> notes;
  std::uint64_t number; // in the order of emission
};
using DiagnosticRef = std::shared_ptr<const DiagnosticCopy>;

/// The handlers of a context, and what they have yet to be told of: see diagnostics.cpp.
struct Diagnostics;
struct DiagnosticHandlerSlots;

/// Begins to take the diagnostics of a context. `isFirst`: it was just made, so no handler of others is older.
std::shared_ptr<Diagnostics> takeDiagnostics(mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN::PyMlirContext &context,
                                             bool isFirst);
/// The context is about to be destroyed: detaches its handlers, and prints what nobody was told of.
void endDiagnostics(Diagnostics &diagnostics);

/// To be made before each call of MLIR that may emit diagnostics, with the GIL. When it goes, or by `finish`, the
/// handlers of the program are told. An error that none of them handles is printed, as MLIR would have done; one that
/// was to be captured, but for which no exception is raised, becomes a Python warning.
class LOT_PYTHON_API DiagnosticScope {
public:
  enum class Errors { Tell, Capture };
  explicit DiagnosticScope(mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN::PyMlirContext &context,
                           Errors errors = Errors::Tell) noexcept;
  /// In the context of an object that is alive.
  explicit DiagnosticScope(MlirContext context);
  DiagnosticScope(const DiagnosticScope &) = delete;
  DiagnosticScope &operator=(const DiagnosticScope &) = delete;
  /// Throws what a handler raised that is no `Exception`, such as KeyboardInterrupt, unless it is called because of
  /// an exception.
  ~DiagnosticScope() noexcept(false);

  void finish();
  /// For an exception: tells the handlers of all but the captured errors, and gives these. May throw as well.
  std::vector<DiagnosticRef> takeErrors();

private:
  friend struct Diagnostics;
  bool hasSomethingToTell() const;
  void close() noexcept;

  std::shared_ptr<Diagnostics> diagnostics;
  std::vector<DiagnosticRef> pending;
  DiagnosticScope *outer;
  Errors errors;
  int exceptions;
  bool closed = false;
};

/// `Context.attach_diagnostic_handler`.
nanobind::object attachDiagnosticHandler(mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN::PyMlirContext &context,
                                         nanobind::object callback);
/// For Python's garbage collector: what a context holds, and what a handler does.
int visitDiagnosticHandlers(Diagnostics &diagnostics, visitproc visit, void *arg);
void clearDiagnosticHandlers(Diagnostics &diagnostics);
extern const PyType_Slot diagnosticHandlerSlots[];

} // namespace lot_python

#endif // LOT_PYTHON_DIAGNOSTICS_H
