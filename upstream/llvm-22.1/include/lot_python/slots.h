// Functions that C code of Python calls directly, without nanobind in between: an exception must not
// leave them, it becomes Python's error.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_SLOTS_H
#define LOT_PYTHON_SLOTS_H

#include <exception>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

namespace lot_python {

/// Makes the exception that is being handled Python's error.
inline void setPythonError() noexcept {
  using nanobind::exception_type;
  try {
    throw;
  } catch (nanobind::python_error &error) {
    error.restore();
  } catch (nanobind::builtin_exception &error) {
    PyObject *type = PyExc_RuntimeError;
    switch (error.type()) {
    case exception_type::stop_iteration:
      type = PyExc_StopIteration;
      break;
    case exception_type::index_error:
      type = PyExc_IndexError;
      break;
    case exception_type::key_error:
      type = PyExc_KeyError;
      break;
    case exception_type::value_error:
      type = PyExc_ValueError;
      break;
    case exception_type::type_error:
    case exception_type::next_overload:
      type = PyExc_TypeError;
      break;
    case exception_type::buffer_error:
      type = PyExc_BufferError;
      break;
    case exception_type::import_error:
      type = PyExc_ImportError;
      break;
    case exception_type::attribute_error:
      type = PyExc_AttributeError;
      break;
    case exception_type::runtime_error:
      break;
    }
    PyErr_SetString(type, error.what());
  } catch (std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
}

/// Runs `function` and returns what it does; `failed`, with Python's error set, if it throws.
template <typename Result, typename Function>
Result guardSlot(Result failed, Function &&function) noexcept {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    setPythonError();
    return failed;
  }
}

/// Whether this thread may still take the GIL and drop Python objects.
inline bool canUsePython() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

/// While it lives, no garbage collection begins: nothing that makes Python objects runs finalizers.
class WithoutCollection {
public:
  WithoutCollection() : wasEnabled(PyGC_Disable()) {}
  WithoutCollection(const WithoutCollection &) = delete;
  WithoutCollection &operator=(const WithoutCollection &) = delete;
  ~WithoutCollection() {
    if (wasEnabled)
      PyGC_Enable();
  }

private:
  int wasEnabled;
};

/// Takes the last entry of a stack of Python objects away. Dropping them may run Python code that uses the stack.
template <typename Entry> void dropLast(std::vector<Entry> &stack) {
  Entry last = std::move(stack.back());
  stack.pop_back();
}

/// Takes all entries away, also those that come meanwhile; but what brings another one each time is left.
template <typename Entry> void drop(std::vector<Entry> &stack) {
  for (std::size_t most = stack.size() + 1000; most > 0 && !stack.empty(); --most)
    dropLast(stack);
  if (!stack.empty())
    (void)new std::vector<Entry>(std::move(stack));
}

/// For callbacks that MLIR calls while it prints: keeps the first exception for later.
template <typename Function> void catchInCallback(std::exception_ptr &error, Function &&function) noexcept {
  if (error)
    return;
  try {
    std::forward<Function>(function)();
  } catch (...) {
    error = std::current_exception();
  }
}

/// Raises what `catchInCallback` has kept.
inline void rethrow(std::exception_ptr &error) {
  if (std::exception_ptr kept = std::exchange(error, nullptr))
    std::rethrow_exception(kept);
}

/// Text that MLIR printed. A part may end within a character, or hold bytes that are none.
inline nanobind::object decodePart(const char *data, std::size_t length) {
  PyObject *text = PyUnicode_DecodeUTF8(data, Py_ssize_t(length), "replace");
  if (!text)
    nanobind::raise_python_error();
  return nanobind::steal(text);
}

/// Raises: a view shows an element that its owner does not have any more.
[[noreturn]] __attribute__((visibility("default"))) void raiseShrunk();

} // namespace lot_python

#endif // LOT_PYTHON_SLOTS_H
