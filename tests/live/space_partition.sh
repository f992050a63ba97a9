#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A network that falls into two: the side with the majority goes on without the others; those
# keep their view, say that they are degraded, and refuse. When it is whole again so is
# the view, without help.
HOSTS=7
. "$(dirname "$0")/lib_space.sh"
. "$(dirname "$0")/lib.sh"

begin_all

# The root is on the smaller side.
net cut 0-2 3-6
all_on "3 4 5 6" "n[3-6]"
for host in 0 1 2; do
    patiently is_degraded $host
    [ "$(field members)" = "n[0-6]" ] || die "host $host changed its view: $out"
done
expect 4 coppice leave --agent "$scratch/1.cmd"
grep -q 'too few members' <<<"$err" || die "$err"
probe_says 4 "[0-2]" --agent "$scratch/4.cmd"
net heal
all_on "$(everyone)" "n[0-6]"

# The root is on the larger side.
net cut 0-3 4-6
all_on "0 1 2 3" "n[0-3]"
patiently is_degraded 4
patiently is_degraded 6
net heal
all_on "$(everyone)" "n[0-6]"
probe_says 7 "" --agent "$scratch/5.cmd"
end_all
