// The C++17 face of the live object tracker: header-only, over lot/lot.h.
//
// Everything here is `noexcept`: hooks run inside destructors of the framework, so a failure is a
// returned `lot::Status`, never an exception. What each call means, which threads may make it and what
// it costs is written at the C function of the same name in lot/lot.h.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef LOT_LOT_HPP
#define LOT_LOT_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <new>
#include <type_traits>
#include <utility>

#include "lot/lot.h"

/// Marks the functions here. Binaries of one process that link the library statically have a copy of
/// it each. An inline function is one for the whole process unless it is hidden: it would ask one copy
/// about the refs of another one. The same holds for inline functions of yours that call these, and for
/// templates such as std::vector<lot::Registration>: there -fvisibility=hidden helps.
#if defined(__GNUC__)
#define LOT_HIDDEN __attribute__((visibility("hidden")))
#else
#define LOT_HIDDEN
#endif

namespace lot {

static_assert(sizeof(lot_ref) == 16 && alignof(lot_ref) == 8,
              "lot_ref is 16 bytes on both sides of the ABI");
static_assert(offsetof(lot_ref, object) == 0 && offsetof(lot_ref, epoch) == 8,
              "lot_ref is {object, epoch} on both sides of the ABI");
static_assert(std::is_trivially_copyable<lot_ref>::value, "lot_ref is passed by value");

/// What a call answered. Converts to `true` for LOT_OK.
class [[nodiscard]] Status {
public:
  LOT_HIDDEN Status(lot_status code) noexcept : code_(code) {}
  LOT_HIDDEN explicit operator bool() const noexcept { return code_ == LOT_OK; }
  LOT_HIDDEN lot_status code() const noexcept { return code_; }
  /// The constant's name, for example "LOT_ERROR_DEAD_REF".
  LOT_HIDDEN const char *name() const noexcept { return lot_status_name(code_); }
  /// What this thread's last failed call had to say; only meaningful right after a failure.
  LOT_HIDDEN static const char *message() noexcept { return lot_last_error_message(); }
  /// States that a failure does not matter here (a hook in a destructor).
  LOT_HIDDEN void ignore() const noexcept {}

private:
  lot_status code_;
};

namespace detail {

/// A slot of the tracker's table, as far as a check reads it.
struct LiveSlot {
  std::uintptr_t object;
  std::uint64_t epoch;
};

/// lot_is_live without a call, unless LOT_NO_INLINE_CHECK is defined. All source files of a binary must
/// agree on that macro.
LOT_HIDDEN inline bool isLive(lot_ref ref) noexcept {
#if defined(__GNUC__) && !defined(LOT_NO_INLINE_CHECK)
  const lot_live_table &table = ::lot_live_table_1;
  const std::uint32_t slot =
      static_cast<std::uint32_t>(ref.epoch) & __atomic_load_n(&table.mask, __ATOMIC_ACQUIRE);
  const LiveSlot *found =
      static_cast<const LiveSlot *>(__atomic_load_n(&table.slots, __ATOMIC_ACQUIRE)) + slot;
  // The object first: see is_live in the tracker's table.rs.
  const std::uintptr_t otherObject = __atomic_load_n(&found->object, __ATOMIC_ACQUIRE) ^
                                     reinterpret_cast<std::uintptr_t>(ref.object);
  const std::uint64_t otherEpoch = __atomic_load_n(&found->epoch, __ATOMIC_ACQUIRE) ^ ref.epoch;
  // One branch less than two comparisons.
  return (otherObject | otherEpoch) == 0;
#else
  return lot_is_live(ref);
#endif
}

} // namespace detail

/// One incarnation of an object: 16 bytes, a value, safe to keep for ever.
class Ref {
public:
  LOT_HIDDEN constexpr Ref() noexcept : raw_{nullptr, 0} {}
  LOT_HIDDEN constexpr Ref(lot_ref raw) noexcept : raw_(raw) {}
  LOT_HIDDEN constexpr lot_ref raw() const noexcept { return raw_; }

  /// Lock-free, for any bits, on any thread, for ever.
  LOT_HIDDEN bool isLive() const noexcept { return detail::isLive(raw_); }
  LOT_HIDDEN constexpr bool isNull() const noexcept {
    return raw_.epoch == 0 && raw_.object == nullptr;
  }
  LOT_HIDDEN constexpr std::uint64_t epoch() const noexcept { return raw_.epoch; }
  /// The address, also of a dead ref: only compare it, do not follow it unless `isLive()`.
  LOT_HIDDEN constexpr const void *address() const noexcept { return raw_.object; }

  /// Why a dead ref died. False while it lives, and once it has left the death log.
  LOT_HIDDEN Status death(lot_death &out) const noexcept { return lot_get_death(raw_, &out); }
  LOT_HIDDEN Status release() const noexcept { return lot_release(raw_); }
  LOT_HIDDEN Status setUser(void *user) const noexcept { return lot_set_user(raw_, user); }
  /// The user pointer of a live ref; nullptr for a dead one.
  LOT_HIDDEN void *user() const noexcept {
    void *user = nullptr;
    return lot_get_user(raw_, &user) == LOT_OK ? user : nullptr;
  }
  /// The nearest tracked ancestor, or the null ref.
  LOT_HIDDEN Ref parent() const noexcept {
    lot_ref parent = {nullptr, 0};
    (void)lot_get_parent(raw_, &parent);
    return parent;
  }

  LOT_HIDDEN friend bool operator==(Ref a, Ref b) noexcept {
    return a.raw_.epoch == b.raw_.epoch && a.raw_.object == b.raw_.object;
  }
  LOT_HIDDEN friend bool operator!=(Ref a, Ref b) noexcept { return !(a == b); }

private:
  lot_ref raw_;
};

namespace detail {

/// The type of a container's or an array's elements, if they lie in a row.
template <typename List>
using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<const List &>()))>;

template <typename Element>
inline constexpr bool isObjectPointer =
    std::is_pointer_v<Element> && !std::is_function_v<std::remove_pointer_t<Element>>;

} // namespace detail

/// The ancestors of an object, nearest first and complete up to the outermost: pointers to whatever
/// types the framework's objects have. The list is not copied: it must outlive the call that it is for.
class Ancestors {
public:
  /// Not reported: what the tracker knows of the object's place stays as it is.
  LOT_HIDDEN constexpr Ancestors() noexcept : data_(nullptr), size_(0) {}
  /// `size` pointers, or, with null, the same as above.
  LOT_HIDDEN constexpr Ancestors(const void *const *data, std::size_t size) noexcept
      : data_(data), size_(size) {}
  template <typename Object, typename = std::enable_if_t<detail::isObjectPointer<Object *>>>
  LOT_HIDDEN Ancestors(Object *const *data, std::size_t size) noexcept
      : data_(reinterpret_cast<const void *const *>(data)), size_(size) {}
  /// For a call's argument `{block, operation}`. An Ancestors variable must not be made of one.
  LOT_HIDDEN Ancestors(std::initializer_list<const void *> list) noexcept
      : Ancestors(list.size() ? std::data(list) : &none(), list.size()) {}
  /// For an array, std::vector, std::array, llvm::SmallVector or the like of pointers. The compiler
  /// refuses other elements, such as those of a std::string.
  template <typename List,
            typename = std::enable_if_t<detail::isObjectPointer<detail::ElementOf<List>>>>
  LOT_HIDDEN Ancestors(const List &list) noexcept
      : data_(std::size(list) ? reinterpret_cast<const void *const *>(std::data(list)) : &none()),
        size_(std::size(list)) {}
  LOT_HIDDEN constexpr const void *const *data() const noexcept { return data_; }
  LOT_HIDDEN constexpr std::size_t size() const noexcept { return size_; }

private:
  /// Not null, as the data() of an empty list may be: there are no ancestors, and that is reported.
  LOT_HIDDEN static const void *const &none() noexcept {
    static const void *const none = nullptr;
    return none;
  }

  const void *const *data_;
  std::size_t size_;
};

/// A handle of a tracker; copying it copies the handle. `OwnedTracker` ends the tracker with itself.
class Tracker {
public:
  LOT_HIDDEN constexpr Tracker() noexcept : raw_{0} {}
  LOT_HIDDEN constexpr Tracker(lot_tracker raw) noexcept : raw_(raw) {}
  LOT_HIDDEN constexpr lot_tracker raw() const noexcept { return raw_; }

  LOT_HIDDEN static Status create(const char *name, Tracker &out) noexcept {
    return lot_tracker_create(name, &out.raw_);
  }
  LOT_HIDDEN Status destroy() const noexcept { return lot_tracker_destroy(raw_); }
  LOT_HIDDEN Status setObserver(lot_observer_fn observer, void *data) const noexcept {
    return lot_tracker_set_observer(raw_, observer, data);
  }
  LOT_HIDDEN Status stats(lot_stats &out) const noexcept { return lot_tracker_stats(raw_, &out); }
  LOT_HIDDEN Status exactBegin() const noexcept { return lot_exact_begin(raw_); }
  LOT_HIDDEN Status exactEnd() const noexcept { return lot_exact_end(raw_); }
  LOT_HIDDEN bool isExact() const noexcept { return lot_is_exact(raw_); }

  /// A new object starts at `object`.
  LOT_HIDDEN Status create(const void *object, std::uint64_t scope, lot_kind kind,
                           Ancestors ancestors, void *user, Ref &out) const noexcept {
    lot_description description = describe(object, scope, kind, ancestors, user);
    lot_ref ref = {nullptr, 0};
    lot_status status = lot_create(raw_, &description, &ref);
    if (status == LOT_OK)
      out = ref;
    return status;
  }
  /// The object exists: its live ref, or a new one. `outUser` is the user pointer it carries now.
  LOT_HIDDEN Status track(const void *object, std::uint64_t scope, lot_kind kind,
                          Ancestors ancestors, void *user, Ref &out,
                          void **outUser = nullptr) const noexcept {
    lot_description description = describe(object, scope, kind, ancestors, user);
    lot_ref ref = {nullptr, 0};
    lot_status status = lot_track(raw_, &description, &ref, outUser);
    if (status == LOT_OK)
      out = ref;
    return status;
  }
  /// The live ref at an address, or the null ref. `outUser` is left alone if there is none.
  LOT_HIDDEN Ref find(const void *object, void **outUser = nullptr) const noexcept {
    lot_ref ref = {nullptr, 0};
    (void)lot_find(raw_, object, &ref, outUser);
    return ref;
  }

  LOT_HIDDEN Status erase(const void *object) const noexcept { return lot_erase(raw_, object); }
  LOT_HIDDEN Status parentDestroy(const void *object) const noexcept {
    return lot_parent_destroy(raw_, object);
  }
  LOT_HIDDEN Status destroyed(const void *object) const noexcept {
    return lot_destroy(raw_, object);
  }
  /// The object and its direct children of the kinds in `kinds` (bit k is kind k).
  LOT_HIDDEN Status destroyedWith(const void *object, std::uint32_t kinds) const noexcept {
    return lot_destroy_with(raw_, object, kinds);
  }
  LOT_HIDDEN Status move(const void *object, Ancestors ancestors) const noexcept {
    return lot_move(raw_, object, ancestors.data(), ancestors.size());
  }
  LOT_HIDDEN Status detach(const void *object) const noexcept { return lot_detach(raw_, object); }
  LOT_HIDDEN Status opaqueMutation(const void *root) const noexcept {
    return lot_opaque_mutation(raw_, root);
  }
  LOT_HIDDEN Status clearScope(std::uint64_t scope) const noexcept {
    return lot_clear_scope(raw_, scope);
  }

  LOT_HIDDEN std::size_t count(lot_kind kind = LOT_KIND_ANY) const noexcept {
    return count(nullptr, kind);
  }
  LOT_HIDDEN std::size_t countInScope(std::uint64_t scope,
                                      lot_kind kind = LOT_KIND_ANY) const noexcept {
    return count(&scope, kind);
  }
  /// `visit(lot::Ref, void *user)` for a snapshot of what is live; return false to stop.
  template <typename Visit>
  LOT_HIDDEN Status forEach(const std::uint64_t *scope, lot_kind kind, Visit &&visit) const {
    using Function = std::remove_reference_t<Visit>;
    return lot_for_each(
        raw_, scope, kind,
        [](lot_ref ref, void *user, void *data) -> bool {
          return (*static_cast<Function *>(data))(Ref(ref), user);
        },
        const_cast<void *>(static_cast<const void *>(&visit)));
  }

private:
  LOT_HIDDEN static lot_description describe(const void *object, std::uint64_t scope,
                                             lot_kind kind, Ancestors ancestors,
                                             void *user) noexcept {
    lot_description description = {};
    description.object = object;
    description.scope = scope;
    description.ancestors = ancestors.data();
    description.ancestor_count = ancestors.size();
    description.user = user;
    description.kind = kind;
    return description;
  }
  LOT_HIDDEN std::size_t count(const std::uint64_t *scope, lot_kind kind) const noexcept {
    std::size_t count = 0;
    (void)lot_count(raw_, scope, kind, &count);
    return count;
  }

  lot_tracker raw_;
};

/// Owns a tracker: destroying it ends everything in the tracker.
class OwnedTracker : public Tracker {
public:
  LOT_HIDDEN explicit OwnedTracker(const char *name) noexcept { (void)create(name, *this); }
  using Tracker::create;
  LOT_HIDDEN OwnedTracker(OwnedTracker &&other) noexcept : Tracker(other) {
    static_cast<Tracker &>(other) = Tracker();
  }
  OwnedTracker(const OwnedTracker &) = delete;
  OwnedTracker &operator=(const OwnedTracker &) = delete;
  OwnedTracker &operator=(OwnedTracker &&) = delete;
  LOT_HIDDEN ~OwnedTracker() {
    if (raw().id != 0)
      (void)destroy();
  }
};

/// Owns a registration: releases the ref with itself. A dead ref needs no release; that is not an error.
class Registration {
public:
  LOT_HIDDEN Registration() noexcept = default;
  LOT_HIDDEN explicit Registration(Ref ref) noexcept : ref_(ref) {}
  LOT_HIDDEN Registration(Registration &&other) noexcept : ref_(std::exchange(other.ref_, Ref())) {}
  LOT_HIDDEN Registration &operator=(Registration &&other) noexcept {
    if (this != &other) {
      reset();
      ref_ = std::exchange(other.ref_, Ref());
    }
    return *this;
  }
  Registration(const Registration &) = delete;
  Registration &operator=(const Registration &) = delete;
  LOT_HIDDEN ~Registration() { reset(); }

  LOT_HIDDEN Ref ref() const noexcept { return ref_; }
  LOT_HIDDEN bool isLive() const noexcept { return ref_.isLive(); }
  LOT_HIDDEN void reset() noexcept {
    if (!ref_.isNull())
      (void)ref_.release();
    ref_ = Ref();
  }
  /// Gives the ref away: it stays tracked.
  LOT_HIDDEN Ref take() noexcept { return std::exchange(ref_, Ref()); }

private:
  Ref ref_;
};

/// While it lives, ends that an exact source reports on this thread are put down to `by`.
class Attribution {
public:
  LOT_HIDDEN Attribution(lot_cause cause, Ref by) noexcept
      : previous_(lot_attribution_enter(lot_attribution{by.raw(), cause})) {}
  Attribution(const Attribution &) = delete;
  Attribution &operator=(const Attribution &) = delete;
  LOT_HIDDEN ~Attribution() { lot_attribution_leave(previous_); }

private:
  lot_attribution previous_;
};

/// Keeps ends for a moment at which one may act on them: an observer runs inside of the framework.
///
///     lot::EndQueue ended;                                        // outlives the hooks
///     tracker.setObserver(lot::EndQueue::observe, &ended);
///     …
///     for (lot_end end; ended.pop(end);) …                        // when the framework is not at work
///
/// Any thread may push, without waiting for another one. One thread at a time may pop. What is popped is in the
/// order of the ends, as far as one thread caused them; it includes what was released.
class EndQueue {
public:
  LOT_HIDDEN EndQueue() noexcept = default;
  EndQueue(const EndQueue &) = delete;
  EndQueue &operator=(const EndQueue &) = delete;
  /// Once no observer pushes any more: setObserver, or the tracker's destruction, has returned.
  LOT_HIDDEN ~EndQueue() {
    for (lot_end end; pop(end);) {
    }
  }

  /// The observer: `queue` is an EndQueue.
  LOT_HIDDEN static void observe(const lot_end *ends, std::size_t count, void *queue) noexcept {
    for (std::size_t i = 0; i < count; ++i)
      static_cast<EndQueue *>(queue)->push(ends[i]);
  }
  /// False if there is no memory: then the end is lost.
  LOT_HIDDEN bool push(const lot_end &end) noexcept {
    Entry *entry = new (std::nothrow) Entry{end, newest_.load(std::memory_order_relaxed)};
    if (!entry)
      return false;
    while (!newest_.compare_exchange_weak(entry->next, entry, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
    return true;
  }
  /// Takes the oldest one; false, and `out` is left alone, if there is none.
  LOT_HIDDEN bool pop(lot_end &out) noexcept {
    if (!oldest_) {
      Entry *entry = newest_.exchange(nullptr, std::memory_order_acquire);
      while (entry) // the newest one comes first there
        entry = std::exchange(entry->next, std::exchange(oldest_, entry));
    }
    if (!oldest_)
      return false;
    Entry *entry = std::exchange(oldest_, oldest_->next);
    out = entry->end;
    delete entry;
    return true;
  }
  /// Whether there is nothing to pop. For the thread that pops.
  LOT_HIDDEN bool empty() const noexcept {
    return !oldest_ && !newest_.load(std::memory_order_relaxed);
  }

private:
  struct Entry {
    lot_end end;
    Entry *next;
  };
  std::atomic<Entry *> newest_{nullptr}; // a stack; the others' end
  Entry *oldest_ = nullptr;              // in order; the popping thread's end
};

} // namespace lot

template <> struct std::hash<lot::Ref> {
  LOT_HIDDEN std::size_t operator()(lot::Ref ref) const noexcept {
    return std::hash<std::uint64_t>()(ref.epoch());
  }
};

#endif // LOT_LOT_HPP
