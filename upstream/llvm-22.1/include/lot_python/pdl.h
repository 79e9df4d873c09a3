// What a PDL module expects of the Python functions that it calls. MLIR does not check it: it reads
// results that are not there, and goes on with operations that such a function has erased.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_PDL_H
#define LOT_PYTHON_PDL_H

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lot_python/callbacks.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/Dialect/PDL.h"
#include "mlir-c/IR.h"

namespace lot_python {

/// The kinds of some results, one letter for each.
using PdlSignature = std::string;

class PdlFunctions {
public:
  /// Reads the uses of native functions in a module of patterns, which has to be alive.
  void collect(MlirOperation module) {
    functions.clear(); // of an earlier attempt
    mlirOperationWalk(
        module,
        [](MlirOperation operation, void *self) {
          static_cast<PdlFunctions *>(self)->add(operation);
          return MlirWalkResultAdvance;
        },
        this, MlirWalkPreOrder);
  }

  /// Raises unless the module expects such results somewhere. A function that it does not name is not called.
  void requireSignature(const std::string &name, const PdlSignature &found) const {
    auto known = functions.find(name);
    if (known != functions.end() && known->second.signatures.count(found) == 0)
      refuse("The PDL function '" + name + "' has appended " + std::to_string(found.size()) +
             " results, which is not what the patterns expect, or not of the kinds that they expect.");
  }

  /// Whether the patterns still look at operations when the function has been called. Otherwise it does the
  /// whole rewrite, and may erase what it likes.
  bool isPartOfARewrite(const std::string &name) const {
    auto known = functions.find(name);
    return known == functions.end() || known->second.isPart;
  }

  /// Raises for a function that the patterns call and nobody has registered.
  template <typename Registered> void requireRegistered(const Registered &registered) const {
    for (const auto &[name, uses] : functions)
      for (bool isRewrite : {true, false}) {
        bool isKnown = std::any_of(registered.begin(), registered.end(), [&, &name = name](const auto &function) {
          return function->name == name && function->isRewrite == isRewrite;
        });
        if ((isRewrite ? uses.asRewrite : uses.asConstraint) && !isKnown)
          refuse("The patterns call a " + std::string(isRewrite ? "rewrite" : "constraint") + " function '" + name +
                 "': register it before the module is frozen.");
      }
  }

private:
  struct Uses {
    std::set<PdlSignature> signatures;
    bool isPart = false, asRewrite = false, asConstraint = false;
  };

  void add(MlirOperation operation) {
    MlirStringRef text = mlirIdentifierStr(mlirOperationGetName(operation));
    std::string kind(text.data, text.length);
    bool whole = kind == "pdl.rewrite";
    if (!whole && kind != "pdl.apply_native_rewrite" && kind != "pdl.apply_native_constraint")
      return;
    MlirAttribute name = mlirOperationGetAttributeByName(operation, mlirStringRefCreateFromCString("name"));
    if (mlirAttributeIsNull(name) || !mlirAttributeIsAString(name))
      return;
    MlirStringRef value = mlirStringAttrGetValue(name);
    Uses &uses = functions[std::string(value.data, value.length)];
    uses.isPart |= !whole;
    (kind == "pdl.apply_native_constraint" ? uses.asConstraint : uses.asRewrite) = true;
    PdlSignature signature;
    for (intptr_t i = 0, e = mlirOperationGetNumResults(operation); i < e; ++i)
      signature += letterOf(mlirValueGetType(mlirOperationGetResult(operation, i)));
    uses.signatures.insert(signature);
  }

  static char letterOf(MlirType type) {
    if (mlirTypeIsAPDLOperationType(type))
      return 'o';
    if (mlirTypeIsAPDLValueType(type))
      return 'v';
    if (mlirTypeIsAPDLTypeType(type))
      return 't';
    if (mlirTypeIsAPDLAttributeType(type))
      return 'a';
    return '?'; // a range, which Python cannot append
  }

  std::map<std::string, Uses> functions;
};

/// One function that Python registered: what MLIR's callback gets as its data.
struct PdlFunction {
  const PdlFunctions *functions;
  std::string name;
  PyObject *callable; // kept alive by the module's wrapper
  bool isRewrite;
};

} // namespace lot_python

#endif // LOT_PYTHON_PDL_H
