#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The root, inner members and a tenth of all die; every probe names exactly the dead,
# whoever asks.
. "$(dirname "$0")/lib.sh"

deaths() {
    expect 0 coppice up -n 64 "$@"
    probe_says 64 ""
    expect 0 coppice kill n0
    probe_says 63 n0
    probe_says 63 n0 --from n63
    # 1 and 5 are parent and child in radix:4: a member loses two generations at once.
    expect 0 coppice kill n[1,5]
    probe_says 61 "n[0-1,5]"
    probe_says 61 "n[0-1,5]" --from n21
    # A probe that has never seen the tree of this root, among the dead.
    probe_says 61 "n[0-1,5]" --from n40 --shape kary:2
    expect 0 coppice kill n[9,17,26,33,48,62]
    probe_says 55 "n[0-1,5,9,17,26,33,48,62]"
    probe_says 55 "n[0-1,5,9,17,26,33,48,62]" --from n61
    expect 0 coppice restart n[0-1,5,9,17,26,33,48,62]
    probe_says 64 ""
    probe_says 64 "" --from n61
    # All but one.
    expect 0 coppice kill '!n30'
    probe_says 1 "n[0-29,31-63]"
    expect 0 coppice down
    assert_nothing_left
}

deaths
deaths --transport tcp
