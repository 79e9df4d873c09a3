/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the macros promise, seen from C. */
#include <stdio.h>
#include <string.h>

#include "lot/lot.h"

/* NULL, or what is wrong. */
const char *lot_macros_in_c(void) {
  static char text[64];
  (void)snprintf(text, sizeof text, "%d.%d.%d", LOT_VERSION_MAJOR, LOT_VERSION_MINOR,
                 LOT_VERSION_PATCH);
  if (strcmp(text, LOT_VERSION_STRING) != 0)
    return "LOT_VERSION_STRING is not major.minor.patch";
  if (strcmp(lot_version_string(), LOT_VERSION_STRING) != 0)
    return "lot_version_string() is not LOT_VERSION_STRING";
  if (lot_abi_version() != LOT_ABI_VERSION)
    return "lot_abi_version() is not LOT_ABI_VERSION";
  if (LOT_OK != 0)
    return "LOT_OK is not 0";
  return NULL;
}

/* A ref is passed and returned in registers: the two languages must agree on that too. */
bool lot_is_live_in_c(lot_ref ref) { return lot_is_live(ref); }
