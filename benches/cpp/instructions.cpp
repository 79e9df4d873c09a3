// For callgrind: runs each path alone a fixed number of times, on made-up objects, so that the number of
// instructions that a job takes is the same in each run. tools/bench/instructions.py runs it.
//
// With LOT_BENCH_PEERS the same jobs as done by others are there too.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <atomic>
#include <cstring>

#include <valgrind/callgrind.h>

#include "common.hpp"
#ifdef LOT_BENCH_PEERS
#include "peers.hpp"
#endif

namespace {

using bench::check;
using bench::object;
using bench::stranger;
using bench::track;

constexpr std::size_t kPopulation = 100'000;
constexpr std::size_t kJobs = 10'000;

/// Counts `job(0)` to `job(jobs - 1)` and says on standard output what they are to be divided by.
template <typename Job>
void count(const char *name, std::size_t jobs, std::size_t each, Job job) {
  CALLGRIND_START_INSTRUMENTATION;
  for (std::size_t number = 0; number < jobs; ++number)
    job(number);
  CALLGRIND_STOP_INSTRUMENTATION;
  CALLGRIND_DUMP_STATS_AT(name);
  std::printf("%s\t%zu\n", name, jobs * each);
}
template <typename Job> void count(const char *name, Job job) { count(name, kJobs, 1, job); }

void countLot() {
  lot::OwnedTracker tracker("instructions");
  tracker.destroyed(object(0)).ignore();
  count("destroy of a stranger, nothing tracked",
        [&](std::size_t number) { tracker.destroyed(stranger(number)).ignore(); });

  std::vector<lot::Ref> refs;
  for (std::size_t number = 0; number < kPopulation; ++number)
    refs.push_back(track(tracker, object(number)));
  bench::shuffle(refs);
  auto order = bench::shuffledNumbers(kPopulation);

  std::size_t live = refs[0].isLive() + lot_is_live(refs[0].raw());
  count("is_live", [&](std::size_t number) { live += lot_is_live(refs[number].raw()); });
  count("is_live, by lot.hpp", [&](std::size_t number) { live += refs[number].isLive(); });
  check(live == 2 * kJobs + 2, "all are live");

  check(tracker.find(object(0)) != lot::Ref(), "found");
  std::size_t found = 0;
  count("find", [&](std::size_t number) {
    found += !tracker.find(object(order[number])).isNull();
  });
  check(found == kJobs, "all are found");

  count("destroy of a stranger, 100k tracked", [&](std::size_t number) {
    tracker.destroyed(stranger(order[number])).ignore();
  });
  check(tracker.count() == kPopulation, "none has ended");

  check(bool(track(tracker, stranger(0)).release()), "release");
  count("track and release", [&](std::size_t number) {
    check(bool(track(tracker, stranger(order[number])).release()), "release");
  });

  // With four ancestors that are known, as for an operation in a function in a module.
  const void *ancestors[] = {stranger(1), stranger(2), stranger(3), stranger(4)};
  (void)track(tracker, stranger(5), ancestors);
  count("track and release, 4 ancestors", [&](std::size_t number) {
    check(bool(track(tracker, stranger(10 + order[number]), ancestors).release()), "release");
  });

  count("track again, 4 ancestors", [&](std::size_t) {
    check(track(tracker, stranger(5), ancestors).epoch() != 0, "tracked");
  });

  count("track and destroy, 4 ancestors", [&](std::size_t number) {
    const void *child = stranger(10 + order[number]);
    (void)track(tracker, child, ancestors);
    check(bool(tracker.destroyed(child)), "destroy");
  });

  constexpr std::size_t parents = 20, children = 1000;
  std::vector<const void *> tops;
  for (std::size_t parent = 0; parent < parents; ++parent) {
    const void *top = object(1'000'000 + parent * 2000);
    tops.push_back(top);
    const void *above[] = {top};
    for (std::size_t child = 0; child < children; ++child)
      (void)track(tracker, object(1'000'001 + parent * 2000 + child), above);
  }
  std::size_t before = tracker.count();
  count("erase of a parent of 1,000, each", parents, children, [&](std::size_t parent) {
    check(bool(tracker.erase(tops[parent])), "erase");
  });
  check(tracker.count() == before - parents * children, "all have ended");
}

#ifdef LOT_BENCH_PEERS
/// Same loops: a call that does the least.
std::atomic<std::uint32_t> neverBusy{0};

__attribute__((noinline)) lot_status loadAndBranch(lot_tracker, const void *object) {
  if (neverBusy.load(std::memory_order_acquire) == 0)
    return LOT_OK;
  return static_cast<lot_status>(reinterpret_cast<std::uintptr_t>(object));
}

template <typename Mutex> void countLlvm19(const char *insertName, const char *findName) {
  bench::Llvm19<Mutex> map;
  typename bench::Llvm19<Mutex>::Wrapper wrapper{nullptr, true};
  for (std::size_t number = 0; number < kPopulation; ++number)
    map.insert(object(number), &wrapper);
  auto order = bench::shuffledNumbers(kPopulation);
  count(insertName, [&](std::size_t number) {
    map.insert(stranger(order[number]), &wrapper);
    map.erase(stranger(order[number]));
  });
  std::size_t found = 0;
  count(findName, [&](std::size_t number) { found += map.find(object(order[number])) != nullptr; });
  check(found == kJobs, "all are found");
}

void countPeers() {
  count("peer: load and branch in a call", [&](std::size_t number) {
    check(loadAndBranch(lot_tracker{1}, stranger(number)) == LOT_OK, "nothing");
  });
  struct Entry {
    std::uint64_t slot;
    std::atomic<std::uint64_t> epoch;
  };
  std::vector<Entry> table(kPopulation);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> keys;
  for (std::size_t number = 0; number < kPopulation; ++number) {
    table[number].epoch.store(number << 32 | 1, std::memory_order_relaxed);
    keys.push_back({number, number << 32 | 1});
  }
  bench::shuffle(keys);
  std::size_t live = 0;
  count("peer: load and compare", [&](std::size_t number) {
    auto [slot, epoch] = keys[number];
    live += table[slot].epoch.load(std::memory_order_relaxed) == epoch;
  });
  check(live == kJobs, "all are live");
  countLlvm19<std::mutex>("peer: LLVM 19 insert and erase, mutex", "peer: LLVM 19 find, mutex");
  countLlvm19<bench::NoMutex>("peer: LLVM 19 insert and erase", "peer: LLVM 19 find");
  bench::Shiboken shiboken;
  auto *root = shiboken.insert(stranger(0), nullptr);
  for (std::size_t number = 0; number < kPopulation; ++number)
    shiboken.insert(object(number), root);
  count("peer: Shiboken insert and release", [&](std::size_t number) {
    shiboken.release(shiboken.insert(stranger(1 + number), root));
  });
}
#endif

} // namespace

int main() {
  countLot();
#ifdef LOT_BENCH_PEERS
  countPeers();
#endif
}
