// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An extension module that brings a tracker of its own, statically, and wants to hear from the same MLIR.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "lot/lot.hpp"
#include "lot/mlir_c.h"

namespace {

lot::Tracker tracker;

/// (whether it is exact, and why not)
PyObject *install(PyObject *, PyObject *) {
  if (tracker.raw().id == 0)
    lot::Tracker::create("observer", tracker).ignore();
  const void *symbol = reinterpret_cast<const void *>(&mlirOperationDestroy);
  lot::Status(lot_mlir_install_load_hooks(tracker.raw(), symbol, lot_mlir_c_self_test, nullptr)).ignore();
  lot_mlir_status status = {};
  lot_mlir_get_status(tracker.raw(), &status);
  return Py_BuildValue("Os", tracker.isExact() ? Py_True : Py_False, status.reason);
}

PyObject *uninstall(PyObject *, PyObject *) {
  return PyBool_FromLong(lot_mlir_uninstall_load_hooks(tracker.raw()) == LOT_OK);
}

PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, ""},
    {"uninstall", uninstall, METH_NOARGS, ""},
    {},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "observer", "", -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit_observer() { return PyModule_Create(&definition); }
