#!/bin/bash
# Unpacks a Julia for the tests of these bindings: get_julia.sh PREFIX leaves PREFIX/bin/julia.
#
# For Debian and its like without a Julia of their own: fetches Julia 1.5.3 and all it needs from
# Debian 11 (about 80 MB down, 360 MB on disk) and unpacks it below PREFIX. Nothing is installed, no
# source is added, no privilege is needed. The mirror is the one this machine's own sources have for
# its own release. A PREFIX that has a Julia which runs is left as it is. Debian 11 is past its
# support and may leave the mirrors: nothing may depend on this script but what says "skipped".
set -euo pipefail

readonly release=bullseye
# The host's own: a libtalus built on the host needs its glibc, libstdc++ and libgcc, which are
# newer. All else must be of one release: Julia crashes in an exception with a newer libunwind.
of_host='libc6|libc-bin|libcrypt1|libstdc\+\+6|libgcc-s1|gcc-10-base'
readonly of_host="$of_host|dpkg|debconf|perl.*|tar|install-info"

fail() {
  echo "get_julia: $1" >&2
  exit 1
}

# Prints the version where PREFIX has a Julia that runs: an exception through compiled code is what
# breaks first.
version_of() {
  [ -x "$1/bin/julia" ] || return 1
  "$1/bin/julia" -e 'f(x) = x < 0 ? throw(DomainError(x)) : x
    try f(-1) catch end
    GC.gc()
    print(VERSION)' 2>/dev/null
}

# Prints the first mirror in this machine's sources that has its release: those of third parties
# have suites of their own names.
mirror_of_host() {
  local codename
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-none}")
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2> /dev/null || true; } |
    awk -v codename="$codename" '
      function keep(uri) { if (uri && !found) found = uri }
      function end_stanza() { if (suite) keep(uri); uri = suite = "" }
      $1 == "deb" { for (i = 2; i < NF; ++i) if ($i ~ /^https?:/ && $(i + 1) == codename) keep($i) }
      $1 == "Types:" || NF == 0 { end_stanza() }
      $1 == "URIs:" { uri = $2 }
      $1 == "Suites:" { for (i = 2; i <= NF; ++i) if ($i == codename) suite = 1 }
      END { end_stanza(); if (found) print found }'
}

# apt over folders of its own: an empty status makes it fetch everything, whatever the host has.
apt_get() {
  apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$work/lists" \
    -o Dir::Cache="$work/cache" -o Dir::State::status="$work/status" \
    -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 -o Acquire::Retries=3 "$@"
}

fetch() {
  local mirror=$1 keys=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -r "$keys" ] || fail "no $keys, which what is fetched is checked with"
  mkdir -p "$work"/lists/partial "$work"/cache/archives/partial
  : > "$work/status"
  echo "deb [signed-by=$keys] $mirror $release main" > "$work/sources.list"
  apt_get -o APT::Update::Error-Mode=any update > "$work/log" 2>&1 ||
    fail "the mirror has no $release: $(head -n 1 "$work/log")"
  apt_get -y --no-install-recommends --download-only install julia > "$work/log" 2>&1 ||
    fail "the packages cannot be fetched: $(head -n 1 "$work/log")"
}

unpack() {
  local archive name
  for archive in "$work"/cache/archives/*.deb; do
    name=${archive##*/}
    [[ ${name%%_*} =~ ^($of_host)$ ]] || dpkg -x "$archive" "$1" ||
      fail "${archive##*/} cannot be unpacked under $prefix"
  done
}

write_launcher() {
  local usr paths
  usr=$(echo "$prefix"/debian/usr/lib/*-linux-gnu*)
  paths="$usr:$usr/julia:$prefix/debian/lib/${usr##*/}"
  mkdir -p "$prefix/bin"
  cat > "$prefix/bin/julia" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$paths\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
export JULIA_DEPOT_PATH="\${JULIA_DEPOT_PATH:-$prefix/depot}"
exec "$prefix/debian/usr/bin/julia" --startup-file=no "\$@"
END
  chmod +x "$prefix/bin/julia"
}

[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || fail "usage: get_julia.sh PREFIX"
prefix=$(realpath -m "$1")
if version=$(version_of "$prefix"); then
  echo "get_julia: $prefix/bin/julia is Julia $version already"
  exit 0
fi
for tool in apt-get dpkg; do
  command -v $tool > /dev/null || fail "no $tool: this is for Debian and its like"
done
mirror=$(mirror_of_host)
[ -n "$mirror" ] || fail "no mirror of this machine's release among its apt sources"

mkdir -p "$prefix" 2> /dev/null || fail "$prefix cannot be made"
work=$(mktemp -d "$prefix/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "get_julia: fetching Julia of $release (80 MB) from this machine's mirror"
fetch "$mirror"
echo "get_julia: unpacking below $prefix"
mkdir "$work/debian"
unpack "$work/debian"
rm -rf "$prefix/debian" "$prefix/bin"
mv "$work/debian" "$prefix/debian"
write_launcher
version=$(version_of "$prefix") || fail "what was unpacked below $prefix does not run"
echo "get_julia: $prefix/bin/julia is Julia $version"
