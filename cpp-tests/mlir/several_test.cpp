// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Libraries that bring their own MLIR, in a program that has none: two at the same time, and some
// whose MLIR cannot be hooked.

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <string>
#include <thread>

#include "lot/lot.hpp"
#include "lot/mlir.h"
#include "slots.hpp"

namespace {

struct Probe {
  void *handle;
  const void *symbol = nullptr;
  lot_mlir_self_test_fn selfTest = nullptr;
  void *(*build)(lot_tracker, lot_ref *) = nullptr;
  void (*destroy)(void *) = nullptr;

  Probe(const char *path, int flags) : handle(dlopen(path, flags | RTLD_LOCAL)) {
    EXPECT_NE(handle, nullptr) << dlerror();
    if (!handle)
      return;
    symbol = reinterpret_cast<const void *(*)()>(dlsym(handle, "probe_symbol"))();
    selfTest = reinterpret_cast<lot_mlir_self_test_fn>(dlsym(handle, "probe_self_test"));
    build = reinterpret_cast<void *(*)(lot_tracker, lot_ref *)>(dlsym(handle, "probe_build"));
    destroy = reinterpret_cast<void (*)(void *)>(dlsym(handle, "probe_destroy"));
  }
  ~Probe() {
    if (handle)
      dlclose(handle);
  }
  Probe(const Probe &) = delete;
  Probe &operator=(const Probe &) = delete;
  lot_status install(lot::Tracker tracker) {
    return lot_mlir_install_load_hooks(tracker.raw(), symbol, selfTest, nullptr);
  }
  /// How many of the three ends of a tree are reported.
  int sees(lot::Tracker tracker) {
    lot_ref refs[3];
    void *tree = build(tracker.raw(), refs);
    for (lot::Ref ref : refs)
      EXPECT_TRUE(ref.isLive());
    destroy(tree);
    int seen = 0;
    for (lot::Ref ref : refs) {
      seen += !ref.isLive();
      ref.release().ignore();
    }
    return seen;
  }
};

lot_mlir_status statusOf(lot::Tracker tracker) {
  lot_mlir_status status = {};
  EXPECT_EQ(lot_mlir_get_status(tracker.raw(), &status), LOT_OK);
  return status;
}

std::size_t slotsIn(const char *object) {
  std::size_t count = 0;
  for (const auto &[address, slot] : slots::read())
    count += slot.object.find(object) != std::string::npos;
  return count;
}

TEST(Several, TwoAtTheSameTime) {
  // One bound at once, with its tables read-only after that; one bound call by call.
  Probe one(LOT_TEST_PROBE_NOW, RTLD_NOW), two(LOT_TEST_PROBE_LAZY, RTLD_LAZY);
  lot::OwnedTracker first("first"), second("second"), both("both");
  // Some slots of the second one get bound here, and some are left as the loader made them.
  EXPECT_EQ(two.sees(first), 0);
  slots::Slots before = slots::read();
  std::size_t unbound = 0;
  for (const auto &[address, slot] : before) {
    Dl_info found;
    ASSERT_NE(dladdr(reinterpret_cast<void *>(slot.value), &found), 0);
    unbound += slot.object.find("probe_lazy") != std::string::npos &&
               found.dli_saddr != reinterpret_cast<void *>(slot.value);
  }
  EXPECT_GT(unbound, 0u);

  std::string protection;
  for (const auto &[address, slot] : before)
    if (slot.object.find("probe_now") != std::string::npos &&
        slot.symbol == "_ZN4mlir9Operation5eraseEv")
      protection = slot.protection;
  ASSERT_EQ(protection, "r--p") << "the test is about a table that is read-only";

  ASSERT_EQ(one.install(first), LOT_OK) << lot_last_error_message();
  EXPECT_EQ(one.sees(first), 3);
  EXPECT_EQ(two.sees(first), 0) << "the other library's hooks are not this tracker's";
  ASSERT_EQ(two.install(second), LOT_OK) << lot_last_error_message();
  EXPECT_EQ(two.sees(second), 3);
  EXPECT_EQ(one.sees(second), 0);
  EXPECT_EQ(one.sees(first), 3);
  EXPECT_EQ(statusOf(first).libraries_patched, 1u);
  EXPECT_EQ(statusOf(second).libraries_patched, 1u);

  ASSERT_EQ(one.install(both), LOT_OK);
  ASSERT_EQ(two.install(both), LOT_OK);
  EXPECT_EQ(one.sees(both), 3);
  EXPECT_EQ(two.sees(both), 3);
  EXPECT_EQ(statusOf(both).libraries_patched, 2u);
  EXPECT_EQ(statusOf(both).slots_patched,
            statusOf(first).slots_patched + statusOf(second).slots_patched);
  slots::Slots during = slots::read();
  EXPECT_EQ(slots::changed(before, during), statusOf(both).slots_patched);
  for (const auto &[address, slot] : during)
    EXPECT_EQ(slot.protection, before[address].protection);

  EXPECT_EQ(lot_mlir_uninstall_load_hooks(both.raw()), LOT_OK);
  EXPECT_FALSE(both.isExact());
  EXPECT_EQ(one.sees(both), 0);
  EXPECT_EQ(one.sees(first), 3);
  EXPECT_EQ(lot_mlir_uninstall_load_hooks(first.raw()), LOT_OK);
  EXPECT_EQ(lot_mlir_uninstall_load_hooks(second.raw()), LOT_OK);
  for (const auto &[address, slot] : slots::read())
    if (during[address].value != before[address].value) {
      EXPECT_TRUE(slot == before[address]) << slot.symbol << " in " << slot.object;
    }
}

TEST(Several, AWatchedLibraryStaysLoaded) {
  lot::OwnedTracker tracker("stays");
  ASSERT_EQ(dlopen(LOT_TEST_PROBE_STAYS, RTLD_NOW | RTLD_NOLOAD), nullptr);
  // On threads of their own: what MLIR keeps for a thread keeps its library loaded, too.
  {
    Probe probe(LOT_TEST_PROBE_STAYS, RTLD_NOW);
    std::thread([&] { EXPECT_EQ(probe.sees(tracker), 0); }).join();
  }
  ASSERT_EQ(dlopen(LOT_TEST_PROBE_STAYS, RTLD_NOW | RTLD_NOLOAD), nullptr)
      << "then this test proves nothing";
  {
    Probe probe(LOT_TEST_PROBE_STAYS, RTLD_NOW);
    std::thread([&] {
      EXPECT_EQ(probe.install(tracker), LOT_OK) << lot_last_error_message();
    }).join();
  }
  ASSERT_NE(dlopen(LOT_TEST_PROBE_STAYS, RTLD_NOW | RTLD_NOLOAD), nullptr);
  EXPECT_EQ(Probe(LOT_TEST_PROBE_STAYS, RTLD_NOW).sees(tracker), 3);
  EXPECT_EQ(lot_mlir_uninstall_load_hooks(tracker.raw()), LOT_OK);
}

/// A library whose MLIR cannot be hooked: structural mode, with the reason, and nothing changed.
void cannotBeHooked(const char *path, const char *name, const char *reason) {
  Probe probe(path, RTLD_NOW);
  ASSERT_NE(probe.symbol, nullptr);
  lot::OwnedTracker tracker(name);
  EXPECT_EQ(probe.sees(tracker), 0);
  slots::Slots before = slots::read();
  EXPECT_EQ(probe.install(tracker), LOT_ERROR_UNSUPPORTED);
  lot_mlir_status status = statusOf(tracker);
  EXPECT_EQ(status.source, LOT_MLIR_SOURCE_STRUCTURAL);
  EXPECT_EQ(status.slots_patched, 0u);
  EXPECT_EQ(status.libraries_patched, 0u);
  EXPECT_NE(std::string(status.reason).find(reason), std::string::npos) << status.reason;
  EXPECT_NE(std::string(status.reason).find(name), std::string::npos) << status.reason;
  EXPECT_FALSE(tracker.isExact());
  EXPECT_TRUE(slots::read() == before);
  std::printf("%s\n", status.reason);

  // What the binding reports itself still counts.
  lot_ref refs[3];
  void *tree = probe.build(tracker.raw(), refs);
  ASSERT_TRUE(tracker.erase(refs[0].object));
  probe.destroy(tree);
  for (lot::Ref ref : refs)
    EXPECT_FALSE(ref.isLive());
}

TEST(Several, LinkedSymbolically) {
  cannotBeHooked(LOT_TEST_PROBE_SYMBOLIC, "probe_symbolic", "-Bsymbolic");
}

TEST(Several, Hidden) { cannotBeHooked(LOT_TEST_PROBE_HIDDEN, "probe_hidden", "does not export"); }

TEST(Several, SomeBoundDirectly) {
  // All but one of the functions can be hooked; calls of that one cannot be seen.
  cannotBeHooked(LOT_TEST_PROBE_PARTLY, "probe_partly", "deleteNode");
}

TEST(Several, NotThereAtAll) {
  EXPECT_EQ(slotsIn("several_test"), 0u) << "this program is to have no MLIR";
}

} // namespace
