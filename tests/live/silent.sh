#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With a ring a stopped member is found, without a word from its socket: the others go on
# without it, it hears that it is out when it continues, and comes back as a new life. Nobody
# else is removed on its account.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

stops() {
    local name=$1 rest=$2 before
    before=$(incarnation_of "$name")
    expect 0 coppice kill "$name" --signal STOP
    all_see "$rest"
    [ "$(field removed)" = "$name" ] || die "somebody else is out: $out"
    expect 0 coppice kill "$name" --signal CONT
    all_see "n[0-6]"
    [ "$(incarnation_of "$name")" -gt "$before" ] || die "$name did not come back as a new life"
}

# Deadlines that a loaded machine keeps: what is tested is what happens, not how soon.
expect 0 coppice up -n 7 --detector ring:400ms,witnesses:2
all_see "n[0-6]"
stops n5 "n[0-4,6]"
stops n1 "n[0,2-6]"
stops n0 "n[1-6]"
probe_says 7 ""
expect 0 coppice down
assert_nothing_left
