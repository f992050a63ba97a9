#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The benchmarks run, and say what they measured; how fast it was is not asked here.
. "$(dirname "$0")/lib.sh"

expect 0 coppice bench floor -n 4,8 --arity 2 --rounds 7 --repetitions 5 --json
[ "$(wc -l <<<"$out")" = 2 ] || die "$out"
grep -q '"floor_epoll_ns":{"median":[1-9]' <<<"$out" || die "$out"
for transport in unix tcp; do
    expect 0 coppice bench sweep -n 8 --arity 2 --rounds 8 --repetitions 5 \
        --transport $transport --idle 50ms --json
    [ "$(field n)" = 8 ] && [ "$(field transport)" = $transport ] || die "$out"
    grep -q '"over_blocking":{"median":[0-9.]*,"low":[0-9.]*,"high":[0-9.]*,"confidence":0.99' \
        <<<"$out" || die "$out"
    [ "$(field private_bytes)" -gt 0 ] || die "$out"
    # What all of them share is most of what they have; 4 % are theirs. A sanitizer takes much more.
    grep -q __asan "$COPPICE" || [ $((8 * $(field private_bytes))) -lt "$(field resident_bytes)" ] ||
        die "an idle agent has too much memory of its own: $out"
done
expect 0 coppice bench sweep -n 5 --arity 4 --rounds 7 --repetitions 3 --no-idle
grep -q ' 5 .* ms .* ms .* ms ' <<<"$out" || die "$out"

# Changes of the view: a line for each victim and one for all, then the two models.
for transport in unix tcp; do
    expect 0 coppice bench ts -n 8 --arity 2 --repeat 2 --repetitions 3 \
        --transport $transport --json
    [ "$(wc -l <<<"$out")" = 7 ] || die "$out"
    [ "$(field victim | paste -sd,)" = random,leaf,inner,root,any ] || die "$out"
    [ "$(field changes | paste -sd,)" = 2,2,2,2,8 ] || die "$out"
    [ "$(field model | paste -sd,)" = base,contention ] || die "$out"
    for key in detect_ns ts_ns commit_ns total_ns floor_ns floor_again_ns; do
        [ "$(grep -c "\"$key\":{\"median\":[1-9]" <<<"$out")" = 5 ] || die "$key: $out"
    done
done
# All are leaves but the root.
expect 0 coppice bench ts -n 5 --arity 4 --repeat 1 --repetitions 2 --csv
[ "$(cut -d, -f5 <<<"$out" | paste -sd,)" = victim,random,leaf,root,any ] || die "$out"
columns=$(head -1 <<<"$out" | tr -cd , | wc -c)
while read -r line; do
    [ "$(tr -cd , <<<"$line" | wc -c)" = "$columns" ] || die "$line"
done <<<"$out"
# One that is stopped takes as long to be noticed as its neighbours are patient.
for trigger in inquiry ring; do
    expect 0 coppice bench ts -n 6 --arity 2 --victim leaf --repeat 1 --repetitions 2 \
        --trigger $trigger --patience 30ms --json
    [ "$(head -1 <<<"$out" | sed 's/.*"detect_ns":{"median":\([0-9]*\).*/\1/')" -ge 25000000 ] ||
        die "$out"
done
expect 0 coppice bench ts -n 4 --arity 2 --victim root --repeat 1 --repetitions 2
grep -q '^ *4 *2 root .*(.*(.*(' <<<"$out" || die "$out"
grep -q '^contention: off by .*: off by' <<<"$out" || die "$out"
# Agreements: after deaths also in the tree as it was.
expect 0 coppice bench agree -n 8 --killed 0,4 --algorithm tree --sets 3 --operations 6 --warm-up 1 --json
[ "$(field killed | paste -sd,)" = 0,0,4,4,4 ] || die "$out"
[ "$(field algorithm | paste -sd,)" = allreduce,tree,allreduce,tree,tree ] || die "$out"
[ "$(field keep_tree | paste -sd,)" = false,false,false,false,true ] || die "$out"
# As many pieces as operations, at most; of the baseline each is its own pair.
[ "$(field pairs | sort -u)" = 6 ] || die "$out"
[ "$(grep -c '"paired_over_allreduce":{"median":1.0000,"low":1.0000,"high":1.0000,"confidence":0.99' <<<"$out")" -ge 2 ] || die "$out"
[ "$(grep -c '"paired_over_allreduce":{"median":[0-9.]*[1-9]' <<<"$out")" = 5 ] || die "$out"
# Calls: each number of them has a line.
expect 0 coppice bench rpc -n 8 --in-flight 1,100 --rounds 2 --requests 200 --json
[ "$(field in_flight | paste -sd,)" = 1,100 ] || die "$out"
[ "$(grep -c '"requests_per_second":{"median":[1-9]' <<<"$out")" = 2 ] || die "$out"
expect 2 coppice bench rpc --in-flight 0
# Whatever descriptors are open, or closed, when it is started.
expect 0 coppice bench floor -n 9 --arity 2 --rounds 7 --repetitions 3 3</dev/null 4</dev/null 5</dev/null
expect 0 coppice bench bcast -n 5 --arity 2 --rounds 2 --repetitions 3 <&-
# An empty request: the way there is a part of the way there and back.
expect 0 coppice bench bcast -n 3,9 --arity 2 --rounds 3 --repetitions 20 --json
[ "$(field n | paste -sd,)" = 3,9 ] || die "$out"
while read -r line; do
    # Not those in the middle: the two are timed one after the other, and the machine may have other work during one.
    there=$(sed 's/.*"one_way_ns":{"median":[0-9]*,"low":\([0-9]*\).*/\1/' <<<"$line")
    back=$(sed 's/.*"call_ns":{"median":[0-9]*,"low":[0-9]*,"high":\([0-9]*\).*/\1/' <<<"$line")
    [ "$there" -gt 0 ] && [ "$there" -lt "$back" ] || die "$line"
done <<<"$out"
expect 2 coppice bench bcast -n 1
# No tree has one child for each: said before anybody is started.
expect 2 coppice bench bcast -n 4 --arity 1
# Bulk, which a member has not all in memory.
expect 0 coppice bench bulk -n 7 --size 24M --chunk 64 --rounds 1 --json
[ "$(field bytes)" = 25165824 ] || die "$out"
grep -q '"share":{"median":[0-9.]*[1-9]' <<<"$out" || die "$out"
[ "$(field idle_bytes)" -gt 0 ] && [ "$(field grown_bytes)" -lt 16000000 ] || die "$out"
expect 0 coppice bench bulk --local -n 3 --size 1M --rounds 1 --json
grep -q '"gain":{"median":[0-9.]*[1-9]' <<<"$out" || die "$out"
expect 2 coppice bench bulk --size 12Q
expect 2 coppice bench bulk --shape square
assert_nothing_left
