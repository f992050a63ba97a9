#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The life of a cluster, over both transports: up, ps, probe, kill, restart, down.
. "$(dirname "$0")/lib.sh"

cycle() {
    expect 0 coppice up -n 12 "$@"
    expect 0 coppice ps
    [ "$(grep -c running <<<"$out")" = 13 ] || die "ps does not show 12 running: $out"
    probe_says 12 ""
    probe_says 12 "" --from n7
    probe_says 12 "" --from 11 --shape knomial:2
    expect 0 coppice probe --count 50 --json
    [ "$(field probes)" = 50 ] && [ "$(field complete)" = 50 ] || die "$out"

    expect 0 coppice kill n3 n[5-6]
    expect 0 coppice ps
    grep -q '^12 members: 9 running, 3 dead (n\[3,5-6\])$' <<<"$out" || die "$out"
    grep -q '^n3 .*dead .*killed by SIGKILL' <<<"$out" || die "$out"
    probe_says 9 "n[3,5-6]"
    probe_says 9 "n[3,5-6]" --from n11
    expect 1 coppice kill n5
    [ "$err" = "coppice: dead already: n5" ] || die "$err"
    expect 3 coppice probe --from n5

    before=$(coppice ps --json n4 | sed 's/.*"incarnation":\([0-9]*\).*/\1/')
    expect 0 coppice restart n[3,5]
    expect 0 coppice ps --json n5
    [ "$(field incarnation)" -gt "$before" ] || die "the incarnation did not grow: $out"
    probe_says 11 n6
    probe_says 11 n6 --from n5
    # A member that lives is killed first, and one that was restarted can be again.
    expect 0 coppice restart n[0,3,6]
    probe_says 12 ""
    probe_says 12 "" --from n6
    expect 0 coppice ps --stats n0
    grep -q '^n0 .*connections ' <<<"$out" || die "no statistics: $out"

    expect 0 coppice down
    assert_nothing_left
    expect 3 coppice ps
}

cycle
cycle --transport tcp
cycle --shape flat
cycle --shape chain
