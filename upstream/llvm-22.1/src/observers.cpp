// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/observers.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lot/mlir_c.h"
#include "lot_python/callbacks.h"
#include "lot_python/slots.h"
#include "lot_python/tracking.h"
#include "mlir/Bindings/Python/IRCore.h"
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN;

namespace lot_python {

namespace {

/// A line of a Python program. The code object alone is held, not the frame with its variables.
struct Position {
  nb::object code;
  int line;
};
constexpr std::size_t kPositions = 32;

/// What is noted of an operation while it lives.
struct Origin {
  PyMlirContextRef context; // lives until all that was noted in it is told
  MlirIdentifier name;
  MlirLocation location;
  PyOperation *wrapper;
  std::vector<Position> stack; // innermost first; empty if nobody asked for it
};

/// What `Context.on_operation_end` returns. The context owns it, and the program if it likes.
struct Handler {
  nb::object callback;
  bool stack;
  Observed *observed; // null: it is detached, or its context has gone
};

using Handlers = std::vector<nb::object>;

/// An end that has yet to be told of.
struct Told {
  Origin origin;
  lot_death death;
  nb::object operation; // the wrapper, if there still is one
  std::shared_ptr<const Handlers> handlers; // those at the time of the end
};

// What follows is guarded by the GIL, unless it says otherwise, and never destroyed, since Python may be gone
// first.

/// The observed contexts, by scope.
std::unordered_map<std::uint64_t, Observed *> &observedContexts() {
  static auto *map = new std::unordered_map<std::uint64_t, Observed *>();
  return *map;
}

std::deque<Told> &toldLater() {
  static auto *queue = new std::deque<Told>();
  return *queue;
}

/// Where the tracker's observer puts the ends, on any thread and without the GIL.
lot::EndQueue &ends() {
  static auto *queue = new lot::EndQueue();
  return *queue;
}

std::atomic<bool> scheduled{false};

thread_local unsigned deferrals = 0;
thread_local bool telling = false;

} // namespace

struct Observed {
  Observed(PyMlirContext &context) : context(context) {
    if (observedContexts().empty() && !tracker.setObserver(observe, nullptr))
      throw std::runtime_error(lot::Status::message());
    observedContexts().emplace(scope(), this);
  }
  Observed(const Observed &) = delete;
  Observed &operator=(const Observed &) = delete;
  ~Observed() {
    observedContexts().erase(scope());
    if (observedContexts().empty())
      tracker.setObserver(nullptr, nullptr).ignore();
    for (const nb::object &handler : *handlers)
      nb::inst_ptr<Handler>(handler)->observed = nullptr;
  }

  std::uint64_t scope() const { return lot_mlir_c_scope(context.get()); }
  bool wantsStack() const {
    return std::any_of(handlers->begin(), handlers->end(),
                       [](const nb::object &handler) { return nb::inst_ptr<Handler>(handler)->stack; });
  }
  void note(PyOperation &wrapper, bool stack);

  static void observe(const lot_end *ended, std::size_t count, void *) noexcept;

  PyMlirContext &context;
  std::shared_ptr<const Handlers> handlers = std::make_shared<Handlers>(); // replaced, not changed
  std::unordered_map<std::uint64_t, Origin> origins;                       // by epoch
};

namespace {

// ---- Telling.

bool hasSomethingToTell() { return !ends().empty() || !toldLater().empty(); }

/// Takes over what has ended.
void collect() {
  lot_end end;
  while (ends().pop(end)) {
    auto context = observedContexts().find(end.scope);
    if (context == observedContexts().end())
      continue;
    Observed &observed = *context->second;
    auto found = observed.origins.find(end.ref.epoch);
    if (found == observed.origins.end())
      continue;
    Told told{std::move(found->second), end.death, nb::object(), observed.handlers};
    observed.origins.erase(found);
    if (PyOperation *wrapper = std::exchange(told.origin.wrapper, nullptr))
      told.operation = wrapper->getObjectIfHeld();
    toldLater().push_back(std::move(told));
  }
}

/// What exact reports say of a run is certain, on whatever thread of the run something ended.
const char *causeOf(const lot_death &death) {
  bool certain = death.cause == LOT_CAUSE_OPAQUE_MUTATION && isExact();
  return lot_cause_name(certain ? LOT_CAUSE_DESTROYED : death.cause);
}

/// What a callback is given.
struct OperationEnd {
  OperationEnd(const Told &told, bool stack)
      : context(told.origin.context), name(told.origin.name), location(told.origin.location),
        operation(told.operation), cause(causeOf(told.death)), by(describeWhatEnded(told.death)),
        text(quotedName(told.origin.name) + " " + describeEnd(told.death)) {
    if (stack)
      this->stack = told.origin.stack;
  }

  PyMlirContextRef context;
  MlirIdentifier name;
  MlirLocation location;
  nb::object operation;
  const char *cause;
  std::optional<std::string> by;
  std::string text;
  std::vector<Position> stack;
};

nb::object makeStack(const OperationEnd &end) {
  if (end.stack.empty())
    return nb::none();
  nb::list positions;
  for (auto position = end.stack.rbegin(); position != end.stack.rend(); ++position)
    positions.append(nb::make_tuple(position->code.attr("co_filename"), position->line, position->code.attr("co_name"), nb::none()));
  return nb::module_::import_("traceback").attr("StackSummary").attr("from_list")(positions);
}

void tell(const Told &told) noexcept {
  for (const nb::object &object : *told.handlers) {
    Handler &handler = *nb::inst_ptr<Handler>(object);
    if (!handler.observed)
      continue;
    nb::object callback = handler.callback; // it may detach its handler
    try {
      nb::object end = nb::cast(OperationEnd(told, handler.stack));
      enterPython([&] { return callback(end); });
    } catch (...) {
      setPythonError();
      PyErr_WriteUnraisable(callback.ptr());
    }
  }
}

/// Tells of what has ended, if this is a safe point. What ends meanwhile is told of too, by the outermost call on
/// this thread.
void tellAll() noexcept {
  scheduled = false;
  if (deferrals > 0 || telling)
    return;
  telling = true;
  for (;;) {
    collect();
    auto next = std::find_if(toldLater().begin(), toldLater().end(),
                             [](const Told &told) { return !isAtWork(told.origin.context.get()->get()); });
    if (next == toldLater().end())
      break;
    Told told = std::move(*next);
    toldLater().erase(next);
    tell(told);
  }
  telling = false;
}

int tellPending(void *) {
  tellAll();
  return 0;
}

/// Has the main thread call `tellAll` between two steps of its program. Any thread, without the GIL.
void schedule() noexcept {
  if (scheduled.exchange(true))
    return;
  // It is refused when too many such calls are waiting: then the next safe point does it.
  if (!canUsePython() || Py_AddPendingCall(tellPending, nullptr) != 0)
    scheduled = false;
}

// ---- Noting.

std::vector<Position> positionsNow() {
  WithoutCollection guard; // callers hold pointers into the IR
  std::vector<Position> positions;
  auto own = [](auto *object) { return nb::steal(reinterpret_cast<PyObject *>(object)); };
  nb::object frame = own(PyThreadState_GetFrame(PyThreadState_Get()));
  while (frame.is_valid() && positions.size() < kPositions) {
    auto *raw = reinterpret_cast<PyFrameObject *>(frame.ptr());
    positions.push_back({own(PyFrame_GetCode(raw)), PyFrame_GetLineNumber(raw)});
    frame = own(PyFrame_GetBack(raw));
  }
  return positions;
}

// ---- Handlers.

void detach(Handler &handler) {
  Observed *observed = std::exchange(handler.observed, nullptr);
  if (!observed)
    return;
  auto left = std::make_shared<Handlers>();
  for (const nb::object &other : *observed->handlers)
    if (nb::inst_ptr<Handler>(other) != &handler)
      left->push_back(other);
  // What held the handlers goes last, since it may hold the last reference to this one, or to the context.
  std::shared_ptr<const Handlers> previous = std::exchange(observed->handlers, std::move(left));
  std::shared_ptr<Observed> last;
  if (observed->handlers->empty())
    last = std::move(observed->context.getState().observed);
}

int traverseHandler(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self))
    Py_VISIT(nb::inst_ptr<Handler>(self)->callback.ptr());
  return 0;
}

int clearHandler(PyObject *self) {
  if (!nb::inst_ready(self))
    return 0;
  Handler &handler = *nb::inst_ptr<Handler>(self);
  detach(handler);
  nb::object callback = std::move(handler.callback);
  return 0;
}

const PyType_Slot handlerSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void *>(traverseHandler)},
    {Py_tp_clear, reinterpret_cast<void *>(clearHandler)},
    {0, nullptr},
};

int traverseContext(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self))
    return 0;
  if (Observed *observed = nb::inst_ptr<PyMlirContext>(self)->getState().observed.get())
    for (const nb::object &handler : *observed->handlers)
      Py_VISIT(handler.ptr());
  return visitDiagnosticHandlers(*nb::inst_ptr<PyMlirContext>(self)->getState().diagnostics, visit, arg);
}

int clearContext(PyObject *self) {
  if (!nb::inst_ready(self))
    return 0;
  std::shared_ptr<Observed> last = std::move(nb::inst_ptr<PyMlirContext>(self)->getState().observed);
  clearDiagnosticHandlers(*nb::inst_ptr<PyMlirContext>(self)->getState().diagnostics);
  return 0;
}

} // namespace

void Observed::observe(const lot_end *ended, std::size_t count, void *) noexcept {
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    // The end of a reference is none of the operation.
    if (ended[i].death.kind != LOT_MLIR_OPERATION || ended[i].death.cause == LOT_CAUSE_RELEASED)
      continue;
    ends().push(ended[i]);
    any = true;
  }
  if (any)
    schedule();
}

void Observed::note(PyOperation &wrapper, bool stack) {
  lot::Ref ref = wrapper.getTrackedRef();
  auto [place, isNew] = origins.try_emplace(
      ref.epoch(), Origin{wrapper.getContext(), wrapper.getName(), mlirOperationGetLocation(wrapper.get()), &wrapper, {}});
  if (!isNew)
    place->second.wrapper = &wrapper; // it takes over from one that is on its way out
  else if (stack)
    place->second.stack = positionsNow();
}

const PyType_Slot contextSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void *>(traverseContext)},
    {Py_tp_clear, reinterpret_cast<void *>(clearContext)},
    {0, nullptr},
};

Deferral::Deferral(ReturnTo caller) noexcept : caller(caller) { ++deferrals; }

Deferral::~Deferral() {
  if (--deferrals > 0 || !hasSomethingToTell())
    return;
  if (caller == ReturnTo::Python)
    tellAll();
  else
    schedule();
}

void noteWrapper(PyOperation &wrapper) {
  Observed &observed = *wrapper.getState().observed;
  observed.note(wrapper, observed.wantsStack());
}

void noteWrapperGone(PyOperation &wrapper) {
  auto &origins = wrapper.getState().observed->origins;
  auto found = origins.find(wrapper.getTrackedRef().epoch());
  if (found != origins.end() && found->second.wrapper == &wrapper)
    found->second.wrapper = nullptr;
}

void noteReleased(PyOperation &wrapper) { wrapper.getState().observed->origins.erase(wrapper.getTrackedRef().epoch()); }

void noteLocation(PyOperation &wrapper, MlirLocation location) {
  auto &origins = wrapper.getState().observed->origins;
  auto found = origins.find(wrapper.getTrackedRef().epoch());
  if (found != origins.end())
    found->second.location = location;
}

const char *const onOperationEndDoc =
    "Has `callback` called with an `OperationEnd` for each operation that Python has a reference to and that ends,\n"
    "whoever ends it. It is called outside of MLIR, soon after the end.\n\n"
    "stack: also note the Python stack where the first reference to each operation was made.\n\n"
    "Returns an `OperationEndHandler`; the context holds it until it is detached.";

nb::object onOperationEnd(PyMlirContext &context, nb::callable callback, bool stack) {
  collect(); // what has ended before is none of its business
  std::shared_ptr<Observed> &observed = context.getState().observed;
  nb::object handler = nb::cast(Handler{std::move(callback), stack, nullptr});
  if (!observed) {
    auto fresh = std::make_shared<Observed>(context);
    std::vector<PyOperation *> wrappers;
    std::uint64_t scope = fresh->scope();
    (void)tracker.forEach(&scope, LOT_MLIR_OPERATION, [&](lot::Ref, void *user) {
      if (user)
        wrappers.push_back(static_cast<PyOperation *>(user));
      return true;
    });
    for (PyOperation *wrapper : wrappers)
      if (wrapper->isLive())
        fresh->note(*wrapper, /*stack=*/false);
    observed = std::move(fresh);
  }
  auto handlers = std::make_shared<Handlers>(*observed->handlers);
  handlers->push_back(handler);
  observed->handlers = std::move(handlers);
  nb::inst_ptr<Handler>(handler)->observed = observed.get();
  return handler;
}

void populateObservers(nb::module_ &m) {
  nb::class_<OperationEnd>(m, "OperationEnd", "An operation that has ended, as the callbacks of `Context.on_operation_end` see it.")
      .def_prop_ro("name", [](OperationEnd &self) { MlirStringRef name = mlirIdentifierStr(self.name); return nb::str(name.data, name.length); },
                   "The operation's name.")
      .def_prop_ro("location", [](OperationEnd &self) { return PyLocation(self.context, self.location); },
                   "Its location, as the bindings last knew it.")
      .def_prop_ro("operation", [](OperationEnd &self) { return self.operation.is_valid() ? self.operation : nb::none(); },
                   "The `Operation` object that stood for it, dead now, if Python still has it; else None.")
      .def_prop_ro("cause", [](OperationEnd &self) { return self.cause; },
                   "Why: \"erased\", \"ancestor destroyed\", \"destroyed\" (by C++ code, or with its last reference), \"opaque\n"
                   "mutation\" (it may have been, in structural mode) or \"missed end\".")
      .def_prop_ro("by", [](OperationEnd &self) { return self.by; },
                   "What ended it, in words: the operation that took it along, or the run; None if nothing else did or it is\n"
                   "not known.")
      .def_prop_ro("stack", makeStack,
                   "Where the first reference to it was made: a `traceback.StackSummary` of at most the innermost 32 lines.\n"
                   "None if nobody asked for it, or the reference was there first.")
      .def("__str__", [](OperationEnd &self) { return self.text; })
      .def("__repr__", [](OperationEnd &self) { return "<OperationEnd: " + self.text + ">"; });

  nb::class_<Handler>(m, "OperationEndHandler", nb::type_slots(handlerSlots), "A callback that is told of ended operations.")
      .def_prop_ro("attached", [](Handler &self) { return self.observed != nullptr; },
                   "Whether it is still called.")
      .def("detach", [](Handler &self) {
            tellAll(); // what has ended before is told, if that is possible here
            detach(self);
          },
          "Has it not called any more.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](Handler &self, nb::args) {
        tellAll();
        detach(self);
      });
}

} // namespace lot_python
