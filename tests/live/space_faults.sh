#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What happens to processes, on hosts of their own: killed, stopped, started again; and one
# that joins over a link that loses every fourth frame.
HOSTS=6
. "$(dirname "$0")/lib_space.sh"
. "$(dirname "$0")/lib.sh"

begin_all
watch_all

before=$(incarnation_on 3)
kill -KILL "${agents[3]}"
wait "${agents[3]}" 2>/dev/null || true
all_on "0 1 2 4 5" "n[0-2,4-5]"
begin 3
all_on "$(everyone)" "n[0-5]"
[ "$(incarnation_on 3)" -gt "$before" ] || die "the same life again"

for host in 4 0; do
    before=$(incarnation_on $host)
    kill -STOP "${agents[host]}"
    rest=$(everyone | tr ' ' '\n' | grep -v "^$host$" | tr '\n' ' ')
    all_on "$rest" "$([ $host = 0 ] && echo 'n[1-5]' || echo 'n[0-3,5]')"
    kill -CONT "${agents[host]}"
    all_on "$(everyone)" "n[0-5]"
    [ "$(incarnation_on $host)" -gt "$before" ] || die "the same life of $host again"
done

# Gone while it is unplugged, and back when it is started again: nobody could say goodbye.
net unplug 5
all_on "0 1 2 3 4" "n[0-4]"
kill -KILL "${agents[5]}"
wait "${agents[5]}" 2>/dev/null || true
net loss 25 5 all
net plug 5
begin 5
all_on "$(everyone)" "n[0-5]"
net heal
check_watched
end_all
