#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mutants.sh [OPTION...]: changes src/core in one small way after the other, and says which changes no
# test notices. docs/mutants.md lists those that nothing can notice; any other is a missing test.
#
# The options are those of `cargo mutants`: --file 'src/core/forest/*.rs' for some files, --shard 0/8
# for an eighth, --list to see the mutants. build/mutants/{model,tests}/mutants.out has what happened.
#
# The judges are the model, which goes first since it notices the most, then the other tests of the
# core. About 15 seconds of a processor for each mutant.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! cargo mutants --version >/dev/null 2>&1; then
  echo 'Installing cargo-mutants'
  cargo install --quiet --locked cargo-mutants
fi

# A copy, so that a run that is stopped leaves no mutant behind. Its files count as changed: the last
# build there was of a mutant.
work=$PWD/build/mutants
tree=$work/tree
mkdir -p "$tree"
rm -rf "$tree/src" "$tree/tests"
git ls-files -z --cached --others --exclude-standard |
  tar --create --null --files-from=- --ignore-failed-read | tar --extract --touch --directory="$tree"
# The tests need the Rust library alone.
sed -i 's/^crate-type = .*/crate-type = ["rlib"]/' "$tree/Cargo.toml"

# Mutants that eat memory are to fail, not the machine.
ulimit -v 6000000
export LOT_MODEL_STEPS=${LOT_MODEL_STEPS:-100000} LOT_MODEL_SEED=${LOT_MODEL_SEED:-1}
export LOT_MODEL_SHRINKING=0

judge() { # NAME TARGET... -- MUTANTS-OPTION...
  local name=$1 status=0 arguments=()
  while [ "$2" != -- ]; do
    arguments+=("--cargo-arg=$2")
    shift
  done
  cargo mutants --dir "$tree" --in-place --output "$work/$name" --no-shuffle --colors never \
    "${arguments[@]}" "${@:3}" -- --config-file tools/nextest-mutants.toml || status=$?
  # 2: tests missed mutants, 3: tests took too long.
  case $status in 0 | 2 | 3) ;; *) exit "$status" ;; esac
}

judge model --test=model -- "$@"
for option in "$@"; do
  [ "$option" != --list ] || exit 0
done
missed=$work/model/mutants.out/missed.txt
if [ -s "$missed" ]; then
  # Just these, whatever the options were.
  mapfile -t names < <(sed 's/[][(){}.*+?^$|\\]/\\&/g; s/.*/--re=^&$/' "$missed")
  judge tests --lib --test=rules --test=allocation --test=memory \
    --test=address_limit --test=fork -- "${names[@]}"
  missed=$work/tests/mutants.out/missed.txt
fi
# Without line and column, since these change.
sed -E 's/:[0-9]+:[0-9]+:/:/' "$missed" | sort -u >"$work/missed.txt"
if grep --fixed-strings --line-regexp --invert-match --file=<(sed -n 's/^- `\(.*\)`$/\1/p' docs/mutants.md) \
  "$work/missed.txt" >"$work/unlisted.txt"; then
  echo 'Not noticed by any test, and not in docs/mutants.md:'
  cat "$work/unlisted.txt"
  exit 1
fi
