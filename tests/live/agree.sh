#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Agreements of real processes: every algorithm, while members are killed and come back, from
# several agents at a time. Who lives must have had the same results, always.
. "$(dirname "$0")/lib.sh"

# good WHAT VALUE: of the JSON in $out.
good() { [ "$(field "$1")" = "$2" ] || die "$1 is not $2: $out"; }

no_groups() {
    [ "$(coppice ps --stats | awk '$2 == "agree_groups" { sum += $3 } END { print sum + 0 }')" = 0 ]
}

coppice up -n 12 --shape knomial:2
for algorithm in early strict tree linear allreduce; do
    expect 0 coppice agree --algorithm $algorithm --count 20 --json
    good value 12 && good decided 20 && good results same && good failed_count 0
done
expect 0 coppice agree --value id --op max --json
good value 11
expect 0 coppice agree --value 12 --op and --window 8 --count 50 --skew 1 --json
good value 12 && good results same
expect 2 coppice agree --algorithm late
expect 2 coppice agree --op xor
expect 2 coppice agree --value one

# Two groups of all members at the same time, begun by different members, and two deaths: the
# root of the tree is one of them.
"$COPPICE" agree --from n7 --count 1500 --json >"$scratch/one" &
one=$!
"$COPPICE" agree --from n10 --count 1500 --algorithm strict --json >"$scratch/two" &
two=$!
coppice kill n3
coppice kill n0
wait $one || die "$(cat "$scratch/one")"
wait $two || die "$(cat "$scratch/two")"
for run in one two; do
    out=$(cat "$scratch/$run")
    good decided 1500 && good results same
done
expect 0 coppice agree --json
good value 10 && good members 10

# Who is dead already is agreed to have failed; who comes back is in the next group.
expect 0 coppice agree --with-dead --count 5 --json
good value 10 && good members 12 && good failed 'n[0,3]'
expect 0 coppice agree --with-dead --keep-tree --count 5 --json
good value 10 && good failed 'n[0,3]'
coppice restart n0 n3
expect 0 coppice agree --json
good value 12
# Nothing is left of all these groups, once the last members have heard of it.
until_true no_groups

# Somebody is stopped: the agent that was asked says which agreement did not end, and who is
# silent. None is called after it, and nothing is left of it when that one goes on.
coppice kill --signal STOP n11
expect 1 coppice agree --timeout 1s --count 3
grep -q '^not .*agreement 1 of 3 did not end within' <<<"$out" || die "$out"
grep -q '^silent .*n.*11' <<<"$out" || die "$out"
expect 1 coppice agree --timeout 1s --count 9 --window 2 --json
good status COP_ETIMEDOUT && good agreements 2 && good decided 0 && good results unknown
expect 1 coppice agree --from n11
grep -q 'the agent that was asked does not answer' <<<"$err" || die "$err"
coppice kill --signal CONT n11
until_true no_groups
expect 0 coppice agree --json
good value 12 && good silent ""

# Degraded: no view can be committed without those who are dead.
is_degraded() { out=$(coppice view --json | head -n 1) && [ "$(field degraded)" = true ]; }
# Stopped first: or those who die late might let the others commit a view without those who died early.
coppice kill --signal STOP n[5-11]
coppice kill n[5-11]
until_true is_degraded
expect 4 coppice agree --timeout 500ms
grep -q '^not .*too few members can be reached to change the view' <<<"$out" || die "$out"
expect 4 coppice agree --timeout 500ms --json
good status COP_EDEGRADED && good silent 'n[5-11]'
coppice down
assert_nothing_left
