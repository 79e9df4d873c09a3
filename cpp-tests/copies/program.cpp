// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// program local|global [LIBRARY...]: several copies of the tracker in one process, each asked about
// the refs of all. The program has a copy of its own; the libraries are loaded with RTLD_LOCAL or
// RTLD_GLOBAL, and with LINKED_COPIES two more are linked to it. Says what is wrong, if anything
// is.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <set>
#include <string>
#include <vector>

#include "copy.hpp"

extern "C" const Copy *program_copy();
#ifdef LINKED_COPIES
extern "C" const Copy *first_copy();
extern "C" const Copy *second_copy();
#endif

namespace {

constexpr std::size_t Count = 1000;
char memory[Count][16];
const void *objects[Count];

struct Tracked {
  const Copy *copy;
  lot_ref refs[Count];
};

bool fine = true;

void expect(bool holds, const std::string &what) {
  if (!holds) {
    std::printf("WRONG: %s\n", what.c_str());
    fine = false;
  }
}

/// Asks one copy about all refs of another one: which of the answers differ from `expected`.
void expectAnswers(const Tracked &asked, const Tracked &owner, const std::vector<bool> &expected,
                   const char *when) {
  std::size_t wrongInline = 0, wrongByCall = 0;
  for (std::size_t i = 0; i < Count; ++i) {
    wrongInline += asked.copy->isLiveInline(owner.refs[i]) != expected[i];
    wrongByCall += asked.copy->isLiveByCall(owner.refs[i]) != expected[i];
  }
  std::string question = std::string(asked.copy->name) + ", asked about the refs of " +
                         owner.copy->name + " " + when;
  expect(wrongInline == 0, question + ": " + std::to_string(wrongInline) + " wrong inline");
  expect(wrongByCall == 0, question + ": " + std::to_string(wrongByCall) + " wrong by a call");
}

/// Each copy is asked about its own refs, of which `live` are live, and about those of the others.
void expectAllAnswers(const std::vector<Tracked> &all, const std::vector<bool> &live,
                      const char *when) {
  const std::vector<bool> none(Count, false);
  for (const Tracked &asked : all)
    for (const Tracked &owner : all)
      expectAnswers(asked, owner, &asked == &owner ? live : none, when);
}

std::vector<const Copy *> findCopies(int flags, char **libraries) {
  std::vector<const Copy *> copies = {program_copy()};
#ifdef LINKED_COPIES
  copies.push_back(first_copy());
  copies.push_back(second_copy());
#endif
  for (; *libraries; ++libraries) {
    void *library = dlopen(*libraries, RTLD_NOW | flags);
    if (!library) {
      expect(false, dlerror());
      continue;
    }
    // Its only exported function, which the build names after the file.
    std::string name = std::strrchr(*libraries, '/') + 1;
    name = name.substr(0, name.find('.'));
    auto copy = reinterpret_cast<const Copy *(*)()>(dlsym(library, name.c_str()));
    expect(copy != nullptr, name + " has no such function");
    if (copy)
      copies.push_back(copy());
  }
  return copies;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  const int flags = std::strcmp(argv[1], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  for (std::size_t i = 0; i < Count; ++i)
    objects[i] = memory[i];

  std::vector<Tracked> all;
  for (const Copy *copy : findCopies(flags, argv + 2)) {
    Tracked tracked = {copy, {}};
    expect(copy->fill(objects, tracked.refs, Count), std::string(copy->name) + " refuses");
    all.push_back(tracked);
  }
  expectAllAnswers(all, std::vector<bool>(Count, true), "when all are live");

  std::set<std::uint64_t> epochs;
  for (const Tracked &tracked : all) {
    for (const lot_ref &ref : tracked.refs)
      epochs.insert(ref.epoch);
    expect(tracked.copy->count() == Count,
           std::string(tracked.copy->name) + " has " + std::to_string(tracked.copy->count()));
  }
  expect(epochs.size() == all.size() * Count, "two copies have given out the same epoch");

  // Ends in one copy are no ends in another one.
  std::vector<bool> live(Count, true);
  for (std::size_t i = 0; i < Count; i += 2) {
    expect(all.back().copy->erase(objects[i]), "the erase is refused");
    live[i] = false;
  }
  const std::vector<bool> every(Count, true);
  for (const Tracked &tracked : all)
    expectAnswers(tracked, tracked, &tracked == &all.back() ? live : every, "after ends in one");

  std::printf("%zu copies, %s\n", all.size(), fine ? "none mistaken for another" : "MISTAKEN");
  return fine && all.size() >= 2 ? 0 : 1;
}
