#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# build.sh library|tests|bindings|python-tests: builds into build/. cargo's own output goes to target/ in every case, so
# that the crate is compiled once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

configure_library() { # OPTION...
  cmake -S . -B build/cmake -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    "-DLOT_CARGO_TARGET_DIR=$PWD/target" "$@"
}

case ${1-} in
library)
  configure_library
  cmake --build build/cmake --target lot_build lot_mlir_link_hooks
  ;;
tests)
  configure_library -DLOT_BUILD_TESTS=ON -DLOT_BUILD_MLIR_TESTS=ON
  cmake --build build/cmake
  ;;
bindings)
  "$0" library
  cmake --install build/cmake --prefix build/prefix
  cmake -S upstream/llvm-22.1 -B build/upstream -G Ninja \
    "-DCMAKE_PREFIX_PATH=$PWD/build/prefix" "-DLOT_BINDINGS_WHEELS=$PWD/build/wheels" "${@:2}"
  cmake --build build/upstream
  ;;
python-tests)
  "$0" bindings -DLOT_BUILD_TESTS=ON
  ;;
*)
  echo 'usage: tools/build.sh library|tests|bindings|python-tests' >&2
  exit 2
  ;;
esac
