// Erasing an operation that encloses N operations of which n are tracked: what it takes to find the n. The
// tracker knows them; LLVM 19's design walks all N and looks each up. The IR itself is left alone.
//
// Names are erase/WHO/N/n; one item is one erase.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <chrono>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "common.hpp"
#include "lot/mlir.hpp"
#include "peers.hpp"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Operation.h"

namespace {

using benchmark::State;
using Clock = std::chrono::steady_clock;

/// A root with functions of 1,000 operations.
class Module {
public:
  explicit Module(std::size_t operations) : context(mlir::MLIRContext::Threading::DISABLED) {
    context.allowUnregisteredDialects();
    root = make(1);
    mlir::Block *top = addBlock(root);
    mlir::Block *body = nullptr;
    for (std::size_t number = 0; number < operations; ++number) {
      bool isFunction = number % 1000 == 0;
      mlir::Operation *operation = make(isFunction ? 1 : 0);
      (isFunction ? top : body)->push_back(operation);
      if (isFunction)
        body = addBlock(operation);
      all.push_back(operation);
    }
  }
  ~Module() { root->erase(); }

  mlir::MLIRContext context;
  mlir::Operation *root;
  std::vector<mlir::Operation *> all;

private:
  mlir::Operation *make(unsigned regions) {
    mlir::OperationState state(mlir::UnknownLoc::get(&context), "bench.operation");
    for (unsigned region = 0; region < regions; ++region)
      (void)state.addRegion();
    return mlir::Operation::create(state);
  }
  static mlir::Block *addBlock(mlir::Operation *operation) {
    auto *block = new mlir::Block();
    operation->getRegion(0).push_back(block);
    return block;
  }
};

Module &moduleOf(std::size_t operations) {
  static std::unique_ptr<Module> module;
  if (!module || module->all.size() != operations) {
    module.reset();
    module = std::make_unique<Module>(operations);
  }
  return *module;
}

template <typename Track, typename Erase>
void erase(State &state, Track trackOne, Erase eraseRoot) {
  Module &module = moduleOf(state.range(0));
  std::size_t tracked = state.range(1);
  std::size_t step = module.all.size() / tracked;
  for (auto _ : state) {
    for (std::size_t number = 0; number < tracked; ++number)
      trackOne(module.all[number * step]);
    auto start = Clock::now();
    eraseRoot(module.root);
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
  state.SetItemsProcessed(state.iterations());
}

void eraseLot(State &state) {
  lot::OwnedTracker tracker("benchmark");
  erase(
      state,
      [&](mlir::Operation *operation) {
        lot::Ref ref;
        bench::check(bool(lot::mlir::track(tracker, operation, ref)), "track");
      },
      [&](mlir::Operation *root) { bench::check(bool(tracker.erase(root)), "erase"); });
  bench::check(tracker.count() == 0, "all have ended");
}

template <typename Mutex> void eraseLlvm19(State &state) {
  bench::Llvm19<Mutex> map;
  std::vector<std::unique_ptr<typename bench::Llvm19<Mutex>::Wrapper>> wrappers;
  erase(
      state,
      [&](mlir::Operation *operation) {
        using Wrapper = typename bench::Llvm19<Mutex>::Wrapper;
        wrappers.push_back(std::make_unique<Wrapper>(Wrapper{operation, true}));
        map.insert(operation, wrappers.back().get());
      },
      [&](mlir::Operation *root) {
        root->walk([&](mlir::Operation *operation) { map.invalidate(operation); });
        wrappers.clear();
      });
  bench::check(map.size() == 0, "all have ended");
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 1;
  auto add = [](std::int64_t operations, std::int64_t tracked) {
    for (auto [name, run] : {std::pair("erase/lot", &eraseLot),
                             std::pair("erase/llvm19_mutex", &eraseLlvm19<std::mutex>),
                             std::pair("erase/llvm19_unlocked", &eraseLlvm19<bench::NoMutex>)})
      benchmark::RegisterBenchmark(name, run)
          ->Args({operations, tracked})
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond)
          // Most of the time goes into the preparation, which does not count.
          ->Iterations(operations >= 1'000'000 ? 5 : 20);
  };
  for (std::int64_t operations : {10'000, 100'000})
    add(operations, 1000);
  for (std::int64_t tracked : {10, 100, 1000, 10'000, 100'000})
    add(1'000'000, tracked);
  benchmark::RunSpecifiedBenchmarks();
}
