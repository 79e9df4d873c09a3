// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What lot/lot.hpp adds to the C interface.
#include <array>
#include <atomic>
#include <csignal>
#include <initializer_list>
#include <map>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_set>

#include "support.hpp"

namespace {

using namespace support;

static_assert(std::is_trivially_copyable_v<lot::Ref> && sizeof(lot::Ref) == 16);
static_assert(std::is_nothrow_move_constructible_v<lot::Registration> &&
              !std::is_copy_constructible_v<lot::Registration>);
static_assert(std::is_nothrow_move_constructible_v<lot::OwnedTracker> &&
              !std::is_copy_constructible_v<lot::OwnedTracker>);

TEST(Wrapper, OwnedTrackerEndsItsTracker) {
  Places at(1);
  lot::Tracker handle;
  lot::Ref ref;
  {
    lot::OwnedTracker owner("owned");
    handle = owner;
    ref = track(handle, at[0]);
    lot::OwnedTracker moved(std::move(owner));
    EXPECT_EQ(moved.raw().id, handle.raw().id);
    EXPECT_EQ(owner.raw().id, 0u);
    EXPECT_TRUE(ref.isLive());
  }
  EXPECT_FALSE(ref.isLive());
  EXPECT_EQ(handle.destroy().code(), LOT_ERROR_NO_TRACKER);
}

TEST(Wrapper, RegistrationReleasesItsRef) {
  Places at(3);
  lot::OwnedTracker tracker("registrations");
  {
    lot::Registration first(track(tracker, at[0]));
    lot::Registration second(track(tracker, at[1]));
    EXPECT_TRUE(first.isLive());
    lot::Ref released = first.ref();
    first = std::move(second); // releases the first's own
    EXPECT_FALSE(released.isLive());
    EXPECT_TRUE(second.ref().isNull());
    EXPECT_EQ(first.ref().address(), at[1]);
    lot::Registration taken(track(tracker, at[2]));
    EXPECT_TRUE(taken.take().isLive());
    EXPECT_TRUE(taken.ref().isNull());
    // One whose object ended meanwhile goes quietly.
    lot::Registration ended(track(tracker, at[0]));
    ASSERT_TRUE(tracker.erase(at[0]));
    EXPECT_FALSE(ended.isLive());
  }
  EXPECT_FALSE(tracker.find(at[1]).isLive());
  EXPECT_TRUE(tracker.find(at[2]).isLive());
  EXPECT_EQ(tracker.count(), 1u);
}

TEST(Wrapper, AttributionsNest) {
  Places at(4);
  lot::OwnedTracker tracker("attributions");
  ASSERT_TRUE(tracker.exactBegin());
  lot::Ref outer = track(tracker, at[0]), inner = track(tracker, at[1]);
  lot::Ref first = track(tracker, at[2]), second = track(tracker, at[3]);
  lot_death death = {};
  {
    lot::Attribution a(LOT_CAUSE_ANCESTOR_DESTROYED, outer);
    {
      lot::Attribution b(LOT_CAUSE_OPAQUE_MUTATION, inner);
      ASSERT_TRUE(tracker.destroyed(at[2]));
    }
    ASSERT_TRUE(tracker.destroyed(at[3]));
  }
  ASSERT_TRUE(first.death(death));
  EXPECT_EQ(death.cause, static_cast<lot_cause>(LOT_CAUSE_OPAQUE_MUTATION));
  EXPECT_EQ(lot::Ref(death.by), inner);
  ASSERT_TRUE(second.death(death));
  EXPECT_EQ(death.cause, static_cast<lot_cause>(LOT_CAUSE_ANCESTOR_DESTROYED));
  EXPECT_EQ(lot::Ref(death.by), outer);
}

TEST(Wrapper, AncestorsOfManyForms) {
  Places at(4);
  lot::OwnedTracker tracker("ancestors");
  auto placed = [&](lot::Ancestors ancestors) {
    lot::Ref ref;
    EXPECT_TRUE(tracker.create(at[0], Scope, Op, ancestors, nullptr, ref));
    EXPECT_TRUE(tracker.erase(at[2]));
    return !ref.isLive();
  };
  const void *array[] = {at[1], at[2]};
  EXPECT_TRUE(placed(array));
  EXPECT_TRUE(placed(std::array<const void *, 2>{at[1], at[2]}));
  EXPECT_TRUE(placed(std::vector<const void *>{at[1], at[2]}));
  std::vector<void *> mutablePointers = {const_cast<void *>(at[1]), const_cast<void *>(at[2])};
  EXPECT_TRUE(placed(mutablePointers));
  EXPECT_TRUE(placed(lot::Ancestors(array, 2)));
  EXPECT_TRUE(placed({at[1], at[2]}));
  EXPECT_FALSE(placed(lot::Ancestors()));
  EXPECT_FALSE(placed({}));
  EXPECT_FALSE(placed(lot::Ancestors(nullptr, 0)));
}

TEST(Wrapper, AncestorsOfTheFrameworksOwnTypes) {
  struct Block {
  } block;
  struct Op {
    int name;
  } op = {};
  Places at(1);
  lot::OwnedTracker tracker("types");
  auto placed = [&](lot::Ancestors ancestors) {
    lot::Ref ref;
    EXPECT_TRUE(tracker.create(at[0], Scope, 0, ancestors, nullptr, ref));
    EXPECT_TRUE(tracker.erase(&op));
    return !ref.isLive();
  };
  Op *const array[] = {&op};
  EXPECT_TRUE(placed(array));
  EXPECT_TRUE(placed(std::vector<Op *>{&op}));
  EXPECT_TRUE(placed(std::vector<const Op *>{&op}));
  EXPECT_TRUE(placed(std::array<Op *, 1>{&op}));
  std::initializer_list<Op *> list = {&op};
  EXPECT_TRUE(placed(list));
  EXPECT_TRUE(placed({&block, &op})); // of different types
  Op *several[] = {&op, nullptr};
  EXPECT_TRUE(placed(lot::Ancestors(several, 1)));
  const void *const *untyped = reinterpret_cast<const void *const *>(several);
  EXPECT_TRUE(placed(lot::Ancestors(untyped, 1)));
}

// What the compiler refuses is in ../refused, what it takes is above. This is for overloads.
static_assert(std::is_convertible_v<std::vector<int *>, lot::Ancestors>);
static_assert(!std::is_convertible_v<std::vector<int>, lot::Ancestors>);
static_assert(!std::is_convertible_v<std::string, lot::Ancestors>);
static_assert(!std::is_constructible_v<lot::Ancestors, int *, std::size_t>);

TEST(Wrapper, AnEmptyContainerSaysThatThereAreNoAncestors) {
  // Its data() may be null, which by itself would mean that nothing is reported.
  Places at(2);
  lot::OwnedTracker tracker("empty");
  lot::Ref ref = track(tracker, at[0], {at[1]});
  EXPECT_EQ(track(tracker, at[0], Path()), ref);
  ASSERT_TRUE(tracker.erase(at[1]));
  EXPECT_TRUE(ref.isLive());

  ref = track(tracker, at[0], {at[1]});
  ASSERT_TRUE(tracker.move(at[0], std::initializer_list<const void *>{}));
  ASSERT_TRUE(tracker.erase(at[1]));
  EXPECT_TRUE(ref.isLive());
}

TEST(Wrapper, RefsAreKeys) {
  Places at(2);
  lot::OwnedTracker tracker("keys");
  std::unordered_set<lot::Ref> refs;
  for (int life = 0; life < 10; ++life)
    refs.insert(create(tracker, at[0]));
  refs.insert(tracker.find(at[0]));
  EXPECT_EQ(refs.size(), 10u);
  EXPECT_TRUE(lot::Ref().isNull());
  EXPECT_FALSE(refs.begin()->isNull());
}

std::vector<lot_end> popAll(lot::EndQueue &queue) {
  std::vector<lot_end> ends;
  for (lot_end end; queue.pop(end);)
    ends.push_back(end);
  return ends;
}

static_assert(noexcept(lot::EndQueue::observe(nullptr, 0, nullptr)));

TEST(Wrapper, AnEndQueueKeepsWhatAnObserverIsTold) {
  Places at(4);
  lot::OwnedTracker tracker("queue");
  lot::EndQueue queue;
  lot_end end = {};
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.pop(end));
  EXPECT_EQ(end.ref.epoch, 0u);
  ASSERT_TRUE(tracker.setObserver(lot::EndQueue::observe, &queue));
  int user = 0;
  lot::Ref root = track(tracker, at[0], {}, Op, 7, &user);
  lot::Ref child = track(tracker, at[1], {at[0]}, Block, 7);
  lot::Ref released = track(tracker, at[2]);
  EXPECT_TRUE(queue.empty());
  ASSERT_TRUE(tracker.erase(at[0]));
  ASSERT_TRUE(released.release());
  EXPECT_FALSE(queue.empty());

  std::vector<lot_end> ends = popAll(queue);
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_TRUE(queue.empty());
  if (lot::Ref(ends[0].ref) == root)
    std::swap(ends[0], ends[1]);
  EXPECT_EQ(lot::Ref(ends[0].ref), child);
  EXPECT_EQ(ends[0].death.cause, static_cast<lot_cause>(LOT_CAUSE_ANCESTOR_DESTROYED));
  EXPECT_EQ(lot::Ref(ends[0].death.by), root);
  EXPECT_GT(ends[0].death.time_ns, 0u);
  EXPECT_EQ(lot::Ref(ends[1].ref), root);
  EXPECT_EQ(ends[1].user, &user);
  EXPECT_EQ(ends[1].scope, 7u);
  EXPECT_EQ(lot::Ref(ends[2].ref), released);
  EXPECT_EQ(ends[2].death.cause, static_cast<lot_cause>(LOT_CAUSE_RELEASED));
}

TEST(Wrapper, WhatEndsWhileAQueueIsEmptiedComesLater) {
  Places at(100);
  lot::OwnedTracker tracker("queue");
  lot::EndQueue queue;
  ASSERT_TRUE(tracker.setObserver(lot::EndQueue::observe, &queue));
  track(tracker, at[0]);
  ASSERT_TRUE(tracker.erase(at[0]));
  std::size_t next = 0;
  for (lot_end end; queue.pop(end);) {
    EXPECT_EQ(end.ref.object, at[next]);
    if (++next < at.size()) {
      track(tracker, at[next]);
      ASSERT_TRUE(tracker.erase(at[next]));
    }
  }
  EXPECT_EQ(next, at.size());
  // What nobody pops goes with the queue.
  track(tracker, at[0]);
  ASSERT_TRUE(tracker.erase(at[0]));
  ASSERT_TRUE(tracker.setObserver(nullptr, nullptr));
}

TEST(Wrapper, AnEndQueueOfManyThreads) {
  constexpr std::size_t Threads = 4;
  const std::size_t rounds = times(20000);
  lot::OwnedTracker tracker("queue");
  lot::EndQueue queue;
  ASSERT_TRUE(tracker.setObserver(lot::EndQueue::observe, &queue));
  Places at(Threads);
  std::atomic<std::size_t> running{Threads};
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < Threads; ++thread)
    threads.emplace_back([&, thread] {
      for (std::size_t round = 0; round < rounds; ++round) {
        track(tracker, at[thread], {}, Op, thread, reinterpret_cast<void *>(round + 1));
        EXPECT_TRUE(tracker.destroyed(at[thread]));
      }
      --running;
    });
  std::map<std::uint64_t, std::size_t> last; // of each thread
  auto popSome = [&] {
    for (lot_end end; queue.pop(end);) {
      std::size_t round = reinterpret_cast<std::size_t>(end.user);
      EXPECT_EQ(round, last[end.scope] + 1) << "lost, doubled, or not in the order of its thread";
      last[end.scope] = round;
    }
  };
  while (running > 0)
    popSome();
  for (std::thread &thread : threads)
    thread.join();
  popSome();
  for (std::size_t thread = 0; thread < Threads; ++thread)
    EXPECT_EQ(last[thread], rounds);
}

TEST(Wrapper, AnObserverIsToldInsideADestructorThatUnwinds) {
  struct Object {
    const lot::Tracker &tracker;
    ~Object() { tracker.destroyed(this).ignore(); }
  };
  lot::OwnedTracker tracker("unwinding");
  lot::EndQueue queue;
  ASSERT_TRUE(tracker.setObserver(lot::EndQueue::observe, &queue));
  lot::Ref ref;
  try {
    Object object{tracker};
    ref = track(tracker, &object);
    throw 1;
  } catch (int) {
  }
  std::vector<lot_end> ends = popAll(queue);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(lot::Ref(ends[0].ref), ref);
}

TEST(Wrapper, OneObserverAtATime) {
  Places at(3);
  lot::OwnedTracker tracker("replaced");
  lot::EndQueue first, second;
  auto end = [&](std::size_t place) {
    track(tracker, at[place]);
    EXPECT_TRUE(tracker.destroyed(at[place]));
  };
  ASSERT_TRUE(tracker.setObserver(lot::EndQueue::observe, &first));
  end(0);
  ASSERT_TRUE(tracker.setObserver(lot::EndQueue::observe, &second));
  end(1);
  ASSERT_TRUE(tracker.setObserver(nullptr, nullptr));
  end(2);
  std::vector<lot_end> ends = popAll(first);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].ref.object, at[0]);
  ends = popAll(second);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].ref.object, at[1]);
}

TEST(Wrapper, AnObserverMayReplaceItself) {
  static lot::Tracker tracker;
  static int calls;
  calls = 0;
  lot::OwnedTracker owner("replaces itself");
  tracker = owner;
  ASSERT_TRUE(tracker.setObserver(
      [](const lot_end *, std::size_t, void *) {
        ++calls;
        EXPECT_TRUE(tracker.setObserver(nullptr, nullptr));
      },
      nullptr));
  Places at(1);
  for (int i = 0; i < 2; ++i) {
    track(tracker, at[0]);
    ASSERT_TRUE(tracker.destroyed(at[0]));
  }
  EXPECT_EQ(calls, 1);
}

TEST(WrapperDeathTest, AnObserverThatThrowsEndsTheProcess) {
  EXPECT_EXIT(
      {
        Places at(1);
        lot::OwnedTracker tracker("throws");
        track(tracker, at[0]);
        tracker.setObserver([](const lot_end *, std::size_t, void *) { throw 1; }, nullptr).ignore();
        tracker.erase(at[0]).ignore();
      },
      ::testing::KilledBySignal(SIGABRT), "");
}

TEST(Wrapper, StatusSaysWhatHappened) {
  Places at(1);
  lot::Tracker none;
  lot::Status status = none.erase(at[0]);
  EXPECT_FALSE(status);
  EXPECT_STREQ(status.name(), "LOT_ERROR_NO_TRACKER");
  EXPECT_STRNE(lot::Status::message(), "");
}

} // namespace
