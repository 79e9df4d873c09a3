// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/edits.h"

#include "lot_python/callbacks.h"

namespace lot_python {

void noteEdit(MlirOperation operation, Edit edit) {
  if (mlirOperationIsNull(operation))
    return;
  for (OpaqueRun *run = OpaqueRun::current(); run; run = run->getOuter())
    if (encloses(run->getRoot(), operation))
      run->noteEdit(operation, edit);
}

void noteEditOfPlace(MlirOperation operation) {
  MlirBlock block = mlirOperationGetBlock(operation);
  if (!OpaqueRun::current() || mlirBlockIsNull(block))
    return;
  noteEdit(operation, Edit::Inside | Edit::Users);
  // Before a change the next operation may be what ends the block, afterwards this one may.
  if (mlirOperationIsNull(mlirOperationGetNextInBlock(operation)))
    noteEdit(mlirOperationGetParentOperation(operation), Edit::Regions);
}

void noteEditOfType(MlirValue value) {
  if (!OpaqueRun::current())
    return;
  if (mlirValueIsABlockArgument(value)) {
    MlirBlock block = mlirBlockArgumentGetOwner(value);
    noteEditOfArguments(block);
    noteEdit(mlirBlockGetParentOperation(block), Edit::Arguments);
  } else {
    noteEdit(mlirOpResultGetOwner(value), Edit::Itself | Edit::Users);
  }
}

void noteEditOfUsers(MlirValue value) {
  if (!OpaqueRun::current())
    return;
  for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
    noteEdit(mlirOpOperandGetOwner(use), Edit::Itself);
}

void noteEditOfArguments(MlirBlock block) {
  if (!OpaqueRun::current())
    return;
  noteEdit(mlirBlockGetParentOperation(block), Edit::Itself | Edit::Regions);
  for (intptr_t i = 0, e = mlirBlockGetNumPredecessors(block); i < e; ++i)
    if (MlirBlock from = mlirBlockGetPredecessor(block, i); !mlirBlockIsNull(from))
      noteEdit(mlirBlockGetTerminator(from), Edit::Itself);
}

void noteEditOfEnd(MlirOperation operation, bool replaced) {
  if (!OpaqueRun::current())
    return;
  for (OpaqueRun *run = OpaqueRun::current(); run; run = run->getOuter())
    run->forgetEdits(operation);
  if (mlirBlockIsNull(mlirOperationGetBlock(operation)))
    return;
  if (mlirOperationIsNull(mlirOperationGetNextInBlock(operation)))
    noteEdit(mlirOperationGetParentOperation(operation), Edit::Regions);
  for (intptr_t i = 0, e = replaced ? mlirOperationGetNumResults(operation) : 0; i < e; ++i) {
    MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(operation, i));
    for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use))
      if (MlirOperation user = mlirOpOperandGetOwner(use); !encloses(operation, user))
        noteEdit(user, Edit::Itself);
  }
}

} // namespace lot_python
