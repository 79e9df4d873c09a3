// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What lot/lot.hpp adds to the C interface.
#include <array>
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
  EXPECT_FALSE(placed(lot::Ancestors()));
}

TEST(Wrapper, AnEmptyContainerSaysThatThereAreNoAncestors) {
  // Its data() may be null, which by itself would mean that nothing is reported.
  Places at(2);
  lot::OwnedTracker tracker("empty");
  lot::Ref ref = track(tracker, at[0], {at[1]});
  EXPECT_EQ(track(tracker, at[0], Path()), ref);
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

TEST(Wrapper, StatusSaysWhatHappened) {
  Places at(1);
  lot::Tracker none;
  lot::Status status = none.erase(at[0]);
  EXPECT_FALSE(status);
  EXPECT_STREQ(status.name(), "LOT_ERROR_NO_TRACKER");
  EXPECT_STRNE(lot::Status::message(), "");
}

} // namespace
