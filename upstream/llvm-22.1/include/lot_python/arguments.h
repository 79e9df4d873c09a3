// Arguments that are sequences. Asking one for its elements may run Python code, and that may end what was fetched
// before. So: first all is fetched, into values that the call owns; then all is checked; then MLIR is called.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_ARGUMENTS_H
#define LOT_PYTHON_ARGUMENTS_H

#include <optional>
#include <string>
#include <vector>

#include "mlir/Bindings/Python/IRCore.h"

namespace lot_python {

/// The elements of a sequence, as objects of a class of the bindings, which live as long as this.
template <typename T> class Owned {
public:
  /// Raises what asking for the elements raises, and nanobind's cast_error for one of another class.
  explicit Owned(nanobind::handle sequence) : objects(copyOf(sequence)) {
    for (nanobind::handle object : objects)
      elements.push_back(&nanobind::cast<T &>(object));
  }
  auto begin() const { return elements.begin(); }
  auto end() const { return elements.end(); }
  std::size_t size() const { return elements.size(); }

private:
  nanobind::tuple objects;
  std::vector<T *> elements;
};

/// A list whose sequences have been asked for their elements: where `segments` has -1 it holds tuples. `segments` may
/// be None.
LOT_PYTHON_API nanobind::list settle(const nanobind::list &list, const nanobind::object &segments);

} // namespace lot_python

namespace mlir {
namespace python {
namespace MLIR_BINDINGS_PYTHON_DOMAIN {

/// What a new block is to have as its arguments.
class LOT_PYTHON_API BlockSpec {
public:
  BlockSpec(nanobind::handle types, const std::optional<nanobind::sequence> &locations);
  /// Makes the block, for a region of `home`, which has to be alive.
  MlirBlock create(PyOperation &home);

private:
  std::vector<PyType> types;
  std::vector<PyLocation> locations;
};

/// The values in a list of values and sequences of values; None stands for nothing.
LOT_PYTHON_API std::vector<PyValue> valuesOf(const std::optional<nanobind::list> &list);
/// What MLIR is given for them. Raises for a dead one.
LOT_PYTHON_API llvm::SmallVector<MlirValue> rawValues(llvm::MutableArrayRef<PyValue> values);

} // namespace MLIR_BINDINGS_PYTHON_DOMAIN
} // namespace python
} // namespace mlir

#endif // LOT_PYTHON_ARGUMENTS_H
