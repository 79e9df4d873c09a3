// For functions that take containers as parameters. nanobind's casters of containers
// - are noexcept: what a dead reference in one raises would end the process;
// - go on reading a list whose elements are being converted, which may run Python code that changes the list;
// - let go of elements that nobody else holds, such as those of `operation.operands`, before the function is called.
// These do what those do, without that.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_CONTAINERS_H
#define LOT_PYTHON_CONTAINERS_H

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "llvm/ADT/SmallVector.h"
#include "mlir-c/IR.h"

namespace lot_python {

template <typename List, typename Entry> struct ListCaster : nanobind::detail::list_caster<List, Entry> {
  bool from_python(nanobind::handle source, std::uint8_t flags, nanobind::detail::cleanup_list *cleanup) {
    this->value.clear();
    if (PyUnicode_CheckExact(source.ptr()) || PyBytes_CheckExact(source.ptr()) || !PySequence_Check(source.ptr()))
      return false;
    // Held before any is asked for something, since that may run Python code.
    llvm::SmallVector<nanobind::object, 8> elements;
    PyObject *fast = PySequence_Fast(source.ptr(), ""); // a list or tuple itself
    if (!fast) {
      PyErr_Clear();
      return false;
    }
    for (Py_ssize_t i = 0, e = PySequence_Fast_GET_SIZE(fast); i < e; ++i)
      elements.push_back(nanobind::borrow(PySequence_Fast_GET_ITEM(fast, i)));
    Py_DECREF(fast);
    this->value.reserve(elements.size());
    flags = nanobind::detail::flags_for_local_caster<Entry>(flags);
    nanobind::detail::make_caster<Entry> caster;
    for (const nanobind::object &element : elements) {
      if (!caster.from_python(element, flags, cleanup) || !caster.template can_cast<Entry>())
        return false;
      this->value.push_back(caster.operator nanobind::detail::cast_t<Entry>());
    }
    // What is pointed to lives as long as the call.
    if constexpr (std::is_pointer_v<Entry>) {
      if (!cleanup)
        return elements.empty();
      for (nanobind::object &element : elements)
        cleanup->append(element.release().ptr());
    }
    return true;
  }
};

/// An own copy of a list or sequence, and of what it holds: it stays as it is while Python code runs.
inline nanobind::tuple copyOf(nanobind::handle sequence) {
  PyObject *copy = PySequence_Tuple(sequence.ptr());
  if (!copy)
    nanobind::raise_python_error();
  return nanobind::steal<nanobind::tuple>(copy);
}

template <typename T> struct OptionalCaster : nanobind::detail::optional_caster<std::optional<T>> {
  bool from_python(nanobind::handle source, std::uint8_t flags, nanobind::detail::cleanup_list *cleanup) {
    this->value.reset();
    if (source.is_none())
      return true;
    nanobind::detail::make_caster<T> caster;
    if (!caster.from_python(source, nanobind::detail::flags_for_local_caster<T>(flags), cleanup))
      return false;
    this->value.emplace(caster.operator nanobind::detail::cast_t<T>());
    return true;
  }
};

} // namespace lot_python

namespace nanobind {
namespace detail {

#define LOT_PYTHON_CONTAINERS_OF(T)                                                                                    \
  template <typename Allocator>                                                                                        \
  struct type_caster<std::vector<T, Allocator>> : lot_python::ListCaster<std::vector<T, Allocator>, T> {};            \
  template <> struct type_caster<std::optional<T>> : lot_python::OptionalCaster<T> {};

LOT_PYTHON_CONTAINERS_OF(MlirOperation)
LOT_PYTHON_CONTAINERS_OF(MlirModule)
LOT_PYTHON_CONTAINERS_OF(MlirBlock)
LOT_PYTHON_CONTAINERS_OF(MlirValue)
#undef LOT_PYTHON_CONTAINERS_OF

// Numbers, whose conversion may call `__index__` or `__float__`.
#define LOT_PYTHON_LIST_OF(T)                                                                                          \
  template <typename Allocator>                                                                                        \
  struct type_caster<std::vector<T, Allocator>> : lot_python::ListCaster<std::vector<T, Allocator>, T> {};
LOT_PYTHON_LIST_OF(std::int8_t)
LOT_PYTHON_LIST_OF(std::int16_t)
LOT_PYTHON_LIST_OF(std::int32_t)
LOT_PYTHON_LIST_OF(std::int64_t)
LOT_PYTHON_LIST_OF(std::uint32_t)
LOT_PYTHON_LIST_OF(float)
LOT_PYTHON_LIST_OF(double)
LOT_PYTHON_LIST_OF(bool)
#undef LOT_PYTHON_LIST_OF

template <typename T, typename Allocator>
struct type_caster<std::vector<T *, Allocator>> : lot_python::ListCaster<std::vector<T *, Allocator>, T *> {};

} // namespace detail
} // namespace nanobind

#endif // LOT_PYTHON_CONTAINERS_H
