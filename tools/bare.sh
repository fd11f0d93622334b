#!/usr/bin/env bash
# `tools/check --bare`: the Debian packages, tools/demo and tools/check of HEAD in a fresh minimal
# Debian of this machine's release, without CUDA or anything else installed. Needs root and a TMPDIR with 4 GB.
# The new system takes from this machine only its Debian mirror, name resolution and proxies.
set -euo pipefail
cd "$(dirname "$0")/.."

if ((EUID != 0)); then
  echo "tools/check --bare: needs root, for chroot and mounts" >&2
  exit 1
fi
# In a mount namespace of its own no mount outlives this script.
if [[ ${1:-} != --in-namespace ]]; then
  exec unshare --mount --propagation private "$0" --in-namespace
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/talus-bare.XXXXXX")
remove_root() {
  umount "$root/proc" "$root/sys" "$root/dev/shm" "$root/dev/pts" 2>/dev/null || true
  rm -rf --one-file-system "$root" ${packages:+"$packages"}
}
trap remove_root EXIT

# The apt entries that name one of Debian's own mirrors, and the keys that they name.
copy_sources() {
  local sites file key separator
  sites=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' |
    sort -u)
  rm -f "$root/etc/apt/sources.list"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
    [[ -f $file && $file != */talus-backports.* ]] || continue
    separator=$'\n'
    [[ $file == *.list ]] || separator=
    awk -v sites="$sites" -v RS="$separator" -v ORS="${separator:-$'\n\n'}" '
      BEGIN { count = split(sites, site, "\n") }
      { for (i = 1; i <= count; i++) if (index($0, site[i])) { print; next } }
    ' "$file" >"$root$file"
  done
  grep -rhoiE 'signed-by[:=] *[^] ]+' "$root/etc/apt" | sed 's/^[^:=]*[:=] *//' |
    while read -r key; do
      [[ -f $key && ! -f $root$key ]] && install -D -m 644 "$key" "$root$key"
    done || true
}

make_root() {
  local mirror suite
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(tools/setup --mirror)
  echo "tools/check --bare: installing a minimal Debian $suite"
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" \
    >"$root.log" 2>&1 || { tail -n 60 "$root.log" >&2; rm -f "$root.log"; exit 1; }
  rm -f "$root.log"
  copy_sources
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  apt-config dump | grep -E '^Acquire::(https?|Check-)' >"$root/etc/apt/apt.conf.d/90host" || true
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mkdir -p "$root/dev/shm" "$root/dev/pts"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -sf pts/ptmx "$root/dev/ptmx"
  mount -t tmpfs tmpfs "$root/dev/shm"
}

inside() {
  chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    ${no_proxy:+no_proxy="$no_proxy"} "$@" </dev/null 2>&1 | cat
}

# A bundle needs no trust in who owns the checkout.
copy_head() {
  git -c safe.directory="$PWD" bundle create -q "$root/srv/talus.bundle" HEAD
  git -c advice.detachedHead=false clone -q "$root/srv/talus.bundle" "$root/srv/talus"
}

# Of the packages built here, and of nothing of the checkout: a program in C, as a stranger would.
use_packages() {
  local destination=$root/srv/packages
  mkdir -p "$destination"
  cp "$packages"/*.deb tests/install/consumer/main.c "$destination"
  inside sh -euc '
    cd /srv/packages
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends gcc libc6-dev pkg-config \
      ./libtalus0_*.deb ./libtalus-dev_*.deb ./talus-tools_*.deb >/dev/null
    gcc -std=c99 -Wall -Werror main.c $(pkg-config --cflags --libs talus) -o main
    ./main
    gcc main.c $(pkg-config --cflags talus) -Wl,-Bstatic -ltalus -Wl,-Bdynamic -lstdc++ -lm -pthread -o static
    ./static
    talus --version
    if test -e libtalus0-cuda_*.deb; then
      apt-get -qq -y install --no-install-recommends ./libtalus0-cuda_*.deb >/dev/null
      talus info --json | grep -q "no CUDA driver is installed"  # so it was found and loaded
    fi
    talus selftest --only adamw >/dev/null
    apt-get -qq -y purge libtalus0 >/dev/null
    for gone in /usr/include/talus.h /usr/bin/talus /usr/lib/*/libtalus.so.0 /usr/lib/*/talus; do
      if test -e "$gone"; then echo "left behind: $gone"; exit 1; fi
    done
    echo packages: passed'
}

tools/setup --bare
packages=$(mktemp -d)
DEB_BUILD_OPTIONS="nocheck ${DEB_BUILD_OPTIONS:-}" tools/packaging/build-deb "$packages"
apt-get -q update >/dev/null 2>&1 || true  # the mirror is read from its lists
make_root
copy_head
if ! inside /srv/talus/tools/demo; then
  echo "  FAILED: tools/demo in a bare Debian"
  echo "0 passed, 1 failed"
  exit 1
fi
if ! use_packages; then
  echo "  FAILED: the Debian packages in a bare Debian"
  echo "0 passed, 1 failed"
  exit 1
fi
inside /srv/talus/tools/check
