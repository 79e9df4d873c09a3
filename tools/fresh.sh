#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# fresh.sh 12|13 [root|user] [COMMAND...]: tries the README's commands on a bare Debian of that release.
#
# Makes the smallest Debian that debootstrap knows in build/fresh, with git and make, and for `user` with sudo and an
# ordinary user. It has this machine's Rust, read-only. The committed state of the repository is cloned into it, and
# each COMMAND is run in the clone; without any, `make demo`, `make test` and `make install` are.
#
# apt and pip are set up there as they are on this machine. Needs root and debootstrap. The folder is kept: run
# again, it is as the last run left it; remove build/fresh for a bare one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  echo 'usage: tools/fresh.sh 12|13 [root|user] [COMMAND...]' >&2
  exit 2
}

case ${1-} in
12) release=bookworm ;;
13) release=trixie ;;
*) usage ;;
esac
who=${2-root}
case $who in root | user) ;; *) usage ;; esac
shift $(($# < 2 ? $# : 2))
commands=("$@")
[ "${#commands[@]}" -gt 0 ] || commands=('make demo' 'make test' 'make install PREFIX=/tmp/prefix')

[ "$(id -u)" = 0 ] || { echo 'A chroot takes root: run this with sudo' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'Missing: apt-get install debootstrap' >&2; exit 1; }
root=$PWD/build/fresh/$release-$who
mirror=$(apt-get indextargets --format '$(SITE) $(COMPONENT)' 'Created-By: Packages' |
  awk '$2 == "main" { print $1; exit }')
if [ ! -e "$root/ready" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  packages=ca-certificates,git,make
  [ "$who" = root ] || packages+=,sudo
  echo "A bare Debian ($release)"
  debootstrap --variant=minbase "--include=$packages" "$release" "$root" "$mirror" >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log"; exit 1; }
  cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  if [ -e /etc/pip.conf ]; then cp /etc/pip.conf "$root/etc/"; fi
  if [ "$who" = user ]; then
    chroot "$root" useradd --create-home --shell /bin/bash user
    echo 'user ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/user"
  fi
  touch "$root/ready"
fi
cp /etc/resolv.conf /etc/hosts "$root/etc/"

home=/root
[ "$who" = root ] || home=/home/user
rm -rf "$root$home/clone"
git clone --quiet --no-hardlinks . "$root$home/clone"
chroot "$root" chown -R "$who:$who" "$home/clone"
mkdir -p "$root/opt/rust"

# What the package clients of this machine take from the environment, and a colourless terminal.
environment=("HOME=$home" "USER=$who" 'LANG=C.UTF-8' 'TERM=dumb'
  'PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin')
while IFS= read -r line; do
  environment+=("$line")
done < <(env | grep -E '^(PIP_|SSL_CERT_|CARGO_(HTTP|NET|REGISTR)|https?_proxy=|HTTPS?_PROXY=)' || true)

for command in "${commands[@]}"; do
  echo "== Debian ${release}, ${who}: ${command}"
  start=$SECONDS
  # In a mount namespace of its own, so that nothing stays mounted.
  unshare --mount --fork bash -euc '
    root=$1 rust=$2 who=$3 directory=$4 command=$5
    shift 5
    mount --bind "$rust" "$root/opt/rust"
    mount -o remount,bind,ro "$root/opt/rust"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm" 2>/dev/null || true
    exec chroot --userspec="$who" "$root" env -i "$@" bash -euc "cd $directory && $command"
  ' fresh "$root" "$(rustc --print sysroot)" "$who" "$home/clone" "$command" "${environment[@]}" ||
    { echo "FAILED after $((SECONDS - start)) s: $command"; exit 1; }
  echo "== ok, $((SECONDS - start)) s: $command"
done
