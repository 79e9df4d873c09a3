// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A C++ program with two Rust libraries in it. Each has its own Rust runtime, and C++ exceptions pass too.
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include <lot/lot.hpp>

extern "C" std::size_t other_counts_letters(void);
extern "C" bool other_catches_its_panic(void);

int main() {
  lot::OwnedTracker tracker("program");
  int object = 0;
  lot::Ref ref;
  if (!tracker.track(&object, 1, 0, lot::Ancestors(), nullptr, ref))
    return 1;
  if (other_counts_letters() != 16 || !other_catches_its_panic())
    return 2;
  bool thrown = false;
  try {
    throw std::runtime_error("C++'s own");
  } catch (const std::runtime_error &) {
    thrown = true;
  }
  bool onThread = false;
  std::thread([&] { onThread = other_catches_its_panic() && ref.isLive(); }).join();
  if (!thrown || !onThread || !tracker.erase(&object) || ref.isLive())
    return 3;
  std::puts("two Rust libraries, each with its own runtime");
  return 0;
}
