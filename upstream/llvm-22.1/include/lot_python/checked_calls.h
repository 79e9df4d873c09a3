// The functions of MLIR's C API that the bindings must not call as they are: MLIR ends the process when it is given
// arguments that do not fit, or makes something that another context frees.
//
// After this header, each of their names stands for a checked variant of the same type. It looks at the raw arguments
// right before the call, so whatever calls the function is covered, upstream's code and ours, and nothing can happen
// between the check and the act. The variants raise ValueError (IndexError for an index).
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_PYTHON_CHECKED_CALLS_H
#define LOT_PYTHON_CHECKED_CALLS_H

#include "lot_python/edits.h"
#include "lot_python/one_context.h"
#include "lot_python/tracking.h"
#include "mlir-c/AffineExpr.h"
#include "mlir-c/AffineMap.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Diagnostics.h"
#include "mlir-c/Dialect/IRDL.h"
#include "mlir-c/Dialect/LLVM.h"
#include "mlir-c/Dialect/Linalg.h"
#include "mlir-c/Dialect/SMT.h"
#include "mlir-c/ExecutionEngine.h"
#include "mlir-c/IR.h"
#include "mlir-c/IntegerSet.h"
#include "mlir-c/Interfaces.h"
#include "mlir-c/Pass.h"
#include "mlir-c/Rewrite.h"
#include "mlir-c/Support.h"
#include "mlir-c/Target/ExportSMTLIB.h"
#include "mlir-c/Target/LLVMIR.h"

namespace lot_python {

// ---- What a whole tree must be like.

/// Whether MLIR's verifier, and whatever begins with it, can look at `operation`. It cannot if something in the tree that
/// encloses the operation uses a result of an operation that is in no block: MLIR asserts that one of the two comes first.
/// A few verifiers end the process for what is not valid.
LOT_PYTHON_API bool isVerifiable(MlirOperation operation);
/// Raises ValueError if not.
LOT_PYTHON_API void requireVerifiable(MlirOperation operation, const char *act);
/// Raises ValueError if something inside of `operation` uses a value or block from outside of it.
LOT_PYTHON_API void requireUsesInside(MlirOperation operation, const char *act);

/// Whether MLIR's verifier accepts the operation.
LOT_PYTHON_API bool isValid(MlirOperation operation);
/// What an operation is to be used for. Rewrite drivers and passes need no terminator where they look for none.
enum class Use { Driver, Passes, Otherwise };
/// What is wrong with the make of an operation or of one inside of it: numbers and types of operands and results, regions,
/// successors, attributes, and terminators of blocks. Empty if nothing is. MLIR ends the process for much of that. With
/// `tell` it is reported as an error, as the verifier does.
LOT_PYTHON_API std::string findFault(MlirOperation operation, Use use, bool tell = false);
/// The same of what was changed in a callback of a rewrite driver, and for what it may have spoilt.
std::string findFault(const Edits &edits);

// ---- What an operation can be made with.

/// Raises ValueError if an operation of this name cannot have that many regions or any successors.
LOT_PYTHON_API void requireCreatable(MlirContext context, MlirStringRef name, std::intptr_t regions,
                                     std::intptr_t successors);

namespace checked {

#define LOT_PYTHON_SAME(name) LOT_PYTHON_API extern decltype(::name) name;
#define LOT_PYTHON_CHECKED_CALLS(X)                                                                                    \
  /* Locations. */                                                                                                     \
  X(mlirLocationCallSiteGetCallee)                                                                                     \
  X(mlirLocationCallSiteGetCaller)                                                                                     \
  X(mlirLocationFileLineColRangeGetFilename)                                                                           \
  X(mlirLocationNameGetName)                                                                                           \
  X(mlirLocationNameGetChildLoc)                                                                                       \
  X(mlirLocationFromAttribute)                                                                                         \
  X(mlirLocationCallSiteGet)                                                                                           \
  /* Attributes. */                                                                                                    \
  X(mlirIntegerAttrGet)                                                                                                \
  X(mlirIntegerAttrGetValueInt)                                                                                        \
  X(mlirIntegerAttrGetValueSInt)                                                                                       \
  X(mlirIntegerAttrGetValueUInt)                                                                                       \
  X(mlirBoolAttrGetValue)                                                                                              \
  X(mlirFloatAttrGetValueDouble)                                                                                       \
  X(mlirFloatAttrDoubleGet)                                                                                            \
  X(mlirArrayAttrGetElement)                                                                                           \
  X(mlirDictionaryAttrGet)                                                                                             \
  X(mlirDictionaryAttrGetElement)                                                                                      \
  X(mlirNamedAttributeGet)                                                                                             \
  X(mlirDenseBoolArrayGetElement)                                                                                      \
  X(mlirDenseI8ArrayGetElement)                                                                                        \
  X(mlirDenseI16ArrayGetElement)                                                                                       \
  X(mlirDenseI32ArrayGetElement)                                                                                       \
  X(mlirDenseI64ArrayGetElement)                                                                                       \
  X(mlirDenseF32ArrayGetElement)                                                                                       \
  X(mlirDenseF64ArrayGetElement)                                                                                       \
  X(mlirOpaqueAttrGet)                                                                                                 \
  X(mlirDenseElementsAttrGet)                                                                                          \
  X(mlirDenseElementsAttrSplatGet)                                                                                     \
  X(mlirDenseElementsAttrRawBufferGet)                                                                                 \
  X(mlirUnmanagedDenseResourceElementsAttrGet)                                                                         \
  X(mlirStringAttrGetValue)                                                                                            \
  X(mlirAttributeParseGet)                                                                                             \
  /* Types. */                                                                                                         \
  X(mlirIntegerTypeGet)                                                                                                \
  X(mlirIntegerTypeSignedGet)                                                                                          \
  X(mlirIntegerTypeUnsignedGet)                                                                                        \
  X(mlirComplexTypeGet)                                                                                                \
  X(mlirVectorTypeGet)                                                                                                 \
  X(mlirVectorTypeGetScalable)                                                                                         \
  X(mlirRankedTensorTypeGet)                                                                                           \
  X(mlirUnrankedTensorTypeGet)                                                                                         \
  X(mlirMemRefTypeGet)                                                                                                 \
  X(mlirMemRefTypeGetChecked)                                                                                          \
  X(mlirUnrankedMemRefTypeGet)                                                                                         \
  X(mlirOpaqueTypeGet)                                                                                                 \
  X(mlirShapedTypeGetDimSize)                                                                                          \
  X(mlirShapedTypeIsDynamicDim)                                                                                        \
  X(mlirShapedTypeIsStaticDim)                                                                                         \
  X(mlirVectorTypeIsDimScalable)                                                                                       \
  X(mlirTupleTypeGetType)                                                                                              \
  X(mlirFunctionTypeGetInput)                                                                                          \
  X(mlirFunctionTypeGetResult)                                                                                         \
  X(mlirLLVMPointerTypeGet)                                                                                            \
  X(mlirLLVMStructTypeLiteralGet)                                                                                      \
  X(mlirLLVMStructTypeLiteralGetChecked)                                                                               \
  X(mlirLLVMStructTypeIdentifiedGet)                                                                                   \
  X(mlirLLVMStructTypeIdentifiedNewGet)                                                                                \
  X(mlirLLVMStructTypeOpaqueGet)                                                                                       \
  X(mlirLLVMStructTypeSetBody)                                                                                         \
  X(mlirLLVMStructTypeGetElementType)                                                                                  \
  X(mlirTypeParseGet)                                                                                                  \
  X(mlirSMTTypeGetBool)                                                                                                \
  X(mlirSMTTypeGetInt)                                                                                                 \
  X(mlirSMTTypeGetBitVector)                                                                                           \
  /* Affine expressions, maps and sets. */                                                                             \
  X(mlirAffineDimExprGet)                                                                                              \
  X(mlirAffineSymbolExprGet)                                                                                           \
  X(mlirAffineExprShiftDims)                                                                                           \
  X(mlirAffineExprShiftSymbols)                                                                                        \
  X(mlirSimplifyAffineExpr)                                                                                            \
  X(mlirAffineMapGet)                                                                                                  \
  X(mlirAffineMapMultiDimIdentityGet)                                                                                  \
  X(mlirAffineMapMinorIdentityGet)                                                                                     \
  X(mlirAffineMapPermutationGet)                                                                                       \
  X(mlirAffineMapGetResult)                                                                                            \
  X(mlirAffineMapGetMajorSubMap)                                                                                       \
  X(mlirAffineMapGetMinorSubMap)                                                                                       \
  X(mlirAffineMapReplace)                                                                                              \
  X(mlirIntegerSetGet)                                                                                                 \
  X(mlirIntegerSetEmptyGet)                                                                                            \
  X(mlirIntegerSetReplaceGet)                                                                                          \
  /* Operations, blocks and values. */                                                                                 \
  X(mlirOperationVerify)                                                                                               \
  X(mlirOperationDump)                                                                                                 \
  X(mlirOperationPrintWithFlags)                                                                                       \
  X(mlirOperationPrintWithState)                                                                                       \
  X(mlirOperationWriteBytecode)                                                                                        \
  X(mlirOperationWriteBytecodeWithConfig)                                                                              \
  X(mlirOperationSetAttributeByName)                                                                                   \
  X(mlirOperationClone)                                                                                                \
  X(mlirOperationCreate)                                                                                               \
  X(mlirInferTypeOpInterfaceInferReturnTypes)                                                                          \
  X(mlirInferShapedTypeOpInterfaceInferReturnTypes)                                                                    \
  X(mlirOperationCreateParse)                                                                                          \
  X(mlirModuleCreateParse)                                                                                             \
  X(mlirModuleCreateParseFromFile)                                                                                     \
  X(mlirBlockPrint)                                                                                                    \
  X(mlirValuePrint)                                                                                                    \
  X(mlirValueDump)                                                                                                     \
  X(mlirAsmStateCreateForOperation)                                                                                    \
  X(mlirAsmStateCreateForValue)                                                                                        \
  X(mlirContextGetThreadPool)                                                                                          \
  /* Whatever runs. */                                                                                                 \
  X(mlirApplyPatternsAndFoldGreedily)                                                                                  \
  X(mlirApplyPatternsAndFoldGreedilyWithOp)                                                                           \
  X(mlirWalkAndApplyPatterns)                                                                                         \
  X(mlirPassManagerRunOnOp)                                                                                            \
  X(mlirExecutionEngineCreate)                                                                                         \
  X(mlirTranslateModuleToLLVMIRToString)                                                                               \
  X(mlirTranslateOperationToSMTLIB)                                                                                    \
  X(mlirLoadIRDLDialects)                                                                                              \
  X(mlirLinalgFillBuiltinNamedOpRegion)                                                                                \
  X(mlirLinalgIsAContractionOp)                                                                                        \
  X(mlirLinalgIsAConvolutionOp)                                                                                        \
  X(mlirLinalgInferContractionDimensions)                                                                              \
  X(mlirLinalgInferConvolutionDimensions)                                                                              \
  X(mlirLinalgGetIndexingMapsAttribute)                                                                                \
  X(mlirLinalgInferContractionDimensionsFromMaps)

LOT_PYTHON_CHECKED_CALLS(LOT_PYTHON_SAME)
#undef LOT_PYTHON_SAME

} // namespace checked
} // namespace lot_python

#ifndef LOT_PYTHON_UNCHECKED_CALLS // for the checked variants themselves

#define mlirLocationCallSiteGetCallee lot_python::checked::mlirLocationCallSiteGetCallee
#define mlirLocationCallSiteGetCaller lot_python::checked::mlirLocationCallSiteGetCaller
#define mlirLocationFileLineColRangeGetFilename lot_python::checked::mlirLocationFileLineColRangeGetFilename
#define mlirLocationNameGetName lot_python::checked::mlirLocationNameGetName
#define mlirLocationNameGetChildLoc lot_python::checked::mlirLocationNameGetChildLoc
#define mlirLocationFromAttribute lot_python::checked::mlirLocationFromAttribute
#define mlirLocationCallSiteGet lot_python::checked::mlirLocationCallSiteGet
#define mlirIntegerAttrGet lot_python::checked::mlirIntegerAttrGet
#define mlirIntegerAttrGetValueInt lot_python::checked::mlirIntegerAttrGetValueInt
#define mlirIntegerAttrGetValueSInt lot_python::checked::mlirIntegerAttrGetValueSInt
#define mlirIntegerAttrGetValueUInt lot_python::checked::mlirIntegerAttrGetValueUInt
#define mlirBoolAttrGetValue lot_python::checked::mlirBoolAttrGetValue
#define mlirFloatAttrGetValueDouble lot_python::checked::mlirFloatAttrGetValueDouble
#define mlirFloatAttrDoubleGet lot_python::checked::mlirFloatAttrDoubleGet
#define mlirArrayAttrGetElement lot_python::checked::mlirArrayAttrGetElement
#define mlirDictionaryAttrGet lot_python::checked::mlirDictionaryAttrGet
#define mlirDictionaryAttrGetElement lot_python::checked::mlirDictionaryAttrGetElement
#define mlirNamedAttributeGet lot_python::checked::mlirNamedAttributeGet
#define mlirDenseBoolArrayGetElement lot_python::checked::mlirDenseBoolArrayGetElement
#define mlirDenseI8ArrayGetElement lot_python::checked::mlirDenseI8ArrayGetElement
#define mlirDenseI16ArrayGetElement lot_python::checked::mlirDenseI16ArrayGetElement
#define mlirDenseI32ArrayGetElement lot_python::checked::mlirDenseI32ArrayGetElement
#define mlirDenseI64ArrayGetElement lot_python::checked::mlirDenseI64ArrayGetElement
#define mlirDenseF32ArrayGetElement lot_python::checked::mlirDenseF32ArrayGetElement
#define mlirDenseF64ArrayGetElement lot_python::checked::mlirDenseF64ArrayGetElement
#define mlirOpaqueAttrGet lot_python::checked::mlirOpaqueAttrGet
#define mlirDenseElementsAttrGet lot_python::checked::mlirDenseElementsAttrGet
#define mlirDenseElementsAttrSplatGet lot_python::checked::mlirDenseElementsAttrSplatGet
#define mlirDenseElementsAttrRawBufferGet lot_python::checked::mlirDenseElementsAttrRawBufferGet
#define mlirUnmanagedDenseResourceElementsAttrGet lot_python::checked::mlirUnmanagedDenseResourceElementsAttrGet
#define mlirStringAttrGetValue lot_python::checked::mlirStringAttrGetValue
#define mlirAttributeParseGet lot_python::checked::mlirAttributeParseGet
#define mlirIntegerTypeGet lot_python::checked::mlirIntegerTypeGet
#define mlirIntegerTypeSignedGet lot_python::checked::mlirIntegerTypeSignedGet
#define mlirIntegerTypeUnsignedGet lot_python::checked::mlirIntegerTypeUnsignedGet
#define mlirComplexTypeGet lot_python::checked::mlirComplexTypeGet
#define mlirVectorTypeGet lot_python::checked::mlirVectorTypeGet
#define mlirVectorTypeGetScalable lot_python::checked::mlirVectorTypeGetScalable
#define mlirRankedTensorTypeGet lot_python::checked::mlirRankedTensorTypeGet
#define mlirUnrankedTensorTypeGet lot_python::checked::mlirUnrankedTensorTypeGet
#define mlirMemRefTypeGet lot_python::checked::mlirMemRefTypeGet
#define mlirMemRefTypeGetChecked lot_python::checked::mlirMemRefTypeGetChecked
#define mlirUnrankedMemRefTypeGet lot_python::checked::mlirUnrankedMemRefTypeGet
#define mlirOpaqueTypeGet lot_python::checked::mlirOpaqueTypeGet
#define mlirShapedTypeGetDimSize lot_python::checked::mlirShapedTypeGetDimSize
#define mlirShapedTypeIsDynamicDim lot_python::checked::mlirShapedTypeIsDynamicDim
#define mlirShapedTypeIsStaticDim lot_python::checked::mlirShapedTypeIsStaticDim
#define mlirVectorTypeIsDimScalable lot_python::checked::mlirVectorTypeIsDimScalable
#define mlirTupleTypeGetType lot_python::checked::mlirTupleTypeGetType
#define mlirFunctionTypeGetInput lot_python::checked::mlirFunctionTypeGetInput
#define mlirFunctionTypeGetResult lot_python::checked::mlirFunctionTypeGetResult
#define mlirLLVMPointerTypeGet lot_python::checked::mlirLLVMPointerTypeGet
#define mlirLLVMStructTypeLiteralGet lot_python::checked::mlirLLVMStructTypeLiteralGet
#define mlirLLVMStructTypeLiteralGetChecked lot_python::checked::mlirLLVMStructTypeLiteralGetChecked
#define mlirLLVMStructTypeIdentifiedGet lot_python::checked::mlirLLVMStructTypeIdentifiedGet
#define mlirLLVMStructTypeIdentifiedNewGet lot_python::checked::mlirLLVMStructTypeIdentifiedNewGet
#define mlirLLVMStructTypeOpaqueGet lot_python::checked::mlirLLVMStructTypeOpaqueGet
#define mlirLLVMStructTypeSetBody lot_python::checked::mlirLLVMStructTypeSetBody
#define mlirLLVMStructTypeGetElementType lot_python::checked::mlirLLVMStructTypeGetElementType
#define mlirTypeParseGet lot_python::checked::mlirTypeParseGet
#define mlirSMTTypeGetBool lot_python::checked::mlirSMTTypeGetBool
#define mlirSMTTypeGetInt lot_python::checked::mlirSMTTypeGetInt
#define mlirSMTTypeGetBitVector lot_python::checked::mlirSMTTypeGetBitVector
#define mlirAffineDimExprGet lot_python::checked::mlirAffineDimExprGet
#define mlirAffineSymbolExprGet lot_python::checked::mlirAffineSymbolExprGet
#define mlirAffineExprShiftDims lot_python::checked::mlirAffineExprShiftDims
#define mlirAffineExprShiftSymbols lot_python::checked::mlirAffineExprShiftSymbols
#define mlirSimplifyAffineExpr lot_python::checked::mlirSimplifyAffineExpr
#define mlirAffineMapGet lot_python::checked::mlirAffineMapGet
#define mlirAffineMapMultiDimIdentityGet lot_python::checked::mlirAffineMapMultiDimIdentityGet
#define mlirAffineMapMinorIdentityGet lot_python::checked::mlirAffineMapMinorIdentityGet
#define mlirAffineMapPermutationGet lot_python::checked::mlirAffineMapPermutationGet
#define mlirAffineMapGetResult lot_python::checked::mlirAffineMapGetResult
#define mlirAffineMapGetMajorSubMap lot_python::checked::mlirAffineMapGetMajorSubMap
#define mlirAffineMapGetMinorSubMap lot_python::checked::mlirAffineMapGetMinorSubMap
#define mlirAffineMapReplace lot_python::checked::mlirAffineMapReplace
#define mlirIntegerSetGet lot_python::checked::mlirIntegerSetGet
#define mlirIntegerSetEmptyGet lot_python::checked::mlirIntegerSetEmptyGet
#define mlirIntegerSetReplaceGet lot_python::checked::mlirIntegerSetReplaceGet
#define mlirOperationVerify lot_python::checked::mlirOperationVerify
#define mlirOperationDump lot_python::checked::mlirOperationDump
#define mlirOperationPrintWithFlags lot_python::checked::mlirOperationPrintWithFlags
#define mlirOperationPrintWithState lot_python::checked::mlirOperationPrintWithState
#define mlirOperationWriteBytecode lot_python::checked::mlirOperationWriteBytecode
#define mlirOperationWriteBytecodeWithConfig lot_python::checked::mlirOperationWriteBytecodeWithConfig
#define mlirOperationSetAttributeByName lot_python::checked::mlirOperationSetAttributeByName
#define mlirOperationClone lot_python::checked::mlirOperationClone
#define mlirOperationCreate lot_python::checked::mlirOperationCreate
#define mlirInferTypeOpInterfaceInferReturnTypes lot_python::checked::mlirInferTypeOpInterfaceInferReturnTypes
#define mlirInferShapedTypeOpInterfaceInferReturnTypes lot_python::checked::mlirInferShapedTypeOpInterfaceInferReturnTypes
#define mlirOperationCreateParse lot_python::checked::mlirOperationCreateParse
#define mlirModuleCreateParse lot_python::checked::mlirModuleCreateParse
#define mlirModuleCreateParseFromFile lot_python::checked::mlirModuleCreateParseFromFile
#define mlirBlockPrint lot_python::checked::mlirBlockPrint
#define mlirValuePrint lot_python::checked::mlirValuePrint
#define mlirValueDump lot_python::checked::mlirValueDump
#define mlirAsmStateCreateForOperation lot_python::checked::mlirAsmStateCreateForOperation
#define mlirAsmStateCreateForValue lot_python::checked::mlirAsmStateCreateForValue
#define mlirContextGetThreadPool lot_python::checked::mlirContextGetThreadPool
#define mlirApplyPatternsAndFoldGreedily lot_python::checked::mlirApplyPatternsAndFoldGreedily
#define mlirApplyPatternsAndFoldGreedilyWithOp lot_python::checked::mlirApplyPatternsAndFoldGreedilyWithOp
#define mlirWalkAndApplyPatterns lot_python::checked::mlirWalkAndApplyPatterns
#define mlirPassManagerRunOnOp lot_python::checked::mlirPassManagerRunOnOp
#define mlirExecutionEngineCreate lot_python::checked::mlirExecutionEngineCreate
#define mlirTranslateModuleToLLVMIRToString lot_python::checked::mlirTranslateModuleToLLVMIRToString
#define mlirTranslateOperationToSMTLIB lot_python::checked::mlirTranslateOperationToSMTLIB
#define mlirLoadIRDLDialects lot_python::checked::mlirLoadIRDLDialects
#define mlirLinalgFillBuiltinNamedOpRegion lot_python::checked::mlirLinalgFillBuiltinNamedOpRegion
#define mlirLinalgIsAContractionOp lot_python::checked::mlirLinalgIsAContractionOp
#define mlirLinalgIsAConvolutionOp lot_python::checked::mlirLinalgIsAConvolutionOp
#define mlirLinalgInferContractionDimensions lot_python::checked::mlirLinalgInferContractionDimensions
#define mlirLinalgInferConvolutionDimensions lot_python::checked::mlirLinalgInferConvolutionDimensions
#define mlirLinalgGetIndexingMapsAttribute lot_python::checked::mlirLinalgGetIndexingMapsAttribute
#define mlirLinalgInferContractionDimensionsFromMaps lot_python::checked::mlirLinalgInferContractionDimensionsFromMaps

// These only need arguments of one context.
#define mlirLocationFusedGet (*lot_python::oneContext<&mlirLocationFusedGet>)
#define mlirLocationNameGet (*lot_python::oneContext<&mlirLocationNameGet>)
#define mlirArrayAttrGet (*lot_python::oneContext<&mlirArrayAttrGet>)
#define mlirSymbolRefAttrGet (*lot_python::oneContext<&mlirSymbolRefAttrGet>)
#define mlirFloatAttrDoubleGetChecked (*lot_python::oneContext<&mlirFloatAttrDoubleGetChecked>)
#define mlirVectorTypeGetChecked (*lot_python::oneContext<&mlirVectorTypeGetChecked>)
#define mlirVectorTypeGetScalableChecked (*lot_python::oneContext<&mlirVectorTypeGetScalableChecked>)
#define mlirRankedTensorTypeGetChecked (*lot_python::oneContext<&mlirRankedTensorTypeGetChecked>)
#define mlirUnrankedTensorTypeGetChecked (*lot_python::oneContext<&mlirUnrankedTensorTypeGetChecked>)
#define mlirUnrankedMemRefTypeGetChecked (*lot_python::oneContext<&mlirUnrankedMemRefTypeGetChecked>)
#define mlirTupleTypeGet (*lot_python::oneContext<&mlirTupleTypeGet>)
#define mlirFunctionTypeGet (*lot_python::oneContext<&mlirFunctionTypeGet>)
#define mlirAffineAddExprGet (*lot_python::oneContext<&mlirAffineAddExprGet>)
#define mlirAffineMulExprGet (*lot_python::oneContext<&mlirAffineMulExprGet>)
#define mlirAffineModExprGet (*lot_python::oneContext<&mlirAffineModExprGet>)
#define mlirAffineFloorDivExprGet (*lot_python::oneContext<&mlirAffineFloorDivExprGet>)
#define mlirAffineCeilDivExprGet (*lot_python::oneContext<&mlirAffineCeilDivExprGet>)
#define mlirAffineExprCompose (*lot_python::oneContext<&mlirAffineExprCompose>)
#define mlirAffineMapCompressUnusedSymbols (*lot_python::oneContext<&mlirAffineMapCompressUnusedSymbols>)
#define mlirOperationSetOperand (*lot_python::oneContext<&mlirOperationSetOperand>)
#define mlirOperationSetSuccessor (*lot_python::oneContext<&mlirOperationSetSuccessor>)
#define mlirOperationSetLocation (*lot_python::oneContext<&mlirOperationSetLocation>)
#define mlirOperationReplaceUsesOfWith (*lot_python::oneContext<&mlirOperationReplaceUsesOfWith>)
#define mlirOperationMoveAfter (*lot_python::oneContext<&mlirOperationMoveAfter>)
#define mlirOperationMoveBefore (*lot_python::oneContext<&mlirOperationMoveBefore>)
#define mlirBlockCreate (*lot_python::oneContext<&mlirBlockCreate>)
#define mlirBlockAddArgument (*lot_python::oneContext<&mlirBlockAddArgument>)
#define mlirBlockArgumentSetType (*lot_python::oneContext<&mlirBlockArgumentSetType>)
#define mlirBlockArgumentSetLocation (*lot_python::oneContext<&mlirBlockArgumentSetLocation>)
#define mlirBlockAppendOwnedOperation (*lot_python::oneContext<&mlirBlockAppendOwnedOperation>)
#define mlirBlockInsertOwnedOperationBefore (*lot_python::oneContext<&mlirBlockInsertOwnedOperationBefore>)
#define mlirValueSetType (*lot_python::oneContext<&mlirValueSetType>)
#define mlirValueReplaceAllUsesOfWith (*lot_python::oneContext<&mlirValueReplaceAllUsesOfWith>)
#define mlirValueReplaceAllUsesExcept (*lot_python::oneContext<&mlirValueReplaceAllUsesExcept>)
#define mlirRewriterBaseReplaceOpWithOperation (*lot_python::oneContext<&mlirRewriterBaseReplaceOpWithOperation>)
#define mlirRewriterBaseReplaceOpWithValues (*lot_python::oneContext<&mlirRewriterBaseReplaceOpWithValues>)

#endif // LOT_PYTHON_UNCHECKED_CALLS

#endif // LOT_PYTHON_CHECKED_CALLS_H
