// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// stress SECONDS: eight threads call everything, most of it for the same few objects, while
// trackers come and go. What a thread knows for certain is checked: its own objects, and that the
// dead stay dead.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "lot/lot.hpp"

namespace {

constexpr int Threads = 8;
constexpr std::size_t Levels = 3, Width = 4;
constexpr std::uint64_t SharedScope = 1, PrivateScope = 100;

// An object's ancestors are always of the levels before its own, so that no two reports contradict.
char shared[Levels][Width];
std::atomic<std::uint64_t> told{0};
std::atomic<std::uint64_t> steps{0};
std::atomic<bool> stop{false};
std::atomic<bool> wrong{false};

void expect(bool holds, const char *what) {
  if (!holds) {
    std::printf("WRONG: %s\n", what);
    wrong = true;
    stop = true;
  }
}

void observe(const lot_end *ends, std::size_t count, void *data) {
  for (std::size_t i = 0; i < count; ++i)
    expect(!lot_is_live(ends[i].ref), "an observer is told of one that is live");
  static_cast<std::atomic<std::uint64_t> *>(data)->fetch_add(count, std::memory_order_relaxed);
}

class Worker {
public:
  Worker(lot::Tracker tracker, lot::Tracker exact, int number)
      : tracker_(tracker), exact_(exact), scope_(PrivateScope + number), random_(12345 + number) {}

  void run() {
    for (std::uint64_t step = 0; !stop.load(std::memory_order_relaxed); ++step) {
      if (step % 8 == 0)
        ownObjects();
      else if (step % 1024 == 1)
        ownTracker();
      else
        sharedObjects();
      steps.fetch_add(1, std::memory_order_relaxed);
    }
  }

private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  /// Nobody else knows these, so their answers are certain.
  void ownObjects() {
    const void *outer = &own_[0], *inner = &own_[1], *other = &own_[2];
    lot::Ref root, child, moved;
    expect(bool(tracker_.create(outer, scope_, 0, lot::Ancestors(&outer, 0), nullptr, root)) &&
               bool(tracker_.create(inner, scope_, 1, {outer}, this, child)) &&
               bool(tracker_.create(other, scope_, 1, {outer}, nullptr, moved)),
           "an object of a thread's own is refused");
    expect(root.isLive() && child.isLive() && moved.isLive(), "a new object is dead");
    expect(child.parent() == root && child.user() == this, "a place or a user pointer is lost");
    expect(tracker_.find(inner) == child, "a live object is not found");
    expect(tracker_.countInScope(scope_) == 3, "the count of a thread's own scope is wrong");
    expect(bool(tracker_.detach(other)) && bool(tracker_.erase(outer)), "a hook fails");
    expect(!root.isLive() && !child.isLive() && moved.isLive(), "an erase ends the wrong ones");
    expect(moved.release().code() == LOT_OK && !moved.isLive(), "a release fails");
    expect(tracker_.countInScope(scope_) == 0, "something is left in a thread's own scope");
    remember(root);
    remember(child);
    for (lot::Ref dead : dead_)
      expect(!dead.isLive(), "a dead ref is live");
  }

  void remember(lot::Ref dead) { dead_[nextDead_++ % dead_.size()] = dead; }

  void ownTracker() {
    lot::Ref ref;
    {
      lot::OwnedTracker tracker("comes and goes");
      if (tracker.raw().id == 0)
        return;
      expect(bool(tracker.setObserver(observe, &told)), "an observer is refused");
      expect(bool(tracker.track(&shared[0][0], SharedScope, 0, lot::Ancestors(), nullptr, ref)),
             "a tracker refuses an object");
      expect(ref.isLive(), "the object of a new tracker is dead");
    }
    expect(!ref.isLive(), "an object outlives its tracker");
    remember(ref);
  }

  void sharedObjects() {
    const std::size_t level = below(Levels);
    const void *object = &shared[level][below(Width)];
    std::array<const void *, Levels> path;
    std::size_t depth = 0;
    for (std::size_t up = level; up-- > 0;)
      path[depth++] = &shared[up][below(Width)];
    const lot::Ancestors ancestors(path.data(), depth);
    lot::Ref ref;
    lot::Status status = LOT_OK;
    switch (below(20)) {
    case 0: status = tracker_.create(object, SharedScope, 2, ancestors, nullptr, ref); break;
    case 1:
    case 2:
    case 3:
    case 4: status = tracker_.track(object, SharedScope, 2, ancestors, nullptr, ref); break;
    case 5: status = tracker_.erase(object); break;
    case 6: status = tracker_.parentDestroy(object); break;
    case 7: status = tracker_.destroyed(object); break;
    case 8: status = tracker_.destroyedWith(object, 1u << 2); break;
    case 9: status = tracker_.move(object, ancestors); break;
    case 10: status = tracker_.detach(object); break;
    case 11: status = tracker_.opaqueMutation(object); break;
    case 12: status = tracker_.find(object).release(); break;
    case 13: status = tracker_.find(object).setUser(this); break;
    case 14: (void)tracker_.find(object).user(); break;
    case 15: (void)tracker_.find(object).parent(); break;
    case 16: questions(tracker_.find(object)); break;
    case 17: exactly(object); break;
    case 18: {
      lot_stats stats = {};
      status = tracker_.stats(stats);
      expect(stats.internal_errors == 0, "an internal error was caught");
      break;
    }
    default:
      if (below(64) == 0)
        status = tracker_.clearScope(SharedScope);
      else if (below(64) == 0)
        status = tracker_.setObserver(below(2) ? observe : nullptr, &told);
      break;
    }
    expect(status.code() == LOT_OK || status.code() == LOT_ERROR_DEAD_REF,
           "a call for a shared object fails");
  }

  void questions(lot::Ref ref) {
    lot_death death = {};
    (void)ref.death(death).code();
    (void)lot_children(
        ref.raw(), [](lot_ref, void *, void *) { return true; }, nullptr);
    std::uint64_t scope = SharedScope;
    std::vector<lot::Ref> visited;
    tracker_
        .forEach(&scope, LOT_KIND_ANY,
                 [&](lot::Ref found, void *) {
                   visited.push_back(found);
                   return true;
                 })
        .ignore();
    // A visited object may have ended meanwhile, and the next one at its address been visited too.
    for (std::size_t i = 0; i < visited.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        expect(!bothLive(visited[i], visited[j]), "two objects at one address are live");
    if (below(64) == 0)
      (void)lot_dump(
          tracker_.raw(), LOT_FORMAT_JSON, [](const char *, std::size_t, void *) {}, nullptr);
  }

  /// The first one is live before and after the second one is seen to be.
  static bool bothLive(lot::Ref a, lot::Ref b) {
    return a != b && a.address() == b.address() && a.isLive() && b.isLive() && a.isLive();
  }

  /// In a tracker for this alone, since exact mode is a tracker's.
  void exactly(const void *object) {
    lot::Ref ref;
    lot::Status status = exact_.track(object, SharedScope, 0, lot::Ancestors(), nullptr, ref);
    expect(bool(status), "the exact tracker refuses an object");
    lot::Attribution due(LOT_CAUSE_OPAQUE_MUTATION, ref);
    expect(bool(exact_.exactBegin()) && exact_.isExact(), "exact mode is refused");
    exact_.destroyed(object).ignore();
    expect(bool(exact_.exactEnd()), "exact mode does not end");
  }

  lot::Tracker tracker_, exact_;
  std::uint64_t scope_;
  std::mt19937 random_;
  char own_[3];
  std::array<lot::Ref, 64> dead_ = {};
  std::size_t nextDead_ = 0;
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  lot::OwnedTracker tracker("stress"), exact("exact");
  std::vector<Worker> workers;
  for (int number = 0; number < Threads; ++number)
    workers.emplace_back(tracker, exact, number);
  std::vector<std::thread> threads;
  for (Worker &worker : workers)
    threads.emplace_back(&Worker::run, &worker);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
  while (!stop && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
  tracker.clearScope(SharedScope).ignore();
  expect(tracker.count() == 0, "something is left in the end");
  std::printf("%llu steps, %llu ends told, %s\n", (unsigned long long)steps.load(),
              (unsigned long long)told.load(), wrong ? "WRONG" : "no wrong answer");
  return wrong || steps < 1000 ? 1 : 0;
}
