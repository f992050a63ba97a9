#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What an agent may do: as root no more than as anybody, and in its unit even less.
. "$(dirname "$0")/lib.sh"

expect 0 coppice up -n 3 --transport tcp
for pid in $(coppice ps --json | sed -n 's/.*"pid":\([0-9]*\).*/\1/p'); do
    for set in CapEff CapPrm CapInh CapAmb; do
        grep -q "^$set:.0*$" "/proc/$pid/status" || die "$(grep Cap "/proc/$pid/status")"
    done
    if [ "$(id -u)" = 0 ]; then
        grep -q "^CapBnd:.0*$" "/proc/$pid/status" || die "$(grep Cap "/proc/$pid/status")"
        grep -q "^NoNewPrivs:.1" "/proc/$pid/status" || die "it may gain privileges"
    fi
done
# Nothing that a member does needs them.
expect 0 coppice kill n1
expect 0 coppice restart n1
expect 0 coppice key rotate --name default
expect 0 coppice probe --json
expect 0 coppice down

unit=$(dirname "$0")/../../packaging/systemd/coppice-agent@.service
if command -v systemd-analyze >/dev/null; then
    sed "s:/usr/bin/coppice:$COPPICE:; s:^User=.*:User=root:; s:^Group=.*:Group=root:" "$unit" \
        >"$scratch/coppice-agent@x.service"
    systemd-analyze verify --man=no "$scratch/coppice-agent@x.service" >"$scratch/verify" 2>&1 ||
        die "$(cat "$scratch/verify")"
    ! grep -q coppice-agent "$scratch/verify" || die "$(cat "$scratch/verify")"
fi
assert_nothing_left
