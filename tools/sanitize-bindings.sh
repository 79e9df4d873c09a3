#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# sanitize-bindings.sh [SECONDS]: the patched Python bindings with AddressSanitizer. It has to report deliberate faults
# first. Then come the Python tests, and random programs and evil arguments for SECONDS (60) each.
#
#   sanitize-bindings.sh build           only builds them, and tries the deliberate faults
#   sanitize-bindings.sh random SECONDS  only random programs, when they are built
#   sanitize-bindings.sh evil SECONDS    only evil arguments
#   sanitize-bindings.sh run COMMAND...  that, with the sanitizer; the Python is build/sanitizers/bindings/out/tracked-python
#
# How far that reaches: AddressSanitizer is in the bindings' own code, and in nothing else. MLIR and Python are as they
# are, but their memory comes from its allocator: what is freed is filled and kept back, so that they stumble over it.
#
# Needs `make bindings` before, and the compiler's libasan.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$PWD/build/sanitizers/bindings
python=$work/out/tracked-python
compiler=${CXX:-c++}
asan=$("$compiler" -print-file-name=libasan.so)
[ -e "$asan" ] || {
  echo "NOT DONE: $compiler has no libasan" >&2
  exit 1
}

sanitized() { # COMMAND...
  # libasan looks for what throws when it starts, before a module brings it. Python's own allocator would hide what is
  # freed. Much is kept until exit, so leaks mean nothing.
  LD_PRELOAD="$asan $("$compiler" -print-file-name=libstdc++.so)" PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0:max_free_fill_size=4096:free_fill_byte=165:max_malloc_fill_size=4096:abort_on_error=1 \
    "$@"
}

build() {
  echo 'Building the bindings with AddressSanitizer'
  mkdir -p "$work/build"
  for folder in stock dev venv; do # the packages of the ordinary build
    ln -sfn "$PWD/build/upstream/$folder" "$work/build/$folder"
  done
  cp build/upstream/fetched.stamp "$work/build"
  cmake -S upstream/llvm-22.1 -B "$work/build" -G Ninja "-DCMAKE_PREFIX_PATH=$PWD/build/prefix" \
    "-DLOT_BINDINGS_WHEELS=$PWD/build/wheels" "-DLOT_BINDINGS_OUTPUT=$work/out" \
    "-DPython3_EXECUTABLE=$(cut -d' ' -f1 build/upstream/fetched.stamp)" \
    -DLOT_BUILD_TESTS=ON '-DCMAKE_CXX_FLAGS=-fsanitize=address -fno-omit-frame-pointer' >"$work/configure.log"
  # The package, and of what the tests load beside it only what they cannot do without.
  cmake --build "$work/build" --target tracked_package _mlir _mlirTransformInterpreter _mlirExecutionEngine \
    _mlirDialects{Linalg,LLVM,SMT,IRDL} typed >"$work/build.log" || {
    tail -20 "$work/build.log"
    exit 1
  }
  "$compiler" -shared -fPIC -fsanitize=address -I"$(build/upstream/venv/bin/python -c \
    'import sysconfig; print(sysconfig.get_path("include"))')" \
    tests/python/sanitizers/fault.cpp -o "$work/fault.so"
  for fault in read_freed write_behind read_dead_object; do
    if PYTHONPATH=$work sanitized "$python" -c "import fault; fault.$fault()" >"$work/$fault.log" 2>&1; then
      echo "$fault was NOT caught" >&2
      exit 1
    fi
    grep -q 'ERROR: AddressSanitizer' "$work/$fault.log" || {
      cat "$work/$fault.log"
      echo "$fault ended otherwise" >&2
      exit 1
    }
    echo "caught $fault"
  done
}

random() { # SECONDS
  local end=$((SECONDS + $1)) seed=$((RANDOM * 1000)) programs=0
  while [ $SECONDS -lt $end ]; do
    LOT_RANDOM_FIRST=$seed LOT_RANDOM_SEEDS=4 sanitized "$python" -m pytest tests/python/test_random.py -q \
      -p no:cacheprovider >"$work/random.log" 2>&1 || {
      cat "$work/random.log"
      echo "random programs from seed $seed" >&2
      exit 1
    }
    seed=$((seed + 4))
    programs=$((programs + 4))
  done
  echo "$programs random programs with AddressSanitizer"
}

evil() { # SECONDS
  local end=$((SECONDS + $1)) calls=0
  while [ $SECONDS -lt $end ]; do
    sanitized "$python" tests/python/evil_arguments.py --slice $((RANDOM % 1500))/1500 >"$work/evil.log" 2>&1 || {
      cat "$work/evil.log"
      exit 1
    }
    calls=$((calls + $(sed -n 's/^\([0-9]*\) calls in .*/\1/p' "$work/evil.log")))
  done
  echo "$calls evil calls with AddressSanitizer"
}

case ${1-60} in
build) build ;;
random | evil) "$1" "$2" ;;
run) sanitized "${@:2}" ;;
*)
  build
  # Without those that load other builds of the bindings, and the one that waits for an address to be used again.
  sanitized "$python" -m pytest tests/python -q -p no:cacheprovider --ignore=tests/python/test_processes.py \
    --deselect tests/python/test_operations.py::test_no_old_reference_answers_for_a_new_operation
  random "${1-60}"
  evil "${1-60}"
  ;;
esac
