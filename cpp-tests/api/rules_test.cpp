// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rules of the tracker, by number, through the C++ face.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <malloc.h>
#include <pthread.h>
#include <random>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "support.hpp"

namespace {

using namespace support;

class Rules : public ::testing::Test {
protected:
  lot::OwnedTracker tracker{"rules"};
  Places at{64};
};

// Identity

TEST_F(Rules, R01_LiveUntilTheEndAndDeadForEver) {
  lot::Ref old = track(tracker, at[0]);
  EXPECT_TRUE(old.isLive());
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_FALSE(old.isLive());

  // Whatever comes to the address later, in any manner.
  for (int life = 0; life < 1000; ++life) {
    lot::Ref next = life % 2 ? track(tracker, at[0]) : create(tracker, at[0]);
    EXPECT_FALSE(old.isLive());
    EXPECT_TRUE(next.isLive());
    EXPECT_NE(old, next);
    ASSERT_TRUE(tracker.destroyed(at[0]));
    EXPECT_FALSE(next.isLive());
  }
  EXPECT_FALSE(old.isLive());
}

TEST_F(Rules, R01_TrackingAgainGivesTheSameIncarnation) {
  lot::Ref first = track(tracker, at[0]);
  lot::Ref second = track(tracker, at[0]);
  EXPECT_EQ(first, second);
  EXPECT_EQ(tracker.find(at[0]), first);
  EXPECT_EQ(tracker.count(), 1u);
}

TEST_F(Rules, R01_TrackInAnotherScopeOrOfAnotherKindIsAnotherIncarnation) {
  lot::Ref first = track(tracker, at[0], {}, Op, 1);
  lot::Ref second = track(tracker, at[0], {}, Op, 2);
  EXPECT_FALSE(first.isLive());
  EXPECT_EQ(cause(first), static_cast<lot_cause>(LOT_CAUSE_MISSED_END));
  lot::Ref third = track(tracker, at[0], {}, Block, 2);
  EXPECT_FALSE(second.isLive());
  EXPECT_TRUE(third.isLive());
  EXPECT_EQ(stats(tracker).missed_ends, 2u);
}

TEST_F(Rules, R02_EpochsAreUniqueOverTrackersAndThreads) {
  const std::size_t perThread = times(20000);
  constexpr std::size_t Threads = 4;
  lot::OwnedTracker other("other");
  std::vector<std::vector<std::uint64_t>> epochs(Threads);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < Threads; ++thread)
    threads.emplace_back([&, thread] {
      Places mine(8);
      const lot::Tracker &where = thread % 2 ? static_cast<lot::Tracker &>(other) : tracker;
      for (std::size_t round = 0; round < perThread; ++round)
        epochs[thread].push_back(create(where, mine[round % 8]).epoch());
    });
  for (std::thread &thread : threads)
    thread.join();

  std::set<std::uint64_t> seen = {0};
  for (const auto &list : epochs)
    for (std::uint64_t epoch : list)
      ASSERT_TRUE(seen.insert(epoch).second) << "an epoch is zero or was used twice: " << epoch;
  EXPECT_EQ(seen.size(), 1 + Threads * perThread);
}

TEST_F(Rules, R03_AskingReadsNoMemoryOfTheObject) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void *object = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(object, MAP_FAILED);
  // Not readable from the start: registering and the hooks do not look at it either.
  lot::Ref ref = track(tracker, object);
  EXPECT_TRUE(ref.isLive());
  ASSERT_EQ(munmap(object, page), 0);
  EXPECT_TRUE(ref.isLive());
  EXPECT_TRUE(tracker.erase(object));
  EXPECT_FALSE(ref.isLive());
}

TEST_F(Rules, R03_MadeUpRefsAreDead) {
  lot::Ref real = track(tracker, at[0]);
  EXPECT_FALSE(lot::Ref().isLive());
  EXPECT_FALSE(lot::Ref(lot_ref{nullptr, real.epoch()}).isLive());
  EXPECT_FALSE(lot::Ref(lot_ref{at[1], real.epoch()}).isLive());
  EXPECT_FALSE(lot::Ref(lot_ref{at[0], 0}).isLive());
  EXPECT_FALSE(lot::Ref(lot_ref{at[0], ~std::uint64_t(0)}).isLive());
  for (int bit = 0; bit < 64; ++bit)
    EXPECT_FALSE(lot::Ref(lot_ref{at[0], real.epoch() ^ (std::uint64_t(1) << bit)}).isLive()) << bit;

  std::mt19937_64 random(1);
  for (std::size_t round = 0; round < times(1000000); ++round) {
    std::uint64_t bits = random() >> (random() % 64);
    if (bits == real.epoch())
      continue;
    // Through the C function and as the header asks by itself.
    ASSERT_FALSE(lot_is_live(lot_ref{at[0], bits})) << bits;
    ASSERT_FALSE(lot::Ref(lot_ref{at[0], bits}).isLive()) << bits;
  }
  EXPECT_TRUE(lot_is_live(real.raw()));
  EXPECT_TRUE(real.isLive());
}

TEST(RulesAcrossTrackers, R03_RefsOfAnyTrackerAlsoAfterItsDestruction) {
  Places at(2);
  lot::Tracker first, second;
  ASSERT_TRUE(lot::Tracker::create("first", first));
  ASSERT_TRUE(lot::Tracker::create("second", second));
  lot::Ref one = track(first, at[0]);
  lot::Ref two = track(second, at[0]);
  EXPECT_NE(one, two);
  EXPECT_TRUE(one.isLive());
  EXPECT_TRUE(two.isLive());
  ASSERT_TRUE(first.destroy());
  EXPECT_FALSE(one.isLive());
  EXPECT_TRUE(two.isLive());
  std::thread([&] {
    EXPECT_FALSE(one.isLive());
    EXPECT_TRUE(two.isLive());
  }).join();
  ASSERT_TRUE(second.destroy());
  EXPECT_FALSE(two.isLive());
  // A tracker made later is not taken for one of the old ones.
  lot::OwnedTracker third("third");
  lot::Ref three = track(third, at[0]);
  EXPECT_FALSE(one.isLive());
  EXPECT_FALSE(two.isLive());
  EXPECT_TRUE(three.isLive());
}

// Written by the test, read by its signal handler.
constexpr std::size_t Asked = 16;
lot_ref askedRefs[Asked];
std::atomic<std::uint64_t> answers{0};
std::atomic<std::uint64_t> wrongAnswers{0};

void askInSignalHandler(int) {
  // Half of them live throughout, half are long dead.
  for (std::size_t index = 0; index < Asked; ++index) {
    answers.fetch_add(1, std::memory_order_relaxed);
    if (lot_is_live(askedRefs[index]) != (index % 2 == 0))
      wrongAnswers.fetch_add(1, std::memory_order_relaxed);
  }
}

TEST_F(Rules, R03_AskingTakesNoLock) {
  // A handler that interrupts hooks on the same thread hangs for good if asking takes a lock of theirs.
  for (std::size_t index = 0; index < Asked; ++index) {
    askedRefs[index] = track(tracker, at[index]).raw();
    if (index % 2) {
      ASSERT_TRUE(tracker.erase(at[index]));
    }
  }
  struct sigaction action = {};
  action.sa_handler = askInSignalHandler;
  ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
  itimerval often = {{0, 200}, {0, 200}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < end) {
    track(tracker, at[40], {at[41], at[42]});
    track(tracker, at[43], {at[40], at[41], at[42]});
    ASSERT_TRUE(tracker.erase(at[42]));
    create(tracker, at[44]);
    ASSERT_TRUE(tracker.clearScope(Scope + 1));
    ASSERT_EQ(lot_dump(tracker.raw(), LOT_FORMAT_JSON, [](const char *, size_t, void *) {}, nullptr),
              LOT_OK);
  }
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
  // A last one may still be on its way.
  action.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
  EXPECT_GT(answers.load(), 0u);
  EXPECT_EQ(wrongAnswers.load(), 0u);
}

// What ends an incarnation

TEST_F(Rules, R04_EraseEndsTheObjectAndAllBelow) {
  const void *root = at[0], *block = at[1], *op = at[2], *inner = at[3], *beside = at[4];
  lot::Ref rootRef = track(tracker, root);
  lot::Ref blockRef = track(tracker, block, {root}, Block);
  lot::Ref opRef = track(tracker, op, {block, root});
  lot::Ref innerRef = track(tracker, inner, {op, block, root});
  lot::Ref besideRef = track(tracker, beside, {block, root});
  ASSERT_TRUE(tracker.erase(op));
  EXPECT_FALSE(opRef.isLive());
  EXPECT_FALSE(innerRef.isLive());
  EXPECT_TRUE(rootRef.isLive());
  EXPECT_TRUE(blockRef.isLive());
  EXPECT_TRUE(besideRef.isLive());
  EXPECT_EQ(tracker.count(), 3u);
}

TEST_F(Rules, R04_ParentDestroyEndsTheObjectAndAllBelow) {
  lot::Ref root = track(tracker, at[0]);
  lot::Ref child = track(tracker, at[1], {at[0]});
  lot::Ref grandchild = track(tracker, at[2], {at[1], at[0]});
  lot::Ref beside = track(tracker, at[3]);
  ASSERT_TRUE(tracker.parentDestroy(at[0]));
  EXPECT_FALSE(root.isLive());
  EXPECT_FALSE(child.isLive());
  EXPECT_FALSE(grandchild.isLive());
  EXPECT_TRUE(beside.isLive());
  EXPECT_EQ(cause(root), static_cast<lot_cause>(LOT_CAUSE_DESTROYED));
  EXPECT_EQ(cause(child), static_cast<lot_cause>(LOT_CAUSE_ANCESTOR_DESTROYED));
}

TEST_F(Rules, R04_TheErasedObjectNeedNotBeTracked) {
  lot::Ref first = track(tracker, at[2], {at[1], at[0]});
  ASSERT_TRUE(tracker.erase(at[1]));
  EXPECT_FALSE(first.isLive());
  lot::Ref second = track(tracker, at[2], {at[1], at[0]});
  ASSERT_TRUE(tracker.parentDestroy(at[0]));
  EXPECT_FALSE(second.isLive());
}

TEST_F(Rules, R05_BelowGoesThroughAncestorsThatNobodyTracks) {
  // root > 1 > 2 > 3 > leaf, of which only root and leaf are tracked.
  lot::Ref root = track(tracker, at[0]);
  lot::Ref leaf = track(tracker, at[4], {at[3], at[2], at[1], at[0]});
  EXPECT_EQ(leaf.parent(), root);
  ASSERT_TRUE(tracker.erase(at[2]));
  EXPECT_FALSE(leaf.isLive());
  EXPECT_TRUE(root.isLive());
}

TEST_F(Rules, R05_TheOrderOfTrackingDoesNotMatter) {
  const std::vector<Path> paths = {{}, {at[0]}, {at[1], at[0]}, {at[2], at[1], at[0]}};
  std::vector<std::size_t> order = {0, 1, 2, 3};
  do {
    std::vector<lot::Ref> refs(4);
    for (std::size_t index : order)
      refs[index] = track(tracker, at[index], paths[index]);
    for (std::size_t index = 1; index < 4; ++index)
      EXPECT_EQ(refs[index].parent(), refs[index - 1]);
    ASSERT_TRUE(tracker.erase(at[1]));
    EXPECT_TRUE(refs[0].isLive());
    for (std::size_t index = 1; index < 4; ++index)
      EXPECT_FALSE(refs[index].isLive());
    ASSERT_TRUE(tracker.erase(at[0]));
    EXPECT_EQ(tracker.count(), 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(Rules, R05_TheLastReportCounts) {
  lot::Ref ref = track(tracker, at[3], {at[1], at[0]});
  // Seen again, and it is elsewhere now.
  EXPECT_EQ(track(tracker, at[3], {at[2]}), ref);
  ASSERT_TRUE(tracker.erase(at[1]));
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_TRUE(ref.isLive());
  ASSERT_TRUE(tracker.erase(at[2]));
  EXPECT_FALSE(ref.isLive());
}

TEST_F(Rules, R05_NotReportingKeepsWhatIsKnown) {
  lot::Ref ref = track(tracker, at[3], {at[1], at[0]});
  lot::Ref again;
  ASSERT_TRUE(tracker.track(at[3], Scope, Op, lot::Ancestors(), nullptr, again));
  EXPECT_EQ(again, ref);
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_FALSE(ref.isLive());
}

TEST_F(Rules, R05_AReportMovesTheAncestorsToo) {
  // at[2] is reported under at[1] first; later a report says that its parent is at[0].
  lot::Ref inner = track(tracker, at[3], {at[2], at[1]});
  lot::Ref other = track(tracker, at[4], {at[2], at[0]});
  ASSERT_TRUE(tracker.erase(at[1]));
  EXPECT_TRUE(inner.isLive());
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_FALSE(inner.isLive());
  EXPECT_FALSE(other.isLive());
}

TEST_F(Rules, R06_CreateOnLiveAddressEndsTheOld) {
  lot::Ref old = track(tracker, at[1], {at[0]});
  lot::Ref below = track(tracker, at[2], {at[1], at[0]});
  lot::Ref next = create(tracker, at[1]);
  EXPECT_NE(old, next);
  EXPECT_FALSE(old.isLive());
  EXPECT_FALSE(below.isLive());
  EXPECT_TRUE(next.isLive());
  EXPECT_EQ(cause(old), static_cast<lot_cause>(LOT_CAUSE_MISSED_END));
  EXPECT_EQ(cause(below), static_cast<lot_cause>(LOT_CAUSE_MISSED_END));
  EXPECT_GE(stats(tracker).missed_ends, 1u);
  // The new one has not taken the old one's place.
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_TRUE(next.isLive());
}

TEST_F(Rules, R06_CreateOnAnAncestorThatNobodyTracksEndsWhatWasBelow) {
  lot::Ref below = track(tracker, at[2], {at[1], at[0]});
  lot::Ref next = create(tracker, at[1]);
  EXPECT_FALSE(below.isLive());
  EXPECT_TRUE(next.isLive());
}

TEST_F(Rules, R06_CreateOnAFreeAddressMissesNothing) {
  create(tracker, at[0]);
  ASSERT_TRUE(tracker.destroyed(at[0]));
  create(tracker, at[0]);
  EXPECT_EQ(stats(tracker).missed_ends, 0u);
}

TEST_F(Rules, R07_DestroyEndsThatOneAlone) {
  lot::Ref root = track(tracker, at[0]);
  lot::Ref middle = track(tracker, at[1], {at[0]});
  lot::Ref leaf = track(tracker, at[2], {at[1], at[0]});
  ASSERT_TRUE(tracker.destroyed(at[1]));
  EXPECT_TRUE(root.isLive());
  EXPECT_FALSE(middle.isLive());
  EXPECT_TRUE(leaf.isLive());
  EXPECT_EQ(cause(middle), static_cast<lot_cause>(LOT_CAUSE_DESTROYED));
  EXPECT_EQ(tracker.count(), 2u);
}

TEST_F(Rules, R07_DestroyWithTakesTheDirectChildrenOfTheNamedKinds) {
  lot::Ref block = track(tracker, at[0], {}, Block);
  lot::Ref argument = track(tracker, at[1], {at[0]}, Argument);
  lot::Ref op = track(tracker, at[2], {at[0]}, Op);
  lot::Ref innerBlock = track(tracker, at[3], {at[2], at[0]}, Block);
  lot::Ref innerArgument = track(tracker, at[4], {at[3], at[2], at[0]}, Argument);
  ASSERT_TRUE(tracker.destroyedWith(at[0], 1u << Argument));
  EXPECT_FALSE(block.isLive());
  EXPECT_FALSE(argument.isLive());
  EXPECT_TRUE(op.isLive());
  EXPECT_TRUE(innerBlock.isLive());
  EXPECT_TRUE(innerArgument.isLive());
}

TEST_F(Rules, R07_DestroyWithWorksForABlockThatNobodyTracks) {
  lot::Ref argument = track(tracker, at[1], {at[0]}, Argument);
  lot::Ref op = track(tracker, at[2], {at[0]}, Op);
  ASSERT_TRUE(tracker.destroyedWith(at[0], 1u << Argument));
  EXPECT_FALSE(argument.isLive());
  EXPECT_TRUE(op.isLive());
}

TEST_F(Rules, R08_MoveTakesTheSubtreeAlong) {
  lot::Ref moved = track(tracker, at[2], {at[0]});
  lot::Ref inner = track(tracker, at[3], {at[2], at[0]});
  ASSERT_TRUE(tracker.move(at[2], Path{at[1]}));
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_TRUE(moved.isLive());
  EXPECT_TRUE(inner.isLive());
  ASSERT_TRUE(tracker.erase(at[1]));
  EXPECT_FALSE(moved.isLive());
  EXPECT_FALSE(inner.isLive());
}

TEST_F(Rules, R08_AnUntrackedObjectMovesWithWhatIsBelow) {
  lot::Ref inner = track(tracker, at[3], {at[2], at[0]});
  ASSERT_TRUE(tracker.move(at[2], Path{at[1]}));
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_TRUE(inner.isLive());
  ASSERT_TRUE(tracker.erase(at[1]));
  EXPECT_FALSE(inner.isLive());
}

TEST_F(Rules, R08_DetachIsAMoveToNoParent) {
  lot::Ref root = track(tracker, at[0]);
  lot::Ref moved = track(tracker, at[1], {at[0]});
  lot::Ref inner = track(tracker, at[2], {at[1], at[0]});
  ASSERT_TRUE(tracker.detach(at[1]));
  EXPECT_TRUE(moved.parent().isNull());
  EXPECT_EQ(inner.parent(), moved);
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_FALSE(root.isLive());
  EXPECT_TRUE(moved.isLive());
  EXPECT_TRUE(inner.isLive());
  ASSERT_TRUE(tracker.erase(at[1]));
  EXPECT_FALSE(moved.isLive());
  EXPECT_FALSE(inner.isLive());
}

TEST_F(Rules, R09_OpaqueMutationEndsAllStrictlyBelow) {
  lot::Ref root = track(tracker, at[0]);
  lot::Ref child = track(tracker, at[1], {at[0]});
  lot::Ref deep = track(tracker, at[4], {at[3], at[2], at[0]});
  lot::Ref beside = track(tracker, at[5]);
  ASSERT_TRUE(tracker.opaqueMutation(at[0]));
  EXPECT_TRUE(root.isLive());
  EXPECT_FALSE(child.isLive());
  EXPECT_FALSE(deep.isLive());
  EXPECT_TRUE(beside.isLive());
  EXPECT_EQ(cause(child), static_cast<lot_cause>(LOT_CAUSE_OPAQUE_MUTATION));
  EXPECT_EQ(cause(deep), static_cast<lot_cause>(LOT_CAUSE_OPAQUE_MUTATION));
}

TEST_F(Rules, R09_OpaqueMutationEndsNothingWhileASourceIsExact) {
  lot::Ref root = track(tracker, at[0]);
  lot::Ref child = track(tracker, at[1], {at[0]});
  ASSERT_TRUE(tracker.exactBegin());
  ASSERT_TRUE(tracker.opaqueMutation(at[0]));
  EXPECT_TRUE(root.isLive());
  EXPECT_TRUE(child.isLive());
  ASSERT_TRUE(tracker.exactEnd());
  ASSERT_TRUE(tracker.opaqueMutation(at[0]));
  EXPECT_FALSE(child.isLive());
}

TEST_F(Rules, R10_InExactModeAnObjectEndsByItsOwnReportOnly) {
  ASSERT_TRUE(tracker.exactBegin());
  EXPECT_TRUE(tracker.isExact());
  lot::Ref root = track(tracker, at[0]);
  lot::Ref survivor = track(tracker, at[1], {at[0]});
  lot::Ref victim = track(tracker, at[2], {at[0]});

  // A pass moves one out and removes the other, and nobody says so but the destructor.
  ASSERT_TRUE(tracker.destroyed(at[2]));
  ASSERT_TRUE(tracker.opaqueMutation(at[0]));
  EXPECT_FALSE(victim.isLive());
  EXPECT_TRUE(survivor.isLive());

  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_FALSE(root.isLive());
  EXPECT_TRUE(survivor.isLive());
  ASSERT_TRUE(tracker.destroyed(at[1]));
  EXPECT_FALSE(survivor.isLive());
}

TEST_F(Rules, R10_ExactSourcesNest) {
  EXPECT_FALSE(tracker.isExact());
  ASSERT_TRUE(tracker.exactBegin());
  ASSERT_TRUE(tracker.exactBegin());
  EXPECT_EQ(stats(tracker).exact_sources, 2u);
  ASSERT_TRUE(tracker.exactEnd());
  EXPECT_TRUE(tracker.isExact());
  ASSERT_TRUE(tracker.exactEnd());
  EXPECT_FALSE(tracker.isExact());
  EXPECT_EQ(tracker.exactEnd().code(), LOT_ERROR_NOT_ACTIVE);
}

TEST_F(Rules, R10_AnAttributionSaysWhatReportedEndsAreDueTo) {
  ASSERT_TRUE(tracker.exactBegin());
  lot::Ref root = track(tracker, at[0]);
  lot::Ref child = track(tracker, at[1], {at[0]});
  lot::Ref later = track(tracker, at[2]);
  {
    lot::Attribution erasing(LOT_CAUSE_ANCESTOR_DESTROYED, root);
    ASSERT_TRUE(tracker.destroyed(at[1]));
    ASSERT_TRUE(tracker.destroyed(at[0]));
  }
  ASSERT_TRUE(tracker.destroyed(at[2]));

  lot_death death = {};
  ASSERT_TRUE(child.death(death));
  EXPECT_EQ(death.cause, static_cast<lot_cause>(LOT_CAUSE_ANCESTOR_DESTROYED));
  EXPECT_EQ(lot::Ref(death.by), root);
  ASSERT_TRUE(root.death(death));
  EXPECT_EQ(death.cause, static_cast<lot_cause>(LOT_CAUSE_ERASED));
  ASSERT_TRUE(later.death(death));
  EXPECT_EQ(death.cause, static_cast<lot_cause>(LOT_CAUSE_DESTROYED));
}

TEST_F(Rules, R11_HooksAreIdempotent) {
  lot::Ref keep = track(tracker, at[0]);
  lot::Ref ref = track(tracker, at[1], {at[0]});
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(tracker.erase(at[1]));
    EXPECT_TRUE(tracker.parentDestroy(at[1]));
    EXPECT_TRUE(tracker.destroyed(at[1]));
    EXPECT_TRUE(tracker.destroyedWith(at[1], 0xffff));
    EXPECT_TRUE(tracker.opaqueMutation(at[1]));
  }
  EXPECT_FALSE(ref.isLive());
  EXPECT_TRUE(keep.isLive());
  EXPECT_EQ(stats(tracker).ended, 1u);
  // The first of them said why.
  EXPECT_EQ(cause(ref), static_cast<lot_cause>(LOT_CAUSE_ERASED));
}

TEST_F(Rules, R11_AnUnknownAddressIsAnOrdinaryAnswer) {
  lot::Ref keep = track(tracker, at[0]);
  lot_stats before = stats(tracker);
  EXPECT_TRUE(tracker.erase(at[9]));
  EXPECT_TRUE(tracker.parentDestroy(at[9]));
  EXPECT_TRUE(tracker.destroyed(at[9]));
  EXPECT_TRUE(tracker.destroyedWith(at[9], 1));
  EXPECT_TRUE(tracker.move(at[9], Path{at[8]}));
  EXPECT_TRUE(tracker.detach(at[9]));
  EXPECT_TRUE(tracker.opaqueMutation(at[9]));
  EXPECT_TRUE(tracker.clearScope(12345));
  lot_stats after = stats(tracker);
  EXPECT_EQ(before.tracked, after.tracked);
  EXPECT_EQ(before.ended, after.ended);
  EXPECT_EQ(before.anchors, after.anchors);
  EXPECT_TRUE(keep.isLive());
}

TEST_F(Rules, R11_TheOrderOfReportsDoesNotMatter) {
  // Children first or parents first, as a destructor of the framework may have it.
  for (bool childFirst : {true, false}) {
    lot::Ref root = track(tracker, at[0]);
    lot::Ref child = track(tracker, at[1], {at[0]});
    ASSERT_TRUE(tracker.destroyed(childFirst ? at[1] : at[0]));
    ASSERT_TRUE(tracker.destroyed(childFirst ? at[0] : at[1]));
    EXPECT_FALSE(root.isLive());
    EXPECT_FALSE(child.isLive());
    EXPECT_EQ(tracker.count(), 0u);
  }
  EXPECT_EQ(stats(tracker).anchors, 0u);
}

TEST_F(Rules, R11_HooksWorkInsideADestructorThatUnwinds) {
  struct Reports {
    const lot::Tracker &tracker;
    const void *object;
    ~Reports() { tracker.erase(object).ignore(); }
  };
  lot::Ref ref = track(tracker, at[0]);
  try {
    Reports reports{tracker, at[0]};
    throw 1;
  } catch (int) {
  }
  EXPECT_FALSE(ref.isLive());
  static_assert(noexcept(tracker.erase(nullptr)) && noexcept(tracker.destroyed(nullptr)));
}

// Bookkeeping

std::size_t bytesInUse() {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(Rules, R12_MemoryIsBoundedByWhatIsTracked) {
  auto churn = [&](std::size_t rounds) {
    for (std::size_t round = 0; round < rounds; ++round) {
      std::size_t slot = round % 16;
      create(tracker, at[slot], {at[16 + slot], at[32 + slot]});
      if (round % 2)
        ASSERT_TRUE(tracker.erase(at[32 + slot]));
      else
        ASSERT_TRUE(tracker.find(at[slot]).release());
    }
  };
  churn(300000); // fills the quarantine, also under valgrind
  std::size_t before = bytesInUse();
  churn(times(1000000));
  std::size_t after = bytesInUse();
  EXPECT_LE(after, before + (64u << 10));
  EXPECT_EQ(stats(tracker).tracked, 0u);
}

TEST_F(Rules, R12_AnAncestorKeptForItsPlaceGoesWithTheLastBelow) {
  track(tracker, at[3], {at[2], at[1], at[0]});
  track(tracker, at[4], {at[2], at[1], at[0]});
  EXPECT_EQ(stats(tracker).anchors, 3u);
  ASSERT_TRUE(tracker.find(at[3]).release());
  EXPECT_EQ(stats(tracker).anchors, 3u);
  ASSERT_TRUE(tracker.destroyed(at[4]));
  EXPECT_EQ(stats(tracker).anchors, 0u);
  EXPECT_EQ(stats(tracker).tracked, 0u);
}

TEST_F(Rules, R13_ADeadRefSaysWhy) {
  auto death = [](lot::Ref ref) {
    lot_death death = {};
    EXPECT_TRUE(ref.death(death));
    return death;
  };

  lot::Ref root = track(tracker, at[0]);
  lot::Ref child = track(tracker, at[1], {at[0]}, Block);
  lot_death untouched = {};
  untouched.cause = 77;
  EXPECT_EQ(root.death(untouched).code(), LOT_ERROR_NOT_FOUND); // it lives
  EXPECT_EQ(untouched.cause, 77u);

  // The time may be as coarse as the system's timer tick.
  auto now = [](clockid_t clock) {
    timespec time = {};
    clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u +
           static_cast<std::uint64_t>(time.tv_nsec);
  };
  std::uint64_t before = now(CLOCK_MONOTONIC_COARSE);
  ASSERT_TRUE(tracker.erase(at[0]));
  std::uint64_t after = now(CLOCK_MONOTONIC);

  EXPECT_EQ(death(root).cause, static_cast<lot_cause>(LOT_CAUSE_ERASED));
  EXPECT_EQ(death(root).kind, Op);
  EXPECT_EQ(death(child).cause, static_cast<lot_cause>(LOT_CAUSE_ANCESTOR_DESTROYED));
  EXPECT_EQ(death(child).kind, Block);
  EXPECT_EQ(lot::Ref(death(child).by), root);
  EXPECT_GE(death(child).time_ns, before);
  EXPECT_LE(death(child).time_ns, after);

  lot::Ref untrackedParent = track(tracker, at[3], {at[2]});
  ASSERT_TRUE(tracker.erase(at[2]));
  EXPECT_EQ(death(untrackedParent).cause, static_cast<lot_cause>(LOT_CAUSE_ANCESTOR_DESTROYED));
  EXPECT_EQ(death(untrackedParent).by.object, at[2]);
  EXPECT_EQ(death(untrackedParent).by.epoch, 0u);

  lot::Ref released = track(tracker, at[4]);
  ASSERT_TRUE(released.release());
  EXPECT_EQ(death(released).cause, static_cast<lot_cause>(LOT_CAUSE_RELEASED));

  lot::Ref cleared = track(tracker, at[5], {}, Op, 99);
  ASSERT_TRUE(tracker.clearScope(99));
  EXPECT_EQ(death(cleared).cause, static_cast<lot_cause>(LOT_CAUSE_SCOPE_CLEARED));
}

TEST_F(Rules, R13_TheFirstCauseWins) {
  lot::Ref root = track(tracker, at[0]);
  lot::Ref child = track(tracker, at[1], {at[0]});
  ASSERT_TRUE(tracker.erase(at[0]));
  ASSERT_TRUE(tracker.destroyed(at[1]));
  ASSERT_TRUE(tracker.destroyed(at[0]));
  EXPECT_EQ(child.release().code(), LOT_ERROR_DEAD_REF);
  EXPECT_EQ(cause(root), static_cast<lot_cause>(LOT_CAUSE_ERASED));
  EXPECT_EQ(cause(child), static_cast<lot_cause>(LOT_CAUSE_ANCESTOR_DESTROYED));
}

TEST_F(Rules, R13_OutOfQuarantineTheAnswerIsUnknownAndNeverWrong) {
  lot::Ref old = track(tracker, at[0], {}, Argument);
  ASSERT_TRUE(old.release());
  std::size_t ends = 0;
  lot_death death = {};
  for (;; ++ends) {
    ASSERT_LT(ends, std::size_t(8) << 20) << "the quarantine is not bounded";
    // In the same scope half of the time: what is on record for one is not pushed out by others.
    create(tracker, at[0], {}, Op, Scope + ends % 2);
    ASSERT_TRUE(tracker.erase(at[0]));
    if (ends % 256 == 0) {
      ASSERT_FALSE(old.isLive());
      lot::Status status = old.death(death);
      if (!status) {
        EXPECT_EQ(status.code(), LOT_ERROR_NOT_FOUND);
        break;
      }
      ASSERT_EQ(death.cause, static_cast<lot_cause>(LOT_CAUSE_RELEASED));
      ASSERT_EQ(death.kind, Argument);
    }
  }
  EXPECT_GT(ends, 0u) << "no death was ever on record";
}

TEST_F(Rules, R14_CountsAreExact) {
  for (std::size_t index = 0; index < 30; ++index)
    track(tracker, at[index], {}, static_cast<lot_kind>(index % 3), 1 + index % 2);
  EXPECT_EQ(tracker.count(), 30u);
  EXPECT_EQ(tracker.count(Op), 10u);
  EXPECT_EQ(tracker.countInScope(1), 15u);
  EXPECT_EQ(tracker.countInScope(2, Block), 5u);
  EXPECT_EQ(tracker.countInScope(3), 0u);
  ASSERT_TRUE(tracker.erase(at[0])); // kind 0, scope 1
  EXPECT_EQ(tracker.count(), 29u);
  EXPECT_EQ(tracker.countInScope(1, Op), 4u);
  ASSERT_TRUE(tracker.clearScope(2));
  EXPECT_EQ(tracker.count(), 14u);
  EXPECT_EQ(tracker.countInScope(2), 0u);

  std::size_t visited = 0;
  std::uint64_t scope = 1;
  ASSERT_TRUE(tracker.forEach(&scope, Block, [&](lot::Ref ref, void *) {
    EXPECT_TRUE(ref.isLive());
    ++visited;
    return true;
  }));
  EXPECT_EQ(visited, tracker.countInScope(1, Block));
  visited = 0;
  ASSERT_TRUE(tracker.forEach(nullptr, LOT_KIND_ANY, [&](lot::Ref, void *) {
    return ++visited < 3;
  }));
  EXPECT_EQ(visited, 3u);
}

struct Seen {
  lot::Tracker tracker;
  std::vector<lot_end> ends;
  const void *elsewhere = nullptr;
};

void observe(const lot_end *ends, std::size_t count, void *data) {
  Seen &seen = *static_cast<Seen *>(data);
  for (std::size_t index = 0; index < count; ++index) {
    // The state has changed already.
    EXPECT_FALSE(lot_is_live(ends[index].ref));
    lot_death death = {};
    EXPECT_EQ(lot_get_death(ends[index].ref, &death), LOT_OK);
    EXPECT_EQ(death.cause, ends[index].death.cause);
    seen.ends.push_back(ends[index]);
  }
  // And the tracker may be called again, for the same address as well.
  const void *address = ends[0].ref.object;
  EXPECT_TRUE(seen.tracker.find(address).isNull());
  if (seen.elsewhere) {
    const void *object = std::exchange(seen.elsewhere, nullptr);
    lot::Ref next = track(seen.tracker, object);
    EXPECT_TRUE(seen.tracker.erase(object));
    EXPECT_FALSE(next.isLive());
  }
}

TEST_F(Rules, R15_ObserversRunAfterTheChangeAndMayCallAgain) {
  Seen seen;
  seen.tracker = tracker;
  seen.elsewhere = at[20];
  ASSERT_TRUE(tracker.setObserver(observe, &seen));
  int user = 0;
  lot::Ref root = track(tracker, at[0], {}, Op, 5, &user);
  lot::Ref child = track(tracker, at[1], {at[0]}, Block, 5);
  ASSERT_TRUE(tracker.erase(at[0]));
  ASSERT_EQ(seen.ends.size(), 3u) << "two of the erase and the observer's own one";
  std::size_t found = 0;
  for (const lot_end &end : seen.ends) {
    if (lot::Ref(end.ref) == root) {
      ++found;
      EXPECT_EQ(end.user, &user);
      EXPECT_EQ(end.scope, 5u);
      EXPECT_EQ(end.death.cause, static_cast<lot_cause>(LOT_CAUSE_ERASED));
    } else if (lot::Ref(end.ref) == child) {
      ++found;
      EXPECT_EQ(end.death.kind, Block);
      EXPECT_EQ(lot::Ref(end.death.by), root);
    }
  }
  EXPECT_EQ(found, 2u);

  ASSERT_TRUE(tracker.setObserver(nullptr, nullptr));
  track(tracker, at[0]);
  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_EQ(seen.ends.size(), 3u);
}

TEST_F(Rules, R15_VisitorsMayCallAgain) {
  for (std::size_t index = 0; index < 10; ++index)
    track(tracker, at[index]);
  std::size_t visited = 0;
  ASSERT_TRUE(tracker.forEach(nullptr, LOT_KIND_ANY, [&](lot::Ref ref, void *) {
    ++visited;
    EXPECT_TRUE(tracker.erase(ref.address()));
    EXPECT_FALSE(ref.isLive());
    return true;
  }));
  EXPECT_EQ(visited, 10u);
  EXPECT_EQ(tracker.count(), 0u);
}

TEST_F(Rules, R16_AUserPointerIsFoundByAddress) {
  int first = 0, second = 0;
  void *found = nullptr;
  lot::Ref ref;
  ASSERT_TRUE(tracker.track(at[0], Scope, Op, lot::Ancestors(), &first, ref, &found));
  EXPECT_EQ(found, &first);
  // The second to come gets what the first left, not what it brought.
  lot::Ref again;
  ASSERT_TRUE(tracker.track(at[0], Scope, Op, lot::Ancestors(), &second, again, &found));
  EXPECT_EQ(again, ref);
  EXPECT_EQ(found, &first);
  found = nullptr;
  EXPECT_EQ(tracker.find(at[0], &found), ref);
  EXPECT_EQ(found, &first);
  ASSERT_TRUE(ref.setUser(&second));
  EXPECT_EQ(ref.user(), &second);

  ASSERT_TRUE(tracker.erase(at[0]));
  EXPECT_EQ(ref.user(), nullptr);
  EXPECT_TRUE(tracker.find(at[0]).isNull());
  EXPECT_EQ(ref.setUser(&first).code(), LOT_ERROR_DEAD_REF);
  // The next one at the address does not inherit it.
  lot::Ref next = create(tracker, at[0]);
  EXPECT_EQ(next.user(), nullptr);
}

TEST_F(Rules, R16_ChildrenAndParentAreTheNearestTracked) {
  lot::Ref root = track(tracker, at[0]);
  lot::Ref child = track(tracker, at[2], {at[1], at[0]});
  lot::Ref other = track(tracker, at[3], {at[0]});
  lot::Ref deep = track(tracker, at[4], {at[2], at[1], at[0]});
  EXPECT_EQ(child.parent(), root);
  EXPECT_EQ(deep.parent(), child);
  EXPECT_TRUE(root.parent().isNull());
  std::set<std::uint64_t> children;
  ASSERT_EQ(lot_children(
                root.raw(),
                [](lot_ref ref, void *, void *data) {
                  static_cast<std::set<std::uint64_t> *>(data)->insert(ref.epoch);
                  return true;
                },
                &children),
            LOT_OK);
  EXPECT_EQ(children, (std::set<std::uint64_t>{child.epoch(), other.epoch()}));
}

// Safety; the table of misuse is in misuse_test.cpp.

TEST_F(Rules, R17_AFailureIsAStatusAndAMessageAndLosesNothing) {
  lot::Ref ref = track(tracker, at[0]);
  lot_tracker stranger = {tracker.raw().id + 1000};
  EXPECT_EQ(lot_erase(stranger, at[0]), LOT_ERROR_NO_TRACKER);
  EXPECT_STRNE(lot_last_error_message(), "");
  std::string here = lot_last_error_message();
  std::thread([] { EXPECT_STREQ(lot_last_error_message(), ""); }).join();
  EXPECT_EQ(here, lot_last_error_message()) << "another thread's messages are its own";
  EXPECT_TRUE(ref.isLive());
  EXPECT_EQ(tracker.count(), 1u);
  EXPECT_EQ(stats(tracker).internal_errors, 0u);
}

TEST_F(Rules, R18_HooksOnManyThreads) {
  constexpr std::size_t Threads = 4;
  const std::size_t rounds = times(20000);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> shared[2] = {};
  Places common(4);

  // One thread asks for refs that the others publish: it must only ever see them live or dead.
  std::thread asker([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      lot::Ref ref(lot_ref{common[0], shared[0].load(std::memory_order_acquire)});
      (void)ref.isLive();
      lot_death death = {};
      if (ref.death(death)) {
        EXPECT_NE(death.cause, static_cast<lot_cause>(LOT_CAUSE_UNKNOWN));
      }
      (void)tracker.count();
    }
  });
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < Threads; ++thread)
    threads.emplace_back([&, thread] {
      Places mine(8);
      std::uint64_t scope = 100 + thread;
      for (std::size_t round = 0; round < rounds; ++round) {
        lot::Ref root = track(tracker, mine[0], {}, Op, scope);
        lot::Ref child = track(tracker, mine[1], {mine[0]}, Block, scope);
        lot::Ref deep = track(tracker, mine[3], {mine[2], mine[1], mine[0]}, Op, scope);
        if (round % 3 == 0) {
          ASSERT_TRUE(tracker.move(mine[3], Path{mine[4]}));
          ASSERT_TRUE(tracker.erase(mine[0]));
          ASSERT_TRUE(deep.isLive());
          ASSERT_TRUE(tracker.erase(mine[4]));
        } else if (round % 3 == 1) {
          ASSERT_TRUE(tracker.parentDestroy(mine[0]));
        } else {
          ASSERT_TRUE(tracker.clearScope(scope));
        }
        ASSERT_FALSE(root.isLive());
        ASSERT_FALSE(child.isLive());
        ASSERT_FALSE(deep.isLive());
        // All threads fight for this one, in one scope, with every hook.
        lot::Ref fought;
        ASSERT_TRUE(tracker.create(common[0], 1, Op, Path{common[1]}, nullptr, fought));
        shared[0].store(fought.epoch(), std::memory_order_release);
        switch (round % 4) {
        case 0: ASSERT_TRUE(tracker.erase(common[1])); break;
        case 1: ASSERT_TRUE(tracker.destroyed(common[0])); break;
        case 2: ASSERT_TRUE(tracker.move(common[0], Path{common[2], common[3]})); break;
        default: (void)fought.release(); break;
        }
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  stop = true;
  asker.join();

  EXPECT_LE(tracker.count(), 1u);
  ASSERT_TRUE(tracker.erase(common[0]));
  lot_stats end = stats(tracker);
  EXPECT_EQ(end.tracked, 0u);
  EXPECT_EQ(end.anchors, 0u);
  EXPECT_EQ(end.created, end.ended + end.released);
  EXPECT_EQ(end.created, Threads * rounds * 4);
  EXPECT_EQ(end.internal_errors, 0u);
}

// Nothing on the heap: in the child this thread is gone, and memcheck would call it a leak there.
struct Busy {
  lot_tracker tracker;
  std::atomic<bool> stop{false};
};

void *keepHooksBusy(void *data) {
  Busy &busy = *static_cast<Busy *>(data);
  lot::Tracker tracker = busy.tracker;
  char objects[2] = {};
  const void *below[] = {&objects[0]};
  while (!busy.stop.load(std::memory_order_relaxed)) {
    lot::Ref ref;
    EXPECT_TRUE(tracker.track(&objects[0], Scope, Op, lot::Ancestors(), nullptr, ref));
    EXPECT_TRUE(tracker.track(&objects[1], Scope, Op, below, nullptr, ref));
    EXPECT_TRUE(tracker.erase(&objects[0]));
    EXPECT_TRUE(tracker.clearScope(12345));
  }
  return nullptr;
}

TEST_F(Rules, R19_ForkLeavesAUsableTracker) {
  Busy busy;
  busy.tracker = tracker.raw();
  pthread_t threads[2];
  for (pthread_t &thread : threads)
    ASSERT_EQ(pthread_create(&thread, nullptr, keepHooksBusy, &busy), 0);
  lot::Ref before = track(tracker, at[0], {}, Op, 1);
  const std::size_t forks = times(200) < 20 ? 20 : times(200);
  for (std::size_t round = 0; round < forks; ++round) {
    pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      // No gtest here: only this thread exists. A lock that another one held would hang it.
      signal(SIGALRM, SIG_DFL);
      alarm(60);
      lot::Ref inner, fresh;
      Path below = {at[0]};
      bool fine = before.isLive() &&
                  tracker.track(at[1], 1, Op, below, nullptr, inner) &&
                  tracker.erase(at[0]) && !before.isLive() && !inner.isLive() &&
                  tracker.create(at[0], 1, Op, lot::Ancestors(), nullptr, fresh) &&
                  fresh.isLive() && tracker.clearScope(1) && !fresh.isLive() &&
                  tracker.countInScope(1) == 0;
      _exit(fine ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "the child got signal " << WTERMSIG(status) << " (14: it hung)";
    EXPECT_EQ(WEXITSTATUS(status), 0);
    if (HasFailure())
      break;
  }
  busy.stop = true;
  for (pthread_t thread : threads)
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
  EXPECT_TRUE(before.isLive()) << "what the child did is its own";
}

} // namespace
