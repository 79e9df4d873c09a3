// The first thing that the main extension module does when it is imported. To be included before NB_MODULE.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_MODULE_H
#define LOT_PYTHON_MODULE_H

#include <nanobind/nanobind.h>

/// What NB_MODULE defines as `PyInit__mlir`.
extern "C" PyObject *lot_python_init();

/// Refuses sub-interpreters before nanobind is started: what it keeps, and what the bindings keep, is there
/// once for the process, and belongs to the interpreter that came first. (From Python 3.12 on Python refuses
/// as well, but only after this.)
extern "C" NB_EXPORT PyObject *PyInit__mlir() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "the MLIR bindings cannot be imported in a sub-interpreter: import them in the main interpreter, "
                    "or start a process (multiprocessing) instead of the sub-interpreter");
    return nullptr;
  }
  return lot_python_init();
}

#define PyInit__mlir lot_python_init

#endif // LOT_PYTHON_MODULE_H
