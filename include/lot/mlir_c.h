/* The live object tracker for code that uses MLIR's C interface: header-only, C11 and C++.
 *
 * What an object is tracked as, and where it is in the tree, in one place; and a self-test for the
 * exact sources. Apart from the self-test the functions call MLIR only to read. Like MLIR itself they
 * need the IR in question to be left alone by other threads meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef LOT_MLIR_C_H
#define LOT_MLIR_C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "lot/lot.h"
#include "lot/mlir.h"

#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The scope that a context's objects are tracked in. */
static inline uint64_t lot_mlir_c_scope(MlirContext context) { return (uintptr_t)context.ptr; }

/** An operation, a block or a block argument, as the three functions below make it of one. */
typedef struct lot_mlir_c_object {
  const void *address;
  MlirContext context;
  /** What encloses it directly: one of these, the other one null; both null: nothing. */
  MlirBlock block;
  MlirOperation parent;
  lot_kind kind;
} lot_mlir_c_object;

static inline lot_mlir_c_object lot_mlir_c_operation(MlirOperation operation) {
  lot_mlir_c_object object = {operation.ptr, mlirOperationGetContext(operation),
                              mlirOperationGetBlock(operation), {NULL}, LOT_MLIR_OPERATION};
  return object;
}

/** `context` is the block's, since a block that is in no operation cannot tell. */
static inline lot_mlir_c_object lot_mlir_c_block(MlirContext context, MlirBlock block) {
  lot_mlir_c_object object = {block.ptr, context, {NULL}, mlirBlockGetParentOperation(block),
                              LOT_MLIR_BLOCK};
  return object;
}

static inline lot_mlir_c_object lot_mlir_c_block_argument(MlirContext context, MlirValue argument) {
  lot_mlir_c_object object = {argument.ptr, context, mlirBlockArgumentGetOwner(argument), {NULL},
                              LOT_MLIR_BLOCK_ARGUMENT};
  return object;
}

/**
 * What can be said of an operation when it has ended: both belong to the context, and live as long as
 * that. Make one while the operation lives, and have its user pointer lead there: observers are given
 * that.
 */
typedef struct lot_mlir_c_origin {
  MlirIdentifier name;
  MlirLocation location;
} lot_mlir_c_origin;

static inline lot_mlir_c_origin lot_mlir_c_origin_of(MlirOperation operation) {
  lot_mlir_c_origin origin = {mlirOperationGetName(operation), mlirOperationGetLocation(operation)};
  return origin;
}

/**
 * Writes the addresses of what encloses the object, nearest first and complete up to the outermost,
 * to `out`, as far as `capacity` reaches, and returns how many there are. `out` may be null if
 * `capacity` is 0.
 */
static inline size_t lot_mlir_c_ancestors(lot_mlir_c_object object, const void **out,
                                          size_t capacity) {
  size_t count = 0;
  while (object.block.ptr || object.parent.ptr) {
    const void *ancestor = object.block.ptr;
    if (ancestor) {
      object.parent = mlirBlockGetParentOperation(object.block);
      object.block.ptr = NULL;
    } else {
      ancestor = object.parent.ptr;
      object.block = mlirOperationGetBlock(object.parent);
      object.parent.ptr = NULL;
    }
    if (count < capacity)
      out[count] = ancestor;
    ++count;
  }
  return count;
}

/** For the functions below: deeper places than this need memory from the heap. */
#define LOT_MLIR_C_DEPTH 64

typedef enum lot_mlir_c_verb {
  LOT_MLIR_C_TRACK,
  LOT_MLIR_C_CREATE,
  LOT_MLIR_C_MOVE
} lot_mlir_c_verb;

/** What is done to an object, and where the results go. */
typedef struct lot_mlir_c_action {
  lot_tracker tracker;
  lot_mlir_c_verb what;
  void *user;
  lot_ref *out_ref;
  void **out_user;
} lot_mlir_c_action;

static inline lot_status lot_mlir_c_act(lot_mlir_c_action action, lot_mlir_c_object object) {
  const void *few[LOT_MLIR_C_DEPTH];
  const void **ancestors = few;
  size_t count = lot_mlir_c_ancestors(object, few, LOT_MLIR_C_DEPTH);
  if (count > LOT_MLIR_C_DEPTH) {
    ancestors = (const void **)malloc(count * sizeof(*ancestors));
    if (!ancestors)
      return LOT_ERROR_LIMIT;
    (void)lot_mlir_c_ancestors(object, ancestors, count);
  }
  lot_description description = {object.address, lot_mlir_c_scope(object.context), ancestors, count,
                                 action.user, object.kind};
  lot_status status;
  switch (action.what) {
  case LOT_MLIR_C_TRACK:
    status = lot_track(action.tracker, &description, action.out_ref, action.out_user);
    break;
  case LOT_MLIR_C_CREATE:
    status = lot_create(action.tracker, &description, action.out_ref);
    break;
  case LOT_MLIR_C_MOVE:
  default:
    status = lot_move(action.tracker, object.address, ancestors, count);
    break;
  }
  if (ancestors != few)
    free((void *)ancestors);
  return status;
}

/** The object exists: its live ref, or a new one. See lot_track. */
static inline lot_status lot_mlir_c_track(lot_tracker tracker, lot_mlir_c_object object, void *user,
                                          lot_ref *out_ref, void **out_user) {
  lot_mlir_c_action action = {tracker, LOT_MLIR_C_TRACK, user, out_ref, out_user};
  return lot_mlir_c_act(action, object);
}

/**
 * The object was just made: whatever still counts as live at its address has ended. See lot_create.
 */
static inline lot_status lot_mlir_c_create(lot_tracker tracker, lot_mlir_c_object object,
                                           void *user, lot_ref *out_ref) {
  lot_mlir_c_action action = {tracker, LOT_MLIR_C_CREATE, user, out_ref, NULL};
  return lot_mlir_c_act(action, object);
}

/** The object has been put where it now is, with all that is in it. See lot_move. */
static inline lot_status lot_mlir_c_moved(lot_tracker tracker, lot_mlir_c_object object) {
  lot_mlir_c_action action = {tracker, LOT_MLIR_C_MOVE, NULL, NULL, NULL};
  return lot_mlir_c_act(action, object);
}

/* The self-test --------------------------------------------------------------------------------- */

/** root { block(argument) { first; second { innerBlock { inner } } } }, and their refs in this order. */
typedef struct lot_mlir_c_test_tree {
  MlirOperation root, first, second, inner;
  MlirBlock block, inner_block;
  lot_ref refs[7];
  bool passed;
} lot_mlir_c_test_tree;

static inline MlirOperation lot_mlir_c_test_operation(MlirLocation location, MlirBlock body) {
  MlirOperationState state =
      mlirOperationStateGet(mlirStringRefCreateFromCString("lot.self_test"), location);
  if (body.ptr) {
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, body);
    mlirOperationStateAddOwnedRegions(&state, 1, &region);
  }
  return mlirOperationCreate(&state);
}

static inline lot_mlir_c_test_tree lot_mlir_c_test_build(lot_tracker tracker, MlirContext context) {
  lot_mlir_c_test_tree tree;
  MlirLocation location = mlirLocationUnknownGet(context);
  MlirType type = mlirNoneTypeGet(context);
  MlirBlock none = {NULL};
  tree.inner_block = mlirBlockCreate(0, NULL, NULL);
  tree.inner = lot_mlir_c_test_operation(location, none);
  mlirBlockAppendOwnedOperation(tree.inner_block, tree.inner);
  tree.first = lot_mlir_c_test_operation(location, none);
  tree.second = lot_mlir_c_test_operation(location, tree.inner_block);
  tree.block = mlirBlockCreate(1, &type, &location);
  mlirBlockAppendOwnedOperation(tree.block, tree.first);
  mlirBlockAppendOwnedOperation(tree.block, tree.second);
  tree.root = lot_mlir_c_test_operation(location, tree.block);

  lot_mlir_c_object objects[7] = {
      lot_mlir_c_operation(tree.root),
      lot_mlir_c_block(context, tree.block),
      lot_mlir_c_block_argument(context, mlirBlockGetArgument(tree.block, 0)),
      lot_mlir_c_operation(tree.first),
      lot_mlir_c_operation(tree.second),
      lot_mlir_c_block(context, tree.inner_block),
      lot_mlir_c_operation(tree.inner),
  };
  tree.passed = true;
  for (int i = 0; i < 7; ++i)
    tree.passed = tree.passed &&
                  lot_mlir_c_track(tracker, objects[i], NULL, &tree.refs[i], NULL) == LOT_OK;
  return tree;
}

/** Exactly the refs whose bit in `live` is set are live. */
static inline bool lot_mlir_c_test_check(const lot_mlir_c_test_tree *tree, unsigned live) {
  bool passed = tree->passed;
  for (unsigned i = 0; passed && i < 7; ++i)
    passed = lot_is_live(tree->refs[i]) == ((live >> i & 1) != 0);
  return passed;
}

/**
 * A self-test for lot_mlir_install_load_hooks and lot_mlir_install_link_hooks (`data` is not used):
 * goes through each way in which MLIR's C interface destroys operations and blocks.
 */
static inline bool lot_mlir_c_self_test(lot_tracker tracker, void *data) {
  (void)data;
  MlirContext context = mlirContextCreateWithThreading(false);
  mlirContextSetAllowUnregisteredDialects(context, true);

  /* Everything at once. */
  lot_mlir_c_test_tree tree = lot_mlir_c_test_build(tracker, context);
  bool passed = lot_mlir_c_test_check(&tree, 0x7f);
  mlirOperationDestroy(tree.root);
  passed = lot_mlir_c_test_check(&tree, 0) && passed;

  /* One by one, in place and taken out first. */
  tree = lot_mlir_c_test_build(tracker, context);
  mlirOperationDestroy(tree.inner);
  passed = lot_mlir_c_test_check(&tree, 0x3f) && passed;
  mlirOperationDestroy(tree.second);
  passed = lot_mlir_c_test_check(&tree, 0x0f) && passed;
  mlirOperationRemoveFromParent(tree.first);
  mlirBlockDetach(tree.block);
  mlirBlockDestroy(tree.block);
  passed = lot_mlir_c_test_check(&tree, 0x09) && passed;
  mlirOperationDestroy(tree.first);
  mlirOperationDestroy(tree.root);
  passed = lot_mlir_c_test_check(&tree, 0) && passed;

  /* An argument whose block stays. */
  tree = lot_mlir_c_test_build(tracker, context);
  mlirBlockEraseArgument(tree.block, 0);
  passed = lot_mlir_c_test_check(&tree, 0x7b) && passed;
  mlirOperationDestroy(tree.root);
  passed = lot_mlir_c_test_check(&tree, 0) && passed;

  /* A module, which ends by another way. */
  MlirModule module = mlirModuleCreateEmpty(mlirLocationUnknownGet(context));
  lot_ref refs[2] = {{NULL, 0}, {NULL, 0}};
  (void)lot_mlir_c_track(tracker, lot_mlir_c_operation(mlirModuleGetOperation(module)), NULL,
                         &refs[0], NULL);
  (void)lot_mlir_c_track(tracker, lot_mlir_c_block(context, mlirModuleGetBody(module)), NULL,
                         &refs[1], NULL);
  passed = lot_is_live(refs[0]) && lot_is_live(refs[1]) && passed;
  mlirModuleDestroy(module);
  passed = !lot_is_live(refs[0]) && !lot_is_live(refs[1]) && passed;

  mlirContextDestroy(context);
  return passed;
}

#ifdef __cplusplus
}
#endif

#endif /* LOT_MLIR_C_H */
