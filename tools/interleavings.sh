#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs the core in many interleavings of its threads: small parts in all of them by loom, the whole
# core in random ones by shuttle. Both run the code of src/core; see src/core/sync/mod.rs.
#
# LOT_INTERLEAVINGS says how often shuttle runs each model, 3000 times without it. LOT_SEED gives
# other interleavings; 1 without it. What fails fails again with the same two numbers.
#
# Usage: tools/interleavings.sh [loom|shuttle] [OPTION of cargo nextest run...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

which=both
case ${1-} in
loom | shuttle)
  which=$1
  shift
  ;;
esac

# Freed memory is overwritten, so that its use is noticed.
export MALLOC_PERTURB_=165

run() { # CHECKER TESTS [OPTION...]
  # With a target folder of its own, since every crate is compiled anew for it. `lot_small`: slots
  # are used up and deaths are forgotten soon.
  RUSTFLAGS="--cfg $1 --cfg lot_small" CARGO_TARGET_DIR=$PWD/build/interleavings/$1 \
    cargo nextest run --locked --cargo-profile model --config-file tools/nextest.toml \
    --lib -E "test($2)" "${@:3}"
}

[ "$which" = shuttle ] || run loom loom_models "$@"
[ "$which" = loom ] || run shuttle interleavings "$@"
