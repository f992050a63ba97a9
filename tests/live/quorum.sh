#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may change the view. More than half of the members die at once: those that are left
# keep their view, say that they are degraded, and refuse what needs another one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

degraded() {
    out=$(coppice view --json --from "$1" 2>/dev/null) && return 1
    [ "$(field degraded)" = true ]
}

expect 0 coppice up -n 7
# Stopped first: otherwise the last of them may live long enough to agree on a view without
# the first.
expect 0 coppice kill --signal STOP n[0-3]
expect 0 coppice kill n[0-3]
for name in n4 n5 n6; do
    until_true degraded $name
    expect 4 coppice view --json --from $name
    [ "$(field members)" = "n[0-6]" ] || die "the view has changed: $out"
done
probe_says 3 "n[0-3]"
expect 0 coppice probe --help
expect 4 coppice leave n5
grep -q 'too few members' <<<"$err" || die "$err"
# Those who come back do not count for what they were.
expect 4 coppice restart n[0-1]
grep -q 'not in the view: n\[0-1\]' <<<"$err" || die "$err"
expect 4 coppice join --as x1
# Until somebody says that those who are left go on, of this view and no other.
expect 4 coppice view --json --from n4
epoch=$(field epoch)
expect 4 coppice view --go-on $((epoch + 1)) --from n4
grep -q 'look again' <<<"$err" || die "$err"
expect 0 coppice view --json --go-on "$epoch" --from n4
grep -q 'two clusters' <<<"$err" || die "$err"
[ "$(field degraded)" = false ] || die "still degraded: $out"
all_see "n[0-1,4-6],x1"
expect 4 coppice view --go-on "$(field epoch)"
grep -q 'nothing to decide' <<<"$err" || die "$err"
expect 0 coppice down
assert_nothing_left

# Two members, one death: no majority. With none, the one goes on alone.
expect 0 coppice up -n 2
expect 0 coppice kill n0
until_true degraded n1
expect 0 coppice down
expect 0 coppice up -n 2 --quorum none
expect 0 coppice kill n0
all_see n1
expect 0 coppice restart n0
all_see "n[0-1]"
expect 0 coppice down

# The side with these members goes on, whatever its size.
COPPICE_QUORUM=has:n[3-4] expect 0 coppice up -n 6
expect 0 coppice kill n[0-2,5]
all_see "n[3-4]"
expect 0 coppice kill n3
until_true degraded n4
expect 0 coppice down
assert_nothing_left
