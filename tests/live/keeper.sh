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

# Whoever interrupts `up` has nothing left, or has it up and is told so; whenever it comes.
for i in 0 1 2 3 4 5 6 7; do
    for signal in INT TERM HUP; do
        env --default-signal=INT "$COPPICE" up -n 16 --transport tcp --name "i$i" \
            >"$scratch/up" 2>&1 &
        victim=$!
        started() { [ "$(processes | wc -l)" -gt $((i * 2 + 1)) ] || ! kill -0 $victim 2>/dev/null; }
        until_true started
        kill -$signal $victim 2>/dev/null || true
        code=0
        wait $victim || code=$?
        case $code in
        130) grep -q "interrupted: what was started of 'i$i' is stopped" "$scratch/up" ||
            die "$(cat "$scratch/up")" ;;
        0) grep -q '16 members up' "$scratch/up" || die "$(cat "$scratch/up")"
            expect 0 coppice down --name "i$i" ;;
        *) die "up ended with $code: $(cat "$scratch/up")" ;;
        esac
        nothing_left || die "something is left after $code: $(processes)"
    done
done
# Also when the members are up, and `up` does not know it yet.
before_it_knows() {
    local code=0 victim
    env --default-signal=INT "$COPPICE" up -n 64 >"$scratch/up" 2>&1 &
    victim=$!
    started() { [ -n "$(titled coppice:keeper)" ]; }
    until_true started
    if kill -STOP $victim 2>/dev/null; then
        all_up() { coppice ps 2>/dev/null | grep -q '64 running'; }
        until_true all_up
        kill -INT $victim
        kill -CONT $victim
    fi
    wait $victim || code=$?
    [ $code != 130 ] || return 0
    # It was faster.
    [ $code = 0 ] && grep -q '64 members up' "$scratch/up" || die "$code: $(cat "$scratch/up")"
    expect 0 coppice down
    return 1
}
until_true before_it_knows
nothing_left || die "something is left: $(processes)"

# A stopped keeper cannot stop the cluster, so `down` kills it, and says so.
expect 0 coppice up -n 8
kill -STOP "$(titled coppice:keeper)" "$(titled coppice:janitor)"
expect 1 coppice down
grep -q 'does not answer: killed' <<<"$err" || die "$err"
assert_nothing_left

# A stopped janitor holds the directory, though its work is done.
expect 0 coppice up -n 4
kill -STOP "$(titled coppice:janitor)"
expect 1 coppice down
grep -q "the janitor of 'default' does not end: it is killed" <<<"$err" || die "$err"
nothing_left || die "something is left: $(processes)"

# `down` ends what is just starting, however far it is.
for i in $(seq 40); do
    "$COPPICE" up -n 32 --transport tcp >"$scratch/up" 2>&1 &
    victim=$!
    until_true test -e "$XDG_RUNTIME_DIR/coppice/default/lock"
    expect 0 coppice down
    code=0
    wait $victim || code=$?
    [ $code = 1 ] && grep -q 'stopped by another command' "$scratch/up" ||
        { [ $code = 0 ] && grep -q 'members up' "$scratch/up"; } ||
        die "up ended with $code: $(cat "$scratch/up")"
    nothing_left || die "something is left: $(processes)"
done

# Who has the lock and does not go on can be found.
mkdir -m 0700 "$XDG_RUNTIME_DIR/coppice" "$XDG_RUNTIME_DIR/coppice/default"
: >"$XDG_RUNTIME_DIR/coppice/default/lock"
exec 9<"$XDG_RUNTIME_DIR/coppice/default/lock"
flock -x 9
expect 1 coppice down
grep -q "does not end: a process that does not answer holds .*/default/lock" <<<"$err" || die "$err"
exec 9<&-
expect 3 coppice down
assert_nothing_left
