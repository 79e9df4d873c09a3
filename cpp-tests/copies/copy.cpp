// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One copy of the tracker; COPY_NAME is the function that leads to it. Everything goes through
// lot/lot.hpp, with default visibility, as a library does that takes no precautions.

#include "copy.hpp"

#include "lot/lot.hpp"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

extern "C" const Copy *COPY_NAME();

namespace {

lot::Tracker &tracker() {
  static lot::OwnedTracker *tracker = new lot::OwnedTracker(TEXT(COPY_NAME));
  return *tracker;
}

bool fill(const void *const *objects, lot_ref *out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    lot::Ref ref;
    if (!tracker().track(objects[i], 1, 0, lot::Ancestors(objects, 0), nullptr, ref))
      return false;
    out[i] = ref.raw();
  }
  return true;
}

bool erase(const void *object) { return bool(tracker().erase(object)); }
std::size_t count() { return tracker().count(); }
bool isLiveInline(lot_ref ref) { return lot::Ref(ref).isLive(); }
bool isLiveByCall(lot_ref ref) { return lot_is_live(ref); }

} // namespace

extern "C" const Copy *COPY_NAME() {
  static const Copy copy = {TEXT(COPY_NAME), fill, erase, count, isLiveInline, isLiveByCall};
  return &copy;
}
