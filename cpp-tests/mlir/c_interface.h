/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef LOT_CPP_TESTS_C_INTERFACE_H
#define LOT_CPP_TESTS_C_INTERFACE_H

#include "lot/lot.h"
#include "lot/mlir.h"

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

struct c_tower {
  MlirContext context;
  MlirOperation outermost, innermost;
  MlirBlock block; /* of the innermost operation */
  MlirValue argument;
};

bool c_self_test(lot_tracker tracker, void *data);
struct c_tower *c_build(unsigned depth);
size_t c_ancestors(const struct c_tower *tower, lot_kind kind, const void **out, size_t capacity);
lot_status c_track(lot_tracker tracker, const struct c_tower *tower, lot_kind kind, void *user,
                   lot_ref *out_ref, void **out_user);
lot_status c_create(lot_tracker tracker, const struct c_tower *tower, lot_kind kind, void *user,
                    lot_ref *out_ref);
lot_status c_moved(lot_tracker tracker, const struct c_tower *tower, lot_kind kind);
/* An observer: appends name, location and cause of each end whose user pointer leads to a
 * lot_mlir_c_origin to the text in `data`, and frees that. */
struct c_text {
  char text[4096];
  size_t length;
};
void c_observe(const lot_end *ends, size_t count, void *data);
/* Tracks all operations of the tower, each with such a user pointer. */
lot_status c_track_all(lot_tracker tracker, const struct c_tower *tower);
const void *c_outermost(const struct c_tower *tower);
uint64_t c_scope(const struct c_tower *tower);
void c_destroy(struct c_tower *tower);

#ifdef __cplusplus
}
#endif

#endif
