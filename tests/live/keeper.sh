#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whatever is killed, nothing is left behind: the keeper, the janitor, both, `up` itself.
. "$(dirname "$0")/lib.sh"

no_members() { [ -z "$(processes)" ]; }

expect 0 coppice up -n 16
kill -KILL "$(titled coppice:keeper)"
assert_nothing_left
expect 3 coppice ps

expect 0 coppice up -n 16
kill -KILL "$(titled coppice:janitor)"
assert_nothing_left

expect 0 coppice up -n 16
kill -TERM "$(titled coppice:keeper)"
assert_nothing_left

# Both at once: the directory stays, but the next command sees that it is stale.
expect 0 coppice up -n 16
kill -KILL "$(titled coppice:janitor)" "$(titled coppice:keeper)"
until_true no_members
expect 3 coppice ps
assert_nothing_left
expect 0 coppice up -n 4
kill -KILL "$(titled coppice:janitor)" "$(titled coppice:keeper)"
until_true no_members
expect 0 coppice up -n 4
probe_says 4 ""
expect 0 coppice down
assert_nothing_left

# A start that is interrupted in the middle.
for i in 1 2 3 4 5; do
    "$COPPICE" up -n 64 >/dev/null 2>&1 &
    victim=$!
    started() { [ "$(processes | wc -l)" -gt $((i * 8)) ] || ! kill -0 $victim 2>/dev/null; }
    until_true started
    kill -KILL $victim 2>/dev/null || true
    wait $victim 2>/dev/null || true
    # Either the keeper has noticed and ended everything, or it was just ready.
    settled() { nothing_left || coppice probe >/dev/null 2>&1; }
    until_true settled
    coppice down >/dev/null 2>&1 || true
    assert_nothing_left
done

# A stopped keeper cannot stop the cluster, so `down` kills it, and says so.
expect 0 coppice up -n 8
kill -STOP "$(titled coppice:keeper)" "$(titled coppice:janitor)"
expect 1 coppice down
grep -q 'does not answer: killed' <<<"$err" || die "$err"
assert_nothing_left
