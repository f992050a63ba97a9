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
    # Also all of them: never so many at once that the others could not let them in.
    expect 0 coppice restart n[0-11]
    expect 0 coppice view --json
    [ "$(field count)" = 12 ] && [ "$(field agree)" = true ] || die "$out"
    expect 0 coppice restart n[1-11]
    probe_says 12 ""
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

# Where nobody can be spared nothing is killed, and the way out works as typed.
expect 0 coppice up -n 2 --name two
expect 4 coppice restart --name two n0
grep -q 'not restarted: n0; .*: end it with: coppice down --name two, ' <<<"$err" || die "$err"
probe_says 2 "" --name two
expect 0 coppice down --name two
expect 0 coppice up -n 2 --name two --quorum none
expect 0 coppice restart --name two n[0-1]
probe_says 2 "" --name two
expect 0 coppice down --name two
expect 0 coppice up -n 4 --name has --quorum has:n1
expect 4 coppice restart --name has n[0-3]
grep -q 'not restarted: n1; ' <<<"$err" || die "$err"
expect 0 coppice restart --name has n[0,2-3]
probe_says 4 "" --name has
expect 0 coppice down --name has
# Half of them die: who comes back is told what to type, and that works.
expect 0 coppice up -n 4 --name half
expect 0 coppice kill --name half --signal STOP n[0-1]
expect 0 coppice kill --name half n[0-1]
expect 4 coppice restart --name half n0
way_out=$(sed -n 's/.*those in the view go on with: coppice \(view --name half --go-on [0-9]*\);.*/\1/p' <<<"$err")
[ -n "$way_out" ] || die "$err"
coppice $way_out >/dev/null 2>&1 || true
goes_on() { coppice view --name half >/dev/null 2>&1; }
until_true goes_on
expect 0 coppice restart --name half n[0-1]
probe_says 4 "" --name half
expect 0 coppice down --name half
assert_nothing_left
