#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One bad link between two members: neither is removed, for others reach both; and what
# happens elsewhere goes on.
HOSTS=7
SHAPE=kary:2
# Nobody is to be removed, however loaded the machine is.
DETECTOR=ring:800ms,witnesses:2
. "$(dirname "$0")/lib_space.sh"
. "$(dirname "$0")/lib.sh"

begin_all
watch_all

# Who came late at the start has joined: these are the lives that are to stay.
lives() {
    local host
    for host in 0 1 2 3 4 6; do
        incarnation_on $host
    done
}
before=$(lives)

dies() {
    kill -KILL "${agents[5]}"
    wait "${agents[5]}" 2>/dev/null || true
    all_on "0 1 2 3 4 6" "n[0-4,6]"
}

# The tree: 0 (2 (6 5) 1 (4 3)). Two leaves; two that are the root's; parents and children.
for link in "3 4" "1 2" "0 1" "1 3"; do
    net cut $link
    dies
    begin 5
    all_on "$(everyone)" "n[0-6]"
    net heal
done

[ "$(lives)" = "$before" ] || die "somebody was removed: $(lives), were $before"
check_watched
end_all
