#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# setup.sh library|bindings|tests: installs what that job needs and this machine lacks, and no more.
# Quick, and without the network, where everything is there. Rust itself is the user's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# What each command calls; a package is asked for only if its command is missing.
library=(c++:g++ cmake:cmake ninja:ninja-build ld.bfd:binutils)
bindings=("${library[@]}" git:git)
tests=("${bindings[@]}" make:make pkg-config:pkg-config patchelf:patchelf valgrind:valgrind)
# Libraries for the tests: MLIR for C++ and for mlir-sys, GoogleTest, and the C library's symbols
# for memcheck.
test_libraries=(
  libmlir-22-dev llvm-22-dev mlir-22-tools libclang-22-dev clang-22 libpolly-22-dev libzstd-dev
  libgtest-dev libbenchmark-dev libc6-dbg
)

commands=() packages=()
case ${1-} in
library) commands=("${library[@]}") ;;
bindings) commands=("${bindings[@]}") ;;
tests) commands=("${tests[@]}") packages=("${test_libraries[@]}") ;;
*) fail 'usage: tools/setup.sh library|bindings|tests' ;;
esac

missing=()
for pair in "${commands[@]}"; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
# The Python that is first in the path may be Debian's or another one, which then has to be complete.
complete_python='
import ensurepip, os, sys, sysconfig, venv
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
if [ "$1" != library ] && ! python3 -c "$complete_python" 2>/dev/null; then
  missing+=(python3 python3-dev python3-venv)
fi

if ! command -v cargo >/dev/null && [ ! -x "$HOME/.cargo/bin/cargo" ]; then
  fail 'cargo is missing: install Rust 1.88 or later (with rustfmt and clippy for `make test`),' \
    'for example with rustup, and see that cargo is in the PATH.'
fi
if [ "${#missing[@]}" -gt 0 ]; then
  install="apt-get install --no-install-recommends ${missing[*]}"
  command -v apt-get >/dev/null ||
    fail "These Debian packages, or what your system has in their place, are missing: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "Missing, and there is no sudo. As root: $install"
    as_root=(sudo)
  fi
  echo "Installing ${missing[*]}"
  # sudo would drop the variable from the environment.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "That failed. Try it by hand: $install"
fi

if [ "$1" = tests ] && ! cargo nextest --version >/dev/null 2>&1; then
  echo 'Installing cargo-nextest (some minutes)'
  cargo install --quiet --locked cargo-nextest
fi
# Asking offline first costs nothing and spares the network.
cargo fetch --quiet --locked --offline 2>/dev/null || cargo fetch --quiet --locked
