// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/known_values.h"

namespace lot_python {

KnownValues::KnownValues(ContextState &state, MlirContext context, MlirOperation operation) : state(state) {
  ++state.numberings;
  for (MlirOperation outer = operation; !mlirOperationIsNull(outer); outer = mlirOperationGetParentOperation(outer))
    operation = outer;
  struct Visit {
    KnownValues &self;
    MlirContext context;
  } visit = {*this, context};
  mlirOperationWalk(
      operation,
      [](MlirOperation inner, void *data) {
        auto &[self, context] = *static_cast<Visit *>(data);
        self.operations.push_back(trackOperation(context, inner).ref);
        self.refs.emplace(inner.ptr, self.operations.back());
        for (std::intptr_t r = 0, n = mlirOperationGetNumRegions(inner); r < n; ++r) {
          MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(inner, r));
          for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
            for (std::intptr_t i = 0, e = mlirBlockGetNumArguments(block); i < e; ++i) {
              MlirValue argument = mlirBlockGetArgument(block, i);
              self.refs.emplace(argument.ptr, trackBlockArgument(context, argument));
            }
        }
        return MlirWalkResultAdvance;
      },
      &visit, MlirWalkPreOrder);
}

KnownValues::~KnownValues() {
  if (--state.numberings > 0)
    return; // another one may need them; they stay tracked until they end
  for (lot::Ref operation : operations)
    if (operation.isLive() && !operation.user())
      operation.release().ignore();
}

bool KnownValues::isReplaced(const void *object) const {
  auto found = refs.find(object);
  return found != refs.end() && !found->second.isLive();
}

} // namespace lot_python
