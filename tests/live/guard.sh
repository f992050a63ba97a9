#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Not more than two removals a minute without an operator: three who die at once stay in the
# view, everybody can see why, and an operator's word lets them go. The next root, too, counts.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

held_is() {
    out=$("$COPPICE" view --json 2>/dev/null) || true
    [ "$(field held)" = "$1" ]
}

expect 0 coppice up -n 9 --guard 2
all_see "n[0-8]"
expect 0 coppice kill n[6-8]
until_true held_is "n[6-8]"
[ "$(field epoch)" = 1 ] && [ "$(field silent)" = "n[6-8]" ] || die "$out"
expect 1 coppice view
grep -q '^held by the guard: n\[6-8\]$' <<<"$out" || die "$out"
expect 0 coppice events
grep -q ' held by the guard: n\[6-8\]$' <<<"$out" || die "$out"
# Work goes on around them.
probe_says 6 "n[6-8]"
# Nothing commits meanwhile: who comes waits, and says so.
expect 4 coppice join --json
[ "$(field in_view)" = false ] || die "$out"
# An operator's word for one of them: the other two are within the limit.
expect 0 coppice report n7 --why 'pulled the plug'
all_see "n[0-5,9]"
[ "$(field held)" = "" ] && [ "$(field removed)" = "n[6-8]" ] || die "$out"
expect 0 coppice events --json
grep -q '"what":"held".*"count":0,"held":""' <<<"$out" && die "a snapshot shows what is over: $out"

# The two were counted by all who saw them go: the next root may not even remove the first.
expect 0 coppice kill n0
until_true held_is n0
[ "$(field from)" = n1 ] || die "$out"
# Nobody asks whom an operator names, however many, and these do not count.
expect 0 coppice report n0
all_see "n[1-5,9]"
expect 0 coppice kill n2 n3
until_true held_is "n[2-3]"
expect 0 coppice report n[2-3] --why 'the same rack'
all_see "n[1,4-5,9]"
# Back: none of that was a removal.
expect 0 coppice restart n0 n[2-3]
all_see "n[0-5,9]"
expect 4 coppice report n6 n7
[ "$(grep -c 'is not in the view' <<<"$err")" = 2 ] || die "$err"
expect 0 coppice down
assert_nothing_left

expect 0 coppice config --guard 3 --json
grep -q '"setting":"guard","value":"3","origin":"--guard"' <<<"$out" || die "$out"
