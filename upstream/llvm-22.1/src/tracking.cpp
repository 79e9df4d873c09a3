// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/tracking.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "llvm/ADT/SmallVector.h"
#include "lot_python/changes.h"
#include "lot_python/slots.h"
#include "lot/mlir_c.h"
#include "mlir-c/Bindings/Python/Interop.h"

namespace nb = nanobind;

namespace lot_python {

lot::Tracker tracker;

namespace {

PyObject *deadReferenceError = nullptr; // the exception class; lives as long as the process

/// The tracker's clock: a death during an act must not seem to have been before it.
std::uint64_t nowNs() {
  timespec time;
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
  clock_gettime(CLOCK_MONOTONIC, &time);
#endif
  return std::uint64_t(time.tv_sec) * 1000000000u + std::uint64_t(time.tv_nsec);
}

// ---- What the binding did lately, for the texts of exceptions. A ring, so that it cannot grow; a record
// that has gone costs a detail of a text.

struct Act {
  const void *object;
  std::uint64_t epoch;
  std::uint64_t begin, end; // 0: still going on
  const char *what;
  char name[48];
  bool opaque;
};
constexpr std::uint64_t kActs = 256;
Act acts[kActs];
std::uint64_t actCount = 0;
constexpr std::uint64_t kNoRecord = ~std::uint64_t(0);

const Act *findAct(const lot_death &death) {
  for (std::uint64_t i = actCount; i > 0 && i + kActs > actCount; --i) {
    const Act &act = acts[(i - 1) % kActs];
    bool during = act.begin <= death.time_ns && (act.end == 0 || death.time_ns <= act.end);
    bool same = death.by.object ? act.object == death.by.object && act.epoch == death.by.epoch : act.opaque;
    if (during && same)
      return &act;
  }
  return nullptr;
}

std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

bool isDuringRun(const lot_death &death, const Act *act) {
  return act && act->opaque && (death.cause == LOT_CAUSE_OPAQUE_MUTATION || death.cause == LOT_CAUSE_DESTROYED);
}

std::string describeEnd(lot::Ref ref) {
  lot_death death;
  return ref.death(death) ? lot_python::describeEnd(death) : "has ended";
}

} // namespace

std::string describeEnd(const lot_death &death) {
  const Act *act = findAct(death);
  std::string name = act ? quoted(act->name) : "";
  switch (death.cause) {
  case LOT_CAUSE_ERASED:
    return "was erased";
  case LOT_CAUSE_ANCESTOR_DESTROYED:
    // A block argument ends with its block: what counts is how that ended.
    if (lot_death ancestor; !act && lot_get_death(death.by, &ancestor) == LOT_OK && ancestor.cause != LOT_CAUSE_ERASED)
      return describeEnd(ancestor);
    return act ? "ended when " + name + " " + act->what : "ended with an operation that enclosed it";
  case LOT_CAUSE_OPAQUE_MUTATION:
  case LOT_CAUSE_DESTROYED:
    if (isDuringRun(death, act))
      return std::string(isExact() ? "was deleted during " : "may have been deleted during ") + act->what + " on " + name;
    return death.cause == LOT_CAUSE_DESTROYED ? "was deleted" : "may have been deleted";
  case LOT_CAUSE_MISSED_END:
    return "ended, and another operation took its place in memory";
  case LOT_CAUSE_SCOPE_CLEARED:
    return "ended with its context";
  case LOT_CAUSE_RELEASED:
    return "was given up";
  default:
    return "has ended";
  }
}

std::optional<std::string> describeWhatEnded(const lot_death &death) {
  const Act *act = findAct(death);
  if (isDuringRun(death, act))
    return std::string(act->what) + " on " + quoted(act->name);
  if (act && death.cause == LOT_CAUSE_ANCESTOR_DESTROYED)
    return quoted(act->name);
  return {};
}

namespace {

void require(lot::Status status) {
  if (!status)
    throw std::runtime_error(std::string("the live object tracker failed: ") + lot::Status::message());
}

/// Tracks an object. In exact mode nobody needs to know where it is, but for an argument's block: it ends
/// with that.
void start(bool isNew, const lot_mlir_c_object &object, Tracked &out, void *user = nullptr) {
  lot_ref ref = {nullptr, 0};
  lot_status status;
  if (isExact()) {
    lot_description description = {};
    description.object = object.address;
    description.scope = lot_mlir_c_scope(object.context);
    description.kind = object.kind;
    description.user = user;
    if (object.kind == LOT_MLIR_BLOCK_ARGUMENT) {
      description.ancestors = &object.block.ptr;
      description.ancestor_count = 1;
    }
    status = isNew ? lot_create(tracker.raw(), &description, &ref) : lot_track(tracker.raw(), &description, &ref, &out.user);
  } else {
    status = isNew ? lot_mlir_c_create(tracker.raw(), object, user, &ref)
                   : lot_mlir_c_track(tracker.raw(), object, user, &ref, &out.user);
  }
  require(status);
  out.ref = ref;
}

} // namespace

// ---- Refs.

Tracked trackOperation(MlirContext context, MlirOperation operation) {
  Tracked tracked = {};
  start(false, {operation.ptr, context, isExact() ? MlirBlock{nullptr} : mlirOperationGetBlock(operation), {nullptr}, LOT_MLIR_OPERATION}, tracked);
  return tracked;
}

lot::Ref trackNewOperation(MlirContext context, MlirOperation operation, void *user) {
  Tracked tracked = {};
  start(true, {operation.ptr, context, mlirOperationGetBlock(operation), {nullptr}, LOT_MLIR_OPERATION}, tracked, user);
  return tracked.ref;
}

lot::Ref trackBlock(MlirContext context, MlirBlock block) {
  Tracked tracked = {};
  start(false, lot_mlir_c_block(context, block), tracked);
  return tracked.ref;
}

lot::Ref trackBlockArgument(MlirContext context, MlirValue argument) {
  Tracked tracked = {};
  start(false, lot_mlir_c_block_argument(context, argument), tracked);
  return tracked.ref;
}

void noteMoved(MlirOperation operation) {
  if (!isExact())
    require(lot_mlir_c_moved(tracker.raw(), lot_mlir_c_operation(operation)));
}

void noteMoved(MlirContext context, MlirBlock block) {
  if (!isExact())
    require(lot_mlir_c_moved(tracker.raw(), lot_mlir_c_block(context, block)));
}

// ---- Exceptions.

void raiseInvalidated(const char *text) {
  PyErr_SetString(deadReferenceError ? deadReferenceError : PyExc_RuntimeError, text);
  nb::raise_python_error();
}

void raiseShrunk() { raiseInvalidated("the element has been invalidated: its list has become shorter since the view was made"); }

void raiseDead(lot::Ref ref, Subject subject, MlirIdentifier name) {
  std::string text = "the operation has been invalidated: ";
  switch (subject) {
  case Subject::Operation:
    break;
  case Subject::Block:
    text = "the block has been invalidated: a block of ";
    break;
  case Subject::BlockArgument:
    text = "the value has been invalidated: a block argument in ";
    break;
  case Subject::Value:
    text += "a result of ";
    break;
  }
  text += quotedName(name) + " " + describeEnd(ref);
  raiseInvalidated(text.c_str());
}

void refuse(const std::string &text) { throw nb::value_error(text.c_str()); }

std::string quotedName(MlirIdentifier name) {
  MlirStringRef text = mlirIdentifierStr(name);
  return quoted(std::string_view(text.data, text.length));
}

std::string quotedName(MlirOperation operation) { return quotedName(mlirOperationGetName(operation)); }

MlirIdentifier getIdentifier(ContextState &state, MlirContext context, const std::string &name) {
  auto [entry, isNew] = state.identifiers.try_emplace(name);
  if (isNew)
    entry->second = mlirIdentifierGet(context, mlirStringRefCreate(name.data(), name.size()));
  return entry->second;
}

void noteAttribute(ContextState &state, const std::string &name) {
  MlirStringRef symbolName = mlirSymbolTableGetSymbolAttributeName();
  if (mlirStringRefEqual(mlirStringRefCreate(name.data(), name.size()), symbolName))
    ++state.changes;
}

// ---- Acts that end objects.

std::size_t rootCount = 0;

Ending::Ending(MlirOperation operation, lot::Ref ref, lot_cause cause, const char *what) noexcept
    : attribution(cause, ref.isNull() ? lot::Ref(lot_ref{operation.ptr, 0}) : ref), record(kNoRecord) {
  bool opaque = cause == LOT_CAUSE_OPAQUE_MUTATION;
  // Only what has something inside can take something along.
  if (!opaque && mlirOperationGetNumRegions(operation) == 0)
    return;
  record = actCount++;
  Act &act = acts[record % kActs];
  MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(operation));
  std::size_t length = std::min(name.length, sizeof(act.name) - 1);
  std::memcpy(act.name, name.data, length);
  act.name[length] = 0;
  act.object = operation.ptr;
  act.epoch = ref.epoch();
  act.begin = nowNs();
  act.end = 0;
  act.what = what;
  act.opaque = opaque;
}

Ending::~Ending() {
  if (record != kNoRecord && record + kActs > actCount)
    acts[record % kActs].end = nowNs();
}

namespace {

void destroyNow(ContextState &state, MlirOperation operation, lot::Ref ref, const char *what) {
  Ending ending(operation, ref, LOT_CAUSE_ANCESTOR_DESTROYED, what);
  tracker.parentDestroy(operation.ptr).ignore();
  ++state.changes;
  --rootCount;
  dropInnerUses(operation);
  destroyOperation(operation);
}

bool isInUse(MlirOperation operation) {
  return isInFrame(operation) || !mlirOperationIsNull(findOutsideUser(operation));
}

} // namespace

bool destroyOwned(ContextState &state, MlirOperation operation, lot::Ref ref, const char *what) noexcept {
  if (rootCount > 1 ? isInUse(operation) : isInFrame(operation)) {
    state.orphans.push_back(operation);
    return false;
  }
  destroyNow(state, operation, ref, what);
  sweepOrphans(state);
  return true;
}

void sweepOrphans(ContextState &state) noexcept {
  // One orphan may be what keeps another one in use.
  for (bool changed = true; changed && !state.orphans.empty();) {
    changed = false;
    for (std::size_t i = 0; i < state.orphans.size(); ++i) {
      MlirOperation orphan = state.orphans[i];
      bool placed = !mlirBlockIsNull(mlirOperationGetBlock(orphan)); // it has found an owner
      if (!placed && isInUse(orphan))
        continue;
      state.orphans[i--] = state.orphans.back();
      state.orphans.pop_back();
      changed = true;
      if (placed)
        --rootCount;
      else
        destroyNow(state, orphan, tracker.find(orphan.ptr), "was dropped");
    }
  }
}

void endContext(ContextState &state, MlirContext context) noexcept {
  sweepOrphans(state);
  // What is left uses one another in a circle, or is used by IR that nobody owns any more.
  for (MlirOperation orphan : state.orphans) {
    mlirOperationWalk(
        orphan,
        [](MlirOperation operation, void *) {
          dropOperands(operation);
          return MlirWalkResultAdvance;
        },
        nullptr, MlirWalkPreOrder);
  }
  sweepOrphans(state);
  tracker.clearScope(lot_mlir_c_scope(context)).ignore();
}

// ---- Checks.

namespace {

MlirOperation findUserOutside(MlirOperation root, MlirValue value, MlirBlock home) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    // Nearly all users are beside the definition.
    if (!mlirBlockIsNull(home) && mlirOperationGetBlock(user).ptr == home.ptr)
      continue;
    if (!encloses(root, user))
      return user;
  }
  return {nullptr};
}

/// With its own stack: IR may be nested deeper than the thread's.
MlirOperation findUserOutside(MlirOperation root, bool results) {
  MlirOperation user = {nullptr};
  for (intptr_t i = 0, e = results ? mlirOperationGetNumResults(root) : 0; i < e; ++i)
    if (user = findUserOutside(root, mlirOperationGetResult(root, i), {nullptr}); user.ptr)
      return user;
  llvm::SmallVector<MlirOperation, 16> open = {root}; // operations with regions
  while (!open.empty()) {
    MlirOperation operation = open.pop_back_val();
    for (intptr_t r = 0, e = mlirOperationGetNumRegions(operation); r < e; ++r) {
      MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, r));
      for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block)) {
        for (intptr_t i = 0, n = mlirBlockGetNumArguments(block); i < n; ++i)
          if (user = findUserOutside(root, mlirBlockGetArgument(block, i), block); user.ptr)
            return user;
        for (intptr_t i = 0, n = mlirBlockGetNumPredecessors(block); i < n; ++i) {
          MlirBlock predecessor = mlirBlockGetPredecessor(block, i);
          MlirOperation owner = {nullptr};
          if (!mlirBlockIsNull(predecessor))
            owner = mlirBlockGetParentOperation(predecessor);
          if (!encloses(root, owner))
            return owner.ptr ? owner : root; // a detached branch has no block to be found by
        }
        MlirOperation inner = mlirBlockGetFirstOperation(block);
        for (; !mlirOperationIsNull(inner); inner = mlirOperationGetNextInBlock(inner)) {
          for (intptr_t i = 0, n = mlirOperationGetNumResults(inner); i < n; ++i)
            if (user = findUserOutside(root, mlirOperationGetResult(inner, i), block); user.ptr)
              return user;
          if (mlirOperationGetNumRegions(inner) != 0)
            open.push_back(inner);
        }
      }
    }
  }
  return user;
}

} // namespace

MlirOperation findOutsideUser(MlirOperation operation, bool results) {
  return findUserOutside(operation, results);
}

void dropInnerUses(MlirOperation operation) {
  for (intptr_t i = 0, e = mlirOperationGetNumResults(operation); i < e; ++i) {
    MlirValue result = mlirOperationGetResult(operation, i);
    for (MlirOpOperand use; use = mlirValueGetFirstUse(result), !mlirOpOperandIsNull(use);)
      dropOperands(mlirOpOperandGetOwner(use));
  }
  // MLIR destroys one region after the other, and only forgets uses within each.
  if (mlirOperationGetNumRegions(operation) < 2)
    return;
  mlirOperationWalk(
      operation,
      [](MlirOperation inner, void *root) {
        if (inner.ptr == root)
          return MlirWalkResultAdvance;
        dropOperands(inner);
        MlirBlock home = mlirOperationGetBlock(inner);
        for (intptr_t i = 0, e = mlirOperationGetNumSuccessors(inner); i < e; ++i)
          if (mlirBlockGetParentRegion(mlirOperationGetSuccessor(inner, i)).ptr != mlirBlockGetParentRegion(home).ptr)
            redirectBranch(inner, i, home);
        return MlirWalkResultAdvance;
      },
      operation.ptr, MlirWalkPreOrder);
}

void requireUnused(MlirOperation operation, bool results) {
  MlirOperation user = findOutsideUser(operation, results);
  if (!mlirOperationIsNull(user))
    refuse(quotedName(operation) + " cannot be erased: " + quotedName(user) +
           " still uses a value or a block of it. Replace or erase the uses first.");
}

void requireNotInside(MlirOperation operation, MlirBlock block) {
  // Nearly all operations have no inside; the way up may be long.
  if (mlirOperationGetNumRegions(operation) != 0 && encloses(operation, mlirBlockGetParentOperation(block)))
    refuse(quotedName(operation) + " cannot be put into a block of its own.");
}

void noteShown() noexcept {
  // Without a run of ours it is somebody else's IR.
  if (!isAnythingAtWork())
    noteForeignRoot();
}

// ---- Capsules.

namespace {

struct Ticket {
  lot::Ref ref; // null: it is the owner that matters
  nb::object owner;
  bool taken;
};
// By the capsule's address. Whoever replaces our destructor takes the capsule out of our hands.
std::unordered_map<PyObject *, Ticket> &tickets() {
  static auto *map = new std::unordered_map<PyObject *, Ticket>(); // never destroyed: Python may be gone first
  return *map;
}

// Capsules of IR that exist, and a number that grows with each one that comes or goes.
std::uint64_t irCapsules = 0;
std::uint64_t outsideCount = 0;

void forgetCapsule(PyObject *capsule) {
  auto found = tickets().find(capsule);
  if (found == tickets().end())
    return;
  if (!found->second.ref.isNull())
    --irCapsules, ++outsideCount;
  nb::object owner = std::move(found->second.owner); // its end may come back here
  tickets().erase(found);
}

void requireCapsuleLive(lot::Ref ref) {
  if (!ref.isNull() && !ref.isLive())
    raiseInvalidated(("the operation has been invalidated: what the capsule was made of " + describeEnd(ref)).c_str());
}

} // namespace

nb::object rememberCapsule(nb::object capsule, nb::object owner, lot::Ref ref) {
  if (!capsule.is_valid())
    nb::raise_python_error();
  // Whoever gets the capsule may have been loaded a moment ago.
  refresh();
  requireCapsuleLive(ref);
  if (PyCapsule_SetDestructor(capsule.ptr(), forgetCapsule) == 0) {
    tickets()[capsule.ptr()] = Ticket{ref, std::move(owner), false};
    if (!ref.isNull()) {
      ++irCapsules, ++outsideCount;
      noteForeignRoot(); // whoever gets it may make IR of their own that uses it
    }
  }
  return capsule;
}

std::uint64_t outsideChanges() {
  if (irCapsules)
    ++outsideCount; // at any time
  return outsideCount;
}

namespace {

Ticket *findTicket(nb::handle capsule) {
  if (!PyCapsule_CheckExact(capsule.ptr()) || PyCapsule_GetDestructor(capsule.ptr()) != forgetCapsule)
    return nullptr;
  auto found = tickets().find(capsule.ptr());
  return found == tickets().end() ? nullptr : &found->second;
}

} // namespace

void checkCapsule(nb::handle capsule) {
  if (Ticket *ticket = findTicket(capsule))
    requireCapsuleLive(ticket->ref);
}

nb::object takeCapsule(nb::handle capsule, void (*check)(nb::handle)) {
  Ticket *ticket = findTicket(capsule);
  if (!ticket)
    return {};
  if (ticket->taken)
    raiseInvalidated("the capsule has been invalidated: somebody else has taken over what it stands for");
  if (check)
    check(ticket->owner);
  ticket->taken = true;
  return std::move(ticket->owner);
}

// ---- Start.

void refresh() {
  if (isExact() && lot_mlir_refresh(tracker.raw()) != LOT_OK && !isExact())
    endUnplaced(), ++outsideCount;
}

void requireFirst(bool isKnown) {
  static bool begun = false;
  if (std::exchange(begun, true) || isKnown)
    throw std::runtime_error(
        "the MLIR bindings cannot be loaded again: this process has some of the same nanobind domain already. Keep the "
        "modules that were imported first; another package has to be built with a domain of its own "
        "(MLIR_BINDINGS_PYTHON_NB_DOMAIN).");
}

void populate(nb::module_ &m) {
  deadReferenceError = PyErr_NewExceptionWithDoc(
      MAKE_MLIR_PYTHON_QUALNAME("ir.DeadReferenceError"),
      "Raised by a reference to an operation, block or value that has ended. The text names the\n"
      "operation, why it ended, and what took it along.",
      PyExc_RuntimeError, nullptr);
  if (!deadReferenceError)
    nb::raise_python_error();
  m.attr("DeadReferenceError") = nb::borrow(deadReferenceError);

  require(lot::Tracker::create("mlir python bindings", tracker));
  const char *source = std::getenv("LOT_MLIR_SOURCE");
  bool structural = source && std::strcmp(source, "structural") == 0;
  if (!structural) {
    // If they cannot be installed, the status says why, and structural mode it is.
    const void *symbol = reinterpret_cast<const void *>(&mlirContextCreate);
    lot::Status(lot_mlir_install_load_hooks(tracker.raw(), symbol, lot_mlir_c_self_test, nullptr)).ignore();
  }
  m.def(
      "lot_status",
      [structural]() {
        lot_mlir_status status = {};
        status.reason = "";
        lot_mlir_get_status(tracker.raw(), &status);
        static const char *const names[] = {"structural", "load hooks", "link hooks", "listener"};
        nb::dict answer;
        answer["source"] = names[status.source < 4 ? status.source : 0];
        answer["exact"] = isExact();
        answer["reason"] = structural ? "LOT_MLIR_SOURCE=structural is set" : status.reason;
        answer["slots_patched"] = status.slots_patched;
        answer["libraries_patched"] = status.libraries_patched;
        return answer;
      },
      "Which source tells the bindings of ended operations, and why not a better one.");
  populateObservers(m);
  m.def("_lot_check_capsule", [](nb::handle capsule) { checkCapsule(capsule); });
}

} // namespace lot_python
