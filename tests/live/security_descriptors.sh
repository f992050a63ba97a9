#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Strangers take all descriptors of a member: it takes them back when a member needs one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"
. "$(dirname "$0")/lib_security.sh"

(ulimit -n 120; coppice up -n 8 --transport tcp) >/dev/null
probe_says 8 ""
port=$(port_of n1)
pid=$(pid_of n1)
attack hold "$port" 400 '\x16\x03\x01' "$scratch/held"
holder=$attacker
held() { [ -e "$scratch/held" ]; }
until_true held
full() { [ "$(ls "/proc/$pid/fd" | wc -l)" -ge 110 ]; }
until_true full
# The root dies: n1 leads now, and needs connections that it did not have.
expect 0 coppice kill n0
all_see "n[1-7]"
expect 0 coppice restart n0
all_see "n[0-7]"
probe_says 8 "" --from n1
expect 0 coppice join --as late
all_see "late,n[0-7]"
end_attack $holder
once 'too many connections that say nothing' n1
expect 0 coppice down
assert_nothing_left
