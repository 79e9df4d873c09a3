// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks whether a ref is live, by lot::Ref.

#include "lot/lot.hpp"

int main() {
  lot::OwnedTracker tracker("check");
  int object = 0;
  lot::Ref ref;
  if (!tracker.track(&object, 1, 0, lot::Ancestors(), nullptr, ref) || !ref.isLive())
    return 1;
  return tracker.erase(&object) && !ref.isLive() ? 0 : 1;
}
