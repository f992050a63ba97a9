#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Maintenance: who is drained stays a member, carries nobody, may be silent, and leaves with a
# goodbye when it is killed; the root hands over. Back again it is as before.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

drained_is() { view_is "n[0-8]" && [ "$(field drained)" = "$1" ]; }

expect 0 coppice up -n 9 --shape kary:2 --detector ring:300ms,witnesses:1 --guard 1
all_see "n[0-8]"
expect 0 coppice drain n0 n[1-2]
until_true drained_is "n[0-2]"
[ "$(field root)" = n3 ] || die "the root is drained: $out"
probe_says 9 ""
probe_says 9 "" --from n1
expect 0 coppice events --member n3
grep -q 'view [0-9]*: n1 drained$' <<<"$out" || die "$out"

# One that is stopped is not accused by the ring: it finds another that is stopped meanwhile.
expect 0 coppice kill n1 --signal STOP
expect 0 coppice kill n1 --signal CONT
probe_says 9 ""

# Killed, it has left, and the guard has nothing to say; restarted, it is not drained.
expect 0 coppice kill n1 n2
until_true view_is "n[0,3-8]"
[ "$(field left)" = "n[1-2]" ] && [ "$(field removed)" = "" ] && [ "$(field held)" = "" ] || die "$out"
expect 0 coppice restart n1 n2
until_true drained_is n0
expect 0 coppice drain n0 --undo
until_true drained_is ""
[ "$(field root)" = n0 ] || die "$out"
probe_says 9 ""

expect 0 coppice drain n3
expect 0 coppice drain n3
expect 2 coppice drain n77
expect 2 coppice drain
expect 2 coppice drain --agent x --name y n3
expect 3 coppice drain --agent "$scratch/nothing" n3
expect 0 coppice leave n3
expect 4 coppice drain n3
grep -q 'n3 is not in the view' <<<"$err" || die "$err"
expect 0 coppice down
assert_nothing_left

expect 0 coppice tree kary:2 7 --drained 1 --ascii
grep -q 'n1  (drained)' <<<"$out" || die "$out"
expect 2 coppice tree kary:2 3 --drained 0-2
