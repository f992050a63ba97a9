#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages of this build: installed by dpkg into a root of their own, the command runs
# a cluster there, a program is built against what -dev has, and removing them leaves nothing.
set -euo pipefail
: "${SOURCE:?}" "${BUILD:?}"
CC=${CC:-cc}
command -v dpkg-shlibdeps >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "SKIPPED: no dpkg-dev here"
    exit 77
}
scratch=$(mktemp -d /tmp/cop-deb.XXXXXX)
root=$scratch/root
trap '"$root/usr/bin/coppice" down >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
fail() { echo "FAILED: $*" >&2; exit 1; }

"$SOURCE/scripts/deb" "$BUILD" "$scratch/debs" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
for package in coppice libcoppice0 libcoppice-dev; do
    [ -f "$(echo "$scratch/debs/${package}"_*.deb)" ] || fail "no $package: $(cat "$scratch/log")"
done

# Every file belongs to root, has a package, and the control file what dpkg and apt need.
for deb in "$scratch"/debs/*.deb; do
    dpkg-deb -c "$deb" | awk '$2 != "root/root" { print "not of root: " $0; bad = 1 } END { exit bad }'
    for field in Package Version Architecture Maintainer Depends Description; do
        [ -n "$(dpkg-deb -f "$deb" $field)" ] || fail "$deb has no $field"
    done
    case "$(dpkg-deb -f "$deb" Depends Description)" in *@*@*) fail "$deb: a word is not filled in" ;; esac
done
dpkg-deb -f "$scratch"/debs/coppice_*.deb Depends | grep -q libuv1 || fail "the command needs no libuv"
dpkg-deb -I "$scratch"/debs/coppice_*.deb conffiles | grep -qx /etc/coppice/coppice.conf || fail "no conffile"

# An empty root. Its packages depend on those of this machine, which are not in it.
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
in_root() {
    dpkg --root="$root" --log="$scratch/dpkg.log" --force-not-root --force-script-chrootless --force-depends \
        "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "dpkg $*"; }
}
in_root -i "$scratch"/debs/*.deb
[ "$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${db:Status-Status}\n' | sort -u)" = installed ] ||
    fail "not all are installed"
[ -z "$(find "$root/etc/systemd" 2>/dev/null)" ] || fail "the unit is enabled"
if command -v systemd-analyze >/dev/null; then
    sed "s,/usr/bin/coppice,$root/usr/bin/coppice," "$root/lib/systemd/system/coppice-agent@.service" \
        >"$scratch/coppice-agent@x.service"
    ! systemd-analyze verify "$scratch/coppice-agent@x.service" 2>&1 | grep "$scratch/coppice-agent" ||
        fail "the unit is not in order"
fi

# It runs.
export XDG_RUNTIME_DIR=$scratch/run COPPICE_CONF=$root/etc/coppice/coppice.conf
mkdir -m 0700 "$XDG_RUNTIME_DIR"
"$root/usr/bin/coppice" up -n 8
"$root/usr/bin/coppice" probe | grep -q '8 of 8' || fail "no probe"
"$root/usr/bin/coppice" down
zcat "$root/usr/share/man/man1/coppice-probe.1.gz" | grep -q '^\.Nm coppice-probe' || fail "no manual page"
grep -q _coppice "$root/usr/share/bash-completion/completions/coppice" || fail "no completion"

# A program, by pkg-config alone.
pc=$(find "$root" -name coppice.pc)
libdir=$(cd "$(PKG_CONFIG_PATH=${pc%/*} pkg-config --variable=libdir coppice)" && pwd)
# shellcheck disable=SC2046 # flags are words
PKG_CONFIG_PATH=${pc%/*} "$CC" -o "$scratch/consumer" "$SOURCE/tests/install/consumer.c" \
    $(PKG_CONFIG_PATH=${pc%/*} pkg-config --cflags --libs coppice)
LD_LIBRARY_PATH=$libdir "$scratch/consumer"

# shellcheck disable=SC2046 # names are words
in_root --purge $(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package} ')
left=$(find "$root" -path "$root/var/lib/dpkg" -prune -o -type f -print)
[ -z "$left" ] || fail "purged, and left: $left"
echo "packages: $(ls "$scratch/debs" | wc -l), installed, run and purged"
