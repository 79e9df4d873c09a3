#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# inline_hidden.sh SOURCE [FLAG...]: compiles it without optimisation, so that inline functions
# become symbols. Those in the namespace lot, lot::hash and the tables of its classes must all be
# hidden.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$CXX" -std=c++17 -O0 -fPIC "-I$INCLUDE" "${@:2}" -c -o "$work/inline.o" "$1"
# Mangled names of functions (_ZN3lot, const ones _ZNK3lot), of what is local to them, and of
# tables.
"$READELF" --symbols --wide "$work/inline.o" |
  awk '$5 ~ /GLOBAL|WEAK|UNIQUE/ && $7 != "UND" { print $6, $8 }' |
  grep -E ' _Z(T[VIS]|GV)?Z*N?K?(3lot|St4hashIN3lot)' >"$work/ours" || true
test "$(grep -c '^HIDDEN ' "$work/ours")" -ge 10 || {
  echo "too few inline functions were found in $1" >&2
  exit 1
}
if grep -v '^HIDDEN ' "$work/ours"; then
  echo "the above are not hidden" >&2
  exit 1
fi
