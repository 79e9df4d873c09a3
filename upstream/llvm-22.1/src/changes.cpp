// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lot_python/changes.h"

#include "lot_python/checked_calls.h"
#include "lot_python/edits.h"
#include "mlir-c/Dialect/Linalg.h"
#include "mlir-c/Dialect/Transform/Interpreter.h"

#include "lot_python/checked_transform.h"

// For these, the callers have compared the contexts by their wrappers, which costs less.
#undef mlirBlockInsertOwnedOperationBefore
#undef mlirBlockAppendOwnedOperation
#undef mlirOperationMoveBefore

namespace lot_python {

namespace {

/// A block that is nowhere has no owner: nothing can be at work on it.
void requireEditableIn(MlirBlock block) {
  if (!isAnythingAtWork())
    return;
  MlirOperation owner = mlirBlockGetParentOperation(block);
  if (!mlirOperationIsNull(owner))
    requireEditable(owner);
}

void requireEditableOwner(MlirValue value) {
  if (mlirValueIsABlockArgument(value))
    requireEditableIn(mlirBlockArgumentGetOwner(value));
  else
    requireEditable(mlirOpResultGetOwner(value));
}

} // namespace

// ---- In place.

void setAttribute(MlirOperation operation, MlirStringRef name, MlirAttribute value) {
  requireEditable(operation);
  noteEdit(operation, Edit::Itself | Edit::Regions);
  mlirOperationSetAttributeByName(operation, name, value);
}

bool removeAttribute(MlirOperation operation, MlirStringRef name) {
  requireEditable(operation);
  noteEdit(operation, Edit::Itself | Edit::Regions);
  return mlirOperationRemoveAttributeByName(operation, name);
}

void setOperand(MlirOperation operation, intptr_t index, MlirValue value) {
  requireEditable(operation);
  noteEdit(operation, Edit::Itself);
  mlirOperationSetOperand(operation, index, value);
}

void setSuccessor(MlirOperation operation, intptr_t index, MlirBlock block) {
  requireEditable(operation);
  noteEdit(operation, Edit::Itself);
  mlirOperationSetSuccessor(operation, index, block);
}

void setLocation(MlirOperation operation, MlirLocation location) {
  requireEditable(operation);
  mlirOperationSetLocation(operation, location);
}

void setType(MlirValue value, MlirType type) {
  requireEditableOwner(value);
  noteEditOfType(value);
  mlirValueSetType(value, type);
}

void setArgumentType(MlirValue argument, MlirType type) {
  requireEditableOwner(argument);
  noteEditOfType(argument);
  mlirBlockArgumentSetType(argument, type);
}

void setArgumentLocation(MlirValue argument, MlirLocation location) {
  requireEditableOwner(argument);
  mlirBlockArgumentSetLocation(argument, location);
}

MlirValue addArgument(MlirBlock block, MlirType type, MlirLocation location) {
  requireEditableIn(block);
  noteEditOfArguments(block);
  return mlirBlockAddArgument(block, type, location);
}

void replaceUsesOfWith(MlirOperation user, MlirValue of, MlirValue with) {
  requireEditable(user);
  noteEdit(user, Edit::Itself);
  mlirOperationReplaceUsesOfWith(user, of, with);
}

void replaceAllUses(MlirValue of, MlirValue with) {
  requireEditableOwner(of);
  noteEditOfUsers(of);
  mlirValueReplaceAllUsesOfWith(of, with);
}

void replaceAllUsesExcept(MlirValue of, MlirValue with, intptr_t count, MlirOperation *users) {
  requireEditableOwner(of);
  noteEditOfUsers(of);
  mlirValueReplaceAllUsesExcept(of, with, count, users);
}

MlirLogicalResult replaceAllSymbolUses(MlirStringRef from, MlirStringRef to, MlirOperation inside) {
  requireEditable(inside);
  return mlirSymbolTableReplaceAllSymbolUses(from, to, inside);
}

void fillLinalgRegion(MlirOperation operation) {
  requireEditable(operation);
  noteEdit(operation, Edit::Inside);
  mlirLinalgFillBuiltinNamedOpRegion(operation);
}

// ---- Places.

void insertOperation(MlirBlock block, MlirOperation before, MlirOperation operation) {
  requireEditableIn(block);
  mlirBlockInsertOwnedOperationBefore(block, before, operation);
  noteEditOfPlace(operation);
}

void moveOperation(MlirBlock block, MlirOperation before, MlirOperation operation) {
  requireEditableIn(block);
  requireStays(operation, mlirBlockGetParentOperation(block));
  noteEditOfPlace(operation);
  if (!mlirOperationIsNull(before)) {
    mlirOperationMoveBefore(operation, before);
  } else {
    mlirOperationRemoveFromParent(operation);
    mlirBlockAppendOwnedOperation(block, operation);
  }
  noteEditOfPlace(operation);
}

void removeFromParent(MlirOperation operation) {
  requireChangeable(operation);
  noteEditOfPlace(operation);
  mlirOperationRemoveFromParent(operation);
}

void insertFirstBlock(MlirOperation owner, MlirRegion region, MlirBlock block) {
  requireEditable(owner);
  noteEdit(owner, Edit::Regions);
  mlirRegionInsertOwnedBlock(region, 0, block);
}

void insertBlockBefore(MlirBlock reference, MlirBlock block) {
  requireEditableIn(reference);
  noteEdit(mlirBlockGetParentOperation(reference), Edit::Regions);
  mlirRegionInsertOwnedBlockBefore(mlirBlockGetParentRegion(reference), reference, block);
}

void insertBlockAfter(MlirBlock reference, MlirBlock block) {
  requireEditableIn(reference);
  noteEdit(mlirBlockGetParentOperation(reference), Edit::Regions);
  mlirRegionInsertOwnedBlockAfter(mlirBlockGetParentRegion(reference), reference, block);
}

void appendBlock(MlirOperation owner, MlirRegion region, MlirBlock block) {
  requireEditable(owner);
  noteEdit(owner, Edit::Regions);
  mlirRegionAppendOwnedBlock(region, block);
}

void moveBlock(MlirOperation owner, MlirRegion region, MlirBlock block) {
  MlirOperation source = mlirBlockGetParentOperation(block);
  requireChangeable(source, /*inside=*/true);
  requireChangeable(owner, /*inside=*/true);
  requireStays(source, owner);
  noteEdit(source, Edit::Inside);
  noteEdit(owner, Edit::Inside);
  mlirBlockDetach(block);
  mlirRegionAppendOwnedBlock(region, block);
}

MlirAttribute insertSymbol(MlirOperation owner, MlirSymbolTable table, MlirOperation symbol) {
  requireEditable(owner);
  MlirAttribute name = mlirSymbolTableInsert(table, symbol);
  noteEditOfPlace(symbol);
  return name;
}

// ---- Ends.

void eraseArgument(MlirBlock block, unsigned index) {
  requireEditableIn(block);
  noteEditOfArguments(block);
  mlirBlockEraseArgument(block, index);
}

void destroyOperation(MlirOperation operation) {
  noteEditOfEnd(operation);
  mlirOperationDestroy(operation);
}

void eraseBy(MlirRewriterBase rewriter, MlirOperation operation) {
  noteEditOfEnd(operation);
  mlirRewriterBaseEraseOp(rewriter, operation);
}

void replaceBy(MlirRewriterBase rewriter, MlirOperation operation, MlirOperation replacement) {
  noteEditOfEnd(operation, /*replaced=*/true);
  mlirRewriterBaseReplaceOpWithOperation(rewriter, operation, replacement);
}

void replaceBy(MlirRewriterBase rewriter, MlirOperation operation, intptr_t count, MlirValue *values) {
  noteEditOfEnd(operation, /*replaced=*/true);
  mlirRewriterBaseReplaceOpWithValues(rewriter, operation, count, values);
}

void eraseSymbol(MlirSymbolTable table, MlirOperation symbol) {
  noteEditOfEnd(symbol);
  mlirSymbolTableErase(table, symbol);
}

void dropOperands(MlirOperation operation) { mlirOperationSetOperands(operation, 0, nullptr); }

void redirectBranch(MlirOperation operation, intptr_t index, MlirBlock block) {
  mlirOperationSetSuccessor(operation, index, block);
}

void setAside(MlirOperation operation) { mlirOperationRemoveFromParent(operation); }

void putBack(MlirBlock block, MlirOperation before, MlirOperation operation) {
  mlirBlockInsertOwnedOperationBefore(block, before, operation);
}

// ---- Runs.

MlirLogicalResult runPasses(OpaqueRun &run, MlirPassManager passes) {
  return run.perform([&] { return mlirPassManagerRunOnOp(passes, run.getRoot()); });
}

MlirLogicalResult runGreedily(OpaqueRun &run, MlirModule module, MlirFrozenRewritePatternSet patterns,
                              MlirGreedyRewriteDriverConfig config) {
  return run.perform([&] { return mlirApplyPatternsAndFoldGreedily(module, patterns, config); });
}

MlirLogicalResult runGreedily(OpaqueRun &run, MlirFrozenRewritePatternSet patterns,
                              MlirGreedyRewriteDriverConfig config) {
  return run.perform([&] { return mlirApplyPatternsAndFoldGreedilyWithOp(run.getRoot(), patterns, config); });
}

void runWalk(OpaqueRun &run, MlirFrozenRewritePatternSet patterns) {
  run.perform([&] { mlirWalkAndApplyPatterns(run.getRoot(), patterns); });
}

MlirLogicalResult runNamedSequence(OpaqueRun &run, MlirOperation script, MlirOperation library,
                                   MlirTransformOptions options) {
  return run.perform([&] { return mlirTransformApplyNamedSequence(run.getRoot(), script, library, options); });
}

MlirLogicalResult mergeSymbols(OpaqueRun &run, MlirOperation other) {
  return run.perform([&] { return mlirMergeSymbolsIntoFromClone(run.getRoot(), other); });
}

} // namespace lot_python
