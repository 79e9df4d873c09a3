// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/arguments.h"

namespace nb = nanobind;

namespace lot_python {

nb::list settle(const nb::list &list, const nb::object &segments) {
  nb::list settled;
  if (segments.is_none()) {
    for (nb::handle item : copyOf(list))
      settled.append(item);
    return settled;
  }
  nb::tuple items = copyOf(list), sizes = copyOf(segments);
  for (std::size_t i = 0; i < items.size(); ++i) {
    // Strings and the like are left to the checks that follow.
    bool many = i < sizes.size() && nb::isinstance<nb::int_>(sizes[i]) && nb::cast<int>(sizes[i]) == -1 &&
                PySequence_Check(items[i].ptr());
    if (many)
      settled.append(copyOf(items[i]));
    else
      settled.append(items[i]);
  }
  return settled;
}

} // namespace lot_python

namespace mlir {
namespace python {
namespace MLIR_BINDINGS_PYTHON_DOMAIN {

BlockSpec::BlockSpec(nb::handle types, const std::optional<nb::sequence> &locations) {
  for (PyType *type : lot_python::Owned<PyType>(types))
    this->types.push_back(*type);
  if (locations)
    for (PyLocation *location : lot_python::Owned<PyLocation>(*locations))
      this->locations.push_back(*location);
  else if (!this->types.empty())
    this->locations.assign(this->types.size(), DefaultingPyLocation::resolve());
  if (this->types.size() != this->locations.size())
    throw nb::value_error(("Expected " + std::to_string(this->types.size()) + " locations, got: " +
                           std::to_string(this->locations.size()))
                              .c_str());
}

MlirBlock BlockSpec::create(PyOperation &home) {
  llvm::SmallVector<MlirType> rawTypes(types.begin(), types.end());
  llvm::SmallVector<MlirLocation> rawLocations(locations.begin(), locations.end());
  std::intptr_t count = rawTypes.size();
  lot_python::requireContext(mlirOperationGetContext(home.get()), count, rawTypes.data(), rawLocations.data());
  return mlirBlockCreate(count, rawTypes.data(), rawLocations.data());
}

std::vector<PyValue> valuesOf(const std::optional<nb::list> &list) {
  std::vector<PyValue> values;
  if (!list)
    return values;
  std::size_t index = 0;
  for (nb::handle item : lot_python::copyOf(*list)) {
    PyValue *value;
    if (item.is_none()) {
    } else if (nb::try_cast<PyValue *>(item, value)) {
      values.push_back(*value);
    } else {
      try {
        if (!PySequence_Check(item.ptr()))
          throw nb::cast_error();
        for (PyValue *element : lot_python::Owned<PyValue>(item))
          values.push_back(*element);
      } catch (nb::cast_error &error) {
        throw nb::value_error(("Operand " + std::to_string(index) + " must be a Value or Sequence of Values (" +
                               error.what() + ")")
                                  .c_str());
      }
    }
    ++index;
  }
  return values;
}

llvm::SmallVector<MlirValue> rawValues(llvm::MutableArrayRef<PyValue> values) {
  llvm::SmallVector<MlirValue> raw;
  raw.reserve(values.size());
  for (PyValue &value : values)
    raw.push_back(value.get());
  return raw;
}

} // namespace MLIR_BINDINGS_PYTHON_DOMAIN
} // namespace python
} // namespace mlir
