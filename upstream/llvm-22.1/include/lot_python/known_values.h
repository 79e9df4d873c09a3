// Which values an `AsmState` of MLIR has given names to. MLIR goes by addresses: a value that comes to lie where a
// named one was would get that one's name.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_KNOWN_VALUES_H
#define LOT_PYTHON_KNOWN_VALUES_H

#include <unordered_map>
#include <vector>

#include "lot_python/tracking.h"

namespace lot_python {

class KnownValues {
public:
  /// Notes all operations and block arguments in the tree that encloses `operation`. While this lives, they stay
  /// tracked, whether they have wrappers or not.
  KnownValues(ContextState &state, MlirContext context, MlirOperation operation);
  KnownValues(const KnownValues &) = delete;
  KnownValues &operator=(const KnownValues &) = delete;
  ~KnownValues();

  /// Whether what is at the address of an operation or block argument now is not what was noted there.
  bool isReplaced(const void *object) const;

private:
  ContextState &state; // the root's wrapper keeps the context
  std::unordered_map<const void *, lot::Ref> refs;
  std::vector<lot::Ref> operations;
};

} // namespace lot_python

#endif // LOT_PYTHON_KNOWN_VALUES_H
