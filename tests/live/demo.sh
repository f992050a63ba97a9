#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tour works without a terminal, shows what it promises, and cleans up, also when it is
# killed in the middle; and it says so when a service does not keep its promise.
. "$(dirname "$0")/lib.sh"

expect 0 coppice demo
grep -q '^64 processes on this machine' <<<"$out" || die "$out"
grep -q '^kill -9 of n0, the root, n2 and n15, inner, and n60, a leaf' <<<"$out" || die "$out"
for claim in 'view  *60 members with root n1; view [0-9]* is the same at all 60 of them' \
    'broadcast .*nobody who lives was missed; median' \
    'agreement .*the same result at all who live; median' \
    'stream  *[0-9]* waves of 64 processes of its own: the sum is exact, [0-9]*$'; do
    grep -q "^  ✓ $claim" <<<"$out" || die "no '$claim': $out"
done
# Before and after: whose parent has died is below another.
grep -q '^  n0 ─┬─ n1 ─┬─ n5 ── n\[21-24\]$' <<<"$out" || die "no tree: $out"
grep -q '^  n1 ─┬─ n3\* ' <<<"$out" || die "no tree of the survivors: $out"
grep -q ' n12\* ── n\[49-52\]$' <<<"$out" || die "n12 has no star: $out"
[ "$(grep -c "^  $COPPICE " <<<"$out")" = 3 ] || die "not three commands to try: $out"
grep -q $'\e' <<<"$out" && die "colours without a terminal"
[ -z "$err" ] || die "it complains: $err"
assert_nothing_left
LC_ALL=C expect 0 coppice demo --tcp -n 16
LC_ALL=C grep -q '[^ -~]' <<<"$out" && die "not ASCII: $out"
grep -q '^  ok view  *12 members with root n1' <<<"$out" || die "$out"
assert_nothing_left

# Somebody dies who is none of the victims: that is found out, in a sentence. On a busy machine
# the tour may be over before the kill.
is_up() {
    "$COPPICE" ps --name "demo-$demo" --json n1 >"$scratch/ps" 2>/dev/null || ! kill -0 $demo 2>/dev/null
}
for _ in $(seq 20); do
    "$COPPICE" demo -n 16 --json >"$scratch/out" 2>"$scratch/err" &
    demo=$!
    until_true is_up
    out=$(cat "$scratch/ps")
    [ -z "$out" ] || kill -KILL "$(field pid)" 2>/dev/null || true
    code=0
    wait $demo || code=$?
    [ $code = 0 ] || break
done
[ $code = 1 ] || die "a death of one more was not noticed: $code"
# One sentence on what failed; if the death was early, another on who did not end cleanly.
{ [ -s "$scratch/err" ] && [ "$(wc -l <"$scratch/err")" -le 2 ] && ! grep -qv '^coppice: ' "$scratch/err"; } ||
    die "not a sentence or two: $(cat "$scratch/err")"
assert_nothing_left

"$COPPICE" demo >/dev/null 2>&1 &
victim=$!
started() { [ "$(processes | wc -l)" -gt 30 ]; }
until_true started
kill -KILL $victim
wait $victim 2>/dev/null || true
assert_nothing_left
