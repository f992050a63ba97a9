#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Somebody between two members changes a byte, or cuts in the middle of a record: the
# connection is made again, and nothing is lost.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_security.sh"

expect 0 coppice key new "$scratch/key"
id=$(printf 'cd%.0s' $(seq 16))

# run HOW REASON: two members; whoever connects, there is a man in the middle.
run() {
    local how=$1 reason=$2 a b middle back agents=() pid other
    a=$(free_port) b=$(free_port) middle=$(free_port) back=$(free_port)
    printf 'cluster %s\n0 n0 tcp:127.0.0.1:%s\n1 n1 tcp:127.0.0.1:%s\n' "$id" "$a" "$b" \
        >"$scratch/true"
    sed "s/^1 n1 .*/1 n1 tcp:127.0.0.1:$middle/" "$scratch/true" >"$scratch/seen0"
    sed "s/^0 n0 .*/0 n0 tcp:127.0.0.1:$back/" "$scratch/true" >"$scratch/seen1"
    rm -f "$scratch"/*.ready
    attack between "$middle" "$b" "$how" "$scratch/spy"
    pid=$attacker
    attack between "$back" "$a" "$how" "$scratch/other"
    other=$attacker
    spied() { [ -e "$scratch/spy.ready" ] && [ -e "$scratch/other.ready" ]; }
    until_true spied
    "$COPPICE" agent --members "$scratch/seen1" --listen "tcp:127.0.0.1:$b" --id n1 --first --key "$scratch/key" \
        --command "$scratch/c1" 2>"$scratch/log1" &
    agents+=($!)
    listens() { [ -S "$scratch/c1" ]; }
    until_true listens
    "$COPPICE" agent --members "$scratch/seen0" --listen "tcp:127.0.0.1:$a" --id n0 --first --key "$scratch/key" \
        --command "$scratch/c0" 2>"$scratch/log0" &
    agents+=($!)
    both() {
        out=$("$COPPICE" probe --agent "$scratch/c0" --json --timeout 2s 2>/dev/null) || true
        [ "$(field answered)" = 2 ]
    }
    until_true both
    expect 0 coppice probe --agent "$scratch/c0" --count 20 --json
    [ "$(field complete)" = 20 ] || die "$how: $out"
    if [ -n "$reason" ]; then
        grep -q "$reason" "$scratch"/log? ||
            die "$how: nobody says: $reason"$'\n'"$(cat "$scratch"/log?)"
        ! grep -c "$reason" "$scratch"/log? | grep -qv ':[01]$' ||
            die "$how: more than once: $reason"$'\n'"$(cat "$scratch"/log?)"
    fi
    kill "${agents[@]}"
    wait "${agents[@]}" || die "$how: an agent ended with $?"
    end_attack $pid
    end_attack $other
    rm -f "$scratch"/c? "$scratch"/log?
}

run none ''
# In the first answer: its head, its middle, its last record.
run flip:0 'is not accepted: '
run flip:60 'is not accepted: '
run flip:200 'is not accepted: '
# After the handshake: in the frames of a member.
run flip:330 'what came is not what it sent'
# A first message that ends in the middle, and a frame that does.
run cut:100 ''
run cut:500 ''
assert_nothing_left
