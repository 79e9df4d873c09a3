#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh STEP: one step of the consumer tests; CMakeLists.txt beside this file sets the environment.
set -euo pipefail

here=$SOURCE/tests/consumers
# Where the library was moved to after it was installed elsewhere: nothing may point back.
prefix=$WORK/moved

configure() { # SOURCE BUILD [OPTION...]
  rm -rf "$2"
  "$CMAKE" -S "$1" -B "$2" -G "$GENERATOR" -DCMAKE_BUILD_TYPE=Release \
    "-DCMAKE_C_COMPILER=$CC" "-DCMAKE_CXX_COMPILER=$CXX" "${@:3}"
}

build() { # BUILD
  "$CMAKE" --build "$1" --parallel 2
}

# A program that is linked against the shared library needs it by its soname, the static one not at all.
expect_needed() { # PROGRAM yes|no
  local needed=no
  if readelf -d "$1" | grep -qF '[liblot.so.0]'; then needed=yes; fi
  test "$needed" = "$2" || {
    echo "$1 needs liblot.so.0: $needed, where it should be: $2" >&2
    exit 1
  }
}

case $1 in
install)
  rm -rf "$WORK"
  "$CMAKE" --install "$BUILD" --prefix "$WORK/first"
  mv "$WORK/first" "$prefix"
  # The libraries carry debug information, which names source files; the text files must name nothing.
  if grep -rIlF -e "$BUILD" -e "$SOURCE" -e "$WORK" "$prefix"; then
    echo "the installed files above name a folder of this machine" >&2
    exit 1
  fi
  test -f "$prefix/include/lot/lot.h"
  test -f "$prefix/include/lot/lot.hpp"
  test -f "$prefix/include/lot/mlir.h"
  test -L "$prefix/$LIBDIR/liblot.so"
  test -L "$prefix/$LIBDIR/liblot.so.0"
  ;;

find_package)
  configure "$here/find_package" "$WORK/find_package" "-DCMAKE_PREFIX_PATH=$prefix"
  build "$WORK/find_package"
  expect_needed "$WORK/find_package/consumer_static" no
  expect_needed "$WORK/find_package/consumer_shared" yes
  "$WORK/find_package/consumer_static"
  "$WORK/find_package/consumer_shared"
  ;;

find_package_versions)
  # The version file: what it accepts and what it does not.
  for version in 0.1 0.1.0; do
    configure "$here/find_package" "$WORK/version" "-DCMAKE_PREFIX_PATH=$prefix" \
      "-DWANTED_VERSION=$version" >/dev/null
  done
  for version in 0.0.9 0.2 1.0 0.1.99; do
    if configure "$here/find_package" "$WORK/version" "-DCMAKE_PREFIX_PATH=$prefix" \
      "-DWANTED_VERSION=$version" >"$WORK/version.log" 2>&1; then
      echo "version $version was accepted" >&2
      exit 1
    fi
    grep -q 'compatible with requested version' "$WORK/version.log"
  done
  ;;

add_subdirectory)
  configure "$here/add_subdirectory" "$WORK.add_subdirectory" "-DLOT_SOURCE=$SOURCE" \
    "-DLOT_CARGO_TARGET_DIR=$CARGO_TARGET_DIR"
  build "$WORK.add_subdirectory"
  expect_needed "$WORK.add_subdirectory/consumer_static" no
  expect_needed "$WORK.add_subdirectory/consumer_shared" yes
  "$WORK.add_subdirectory/consumer_static"
  "$WORK.add_subdirectory/consumer_shared"
  # A second build has nothing to do: no link step runs again.
  test -z "$("$CMAKE" --build "$WORK.add_subdirectory" | grep -i linking)"
  ;;

pkg_config)
  export PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig
  work=$WORK/pkg_config
  mkdir -p "$work"
  test "$("$PKG_CONFIG" --modversion lot)" = "$(sed -nE 's/^version = "(.*)"$/\1/p' "$SOURCE/Cargo.toml" | head -n 1)"
  # shellcheck disable=SC2046 # the flags are several words
  "$CC" -std=c11 -Wall -Wextra -Werror -o "$work/shared" "$here/pkg_config/main.c" \
    $("$PKG_CONFIG" --cflags --libs lot)
  expect_needed "$work/shared" yes
  LD_LIBRARY_PATH=$prefix/$LIBDIR "$work/shared"
  # A program without any shared library at all.
  # shellcheck disable=SC2046
  "$CC" -std=c11 -Wall -Wextra -Werror -static -o "$work/static" "$here/pkg_config/main.c" \
    $("$PKG_CONFIG" --static --cflags --libs lot)
  expect_needed "$work/static" no
  "$work/static"
  # Only this library static.
  # shellcheck disable=SC2046
  "$CC" -std=c11 -Wall -Wextra -Werror -o "$work/mixed" "$here/pkg_config/main.c" \
    $("$PKG_CONFIG" --static --cflags --libs lot | sed 's/-llot/-l:liblot.a/')
  expect_needed "$work/mixed" no
  "$work/mixed"
  ;;

other_rust)
  work=$WORK/other_rust
  mkdir -p "$work"
  CARGO_TARGET_DIR=$work/target "$CARGO" build --quiet --offline --locked --release \
    --manifest-path "$here/other_rust/Cargo.toml"
  other=$work/target/release/libother_rust.a
  # Once as rustc makes it, with the Rust runtime's names global; once with the treatment of our own
  # library, to see that panics are still caught in a library that went through it.
  "$CMAKE" "-DINPUT=$other" "-DOUTPUT=$work/libother_local.a" -DPREFIX=other_ "-DCC=$CC" "-DLD=$LD" \
    "-DNM=$NM" "-DREADELF=$READELF" "-DOBJCOPY=$OBJCOPY" "-DAR=$AR" -P "$SOURCE/cmake/localize.cmake"
  for library in "$other" "$work/libother_local.a"; do
    for order in "$library $prefix/$LIBDIR/liblot.a" "$prefix/$LIBDIR/liblot.a $library"; do
      # shellcheck disable=SC2086 # the two libraries
      "$CXX" -std=c++17 -Wall -Wextra -Werror -I"$prefix/include" -o "$work/program" \
        "$here/other_rust/main.cpp" $order -lpthread -ldl
      "$work/program" 2>"$work/stderr"
      grep -q 'panicked' "$work/stderr" # it did happen
    done
  done
  ;;

uninstall)
  "$CMAKE" --install "$BUILD" --prefix "$WORK/leaving"
  test -f "$WORK/leaving/$LIBDIR/liblot.a"
  "$CMAKE" --build "$BUILD" --target uninstall
  test -z "$(find "$WORK/leaving" -type f -o -type l)"
  ;;

*)
  echo "no such step: $1" >&2
  exit 2
  ;;
esac
