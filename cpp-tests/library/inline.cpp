// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Uses what lot/lot.hpp has.

#include <utility>

#include "lot/lot.hpp"

bool useAll(const char *name, const void *object, lot::Ref *out);

bool useAll(const char *name, const void *object, lot::Ref *out) {
  lot::OwnedTracker made(name);
  lot::OwnedTracker tracker(std::move(made));
  const void *array[] = {object};
  int number = 0;
  int *pointers[] = {&number};
  lot::EndQueue queue;
  lot_end end = {};
  bool fine = bool(tracker.setObserver(lot::EndQueue::observe, &queue));
  fine &= bool(tracker.track(object, 1, 0, array, nullptr, *out));
  fine &= bool(tracker.create(object, 1, 0, {object, name}, nullptr, *out));
  fine &= bool(tracker.move(object, lot::Ancestors(pointers, 1)));
  fine &= bool(tracker.forEach(nullptr, LOT_KIND_ANY, [&](lot::Ref ref, void *) {
    lot::Attribution due(LOT_CAUSE_ERASED, ref);
    return tracker.find(ref.address()) == ref && ref != lot::Ref();
  }));
  lot::Registration first(*out);
  lot::Registration second(std::move(first));
  first = std::move(second);
  fine &= first.isLive() && !first.take().parent().isNull() && std::hash<lot::Ref>()(*out) != 0;
  return fine && queue.pop(end) && tracker.count() == 0;
}
