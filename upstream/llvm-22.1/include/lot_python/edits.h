// What Python code has changed by hand inside of a rewrite driver's root, in a callback of that driver. The driver goes
// on when the callback is over, with code that relies on IR that is made as it has to be, and ends the process
// otherwise. So what was changed is looked at before it goes on, and nothing else is: a callback costs what it does.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_EDITS_H
#define LOT_PYTHON_EDITS_H

#include "llvm/ADT/BitmaskEnum.h"
#include "llvm/ADT/MapVector.h"
#include "mlir-c/IR.h"

namespace lot_python {

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

/// What of an operation was changed.
enum class Edit : unsigned {
  Itself = 1,   ///< attributes, operands, successors, types of results, its place in its block
  Regions = 2,  ///< which blocks it has, their arguments, or the ends of them
  Users = 4,    ///< types or place of its results
  Arguments = 8, ///< types of arguments of its blocks
  Inside = 16,  ///< anything at all, it itself and what is in it
  LLVM_MARK_AS_BITMASK_ENUM(Inside)
};

/// All of it are operations that live: what ends is forgotten.
using Edits = llvm::MapVector<void *, Edit>;

// Each of these does nothing unless a driver on this thread works on what encloses the operation. To be called before the
// change, unless it says otherwise.

void noteEdit(MlirOperation operation, Edit edit);
/// An operation is put somewhere, or taken from there. To be called before and after.
void noteEditOfPlace(MlirOperation operation);
/// A value gets another type.
void noteEditOfType(MlirValue value);
/// The uses of a value become uses of another one.
void noteEditOfUsers(MlirValue value);
/// A block gets an argument, or loses one.
void noteEditOfArguments(MlirBlock block);
/// An operation ends; with `replaced`, other values take the place of its results.
void noteEditOfEnd(MlirOperation operation, bool replaced = false);

} // namespace lot_python

#endif // LOT_PYTHON_EDITS_H
