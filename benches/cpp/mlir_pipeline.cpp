// What load hooks and tracking cost in the life of a real module: parse, canonicalize, cse, destroy.
//
// mlir_pipeline OPERATIONS ROUNDS MODE...: goes through the modes in turn, ROUNDS times; a line of
// standard output for each, with tabs between: mode, tracked operations, and nanoseconds for parse, track,
// canonicalize, cse, destroy. A mode is `off` (no tracker), or how many in 1,000 operations are tracked with
// load hooks on. Under callgrind each mode is counted, under its name.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <array>
#include <chrono>
#include <memory>
#include <string>

#include <valgrind/callgrind.h>

#include "common.hpp"
#include "lot/mlir.hpp"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

namespace {

using bench::check;
using Clock = std::chrono::steady_clock;

/// Functions as front ends emit them: some of it repeats (cse removes it), some folds, some is dead.
std::string source(std::size_t operations) {
  constexpr std::size_t each = 25;
  std::string text;
  for (std::size_t function = 0; function < operations / each; ++function) {
    text += "func.func @f" + std::to_string(function) + R"((%a: i64, %b: i64, %n: index) -> i64 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  %none = arith.constant 0 : i64
  %sum = arith.addi %a, %b : i64
  %again = arith.addi %a, %b : i64
  %folds = arith.addi %sum, %none : i64
  %dead = arith.muli %sum, %two : i64
  %product = arith.muli %again, %folds : i64
  %loop = scf.for %i = %zero to %n step %one iter_args(%x = %product) -> (i64) {
    %index = arith.index_cast %i : index to i64
    %scaled = arith.muli %index, %three : i64
    %repeated = arith.muli %index, %three : i64
    %small = arith.cmpi slt, %scaled, %x : i64
    %chosen = scf.if %small -> (i64) {
      %added = arith.addi %x, %repeated : i64
      scf.yield %added : i64
    } else {
      %taken = arith.subi %x, %scaled : i64
      scf.yield %taken : i64
    }
    %next = arith.xori %chosen, %two : i64
    scf.yield %next : i64
  }
  %result = arith.addi %loop, %sum : i64
  return %result : i64
}
)";
  }
  return text;
}

/// How many in 1,000 operations are tracked; -1: no tracker, no hooks.
void run(const std::string &text, int tracked, const char *mode) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::scf::SCFDialect>();
  std::unique_ptr<lot::OwnedTracker> tracker;
  if (tracked >= 0) {
    tracker = std::make_unique<lot::OwnedTracker>("pipeline");
    mlir::Operation *(*symbol)(const mlir::OperationState &) = &mlir::Operation::create;
    check(lot_mlir_install_load_hooks(tracker->raw(), reinterpret_cast<const void *>(symbol),
                                      &lot::mlir::selfTest, nullptr) == LOT_OK,
          "load hooks");
  }
  mlir::PassManager canonicalize(&context), cse(&context);
  canonicalize.addPass(mlir::createCanonicalizerPass());
  cse.addPass(mlir::createCSEPass());
  std::size_t operations = 0, refs = 0;

  CALLGRIND_START_INSTRUMENTATION;
  std::array<Clock::time_point, 6> times;
  times[0] = Clock::now();
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(&context));
  check(bool(module), "the module parses");
  times[1] = Clock::now();
  if (tracked > 0)
    module->walk([&](mlir::Operation *operation) {
      if (operations++ % 1000 >= static_cast<std::size_t>(tracked))
        return;
      lot::Ref ref;
      check(bool(lot::mlir::track(*tracker, operation, ref)), "track");
      ++refs;
    });
  times[2] = Clock::now();
  check(mlir::succeeded(canonicalize.run(*module)), "canonicalize");
  times[3] = Clock::now();
  check(mlir::succeeded(cse.run(*module)), "cse");
  times[4] = Clock::now();
  module = nullptr;
  times[5] = Clock::now();
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS_AT(mode);

  if (tracker)
    check(tracker->count() == 0, "all have ended");
  std::printf("%s\t%zu", mode, refs);
  for (std::size_t phase = 1; phase < times.size(); ++phase)
    std::printf("\t%lld", static_cast<long long>((times[phase] - times[phase - 1]).count()));
  std::printf("\n");
  if (tracker)
    check(lot_mlir_uninstall_load_hooks(tracker->raw()) == LOT_OK, "load hooks taken back");
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: mlir_pipeline OPERATIONS ROUNDS MODE...\n");
    return 2;
  }
  std::string text = source(std::stoul(argv[1]));
  // Once small for each mode: what happens on first use only is not the subject.
  std::string small = source(1000);
  auto tracked = [](const char *mode) { return std::string(mode) == "off" ? -1 : std::stoi(mode); };
  std::fflush(stdout);
  for (int argument = 3; argument < argc; ++argument)
    run(small, tracked(argv[argument]), "warm-up");
  for (int round = 0; round < std::stoi(argv[2]); ++round)
    for (int argument = 3; argument < argc; ++argument)
      run(text, tracked(argv[argument]), argv[argument]);
}
