// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Deliberate faults, compiled as the bindings are. tools/sanitize-bindings.sh is worth something only if each is caught.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace {

/// Where the compiler cannot see that it is freed.
int *volatile place = nullptr;

PyObject *readFreed(PyObject *, PyObject *) {
  place = new int(1);
  delete place;
  return PyLong_FromLong(*place);
}

PyObject *writeBehind(PyObject *, PyObject *) {
  place = new int[4];
  place[4] = 1;
  delete[] place;
  Py_RETURN_NONE;
}

/// As MLIR's Python wrappers do when an object of Python's goes while it is in use.
PyObject *readDeadObject(PyObject *, PyObject *) {
  PyObject *object = PyBytes_FromString("a Python object that is about to go");
  Py_DECREF(object);
  return PyLong_FromLong(PyBytes_AS_STRING(object)[3]);
}

PyMethodDef methods[] = {
    {"read_freed", readFreed, METH_NOARGS, ""},
    {"write_behind", writeBehind, METH_NOARGS, ""},
    {"read_dead_object", readDeadObject, METH_NOARGS, ""},
    {},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "fault", "", -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit_fault() { return PyModule_Create(&definition); }
