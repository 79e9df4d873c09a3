// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir.hpp"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/Passes.h"

namespace ir {

void load(mlir::MLIRContext &context) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::func::FuncDialect,
                  mlir::LLVM::LLVMDialect, mlir::scf::SCFDialect>();
  mlir::func::registerInlinerExtension(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  context.allowUnregisteredDialects();
}

std::string text(unsigned copies) {
  std::string all;
  for (unsigned i = 0; i < copies; ++i) {
    std::string number = std::to_string(i);
    all += "func.func private @unused_" + number + R"(() {
      %c = arith.constant 1 : i32
      return
    }
    func.func private @callee_)" + number + R"((%a: i32) -> i32 {
      %c = arith.constant 3 : i32
      %r = arith.addi %a, %c : i32
      return %r : i32
    }
    func.func @caller_)" + number + R"((%a: i32, %b: i1) -> i32 {
      %one = arith.constant 1 : i32
      %again = arith.constant 1 : i32
      %x = arith.addi %a, %one : i32
      %y = arith.addi %a, %again : i32
      %dead = arith.muli %a, %a : i32
      %z = arith.addi %x, %y : i32
      %true = arith.constant true
      %f = scf.if %true -> (i32) {
        %t = arith.muli %z, %one : i32
        scf.yield %t : i32
      } else {
        scf.yield %a : i32
      }
      %g = scf.if %b -> (i32) {
        %u = arith.subi %f, %a : i32
        scf.yield %u : i32
      } else {
        %v = arith.xori %f, %a : i32
        scf.yield %v : i32
      }
      %r = func.call @callee_)" + number + R"((%g) : (i32) -> i32
      return %r : i32
    }
    func.func @branches_)" + number + R"((%c: i1, %a: i32, %d: i32) -> i32 {
      cf.cond_br %c, ^bb1(%a, %d : i32, i32), ^bb2(%a : i32)
    ^bb1(%p: i32, %unused: i32):
      %s = arith.addi %p, %p : i32
      cf.br ^bb3(%s, %d : i32, i32)
    ^bb2(%q: i32):
      cf.br ^bb3(%q, %a : i32, i32)
    ^bb3(%r: i32, %w: i32):
      %m = arith.muli %r, %w : i32
      return %m : i32
    }
)";
  }
  return all;
}

Module parse(mlir::MLIRContext &context, const std::string &source) {
  Module module = mlir::parseSourceString<mlir::ModuleOp>(source, &context);
  EXPECT_TRUE(module);
  return module;
}

const Pipeline pipelines[PIPELINES] = {
    {"canonicalize", [](auto &pm) { pm.addPass(mlir::createCanonicalizerPass()); }},
    {"cse", [](auto &pm) { pm.addPass(mlir::createCSEPass()); }},
    {"symbol_dce", [](auto &pm) { pm.addPass(mlir::createSymbolDCEPass()); }},
    {"inline", [](auto &pm) { pm.addPass(mlir::createInlinerPass()); }},
    {"to_llvm",
     [](auto &pm) {
       pm.addPass(mlir::createSCFToControlFlowPass());
       pm.addPass(mlir::createArithToLLVMConversionPass());
       pm.addPass(mlir::createConvertControlFlowToLLVMPass());
       pm.addPass(mlir::createConvertFuncToLLVMPass());
       pm.addPass(mlir::createReconcileUnrealizedCastsPass());
     }},
};

} // namespace ir
