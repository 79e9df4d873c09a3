#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# check.sh CHECK: one property of the built libraries; says what breaks it.
set -euo pipefail

# The functions, and the table, that the generated C headers declare: nothing else may be visible, and nothing
# less.
declared() {
  grep -lZ cbindgen "$HEADERS"/*.h | xargs -0 cat |
    sed -nE 's/.*\b(lot_[a-z0-9_]+)\(.*/\1/p; s/^extern struct .* (lot_[a-z0-9_]+);$/\1/p' | sort -u
}

same() {
  diff --label "$1" --label "$2" <(sort -u "$3") <(sort -u "$4") || {
    echo "$1 and $2 differ" >&2
    exit 1
  }
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $1 in
shared_exports)
  declared >"$work/declared"
  "$NM" -D --defined-only --format=posix "$SHARED_FILE" | cut -d' ' -f1 >"$work/exported"
  same "declared in the headers" "exported by the shared library" "$work/declared" "$work/exported"
  ;;
shared_needs)
  "$READELF" -d "$SHARED_FILE" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' >"$work/needed"
  # What the C library and the unwinder are made of; no C++ runtime, and no MLIR or LLVM.
  if grep -vE '^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$' \
    "$work/needed"; then
    echo "the shared library needs the above" >&2
    exit 1
  fi
  grep -q '^libc\.so' "$work/needed"
  # The whole closure, as the dynamic linker resolves it.
  ldd "$SHARED_FILE" >"$work/ldd"
  if grep -iE 'mlir|llvm|stdc\+\+|not found' "$work/ldd"; then
    echo "the shared library loads the above" >&2
    exit 1
  fi
  ;;
shared_soname)
  "$READELF" -d "$SHARED_FILE" | grep -F "soname: [$SONAME]"
  test "$(readlink -f "$(dirname "$SHARED_FILE")/$SONAME")" = "$(readlink -f "$SHARED_FILE")"
  test "$(readlink -f "$(dirname "$SHARED_FILE")/liblot.so")" = "$(readlink -f "$SHARED_FILE")"
  # The load hooks leave addresses of the library behind: it must not be unmapped.
  "$READELF" -d "$SHARED_FILE" | grep -E 'FLAGS_1.*NODELETE'
  ;;
static_globals)
  declared >"$work/declared"
  "$NM" --extern-only --defined-only --format=posix "$STATIC_FILE" |
    grep -vE ':$' | cut -d' ' -f1 >"$work/global"
  same "declared in the headers" "global in the static library" "$work/declared" "$work/global"
  # What it leaves to others is C: no undefined Rust or C++ symbol.
  if "$NM" --undefined-only --format=posix "$STATIC_FILE" | grep -E '^(_R|_ZN|__rust|rust_)'; then
    echo "the static library leaves the above to others" >&2
    exit 1
  fi
  ;;
static_hidden)
  # Whoever links the archives keeps their names to itself: none of them can bind to another copy.
  for archive in "$STATIC_FILE" "$LINK_HOOKS"; do
    "$READELF" --symbols --wide "$archive" |
      awk '$5 ~ /GLOBAL|WEAK|UNIQUE/ && $7 != "UND" { print $6, $8 }' >"$work/names"
    if grep -v '^HIDDEN ' "$work/names"; then
      echo "$archive shows the above to the dynamic linker" >&2
      exit 1
    fi
    test -s "$work/names"
  done
  ;;
static_stack)
  # One object that does not say that it needs no executable stack gives the whole program one.
  "$READELF" --sections --wide "$STATIC_FILE" | grep -F .note.GNU-stack >"$work/notes"
  if grep -E ' [A-Z]*X[A-Z]* +[0-9]+ +[0-9]+ +[0-9]+$' "$work/notes"; then
    echo "the static library asks for an executable stack" >&2
    exit 1
  fi
  ;;
static_groups)
  # The linker keeps one of several COMDAT groups with the same name, whoever's it is.
  if "$READELF" --section-groups "$STATIC_FILE" | grep -E 'COMDAT'; then
    echo "the static library has the above" >&2
    exit 1
  fi
  "$READELF" --section-groups "$STATIC_FILE" | grep -q 'no section groups'
  ;;
*)
  echo "no such check: $1" >&2
  exit 2
  ;;
esac
