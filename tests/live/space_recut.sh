#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Of nine, five go on without four. Then the five fall apart, and two of them meet the four:
# six of nine, but two of the five that are the cluster by now. Only the three may go on.
HOSTS=9
. "$(dirname "$0")/lib_space.sh"
. "$(dirname "$0")/lib.sh"

begin_all
watch_all

net cut 0-4 5-8
all_on "0 1 2 3 4" "n[0-4]"
net cut 0-1 2-4
net heal 0-1 5-8
all_on "2 3 4" "n[2-4]"
for host in 0 1; do
    patiently is_degraded $host
    [ "$(field members)" = "n[0-4]" ] || die "host $host has another view: $out"
done
# The four are out of the view that the two have, and the two cannot take them in.
for host in 5 6 7 8; do
    view_on $host && die "host $host has a view of its own: $out"
done
net heal
all_on "$(everyone)" "n[0-8]"

# The same while the five have only just begun: whoever has committed by then, there is one
# view for each epoch, and one view in the end.
net cut 0-4 5-8
patiently they_see 4 "n[0-4]"
net cut 0-1 2-4
net heal 0-1 5-8
all_on "2 3 4" "n[2-4]"
net heal
all_on "$(everyone)" "n[0-8]"
check_watched
end_all
