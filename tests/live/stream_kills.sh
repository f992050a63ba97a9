#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who is killed, and when: two that are next to each other, a whole level, the root and the
# front-end, alone and together; before the first wave, and while orphans look for a parent. The sum
# is exact and the union whole. KILLS=all is every one of them, ROUNDS times (make soak).
. "$(dirname "$0")/lib.sh"

# trial KIND WHEN KILLS
runs=0
trial() {
    expect 0 coppice stream "$1" --waves 30 --window 4 --when "$2" --kill "$3" --json
    [ "$(field exact)" = true ] && [ "$(field misaligned)" = 0 ] && [ "$(field waves)" = 30 ] ||
        die "stream $1 --when $2 --kill $3: $out"
    runs=$((runs + 1))
}

if [ "${KILLS-}" = all ]; then
    for _ in $(seq "${ROUNDS:-1}"); do
        for kind in sum union levels; do
            for when in waves start recovery; do
                for kills in leaf inner pair level root front pair,root level,root inner,inner,inner \
                    root,root level,pair front,level front,root; do
                    trial $kind $when $kills
                done
            done
        done
    done
    echo "$runs trials"
else
    trial sum start pair
    trial union start root
    trial sum start front,level
    trial sum recovery inner,inner,root
    trial union recovery pair,level
    trial sum recovery root,root
    trial union waves front,pair
    trial levels waves inner,leaf,root
    trial levels recovery pair,level
fi
expect 2 coppice stream sum --when never
grep -q "not 'never'" <<<"$err" || die "$err"
assert_nothing_left
