#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Streams of real processes: a leaf, an inner process, two that are next to each other, a whole
# level, the root and the front-end are killed, alone and one after the other. What comes out
# must be what was given, to the unit, and every complete wave aligned.
. "$(dirname "$0")/lib.sh"

# good WHAT VALUE: of the JSON in $out.
good() { [ "$(field "$1")" = "$2" ] || die "$1 is not $2: $out"; }

# under WHAT KILLS
under() {
    expect 0 coppice stream "$1" --waves 40 --kill "$2" --json
    good exact true && good waves 40 && good misaligned 0
}

expect 0 coppice stream sum --waves 40 --json
good exact true && good waves 40 && good living 8 && good misaligned 0
for kill in leaf inner pair level root front; do under sum $kill; done
under sum leaf,inner,root
under union level
under union front,pair,root
expect 0 coppice stream sum -n 13 --arity 3 --waves 40 --window 1 --kill 1+2,0+3 --json
good exact true && good living 9

for down in scatter select path; do
    expect 0 coppice stream sum --waves 40 --kill inner,leaf,root --down $down --json
    good exact true && good packets_down 40 && good wrong_down 0
done
expect 0 coppice stream sum --waves 40 --kill front,level --down path --json
good exact true && good packets_down 40 && good wrong_down 0
expect 0 coppice stream sum --waves 8 --down select
grep -q '^down  *8 packets through select; the living were given 40, of all 0 were wrong$' \
    <<<"$out" || die "$out"
expect 2 coppice stream sum --down sum
grep -q "scatter, select or path, not 'sum'" <<<"$err" || die "$err"

coppice key new "$scratch/key"
expect 0 coppice stream sum -n 7 --waves 40 --kill inner,root --key "$scratch/key" --json
good exact true

expect 2 coppice stream
expect 2 coppice stream product
expect 2 coppice stream sum --kill nobody
expect 2 coppice stream sum --kill 14
expect 2 coppice stream sum --kill root,front
expect 2 coppice stream sum -n 3
expect 1 coppice stream sum -n 4 --waves 4 --key "$scratch/none"
