#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 512 members: the root, an inner member and a tenth of all die, and a probe names exactly
# the dead.
. "$(dirname "$0")/lib.sh"

if [ "$(ulimit -Hn)" != unlimited ] && [ "$(ulimit -Hn)" -lt 600 ]; then
    echo "the limit of file descriptors is too low here"
    exit 77
fi
expect 0 coppice up -n 512
probe_says 512 ""
expect 0 coppice kill n0
probe_says 511 n0
expect 0 coppice kill n2
probe_says 510 "n[0,2]"
# Every tenth of the others, from 7 on.
tenth=$(seq -s, 7 10 511)
expect 0 coppice kill "n[$tenth]"
probe_says 459 "n[0,2,$tenth]"
probe_says 459 "n[0,2,$tenth]" --from n511
expect 0 coppice restart "n[0,2,$tenth]"
probe_says 512 "" --from n511
expect 0 coppice down
assert_nothing_left
