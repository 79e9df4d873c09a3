/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * lot/mlir_c.h in C: what c_interface_test.cpp needs of it, and IR to try it on. */
#include "c_interface.h"

#include <string.h>

#include "lot/mlir_c.h"

bool c_self_test(lot_tracker tracker, void *data) { return lot_mlir_c_self_test(tracker, data); }

/* `depth` operations, each in a block of the one before; the last block has an argument. */
struct c_tower *c_build(unsigned depth) {
  struct c_tower *tower = calloc(1, sizeof(*tower));
  MlirContext context = mlirContextCreateWithThreading(false);
  mlirContextSetAllowUnregisteredDialects(context, true);
  MlirLocation location = mlirLocationUnknownGet(context);
  MlirType type = mlirNoneTypeGet(context);
  MlirBlock block = mlirBlockCreate(1, &type, &location);
  MlirOperation operation = {NULL};
  tower->context = context;
  tower->block = block;
  tower->argument = mlirBlockGetArgument(block, 0);
  for (unsigned i = 0; i < depth; ++i) {
    MlirOperationState state =
        mlirOperationStateGet(mlirStringRefCreateFromCString("test.floor"), location);
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    mlirOperationStateAddOwnedRegions(&state, 1, &region);
    operation = mlirOperationCreate(&state);
    if (i == 0)
      tower->innermost = operation;
    if (i + 1 < depth) {
      block = mlirBlockCreate(0, NULL, NULL);
      mlirBlockAppendOwnedOperation(block, operation);
    }
  }
  tower->outermost = operation;
  return tower;
}

static lot_mlir_c_object object_of(const struct c_tower *tower, lot_kind kind) {
  switch (kind) {
  case LOT_MLIR_BLOCK:
    return lot_mlir_c_block(tower->context, tower->block);
  case LOT_MLIR_BLOCK_ARGUMENT:
    return lot_mlir_c_block_argument(tower->context, tower->argument);
  default:
    return lot_mlir_c_operation(tower->innermost);
  }
}

size_t c_ancestors(const struct c_tower *tower, lot_kind kind, const void **out, size_t capacity) {
  return lot_mlir_c_ancestors(object_of(tower, kind), out, capacity);
}
lot_status c_track(lot_tracker tracker, const struct c_tower *tower, lot_kind kind, void *user,
                   lot_ref *out_ref, void **out_user) {
  return lot_mlir_c_track(tracker, object_of(tower, kind), user, out_ref, out_user);
}
lot_status c_create(lot_tracker tracker, const struct c_tower *tower, lot_kind kind, void *user,
                    lot_ref *out_ref) {
  return lot_mlir_c_create(tracker, object_of(tower, kind), user, out_ref);
}
lot_status c_moved(lot_tracker tracker, const struct c_tower *tower, lot_kind kind) {
  return lot_mlir_c_moved(tracker, object_of(tower, kind));
}

static void write_text(MlirStringRef piece, void *data) {
  struct c_text *out = data;
  if (piece.length > sizeof(out->text) - out->length)
    piece.length = sizeof(out->text) - out->length;
  memcpy(out->text + out->length, piece.data, piece.length);
  out->length += piece.length;
}

void c_observe(const lot_end *ends, size_t count, void *data) {
  for (size_t i = 0; i < count; ++i) {
    lot_mlir_c_origin *origin = ends[i].user;
    if (!origin)
      continue;
    write_text(mlirIdentifierStr(origin->name), data);
    write_text(mlirStringRefCreateFromCString(" "), data);
    mlirLocationPrint(origin->location, write_text, data);
    write_text(mlirStringRefCreateFromCString(" "), data);
    write_text(mlirStringRefCreateFromCString(lot_cause_name(ends[i].death.cause)), data);
    write_text(mlirStringRefCreateFromCString("\n"), data);
    free(origin);
  }
}

lot_status c_track_all(lot_tracker tracker, const struct c_tower *tower) {
  for (MlirOperation operation = tower->innermost; operation.ptr;
       operation = mlirOperationGetParentOperation(operation)) {
    lot_mlir_c_origin *origin = malloc(sizeof(*origin));
    if (!origin)
      return LOT_ERROR_LIMIT;
    *origin = lot_mlir_c_origin_of(operation);
    lot_ref ref;
    lot_status status =
        lot_mlir_c_track(tracker, lot_mlir_c_operation(operation), origin, &ref, NULL);
    if (status != LOT_OK)
      return status;
  }
  return LOT_OK;
}

const void *c_outermost(const struct c_tower *tower) { return tower->outermost.ptr; }
uint64_t c_scope(const struct c_tower *tower) { return lot_mlir_c_scope(tower->context); }

void c_destroy(struct c_tower *tower) {
  if (tower->outermost.ptr)
    mlirOperationDestroy(tower->outermost);
  mlirContextDestroy(tower->context);
  free(tower);
}
