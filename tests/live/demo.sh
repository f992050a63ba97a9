#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demonstration works without a terminal, shows what it promises, and cleans up; also
# when it is killed in the middle.
. "$(dirname "$0")/lib.sh"

expect 0 coppice demo
grep -q '^32 processes on this machine' <<<"$out" || die "$out"
grep -q '31 of 32 .*heal' <<<"$out" || die "no probe healed: $out"
grep -q 'dead.* n1$' <<<"$out" || die "the dead are not drawn: $out"
for stage in 'T_detect .*n2, the next in line' 'T_s .* 30 have acknowledged' \
    'T_commit .*30 members, root n2'; do
    grep -q "^  $stage" <<<"$out" || die "no '$stage': $out"
done
[ "$(grep -c '^  coppice ' <<<"$out")" = 3 ] || die "not three commands to try: $out"
grep -q $'\e' <<<"$out" && die "colours without a terminal"
[ -z "$err" ] || die "it complains: $err"
assert_nothing_left
LC_ALL=C expect 0 coppice demo --tcp -n 16 --probes 200
LC_ALL=C grep -q '[^ -~]' <<<"$out" && die "not ASCII: $out"
assert_nothing_left

"$COPPICE" demo --probes 100000 >/dev/null 2>&1 &
victim=$!
started() { [ "$(processes | wc -l)" -gt 30 ]; }
until_true started
kill -KILL $victim
wait $victim 2>/dev/null || true
assert_nothing_left
