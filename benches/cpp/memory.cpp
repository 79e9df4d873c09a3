// What a tracker takes of memory, and how long its longest single call takes when it is large.
//
// memory idle            bytes for the first tracker and for each further one: anonymous memory, malloc's
// memory tracked COUNT   bytes for each of COUNT tracked operations, 1,000 to a block
// memory longest COUNT   tracks COUNT, reports strangers, ends all one by one: a line for each call that took
//                        more than 20 us: the call, its number, nanoseconds. What the machine did meanwhile
//                        is in it, so only a number that is slow in each of several runs is the tracker's.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <chrono>
#include <cstring>

#include <malloc.h>

#include "common.hpp"

namespace {

using bench::check;
using bench::object;
using bench::stranger;
using bench::track;

/// The memory that is this process's own and not a file's: exact, unlike the counters in /proc/self/status.
std::size_t anonymousBytes() {
  std::FILE *file = std::fopen("/proc/self/smaps_rollup", "r");
  check(file, "smaps_rollup");
  char line[256];
  std::size_t kilobytes = 0;
  bool found = false;
  while (!found && std::fgets(line, sizeof line, file))
    found = std::sscanf(line, "Anonymous: %zu kB", &kilobytes) == 1;
  std::fclose(file);
  check(found, "smaps_rollup");
  return kilobytes * 1024;
}

/// What malloc has handed out: an idle tracker may be smaller than a page.
std::size_t allocatedBytes() {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

void idle() {
  (void)anonymousBytes();
  std::size_t anonymous = anonymousBytes(), allocated = allocatedBytes();
  lot::Tracker first;
  check(bool(lot::Tracker::create("first", first)), "create");
  std::printf("first\t%zu\t%zu\n", anonymousBytes() - anonymous, allocatedBytes() - allocated);
  constexpr std::size_t count = 200;
  anonymous = anonymousBytes(), allocated = allocatedBytes();
  for (std::size_t number = 0; number < count; ++number) {
    lot::Tracker further;
    check(bool(lot::Tracker::create("further", further)), "create");
  }
  std::printf("further\t%zu\t%zu\n", (anonymousBytes() - anonymous) / count,
              (allocatedBytes() - allocated) / count);
}

void tracked(std::size_t count) {
  constexpr std::size_t toABlock = 1000;
  std::vector<lot::Ref> refs;
  refs.reserve(count);
  refs.resize(count); // Touches it.
  lot::OwnedTracker tracker("memory");
  std::size_t before = anonymousBytes();
  for (std::size_t number = 0; number < count; ++number) {
    const void *ancestors[] = {stranger(number / toABlock * toABlock), stranger(count + 1)};
    refs[number] = track(tracker, object(number), ancestors);
  }
  std::printf("%.1f\n", static_cast<double>(anonymousBytes() - before) / static_cast<double>(count));
  check(tracker.count() == count && refs.back().isLive(), "all are live");
}

template <typename Call> void timeEach(const char *name, std::size_t count, Call call) {
  using Clock = std::chrono::steady_clock;
  for (std::size_t number = 0; number < count; ++number) {
    auto start = Clock::now();
    call(number);
    auto took = (Clock::now() - start).count();
    if (took > 20'000)
      std::printf("%s\t%zu\t%lld\n", name, number, static_cast<long long>(took));
  }
}

void longest(std::size_t count) {
  lot::OwnedTracker tracker("longest");
  const void *ancestors[] = {stranger(count + 1)};
  timeEach("track", count,
           [&](std::size_t number) { (void)track(tracker, object(number), ancestors); });
  timeEach("destroy of a stranger", count / 10,
           [&](std::size_t number) { tracker.destroyed(stranger(number)).ignore(); });
  timeEach("destroy", count,
           [&](std::size_t number) { tracker.destroyed(object(number)).ignore(); });
  check(tracker.count() == 0, "all have ended");
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 2 && !std::strcmp(argv[1], "idle"))
    idle();
  else if (argc == 3 && !std::strcmp(argv[1], "tracked"))
    tracked(std::strtoul(argv[2], nullptr, 10));
  else if (argc == 3 && !std::strcmp(argv[1], "longest"))
    longest(std::strtoul(argv[2], nullptr, 10));
  else
    return std::fprintf(stderr, "usage: memory idle | tracked COUNT | longest COUNT\n"), 2;
}
