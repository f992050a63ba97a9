#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tables of scripts/compare: medians, intervals and ratios of numbers that are known.
. "$(dirname "$0")/lib.sh"
scripts=$(dirname "$0")/../../scripts
mkdir "$scratch/tables"

# Nine rounds, in another order than by value; theirs are 10 times ours but once 30 times.
# Of nine values the least and the largest hold the median in 99.6 %.
row() { printf 'killed\t8\t%s\t%s\t%s\n' "$@" >>"$scratch/samples"; }
for round in 3 1 2 9 8 7 6 5 4; do
    row coppice $round $((round * 1000000))
    row 'other, tuned' $round $((round * (round == 7 ? 30000000 : 10000000)))
done
# And one of a round in which we were not measured has no ratio.
row 'other, tuned' 10 50000000
printf 'third\tnot installed\n' >"$scratch/notes"
printf 'machine\tthis\n' >"$scratch/facts"
expect 0 "$scripts/compare-report" "$scratch/samples" "$scratch/notes" "$scratch/facts" "$scratch/tables"
grep -qF 'killed,8,coppice,ns,9,5000000,1000000,9000000,,,' "$scratch/tables/compare.csv" ||
    die "$(cat "$scratch/tables/compare.csv")"
grep -qF 'killed,8,other; tuned,ns,10,50000000,10000000,210000000,10,10,30' "$scratch/tables/compare.csv" ||
    die "$(cat "$scratch/tables/compare.csv")"
grep -qF '| 8 | other, tuned | 50.00 ms (10.00 ms - 210.00 ms) | 10 (10-30) | 10 |' <<<"$out" || die "$out"
grep -qF '| third | not installed |' <<<"$out" || die "$out"
[ "$(grep -c '^| 8 |' <<<"$out")" = 2 ] || die "$out"
# What README.md shows of it.
grep -qxF '| kill -9 until all survivors know, n = 8 | 5.00 ms | other, tuned 10.0 (10.0-30.0) |' "$scratch/tables/short.md" ||
    die "$(cat "$scratch/tables/short.md")"
grep -qxF '| third: what could not be measured | - | not installed |' "$scratch/tables/short.md" || die "$(cat "$scratch/tables/short.md")"
# Ours is what stood before theirs: the second of two turns in a round has its own.
cp "$scratch/samples" "$scratch/again"
printf 'start\t8\t%s\t1\t%s\n' coppice 10 a 20 coppice 40 b 40 >>"$scratch/again"
expect 0 "$scripts/compare-report" "$scratch/again" "$scratch/notes" "$scratch/facts" "$scratch/tables"
grep -qF 'start,8,a,ns,1,20,20,20,2,2,2' "$scratch/tables/compare.csv" || die "$(cat "$scratch/tables/compare.csv")"
grep -qF 'start,8,b,ns,1,40,40,40,1,1,1' "$scratch/tables/compare.csv" || die "$(cat "$scratch/tables/compare.csv")"

# Twenty rounds: three are cut off at each end.
: >"$scratch/samples"
for round in $(seq 20); do row coppice "$round" "$round"; done
expect 0 "$scripts/compare-report" "$scratch/samples" "$scratch/notes" "$scratch/facts" "$scratch/tables"
grep -qF 'killed,8,coppice,ns,20,10,4,17,,,' "$scratch/tables/compare.csv" || die "$(cat "$scratch/tables/compare.csv")"

expect 2 "$scripts/compare" nobody
grep -q "there is no 'nobody'" <<<"$err" || die "$err"
expect 2 "$scripts/compare-report" one
expect 1 env COPPICE=/nonexistent "$scripts/compare" serf
assert_nothing_left
