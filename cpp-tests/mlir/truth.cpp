// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "truth.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

struct Entry {
  std::atomic<std::uintptr_t> memory;
  std::atomic<bool> freed, freedWhileLive;
  lot_ref ref;
};

constexpr std::size_t size = std::size_t(1) << 18;
Entry table[size]; // Zero before any code runs, since memory is freed that early.

Entry *find(std::uintptr_t memory) {
  std::size_t place = (memory >> 4) * 0x9e3779b97f4a7c15u >> 46;
  for (;; place = (place + 1) % size) {
    std::uintptr_t known = table[place].memory.load(std::memory_order_acquire);
    if (known == memory || known == 0)
      return &table[place];
  }
}

} // namespace

static std::size_t watched = 0;

void truth::forget() {
  for (Entry &entry : table) {
    entry.memory = 0;
    entry.freed = entry.freedWhileLive = false;
  }
  watched = 0;
}

void truth::watch(const void *memory, lot_ref ref) {
  Entry *entry = find(reinterpret_cast<std::uintptr_t>(memory));
  if (entry->memory.load() == 0 && ++watched > size / 2) {
    std::fputs("too much is watched\n", stderr);
    std::abort();
  }
  entry->freed = entry->freedWhileLive = false;
  entry->ref = ref;
  entry->memory.store(reinterpret_cast<std::uintptr_t>(memory), std::memory_order_release);
}

bool truth::freed(const void *memory) {
  return find(reinterpret_cast<std::uintptr_t>(memory))->freed;
}

bool truth::freedWhileLive(const void *memory) {
  return find(reinterpret_cast<std::uintptr_t>(memory))->freedWhileLive;
}

extern "C" void __libc_free(void *memory);

// Takes the place of the C library's in the whole process; operator delete calls it too.
extern "C" void free(void *memory) {
  if (memory) {
    Entry *entry = find(reinterpret_cast<std::uintptr_t>(memory));
    if (entry->memory.load(std::memory_order_acquire) != 0) {
      if (!entry->freed.exchange(true) && lot_is_live(entry->ref))
        entry->freedWhileLive = true;
    }
  }
  __libc_free(memory);
}
