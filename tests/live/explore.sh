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

# What the protocol would not look at is refused, in one line that says whose it is.
astray() {
    local text=$1
    shift
    expect 2 coppice "$@"
    [ "$err" = "coppice: $text" ] && [ -z "$out" ] || die "'$*': $out $err"
}
small='explore --nodes 2 --crashes 0 --protocol'
for option in '--algorithm tree' '--agreements 1' --promote --free; do
    for protocol in probe member coll stream; do
        astray "explore: ${option% *} is for --protocol agree, not for $protocol" \
            $small $protocol $option
    done
    expect 0 coppice $small agree $option
done
for protocol in probe member coll agree; do
    astray "explore: --stream is for --protocol stream, not for $protocol" \
        $small $protocol --stream 'sum waves 1'
done
astray 'explore: --quorum is for --protocol member, agree, coll or stream, not for probe' \
    $small probe --quorum none
for protocol in member agree stream; do
    astray "explore: --root is for --protocol probe or coll, not for $protocol" \
        $small $protocol --root 1
done
for protocol in member agree coll stream; do
    astray "explore: --outcome is for --protocol probe, not for $protocol" \
        $small $protocol --outcome
done
expect 0 coppice $small probe --outcome --root 1
expect 0 coppice $small coll --quorum majority --root 1
# The same of simulations.
for option in '--algorithm tree' --keep-tree; do
    for protocol in probe member coll; do
        astray "sim: ${option% *} is for --protocol agree, not for $protocol" \
            sim -n 4 --protocol $protocol $option
    done
    expect 0 coppice sim -n 4 --protocol agree $option
done
astray 'sim: --root is for --protocol probe or coll, not for agree' sim --protocol agree --root 1
astray 'sim: --count is for --protocol probe, coll or agree, not for member' \
    sim --protocol member --count 2
astray 'sim: --timeout is for --protocol probe or coll, not for member' \
    sim --protocol member --timeout 1s
astray 'sim: --outcome is for --protocol probe, not for coll' sim --protocol coll --outcome
astray 'sim: --algorithm is for --protocol agree, not for probe' sim --swarm --algorithm tree
astray 'sim: --protocol does not go with --script, which has all of it' \
    sim --script /dev/null --protocol agree

# What was not seen is not said to be right.
expect 1 coppice explore --protocol probe --nodes 4 --crashes 1 --shape chain --depth 3
grep -q "not exhausted" <<<"$out" && grep -q "behind --depth" <<<"$err" || die "$out$err"
expect 1 coppice explore --protocol probe --nodes 4 --crashes 2 --shape chain --memory 1
grep -q "than --memory" <<<"$err" || die "$out$err"
