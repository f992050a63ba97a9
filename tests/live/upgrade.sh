#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two minor versions of the protocol in one cluster. Five agents of this version are replaced one
# by one, the root first, each killed with SIGKILL, by agents of the next (NEXT; cmake/tests.cmake);
# then two of them by this version again. After each step all have the same view, everybody
# answers and agrees, whichever version is asked, by commands of both.
. "$(dirname "$0")/lib.sh"
: "${NEXT:?the command of the next version}"

# Of both there may be processes.
now=$COPPICE next=$(realpath "$NEXT")
n=5
{
    echo "cluster 00112233445566778899aabbccddeeff"
    for ((i = 0; i < n; i++)); do echo "$i n$i unix:m$i"; done
} >"$scratch/members"
pids=() command=()
# start MEMBER COMMAND [--first]
start() {
    local i=$1
    command[i]=$2
    shift 2
    rm -f "$scratch/$i.sock"
    "${command[i]}" agent --members "$scratch/members" --id "n$i" --command "$scratch/$i.sock" "$@" \
        2>>"$scratch/log.$i" &
    pids[i]=$!
}
stop_all() {
    local status=$? pid
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    # What it ends with is that of the test.
    if (exit $status); then cleanup; else cleanup; fi
}
trap stop_all EXIT

# Member $1, asked by command $2, sees all of them and nobody else.
sees_all() {
    out=$("$2" view --agent "$scratch/$1.sock" --json 2>/dev/null) || return 1
    [ "$(field count)" = $n ] && [ "$(field degraded)" = false ]
}
answers() {
    out=$("$2" probe --agent "$scratch/$1.sock" --json 2>/dev/null) && [ "$(field answered)" = $n ]
}
agrees() {
    out=$("$2" agree --agent "$scratch/$1.sock" --json 2>/dev/null) &&
        [ "$(field value)" = $n ] && [ "$(field results)" = same ]
}
all_is_well() {
    local i
    for ((i = 0; i < n; i++)); do
        until_true sees_all $i "$now"
        until_true sees_all $i "$next"
    done
    # Asked of both versions, where there are both, by commands of both.
    for i in 0 $((n - 1)); do
        until_true answers $i "$now"
        until_true answers $i "$next"
        until_true agrees $i "$now"
        until_true agrees $i "$next"
    done
}
replace() {
    kill -KILL "${pids[$1]}"
    wait "${pids[$1]}" 2>/dev/null || true
    start "$1" "$2"
}

"$next" --version >/dev/null || die "the next version does not run"
for ((i = 0; i < n; i++)); do start $i "$now" --first; done
all_is_well
for ((i = 0; i < n; i++)); do
    replace $i "$next"
    all_is_well
done
replace 0 "$now"
replace 3 "$now"
all_is_well
# Nobody was taken for somebody else's.
! grep -h 'refused\|not what it sent\|cut the connection' "$scratch"/log.* || die "they do not get along"
for pid in "${pids[@]}"; do kill "$pid"; done
for pid in "${pids[@]}"; do wait "$pid" || die "an agent ended with $?"; done
echo "$n agents: upgraded one by one, two of them back"
