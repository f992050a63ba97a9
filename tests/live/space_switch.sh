#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The switch itself: what its orders do to frames, orders that it does not understand, and
# that nothing is left when the test, or the switch, is killed.
HOSTS=3
. "$(dirname "$0")/lib_space.sh"
. "$(dirname "$0")/lib.sh"

# reaches FROM TO: nobody listens there, so a host that is reached refuses, and another one
# is silent or has no address that is known.
reaches() {
    local said
    said=$("$SWITCH" --in "$1" timeout 2 bash -c 'exec 3<>"/dev/tcp/10.77.0.$0/7"' \
        "$(($2 + 1))" 2>&1) && die "somebody listens on host $2"
    grep -q 'Connection refused' <<<"$said"
}

reaches 0 1 || die "host 1 is not reached"
net cut 0 1-2
reaches 0 1 && die "a cut host is reached"
reaches 1 2 || die "host 2 is not reached"
net heal 0 1
patiently reaches 1 0
reaches 0 2 && die "healing healed too much"
net heal
net oneway 2 0
reaches 0 2 && die "the answer came back"
net heal
net loss 100 0 all
reaches 0 1 && die "all frames are lost, and it is reached"
net heal
net unplug 1
reaches 2 1 && die "an unplugged host is reached"
net plug 1
patiently reaches 2 1
net delay 50 0 1
patiently reaches 0 1
for order in "cut 0" "cut 0 3" "loss 101 0 1" "delay x 0 1" "unplug 1-" "jump 0" "heal 0 1 2" ""; do
    echo "$order" >&98
    read -r answer <&99
    [ "${answer:0:3}" = no: ] || die "the switch takes '$order': $answer"
done
expect 1 "$SWITCH" --in 9 true

# Killed, whoever it is: the one below it goes, too, and the one below that.
for victim in switch script; do
    "$SWITCH" 2 bash -c '"$0" --in 1 sleep 1000 & echo "$LIVE_SWITCH_PID $$ $!" >"$1"; wait' \
        "$SWITCH" "$scratch/pids" &
    patiently test -s "$scratch/pids"
    read -r switch script command <"$scratch/pids"
    rm "$scratch/pids"
    [ "$(readlink "/proc/$command/ns/net")" != "$(readlink "/proc/$script/ns/net")" ] ||
        die "the command is not on its host"
    kill -KILL "${!victim}"
    gone() { ! [ -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"; }
    for pid in "$switch" "$script" "$command"; do
        patiently gone "$pid"
    done
    wait 2>/dev/null || true
done
