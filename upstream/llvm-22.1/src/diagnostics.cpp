// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/diagnostics.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <utility>

#include "lot_python/callbacks.h"
#include "lot_python/slots.h"
#include "mlir/Bindings/Python/IRCore.h"

namespace nb = nanobind;
using namespace lot_python;
using namespace mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN;

namespace lot_python {

namespace {

std::atomic<std::uint64_t> emitted{0};

/// The innermost scope of this thread.
thread_local DiagnosticScope *innermost = nullptr;
/// This thread emits a diagnostic once more, for handlers of others and for MLIR's own printing.
thread_local bool passingOn = false;

std::string textOf(MlirDiagnostic diagnostic) {
  std::string text;
  mlirDiagnosticPrint(
      diagnostic,
      [](MlirStringRef part, void *text) { static_cast<std::string *>(text)->append(part.data, part.length); }, &text);
  return text;
}

std::string textOf(MlirLocation location) {
  std::string text;
  mlirLocationPrint(
      location,
      [](MlirStringRef part, void *text) { static_cast<std::string *>(text)->append(part.data, part.length); }, &text);
  return text;
}

DiagnosticRef copyOf(MlirDiagnostic diagnostic, std::uint64_t number) {
  auto copy = std::make_shared<DiagnosticCopy>();
  copy->severity = mlirDiagnosticGetSeverity(diagnostic);
  copy->location = mlirDiagnosticGetLocation(diagnostic);
  copy->message = textOf(diagnostic);
  copy->number = number;
  for (intptr_t i = 0, e = mlirDiagnosticGetNumNotes(diagnostic); i < e; ++i)
    copy->notes.push_back(copyOf(mlirDiagnosticGetNote(diagnostic, i), number));
  return copy;
}

bool isError(const DiagnosticCopy &copy) { return copy.severity == MlirDiagnosticError; }

/// As MLIR prints it if no handler takes it.
std::string asPrinted(const DiagnosticCopy &copy) {
  std::string text = textOf(copy.location);
  text = text == "loc(unknown)" ? "" : text + ": ";
  return text + "error: " + copy.message;
}

std::atomic<bool> scheduled{false};

} // namespace

struct Diagnostics {
  Diagnostics(PyMlirContext &context, bool isFirst)
      : context(context), isFirst(isFirst),
        id(mlirContextAttachDiagnosticHandler(context.get(), take, this, /*deleteUserData=*/nullptr)) {}
  Diagnostics(const Diagnostics &) = delete;
  Diagnostics &operator=(const Diagnostics &) = delete;

  static MlirLogicalResult take(MlirDiagnostic diagnostic, void *self) noexcept;
  void tellScopesOfThisThread(DiagnosticScope *upTo);
  void tell(std::vector<DiagnosticRef> &pending, bool warn);
  bool tell(const DiagnosticRef &diagnostic, std::exception_ptr &interruption);
  void passOn(const DiagnosticCopy &copy) const;
  std::vector<DiagnosticRef> takeUnclaimed();
  void attach(nb::handle handler);
  void detach(PyDiagnosticHandler &handler);
  void detachAll();
  /// The context's Python object, if anybody in Python is to be told and it is not on its way out.
  nb::object hold() const { return self && Py_REFCNT(self) > 0 ? nb::borrow(self) : nb::object(); }

  // Guarded by the GIL.
  PyMlirContext &context; // owns this object, or has gone
  PyObject *self = nullptr; // known since there was a handler
  std::vector<nb::object> handlers; // of the program, oldest first
  const bool isFirst;
  const MlirDiagnosticHandlerID id;
  // Emitted outside of a scope, on any thread and without the GIL.
  std::mutex mutex; // of `unclaimed`
  std::vector<DiagnosticRef> unclaimed;
  std::atomic<bool> hasUnclaimed{false};
};

namespace {

/// The contexts whose diagnostics are taken. Guarded by the GIL; never destroyed, since Python may be gone first.
std::vector<Diagnostics *> &all() {
  static auto *list = new std::vector<Diagnostics *>();
  return *list;
}

int tellUnclaimed(void *) noexcept {
  scheduled = false;
  try {
    std::vector<nb::object> holders; // a handler may end another context
    for (Diagnostics *diagnostics : all()) {
      if (!diagnostics->hasUnclaimed)
        continue;
      if (nb::object holder = diagnostics->hold(); holder.is_valid())
        holders.push_back(std::move(holder));
      else
        for (const DiagnosticRef &diagnostic : diagnostics->takeUnclaimed())
          diagnostics->passOn(*diagnostic);
    }
    for (nb::object &holder : holders)
      DiagnosticScope(*nb::inst_ptr<PyMlirContext>(holder)).finish();
    return 0;
  } catch (...) {
    setPythonError();
    return -1; // raised in the main thread's program
  }
}

void schedule() noexcept {
  if (!scheduled.exchange(true) && Py_AddPendingCall(tellUnclaimed, nullptr) != 0)
    scheduled = false; // too many are waiting: the next scope does it
}

} // namespace

// ---- In MLIR, under its lock, on any thread, with or without the GIL.

MlirLogicalResult Diagnostics::take(MlirDiagnostic diagnostic, void *data) noexcept {
  auto &self = *static_cast<Diagnostics *>(data);
  if (passingOn || !canUsePython())
    return mlirLogicalResultFailure();
  DiagnosticRef copy = copyOf(diagnostic, ++emitted);
  DiagnosticScope *scope = innermost;
  while (scope && scope->diagnostics.get() != &self)
    scope = scope->outer;
  if (scope) {
    scope->pending.push_back(copy);
  } else {
    std::lock_guard<std::mutex> lock(self.mutex);
    self.unclaimed.push_back(copy);
    self.hasUnclaimed = true;
    schedule();
  }
  // MLIR prints errors only; other diagnostics may go on to handlers of others that are older.
  return isError(*copy) ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}

// ---- Telling.

std::vector<DiagnosticRef> Diagnostics::takeUnclaimed() {
  std::lock_guard<std::mutex> lock(mutex);
  hasUnclaimed = false;
  return std::move(unclaimed);
}

void Diagnostics::passOn(const DiagnosticCopy &copy) const {
  if (!isError(copy))
    return;
  if (isFirst) {
    std::fputs((asPrinted(copy) + "\n").c_str(), stderr);
    return;
  }
  passingOn = true;
  mlirEmitError(copy.location, copy.message.c_str());
  passingOn = false;
}

/// Whether a handler has handled it.
bool Diagnostics::tell(const DiagnosticRef &diagnostic, std::exception_ptr &interruption) {
  std::vector<nb::object> told = handlers; // those of now; one may detach others
  for (auto next = told.rbegin(); next != told.rend(); ++next) {
    auto &handler = *nb::inst_ptr<PyDiagnosticHandler>(*next);
    if (!handler.isAttached() || *handler.registeredID > diagnostic->number)
      continue;
    nb::object shown = nb::cast(PyDiagnostic(context.getRef(), diagnostic));
    bool handled = false;
    try {
      nb::object callback = handler.callback; // it may detach its handler
      handled = nb::cast<bool>(enterPython([&] { return callback(shown); }));
    } catch (nb::python_error &error) {
      if (!error.matches(PyExc_Exception)) {
        interruption = std::current_exception();
      } else {
        handler.hadError = true;
        std::fprintf(stderr, "MLIR Python Diagnostic handler raised exception: %s\n", error.what());
      }
    } catch (std::exception &error) {
      handler.hadError = true;
      std::fprintf(stderr, "MLIR Python Diagnostic handler raised exception: %s\n", error.what());
    }
    nb::inst_ptr<PyDiagnostic>(shown)->invalidate();
    if (handled)
      return true;
    if (interruption)
      return false;
  }
  return false;
}

/// With `warn`, errors that nobody handles become Python warnings.
void Diagnostics::tell(std::vector<DiagnosticRef> &pending, bool warn) {
  std::exception_ptr interruption;
  // By index: more may be emitted meanwhile.
  for (std::size_t i = 0; i < pending.size(); ++i) {
    DiagnosticRef diagnostic = pending[i];
    if (!interruption && tell(diagnostic, interruption))
      continue;
    if (!warn || interruption || !isError(*diagnostic)) {
      passOn(*diagnostic);
      continue;
    }
    std::string text = asPrinted(*diagnostic);
    for (const DiagnosticRef &note : diagnostic->notes)
      text += "\n note: " + note->message;
    if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0)
      try {
        nb::raise_python_error(); // the program wants warnings as exceptions
      } catch (...) {
        interruption = std::current_exception();
      }
  }
  pending.clear();
  if (interruption)
    std::rethrow_exception(interruption);
}

/// Tells what has been emitted before, in the scopes around `upTo`.
void Diagnostics::tellScopesOfThisThread(DiagnosticScope *upTo) {
  std::vector<DiagnosticScope *> around;
  for (DiagnosticScope *scope = upTo; scope; scope = scope->outer)
    if (scope->diagnostics.get() == this)
      around.push_back(scope);
  for (auto scope = around.rbegin(); scope != around.rend(); ++scope) {
    // What is captured waits for its exception.
    std::vector<DiagnosticRef> now, later;
    bool captures = (*scope)->errors == DiagnosticScope::Errors::Capture && !context.getEmitErrorDiagnostics();
    for (DiagnosticRef &diagnostic : (*scope)->pending)
      (captures && isError(*diagnostic) ? later : now).push_back(std::move(diagnostic));
    (*scope)->pending = std::move(later);
    if (!now.empty())
      tell(now, /*warn=*/false);
  }
}

// ---- Scopes.

DiagnosticScope::DiagnosticScope(PyMlirContext &context, Errors errors) noexcept
    : diagnostics(context.getState().diagnostics), outer(innermost), errors(errors),
      exceptions(std::uncaught_exceptions()) {
  innermost = this;
}

DiagnosticScope::DiagnosticScope(MlirContext context) : DiagnosticScope(*PyMlirContext::forContext(context).get()) {}

void DiagnosticScope::close() noexcept {
  if (!closed)
    innermost = outer;
  closed = true;
}

bool DiagnosticScope::hasSomethingToTell() const { return !pending.empty() || diagnostics->hasUnclaimed; }

void DiagnosticScope::finish() {
  close();
  if (!hasSomethingToTell())
    return;
  nb::object holder = diagnostics->hold(); // a handler may drop the last reference
  bool captures = errors == Errors::Capture && !diagnostics->context.getEmitErrorDiagnostics();
  std::vector<DiagnosticRef> own = std::exchange(pending, {});
  std::vector<DiagnosticRef> unclaimed = diagnostics->takeUnclaimed();
  diagnostics->tellScopesOfThisThread(outer);
  own.insert(own.end(), unclaimed.begin(), unclaimed.end());
  std::stable_sort(own.begin(), own.end(), [](const DiagnosticRef &a, const DiagnosticRef &b) { return a->number < b->number; });
  diagnostics->tell(own, captures);
}

std::vector<DiagnosticRef> DiagnosticScope::takeErrors() {
  std::vector<DiagnosticRef> captured;
  if (!diagnostics->context.getEmitErrorDiagnostics()) {
    // A thread of MLIR's may have found the error.
    for (DiagnosticRef &diagnostic : diagnostics->takeUnclaimed())
      pending.push_back(std::move(diagnostic));
    auto errors = std::stable_partition(pending.begin(), pending.end(),
                                        [](const DiagnosticRef &diagnostic) { return !isError(*diagnostic); });
    captured.assign(std::make_move_iterator(errors), std::make_move_iterator(pending.end()));
    pending.erase(errors, pending.end());
  }
  finish();
  return captured;
}

DiagnosticScope::~DiagnosticScope() noexcept(false) {
  close();
  if (!hasSomethingToTell())
    return;
  if (std::uncaught_exceptions() == exceptions) {
    finish();
    return;
  }
  try {
    finish();
  } catch (...) {
    reportUnraisable("a diagnostic handler");
  }
}

// ---- Contexts and handlers.

std::shared_ptr<Diagnostics> takeDiagnostics(PyMlirContext &context, bool isFirst) {
  auto diagnostics = std::make_shared<Diagnostics>(context, isFirst);
  all().push_back(diagnostics.get());
  return diagnostics;
}

void endDiagnostics(Diagnostics &diagnostics) {
  all().erase(std::find(all().begin(), all().end(), &diagnostics));
  mlirContextDetachDiagnosticHandler(diagnostics.context.get(), diagnostics.id);
  for (const DiagnosticRef &diagnostic : diagnostics.takeUnclaimed())
    diagnostics.passOn(*diagnostic);
  clearDiagnosticHandlers(diagnostics);
}

nb::object attachDiagnosticHandler(PyMlirContext &context, nb::object callback) {
  auto diagnostics = context.getState().diagnostics;
  diagnostics->self = nb::find(&context).ptr();
  nb::object handler = nb::cast(new PyDiagnosticHandler(context.get(), std::move(callback)), nb::rv_policy::take_ownership);
  diagnostics->attach(handler);
  return handler;
}

void Diagnostics::attach(nb::handle object) {
  auto &handler = *nb::inst_ptr<PyDiagnosticHandler>(object);
  handler.registeredID = emitted + 1; // what was emitted before is none of its business
  handler.diagnostics = this;
  handlers.push_back(nb::borrow(object));
}

void Diagnostics::detach(PyDiagnosticHandler &handler) {
  handler.registeredID.reset();
  handler.diagnostics = nullptr;
  auto found = std::find_if(handlers.begin(), handlers.end(), [&](const nb::object &other) {
    return nb::inst_ptr<PyDiagnosticHandler>(other) == &handler;
  });
  nb::object last = std::move(*found); // its end may run Python code
  handlers.erase(found);
}

int visitDiagnosticHandlers(Diagnostics &diagnostics, visitproc visit, void *arg) {
  for (const nb::object &handler : diagnostics.handlers)
    Py_VISIT(handler.ptr());
  return 0;
}

void Diagnostics::detachAll() {
  std::vector<nb::object> last = std::exchange(handlers, {}); // their end may run Python code
  for (nb::object &handler : last) {
    nb::inst_ptr<PyDiagnosticHandler>(handler)->registeredID.reset();
    nb::inst_ptr<PyDiagnosticHandler>(handler)->diagnostics = nullptr;
  }
}

void clearDiagnosticHandlers(Diagnostics &diagnostics) { diagnostics.detachAll(); }

/// What the garbage collector asks of a handler.
struct DiagnosticHandlerSlots {
  static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self))
      Py_VISIT(nb::inst_ptr<PyDiagnosticHandler>(self)->callback.ptr());
    return 0;
  }
  static int clear(PyObject *self) {
    if (!nb::inst_ready(self))
      return 0;
    auto &handler = *nb::inst_ptr<PyDiagnosticHandler>(self);
    nb::object callback = std::move(handler.callback);
    if (handler.diagnostics)
      handler.diagnostics->detach(handler);
    return 0;
  }
};

const PyType_Slot diagnosticHandlerSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void *>(DiagnosticHandlerSlots::traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(DiagnosticHandlerSlots::clear)},
    {0, nullptr},
};

} // namespace lot_python

// ---- The members of upstream's classes.

namespace mlir {
namespace python {
namespace MLIR_BINDINGS_PYTHON_DOMAIN {

nb::object PyMlirContext::attachDiagnosticHandler(nb::object callback) {
  return lot_python::attachDiagnosticHandler(*this, std::move(callback));
}

PyDiagnosticHandler::PyDiagnosticHandler(MlirContext context, nb::object callback)
    : context(context), callback(std::move(callback)) {}

PyDiagnosticHandler::~PyDiagnosticHandler() = default;

void PyDiagnosticHandler::detach() {
  if (!diagnostics)
    return;
  // What was emitted before it is told first: MLIR would have done that at once.
  auto holder = diagnostics->hold();
  diagnostics->tellScopesOfThisThread(innermost);
  if (diagnostics) // a handler may have detached it
    diagnostics->detach(*this);
}

void PyDiagnostic::invalidate() {
  valid = false;
  context.reset();
  if (materializedNotes)
    for (nb::handle note : *materializedNotes)
      nb::inst_ptr<PyDiagnostic>(note)->invalidate();
}

void PyDiagnostic::checkValid() {
  if (!valid)
    throw std::invalid_argument("Diagnostic is invalid (used outside of callback)");
}

PyDiagnosticSeverity PyDiagnostic::getSeverity() {
  checkValid();
  return static_cast<PyDiagnosticSeverity>(diagnostic->severity);
}

PyLocation PyDiagnostic::getLocation() {
  checkValid();
  return PyLocation(*context, diagnostic->location);
}

nb::str PyDiagnostic::getMessage() {
  checkValid();
  return nb::borrow<nb::str>(decodePart(diagnostic->message.data(), diagnostic->message.size()));
}

nb::tuple PyDiagnostic::getNotes() {
  checkValid();
  if (!materializedNotes) {
    nb::list notes;
    for (const DiagnosticRef &note : diagnostic->notes)
      notes.append(nb::cast(PyDiagnostic(*context, note)));
    materializedNotes = nb::tuple(notes);
  }
  return *materializedNotes;
}

PyDiagnostic::DiagnosticInfo PyDiagnostic::infoOf(PyMlirContextRef context, const DiagnosticCopy &copy) {
  std::vector<DiagnosticInfo> notes;
  for (const DiagnosticRef &note : copy.notes)
    notes.push_back(infoOf(context, *note));
  return {static_cast<PyDiagnosticSeverity>(copy.severity), PyLocation(context, copy.location), copy.message,
          std::move(notes)};
}

PyDiagnostic::DiagnosticInfo PyDiagnostic::getInfo() {
  checkValid();
  return infoOf(*context, *diagnostic);
}

std::vector<PyDiagnostic::DiagnosticInfo> PyMlirContext::ErrorCapture::take() {
  std::vector<PyDiagnostic::DiagnosticInfo> infos;
  for (const DiagnosticRef &error : scope.takeErrors())
    infos.push_back(PyDiagnostic::infoOf(ctx, *error));
  return infos;
}

} // namespace MLIR_BINDINGS_PYTHON_DOMAIN
} // namespace python
} // namespace mlir
