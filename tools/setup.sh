#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs what the builds and tests need and this machine lacks: Debian packages, cargo-nextest, crates.
# Quick, and without the network, where everything is there. Rust itself is the user's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  g++ make git cmake ninja-build pkg-config patchelf binutils
  # MLIR for C++ and for mlir-sys
  libmlir-22-dev llvm-22-dev mlir-22-tools libclang-22-dev clang-22 libpolly-22-dev libzstd-dev
  libgtest-dev libbenchmark-dev
  # memcheck needs the C library's symbols
  valgrind libc6-dbg
)
# The Python that is first in the path may be Debian's or another one, which then has to be complete.
complete_python='
import ensurepip, os, sys, sysconfig, venv
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
if ! python3 -c "$complete_python" 2>/dev/null; then
  packages+=(python3 python3-dev python3-venv)
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "Installing ${missing[*]}"
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! command -v cargo >/dev/null; then
  echo 'cargo is missing: install Rust 1.88 or later with rustfmt and clippy' >&2
  exit 1
fi
if ! cargo nextest --version >/dev/null 2>&1; then
  echo 'Installing cargo-nextest'
  cargo install --quiet --locked cargo-nextest
fi
# Asking offline first costs nothing and spares the network.
cargo fetch --quiet --locked --offline 2>/dev/null || cargo fetch --quiet --locked
