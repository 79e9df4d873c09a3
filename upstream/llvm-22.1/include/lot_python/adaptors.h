// For extension modules that take MlirOperation, MlirValue, MlirBlock or MlirModule as parameters. They
// reach the bindings through Python alone, so this header needs nothing to be linked.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_ADAPTORS_H
#define LOT_PYTHON_ADAPTORS_H

#include <nanobind/nanobind.h>

#include "lot_python/slots.h"

namespace lot_python {

/// The capsule of an object of the bindings, or a null object for anything else. Raises what the object
/// raises if it is a dead reference: that must not turn into "incompatible function arguments".
inline nanobind::object capsuleOf(nanobind::handle object, const char *attribute, const char *irModule) {
  if (PyCapsule_CheckExact(object.ptr())) {
    nanobind::module_::import_(irModule).attr("_lot_check_capsule")(object);
    return nanobind::borrow<nanobind::object>(object);
  }
  PyObject *capsule = PyObject_GetAttrString(object.ptr(), attribute);
  if (!capsule) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
      nanobind::raise_python_error();
    PyErr_Clear();
  }
  return nanobind::steal<nanobind::object>(capsule);
}

} // namespace lot_python

#endif // LOT_PYTHON_ADAPTORS_H
