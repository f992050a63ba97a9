#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A member that has the key and says what no honest one would: the others go on, their view
# is right, and what they keep stays bounded.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_security.sh"

hostile=${BUILD:?}/live_hostile
[ -x "$hostile" ] || { echo "no $hostile"; exit 77; }
# What a sanitizer does not give back is not kept by a member.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=1
expect 0 coppice key new "$scratch/key"
{
    printf 'cluster %s\n' "$(printf '12%.0s' $(seq 16))"
    for i in 0 1 2 3 4 5; do echo "$i n$i tcp:127.0.0.1:$(free_port)"; done
} >"$scratch/members"
agents=()
for i in 0 1 2 3 4; do
    "$COPPICE" agent --members "$scratch/members" --id n$i --first --key "$scratch/key" \
        --command "$scratch/c$i" 2>"$scratch/log$i" &
    agents+=($!)
done
five() {
    out=$("$COPPICE" probe --agent "$scratch/c0" --json --timeout 1s 2>/dev/null) || true
    [ "$(field answered)" = 5 ]
}
# n5 is the hostile one. It is there from the start, so it is in the view.
attack "$hostile" "$scratch/members" "$scratch/key" 5 3000 7
evil=$attacker
wait $evil || die "it could not connect: $(cat "$scratch/attacker")"
until_true five
for i in 0 1 2 3 4; do
    kill -0 "${agents[$i]}" || die "n$i is gone: $(cat "$scratch/log$i")"
    # At any time: what it was asked ends when the hostile one has gone.
    most=$(awk '/^VmHWM/ { print $2 }' "/proc/${agents[$i]}/status")
    [ "$most" -lt 65536 ] || die "n$i has grown to $most KiB"
    [ "$(grep -c '' "$scratch/log$i")" -lt 60 ] || die "the log of n$i is a flood"
    for reason in "is not for agents" "cut the connection to member 5"; do
        lines=$(in_log "$reason" "$scratch/log$i")
        [ "$lines" -ge 1 ] && [ "$lines" -le $((1 + SECONDS / 60)) ] ||
            die "'$reason' is $lines times in the log of n$i: $(cat "$scratch/log$i")"
    done
done
# All have the same view, with the five in it, and can change it.
same() {
    local i view first=
    for i in 0 1 2 3 4; do
        out=$("$COPPICE" view --agent "$scratch/c$i" --json 2>/dev/null) || true
        [ "$(field members)" = "n[0-4]" ] || return 1
        view=$(field epoch)
        [ "$view" = "${first:=$view}" ] || return 1
    done
}
until_true same
kill "${agents[4]}"
wait "${agents[4]}" || die "n4 ended with $?"
four() {
    out=$("$COPPICE" view --agent "$scratch/c0" --json 2>/dev/null) || true
    [ "$(field members)" = "n[0-3]" ]
}
until_true four
unset 'agents[4]'
kill "${agents[@]}"
wait "${agents[@]}" || die "an agent ended with $?"
assert_nothing_left
