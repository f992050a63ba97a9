#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Agents that give a wave every millisecond, to a command that has been stopped and takes nothing, past a
# relay that is stopped and goes on: nobody's memory grows, and who watches the same is not held up.
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1

# Private memory of all agents, in KiB.
memory() {
    local pid sum=0 kib
    for pid in $(processes); do
        kib=$(sed -n 's/^RssAnon:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status" 2>/dev/null) || true
        sum=$((sum + ${kib:-0}))
    done
    echo $sum
}

coppice up -n 7 --shape radix:2 >/dev/null
exec 3< <(exec "$COPPICE" top --json --interval 1ms 2>/dev/null)
slow=$!
# outputs COUNT FD [PATTERN]: so many of them come (that have it).
outputs() {
    local line i=0
    while [ $i -lt "$1" ]; do
        IFS= read -r line <&"$2" || die "the outputs have ended"
        [[ $line == *'"metric":"load"'*${3-}* ]] && i=$((i + 1))
    done
}
outputs 1 3
kill -STOP "$slow" # a front-end that takes nothing
exec 4< <(exec "$COPPICE" top --json --interval 1ms 2>/dev/null)
watching=$!
outputs 50 4 '"complete":true'
before=$(memory)
outputs 150 4
coppice kill --signal STOP n1 # carries others
outputs 20 4 '"complete":false'
outputs 50 4
coppice kill --signal CONT n1
outputs 20 4 '"complete":true,"covered":7,"members":7'
after=$(memory)
[ "$after" -lt $((before + 8192)) ] || die "private memory has grown from $before to $after KiB"
kill -CONT "$slow"
outputs 20 3 '"complete":true' # it goes on where all are
kill "$slow" "$watching"
exec 3<&- 4<&-
wait 2>/dev/null || true
coppice down
assert_nothing_left
