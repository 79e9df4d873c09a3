#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds and tests everything, step by step; stops at the first step that fails and says which. Each step's
# output goes to build/logs. The last line has the totals.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TARGET_DIR=$PWD/target
# Where mlir-sys finds MLIR.
export MLIR_SYS_220_PREFIX=${MLIR_SYS_220_PREFIX:-/usr/lib/llvm-22}
logs=$PWD/build/logs
results=$PWD/build/results
rm -rf "$logs" "$results"
mkdir -p "$logs" "$results"
reports=()

totals_so_far() {
  local existing=() report
  for report in "${reports[@]}"; do
    [ -f "$report" ] && existing+=("$report")
  done
  python3 tools/totals.py --step-failed "${existing[@]}"
}

step() { # NAME FUNCTION
  local start=$SECONDS log=$logs/$2.log
  printf '%-62s' "$1"
  # In a shell of its own, where the first command that fails ends the step. (Not as a condition: `set -e`
  # has no effect inside of one.)
  (
    set -e
    "$2"
  ) >"$log" 2>&1
  local status=$?
  if [ "$status" -eq 0 ]; then
    printf 'ok %4d s\n' $((SECONDS - start))
    return
  fi
  printf 'FAILED\n\n'
  tail -n 100 "$log"
  printf '\nThe step "%s" failed; all of its output is in %s\n\n' "$1" "${log#"$PWD"/}"
  totals_so_far
  exit 1
}

formatting() {
  git ls-files -z '*.rs' | xargs -0 rustfmt --edition 2024 --check
}

lints() {
  cargo clippy --quiet --locked --all-targets -- -D warnings
  cargo clippy --quiet --locked --all-targets --features mlir-sys -- -D warnings
  # Not its criterion benchmarks: they would have to be built for nothing else.
  CARGO_TARGET_DIR=$PWD/build/bench/cargo \
    cargo clippy --quiet --locked --manifest-path benches/rust/Cargo.toml -- -D warnings
}

nextest() { # REPORT [OPTION...]
  local report=target/nextest/default/junit.xml status=0
  rm -f "$report"
  cargo nextest run --locked --config-file tools/nextest.toml "${@:2}" || status=$?
  cp "$report" "$results/$1"
  return "$status"
}

rust_tests() {
  nextest rust.xml -E 'not (binary(model) or binary(stress) or binary(memory))'
}

# Random programs by the million: with optimisation, and with the checks of a debug build.
random_tests() {
  nextest random.xml --cargo-profile model --test model --test stress --test memory
}

# Each of the two builds has a folder of its own, since every crate is compiled anew for it.
interleavings() {
  local checker report=target/nextest/default/junit.xml status=0
  for checker in loom shuttle; do
    rm -f "$report"
    LOT_INTERLEAVINGS=${LOT_INTERLEAVINGS-1000} tools/interleavings.sh "$checker" || status=$?
    cp "$report" "$results/rust-$checker.xml"
  done
  return "$status"
}

rust_tests_with_mlir() {
  nextest rust-mlir.xml --features mlir-sys --test mlir_sys
}

documentation_tests() {
  cargo test --quiet --locked --doc | tee "$results/rust-documentation.txt"
}

build_cpp_tests() {
  tools/build.sh tests
}

cpp_tests() {
  rm -f "$results/cpp.xml"
  ctest --test-dir build/cmake --parallel 2 --output-on-failure --output-junit "$results/cpp.xml"
}

instruction_counts() {
  python3 tools/bench/check_instructions.py --junit "$results/instructions.xml"
}

build_bindings() {
  tools/build.sh python-tests
}

coverage_table() {
  python3 tools/break-checks.py --list --junit "$results/coverage.xml"
}

python_tests() {
  build/bindings/tracked-python -m pytest tests/python --junitxml="$results/python-exact.xml"
}

python_tests_in_structural_mode() {
  LOT_MLIR_SOURCE=structural build/bindings/tracked-python -m pytest tests/python \
    --junitxml="$results/python-structural.xml"
}

demo() {
  python3 demo/run.py build/bindings
}

reports=(
  "$results/rust.xml" "$results/random.xml" "$results/rust-mlir.xml" "$results/rust-documentation.txt"
  "$results/rust-loom.xml" "$results/rust-shuttle.xml"
  "$results/cpp.xml" "$results/instructions.xml"
  "$results/coverage.xml" "$results/python-exact.xml" "$results/python-structural.xml"
)

step 'rustfmt' formatting
step 'clippy' lints
step 'Rust tests, stale headers' rust_tests
step 'Random programs against a model; eight threads; memory' random_tests
step 'Interleavings of threads, by loom and by shuttle' interleavings
step 'Rust tests on MLIR through mlir-sys' rust_tests_with_mlir
step 'Rust documentation tests' documentation_tests
step 'C and C++: building library and tests' build_cpp_tests
step 'C and C++: rules, headers, MLIR, consumers, valgrind' cpp_tests
step 'Cost of the hottest paths' instruction_counts
step 'Python bindings, and what their tests load: building' build_bindings
step 'COVERAGE.md, its tests and the places of its checks' coverage_table
step 'Python tests' python_tests
step 'Python tests without an exact source' python_tests_in_structural_mode
step 'the demo' demo

echo
# A report that is missing here is an error.
python3 tools/totals.py "${reports[@]}"
