#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# sanitizers.sh [SECONDS]: the C++ tests and a stress of eight threads (20 seconds, or SECONDS)
# under AddressSanitizer with LeakSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer. Each of
# them has to report deliberate faults first, or this fails: so the sanitizer is really there.
#
# How far that reaches: AddressSanitizer and ThreadSanitizer are in the C++ code and in the whole
# Rust library, generic code of Rust's std included. The rest of std is precompiled without them.
# What its fences order looks like a race to ThreadSanitizer; cpp-tests/sanitizers/thread.supp names
# the one such place. UndefinedBehaviorSanitizer is in the C++ code, which includes the headers;
# Rust has none.
#
# Needs a nightly Rust, g++ and clang-22.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-20}
export TSAN_OPTIONS=suppressions=$PWD/cpp-tests/sanitizers/thread.supp
target=$(rustc -vV | sed -n 's/^host: //p')

command -v clang++-22 >/dev/null || {
  echo "NOT DONE: clang++-22 is missing" >&2
  exit 1
}
runtimes=$(rustc +nightly --print sysroot)/lib/rustlib/$target/lib || {
  echo 'NOT DONE: a nightly Rust is missing (rustup toolchain install nightly)' >&2
  exit 1
}

# Rust's static library with the sanitizer in it, or without one. Its own target folder: the flags
# differ.
library() { # SANITIZER [RUSTFLAG...]
  local toolchain=(+nightly)
  [ "$1" != undefined ] || toolchain=()
  CARGO_TARGET_DIR=$PWD/build/sanitizers/$1/cargo RUSTFLAGS="${*:2}" \
    cargo "${toolchain[@]}" rustc --quiet --locked --profile dev --lib --crate-type staticlib \
    --target "$target"
}

build() { # SANITIZER C++-COMPILER C-COMPILER [RUNTIME]
  local built=$PWD/build/sanitizers/$1
  cmake -S cpp-tests/sanitizers -B "$built/cmake" -G Ninja "-DCMAKE_CXX_COMPILER=$2" \
    "-DCMAKE_C_COMPILER=$3" "-DLOT_SANITIZER=$1" "-DLOT_RUNTIME=${4-}" \
    "-DLOT_LIBRARY=$built/cargo/$target/debug/liblive_object_tracker.a" >/dev/null
  cmake --build "$built/cmake" >"$built/build.log" || {
    cat "$built/build.log"
    exit 1
  }
}

# The program fails, and says both: what it is, and where.
caught() { # SANITIZER FAULT WHAT WHERE
  local log=build/sanitizers/$1/$2.log
  if "build/sanitizers/$1/cmake/faults" "$2" >"$log" 2>&1; then
    echo "$1: the fault $2 was not reported" >&2
    exit 1
  fi
  grep -qE "$3" "$log" && grep -qE "$4" "$log" || {
    cat "$log" >&2
    echo "$1: the report of the fault $2 is another one" >&2
    exit 1
  }
  echo "$1: caught $2"
}

tests() { # SANITIZER
  local programs=build/sanitizers/$1/cmake
  "$programs/faults" none
  LOT_TEST_DIVISOR=20 "$programs/api" --gtest_brief=1
  "$programs/stress" "$seconds"
}

address() {
  library address -Zsanitizer=address
  build address clang++-22 clang-22 "$runtimes/librustc-nightly_rt.asan.a"
  caught address overflow_in_cxx 'heap-buffer-overflow' 'faults.cpp'
  caught address overflow_in_rust 'heap-buffer-overflow' 'in .*live_object_tracker'
  caught address use_after_free_in_rust 'heap-use-after-free' 'in .*live_object_tracker'
  caught address leak 'LeakSanitizer: detected memory leaks' 'faults.cpp'
  tests address
}

undefined() {
  library undefined
  build undefined g++ gcc
  caught undefined signed_overflow 'runtime error: signed integer overflow' 'faults.cpp'
  tests undefined
}

thread() {
  # std is without it, which rustc takes for a mistake.
  library thread -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer
  build thread clang++-22 clang-22 "$runtimes/librustc-nightly_rt.tsan.a"
  caught thread race_in_cxx 'WARNING: ThreadSanitizer: data race' 'faults.cpp'
  caught thread race_in_rust 'WARNING: ThreadSanitizer: data race' '#[0-9]+ .*live_object_tracker'
  tests thread
}

address
undefined
thread
echo 'All deliberate faults were caught, and nothing else was found.'
