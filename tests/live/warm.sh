#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Members hold a connection to whoever is their parent when the one that they have dies: after
# a death nobody waits for a handshake.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

# total COUNTER [MEMBER]: over all members but this one.
total() {
    coppice ps --stats 2>/dev/null |
        awk -v name="$1" -v but="${2:-}" '$2 == name && $1 != but { sum += $3 } END { print sum + 0 }'
}
spare() { echo $(($(total handshakes) - $(total handshakes_awaited))); }
has_spare() { [ "$(spare)" -ge "$1" ]; }

# loses MEMBER REST: it dies, and nobody waits for a handshake until all have the next view.
loses() {
    local before after
    before=$(total handshakes_awaited "$1")
    expect 0 coppice kill "$1"
    all_see "$2"
    after=$(total handshakes_awaited)
    [ "$after" = "$before" ] || die "$1: somebody waited for a handshake: $before, $after"
}

# n0; n1 to n4 below it, n5 to n20 below those, n21 to n29 below n5 to n7.
expect 0 coppice up -n 30 --transport tcp --shape radix:4
all_see "n[0-29]"
# All but the root have one, and but n1, which would be the root.
until_true has_spare 28
[ "$(spare)" = 28 ] || die "not one each: $(spare)"
# The children of n1 go to n0, which asks them for the next view.
loses n1 "n[0,2-29]"
# Nine below them have n0 two above them now; n3 to n8 would go to n2.
until_true has_spare $((28 + 9 + 6))
loses n0 "n[2-29]"
expect 0 coppice down
assert_nothing_left

# In clear there are none: a connection is made as fast as it is used.
expect 0 coppice up -n 3 --transport tcp --insecure --shape chain
expect 0 coppice ps --stats
grep -q handshakes <<<"$out" && die "in clear: $out"
expect 0 coppice down
assert_nothing_left
