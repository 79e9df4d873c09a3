/* The C interface of the live object tracker.
 *
 * cbindgen wrote this file from src/ffi/lot.rs: change that one and run `make header`.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */

#ifndef LOT_LOT_H
#define LOT_LOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOT_VERSION_MAJOR 0
#define LOT_VERSION_MINOR 1
#define LOT_VERSION_PATCH 0
#define LOT_VERSION_STRING "0.1.0"

/**
 * Changes when a program that was built against an older header would misbehave.
 */
#define LOT_ABI_VERSION 1

/**
 * The number of kinds.
 */
#define LOT_KIND_COUNT 16

/**
 * What a call answered: `LOT_OK` or one of the `LOT_ERROR_` values, which are never reused for another
 * meaning. A failed call has changed nothing and left its out-parameters alone.
 */
typedef int32_t lot_status;

/**
 * What ended an incarnation: one of the `LOT_CAUSE_` values.
 */
typedef uint32_t lot_cause;

/**
 * A tracker's handle, passed by value. `{0}` is no tracker's. Handles are never reused: one whose tracker is
 * destroyed is answered with `LOT_ERROR_NO_TRACKER`, for ever.
 */
typedef struct lot_tracker {
  /**
   * Not 0 in a handle that was given out.
   */
  uint64_t id;
} lot_tracker;

/**
 * One incarnation of an object: a value of 16 bytes, passed by value, safe to keep for ever. Live from the
 * moment it is handed out until its incarnation ends, and dead from then on, whatever is allocated at the
 * address later. `{NULL, 0}` is the null ref, which is always dead.
 */
typedef struct lot_ref {
  /**
   * The object's address. Of a dead ref: to compare with, not to follow.
   */
  const void *object;
  /**
   * Names the incarnation. Never 0 in a ref that was handed out, never used twice in a process.
   */
  uint64_t epoch;
} lot_ref;

/**
 * The caller's own classification of objects, below `LOT_KIND_COUNT`.
 */
typedef uint8_t lot_kind;

/**
 * How an incarnation ended.
 */
typedef struct lot_death {
  /**
   * Whose end, or change, took it along; the null ref if nobody else's. Its epoch is 0 if that object was
   * not tracked.
   */
  struct lot_ref by;
  /**
   * When, in nanoseconds of the system's monotonic clock; on Linux CLOCK_MONOTONIC_COARSE, which steps with the
   * timer tick (some milliseconds).
   */
  uint64_t time_ns;
  /**
   * Why it ended.
   */
  lot_cause cause;
  /**
   * The kind that it was registered with.
   */
  lot_kind kind;
} lot_death;

/**
 * An incarnation that has just ended.
 */
typedef struct lot_end {
  /**
   * The ref, which is dead now.
   */
  struct lot_ref ref;
  /**
   * How it died.
   */
  struct lot_death death;
  /**
   * The scope that it was in.
   */
  uint64_t scope;
  /**
   * The user pointer it carried.
   */
  void *user;
} lot_end;

/**
 * Is told of ends, also of those by release: `count` of them, at least 1, in an array that is valid during the
 * call. Runs on the thread of the hook, perhaps inside a destructor, after the tracker's state has changed and
 * with no lock held; it may call the tracker. It must not throw: that ends the process. Never null where it is
 * called.
 */
typedef void (*lot_observer_fn)(const struct lot_end *ends, size_t count, void *data);

/**
 * The figures of a tracker. Exact whenever no hook is running.
 */
typedef struct lot_stats {
  /**
   * Live incarnations.
   */
  size_t tracked;
  /**
   * Untracked ancestors that are kept for their place in the tree.
   */
  size_t anchors;
  /**
   * Incarnations that were started, since the tracker was created; so are the others below.
   */
  uint64_t created;
  /**
   * Incarnations that ended other than by release.
   */
  uint64_t ended;
  /**
   * Incarnations that were released.
   */
  uint64_t released;
  /**
   * Those of the ended whose end nobody reported in time.
   */
  uint64_t missed_ends;
  /**
   * Bugs that were kept from crossing the C boundary, in the whole process.
   */
  uint64_t internal_errors;
  /**
   * Exact sources that are active.
   */
  uint32_t exact_sources;
} lot_stats;

/**
 * What a caller knows of an object when it registers it.
 */
typedef struct lot_description {
  /**
   * The object's address; not null. The tracker never follows it.
   */
  const void *object;
  /**
   * Which group it belongs to: any number. For MLIR the context's address.
   */
  uint64_t scope;
  /**
   * The objects that enclose it, nearest first and complete up to the outermost (`ancestor_count` of
   * them, none null or named twice). Null: not reported; what is known of its place stays as it is.
   */
  const void *const *ancestors;
  /**
   * How many ancestors there are; 0 with a null list.
   */
  size_t ancestor_count;
  /**
   * Kept with the incarnation and found again by address. The tracker never follows it.
   */
  void *user;
  /**
   * Below `LOT_KIND_COUNT`.
   */
  lot_kind kind;
} lot_description;

/**
 * The cause and culprit recorded for ends that an exact source reports on this thread; see
 * `lot_attribution_enter`.
 */
typedef struct lot_attribution {
  /**
   * The object whose end or change takes others along. With epoch 0 it stands for whatever is at
   * its address.
   */
  struct lot_ref by;
  /**
   * `LOT_CAUSE_UNKNOWN` means that there is no attribution.
   */
  lot_cause cause;
} lot_attribution;

/**
 * Is shown a live incarnation and its user pointer; false stops. No lock is held: it may call the tracker. It
 * must not throw.
 */
typedef bool (*lot_visit_fn)(struct lot_ref ref, void *user, void *data);

/**
 * How a report is written: one of the `LOT_FORMAT_` values.
 */
typedef uint32_t lot_format;

/**
 * Takes a piece of a report: `length` bytes of UTF-8, not terminated. It must not throw.
 */
typedef void (*lot_write_fn)(const char *bytes, size_t length, void *data);

/**
 * The call did what it says.
 */
#define LOT_OK 0

/**
 * A pointer is null that must not be.
 */
#define LOT_ERROR_NULL_ARGUMENT 1

/**
 * A kind is out of range, ancestors repeat or name the object itself, a format is unknown, or the like.
 */
#define LOT_ERROR_INVALID_ARGUMENT 2

/**
 * The tracker's handle was never given out, or the tracker is destroyed.
 */
#define LOT_ERROR_NO_TRACKER 3

/**
 * The ref is dead, null or made up.
 */
#define LOT_ERROR_DEAD_REF 4

/**
 * Nothing live is tracked at the address, or no death is on record for the ref.
 */
#define LOT_ERROR_NOT_FOUND 5

/**
 * A fixed limit is reached, or there is no memory for more slots or scopes. At once there can be 256
 * trackers, and 67,108,863 objects in all of them together (tracked ones, and untracked ancestors of
 * such). Where any other allocation fails, the process ends, as Rust programs do.
 */
#define LOT_ERROR_LIMIT 6

/**
 * An end without its beginning.
 */
#define LOT_ERROR_NOT_ACTIVE 7

/**
 * It cannot be done here; the message says why.
 */
#define LOT_ERROR_UNSUPPORTED 8

/**
 * A bug in the tracker, kept from crossing the C boundary; counted in `lot_stats`.
 */
#define LOT_ERROR_INTERNAL 9

/**
 * In questions: whatever kind.
 */
#define LOT_KIND_ANY 255

/**
 * Not known, or no longer.
 */
#define LOT_CAUSE_UNKNOWN 0

/**
 * It was erased itself.
 */
#define LOT_CAUSE_ERASED 1

/**
 * Something that enclosed it was erased or destroyed.
 */
#define LOT_CAUSE_ANCESTOR_DESTROYED 2

/**
 * Its own destruction was reported.
 */
#define LOT_CAUSE_DESTROYED 3

/**
 * A new object appeared at its address, so it had ended without a report.
 */
#define LOT_CAUSE_MISSED_END 4

/**
 * Something that could not be observed changed the inside of an object that enclosed it.
 */
#define LOT_CAUSE_OPAQUE_MUTATION 5

/**
 * Its whole scope, or the tracker, ended.
 */
#define LOT_CAUSE_SCOPE_CLEARED 6

/**
 * Its holder gave it up.
 */
#define LOT_CAUSE_RELEASED 7

/**
 * For people: one line an object, indented by depth.
 */
#define LOT_FORMAT_TEXT 0

/**
 * For programs; addresses and epochs are strings of hexadecimal digits.
 */
#define LOT_FORMAT_JSON 1

/**
 * For pictures: a Graphviz digraph; untracked ancestors are dashed.
 */
#define LOT_FORMAT_DOT 2

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The `LOT_ABI_VERSION` of the library that is loaded; compare it with the header's. Any thread.
 */
uint32_t lot_abi_version(void);

/**
 * The version of the library that is loaded, such as "1.2.3". Static; any thread.
 */
const char *lot_version_string(void);

/**
 * The name of a status's constant, such as "LOT_OK"; "LOT_ERROR_?" for a number that is none. Static; never
 * null; any thread.
 */
const char *lot_status_name(lot_status status);

/**
 * A cause in words, such as "ancestor destroyed"; "unknown" for a number that is none. Static; never null;
 * any thread.
 */
const char *lot_cause_name(lot_cause cause);

/**
 * What the last call that failed on this thread has to say about it, as a sentence for a person; "" if none
 * has failed yet. Static; never null.
 */
const char *lot_last_error_message(void);

/**
 * Makes a tracker. A binding library has one, normally for the life of the process. Any thread.
 *
 * `name` is for reports, in UTF-8; it is copied, and may be null. `LOT_ERROR_NULL_ARGUMENT` without
 * `out_tracker`; `LOT_ERROR_LIMIT` when 256 trackers exist.
 *
 * # Safety
 * `name` is null or a terminated string; `out_tracker` is null or writable.
 */
lot_status lot_tracker_create(const char *name, struct lot_tracker *out_tracker);

/**
 * Ends everything in a tracker (`LOT_CAUSE_SCOPE_CLEARED`; its observer is told) and the tracker itself.
 * Refs stay safe to ask about, and are dead. Calls on other threads that are under way finish first; later
 * ones are answered with `LOT_ERROR_NO_TRACKER`. Any thread.
 *
 * When this has returned, the observer does not run on any thread, and never will again: its `data` may
 * go. One case is different: a call from inside an observer does not wait, since it would wait for itself.
 */
lot_status lot_tracker_destroy(struct lot_tracker tracker);

/**
 * Sets who is told of ends; null tells nobody. `data` is handed to it, from whatever thread a hook runs on.
 * Any thread.
 *
 * When this has returned, the old observer does not run on any thread, and never will again: its `data` may
 * go. One case is different: a call from inside an observer does not wait, since it would wait for itself.
 *
 * # Safety
 * The observer may be called with `data` from any thread until a call that replaces it, or that destroys
 * the tracker, has returned.
 */
lot_status lot_tracker_set_observer(struct lot_tracker tracker,
                                    lot_observer_fn observer,
                                    void *data);

/**
 * The figures of a tracker. Any thread; takes no lock.
 *
 * # Safety
 * `out_stats` is null or writable.
 */
lot_status lot_tracker_stats(struct lot_tracker tracker, struct lot_stats *out_stats);

/**
 * States that a source now reports every destruction with `lot_destroy` (exact mode): an object then ends
 * when, and only when, its own destruction is reported. Sources nest. Any thread.
 */
lot_status lot_exact_begin(struct lot_tracker tracker);

/**
 * Takes one `lot_exact_begin` back. `LOT_ERROR_NOT_ACTIVE` if there is none. Any thread.
 */
lot_status lot_exact_end(struct lot_tracker tracker);

/**
 * Whether an exact source is active; false for a handle that is no tracker's. Any thread; takes no lock.
 */
bool lot_is_exact(struct lot_tracker tracker);

/**
 * Registers an object that is *new* at its address: whatever is still live there has ended unseen
 * (`LOT_CAUSE_MISSED_END`), and so has what was below it. Any thread.
 *
 * # Safety
 * `description` is null or valid, and so is its list of ancestors; `out_ref` is null or writable.
 */
lot_status lot_create(struct lot_tracker tracker,
                      const struct lot_description *description,
                      struct lot_ref *out_ref);

/**
 * Registers an object that *exists*: gives the ref of the incarnation that is live at its address, with the
 * user pointer it carries (then `description->user` is not used), or starts to track it. What is live there
 * in another scope or as another kind was another object, which ended unseen (`LOT_CAUSE_MISSED_END`).
 * Ancestors that are reported replace what was known. Any thread.
 *
 * # Safety
 * `description` is null or valid, and so is its list of ancestors; `out_ref` is null or writable, and so is
 * `out_user`, which may be null.
 */
lot_status lot_track(struct lot_tracker tracker,
                     const struct lot_description *description,
                     struct lot_ref *out_ref,
                     void **out_user);

/**
 * The caller is not interested any more: the incarnation ends (`LOT_CAUSE_RELEASED`) and gives its memory
 * back. What is below it stays tracked. `LOT_ERROR_DEAD_REF` if it has ended already. Any thread.
 */
lot_status lot_release(struct lot_ref ref);

/**
 * The incarnation that is live at an address, and its user pointer. `LOT_ERROR_NOT_FOUND` if none is. Any
 * thread.
 *
 * # Safety
 * `out_ref` is null or writable, and so is `out_user`, which may be null.
 */
lot_status lot_find(struct lot_tracker tracker,
                    const void *object,
                    struct lot_ref *out_ref,
                    void **out_user);

/**
 * The user pointer of a live ref. Any thread; takes no lock.
 *
 * # Safety
 * `out_user` is null or writable.
 */
lot_status lot_get_user(struct lot_ref ref, void **out_user);

/**
 * Replaces the user pointer of a live ref. Any thread.
 */
lot_status lot_set_user(struct lot_ref ref, void *user);

/**
 * The framework erases `object` now, with everything below it: all of that is dead when this returns.
 *
 * In exact mode `object` alone ends here; what is below it ends as its own destruction is reported, since
 * moves that nobody reported may have taken it elsewhere.
 */
lot_status lot_erase(struct lot_tracker tracker,
                     const void *object);

/**
 * `object` is destroyed as the parent of what is below it. As `lot_erase`, but the cause on record for
 * `object` itself is `LOT_CAUSE_DESTROYED`.
 */
lot_status lot_parent_destroy(struct lot_tracker tracker,
                              const void *object);

/**
 * The memory of exactly `object` goes away now: the hook of a source that reports each object. What is below
 * it moves up to its parent. Costs next to nothing for an address that nobody tracks.
 */
lot_status lot_destroy(struct lot_tracker tracker,
                       const void *object);

/**
 * As `lot_destroy`, together with those direct children of `object` whose kind is in `kinds` (bit k is kind
 * k): its parts, which nobody reports one by one.
 */
lot_status lot_destroy_with(struct lot_tracker tracker,
                            const void *object,
                            uint32_t kinds);

/**
 * `object` has new ancestors, nearest first and complete up to the outermost, and takes all below it along.
 * No ancestors: it has no parent any more.
 *
 * # Safety
 * `ancestors` has `ancestor_count` readable elements; it may be null if that is 0.
 */
lot_status lot_move(struct lot_tracker tracker,
                    const void *object,
                    const void *const *ancestors,
                    size_t ancestor_count);

/**
 * `object` has no parent any more, and takes all below it along.
 */
lot_status lot_detach(struct lot_tracker tracker, const void *object);

/**
 * Something that cannot be observed changed the inside of `root`: everything tracked strictly below it ends.
 * In exact mode nothing does.
 */
lot_status lot_opaque_mutation(struct lot_tracker tracker,
                               const void *root);

/**
 * Ends everything in a scope (`LOT_CAUSE_SCOPE_CLEARED`).
 */
lot_status lot_clear_scope(struct lot_tracker tracker, uint64_t scope);

/**
 * Puts the ends that `lot_destroy` reports on this thread down to `next.cause` and `next.by`, until
 * `lot_attribution_leave`; the object `next.by` itself is then on record as erased. Gives what was in force
 * before, for leaving.
 */
struct lot_attribution lot_attribution_enter(struct lot_attribution next);

/**
 * Back to what `lot_attribution_enter` gave, on the same thread.
 */
void lot_attribution_leave(struct lot_attribution previous);

/**
 * Whether a ref is live. Any bits may be asked about, from any thread, for ever, also after its tracker is
 * destroyed. Takes no lock, and never reads the object's memory.
 */
bool lot_is_live(struct lot_ref ref);

/**
 * How a ref died. `LOT_ERROR_NOT_FOUND` for one that is live, was never given out, or died too long ago. Any
 * thread.
 *
 * The deaths on record are those of the whole process: 65,536 of them by default, in at most 4 MB.
 *
 * # Safety
 * `out_death` is null or writable.
 */
lot_status lot_get_death(struct lot_ref ref,
                         struct lot_death *out_death);

/**
 * Sets how many deaths of the whole process are on record at most; 65,536 at first, which takes 3 MiB. The number is
 * rounded up to a multiple of 64. What was on record is forgotten, and its memory is given back. 0: nothing is on
 * record. `LOT_ERROR_INVALID_ARGUMENT` above 1,048,576. Any thread; waits for the hooks that other threads are in.
 */
lot_status lot_set_death_log_capacity(size_t records);

/**
 * How many deaths of the whole process are on record at most. Any thread.
 */
size_t lot_death_log_capacity(void);

/**
 * How many incarnations are live: in `*scope`, or in all for null; of one kind, or `LOT_KIND_ANY`. Any thread.
 *
 * # Safety
 * `scope` is null or readable; `out_count` is null or writable.
 */
lot_status lot_count(struct lot_tracker tracker,
                     const uint64_t *scope,
                     lot_kind kind,
                     size_t *out_count);

/**
 * Visits what is live, in no particular order: a snapshot, so that some of it may have ended when it is
 * visited. `scope` and `kind` as for `lot_count`. Any thread.
 *
 * # Safety
 * `scope` is null or readable; `visit` may be called with `data`.
 */
lot_status lot_for_each(struct lot_tracker tracker,
                        const uint64_t *scope,
                        lot_kind kind,
                        lot_visit_fn visit,
                        void *data);

/**
 * Visits the nearest tracked descendants of a live ref, in no particular order. Any thread.
 *
 * # Safety
 * `visit` may be called with `data`.
 */
lot_status lot_children(struct lot_ref ref, lot_visit_fn visit, void *data);

/**
 * The nearest tracked ancestor of a live ref, by the ancestors last reported; the null ref if there is none.
 * Any thread.
 *
 * # Safety
 * `out_parent` is null or writable.
 */
lot_status lot_get_parent(struct lot_ref ref,
                          struct lot_ref *out_parent);

/**
 * Writes what a tracker holds, in pieces. Any thread.
 *
 * # Safety
 * `write` may be called with `data`.
 */
lot_status lot_dump(struct lot_tracker tracker, lot_format format, lot_write_fn write, void *data);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* What lot/lot.hpp reads to do inline what `lot_is_live` does; nobody else's business.
 *
 * The number in the name is that of the layout, of the struct and of the slots behind it. A library
 * with another layout exports another name: a program that reads this one inline does not link to
 * such a library, and does not start with it. */
struct lot_live_table {
  const void *slots;
  uint32_t mask;
};
#if defined(__cplusplus)
extern "C" struct lot_live_table lot_live_table_1;
#else
extern struct lot_live_table lot_live_table_1;
#endif

/* Both sides of the ABI pass a lot_ref by value, so both state its layout. */
#if defined(__cplusplus)
static_assert(sizeof(lot_ref) == 16, "lot_ref is 16 bytes");
static_assert(offsetof(lot_ref, object) == 0, "lot_ref starts with the object");
static_assert(offsetof(lot_ref, epoch) == 8, "the epoch of a lot_ref follows the object");
#else
_Static_assert(sizeof(lot_ref) == 16, "lot_ref is 16 bytes");
_Static_assert(offsetof(lot_ref, object) == 0, "lot_ref starts with the object");
_Static_assert(offsetof(lot_ref, epoch) == 8, "the epoch of a lot_ref follows the object");
#endif

#endif  /* LOT_LOT_H */
