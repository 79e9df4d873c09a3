/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* An allocator that hands out one address again and again: the worst case for whoever keeps pointers. */
#include <stdio.h>
#include <string.h>

#include <lot/lot.h>

int main(void) {
  static char place[16];
  lot_tracker tracker;
  lot_ref first, latest;
  lot_description description;
  size_t live = 0;
  int round;

  if (lot_abi_version() != LOT_ABI_VERSION || lot_tracker_create("pool", &tracker) != LOT_OK)
    return 1;
  memset(&description, 0, sizeof description);
  description.object = place;
  if (lot_create(tracker, &description, &first) != LOT_OK)
    return 2;
  latest = first;
  for (round = 0; round < 1000; ++round) {
    if (!lot_is_live(latest) || lot_destroy(tracker, place) != LOT_OK || lot_is_live(latest))
      return 3;
    if (lot_create(tracker, &description, &latest) != LOT_OK || lot_is_live(first))
      return 4;
  }
  if (lot_count(tracker, NULL, LOT_KIND_ANY, &live) != LOT_OK || live != 1)
    return 5;
  if (lot_tracker_destroy(tracker) != LOT_OK || lot_is_live(latest))
    return 6;
  printf("%s: 1001 lives at one address told apart\n", lot_version_string());
  return 0;
}
