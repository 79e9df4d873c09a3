#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# exports.sh BINARY...: none of them shows the tracker's functions to the dynamic linker, neither
# those of the library nor the inline ones of lot/lot.hpp.
set -euo pipefail

status=0
for binary; do
  # A program that uses the shared library has that one's table: the dynamic linker copies it there.
  copied=$("$READELF" --relocs --wide "$binary" | awk '$3 ~ /_COPY$/ { print $5 }')
  # C++ names are demangled: a function or a variable in the namespace lot, or a template of it.
  if "$NM" -D --defined-only --demangle "$binary" | grep -vF "${copied:-no name}" |
    grep -E ' (lot_|(guard variable for )?lot::)'; then
    echo "$binary exports the above" >&2
    status=1
  fi
done
exit "$status"
