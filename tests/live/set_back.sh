#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A member whose clock was set back: its life has a lower number than the one before it, which
# the others know. It is told, and goes on as one after that; also where the view is fixed.
. "$(dirname "$0")/lib.sh"

file=$scratch/members
agents=()
begin() {
    local name=$1
    shift
    "$COPPICE" agent --members "$file" --id "$name" --command "$scratch/$name.cmd" "$@" \
        2>>"$scratch/$name.log" &
    agents+=($!)
    last=$!
    taken() { [ -S "$scratch/$name.cmd" ]; }
    until_true taken
}
all_answer() {
    local who
    for who in alpha beta gamma; do
        coppice probe --agent "$scratch/$who.cmd" --timeout 5s >/dev/null 2>&1 || return 1
    done
}
end_hard() {
    kill -KILL "$1"
    wait "$1" 2>/dev/null || true
    # Whoever comes next must not find the sockets of this one.
    rm -f "$scratch/beta.cmd"
}

set_back() {
    local future=$((($(date +%s) + 86400) * 1000000000))
    {
        echo 'cluster 00112233445566778899aabbccddeeff'
        echo "quorum $1"
        echo "0 alpha unix:a.sock"
        echo "1 beta unix:b.sock"
        echo "2 gamma unix:c.sock"
    } >"$file"
    agents=()
    begin alpha --first
    begin gamma --first
    begin beta --first
    until_true all_answer
    end_hard "$last"
    begin beta --incarnation "$future"
    until_true all_answer
    end_hard "$last"
    begin beta
    until_true all_answer
    expect 0 coppice view --json --agent "$scratch/beta.cmd"
    [ "$(field incarnation)" -gt "$future" ] || die "$1: not later than its last life: $out"
    for pid in "${agents[0]}" "${agents[1]}" "$last"; do
        kill -TERM "$pid"
        wait "$pid" || die "an agent ended with $?"
    done
    rm -f "$scratch"/*.cmd
}

set_back majority
set_back fixed
grep -q "a later life of beta is known" "$scratch/beta.log" || die "$(cat "$scratch/beta.log")"
assert_nothing_left
