#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Agents that were started by hand, from a file of members.
. "$(dirname "$0")/lib.sh"

file=$scratch/members
{
    echo '# three by hand'
    echo 'cluster 00112233445566778899aabbccddeeff'
    echo 'shape binomial'
    echo "0 alpha unix:a.sock"
    echo "1 beta unix:b.sock"
    echo "2 gamma unix:c.sock"
} >"$file"

agents=()
begin() {
    mkdir -p "$scratch/state-$1"
    "$COPPICE" agent --members "$file" --id "$1" --command "$scratch/$1.cmd" \
        --state "$scratch/state-$1" 2>>"$scratch/$1.log" &
    agents+=($!)
    taken() { [ -S "$scratch/$1.cmd" ]; }
    until_true taken "$1"
}
answers() {
    local code=0
    [ "$2" = 3 ] || code=1
    expect $code coppice probe --agent "$scratch/$1.cmd" --json --timeout 5s
    [ "$(field answered)" = "$2" ] || die "$out"
}
begin alpha
begin beta
begin gamma
# Who starts a little later is waited for, and not taken for dead: the view is the first.
three() {
    coppice probe --agent "$scratch/alpha.cmd" --timeout 5s >/dev/null 2>&1 &&
        coppice probe --agent "$scratch/gamma.cmd" --timeout 5s >/dev/null 2>&1
}
until_true three
answers alpha 3
answers gamma 3
for who in alpha beta gamma; do
    expect 0 coppice view --json --agent "$scratch/$who.cmd"
    [ "$(field epoch)" = 1 ] || die "$who was taken for dead: $out"
done

# The address, and the command socket, of somebody who lives are not taken over.
expect 1 coppice agent --members "$file" --id beta
[ "$err" = "coppice: unix:b.sock is taken: another process listens there" ] || die "$err"
expect 1 coppice agent --members "$file" --id beta --listen "unix:$scratch/x.sock" \
    --command "$scratch/beta.cmd"
[ "$(grep -c . <<<"$err")" -ge 1 ] || die "no message"
answers alpha 3

# Killed, and started again over what it left, by the same words: not its first start, as the
# file in its directory says, so it joins, as a new life of the same member.
kill -KILL "${agents[1]}"
wait "${agents[1]}" 2>/dev/null || true
expect 1 coppice probe --agent "$scratch/alpha.cmd" --json --timeout 5s
[ "$(field answered)" = 2 ] && [ "$(field dead)" = 1 ] || die "$out"
begin beta
agents[1]=${agents[3]}
unset 'agents[3]'
until_true three
answers beta 3
expect 0 coppice view --json --agent "$scratch/beta.cmd"
[ "$(field incarnation)" -gt 1 ] || die "its second life was the first: $out"
expect 2 coppice agent --members "$file" --id beta --first --state "$scratch"
expect 1 coppice agent --members "$file" --id beta --state "$scratch/none"
grep -q "$scratch/none/started" <<<"$err" || die "$err"

# They end when told, and cleanly.
for pid in "${agents[@]}"; do
    kill -TERM "$pid"
    wait "$pid" || die "an agent ended with $?"
done

# TCP wants to be asked for.
sed -i 's/^0 .*/0 alpha tcp:127.0.0.1:1/' "$file"
expect 2 coppice agent --members "$file" --id alpha
grep -q insecure <<<"$err" || die "$err"
expect 3 coppice probe --agent "$scratch/alpha.cmd"
assert_nothing_left
