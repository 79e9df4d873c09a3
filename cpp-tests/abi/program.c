/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program of somebody who built it with the first headers of this ABI number: it calls all of the
 * interface and looks at every field of every struct. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lot/lot.h"
#include "lot/mlir.h"

static int failures;

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("line %d: %s\n", __LINE__, #condition);                                               \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

enum { OUTER, INNER, OTHER, COUNT };
static char objects[COUNT][16];
static int user_data;

/* What an observer was told. */
struct seen {
  size_t count;
  lot_end last;
};

static void observe(const lot_end *ends, size_t count, void *data) {
  struct seen *seen = data;
  seen->count += count;
  seen->last = ends[count - 1];
}

static bool count_visits(lot_ref ref, void *user, void *data) {
  (void)user;
  EXPECT(lot_is_live(ref));
  ++*(size_t *)data;
  return true;
}

static void count_bytes(const char *bytes, size_t length, void *data) {
  EXPECT(length == 0 || bytes);
  *(size_t *)data += length;
}

static lot_ref track(lot_tracker tracker, int object, const void *const *ancestors, size_t count) {
  lot_description description = {objects[object], 7, ancestors, count, &user_data, 3};
  lot_ref ref = {NULL, 0};
  void *user = NULL;
  EXPECT(lot_track(tracker, &description, &ref, &user) == LOT_OK);
  EXPECT(ref.object == objects[object] && ref.epoch != 0 && user == &user_data);
  return ref;
}

static void check_library(void) {
  EXPECT(lot_abi_version() == LOT_ABI_VERSION);
  EXPECT(lot_version_string()[0] != '\0');
  EXPECT(strcmp(lot_status_name(LOT_ERROR_DEAD_REF), "LOT_ERROR_DEAD_REF") == 0);
  EXPECT(strcmp(lot_cause_name(LOT_CAUSE_ERASED), "erased") == 0);
  lot_tracker none = {0};
  EXPECT(lot_erase(none, objects[OUTER]) == LOT_ERROR_NO_TRACKER);
  EXPECT(lot_last_error_message()[0] != '\0');
}

static void check_questions(lot_tracker tracker, lot_ref outer, lot_ref inner) {
  lot_ref found = {NULL, 0};
  void *user = NULL;
  EXPECT(lot_find(tracker, objects[INNER], &found, &user) == LOT_OK);
  EXPECT(found.epoch == inner.epoch && user == &user_data);
  EXPECT(lot_get_parent(inner, &found) == LOT_OK && found.epoch == outer.epoch);
  EXPECT(lot_set_user(inner, &failures) == LOT_OK);
  EXPECT(lot_get_user(inner, &user) == LOT_OK && user == &failures);
  size_t count = 0;
  uint64_t scope = 7;
  EXPECT(lot_count(tracker, &scope, 3, &count) == LOT_OK && count == 2);
  EXPECT(lot_count(tracker, NULL, LOT_KIND_ANY, &count) == LOT_OK && count == 2);
  count = 0;
  EXPECT(lot_for_each(tracker, &scope, LOT_KIND_ANY, count_visits, &count) == LOT_OK && count == 2);
  count = 0;
  EXPECT(lot_children(outer, count_visits, &count) == LOT_OK && count == 1);
  const lot_format formats[] = {LOT_FORMAT_TEXT, LOT_FORMAT_JSON, LOT_FORMAT_DOT};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
    count = 0;
    EXPECT(lot_dump(tracker, formats[i], count_bytes, &count) == LOT_OK && count > 0);
  }
}

static void check_ends(lot_tracker tracker, lot_ref outer, lot_ref inner) {
  struct seen seen = {0, {{NULL, 0}, {{NULL, 0}, 0, 0, 0}, 0, NULL}};
  EXPECT(lot_tracker_set_observer(tracker, observe, &seen) == LOT_OK);
  EXPECT(lot_erase(tracker, objects[OUTER]) == LOT_OK);
  EXPECT(!lot_is_live(outer) && !lot_is_live(inner));
  EXPECT(seen.count == 2);
  EXPECT(seen.last.ref.epoch == outer.epoch || seen.last.ref.epoch == inner.epoch);
  EXPECT(seen.last.scope == 7 && seen.last.death.kind == 3 && seen.last.user != NULL);
  lot_death death = {{NULL, 0}, 0, 0, 0};
  EXPECT(lot_get_death(inner, &death) == LOT_OK);
  EXPECT(death.cause == LOT_CAUSE_ANCESTOR_DESTROYED && death.kind == 3);
  EXPECT(death.by.object == objects[OUTER] && death.by.epoch == outer.epoch && death.time_ns > 0);

  EXPECT(lot_release(track(tracker, OTHER, NULL, 0)) == LOT_OK);
  EXPECT(seen.count == 3 && seen.last.death.cause == LOT_CAUSE_RELEASED);
  EXPECT(lot_tracker_set_observer(tracker, NULL, NULL) == LOT_OK);

  lot_stats stats;
  memset(&stats, 0xff, sizeof stats);
  EXPECT(lot_tracker_stats(tracker, &stats) == LOT_OK);
  EXPECT(stats.tracked == 0 && stats.anchors == 0 && stats.created == 3 && stats.ended == 2);
  EXPECT(stats.released == 1 && stats.missed_ends == 0 && stats.internal_errors == 0);
  EXPECT(stats.exact_sources == 0);
}

static void check_hooks(lot_tracker tracker) {
  const void *outer[] = {objects[OUTER]};
  lot_ref ref = track(tracker, INNER, outer, 1);
  EXPECT(lot_move(tracker, objects[INNER], NULL, 0) == LOT_OK);
  EXPECT(lot_parent_destroy(tracker, objects[OUTER]) == LOT_OK && lot_is_live(ref));
  EXPECT(lot_move(tracker, objects[INNER], outer, 1) == LOT_OK);
  EXPECT(lot_detach(tracker, objects[INNER]) == LOT_OK);
  EXPECT(lot_erase(tracker, objects[OUTER]) == LOT_OK && lot_is_live(ref));
  EXPECT(lot_move(tracker, objects[INNER], outer, 1) == LOT_OK);
  EXPECT(lot_opaque_mutation(tracker, objects[OUTER]) == LOT_OK && !lot_is_live(ref));

  ref = track(tracker, OUTER, NULL, 0);
  lot_description description = {objects[OUTER], 8, NULL, 0, NULL, 0};
  lot_ref next = {NULL, 0};
  EXPECT(lot_create(tracker, &description, &next) == LOT_OK);
  EXPECT(!lot_is_live(ref) && lot_is_live(next));
  EXPECT(lot_clear_scope(tracker, 8) == LOT_OK && !lot_is_live(next));

  EXPECT(lot_exact_begin(tracker) == LOT_OK && lot_is_exact(tracker));
  ref = track(tracker, OUTER, NULL, 0);
  next = track(tracker, INNER, outer, 1);
  lot_attribution due = {ref, LOT_CAUSE_OPAQUE_MUTATION};
  due = lot_attribution_enter(due);
  EXPECT(due.by.epoch == 0 && due.cause == LOT_CAUSE_UNKNOWN);
  EXPECT(lot_destroy_with(tracker, objects[OUTER], UINT32_C(1) << 3) == LOT_OK);
  lot_attribution_leave(due);
  EXPECT(!lot_is_live(ref) && !lot_is_live(next));
  ref = track(tracker, OUTER, NULL, 0);
  EXPECT(lot_destroy(tracker, objects[OUTER]) == LOT_OK && !lot_is_live(ref));
  EXPECT(lot_exact_end(tracker) == LOT_OK && !lot_is_exact(tracker));
}

static bool sees_nothing(lot_tracker tracker, void *data) {
  (void)tracker;
  ++*(int *)data;
  return false;
}

static void check_mlir(lot_tracker tracker) {
  lot_mlir_status status;
  memset(&status, 0xff, sizeof status);
  EXPECT(lot_mlir_get_status(tracker, &status) == LOT_OK);
  EXPECT(status.source == LOT_MLIR_SOURCE_STRUCTURAL && status.reason != NULL);
  EXPECT(status.slots_patched == 0 && status.libraries_patched == 0);
  int tests = 0;
  EXPECT(lot_mlir_install_link_hooks(tracker, sees_nothing, &tests) == LOT_ERROR_UNSUPPORTED);
  EXPECT(tests == 1);
  EXPECT(lot_mlir_install_load_hooks(tracker, NULL, sees_nothing, &tests) ==
         LOT_ERROR_NULL_ARGUMENT);
  EXPECT(lot_mlir_uninstall_link_hooks(tracker) == LOT_ERROR_NOT_ACTIVE);
  EXPECT(lot_mlir_uninstall_load_hooks(tracker) == LOT_ERROR_NOT_ACTIVE);
  EXPECT(lot_mlir_refresh(tracker) == LOT_OK);
  lot_mlir_report_operation(NULL);
  lot_mlir_report_block(NULL);
  lot_mlir_report_block_argument(NULL);
  EXPECT(!lot_mlir_wants_block_arguments());
  EXPECT(lot_mlir_listener_begin(tracker) == LOT_OK);
  EXPECT(lot_mlir_get_status(tracker, &status) == LOT_OK);
  EXPECT(status.source == LOT_MLIR_SOURCE_LISTENER);
  EXPECT(lot_mlir_listener_end(tracker) == LOT_OK);
}

int main(void) {
  check_library();
  lot_tracker tracker = {0};
  EXPECT(lot_tracker_create("old", &tracker) == LOT_OK && tracker.id != 0);
  const void *outer[] = {objects[OUTER]};
  lot_ref first = track(tracker, OUTER, NULL, 0);
  lot_ref second = track(tracker, INNER, outer, 1);
  check_questions(tracker, first, second);
  check_ends(tracker, first, second);
  check_hooks(tracker);
  check_mlir(tracker);
  EXPECT(lot_tracker_destroy(tracker) == LOT_OK);
  EXPECT(lot_tracker_destroy(tracker) == LOT_ERROR_NO_TRACKER);
  return failures != 0;
}
