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
done
expect 0 coppice bench sweep -n 5 --arity 4 --rounds 7 --repetitions 3 --no-idle
grep -q ' 5 .* ms .* ms .* ms ' <<<"$out" || die "$out"
assert_nothing_left
