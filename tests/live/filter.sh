#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Filters: the list, the laws of the built-in ones, the example that is built outside of the
# tree, and shared objects that are wrong in one way each: every one is named, and none takes
# the command with it.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
source=${here%/tests/live}
CC=${CC:-cc}

expect 0 coppice filter list
[ "$(wc -l <<<"$out")" = 22 ] || die "not 22 filters: $out"
grep -qE '^sum +-c- ' <<<"$out" || die "$out"
grep -qE '^union +ic- ' <<<"$out" || die "$out"
grep -qE '^scatter +--d ' <<<"$out" || die "$out"
for name in $(cut -d' ' -f1 <<<"$out"); do
    expect 0 coppice filter check "$name" --runs 20
    grep -q "^$name of .*: all laws kept in 20 cases" <<<"$out" || die "$out"
    grep -q 'BROKEN\|CRASH' <<<"$out" && die "$out"
done

# ---- the example, with nothing but a header ----
cp "$source"/examples/filter/* "$scratch"
printf 'Name: coppice\nDescription: x\nVersion: 0\nCflags: -I%s\n' "$source/include" \
    >"$scratch/coppice.pc"
PKG_CONFIG_PATH=$scratch make -s -C "$scratch" CC="$CC" median.so || die "the example"
# It needs nobody: no symbol that is not its own, and one that is seen.
[ -z "$(nm -D --undefined-only "$scratch/median.so" | grep -v ' w ')" ] ||
    die "median.so needs $(nm -D --undefined-only "$scratch/median.so")"
expect 0 coppice filter list "$scratch/median.so"
grep -q '^median ' <<<"$out" || die "$out"
expect 0 coppice filter check "$scratch/median.so" --runs 50
cd "$scratch"
expect 0 coppice filter check median.so --runs 5 # in this folder, not the system's

# ---- broken ones ----
bad() {
    "$CC" -shared -fPIC -DFAULT="$1" -I"$source/include" -o "$scratch/$1.so" \
        "$here/bad_filter.c" || die "$1 does not compile"
}
refused() { # FAULT TEXT: it is not even loaded
    bad "$1"
    expect 2 coppice filter check "$1.so"
    grep -qF -- "$2" <<<"$err" || die "$1: '$err' does not say '$2'"
    [ -z "$out" ] || die "$1 prints $out"
    expect 2 coppice filter list "$1.so"
    grep -qF -- "$2" <<<"$err" || die "$1: '$err' does not say '$2'"
}
caught() { # FAULT TEXT: the check finds it
    bad "$1"
    expect 1 coppice filter check "$1.so" --limit 2 --runs 300
    grep -qE -- "$2" <<<"$out" || die "$1: '$out' does not say '$2'"
}
bad RIGHT
expect 0 coppice filter check RIGHT.so
refused ABI 'version 2 of the interface, this is 1'
refused SYMBOL 'coppice_filters'
refused NAME 'another one with the name sum'
refused BOTH 'another one with the name bad'
refused MISSING 'one of its functions is missing'
caught CRASH '^bad of u64: CRASH: Abort'
caught EXITS '^bad of u64: CRASH: .* in '
caught ENDLESS 'CRASH: did not come to an end in the seconds of --limit, in '
caught LAST 'BROKEN: (order|difference): '
caught TWICE 'BROKEN: repetition: join\(a, a\) = a'
caught SHORT 'BROKEN: result: '
caught FAILS 'a function returned COP_ENOENT'
# Filters down.
bad DOWN
expect 0 coppice filter check DOWN.so
grep -q '^deeper of u64.*: all laws kept' <<<"$out" || die "$out"
refused DOWN_AND_UP 'a filter down has init and down, and no others'
caught DOWN_SHORT 'BROKEN: down: '
caught DOWN_REMEMBERS 'BROKEN: purity: '
caught DOWN_CRASH '^deeper of u64: CRASH: Abort'
# The smallest case is small: one packet.
expect 1 coppice filter check TWICE.so
[ "$(grep -c '^    [abc]: leaf' <<<"$out")" = 1 ] || die "$out"
expect 1 coppice filter check TWICE.so --json
grep -q '^{"schema":"coppice.filter.check.v1","filter":"bad",.*"kept":false,"law":"repetition"' \
    <<<"$out" || die "$out"

# ---- what can be typed wrongly ----
expect 2 coppice filter check nosuch
grep -q 'neither built in' <<<"$err" || die "$err"
expect 2 coppice filter check sum --type text
grep -q "takes no packets of type 'text'" <<<"$err" || die "$err"
expect 2 coppice filter check sum --type u65
grep -q "bad type 'u65'" <<<"$err" || die "$err"
expect 2 coppice filter frob
expect 2 coppice filter check
expect 1 coppice filter check top --params k=0
grep -q 'BROKEN: init' <<<"$out" || die "$out"
cd /
assert_nothing_left
