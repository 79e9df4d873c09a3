// Refuses to mix contexts. A function of MLIR's C API that takes objects of one context takes those of another one as
// well, and what it makes then is freed with the wrong context.
//
// `oneContext<&function>` calls the function if all its arguments belong to one context, arrays included. It looks at
// the raw arguments, immediately before the call: nothing can change in between.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_ONE_CONTEXT_H
#define LOT_PYTHON_ONE_CONTEXT_H

#include <cstdint>
#include <type_traits>

#include "lot_python/tracking.h"
#include "mlir-c/AffineExpr.h"
#include "mlir-c/AffineMap.h"
#include "mlir-c/IR.h"
#include "mlir-c/IntegerSet.h"

namespace lot_python {

/// Raises ValueError: arguments of one call belong to two contexts.
[[noreturn]] LOT_PYTHON_API void raiseMixedContexts();

/// The context of an argument; a null one if it has none, or is null itself.
inline MlirContext contextOf(MlirContext context) { return context; }
inline MlirContext contextOf(MlirAttribute attribute) {
  return attribute.ptr ? mlirAttributeGetContext(attribute) : MlirContext{nullptr};
}
inline MlirContext contextOf(MlirType type) { return type.ptr ? mlirTypeGetContext(type) : MlirContext{nullptr}; }
inline MlirContext contextOf(MlirLocation location) {
  return location.ptr ? mlirLocationGetContext(location) : MlirContext{nullptr};
}
inline MlirContext contextOf(MlirOperation operation) {
  return operation.ptr ? mlirOperationGetContext(operation) : MlirContext{nullptr};
}
inline MlirContext contextOf(MlirModule module) {
  return module.ptr ? mlirModuleGetContext(module) : MlirContext{nullptr};
}
inline MlirContext contextOf(MlirBlock block) {
  return block.ptr ? contextOf(mlirBlockGetParentOperation(block)) : MlirContext{nullptr};
}
inline MlirContext contextOf(MlirValue value) { return value.ptr ? mlirValueGetContext(value) : MlirContext{nullptr}; }
inline MlirContext contextOf(MlirIdentifier name) {
  return name.ptr ? mlirIdentifierGetContext(name) : MlirContext{nullptr};
}
inline MlirContext contextOf(MlirNamedAttribute named) { return contextOf(named.attribute); }
inline MlirContext contextOf(MlirAffineExpr expr) {
  return expr.ptr ? mlirAffineExprGetContext(expr) : MlirContext{nullptr};
}
inline MlirContext contextOf(MlirAffineMap map) { return map.ptr ? mlirAffineMapGetContext(map) : MlirContext{nullptr}; }
inline MlirContext contextOf(MlirIntegerSet set) {
  return set.ptr ? mlirIntegerSetGetContext(set) : MlirContext{nullptr};
}

/// Looks at one argument after the other.
class ContextCheck {
public:
  template <typename T> void add(const T &argument) {
    if constexpr (std::is_pointer_v<T>) {
      if constexpr (hasContext<std::remove_cv_t<std::remove_pointer_t<T>>>::value)
        for (std::intptr_t i = 0; argument && i < count; ++i)
          addContext(contextOf(argument[i]));
    } else if constexpr (std::is_same_v<T, std::intptr_t>) {
      count = argument; // of the arrays that follow
    } else if constexpr (hasContext<T>::value) {
      addContext(contextOf(argument));
    }
  }

  void addContext(MlirContext other) {
    if (!other.ptr || other.ptr == context.ptr)
      return;
    if (context.ptr)
      raiseMixedContexts();
    context = other;
  }

private:
  template <typename T, typename = void> struct hasContext : std::false_type {};
  template <typename T>
  struct hasContext<T, std::void_t<decltype(contextOf(std::declval<T>()))>> : std::true_type {};

  MlirContext context = {nullptr};
  std::intptr_t count = 0;
};

template <auto Function> struct OneContext;
template <typename Result, typename... Arguments, Result (*Function)(Arguments...)> struct OneContext<Function> {
  static Result call(Arguments... arguments) {
    ContextCheck check;
    (check.add(arguments), ...);
    return Function(arguments...);
  }
};
template <auto Function> constexpr auto *oneContext = &OneContext<Function>::call;

/// Refuses objects of another context than `context`.
template <typename... Arguments> void requireContext(MlirContext context, const Arguments &...arguments) {
  ContextCheck check;
  check.addContext(context);
  (check.add(arguments), ...);
}

} // namespace lot_python

#endif // LOT_PYTHON_ONE_CONTEXT_H
