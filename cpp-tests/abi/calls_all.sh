#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# calls_all.sh: the old program calls every function that its headers declare.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

status=0
for name in $(sed -nE 's/^[a-z].*[ *](lot_[a-z0-9_]+)\(.*/\1/p' headers/lot/*.h | sort -u); do
  grep -qE "\b$name\(" program.c || {
    echo "program.c does not call $name" >&2
    status=1
  }
  seen=1
done
test "${seen-}" = 1
exit "$status"
