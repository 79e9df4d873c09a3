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
const void *c_outermost(const struct c_tower *tower);
uint64_t c_scope(const struct c_tower *tower);
void c_destroy(struct c_tower *tower);

#ifdef __cplusplus
}
#endif

#endif
