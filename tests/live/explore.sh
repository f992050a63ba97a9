#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every protocol of the explorer is one of its own: a name that led to another one's schedules would
# be exhausted as nicely.
. "$(dirname "$0")/lib.sh"

seen=
for protocol in probe member agree coll stream 'coll --quorum none'; do
    expect 0 coppice explore --protocol $protocol --nodes 3 --crashes 1 --shape chain --json
    [ "$(field exhausted)" = true ] && [ "$(field violation)" = null ] || die "$out"
    states=$(field states)
    [[ " $seen " != *" $states "* ]] || die "$protocol: as many states as another one ($seen, $states)"
    seen+=" $states"
done

# And what it does not know it does not explore.
expect 2 coppice explore --protocol calls
grep -q "unknown protocol 'calls'" <<<"$err" || die "$err"

# What was not seen is not said to be right.
expect 1 coppice explore --protocol probe --nodes 4 --crashes 1 --shape chain --depth 3
grep -q "not exhausted" <<<"$out" && grep -q "behind --depth" <<<"$err" || die "$out$err"
expect 1 coppice explore --protocol probe --nodes 4 --crashes 2 --shape chain --memory 1
grep -q "than --memory" <<<"$err" || die "$out$err"
