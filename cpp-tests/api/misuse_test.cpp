// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each C function called with null, with a dead ref, with made-up bits, twice, and after the tracker's
// destruction: the status that its documentation promises, out-parameters left alone, nothing lost (R17).
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "support.hpp"

namespace {

using namespace support;

void ignoreEnds(const lot_end *, std::size_t, void *) {}
bool visitAll(lot_ref, void *, void *data) {
  ++*static_cast<std::size_t *>(data);
  return true;
}
void append(const char *bytes, std::size_t length, void *data) {
  static_cast<std::string *>(data)->append(bytes, length);
}

// What no function writes: to see that a failed call leaves its out-parameters alone.
constexpr lot_ref Untouched = {nullptr, 0xfeedfacefeedfaceu};
void *const UntouchedUser = reinterpret_cast<void *>(std::uintptr_t(0x5a5a5a50));

void expectSame(lot_ref actual, lot_ref expected) {
  EXPECT_EQ(actual.object, expected.object);
  EXPECT_EQ(actual.epoch, expected.epoch);
}

class Misuse : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(lot_tracker_create("misuse", &tracker), LOT_OK);
    live = track(tracker, at[0]).raw();
    dead = track(tracker, at[1]).raw();
    ASSERT_EQ(lot_destroy(tracker, at[1]), LOT_OK);
  }
  void TearDown() override {
    // Nothing of what was tried has done harm.
    lot_stats stats = {};
    if (lot_tracker_stats(tracker, &stats) == LOT_OK) {
      EXPECT_EQ(stats.internal_errors, 0u);
      EXPECT_TRUE(lot_is_live(live));
      EXPECT_EQ(stats.tracked, 1u);
      EXPECT_EQ(lot_tracker_destroy(tracker), LOT_OK);
    }
    EXPECT_FALSE(lot_is_live(live));
  }

  lot_description describe(const void *object) const {
    lot_description description = {};
    description.object = object;
    description.scope = Scope;
    return description;
  }

  Places at{16};
  lot_tracker tracker = {};
  lot_ref live = {};
  lot_ref dead = {};
};

// Each failure has its status, and leaves a message of its own.
#define EXPECT_FAILS(status, call)                                                                 \
  do {                                                                                             \
    EXPECT_EQ(call, status);                                                                       \
    EXPECT_STRNE(lot_last_error_message(), "");                                                    \
  } while (false)

TEST_F(Misuse, R17_NullArguments) {
  lot_description description = describe(at[2]);
  lot_description nowhere = describe(nullptr);
  lot_ref ref = Untouched;
  void *user = UntouchedUser;
  std::size_t count = 77;
  const lot_status null = LOT_ERROR_NULL_ARGUMENT;

  EXPECT_FAILS(null, lot_tracker_create("x", nullptr));
  EXPECT_FAILS(null, lot_tracker_stats(tracker, nullptr));

  EXPECT_FAILS(null, lot_create(tracker, nullptr, &ref));
  EXPECT_FAILS(null, lot_create(tracker, &description, nullptr));
  EXPECT_FAILS(null, lot_create(tracker, &nowhere, &ref));
  EXPECT_FAILS(null, lot_track(tracker, nullptr, &ref, &user));
  EXPECT_FAILS(null, lot_track(tracker, &description, nullptr, &user));
  EXPECT_FAILS(null, lot_track(tracker, &nowhere, &ref, &user));
  description.ancestor_count = 3; // of a list that is null
  EXPECT_FAILS(null, lot_create(tracker, &description, &ref));
  EXPECT_FAILS(null, lot_track(tracker, &description, &ref, &user));
  EXPECT_FAILS(null, lot_find(tracker, nullptr, &ref, &user));
  EXPECT_FAILS(null, lot_find(tracker, at[0], nullptr, &user));

  EXPECT_FAILS(null, lot_erase(tracker, nullptr));
  EXPECT_FAILS(null, lot_parent_destroy(tracker, nullptr));
  EXPECT_FAILS(null, lot_destroy(tracker, nullptr));
  EXPECT_FAILS(null, lot_destroy_with(tracker, nullptr, 1));
  EXPECT_FAILS(null, lot_move(tracker, nullptr, nullptr, 0));
  EXPECT_FAILS(null, lot_move(tracker, at[0], nullptr, 3));
  EXPECT_FAILS(null, lot_detach(tracker, nullptr));
  EXPECT_FAILS(null, lot_opaque_mutation(tracker, nullptr));

  EXPECT_FAILS(null, lot_get_user(live, nullptr));
  EXPECT_FAILS(null, lot_get_death(dead, nullptr));
  EXPECT_FAILS(null, lot_get_parent(live, nullptr));
  EXPECT_FAILS(null, lot_children(live, nullptr, nullptr));
  EXPECT_FAILS(null, lot_count(tracker, nullptr, LOT_KIND_ANY, nullptr));
  EXPECT_FAILS(null, lot_for_each(tracker, nullptr, LOT_KIND_ANY, nullptr, &count));
  EXPECT_FAILS(null, lot_dump(tracker, LOT_FORMAT_TEXT, nullptr, nullptr));

  expectSame(ref, Untouched);
  EXPECT_EQ(user, UntouchedUser);
  EXPECT_EQ(count, 77u);
}

TEST_F(Misuse, R17_NullWhereItIsAllowed) {
  lot_tracker unnamed = {};
  ASSERT_EQ(lot_tracker_create(nullptr, &unnamed), LOT_OK);
  EXPECT_EQ(lot_tracker_destroy(unnamed), LOT_OK);
  EXPECT_EQ(lot_tracker_set_observer(tracker, nullptr, nullptr), LOT_OK);
  lot_ref ref = Untouched;
  lot_description description = describe(at[0]);
  EXPECT_EQ(lot_track(tracker, &description, &ref, nullptr), LOT_OK);
  expectSame(ref, live);
  EXPECT_EQ(lot_find(tracker, at[0], &ref, nullptr), LOT_OK);
  expectSame(ref, live);
  EXPECT_EQ(lot_move(tracker, at[0], nullptr, 0), LOT_OK);
  EXPECT_EQ(lot_set_user(live, nullptr), LOT_OK);
}

TEST_F(Misuse, R17_InvalidArguments) {
  lot_ref ref = Untouched;
  void *user = UntouchedUser;
  std::size_t count = 77;
  std::string text;
  const lot_status invalid = LOT_ERROR_INVALID_ARGUMENT;

  for (int kind : {16, 17, 100, 254, 255}) {
    lot_description description = describe(at[2]);
    description.kind = static_cast<lot_kind>(kind);
    EXPECT_FAILS(invalid, lot_create(tracker, &description, &ref));
    EXPECT_FAILS(invalid, lot_track(tracker, &description, &ref, &user));
    if (kind != LOT_KIND_ANY) {
      EXPECT_FAILS(invalid, lot_count(tracker, nullptr, description.kind, &count));
      EXPECT_FAILS(invalid, lot_for_each(tracker, nullptr, description.kind, visitAll, &count));
    }
  }

  const void *itself[] = {at[3], at[2]};
  const void *twice[] = {at[3], at[4], at[3]};
  const void *withNull[] = {at[3], nullptr};
  for (const auto &[list, size] : {std::pair<const void *const *, std::size_t>{itself, 2},
                                   {twice, 3},
                                   {withNull, 2}}) {
    lot_description description = describe(at[2]);
    description.ancestors = list;
    description.ancestor_count = size;
    EXPECT_FAILS(invalid, lot_create(tracker, &description, &ref));
    EXPECT_FAILS(invalid, lot_track(tracker, &description, &ref, &user));
    EXPECT_EQ(lot_is_live(live), true);
  }
  // The same for an object that is known, where a refusal must leave it in its place.
  const void *itselfLive[] = {at[3], at[0]};
  EXPECT_FAILS(invalid, lot_move(tracker, at[0], itselfLive, 2));
  EXPECT_FAILS(invalid, lot_move(tracker, at[0], twice, 3));
  EXPECT_FAILS(invalid, lot_move(tracker, at[0], withNull, 2));
  lot_description description = describe(at[2]);
  description.ancestors = twice;
  description.ancestor_count = ~std::size_t(0);
  EXPECT_FAILS(invalid, lot_create(tracker, &description, &ref));

  for (lot_format format : {3u, 255u, 0xffffffffu})
    EXPECT_FAILS(invalid, lot_dump(tracker, format, append, &text));

  expectSame(ref, Untouched);
  EXPECT_EQ(user, UntouchedUser);
  EXPECT_EQ(count, 77u);
  EXPECT_TRUE(text.empty());
  lot_stats stats = {};
  ASSERT_EQ(lot_tracker_stats(tracker, &stats), LOT_OK);
  EXPECT_EQ(stats.anchors, 0u) << "a refused report has left ancestors behind";
}

// Every function that takes a ref, with one that is not live.
void expectDead(lot_ref ref) {
  const lot_status dead = LOT_ERROR_DEAD_REF;
  void *user = UntouchedUser;
  lot_ref parent = Untouched;
  std::size_t visited = 0;
  EXPECT_FALSE(lot_is_live(ref));
  EXPECT_FAILS(dead, lot_release(ref));
  EXPECT_FAILS(dead, lot_get_user(ref, &user));
  EXPECT_FAILS(dead, lot_set_user(ref, nullptr));
  EXPECT_FAILS(dead, lot_children(ref, visitAll, &visited));
  EXPECT_FAILS(dead, lot_get_parent(ref, &parent));
  EXPECT_EQ(user, UntouchedUser);
  expectSame(parent, Untouched);
  EXPECT_EQ(visited, 0u);
}

TEST_F(Misuse, R17_DeadRefs) {
  expectDead(dead);
  lot_death death = {};
  EXPECT_EQ(lot_get_death(dead, &death), LOT_OK);
  EXPECT_EQ(death.cause, static_cast<lot_cause>(LOT_CAUSE_DESTROYED));
}

TEST_F(Misuse, R17_TheNullRefAndMadeUpBits) {
  std::vector<lot_ref> refs = {
      {nullptr, 0},
      {at[0], 0},
      {nullptr, live.epoch},
      {at[1], live.epoch},
      {at[0], dead.epoch},
      {at[0], live.epoch + 1},
      {at[0], ~std::uint64_t(0)},
      {reinterpret_cast<const void *>(~std::uintptr_t(0)), ~std::uint64_t(0)},
  };
  std::mt19937_64 random(2);
  for (std::size_t round = 0; round < times(20000); ++round) {
    std::uint64_t epoch = random() >> (random() % 64);
    if (epoch != live.epoch && epoch != dead.epoch)
      refs.push_back({round % 2 ? at[0] : reinterpret_cast<const void *>(random()), epoch});
  }
  for (lot_ref ref : refs) {
    expectDead(ref);
    lot_death death = {};
    death.cause = 77;
    EXPECT_FAILS(LOT_ERROR_NOT_FOUND, lot_get_death(ref, &death));
    EXPECT_EQ(death.cause, 77u);
  }
}

// Every function that takes a tracker, with one that is none.
void expectNoTracker(lot_tracker tracker, const void *object) {
  const lot_status none = LOT_ERROR_NO_TRACKER;
  lot_description description = {};
  description.object = object;
  lot_stats stats = {};
  stats.tracked = 77;
  lot_ref ref = Untouched;
  void *user = UntouchedUser;
  std::size_t count = 77;
  std::string text;
  EXPECT_FAILS(none, lot_tracker_destroy(tracker));
  EXPECT_FAILS(none, lot_tracker_set_observer(tracker, ignoreEnds, nullptr));
  EXPECT_FAILS(none, lot_tracker_set_observer(tracker, nullptr, nullptr));
  EXPECT_FAILS(none, lot_tracker_stats(tracker, &stats));
  EXPECT_FAILS(none, lot_exact_begin(tracker));
  EXPECT_FAILS(none, lot_exact_end(tracker));
  EXPECT_FALSE(lot_is_exact(tracker));
  EXPECT_FAILS(none, lot_create(tracker, &description, &ref));
  EXPECT_FAILS(none, lot_track(tracker, &description, &ref, &user));
  EXPECT_FAILS(none, lot_find(tracker, object, &ref, &user));
  EXPECT_FAILS(none, lot_erase(tracker, object));
  EXPECT_FAILS(none, lot_parent_destroy(tracker, object));
  EXPECT_FAILS(none, lot_destroy(tracker, object));
  EXPECT_FAILS(none, lot_destroy_with(tracker, object, 1));
  EXPECT_FAILS(none, lot_move(tracker, object, nullptr, 0));
  EXPECT_FAILS(none, lot_detach(tracker, object));
  EXPECT_FAILS(none, lot_opaque_mutation(tracker, object));
  EXPECT_FAILS(none, lot_clear_scope(tracker, Scope));
  EXPECT_FAILS(none, lot_count(tracker, nullptr, LOT_KIND_ANY, &count));
  EXPECT_FAILS(none, lot_for_each(tracker, nullptr, LOT_KIND_ANY, visitAll, &count));
  EXPECT_FAILS(none, lot_dump(tracker, LOT_FORMAT_TEXT, append, &text));
  EXPECT_EQ(stats.tracked, 77u);
  expectSame(ref, Untouched);
  EXPECT_EQ(user, UntouchedUser);
  EXPECT_EQ(count, 77u);
  EXPECT_TRUE(text.empty());
}

TEST_F(Misuse, R17_HandlesThatAreNoTrackers) {
  expectNoTracker({0}, at[0]);
  expectNoTracker({tracker.id + 1}, at[0]);
  expectNoTracker({tracker.id ^ (std::uint64_t(1) << 63)}, at[0]);
  expectNoTracker({~std::uint64_t(0)}, at[0]);
  std::mt19937_64 random(3);
  for (std::size_t round = 0; round < times(2000); ++round) {
    std::uint64_t id = random() >> (random() % 64);
    if (id != tracker.id)
      expectNoTracker({id}, at[0]);
  }
}

TEST_F(Misuse, R17_AfterTheTrackersDestruction) {
  int data = 0;
  ASSERT_EQ(lot_set_user(live, &data), LOT_OK);
  ASSERT_EQ(lot_tracker_destroy(tracker), LOT_OK);
  expectNoTracker(tracker, at[0]);
  expectDead(live);
  expectDead(dead);
  lot_death death = {};
  EXPECT_EQ(lot_get_death(live, &death), LOT_OK);
  EXPECT_EQ(death.cause, static_cast<lot_cause>(LOT_CAUSE_SCOPE_CLEARED));
  // Another tracker takes nothing over from it, least of all its handle.
  lot_tracker next = {};
  ASSERT_EQ(lot_tracker_create("next", &next), LOT_OK);
  EXPECT_NE(next.id, tracker.id);
  std::size_t count = 77;
  EXPECT_EQ(lot_count(next, nullptr, LOT_KIND_ANY, &count), LOT_OK);
  EXPECT_EQ(count, 0u);
  lot_stats stats = {};
  EXPECT_EQ(lot_tracker_stats(next, &stats), LOT_OK);
  EXPECT_EQ(stats.created, 0u);
  EXPECT_EQ(stats.exact_sources, 0u);
  expectNoTracker(tracker, at[0]);
  EXPECT_EQ(lot_tracker_destroy(next), LOT_OK);
}

TEST_F(Misuse, R17_Twice) {
  // Hooks twice are R11; what ends something by its ref or handle is refused the second time.
  lot_ref ref = track(tracker, at[2]).raw();
  EXPECT_EQ(lot_release(ref), LOT_OK);
  EXPECT_FAILS(LOT_ERROR_DEAD_REF, lot_release(ref));
  EXPECT_EQ(lot_exact_begin(tracker), LOT_OK);
  EXPECT_EQ(lot_exact_end(tracker), LOT_OK);
  EXPECT_FAILS(LOT_ERROR_NOT_ACTIVE, lot_exact_end(tracker));
  lot_tracker other = {};
  ASSERT_EQ(lot_tracker_create("twice", &other), LOT_OK);
  EXPECT_EQ(lot_tracker_destroy(other), LOT_OK);
  EXPECT_FAILS(LOT_ERROR_NO_TRACKER, lot_tracker_destroy(other));
  // Attributions that are left twice, in the wrong order, or made up.
  lot_attribution outer = lot_attribution_enter({live, LOT_CAUSE_ERASED});
  lot_attribution inner = lot_attribution_enter({dead, 12345});
  lot_attribution_leave(outer);
  lot_attribution_leave(inner);
  lot_attribution_leave(outer);
  lot_attribution_leave({{nullptr, 0}, LOT_CAUSE_UNKNOWN});
}

TEST_F(Misuse, R17_NothingIsFound) {
  lot_ref ref = Untouched;
  void *user = UntouchedUser;
  EXPECT_FAILS(LOT_ERROR_NOT_FOUND, lot_find(tracker, at[1], &ref, &user)); // ended
  EXPECT_FAILS(LOT_ERROR_NOT_FOUND, lot_find(tracker, at[9], &ref, &user)); // never seen
  track(tracker, at[3], {at[4]});
  EXPECT_FAILS(LOT_ERROR_NOT_FOUND, lot_find(tracker, at[4], &ref, &user)); // an untracked ancestor
  expectSame(ref, Untouched);
  EXPECT_EQ(user, UntouchedUser);
  ASSERT_EQ(lot_erase(tracker, at[4]), LOT_OK);
  lot_death death = {};
  EXPECT_FAILS(LOT_ERROR_NOT_FOUND, lot_get_death(live, &death));
}

TEST_F(Misuse, R17_ARefOfAnotherTrackerIsAnsweredByItsOwn) {
  lot_tracker other = {};
  ASSERT_EQ(lot_tracker_create("other", &other), LOT_OK);
  // The same address in both: the hooks of one do not touch the other's.
  lot_ref there = track(other, at[0]).raw();
  EXPECT_EQ(lot_erase(other, at[0]), LOT_OK);
  EXPECT_FALSE(lot_is_live(there));
  EXPECT_TRUE(lot_is_live(live));
  EXPECT_EQ(lot_tracker_destroy(other), LOT_OK);
  EXPECT_TRUE(lot_is_live(live));
}

TEST_F(Misuse, R17_TooManyTrackers) {
  std::vector<lot_tracker> trackers;
  lot_status status = LOT_OK;
  lot_tracker next = {};
  while (trackers.size() < 1000) {
    next = {4711};
    status = lot_tracker_create("many", &next);
    if (status != LOT_OK)
      break;
    trackers.push_back(next);
  }
  EXPECT_EQ(status, LOT_ERROR_LIMIT);
  EXPECT_EQ(next.id, 4711u);
  EXPECT_STRNE(lot_last_error_message(), "");
  for (lot_tracker made : trackers)
    EXPECT_EQ(lot_tracker_destroy(made), LOT_OK);
  ASSERT_EQ(lot_tracker_create("again", &next), LOT_OK);
  EXPECT_EQ(lot_tracker_destroy(next), LOT_OK);
}

TEST_F(Misuse, ReportsAreWrittenInEveryFormat) {
  const void *path[] = {at[0]};
  lot_description description = describe(at[2]);
  description.ancestors = path;
  description.ancestor_count = 1;
  lot_ref child = Untouched;
  ASSERT_EQ(lot_track(tracker, &description, &child, nullptr), LOT_OK);
  std::string text, json, dot;
  ASSERT_EQ(lot_dump(tracker, LOT_FORMAT_TEXT, append, &text), LOT_OK);
  ASSERT_EQ(lot_dump(tracker, LOT_FORMAT_JSON, append, &json), LOT_OK);
  ASSERT_EQ(lot_dump(tracker, LOT_FORMAT_DOT, append, &dot), LOT_OK);
  EXPECT_NE(text.find("misuse"), std::string::npos) << "the tracker's name: " << text;
  ASSERT_FALSE(json.empty());
  EXPECT_EQ(json.front(), '{');
  EXPECT_EQ(dot.compare(0, 7, "digraph"), 0) << dot;
  EXPECT_NE(dot.find("->"), std::string::npos) << dot;
  EXPECT_EQ(lot_release(child), LOT_OK);
}

} // namespace
