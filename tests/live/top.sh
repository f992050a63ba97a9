#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# This host, and many hosts out of their lines; the same machine counts once. Of clusters: top_live.sh.
. "$(dirname "$0")/lib.sh"

expect 0 coppice top --here --once --interval 10ms
grep -qx '1 host' <<<"$out" || die "$out"
for metric in load cpu memory receive send; do
    grep -qE "^$metric +[0-9]" <<<"$out" || die "$metric is missing: $out"
done
expect 0 coppice top --sample --interval 1ms
line=$out
[ "$(wc -l <<<"$line")" = 1 ] || die "$line"
# Two agents of this machine, as `exec` would show them, and three other ones.
{
    echo "n0: $line"
    echo "n1: $line"
    echo "something else"
    for i in 1 2 3; do
        echo "coppice-host-1 host=h$i key=k$i load=500 cpu=50$i memory=100 receive=0 send=0"
    done
} >"$scratch/lines"
expect 0 coppice top --once --read "$scratch/lines"
grep -qx '4 hosts' <<<"$out" || die "$out"
grep -v 'n[01]:' "$scratch/lines" >"$scratch/three"
echo 'coppice-host-1 host=hot key=k9 load=500 cpu=990 memory=100 receive=0 send=0' >>"$scratch/three"
expect 0 coppice top --json --read - <"$scratch/three"
[ "$(wc -l <<<"$out")" = 5 ] || die "$out"
grep -q '"hosts":4,"metric":"cpu","min":501,.*"max":990,.*"outliers":\[{"host":"hot","value":990}\]' \
    <<<"$out" || die "$out"
# The members of a cluster sample; here they are one machine.
coppice up -n 4
coppice exec --stream -- "$COPPICE" top --sample --interval 1ms >"$scratch/all"
[ "$(grep -c coppice-host-1 "$scratch/all")" = 4 ] || die "$(cat "$scratch/all")"
expect 0 coppice top --json --read "$scratch/all"
[ "$(grep -c '"hosts":1,' <<<"$out")" = 5 ] || die "$out"
coppice down
expect 1 coppice top --read /dev/null
grep -q 'no line of' <<<"$err" || die "$err"
expect 2 coppice top --read "$scratch/nothing"
expect 2 coppice top --read "$scratch"
grep -q 'Is a directory' <<<"$err" || die "$err"
expect 2 coppice top --sample --json
expect 2 coppice top --read "$scratch/three" --sample
echo 'coppice-host-1 host=x' >"$scratch/bad"
expect 2 coppice top --read "$scratch/bad"
grep -q 'line 1 of' <<<"$err" || die "$err"
assert_nothing_left
