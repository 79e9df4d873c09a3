// The only code of the bindings that calls functions of MLIR which change IR or run something on it: each asks the gate
// first. A test of the sources holds the rest of the bindings to that.
//
// The objects that are passed have to be alive: that is the wrappers' business (`get`).
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_CHANGES_H
#define LOT_PYTHON_CHANGES_H

#include "lot_python/callbacks.h"
#include "mlir-c/IR.h"
#include "mlir-c/Pass.h"
#include "mlir-c/Rewrite.h"
#include "mlir-c/Support.h"

struct MlirTransformOptions; // its header has no include guard

namespace lot_python {

// ---- In place. They raise ValueError where `requireEditable` does.

LOT_PYTHON_API void setAttribute(MlirOperation operation, MlirStringRef name, MlirAttribute value);
/// Whether there was such an attribute.
LOT_PYTHON_API bool removeAttribute(MlirOperation operation, MlirStringRef name);
LOT_PYTHON_API void setOperand(MlirOperation operation, intptr_t index, MlirValue value);
LOT_PYTHON_API void setSuccessor(MlirOperation operation, intptr_t index, MlirBlock block);
LOT_PYTHON_API void setLocation(MlirOperation operation, MlirLocation location);
LOT_PYTHON_API void setType(MlirValue value, MlirType type);
LOT_PYTHON_API void setArgumentType(MlirValue argument, MlirType type);
LOT_PYTHON_API void setArgumentLocation(MlirValue argument, MlirLocation location);
LOT_PYTHON_API MlirValue addArgument(MlirBlock block, MlirType type, MlirLocation location);
LOT_PYTHON_API void replaceUsesOfWith(MlirOperation user, MlirValue of, MlirValue with);
LOT_PYTHON_API void replaceAllUses(MlirValue of, MlirValue with);
LOT_PYTHON_API void replaceAllUsesExcept(MlirValue of, MlirValue with, intptr_t count, MlirOperation *users);
LOT_PYTHON_API MlirLogicalResult replaceAllSymbolUses(MlirStringRef from, MlirStringRef to, MlirOperation inside);
/// Fills the region of one of linalg's named operations.
LOT_PYTHON_API void fillLinalgRegion(MlirOperation operation);

// ---- Places of operations and blocks.

/// Puts a detached operation before another one, or at the end of the block.
LOT_PYTHON_API void insertOperation(MlirBlock block, MlirOperation before, MlirOperation operation);
/// Moves an operation that is in a block; `before` may be null for the end.
void moveOperation(MlirBlock block, MlirOperation before, MlirOperation operation);
void removeFromParent(MlirOperation operation);
/// New blocks: at the beginning or the end of a region of `owner`, or beside another block.
LOT_PYTHON_API void insertFirstBlock(MlirOperation owner, MlirRegion region, MlirBlock block);
LOT_PYTHON_API void insertBlockBefore(MlirBlock reference, MlirBlock block);
LOT_PYTHON_API void insertBlockAfter(MlirBlock reference, MlirBlock block);
LOT_PYTHON_API void appendBlock(MlirOperation owner, MlirRegion region, MlirBlock block);
/// Moves a block to the end of a region of `owner`.
LOT_PYTHON_API void moveBlock(MlirOperation owner, MlirRegion region, MlirBlock block);
/// `owner`: what has the table.
MlirAttribute insertSymbol(MlirOperation owner, MlirSymbolTable table, MlirOperation symbol);

// ---- Ends. `PyOperation::eraseBy` has asked the gate before it calls one of these.

LOT_PYTHON_API void eraseArgument(MlirBlock block, unsigned index);
void destroyOperation(MlirOperation operation);
LOT_PYTHON_API void eraseBy(MlirRewriterBase rewriter, MlirOperation operation);
LOT_PYTHON_API void replaceBy(MlirRewriterBase rewriter, MlirOperation operation, MlirOperation replacement);
LOT_PYTHON_API void replaceBy(MlirRewriterBase rewriter, MlirOperation operation, intptr_t count, MlirValue *values);
void eraseSymbol(MlirSymbolTable table, MlirOperation symbol);
/// Makes an operation use nothing any more; for what is about to be destroyed.
void dropOperands(MlirOperation operation);
/// Lets a branch lead to another block; for what is about to be destroyed.
void redirectBranch(MlirOperation operation, intptr_t index, MlirBlock block);

/// Takes an operation out of its block for a moment, and puts it back, so that nobody notices.
void setAside(MlirOperation operation);
void putBack(MlirBlock block, MlirOperation before, MlirOperation operation);

// ---- Runs: the gate was asked when the OpaqueRun was made.

LOT_PYTHON_API MlirLogicalResult runPasses(OpaqueRun &run, MlirPassManager passes);
LOT_PYTHON_API MlirLogicalResult runGreedily(OpaqueRun &run, MlirModule module, MlirFrozenRewritePatternSet patterns,
                                             MlirGreedyRewriteDriverConfig config);
LOT_PYTHON_API MlirLogicalResult runGreedily(OpaqueRun &run, MlirFrozenRewritePatternSet patterns,
                                             MlirGreedyRewriteDriverConfig config);
LOT_PYTHON_API void runWalk(OpaqueRun &run, MlirFrozenRewritePatternSet patterns);
LOT_PYTHON_API MlirLogicalResult runNamedSequence(OpaqueRun &run, MlirOperation script, MlirOperation library,
                                                  MlirTransformOptions options);
LOT_PYTHON_API MlirLogicalResult mergeSymbols(OpaqueRun &run, MlirOperation other);

} // namespace lot_python

#endif // LOT_PYTHON_CHANGES_H
