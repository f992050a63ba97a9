#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clusters of different names do not know of each other; one of a name is enough.
. "$(dirname "$0")/lib.sh"

expect 0 coppice up -n 6 --name one
expect 0 coppice up -n 9 --name two --transport tcp --shape binomial
COPPICE_NAME=one probe_says 6 ""
probe_says 9 "" --name two
expect 1 coppice up -n 3 --name one
[ "$(wc -l <<<"$err")" = 1 ] || die "more than one line: $err"
expect 0 coppice kill n[1-2] --name one
probe_says 4 "n[1-2]" --name one
probe_says 9 "" --name two
expect 0 coppice down --name one
expect 3 coppice ps --name one
probe_says 9 "" --name two
# Two starts of one name at once: one of them wins, and its cluster is whole.
pids=()
for i in 1 2 3 4; do
    "$COPPICE" up -n 5 --name race >"$scratch/race.$i" 2>&1 &
    pids+=($!)
done
won=0
for pid in "${pids[@]}"; do
    wait "$pid" && won=$((won + 1))
done || true
[ "$won" = 1 ] || die "$won of 4 starts won: $(cat "$scratch"/race.*)"
probe_says 5 "" --name race
expect 0 coppice down --name race
expect 0 coppice down --name two
assert_nothing_left
