// The members of upstream's wrapper classes that the patch takes over, since what they do depends on refs.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "llvm/ADT/StringSet.h"
#include "lot_python/changes.h"
#include "lot_python/tracking.h"
#include "mlir/Bindings/Python/IRCore.h"

#include <algorithm>

namespace nb = nanobind;
using namespace lot_python;

namespace mlir {
namespace python {
namespace MLIR_BINDINGS_PYTHON_DOMAIN {

namespace {

/// The kind that wrappers of modules are tracked with, for the sake of their capsules.
constexpr lot_kind kModuleWrapper = 3;

PyOperationRef ownerOf(PyMlirContextRef &context, MlirBlock block) {
  MlirOperation owner = mlirBlockGetParentOperation(block);
  if (mlirOperationIsNull(owner))
    refuse("The block is not in an operation now.");
  return PyOperation::forOperation(context, owner);
}

/// Others have handed over an operation, which may be in IR of theirs.
void noteOrigin(PyMlirContextRef &context, MlirOperation operation) {
  MlirOperation root = operation;
  for (MlirOperation outer = operation; !mlirOperationIsNull(outer); outer = mlirOperationGetParentOperation(outer))
    root = outer;
  // What Python owns has a wrapper, or else is a module.
  if (tracker.find(root.ptr).isNull() && !context->isModule(root))
    noteForeignRoot();
}

void requireBlock(MlirOperation operation) {
  if (mlirBlockIsNull(mlirOperationGetBlock(operation)))
    refuse(quotedName(operation) + " is not in a block.");
}

} // namespace

// ---- Contexts and modules.

size_t PyMlirContext::getLiveOperationCount() {
  std::uint64_t scope = reinterpret_cast<std::uint64_t>(context.ptr);
  if (state.numberings == 0)
    return tracker.countInScope(scope, LOT_MLIR_OPERATION);
  std::size_t count = 0;
  (void)tracker.forEach(&scope, LOT_MLIR_OPERATION, [&](lot::Ref, void *user) {
    count += user != nullptr;
    return true;
  });
  return count;
}

nb::list PyMlirContext::getLiveOperationObjects() {
  // Held before Python code can run, which may end them. One that is on its way out is nobody's any more.
  std::vector<nb::object> held;
  std::uint64_t scope = reinterpret_cast<std::uint64_t>(context.ptr);
  (void)tracker.forEach(&scope, LOT_MLIR_OPERATION, [&](lot::Ref, void *user) {
    if (nb::object object = user ? static_cast<PyOperation *>(user)->getObjectIfHeld() : nb::object(); object.is_valid())
      held.push_back(std::move(object));
    return true;
  });
  nb::list objects;
  for (nb::object &object : held)
    objects.append(std::move(object));
  return objects;
}

nb::object PyMlirContext::findModule(MlirOperation operation) {
  auto found = liveModules.find(operation.ptr);
  // A module that is on its way out cannot be handed out again.
  bool isHeld = found != liveModules.end() && Py_REFCNT(found->second.first.ptr()) > 0;
  return isHeld ? nb::borrow(found->second.first) : nb::object();
}

bool PyMlirContext::isModule(MlirOperation operation) { return liveModules.count(operation.ptr) != 0; }

MlirModule PyModule::get() {
  if (mlirModuleIsNull(module))
    raiseInvalidated("the module has been invalidated: it was cleared, since somebody else owns it now");
  return module;
}

void PyModule::forget() {
  getContext()->liveModules.erase(module.ptr);
  tracker.destroyed(this).ignore();
}

void PyModule::clearMlirModule() {
  if (mlirModuleIsNull(module))
    return;
  forget(); // It stays counted as a root: somebody else has it now.
  module = {nullptr};
}

PyModule::~PyModule() {
  nb::gil_scoped_acquire acquire;
  if (mlirModuleIsNull(module))
    return;
  forget();
  MlirOperation operation = mlirModuleGetOperation(module);
  (void)destroyOwned(getContext()->getState(), operation, tracker.find(operation.ptr), "was dropped");
}

nb::object PyModule::getCapsule() {
  if (!self.isLive())
    (void)tracker.create(this, reinterpret_cast<std::uint64_t>(getContext()->get().ptr), kModuleWrapper,
                         lot::Ancestors(), nullptr, self);
  return rememberCapsule(nb::steal(mlirPythonModuleToCapsule(get())), nb::object(), self);
}

// ---- Operations.

PyOperation::PyOperation(PyMlirContextRef contextRef, MlirOperation operation)
    : BaseContextObject(std::move(contextRef)), operation(operation), name(mlirOperationGetName(operation)) {}

PyOperation::~PyOperation() {
  if (getState().observed)
    noteWrapperGone(*this);
  if (!isLive()) {
    noteAttached();
    return;
  }
  bool owned = !isAttached();
  valid = false;
  // An operation that lives on must not lead to this wrapper any more.
  if (!owned || !destroyOwned(getState(), operation, getTrackedRef(), "was dropped"))
    release();
}

void PyOperation::release() {
  if (getState().numberings > 0)
    getTrackedRef().setUser(nullptr).ignore();
  else
    getTrackedRef().release().ignore();
  if (getState().observed)
    noteReleased(*this);
}

PyOperationRef PyOperation::makeInstance(PyMlirContextRef contextRef, MlirOperation operation,
                                         nb::object parentKeepAlive) {
  static nb::handle type = nb::type<PyOperation>(); // a look-up in a map
  nb::object instance = nb::inst_alloc(type);
  auto *created = nb::inst_ptr<PyOperation>(instance);
  new (created) PyOperation(std::move(contextRef), operation);
  created->handle = instance;
  created->parentKeepAlive = std::move(parentKeepAlive);
  nb::inst_mark_ready(instance);
  return PyOperationRef(created, std::move(instance));
}

PyOperationRef PyOperation::createInstance(PyMlirContextRef contextRef, MlirOperation operation,
                                           nb::object parentKeepAlive, lot::Ref ref) {
  PyOperationRef created = makeInstance(std::move(contextRef), operation, std::move(parentKeepAlive));
  created->epoch = ref.epoch();
  if (!ref.setUser(created.get()))
    raiseDead(ref, Subject::Operation, created->name);
  if (created->getState().observed)
    noteWrapper(*created.get());
  return created;
}

PyOperationRef PyOperation::forOperation(PyMlirContextRef contextRef, MlirOperation operation,
                                         nb::object parentKeepAlive) {
  Tracked tracked = trackOperation(contextRef->get(), operation);
  auto *existing = static_cast<PyOperation *>(tracked.user);
  bool attached = true;
  if (existing) {
    // A wrapper that is on its way out cannot be handed out again; its successor takes over what it owns.
    if (Py_REFCNT(existing->handle.ptr()) > 0) {
      if (parentKeepAlive && !existing->parentKeepAlive)
        existing->parentKeepAlive = std::move(parentKeepAlive);
      return existing->getRef();
    }
    attached = std::exchange(existing->attached, true);
    existing->valid = false;
  } else {
    // A root: Python may own it through a module, or may have lost it.
    if (mlirBlockIsNull(mlirOperationGetBlock(operation))) {
      nb::object module = contextRef->findModule(operation);
      std::vector<MlirOperation> &orphans = contextRef->getState().orphans;
      auto found = std::find_if(orphans.begin(), orphans.end(), [&](MlirOperation orphan) { return orphan.ptr == operation.ptr; });
      if (found != orphans.end()) {
        orphans.erase(found);
        attached = false;
      } else if (!contextRef->isModule(operation)) {
        noteForeignRoot();
      }
      if (!parentKeepAlive)
        parentKeepAlive = std::move(module);
    }
  }
  PyOperationRef created = createInstance(std::move(contextRef), operation, std::move(parentKeepAlive), tracked.ref);
  created->attached = attached;
  return created;
}

PyOperationRef PyOperation::createDetached(PyMlirContextRef contextRef, MlirOperation operation,
                                           nb::object parentKeepAlive) {
  PyOperationRef created = makeInstance(std::move(contextRef), operation, std::move(parentKeepAlive));
  created->epoch = trackNewOperation(created->getContext()->get(), operation, created.get()).epoch();
  created->noteDetached();
  if (created->getState().observed)
    noteWrapper(*created.get());
  return created;
}

nb::object PyOpView::constructDerived(const nb::object &cls, const nb::object &operation) {
  static nb::handle base = nb::type<PyOpView>(); // a look-up in a map
  bool isView = PyType_Check(cls.ptr()) &&
                PyType_IsSubtype(reinterpret_cast<PyTypeObject *>(cls.ptr()), reinterpret_cast<PyTypeObject *>(base.ptr()));
  if (PyType_Check(cls.ptr()) && !isView)
    throw nb::type_error("The class of an operation has to be derived from OpView.");
  auto newOf = [](nb::handle type) { return PyType_GetSlot(reinterpret_cast<PyTypeObject *>(type.ptr()), Py_tp_new); };
  if (!PyType_Check(cls.ptr()) || newOf(cls) != newOf(base)) {
    // A class with a `__new__` of its own.
    nb::object instance = cls.attr("__new__")(cls);
    base.attr("__init__")(instance, operation);
    return instance;
  }
  // What these two calls would do, without the way through Python.
  nb::object instance = nb::inst_alloc(cls);
  new (nb::inst_ptr<PyOpView>(instance)) PyOpView(operation);
  nb::inst_mark_ready(instance);
  return instance;
}

bool PyOperation::isLive() const { return valid && getTrackedRef().isLive(); }

void PyOperation::checkValid() const {
  if (!valid)
    raiseInvalidated(("the operation has been invalidated: " + quotedName(name) + " was given up").c_str());
  if (!getTrackedRef().isLive())
    raiseDead(getTrackedRef(), Subject::Operation, name);
}

MlirOperation PyOperation::get() const {
  checkValid();
  return operation;
}

nb::object PyOperation::getObjectIfHeld() const {
  return Py_REFCNT(handle.ptr()) > 0 ? nb::borrow(handle) : nb::object();
}

PyOperationRef PyOperation::getRef() { return PyOperationRef(this, nb::borrow<nb::object>(handle)); }

bool PyOperation::isSame(const PyOperation &other) const {
  return this == &other || (operation.ptr == other.operation.ptr && isLive() && other.isLive());
}

void PyOperation::setInvalid() {
  if (!isLive())
    return;
  if (!isAttached())
    noteForeignRoot();
  valid = false;
  release();
}

void PyOperation::noteAttached() {
  rootCount -= !attached;
  attached = true;
}

void PyOperation::noteDetached() {
  rootCount += attached;
  attached = false;
}

bool PyOperation::isAttached() {
  // C++ code, for example a symbol table, may have put it into a block meanwhile.
  if (!attached && isLive() && !mlirBlockIsNull(mlirOperationGetBlock(operation)))
    noteAttached();
  return attached;
}

void PyOperation::setAttached(const nb::object &) {
  noteAttached();
  noteMoved(operation);
}

void PyOperation::setDetached() {
  noteDetached();
  ++getState().changes;
  noteMoved(operation);
}

void PyOperation::requireMovable() {
  checkValid();
  if (getContext()->isModule(operation))
    refuse("A module's own operation cannot be erased or moved: it ends with the last reference to the module.");
  RewriteScope::requireErasable(operation);
  requireChangeable(operation);
}

void PyOperation::requireChangeableInside() {
  checkValid();
  RewriteScope::requireErasable(operation);
  requireChangeable(operation, true);
}

void PyOperation::detachFromParent() {
  requireMovable();
  RewriteScope::requireAttached(operation);
  requireBlock(operation);
  removeFromParent(operation);
  setDetached();
  parentKeepAlive = nb::object();
}

void PyOperation::moveTo(MlirBlock block, MlirOperation before) {
  requireMovable();
  requireNotInside(operation, block);
  requireContext(getContext()->get(), block);
  MlirBlock home = mlirOperationGetBlock(operation);
  if (mlirBlockIsNull(home)) {
    if (isAttached())
      refuse(quotedName(name) + " is not in a block, and Python does not own it.");
    insertOperation(block, before, operation);
    noteAttached();
  } else if (before.ptr != operation.ptr) {
    moveOperation(block, before, operation);
  }
  ++getState().changes;
  noteMoved(operation);
}

void PyOperationBase::moveBefore(PyOperationBase &other) {
  PyOperation &operation = getOperation();
  PyOperation &otherOp = other.getOperation();
  operation.checkValid();
  requireBlock(otherOp.get());
  operation.moveTo(mlirOperationGetBlock(otherOp.get()), otherOp.get());
  operation.parentKeepAlive = otherOp.parentKeepAlive;
}

void PyOperationBase::moveAfter(PyOperationBase &other) {
  PyOperation &operation = getOperation();
  PyOperation &otherOp = other.getOperation();
  operation.checkValid();
  requireBlock(otherOp.get());
  if (&operation != &otherOp)
    operation.moveTo(mlirOperationGetBlock(otherOp.get()), mlirOperationGetNextInBlock(otherOp.get()));
  operation.parentKeepAlive = otherOp.parentKeepAlive;
}

bool PyOperationBase::isBeforeInBlock(PyOperationBase &other) {
  MlirOperation operation = getOperation().get();
  MlirOperation otherOp = other.getOperation().get();
  requireBlock(operation);
  if (mlirOperationGetBlock(operation).ptr != mlirOperationGetBlock(otherOp).ptr)
    refuse("The operations are not in the same block.");
  return mlirOperationIsBeforeInBlock(operation, otherOp);
}

std::optional<PyOperationRef> PyOperation::getParentOperation() {
  checkValid();
  if (!isAttached())
    throw nb::value_error("Detached operations have no parent");
  MlirOperation parent = mlirOperationGetParentOperation(operation);
  if (mlirOperationIsNull(parent))
    return {};
  return PyOperation::forOperation(getContext(), parent);
}

PyBlock PyOperation::getBlock() {
  checkValid();
  if (!isAttached())
    throw nb::value_error("Detached operations have no parent");
  requireBlock(operation);
  return PyBlock::forBlock(getContext(), mlirOperationGetBlock(operation));
}

nb::object PyOperation::getCapsule() {
  return rememberCapsule(nb::steal(mlirPythonOperationToCapsule(get())), getRef().getObject(), getTrackedRef());
}

nb::object PyOperation::createFromCapsule(const nb::object &capsule) {
  checkCapsule(capsule);
  MlirOperation operation = mlirPythonCapsuleToOperation(capsule.ptr());
  if (mlirOperationIsNull(operation))
    throw nb::python_error();
  PyMlirContextRef context = PyMlirContext::forContext(mlirOperationGetContext(operation));
  noteOrigin(context, operation);
  return forOperation(std::move(context), operation).releaseObject();
}

void PyOperation::erase() {
  checkValid();
  RewriteScope *rewrite = RewriteScope::workingOn(operation);
  eraseBy([&](MlirOperation doomed) {
    if (rewrite)
      lot_python::eraseBy(rewrite->getRewriter(), doomed);
    else
      destroyOperation(doomed);
  });
}

void PyOperation::eraseBy(llvm::function_ref<void(MlirOperation)> destroy, bool resultsToo) {
  Deferral deferral;
  requireMovable();
  requireEndable(operation);
  if (mlirBlockIsNull(mlirOperationGetBlock(operation)) && isAttached())
    refuse(quotedName(name) + " cannot be erased: somebody else owns it.");
  requireUnused(operation, resultsToo);
  // This wrapper may go away with what is swept up afterwards.
  PyMlirContextRef context = getContext();
  {
    Ending ending(operation, getTrackedRef(), LOT_CAUSE_ANCESTOR_DESTROYED, "was erased");
    tracker.erase(operation.ptr).ignore();
    ++context->getState().changes;
    if (resultsToo)
      dropInnerUses(operation);
    destroy(operation);
  }
  sweepOrphans(context->getState());
}

namespace {

/// Walks an operation so that a callback may erase and move what it likes. It keeps its own stack: IR may be nested
/// deeper than the thread's.
class Walk {
public:
  using Callback = std::function<PyWalkResult(PyOperationRef &)>;
  Walk(Callback callback, PyWalkOrder order) : callback(std::move(callback)), order(order) {}

  void run(PyOperationRef root) {
    if (!enter(std::move(root)))
      return;
    while (!levels.empty()) {
      if (std::optional<PyOperationRef> inner = next(levels.back())) {
        if (!enter(std::move(*inner)))
          return;
        continue;
      }
      PyOperationRef done = std::move(levels.back().operation);
      levels.pop_back();
      if (order == PyWalkOrder::PostOrder && done->isLive() && call(done) == PyWalkResult::Interrupt)
        return;
    }
  }

private:
  /// An operation whose inside is being visited.
  struct Level {
    PyOperationRef operation;
    intptr_t region = 0; // the next one
    std::optional<PyBlockIterator> blocks;
    std::optional<PyBlock> block;
    std::optional<PyOperationIterator> operations;
  };

  /// False if the walk is over.
  bool enter(PyOperationRef operation) {
    PyWalkResult result = order == PyWalkOrder::PreOrder ? call(operation) : PyWalkResult::Advance;
    if (result == PyWalkResult::Advance)
      levels.push_back(Level{std::move(operation)});
    return result != PyWalkResult::Interrupt;
  }

  std::optional<PyOperationRef> next(Level &level) {
    for (;;) {
      if (level.operations && level.block->isLive())
        if (std::optional<PyOperationRef> inner = level.operations->advance())
          return inner;
      level.operations.reset();
      if (!level.operation->isLive())
        return {};
      if (level.blocks)
        if (level.block = level.blocks->advance(); level.block) {
          level.operations.emplace(*level.block);
          continue;
        }
      if (level.region >= mlirOperationGetNumRegions(level.operation->get()))
        return {};
      MlirRegion region = mlirOperationGetRegion(level.operation->get(), level.region++);
      level.blocks.emplace(level.operation, mlirRegionGetFirstBlock(region));
    }
  }

  PyWalkResult call(PyOperationRef &operation) {
    return callAndWrap([&] { return callback(operation); });
  }

  Callback callback;
  PyWalkOrder order;
  std::vector<Level> levels;
};

} // namespace

void PyOperationBase::walkWith(nb::callable callback, PyWalkOrder walkOrder) {
  PyOperation &operation = getOperation();
  operation.checkValid();
  auto call = [&](PyOperationRef &visited) {
    nb::object object = visited.getObject();
    return nb::cast<PyWalkResult>(enterPython([&] { return callback(object); }));
  };
  Walk(call, walkOrder).run(operation.getRef());
}

void PyOperationBase::walk(std::function<PyWalkResult(MlirOperation)> callback, PyWalkOrder walkOrder) {
  PyOperation &operation = getOperation();
  operation.checkValid();
  Walk([&](PyOperationRef &visited) { return callback(visited->get()); }, walkOrder).run(operation.getRef());
}

// ---- Blocks.

PyBlock::PyBlock(PyOperationRef parentOperation, MlirBlock block)
    : parentOperation(std::move(parentOperation)), block(block),
      ref(trackBlock(this->parentOperation->getContext()->get(), block)) {}

PyBlock PyBlock::forBlock(PyMlirContextRef &contextRef, MlirBlock block) {
  return PyBlock(ownerOf(contextRef, block), block);
}

bool PyBlock::isLive() const { return ref.isLive(); }

void PyBlock::checkValid() const {
  if (!ref.isLive())
    raiseDead(ref, Subject::Block, parentOperation.get()->getName());
}

PyOperationRef &PyBlock::getParentOperation() {
  MlirOperation owner = mlirBlockGetParentOperation(get());
  if (owner.ptr != parentOperation->getAddress() || !parentOperation->isLive())
    parentOperation = ownerOf(getContext(), block);
  return parentOperation;
}

PyOperationRef &PyBlock::getShownOwner() {
  PyOperationRef &owner = getParentOperation();
  return shower && (*shower)->isLive() ? *shower : owner;
}

nb::object PyBlock::getCapsule() {
  return rememberCapsule(nb::steal(mlirPythonBlockToCapsule(get())), getParentOperation().getObject(), ref);
}

// ---- Values.

PyValue::PyValue(PyOperationRef parentOperation, MlirValue value)
    : parentOperation(std::move(parentOperation)), value(value) {
  if (!mlirValueIsABlockArgument(value))
    return;
  argument = trackBlockArgument(this->parentOperation->getContext()->get(), value);
}

void PyValue::checkValid() const {
  if (!isArgument()) {
    if (!parentOperation.get()->isLive())
      raiseDead(parentOperation.get()->getTrackedRef(), Subject::Value, parentOperation.get()->getName());
    return;
  }
  if (!argument.isLive())
    raiseDead(argument, Subject::BlockArgument, parentOperation.get()->getName());
}

PyOperationRef &PyValue::getParentOperation() {
  checkValid();
  if (isArgument()) {
    MlirBlock home = mlirBlockArgumentGetOwner(value);
    MlirOperation owner = mlirBlockGetParentOperation(home);
    if (owner.ptr != parentOperation->getAddress() || !parentOperation->isLive())
      parentOperation = ownerOf(getContext(), home);
  }
  return parentOperation;
}

bool PyValue::isSame(const PyValue &other) const {
  if (value.ptr != other.value.ptr)
    return false;
  return isArgument() ? argument == other.argument : !other.isArgument() && parentOperation.get()->isSame(*other.parentOperation.get());
}

static PyOperationRef getValueOwnerRef(MlirValue value) {
  PyMlirContextRef context = PyMlirContext::forContext(mlirValueGetContext(value));
  if (mlirValueIsABlockArgument(value))
    return ownerOf(context, mlirBlockArgumentGetOwner(value));
  return PyOperation::forOperation(context, mlirOpResultGetOwner(value));
}

nb::object PyValue::getCapsule() {
  lot::Ref ref = isArgument() ? argument : parentOperation->getTrackedRef();
  return rememberCapsule(nb::steal(mlirPythonValueToCapsule(get())), parentOperation.getObject(), ref);
}

PyValue PyValue::createFromCapsule(nb::object capsule) {
  checkCapsule(capsule);
  MlirValue value = mlirPythonCapsuleToValue(capsule.ptr());
  if (mlirValueIsNull(value))
    throw nb::python_error();
  PyOperationRef owner = getValueOwnerRef(value);
  noteOrigin(owner->getContext(), owner->get());
  return PyValue(std::move(owner), value);
}

PyValue PyOpOperandList::getRawElement(intptr_t pos) {
  MlirValue operand = mlirOperationGetOperand(operation->get(), pos);
  return PyValue(getValueOwnerRef(operand), operand);
}

// ---- Views and iterators. They keep the next element too, and that may end or move meanwhile: then they
// go on after the last element, if that still is where it was, and raise otherwise.

PyBlockIterator::PyBlockIterator(PyOperationRef operation, MlirBlock first)
    : operation(std::move(operation)), region{nullptr} {
  if (mlirBlockIsNull(first))
    return;
  region = mlirBlockGetParentRegion(first);
  next.emplace(this->operation, first);
}

std::optional<PyBlock> PyBlockIterator::advance() {
  operation->checkValid();
  if (!next)
    return {};
  auto isHere = [&](PyBlock &block) { return block.isLive() && mlirBlockGetParentRegion(block.get()).ptr == region.ptr; };
  auto follow = [&](PyBlock &block) {
    MlirBlock following = mlirBlockGetNextInRegion(block.get());
    next.reset();
    if (!mlirBlockIsNull(following))
      next.emplace(operation, following);
  };
  if (!isHere(*next)) {
    if (!last || !isHere(*last))
      raiseInvalidated("the block has been invalidated: the iterator's next block has gone, and so has the last one");
    follow(*last);
    if (!next)
      return {};
  }
  last = next;
  follow(*last);
  return last;
}

PyBlock PyBlockIterator::dunderNext() {
  std::optional<PyBlock> block = advance();
  if (!block)
    throw nb::stop_iteration();
  return *block;
}

PyOperationIterator::PyOperationIterator(PyBlock block) : block(std::move(block)) {
  MlirOperation first = mlirBlockGetFirstOperation(this->block.get());
  if (!mlirOperationIsNull(first))
    next = PyOperation::forOperation(this->block.getContext(), first);
}

std::optional<PyOperationRef> PyOperationIterator::advance() {
  block.checkValid();
  if (!next)
    return {};
  auto isHere = [&](PyOperationRef &operation) {
    return operation->isLive() && mlirOperationGetBlock(operation->get()).ptr == block.getAddress();
  };
  auto follow = [&](PyOperationRef &operation) {
    MlirOperation following = mlirOperationGetNextInBlock(operation->get());
    next.reset();
    if (!mlirOperationIsNull(following))
      next = PyOperation::forOperation(block.getContext(), following);
  };
  if (!isHere(*next)) {
    if (!last || !isHere(*last))
      raiseInvalidated("the operation has been invalidated: the iterator's next operation has gone, and so has the last one");
    follow(*last);
    if (!next)
      return {};
  }
  last = std::move(next);
  follow(*last);
  return last;
}

nb::typed<nb::object, PyOpView> PyOperationIterator::dunderNext() {
  std::optional<PyOperationRef> operation = advance();
  if (!operation)
    throw nb::stop_iteration();
  return (*operation)->createOpView();
}

PyOperationIterator PyOperationList::dunderIter() { return PyOperationIterator(block); }

intptr_t PyOperationList::dunderLen() {
  intptr_t count = 0;
  MlirOperation operation = mlirBlockGetFirstOperation(block.get());
  for (; !mlirOperationIsNull(operation); operation = mlirOperationGetNextInBlock(operation))
    ++count;
  return count;
}

nb::typed<nb::object, PyOpView> PyOperationList::dunderGetItem(intptr_t index) {
  if (index < 0)
    index += dunderLen();
  MlirOperation operation = mlirBlockGetFirstOperation(block.get());
  for (; index > 0 && !mlirOperationIsNull(operation); --index)
    operation = mlirOperationGetNextInBlock(operation);
  if (index < 0 || mlirOperationIsNull(operation))
    throw nb::index_error("attempt to access out of bounds operation");
  return PyOperation::forOperation(block.getContext(), operation)->createOpView();
}

void PyOpOperand::checkValid() const {
  if (static_cast<intptr_t>(number) >= mlirOperationGetNumOperands(owner.get()->get()))
    raiseInvalidated(("the operand has been invalidated: " + quotedName(owner.get()->getName()) + " has fewer operands now").c_str());
}

nb::typed<nb::object, PyOpView> PyOpOperand::getOwner() const {
  checkValid();
  return owner.get()->createOpView();
}

size_t PyOpOperand::getOperandNumber() const {
  checkValid();
  return number;
}

PyOpOperandIterator::PyOpOperandIterator(PyValue &value) {
  MlirOpOperand use = mlirValueGetFirstUse(value.get());
  for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    uses.emplace_back(PyOperation::forOperation(value.getContext(), mlirOpOperandGetOwner(use)),
                      mlirOpOperandGetOperandNumber(use));
  std::reverse(uses.begin(), uses.end());
}

PyOpOperand PyOpOperandIterator::dunderNext() {
  while (!uses.empty()) {
    PyOpOperand use = std::move(uses.back());
    uses.pop_back();
    if (use.isLive())
      return use;
  }
  throw nb::stop_iteration();
}

// ---- Insertion points.

PyBlock &PyInsertionPoint::getBlock() {
  if (refOperation) {
    MlirBlock home = mlirOperationGetBlock((*refOperation)->get());
    if (home.ptr != block.getAddress() || !block.isLive())
      block = (*refOperation)->getBlock();
  }
  block.checkValid();
  return block;
}

void PyInsertionPoint::insert(PyOperationBase &operationBase) {
  PyOperation &operation = operationBase.getOperation();
  PyBlock &block = getBlock(); // may make and drop wrappers: what follows does not
  MlirOperation raw = operation.get();
  if (operation.isAttached())
    throw nb::value_error("Attempt to insert operation that is already attached");
  MlirBlock target = block.get();
  MlirOperation before = {nullptr};
  if (refOperation) {
    before = (*refOperation)->get();
  } else if (!mlirOperationIsNull(mlirBlockGetTerminator(target))) {
    throw nb::index_error("Cannot insert operation at the end of a block that already has a terminator. Did you mean to "
                          "use 'InsertionPoint.at_block_terminator(block)' versus 'InsertionPoint(block)'?");
  }
  if (block.getContext().get() != operation.getContext().get())
    raiseMixedContexts();
  requireNotInside(raw, target);
  requireChangeable(raw);
  insertOperation(target, before, raw);
  operation.setAttached();
}

// ---- Printing.

PyAsmState::PyAsmState(MlirValue value, bool useLocalScope) : rootRef(getValueOwnerRef(value)), root(rootRef->get()) {
  flags = mlirOpPrintingFlagsCreate();
  if (useLocalScope)
    mlirOpPrintingFlagsUseLocalScope(flags);
  state = mlirAsmStateCreateForValue(value, flags);
  known = std::make_unique<KnownValues>(root->getState(), root->getContext()->get(), root->get());
}

PyAsmState::PyAsmState(PyOperationBase &operation, bool useLocalScope)
    : rootRef(operation.getOperation().getRef()), root(rootRef->get()) {
  MlirOperation raw = root->get();
  flags = mlirOpPrintingFlagsCreate();
  if (useLocalScope)
    mlirOpPrintingFlagsUseLocalScope(flags);
  state = mlirAsmStateCreateForOperation(raw, flags);
  known = std::make_unique<KnownValues>(root->getState(), root->getContext()->get(), raw);
}

PyAsmState::~PyAsmState() {
  mlirAsmStateDestroy(state);
  mlirOpPrintingFlagsDestroy(flags);
}

bool PyAsmState::knows(PyValue &value) {
  MlirValue raw = value.get();
  return !known->isReplaced(mlirValueIsABlockArgument(raw) ? raw.ptr : mlirOpResultGetOwner(raw).ptr);
}

void PyAsmState::requireUnchanged(MlirOperation operation) {
  requireContext(root->getContext()->get(), operation);
  struct Search {
    KnownValues &known;
    bool found;
  } search = {*known, false};
  mlirOperationWalk(
      operation,
      [](MlirOperation inner, void *data) {
        auto *search = static_cast<Search *>(data);
        bool &found = search->found;
        found = search->known.isReplaced(inner.ptr);
        for (intptr_t i = 0, e = mlirOperationGetNumOperands(inner); i < e && !found; ++i) {
          MlirValue operand = mlirOperationGetOperand(inner, i);
          found = search->known.isReplaced(mlirValueIsABlockArgument(operand) ? operand.ptr
                                                                              : mlirOpResultGetOwner(operand).ptr);
        }
        for (intptr_t r = 0, n = mlirOperationGetNumRegions(inner); r < n && !found; ++r) {
          MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(inner, r));
          for (; !mlirBlockIsNull(block) && !found; block = mlirBlockGetNextInRegion(block))
            for (intptr_t i = 0, e = mlirBlockGetNumArguments(block); i < e && !found; ++i)
              found = search->known.isReplaced(mlirBlockGetArgument(block, i).ptr);
        }
        return found ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
      },
      &search, MlirWalkPreOrder);
  if (search.found)
    refuse(quotedName(operation) + " has changed since the AsmState was made: make a new one.");
}

// ---- Symbol tables. MLIR's own keeps pointers to the symbols and is not told when they end.

static MlirAttribute symbolNameOf(MlirOperation operation) {
  MlirAttribute name = mlirOperationGetAttributeByName(operation, mlirSymbolTableGetSymbolAttributeName());
  if (mlirAttributeIsNull(name) || !mlirAttributeIsAString(name))
    throw nb::value_error("Expected operation to have a symbol name.");
  return name;
}

PySymbolTable::PySymbolTable(PyOperationBase &operation)
    : operation(operation.getOperation().getRef()), symbolTable{nullptr} {
  create();
}

namespace {

/// MLIR asserts that no two symbols of a table share a name, and without assertions believes the first. While it
/// makes a table, all but the first of such symbols are taken out of the block, and so is `without`.
class SymbolsAside {
public:
  SymbolsAside(MlirBlock block, MlirOperation without) : block(block) {
    llvm::StringSet<> names;
    MlirOperation next;
    for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op); op = next) {
      next = mlirOperationGetNextInBlock(op);
      MlirAttribute attribute = mlirOperationGetAttributeByName(op, mlirSymbolTableGetSymbolAttributeName());
      if (mlirAttributeIsNull(attribute) || !mlirAttributeIsAString(attribute))
        continue;
      MlirStringRef name = mlirStringAttrGetValue(attribute);
      if (op.ptr == without.ptr || !names.insert(llvm::StringRef(name.data, name.length)).second)
        aside.push_back({op, next});
    }
    for (auto &[op, next] : aside)
      setAside(op);
  }
  SymbolsAside(const SymbolsAside &) = delete;
  SymbolsAside &operator=(const SymbolsAside &) = delete;
  ~SymbolsAside() {
    // Backwards, so that what each one was before is there again.
    for (auto it = aside.rbegin(); it != aside.rend(); ++it)
      putBack(block, it->second, it->first);
  }

private:
  MlirBlock block;
  std::vector<std::pair<MlirOperation, MlirOperation>> aside; // with the operation behind it
};

} // namespace

void PySymbolTable::create(MlirOperation without) {
  MlirOperation raw = operation->get();
  MlirBlock body = {nullptr};
  if (mlirOperationGetNumRegions(raw) == 1)
    body = mlirRegionGetFirstBlock(mlirOperationGetRegion(raw, 0));
  bool hasOneBlock = !mlirBlockIsNull(body) && mlirBlockIsNull(mlirBlockGetNextInRegion(body));
  MlirSymbolTable fresh = {nullptr};
  if (hasOneBlock) {
    SymbolsAside aside(body, without);
    fresh = mlirSymbolTableCreate(raw);
  }
  if (mlirSymbolTableIsNull(fresh))
    throw nb::type_error("Operation is not a Symbol Table.");
  if (!mlirSymbolTableIsNull(symbolTable))
    mlirSymbolTableDestroy(symbolTable);
  symbolTable = fresh;
  changes = operation->getState().changes;
  outsideChanges = lot_python::outsideChanges();
}

void PySymbolTable::refresh(MlirOperation without) {
  operation->checkValid();
  if (changes != operation->getState().changes || outsideChanges != lot_python::outsideChanges())
    create(without);
}

MlirOperation PySymbolTable::lookup(const std::string &name) {
  refresh();
  MlirStringRef key = toMlirStringRef(name);
  MlirOperation found = mlirSymbolTableLookup(symbolTable, key);
  if (mlirOperationIsNull(found))
    return found;
  // It may have been renamed by an attribute.
  MlirAttribute now = mlirOperationGetAttributeByName(found, mlirSymbolTableGetSymbolAttributeName());
  if (mlirAttributeIsNull(now) || !mlirAttributeIsAString(now) || !mlirStringRefEqual(mlirStringAttrGetValue(now), key)) {
    create();
    found = mlirSymbolTableLookup(symbolTable, key);
  }
  return found;
}

nb::object PySymbolTable::dunderGetItem(const std::string &name) {
  MlirOperation symbol = lookup(name);
  if (mlirOperationIsNull(symbol))
    throw nb::key_error(("Symbol '" + name + "' not in the symbol table.").c_str());
  return PyOperation::forOperation(operation->getContext(), symbol, operation.getObject())->createOpView();
}

void PySymbolTable::erase(PyOperationBase &symbol) {
  operation->checkValid();
  PyOperation &symbolOp = symbol.getOperation();
  if (mlirOperationGetParentOperation(symbolOp.get()).ptr != operation->getAddress())
    refuse(quotedName(symbolOp.getName()) + " is not in this symbol table.");
  (void)symbolNameOf(symbolOp.get());
  Deferral deferral; // until the table knows
  if (RewriteScope::workingOn(symbolOp.get()))
    return symbolOp.erase();
  refresh();
  symbolOp.eraseBy([&](MlirOperation doomed) { eraseSymbol(symbolTable, doomed); });
  changes = operation->getState().changes; // the table knows of this one
}

PyStringAttribute PySymbolTable::insert(PyOperationBase &symbol) {
  PyOperation &symbolOp = symbol.getOperation();
  MlirOperation raw = symbolOp.get();
  (void)symbolNameOf(raw);
  MlirOperation parent = mlirOperationGetParentOperation(raw);
  refresh(raw); // raises if the table has lost its block
  requireContext(mlirOperationGetContext(operation->get()), raw);
  if (mlirOperationIsNull(parent)) {
    symbolOp.requireMovable();
    requireNotInside(raw, mlirRegionGetFirstBlock(mlirOperationGetRegion(operation->get(), 0)));
  } else if (parent.ptr != operation->getAddress()) {
    refuse(quotedName(raw) + " is in another symbol table.");
  }
  // If it is in the body already, under the name of another symbol, it is the one to be renamed.
  refresh(raw);
  MlirAttribute inserted = insertSymbol(operation->get(), symbolTable, raw);
  symbolOp.setAttached();
  return PyStringAttribute(symbolOp.getContext(), inserted);
}

} // namespace MLIR_BINDINGS_PYTHON_DOMAIN
} // namespace python
} // namespace mlir

namespace lot_python {

using mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN::PyOperation;

namespace {

/// Whether Python owns the operation, so that nobody else has put it anywhere.
bool isOwned(PyOperation &wrapper) {
  return wrapper.getContext()->isModule(wrapper.get()) || !wrapper.isAttached();
}

} // namespace

void endUnplaced() {
  lot::Attribution because(LOT_CAUSE_OPAQUE_MUTATION, lot::Ref());
  std::vector<const void *> unplaced;
  for (lot_kind kind : {LOT_MLIR_OPERATION, LOT_MLIR_BLOCK, LOT_MLIR_BLOCK_ARGUMENT})
    (void)tracker.forEach(nullptr, kind, [&](lot::Ref ref, void *user) {
      if (kind != LOT_MLIR_OPERATION || !user || !isOwned(*static_cast<PyOperation *>(user)))
        unplaced.push_back(ref.address());
      return true;
    });
  for (const void *object : unplaced)
    tracker.destroyed(object).ignore();
}

} // namespace lot_python
