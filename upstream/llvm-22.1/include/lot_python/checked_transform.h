// What checked_calls.h does, for the transform interpreter, whose header in MLIR can only be included once: this one comes
// after it.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_CHECKED_TRANSFORM_H
#define LOT_PYTHON_CHECKED_TRANSFORM_H

#include "lot_python/observers.h"

namespace lot_python {
namespace checked {

LOT_PYTHON_API extern decltype(::mlirTransformApplyNamedSequence) mlirTransformApplyNamedSequence;
LOT_PYTHON_API extern decltype(::mlirMergeSymbolsIntoFromClone) mlirMergeSymbolsIntoFromClone;

} // namespace checked
} // namespace lot_python

#ifndef LOT_PYTHON_UNCHECKED_CALLS
#define mlirTransformApplyNamedSequence lot_python::checked::mlirTransformApplyNamedSequence
#define mlirMergeSymbolsIntoFromClone lot_python::checked::mlirMergeSymbolsIntoFromClone
#endif

#endif // LOT_PYTHON_CHECKED_TRANSFORM_H
