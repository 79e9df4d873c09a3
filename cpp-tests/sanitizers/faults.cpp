// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// faults NAME: does one deliberate wrong thing, which a sanitizer has to report. A fault "in Rust"
// is done by the library, with what the program has given it: it shows that the library is
// instrumented.

#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "lot/lot.hpp"

namespace {

// Where the compiler cannot see that it is wrong, or that nobody needs the result.
volatile int sink;
volatile int two = 2;
volatile int largest = INT_MAX;

void overflowInCxx() {
  std::unique_ptr<int[]> numbers(new int[2]{1, 2});
  sink = numbers[two];
}

// The list has two elements, and the library is told that it has three.
void overflowInRust() {
  lot::OwnedTracker tracker("overflow");
  static char object, parent, grandparent;
  std::unique_ptr<const void *[]> list(new const void *[2]{&parent, &grandparent});
  lot::Ref ref;
  tracker.track(&object, 1, 0, lot::Ancestors(list.get(), two + 1), nullptr, ref).ignore();
}

void useAfterFreeInRust() {
  lot::OwnedTracker tracker("use after free");
  static char object;
  auto description = std::make_unique<lot_description>();
  description->object = &object;
  const lot_description *freed = description.get();
  description.reset();
  lot_ref ref = {nullptr, 0};
  (void)lot_track(tracker.raw(), freed, &ref, nullptr);
}

// Through a volatile pointer: the compiler leaves out an allocation that nobody sees. Several
// times, since the address of the last one may still be found in a register.
int *volatile allocated;
void leak() {
  for (int i = 0; i < 10; ++i)
    allocated = new int(two);
  allocated = nullptr;
}

void signedOverflow() { sink = largest + two; }

void raceInCxx() {
  int number = 0;
  std::thread other([&] { ++number; });
  ++number;
  other.join();
  sink = number;
}

// Two threads give the library one place for their results.
void raceInRust() {
  lot::OwnedTracker tracker("race");
  static char objects[2];
  lot_ref place = {nullptr, 0};
  auto ask = [&](const void *object) {
    lot_description description = {};
    description.object = object;
    for (int i = 0; i < 1000; ++i)
      (void)lot_track(tracker.raw(), &description, &place, nullptr);
  };
  std::thread other(ask, &objects[0]);
  ask(&objects[1]);
  other.join();
}

const struct {
  const char *name;
  void (*make)();
} faults[] = {
    {"none", [] {}},
    {"overflow_in_cxx", overflowInCxx},
    {"overflow_in_rust", overflowInRust},
    {"use_after_free_in_rust", useAfterFreeInRust},
    {"leak", leak},
    {"signed_overflow", signedOverflow},
    {"race_in_cxx", raceInCxx},
    {"race_in_rust", raceInRust},
};

} // namespace

int main(int argc, char **argv) {
  for (const auto &fault : faults)
    if (argc == 2 && std::strcmp(argv[1], fault.name) == 0) {
      fault.make();
      return 0;
    }
  std::fprintf(stderr, "usage: faults NAME\n");
  return 2;
}
