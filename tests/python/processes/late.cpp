// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An extension module of somebody else, which gets at the bindings' IR by capsules and calls MLIR's C++
// functions on it, from tables of its own.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "mlir-c/Pass.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

namespace {

/// What a capsule of any name holds.
template <typename Object> Object *take(PyObject *capsule) {
  return static_cast<Object *>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
}

PyObject *erase(PyObject *, PyObject *capsule) {
  take<mlir::Operation>(capsule)->erase();
  Py_RETURN_NONE;
}

PyObject *eraseBlock(PyObject *, PyObject *capsule) {
  take<mlir::Block>(capsule)->erase();
  Py_RETURN_NONE;
}

PyObject *eraseLast(PyObject *, PyObject *capsule) {
  take<mlir::Block>(capsule)->getOperations().pop_back(); // ilist_traits<Operation>::deleteNode
  Py_RETURN_NONE;
}

PyObject *detachAndDelete(PyObject *, PyObject *capsule) {
  auto *block = take<mlir::Block>(capsule);
  block->getParent()->getBlocks().remove(block);
  delete block; // ~Block
  Py_RETURN_NONE;
}

PyObject *eraseArgument(PyObject *, PyObject *capsule) {
  take<mlir::Block>(capsule)->eraseArgument(0);
  Py_RETURN_NONE;
}

/// Adds a pass to the pass manager that erases the last operation of the module's body.
PyObject *addPass(PyObject *, PyObject *capsule) {
  alignas(8) static char id[8];
  MlirStringRef name = mlirStringRefCreateFromCString("late"), none = mlirStringRefCreateFromCString("");
  MlirExternalPassCallbacks callbacks = {};
  callbacks.construct = callbacks.destruct = [](void *) {};
  callbacks.clone = [](void *data) { return data; };
  callbacks.run = [](MlirOperation module, MlirExternalPass, void *) {
    unwrap(module)->getRegion(0).front().back().erase();
  };
  MlirPass pass = mlirCreateExternalPass(mlirTypeIDCreate(id), name, name, none, none, 0, nullptr, callbacks, nullptr);
  mlirPassManagerAddOwnedPass(MlirPassManager{take<void>(capsule)}, pass);
  Py_RETURN_NONE;
}

#ifdef INTRUDER
void (*original)(mlir::Operation *);
void detour(mlir::Operation *operation) { original(operation); }
void intrude() {
  void **slot;
  asm("lea _ZN4mlir9Operation5eraseEv@GOTPCREL(%%rip), %0" : "=r"(slot));
  original = reinterpret_cast<void (*)(mlir::Operation *)>(*slot);
  *slot = reinterpret_cast<void *>(&detour);
}
constexpr char name[] = "intruder";
#else
constexpr char name[] = "late";
#endif

PyMethodDef methods[] = {
    {"erase", erase, METH_O, ""},
    {"erase_block", eraseBlock, METH_O, ""},
    {"erase_last", eraseLast, METH_O, ""},
    {"detach_and_delete", detachAndDelete, METH_O, ""},
    {"erase_argument", eraseArgument, METH_O, ""},
    {"add_pass", addPass, METH_O, ""},
    {},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, name, "", -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

#ifdef INTRUDER
PyMODINIT_FUNC PyInit_intruder() {
  intrude();
#else
PyMODINIT_FUNC PyInit_late() {
#endif
  return PyModule_Create(&definition);
}
