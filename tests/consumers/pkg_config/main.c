/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Objects in a tree; an observer keeps the other side's cache of wrappers in order. */
#include <stdio.h>

#include <lot/lot.h>

static void forget(const lot_end *ends, size_t count, void *data) {
  size_t index;
  for (index = 0; index < count; ++index) {
    *(const char **)ends[index].user = lot_cause_name(ends[index].death.cause);
    ++*(int *)data;
  }
}

int main(void) {
  static char root, child;
  const char *root_state = "live", *child_state = "live";
  const void *ancestors[] = {&root};
  int forgotten = 0;
  lot_tracker tracker;
  lot_ref root_ref, child_ref;
  lot_description root_is = {&root, 1, NULL, 0, &root_state, 0};
  lot_description child_is = {&child, 1, ancestors, 1, &child_state, 0};

  if (lot_tracker_create("cache", &tracker) != LOT_OK ||
      lot_tracker_set_observer(tracker, forget, &forgotten) != LOT_OK ||
      lot_track(tracker, &child_is, &child_ref, NULL) != LOT_OK ||
      lot_track(tracker, &root_is, &root_ref, NULL) != LOT_OK)
    return 1;
  if (lot_erase(tracker, &root) != LOT_OK || lot_is_live(root_ref) || lot_is_live(child_ref))
    return 2;
  if (forgotten != 2)
    return 3;
  printf("%s: root %s, child %s\n", lot_version_string(), root_state, child_state);
  return lot_tracker_destroy(tracker) == LOT_OK ? 0 : 4;
}
