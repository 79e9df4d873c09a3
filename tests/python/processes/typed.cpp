// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An extension module of somebody else whose functions take IR objects and containers of them, by the casters of
// upstream's NanobindAdaptors.h.

#include "mlir/Bindings/Python/NanobindAdaptors.h"

NB_MODULE(typed, m) {
  m.def("count_regions", [](MlirOperation operation) { return mlirOperationGetNumRegions(operation); });
  m.def("count_arguments", [](MlirBlock block) { return mlirBlockGetNumArguments(block); });
  m.def("type_of", [](MlirValue value) { return mlirValueGetType(value); });
  m.def("count_regions_of_module",
        [](MlirModule module) { return mlirOperationGetNumRegions(mlirModuleGetOperation(module)); });
  mlir::python::nanobind_adaptors::mlir_value_subclass(m, "AnyResult", mlirValueIsAOpResult);
  m.def("count_values", [](std::vector<MlirValue> values) { return values.size(); });
  m.def("count_operations", [](const std::vector<MlirOperation> &operations) { return operations.size(); });
  m.def("count_blocks", [](std::vector<MlirBlock> blocks) { return blocks.size(); });
  m.def("has_operation", [](std::optional<MlirOperation> operation) { return operation.has_value(); },
        nanobind::arg("operation") = nanobind::none());
  m.def("has_module", [](std::optional<MlirModule> module) { return module.has_value(); }, nanobind::arg("module").none());
  // Overloads: the next one is tried for what is no list, but not for a dead reference.
  m.def("kind", [](std::vector<MlirValue>) { return "values"; });
  m.def("kind", [](nanobind::object) { return "something"; });
}
