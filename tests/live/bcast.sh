#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bcast: everybody has what was sent, whoever sends it; the dead are named.
. "$(dirname "$0")/lib.sh"

# bcast_says ANSWERED DEAD COMMAND...
bcast_says() {
    local answered=$1 dead=$2 code=0
    shift 2
    [ -z "$dead" ] || code=1
    expect $code coppice bcast --json "$@"
    [ "$(field answered)" = "$answered" ] || die "answered is not $answered: $out"
    [ "$(field dead)" = "$dead" ] && [ "$(field silent)" = "" ] || die "$out"
}

expect 0 coppice up -n 20
bcast_says 20 ""
bcast_says 20 "" a text
[ "$(field payload_bytes)" = 6 ] || die "$out"
bcast_says 20 "" --from n13 --shape kary:2 --bytes 3500 --count 50
[ "$(field complete)" = 50 ] && [ "$(field broadcasts)" = 50 ] || die "$out"
expect 0 coppice bcast -k 20 --histogram x
grep -q '^answered  20 of 20$' <<<"$out" && grep -q '^sent      20, 20 of them' <<<"$out" || die "$out"
expect 0 coppice kill n[1,7]
bcast_says 18 "n[1,7]"
bcast_says 18 "n[1,7]" --from n5
expect 0 coppice restart n[1,7]
bcast_says 20 ""
# The limit is the real one, for both, also when somebody is dead.
bcast_says 20 "" --bytes 3987
expect 2 coppice bcast --bytes 3988
grep -q 'takes a number from 1 to 3987' <<<"$err" || die "$err"
bcast_says 20 "" "$(printf '%03987d' 0)"
bcast_says 20 "" "$(printf '%01990d' 0)" "$(printf '%01996d' 0)"
[ "$(field payload_bytes)" = 3987 ] || die "$out"
expect 2 coppice bcast "$(printf '%03988d' 0)"
grep -q 'a text has at most 3987 bytes' <<<"$err" || die "$err"
expect 0 coppice kill n[2,8]
bcast_says 18 "n[2,8]" --bytes 3987
expect 0 coppice restart n[2,8]
expect 2 coppice bcast --bytes 3 x
expect 2 coppice bcast "$(seq 2000)"
expect 0 coppice down
assert_nothing_left
