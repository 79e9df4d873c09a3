#!/bin/sh
# Writes patches/ and checksums.sha256 anew from an edited copy of upstream's files.
#
#   make-patch.sh PRISTINE EDITED
#
# PRISTINE is the folder `mlir` of the package xtc-mlir-dev (build/.../dev/mlir), EDITED a folder with the
# edited files at the same places below it (start from a copy of build/.../patched). One patch for each
# file, without context lines, so that nearly all of it is our own text.
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
set -eu
pristine=$(cd "$1" && pwd)
edited=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
sources="src/python/MLIRPythonExtension.MLIRPythonSupport src/python/MLIRPythonExtension.Core
  src/python/MLIRPythonExtension.TransformInterpreter src/python/MLIRPythonExtension.ExecutionEngine
  src/python/MLIRPythonExtension.Dialects.Linalg.Nanobind src/python/MLIRPythonExtension.Dialects.LLVM.Nanobind
  src/python/MLIRPythonExtension.Dialects.SMT.Nanobind src/python/MLIRPythonExtension.Dialects.IRDL.Nanobind
  include/mlir/Bindings/Python"

rm -f "$here"/patches/*.patch
: >"$here/checksums.sha256"
for folder in $sources; do
  for path in $(cd "$pristine" && find "$folder" -maxdepth 1 -name '*.cpp' -o -maxdepth 1 -name '*.h' | LC_ALL=C sort); do
    (cd "$pristine" && sha256sum "$path") >>"$here/checksums.sha256"
    patch=$here/patches/$(basename "$path").patch
    if diff -U0 --label "a/$path" --label "b/$path" "$pristine/$path" "$edited/$path" >"$patch"; then
      rm "$patch"
    fi
  done
done
added=$(cat "$here"/patches/*.patch | grep -c '^+[^+]' || true)
removed=$(cat "$here"/patches/*.patch | grep -c '^-[^-]' || true)
echo "$(ls "$here/patches" | wc -l) patches: $added lines added, $removed of upstream's lines replaced"
