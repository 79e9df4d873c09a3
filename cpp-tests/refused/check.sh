#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# check.sh CHECK SOURCE [ARGUMENT]: what the compiler or the linker must refuse is refused, for the
# right reason, and what differs from it by that reason alone is accepted.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$2

fail() {
  echo "$1" >&2
  test ! -s "$work/log" || cat "$work/log" >&2
  exit 1
}

compile() { # INCLUDE [OPTION...]
  LC_ALL=C "$CXX" -std=c++17 -Wall -Wextra -Werror -O1 "-I$1" "${@:2}" >"$work/log" 2>&1
}

library() { # static|shared
  if [ "$1" = static ]; then echo "$STATIC_FILE" -pthread -ldl -lm; else echo "$SHARED_FILE"; fi
}

# The headers as they would be with the next layout.
other_headers() {
  cp -r "$INCLUDE" "$work/include"
  grep -rlE 'lot_live_table_[0-9]+' "$work/include" | xargs sed -i -E 's/lot_live_table_[0-9]+/&0/g'
}

run() { # PROGRAM
  LD_LIBRARY_PATH=$(dirname "$SHARED_FILE") LC_ALL=C "$1"
}

case $1 in
compile)
  compile "$INCLUDE" -fsyntax-only "$source" || fail "the source does not compile without a case"
  if compile "$INCLUDE" -fsyntax-only "-D$3" "$source"; then fail "$3 was accepted"; fi
  # The reason of g++ or clang++: no conversion to, or no constructor of, lot::Ancestors.
  grep -qE '(no matching|cannot convert|no viable conversion|no conversion).*Ancestors' \
    "$work/log" || fail "$3 was refused for another reason"
  ;;
layout_link)
  # shellcheck disable=SC2046 # several words
  compile "$INCLUDE" -o "$work/program" "$source" $(library "$3") || fail "it does not link"
  run "$work/program"
  other_headers
  # shellcheck disable=SC2046
  if compile "$work/include" -o "$work/program" "$source" $(library "$3"); then
    fail "a header of another layout was linked"
  fi
  grep -qE 'undefined reference.*lot_live_table_' "$work/log" || fail "another reason"
  ;;
layout_start)
  # A program that was built against a library of another layout, of which only the names matter.
  other_headers
  mkdir "$work/other"
  {
    "$NM" -D --defined-only --format=posix "$SHARED_FILE" |
      sed -nE 's/^(lot_[a-z_]+) T.*/int \1(void) { return 0; }/p'
    echo 'struct { const void *slots; unsigned mask; } lot_live_table_10;'
  } >"$work/other.c"
  grep -q 'lot_tracker_create' "$work/other.c"
  "$CC" -shared -fPIC "-Wl,-soname,$SONAME" -o "$work/other/$SONAME" "$work/other.c"
  compile "$work/include" -o "$work/program" "$source" "$work/other/$SONAME" ||
    fail "it does not link"
  if run "$work/program" >"$work/log" 2>&1; then fail "it ran with a library of another layout"; fi
  grep -qE 'undefined symbol: lot_live_table_|lot_live_table_.*not defined' "$work/log" ||
    fail "another reason"
  ;;
no_inline_check)
  compile "$INCLUDE" -c -o "$work/inline.o" "$source" || fail "it does not compile"
  "$NM" --undefined-only "$work/inline.o" | grep -q ' lot_live_table_' || fail "nothing is inline"
  compile "$INCLUDE" -DLOT_NO_INLINE_CHECK -c -o "$work/call.o" "$source" ||
    fail "it does not compile"
  if "$NM" --undefined-only "$work/call.o" | grep ' lot_live_table_'; then
    fail "the table is read inline all the same"
  fi
  "$NM" --undefined-only "$work/call.o" | grep -q ' lot_is_live$' || fail "there is no call"
  # So the layout is no reason to refuse a library.
  other_headers
  for kind in static shared; do
    # shellcheck disable=SC2046
    compile "$work/include" -DLOT_NO_INLINE_CHECK -o "$work/program" "$source" $(library "$kind") ||
      fail "it does not link"
    run "$work/program"
  done
  ;;
*)
  echo "no such check: $1" >&2
  exit 2
  ;;
esac
