// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What load hooks do to the process, and that they undo it.

#include "ir.hpp"
#include "slots.hpp"
#include "source.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

/// An address in the MLIR library.
static const void *symbol() {
  mlir::Operation *(*function)(const mlir::OperationState &) = &mlir::Operation::create;
  return reinterpret_cast<const void *>(function);
}

const lot_mlir_source source::kind = LOT_MLIR_SOURCE_LOAD_HOOKS;
lot_status source::install(lot::Tracker tracker, lot_mlir_self_test_fn selfTest) {
  return lot_mlir_install_load_hooks(tracker.raw(), symbol(), selfTest, nullptr);
}
lot_status source::uninstall(lot::Tracker tracker) {
  return lot_mlir_uninstall_load_hooks(tracker.raw());
}

namespace {

mlir::Operation *make(mlir::MLIRContext &context) {
  context.allowUnregisteredDialects();
  return mlir::Operation::create(
      mlir::OperationState(mlir::UnknownLoc::get(&context), "test.op"));
}

/// Whether an end is reported that `erase` causes.
template <typename Erase> bool sees(lot::Tracker tracker, Erase erase) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::Operation *operation = make(context);
  lot::Ref ref;
  EXPECT_TRUE(lot::mlir::track(tracker, operation, ref));
  EXPECT_TRUE(ref.isLive());
  erase(operation);
  bool seen = !ref.isLive();
  ref.release().ignore();
  return seen;
}
bool sees(lot::Tracker tracker) {
  return sees(tracker, [](mlir::Operation *operation) { operation->erase(); });
}

std::uintptr_t addressOf(const slots::Slots &slots, const char *object, const char *symbol) {
  for (const auto &[address, slot] : slots)
    if (slot.symbol == symbol && slot.object.find(object) != std::string::npos)
      return address;
  ADD_FAILURE() << "no slot for " << symbol << " in " << object;
  return 0;
}

constexpr const char *eraseName = "_ZN4mlir9Operation5eraseEv";

void write(std::uintptr_t slot, std::uintptr_t value) {
  long size = sysconf(_SC_PAGESIZE);
  ASSERT_EQ(mprotect(reinterpret_cast<void *>(slot & ~(size - 1)), size, PROT_READ | PROT_WRITE),
            0);
  *reinterpret_cast<std::uintptr_t *>(slot) = value;
}

TEST(LoadHooks, AreInstalledAndTakenBack) {
  lot::OwnedTracker tracker("hooks");
  slots::Slots before = slots::read();
  ASSERT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
  lot_mlir_status status = source::status(tracker);
  EXPECT_EQ(status.source, LOT_MLIR_SOURCE_LOAD_HOOKS);
  // libMLIR calls all but one of the watched functions, and this program some.
  EXPECT_GE(status.slots_patched, 12u);
  EXPECT_EQ(status.libraries_patched, 2u);
  slots::Slots during = slots::read();
  EXPECT_EQ(slots::changed(before, during), status.slots_patched);
  for (const auto &[address, slot] : during)
    EXPECT_EQ(slot.protection, before[address].protection);
  EXPECT_TRUE(sees(tracker));

  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
  // Slots that were bound by the self-test's calls meanwhile held the hook, and get back what they
  // held before: all is as it was.
  for (const auto &[address, slot] : slots::read())
    if (during[address].value != before[address].value) {
      EXPECT_TRUE(slot == before[address]) << slot.symbol << " in " << slot.object;
    }
  status = source::status(tracker);
  EXPECT_EQ(status.source, LOT_MLIR_SOURCE_STRUCTURAL);
  EXPECT_EQ(status.slots_patched, 0u);
  EXPECT_EQ(status.libraries_patched, 0u);
  EXPECT_STRNE(status.reason, "");
  EXPECT_FALSE(tracker.isExact());
  EXPECT_FALSE(sees(tracker));
  EXPECT_EQ(source::uninstall(tracker), LOT_ERROR_NOT_ACTIVE);
}

TEST(LoadHooks, TwiceIsOnce) {
  lot::OwnedTracker tracker("twice");
  slots::Slots before = slots::read();
  ASSERT_EQ(source::install(tracker), LOT_OK);
  slots::Slots during = slots::read();
  lot_mlir_status first = source::status(tracker);
  ASSERT_EQ(source::install(tracker), LOT_OK);
  lot_mlir_status second = source::status(tracker);
  EXPECT_EQ(first.slots_patched, second.slots_patched);
  EXPECT_EQ(first.libraries_patched, second.libraries_patched);
  EXPECT_EQ(slots::changed(during, slots::read()), 0u);
  lot_stats stats;
  ASSERT_TRUE(tracker.stats(stats));
  EXPECT_EQ(stats.exact_sources, 1u);
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
  EXPECT_FALSE(tracker.isExact());
  for (const auto &[address, slot] : slots::read())
    if (during[address].value != before[address].value) {
      EXPECT_EQ(slot.value, before[address].value);
    }
}

TEST(LoadHooks, ReportToEachTracker) {
  lot::OwnedTracker one("one"), two("two");
  slots::Slots before = slots::read();
  ASSERT_EQ(source::install(one), LOT_OK);
  slots::Slots during = slots::read();
  ASSERT_EQ(source::install(two), LOT_OK);
  EXPECT_EQ(slots::changed(during, slots::read()), 0u);
  EXPECT_TRUE(sees(one));
  EXPECT_TRUE(sees(two));
  EXPECT_EQ(source::uninstall(one), LOT_OK);
  EXPECT_FALSE(sees(one));
  EXPECT_TRUE(sees(two));
  EXPECT_EQ(source::uninstall(two), LOT_OK);
  for (const auto &[address, slot] : slots::read())
    if (during[address].value != before[address].value) {
      EXPECT_EQ(slot.value, before[address].value);
    }
}

TEST(LoadHooks, ADestroyedTrackerIsForgotten) {
  lot::Tracker gone;
  ASSERT_TRUE(lot::Tracker::create("gone", gone));
  ASSERT_EQ(source::install(gone), LOT_OK);
  ASSERT_TRUE(gone.destroy());
  mlir::MLIRContext context;
  make(context)->erase();
  EXPECT_EQ(source::uninstall(gone), LOT_ERROR_NO_TRACKER);
  EXPECT_EQ(lot_mlir_refresh(gone.raw()), LOT_ERROR_NO_TRACKER);
  lot_mlir_status status;
  EXPECT_EQ(lot_mlir_get_status(gone.raw(), &status), LOT_ERROR_NO_TRACKER);

  lot::OwnedTracker other("other");
  ASSERT_EQ(source::install(other), LOT_OK);
  slots::Slots during = slots::read();
  EXPECT_TRUE(sees(other));
  EXPECT_EQ(source::uninstall(other), LOT_OK);
  EXPECT_GE(slots::changed(during, slots::read()), 12u); // Nothing is left for the destroyed one.
  // The same if the destroyed one came later.
  ASSERT_EQ(source::install(other), LOT_OK);
  ASSERT_TRUE(lot::Tracker::create("gone", gone));
  ASSERT_EQ(source::install(gone), LOT_OK);
  ASSERT_TRUE(gone.destroy());
  EXPECT_TRUE(sees(other));
  EXPECT_EQ(source::uninstall(other), LOT_OK);
  EXPECT_GE(slots::changed(during, slots::read()), 12u);
  // More of them than there are places.
  for (int i = 0; i < 100; ++i) {
    lot::OwnedTracker brief("brief");
    ASSERT_EQ(source::install(brief), LOT_OK) << i;
  }
}

TEST(LoadHooks, SlotsThatOthersHaveTakenSinceAreTheirs) {
  lot::OwnedTracker tracker("shared");
  ASSERT_EQ(source::install(tracker), LOT_OK);
  std::uintptr_t slot = addressOf(slots::read(), "libMLIR", eraseName);
  slots::Slots during = slots::read();
  std::uintptr_t hook = during[slot].value;
  std::uintptr_t theirs = hook + 1; // Never called.
  write(slot, theirs);
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
  EXPECT_EQ(slots::read()[slot].value, theirs);
  // Taken back by them, the hook goes on to the function, and nothing is reported.
  write(slot, hook);
  EXPECT_FALSE(sees(tracker));
  // Installed anew, all is well.
  ASSERT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
  EXPECT_TRUE(sees(tracker));
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
  EXPECT_NE(slots::read()[slot].value, hook);
}

bool aHookWasCalled = false;
void strangersHook(mlir::Operation *) { aHookWasCalled = true; }

TEST(LoadHooks, AStrangersHookMeansStructuralMode) {
  lot::OwnedTracker tracker("stranger");
  slots::Slots before = slots::read();
  std::uintptr_t slot = addressOf(before, "libMLIR", eraseName);
  write(slot, reinterpret_cast<std::uintptr_t>(&strangersHook));
  EXPECT_EQ(source::install(tracker), LOT_ERROR_UNSUPPORTED);
  lot_mlir_status status = source::status(tracker);
  EXPECT_EQ(status.source, LOT_MLIR_SOURCE_STRUCTURAL);
  EXPECT_NE(std::string(status.reason).find("redirected by other code"), std::string::npos)
      << status.reason;
  EXPECT_STREQ(status.reason, lot_last_error_message());
  EXPECT_EQ(slots::read()[slot].value, reinterpret_cast<std::uintptr_t>(&strangersHook));
  write(slot, before[slot].value);
  EXPECT_EQ(slots::changed(before, slots::read()), 0u);
  EXPECT_FALSE(aHookWasCalled);
  EXPECT_FALSE(tracker.isExact());
}

TEST(LoadHooks, ASelfTestThatFailsMeansStructuralMode) {
  lot::OwnedTracker tracker("failing");
  struct Case {
    lot_mlir_self_test_fn selfTest;
    const char *reason;
  } cases[] = {
      {[](lot_tracker, void *) { return true; }, "tracked nothing"},
      {[](lot_tracker tracker, void *data) { return lot::mlir::selfTest(tracker, data) && false; },
       "the self-test failed"},
      {[](lot_tracker tracker, void *data) {
         static int object;
         lot_description description = {&object, 0, nullptr, 0, nullptr, 0};
         lot_ref ref;
         return lot::mlir::selfTest(tracker, data) &&
                lot_track(tracker, &description, &ref, nullptr) == LOT_OK;
       },
       " of the "},
      {[](lot_tracker tracker, void *data) {
         return lot::mlir::selfTest(tracker, data) && lot_tracker_destroy(tracker) == LOT_OK;
       },
       "destroyed its tracker"},
  };
  slots::Slots before = slots::read();
  for (const Case &each : cases) {
    EXPECT_EQ(source::install(tracker, each.selfTest), LOT_ERROR_UNSUPPORTED);
    lot_mlir_status status = source::status(tracker);
    EXPECT_EQ(status.source, LOT_MLIR_SOURCE_STRUCTURAL);
    EXPECT_NE(std::string(status.reason).find(each.reason), std::string::npos) << status.reason;
    EXPECT_EQ(status.slots_patched, 0u);
    EXPECT_FALSE(tracker.isExact());
  }
  slots::Slots after = slots::read();
  EXPECT_FALSE(sees(tracker));
  // The self-tests' own calls may have bound slots of this program for the first time.
  for (const auto &[address, slot] : after) {
    Dl_info owner;
    if (slot.value != before[address].value) {
      EXPECT_TRUE(dladdr(reinterpret_cast<void *>(slot.value), &owner) &&
                  std::string(owner.dli_fname).find("libMLIR") != std::string::npos)
          << slot.symbol << " in " << slot.object;
    }
    EXPECT_EQ(slot.protection, before[address].protection);
  }
}

TEST(LoadHooks, AWrongAddressIsExplained) {
  lot::OwnedTracker tracker("wrong");
  int local;
  struct Case {
    const void *symbol;
    const char *reason;
  } cases[] = {
      {&local, "in no loaded library"},
      {reinterpret_cast<const void *>(&std::abort), "does not export mlir::Operation::erase"},
      {reinterpret_cast<const void *>(&strangersHook), "does not export mlir::Operation::erase"},
  };
  for (const Case &each : cases) {
    EXPECT_EQ(lot_mlir_install_load_hooks(tracker.raw(), each.symbol, lot::mlir::selfTest, nullptr),
              LOT_ERROR_UNSUPPORTED);
    EXPECT_NE(std::string(source::status(tracker).reason).find(each.reason), std::string::npos)
        << source::status(tracker).reason;
  }
  // A failure takes nothing away.
  ASSERT_EQ(source::install(tracker), LOT_OK);
  EXPECT_EQ(lot_mlir_install_load_hooks(tracker.raw(), &local, lot::mlir::selfTest, nullptr),
            LOT_ERROR_UNSUPPORTED);
  EXPECT_EQ(source::status(tracker).source, LOT_MLIR_SOURCE_LOAD_HOOKS);
  EXPECT_STREQ(source::status(tracker).reason, "");
  EXPECT_TRUE(sees(tracker));
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
}

struct Late {
  void *handle = dlopen(LOT_TEST_LATE_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
  void (*erase)(mlir::Operation *) = nullptr, (*eraseByAddress)(mlir::Operation *) = nullptr;
  Late() {
    EXPECT_NE(handle, nullptr) << dlerror();
    if (handle) {
      erase = reinterpret_cast<void (*)(mlir::Operation *)>(dlsym(handle, "late_erase"));
      eraseByAddress =
          reinterpret_cast<void (*)(mlir::Operation *)>(dlsym(handle, "late_erase_by_address"));
    }
  }
  ~Late() {
    if (handle)
      dlclose(handle);
  }
};

TEST(LoadHooks, LateLibrariesAreCoveredByARefresh) {
  lot::OwnedTracker tracker("late");
  ASSERT_EQ(source::install(tracker), LOT_OK);
  lot_mlir_status before = source::status(tracker);
  {
    Late late;
    ASSERT_NE(late.erase, nullptr);
    ASSERT_NE(late.eraseByAddress, nullptr);
    EXPECT_FALSE(sees(tracker, late.erase)) << "then a refresh would be for nothing";
    ASSERT_EQ(lot_mlir_refresh(tracker.raw()), LOT_OK);
    lot_mlir_status during = source::status(tracker);
    EXPECT_EQ(during.libraries_patched, before.libraries_patched + 1);
    EXPECT_EQ(during.slots_patched, before.slots_patched + 3); // Two functions, one in data too.
    EXPECT_TRUE(sees(tracker, late.erase));
    EXPECT_TRUE(sees(tracker, late.eraseByAddress));
    ASSERT_EQ(lot_mlir_refresh(tracker.raw()), LOT_OK);
    EXPECT_EQ(source::status(tracker).slots_patched, during.slots_patched);
  }
  // It is unloaded, with its slots. Taking the hooks back must not touch them.
  ASSERT_EQ(dlopen(LOT_TEST_LATE_LIBRARY, RTLD_LAZY | RTLD_NOLOAD), nullptr);
  EXPECT_TRUE(sees(tracker));
  for (int i = 0; i < 3; ++i) {
    Late anew; // most likely where it was, but with tables that nobody has changed
    EXPECT_FALSE(sees(tracker, anew.erase));
    ASSERT_EQ(lot_mlir_refresh(tracker.raw()), LOT_OK);
    EXPECT_TRUE(sees(tracker, anew.erase));
    EXPECT_TRUE(sees(tracker, anew.eraseByAddress));
  }
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);

  // Loaded before the hooks, bound late.
  Late again;
  ASSERT_EQ(source::install(tracker), LOT_OK);
  EXPECT_TRUE(sees(tracker, again.erase));
  EXPECT_TRUE(sees(tracker, again.eraseByAddress));
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
  EXPECT_FALSE(sees(tracker, again.erase));
}

TEST(LoadHooks, ALateStrangerEndsExactMode) {
  lot::OwnedTracker one("one"), two("two");
  slots::Slots before = slots::read();
  ASSERT_EQ(source::install(one), LOT_OK);
  ASSERT_EQ(source::install(two), LOT_OK);
  Late late;
  std::uintptr_t slot = addressOf(slots::read(), "late", eraseName);
  for (const auto &[address, each] : slots::read()) // The one that calls go through.
    if (each.symbol == eraseName && each.object.find("late") != std::string::npos &&
        address != reinterpret_cast<std::uintptr_t>(dlsym(late.handle, "late_member")))
      slot = address;
  write(slot, reinterpret_cast<std::uintptr_t>(&strangersHook));
  EXPECT_EQ(lot_mlir_refresh(one.raw()), LOT_ERROR_UNSUPPORTED);
  for (lot::Tracker tracker : {lot::Tracker(one), lot::Tracker(two)}) {
    lot_mlir_status status = source::status(tracker);
    EXPECT_EQ(status.source, LOT_MLIR_SOURCE_STRUCTURAL);
    EXPECT_NE(std::string(status.reason).find("redirected"), std::string::npos) << status.reason;
    EXPECT_FALSE(tracker.isExact());
  }
  for (const auto &[address, each] : before)
    EXPECT_EQ(slots::read()[address].value == each.value ||
                  each.object.find("libMLIR") == std::string::npos,
              true);
  EXPECT_EQ(slots::read()[slot].value, reinterpret_cast<std::uintptr_t>(&strangersHook));
}

TEST(LoadHooks, AreInstalledWhileMLIRIsInUse) { // R18
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
      ir::load(context);
      while (!stop)
        ir::Module module = ir::parse(context, ir::text(2));
    });
  lot::OwnedTracker tracker("busy");
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
    EXPECT_TRUE(sees(tracker));
    ASSERT_EQ(source::uninstall(tracker), LOT_OK);
  }
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
}

TEST(LoadHooks, LibrariesComeAndGoMeanwhile) { // R18
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  std::thread thread([&] {
    while (!stop) {
      Late late; // Its slots are in all states: being set, unbound, bound, gone.
      if (++rounds % 2) {
        mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
        late.erase(make(context));
      }
    }
  });
  lot::OwnedTracker tracker("coming and going");
  for (int i = 0; i < 40 || rounds < 40; ++i) {
    EXPECT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
    for (int refresh = 0; refresh < 5; ++refresh) {
      EXPECT_EQ(lot_mlir_refresh(tracker.raw()), LOT_OK) << lot_last_error_message();
    }
    EXPECT_TRUE(sees(tracker));
    EXPECT_EQ(source::uninstall(tracker), LOT_OK);
    if (HasFailure())
      break;
  }
  stop = true;
  thread.join();
}

TEST(LoadHooks, InstallationsOfManyThreadsDoNotDisturbEachOther) { // R18
  slots::Slots before = slots::read();
  ASSERT_FALSE(before.empty());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([i] {
      lot::OwnedTracker tracker("one of many");
      for (int round = 0; round < 10; ++round) {
        lot_mlir_self_test_fn failing = [](lot_tracker, void *) { return false; };
        if (i == 0) {
          EXPECT_EQ(source::install(tracker, failing), LOT_ERROR_UNSUPPORTED);
        }
        ASSERT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
        EXPECT_TRUE(sees(tracker));
        EXPECT_EQ(source::uninstall(tracker), LOT_OK);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  lot::OwnedTracker tracker("after");
  slots::Slots after = slots::read();
  ASSERT_EQ(source::install(tracker), LOT_OK);
  EXPECT_EQ(slots::changed(after, slots::read()), source::status(tracker).slots_patched)
      << "hooks were left behind";
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
}

TEST(LoadHooks, WorkInAForkedChild) { // R19
  lot::OwnedTracker tracker("fork");
  ASSERT_EQ(source::install(tracker), LOT_OK);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool fine = sees(tracker) && source::uninstall(tracker) == LOT_OK &&
                source::install(tracker) == LOT_OK && sees(tracker);
    _exit(fine && !::testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(sees(tracker));
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);
}

TEST(LoadHooks, ASecondCopyOfTheTrackerIsAStranger) {
  void *handle = dlopen(LOT_TEST_SECOND_TRACKER, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  auto install = reinterpret_cast<lot_status (*)(const void *, lot_mlir_status *)>(
      dlsym(handle, "second_install"));
  auto uninstall = reinterpret_cast<lot_status (*)()>(dlsym(handle, "second_uninstall"));
  ASSERT_TRUE(install && uninstall);

  lot::OwnedTracker tracker("first");
  ASSERT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
  slots::Slots during = slots::read();
  lot_mlir_status status;
  EXPECT_EQ(install(symbol(), &status), LOT_ERROR_UNSUPPORTED);
  EXPECT_EQ(status.source, LOT_MLIR_SOURCE_STRUCTURAL);
  EXPECT_NE(std::string(status.reason).find("a second copy of the tracker"), std::string::npos)
      << status.reason;
  EXPECT_EQ(slots::changed(during, slots::read()), 0u);
  EXPECT_TRUE(sees(tracker));
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);

  // The other way round.
  EXPECT_EQ(install(symbol(), &status), LOT_OK);
  EXPECT_EQ(status.source, LOT_MLIR_SOURCE_LOAD_HOOKS);
  EXPECT_EQ(source::install(tracker), LOT_ERROR_UNSUPPORTED);
  EXPECT_EQ(uninstall(), LOT_OK);
  EXPECT_EQ(source::install(tracker), LOT_OK) << lot_last_error_message();
  EXPECT_EQ(source::uninstall(tracker), LOT_OK);

  // It stays loaded, since hooks of its were in use.
  dlclose(handle);
  EXPECT_NE(dlopen(LOT_TEST_SECOND_TRACKER, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(LoadHooks, LinkHooksThatAreNotLinkedAreExplained) {
  lot::OwnedTracker tracker("no link hooks");
  EXPECT_EQ(lot_mlir_install_link_hooks(tracker.raw(), lot::mlir::selfTest, nullptr),
            LOT_ERROR_UNSUPPORTED);
  EXPECT_NE(std::string(source::status(tracker).reason).find("mlir_link_hooks"), std::string::npos)
      << source::status(tracker).reason;
  EXPECT_EQ(source::status(tracker).source, LOT_MLIR_SOURCE_STRUCTURAL);
}

} // namespace
