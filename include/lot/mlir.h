/* The C interface of the live object tracker's MLIR layer.
 *
 * cbindgen wrote this file from src/ffi/mlir.rs: change that one and run `make header`.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#ifndef LOT_MLIR_H
#define LOT_MLIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lot/lot.h"

/**
 * Proves that a source sees every end. It gets a tracker of its own, in exact mode; it has to build
 * IR with nested operations and blocks, track each of them there, destroy all of it by MLIR's own
 * means, and return whether every ref is dead. `lot::mlir::selfTest` (lot/mlir.hpp) and
 * `lot_mlir_c_self_test` (lot/mlir_c.h) do this.
 *
 * Called before the installation returns, on its thread, with no lock held. It must not throw.
 */
typedef bool (*lot_mlir_self_test_fn)(lot_tracker private_tracker, void *data);

/**
 * What tells a tracker of ends, beyond what the binding reports itself: one of the `LOT_MLIR_SOURCE_`
 * values.
 */
typedef uint32_t lot_mlir_source;

/**
 * Which source is active, and why not a better one.
 */
typedef struct lot_mlir_status {
  /**
   * Which source is active.
   */
  lot_mlir_source source;
  /**
   * How many GOT entries lead to load hooks for this tracker.
   */
  uint32_t slots_patched;
  /**
   * In how many loaded objects (program, libraries), the MLIR library itself included.
   */
  uint32_t libraries_patched;
  /**
   * Why there is no exact source, as a sentence for a person; "" if there is one. Static; never null.
   */
  const char *reason;
} lot_mlir_status;

/**
 * The kinds that MLIR's objects are tracked with. An operation:
 */
#define LOT_MLIR_OPERATION 0

/**
 * A block.
 */
#define LOT_MLIR_BLOCK 1

/**
 * An argument of a block. It ends with its block, by its place: so it is to be tracked with its
 * ancestors, of which the block is the first.
 */
#define LOT_MLIR_BLOCK_ARGUMENT 2

/**
 * Nothing does: structural mode.
 */
#define LOT_MLIR_SOURCE_STRUCTURAL 0

/**
 * Hooks in the tables of the loaded libraries: exact mode.
 */
#define LOT_MLIR_SOURCE_LOAD_HOOKS 1

/**
 * Hooks that were linked before a static MLIR: exact mode.
 */
#define LOT_MLIR_SOURCE_LINK_HOOKS 2

/**
 * A rewriter's listener (lot/mlir.hpp). Structural mode, since it only sees what goes through its
 * rewriter.
 */
#define LOT_MLIR_SOURCE_LISTENER 3

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Puts a tracker into exact mode by load hooks, for an MLIR in a shared library that was not built
 * for it: each slot in the tables of each loaded object that leads to one of the library's functions
 * which destroy operations and blocks is made to lead to a hook, which reports the end and goes on
 * to the function. Linux on 64-bit x86 and ARM.
 *
 * `symbol` is the address of any function or variable in the MLIR library. Installing again, for the
 * same library, does nothing but what `lot_mlir_refresh` does; another tracker's hooks are not
 * disturbed. The MLIR library and this one stay loaded for the rest of the process.
 *
 * `LOT_ERROR_UNSUPPORTED` if not every end can be seen, which the self-test finds out at last: all
 * slots are then as they were, and the reason is in `lot_last_error_message` and
 * `lot_mlir_get_status`. `LOT_ERROR_NULL_ARGUMENT` without symbol or self-test; `LOT_ERROR_LIMIT`
 * when 8 MLIR libraries are watched already, or 32 trackers watch this one.
 *
 * Any thread, but not from an initializer that another thread's `dlopen` may wait for. MLIR may be in
 * use on other threads.
 *
 * # Safety
 * `self_test` is null or may be called with `data`, once, during the call.
 */
lot_status lot_mlir_install_load_hooks(lot_tracker tracker,
                                       const void *symbol,
                                       lot_mlir_self_test_fn self_test,
                                       void *data);

/**
 * Takes a tracker's load hooks back; it is then in structural mode, unless another source is active.
 * With the last tracker of an MLIR library its slots are restored, apart from those that somebody
 * else has changed since. `LOT_ERROR_NOT_ACTIVE` if there are none. Any thread; MLIR may be in use on
 * other threads.
 */
lot_status lot_mlir_uninstall_load_hooks(lot_tracker tracker);

/**
 * Extends a tracker's load hooks to libraries that were loaded since; to be called before such a
 * library uses MLIR. Returns at once if none was, and if the tracker has no load hooks.
 *
 * `LOT_ERROR_UNSUPPORTED` if a library cannot be covered: the hooks of that MLIR library are then
 * given up for all of its trackers, and `lot_mlir_get_status` says why. Any thread.
 */
lot_status lot_mlir_refresh(lot_tracker tracker);

/**
 * Puts a tracker into exact mode by link hooks, for an MLIR that is linked statically into the final
 * program or library, together with the CMake target `LiveObjectTracker::mlir_link_hooks`.
 *
 * Installing again does nothing. `LOT_ERROR_UNSUPPORTED` if the self-test does not see every end,
 * with the reason as for `lot_mlir_install_load_hooks`; `LOT_ERROR_NULL_ARGUMENT` without a
 * self-test; `LOT_ERROR_LIMIT` when 32 trackers have link hooks. Any thread.
 *
 * # Safety
 * `self_test` is null or may be called with `data`, once, during the call.
 */
lot_status lot_mlir_install_link_hooks(lot_tracker tracker,
                                       lot_mlir_self_test_fn self_test,
                                       void *data);

/**
 * Takes a tracker's link hooks back; it is then in structural mode, unless another source is active.
 * `LOT_ERROR_NOT_ACTIVE` if there are none. Any thread.
 */
lot_status lot_mlir_uninstall_link_hooks(lot_tracker tracker);

/**
 * For link hooks: the memory of exactly this operation is about to go away. Reported to every tracker
 * with link hooks. Null and unknown addresses are fine. Any thread; callable in destructors.
 */
void lot_mlir_report_operation(const void *operation);

/**
 * For link hooks: the memory of exactly this block, and of its arguments, is about to go away. As
 * `lot_mlir_report_operation` otherwise.
 */
void lot_mlir_report_block(const void *block);

/**
 * For link hooks: the memory of exactly this block argument, of a block that stays, is about to go
 * away. As `lot_mlir_report_operation` otherwise.
 */
void lot_mlir_report_block_argument(const void *argument);

/**
 * For link hooks: whether any tracker with link hooks tracks block arguments; if not, their ends need
 * no report. Any thread.
 */
bool lot_mlir_wants_block_arguments(void);

/**
 * States that a rewriter's listener begins to report to a tracker, for `lot_mlir_get_status`. Nests;
 * the mode of the tracker does not change. Any thread.
 */
lot_status lot_mlir_listener_begin(lot_tracker tracker);

/**
 * Takes one `lot_mlir_listener_begin` back; `LOT_ERROR_NOT_ACTIVE` if there is none. Any thread.
 */
lot_status lot_mlir_listener_end(lot_tracker tracker);

/**
 * Which source is active for a tracker, and why not a better one. `LOT_ERROR_NULL_ARGUMENT` without
 * `out_status`. Any thread.
 *
 * # Safety
 * `out_status` is null or writable.
 */
lot_status lot_mlir_get_status(lot_tracker tracker, struct lot_mlir_status *out_status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LOT_MLIR_H */
