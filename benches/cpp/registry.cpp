// What the tracker costs through its C ABI and its C++ face, beside the peers, and how each cost grows with the
// number of tracked objects, of threads, of ancestors and of children.
//
// Names are table/WHAT/WHO/SIZE or CURVE/WHAT/X[/threads:N]. One iteration does many jobs; items per second
// counts the jobs.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "common.hpp"
#include "peers.hpp"

namespace {

using bench::check;
using bench::object;
using bench::stranger;
using bench::track;
using benchmark::State;

constexpr std::size_t kJobs = 1000;
constexpr std::size_t kUsual = 100'000;

/// What a contender works on, with `size` objects in it; kept from one benchmark to the next, since filling
/// a large one takes long.
struct Population {
  explicit Population(std::size_t size) : tracker("benchmark"), order(bench::shuffledNumbers(size)) {
    refs.reserve(size);
    for (std::size_t number = 0; number < size; ++number)
      refs.push_back(track(tracker, object(number)));
    bench::shuffle(refs);
  }
  lot::OwnedTracker tracker;
  std::vector<lot::Ref> refs;
  std::vector<std::uint32_t> order;
};

template <typename Thing> Thing &shared(std::size_t size) {
  static std::unique_ptr<Thing> thing;
  static std::size_t thingSize = 0;
  if (!thing || thingSize != size) {
    thing.reset(); // Not two at a time.
    thing = std::make_unique<Thing>(size);
    thingSize = size;
  }
  return *thing;
}

/// Runs before the threads start.
template <typename Thing> void prepare(const State &state) { shared<Thing>(state.range(0)); }

/// Goes round in a list, `kJobs` at a time, from another place for each thread.
template <typename T> class Round {
public:
  Round(const std::vector<T> &items, const State &state)
      : items(items), next(items.size() / state.threads() * state.thread_index()) {}
  template <typename Job> void operator()(Job job) {
    for (std::size_t count = 0; count < kJobs; ++count) {
      job(items[next]);
      if (++next == items.size())
        next = 0;
    }
  }

private:
  const std::vector<T> &items;
  std::size_t next;
};

void countJobs(State &state, std::size_t each = kJobs) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(each));
}

// Checks ------------------------------------------------------------------------------------------------

void checkLot(State &state) {
  Population &population = shared<Population>(state.range(0));
  Round<lot::Ref> round(population.refs, state);
  std::size_t live = 0;
  for (auto _ : state)
    round([&](lot::Ref ref) { live += ref.isLive(); });
  check(live == state.iterations() * kJobs, "all are live");
  countJobs(state);
}

void checkC(State &state) {
  Population &population = shared<Population>(state.range(0));
  Round<lot::Ref> round(population.refs, state);
  std::size_t live = 0;
  for (auto _ : state)
    round([&](lot::Ref ref) { live += lot_is_live(ref.raw()); });
  check(live == state.iterations() * kJobs, "all are live");
  countJobs(state);
}

struct FloorTable {
  struct Entry {
    std::uint64_t unused;
    std::atomic<std::uint64_t> epoch;
  };
  struct Key {
    std::uint64_t slot;
    std::uint64_t epoch;
  };
  explicit FloorTable(std::size_t size) : entries(size) {
    for (std::size_t number = 0; number < size; ++number) {
      entries[number].epoch.store(number << 32 | 1, std::memory_order_relaxed);
      keys.push_back({number, number << 32 | 1});
    }
    bench::shuffle(keys);
  }
  std::vector<Entry> entries;
  std::vector<Key> keys;
};

/// One relaxed load and a comparison, in a table and with keys as large as the tracker's.
void checkFloor(State &state) {
  FloorTable &table = shared<FloorTable>(state.range(0));
  Round<FloorTable::Key> round(table.keys, state);
  std::size_t live = 0;
  for (auto _ : state)
    round([&](FloorTable::Key key) {
      live += table.entries[key.slot].epoch.load(std::memory_order_relaxed) == key.epoch;
    });
  check(live == state.iterations() * kJobs, "all are live");
  countJobs(state);
}

// Questions and hooks by address ------------------------------------------------------------------------

void findLot(State &state) {
  Population &population = shared<Population>(state.range(0));
  Round<std::uint32_t> round(population.order, state);
  std::size_t found = 0;
  for (auto _ : state)
    round([&](std::uint32_t number) { found += !population.tracker.find(object(number)).isNull(); });
  check(found == state.iterations() * kJobs, "all are found");
  countJobs(state);
}

void missLot(State &state) {
  Population &population = shared<Population>(state.range(0));
  Round<std::uint32_t> round(population.order, state);
  for (auto _ : state)
    round([&](std::uint32_t number) {
      population.tracker.destroyed(stranger(number)).ignore();
    });
  countJobs(state);
}

void emptyLot(State &state) {
  static lot::OwnedTracker tracker("benchmark");
  for (auto _ : state)
    for (std::size_t number = 0; number < kJobs; ++number)
      tracker.destroyed(stranger(number)).ignore();
  countJobs(state);
}

std::atomic<std::uint32_t> neverBusy{0};

__attribute__((noinline)) lot_status loadAndBranch(lot_tracker, const void *object) {
  if (neverBusy.load(std::memory_order_acquire) == 0)
    return LOT_OK;
  return static_cast<lot_status>(reinterpret_cast<std::uintptr_t>(object));
}

/// The least that a hook behind a call can do.
void emptyFloor(State &state) {
  for (auto _ : state)
    for (std::size_t number = 0; number < kJobs; ++number)
      benchmark::DoNotOptimize(loadAndBranch(lot_tracker{1}, stranger(number)));
  countJobs(state);
}

// Track and release ---------------------------------------------------------------------------------------

/// Each thread has objects of its own beside the population: in one scope, or in a scope for each thread.
template <bool ScopeForEachThread> void trackReleaseLot(State &state) {
  Population &population = shared<Population>(state.range(0));
  std::uint64_t scope = ScopeForEachThread ? 100 + state.thread_index() : 1;
  std::size_t number = (state.thread_index() + 1) * 100'000'000;
  Round<std::uint32_t> round(population.order, state);
  for (auto _ : state)
    round([&](std::uint32_t offset) {
      lot::Ref ref = track(population.tracker, object(number + offset), {}, scope);
      check(bool(ref.release()), "release");
    });
  countJobs(state);
}

/// Each thread has a scope of its own, and the threads' objects take turns in memory: in groups of a few kilobytes, as
/// pages, or one by one.
template <std::size_t Group> void trackReleaseMixedLot(State &state) {
  Population &population = shared<Population>(state.range(0));
  std::uint64_t scope = 100 + state.thread_index();
  Round<std::uint32_t> round(population.order, state);
  for (auto _ : state)
    round([&](std::uint32_t offset) {
      std::size_t group = offset / Group * state.threads() + state.thread_index();
      const void *mine = object(100'000'000 + group * Group + offset % Group);
      check(bool(track(population.tracker, mine, {}, scope).release()), "release");
    });
  countJobs(state);
}

/// As bindings do it: with a chain of ancestors that are known already.
void trackReleaseBelowLot(State &state) {
  Population &population = shared<Population>(state.range(0));
  const void *ancestors[] = {stranger(1), stranger(2), stranger(3), stranger(4)};
  lot::Ref sibling = track(population.tracker, stranger(5), ancestors);
  std::size_t number = (state.thread_index() + 1) * 100'000'000;
  Round<std::uint32_t> round(population.order, state);
  for (auto _ : state)
    round([&](std::uint32_t offset) {
      lot::Ref ref = track(population.tracker, object(number + offset), ancestors);
      check(bool(ref.release()), "release");
    });
  check(bool(sibling.release()), "release");
  countJobs(state);
}

template <typename Mutex> struct Llvm19Population {
  explicit Llvm19Population(std::size_t size) : order(bench::shuffledNumbers(size)) {
    for (std::size_t number = 0; number < size; ++number)
      map.insert(object(number), &wrapper);
  }
  typename bench::Llvm19<Mutex>::Wrapper wrapper{nullptr, true};
  bench::Llvm19<Mutex> map;
  std::vector<std::uint32_t> order;
};

template <typename Mutex> void trackReleaseLlvm19(State &state) {
  auto &population = shared<Llvm19Population<Mutex>>(state.range(0));
  std::size_t number = (state.thread_index() + 1) * 100'000'000;
  Round<std::uint32_t> round(population.order, state);
  for (auto _ : state)
    round([&](std::uint32_t offset) {
      population.map.insert(object(number + offset), &population.wrapper);
      population.map.erase(object(number + offset));
    });
  check(population.map.size() == population.order.size() || state.threads() > 1, "all are erased");
  countJobs(state);
}

struct ShibokenPopulation {
  explicit ShibokenPopulation(std::size_t size) : order(bench::shuffledNumbers(size)) {
    root = map.insert(stranger(0), nullptr);
    for (std::size_t number = 0; number < size; ++number)
      map.insert(object(number), root);
  }
  ~ShibokenPopulation() {
    while (!root->children.empty())
      map.release(*root->children.begin());
    map.release(root);
  }
  bench::Shiboken map;
  bench::Shiboken::Wrapper *root;
  std::vector<std::uint32_t> order;
};

void trackReleaseShiboken(State &state) {
  ShibokenPopulation &population = shared<ShibokenPopulation>(state.range(0));
  std::size_t number = (state.thread_index() + 1) * 100'000'000;
  Round<std::uint32_t> round(population.order, state);
  for (auto _ : state)
    round([&](std::uint32_t offset) {
      population.map.release(population.map.insert(object(number + offset), population.root));
    });
  countJobs(state);
}

// Curves -----------------------------------------------------------------------------------------------

/// One object is tracked below a chain of ancestors that are known, and released.
void depthLot(State &state) {
  lot::OwnedTracker tracker("benchmark");
  std::vector<const void *> ancestors;
  for (std::int64_t level = 0; level < state.range(0); ++level)
    ancestors.push_back(object(1000 + level));
  lot::Ref sibling = track(tracker, object(0), ancestors);
  for (auto _ : state)
    check(bool(track(tracker, object(1), ancestors).release()), "release");
  check(sibling.isLive(), "the sibling is live");
  countJobs(state, 1);
}

/// An object that is tracked is met again, with all its ancestors reported.
void depthAgainLot(State &state) {
  lot::OwnedTracker tracker("benchmark");
  std::vector<const void *> ancestors;
  for (std::int64_t level = 0; level < state.range(0); ++level)
    ancestors.push_back(object(1000 + level));
  lot::Ref ref = track(tracker, object(0), ancestors);
  for (auto _ : state)
    check(track(tracker, object(0), ancestors) == ref, "it is the same");
  countJobs(state, 1);
}

/// A parent of many is erased: the time for each child.
void fanOutEraseLot(State &state) {
  lot::OwnedTracker tracker("benchmark");
  auto children = static_cast<std::size_t>(state.range(0));
  const void *ancestors[] = {stranger(0)};
  for (auto _ : state) {
    for (std::size_t child = 0; child < children; ++child)
      (void)track(tracker, object(child), ancestors);
    auto start = std::chrono::steady_clock::now();
    check(bool(tracker.erase(ancestors[0])), "erase");
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count());
  }
  check(tracker.count() == 0, "all have ended");
  countJobs(state, children);
}

/// One child of many comes and goes.
void fanOutChildLot(State &state) {
  lot::OwnedTracker tracker("benchmark");
  const void *ancestors[] = {stranger(0)};
  for (std::int64_t child = 0; child < state.range(0); ++child)
    (void)track(tracker, object(child), ancestors);
  for (auto _ : state) {
    (void)track(tracker, stranger(1), ancestors);
    check(bool(tracker.destroyed(stranger(1))), "destroy");
  }
  countJobs(state, 1);
}

void registerCurves() {
  for (auto [name, run] : {std::pair("size/is_live", checkC),
                           std::pair("size/is_live, by lot.hpp", checkLot), std::pair("size/find", findLot),
                           std::pair("size/destroy of a stranger", missLot),
                           std::pair("size/track and release", trackReleaseLot<false>),
                           std::pair("size/load and compare", checkFloor)})
    for (std::int64_t size : {1000, 10'000, 100'000, 1'000'000, 10'000'000})
      benchmark::RegisterBenchmark(name, run)->Arg(size);
  for (auto [name, run] :
       {std::pair("threads/is_live", checkC), std::pair("threads/find", findLot),
        std::pair("threads/destroy of a stranger", missLot),
        std::pair("threads/track and release, a scope each", trackReleaseLot<true>),
        std::pair("threads/track and release, one scope", trackReleaseLot<false>)})
    for (int threads : {1, 2, 4, 8})
      benchmark::RegisterBenchmark(name, run)
          ->Arg(kUsual)
          ->Setup(prepare<Population>)
          ->Threads(threads)
          ->UseRealTime();
  for (auto [name, run] : {std::pair("depth/track and release", depthLot),
                           std::pair("depth/track again", depthAgainLot)})
    for (std::int64_t depth : {1, 3, 10, 30, 100, 300, 1000})
      benchmark::RegisterBenchmark(name, run)->Arg(depth);
  for (std::int64_t children : {1, 10, 100, 1000, 10'000, 100'000, 1'000'000})
    benchmark::RegisterBenchmark("fan-out/erase of the parent, for each child", fanOutEraseLot)
        ->Arg(children)
        ->UseManualTime();
  for (std::int64_t children : {1, 10, 100, 1000, 10'000, 100'000, 1'000'000})
    benchmark::RegisterBenchmark("fan-out/one child comes and goes", fanOutChildLot)->Arg(children);
}

void registerTable() {
  auto add = [](const char *name, void (*run)(State &), std::int64_t size = kUsual) {
    return benchmark::RegisterBenchmark(name, run)->Arg(size);
  };
  add("table/is_live/lot", checkLot);
  add("table/is_live/lot_c", checkC);
  add("table/is_live/floor", checkFloor);
  add("table/find/lot", findLot);
  add("table/destroy_miss/lot", missLot);
  add("table/destroy_empty/lot", emptyLot);
  add("table/destroy_empty/floor", emptyFloor);
  add("table/track_release/lot", trackReleaseLot<false>);
  add("table/track_release/lot_below", trackReleaseBelowLot);
  add("table/track_release/llvm19_mutex", trackReleaseLlvm19<std::mutex>);
  add("table/track_release/llvm19_unlocked", trackReleaseLlvm19<bench::NoMutex>);
  add("table/track_release/shiboken", trackReleaseShiboken);
  for (int threads : {1, 2}) {
    add("table/threads/lot_scope_each", trackReleaseLot<true>)
        ->Setup(prepare<Population>)
        ->Threads(threads)
        ->UseRealTime();
    add("table/threads/lot_scope_each_mixed_pages", trackReleaseMixedLot<32>)
        ->Setup(prepare<Population>)
        ->Threads(threads)
        ->UseRealTime();
    add("table/threads/lot_scope_each_mixed", trackReleaseMixedLot<1>)
        ->Setup(prepare<Population>)
        ->Threads(threads)
        ->UseRealTime();
    add("table/threads/lot_one_scope", trackReleaseLot<false>)
        ->Setup(prepare<Population>)
        ->Threads(threads)
        ->UseRealTime();
    add("table/threads/llvm19_mutex", trackReleaseLlvm19<std::mutex>)
        ->Setup(prepare<Llvm19Population<std::mutex>>)
        ->Threads(threads)
        ->UseRealTime();
  }
}

} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 1;
  registerTable();
  registerCurves();
  benchmark::RunSpecifiedBenchmarks();
}
