#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A stopped member is silent, not dead; it answers again when it goes on.
. "$(dirname "$0")/lib.sh"

expect 0 coppice up -n 8
probe_says 8 ""
expect 0 coppice kill n7 --signal STOP
expect 0 coppice ps n7
grep -q '^n7 .*stopped' <<<"$out" || die "$out"
expect 1 coppice probe --json --timeout 3s
[ "$(field answered)" = 7 ] && [ "$(field silent)" = n7 ] && [ "$(field dead)" = "" ] ||
    die "$out"
expect 0 coppice kill n7 --signal CONT
probe_says 8 ""
# A member cannot leave before all others have taken the view: it is said for whom that waits,
# while it does; and that it goes on, when the command gives up. Other commands name the silent one, too.
expect 0 coppice kill n7 --signal STOP
"$COPPICE" leave n3 2>"$scratch/leave" &
leave=$!
until_true grep -q 'n3 has not left yet: the view waits for n7$' "$scratch/leave"
for words in 'group set web n1' 'group list'; do
    expect 1 coppice $words
    grep -q 'group: no answer from n7 in time' <<<"$err" || die "$err"
done
got=0
wait $leave || got=$?
[ $got = 1 ] || die "leave gave exit status $got"
grep -q 'n3 was asked to leave, and has not left yet: no answer from n7; it will' "$scratch/leave" ||
    die "$(cat "$scratch/leave")"
expect 0 coppice kill n7 --signal CONT
has_left() { out=$(coppice view --json | head -n 1) && [ "$(field left)" = n3 ]; }
until_true has_left
expect 0 coppice restart n3
probe_says 8 ""
# Whatever waits for it says so, and goes on when it does.
waits_for_it() {
    local text=$1 pid
    shift
    expect 0 coppice kill n7 --signal STOP
    : >"$scratch/waits"
    "$COPPICE" "$@" >/dev/null 2>"$scratch/waits" &
    pid=$!
    until_true grep -qE "^coppice: $text n.*7" "$scratch/waits"
    expect 0 coppice kill n7 --signal CONT
    wait $pid || die "$* gave exit status $?: $(cat "$scratch/waits")"
}
waits_for_it 'drain: the view waits for' drain n3
waits_for_it 'drain: the view waits for' drain --undo n3
waits_for_it 'put: waiting, until --timeout is over, for' put "$0" "$scratch/put-%m"
waits_for_it 'join: the view waits for' join --as x1
probe_says 9 ""
expect 0 coppice leave x1
expect 0 coppice kill n7 --signal STOP
expect 1 coppice ps --stats n[6-7]
grep -q '^coppice: 1 of 2 members did not answer: n7 (dead, or stopped: coppice ps --name default' <<<"$err" || die "$err"
expect 0 coppice kill n7 --signal CONT
# An inner member: what is below it cannot answer through it.
expect 0 coppice kill n1 --signal STOP
expect 1 coppice probe --json --timeout 3s
[ "$(field dead)" = "" ] || die "somebody was taken for dead: $out"
grep -q 'n1\|n\[1' <<<"$(field silent)" || die "n1 is not silent: $out"
expect 0 coppice kill n1 --signal CONT
probe_says 8 ""
# Asked itself, it does not answer in time, and the command says so.
expect 0 coppice kill n[2-3] --signal STOP
expect 0 coppice down

# Who runs, but cannot be let in, is neither stopped nor gone: it is not in the view, and says so,
# whatever it is asked for, and however often.
refused() {
    expect 4 "$@"
    grep -q 'not in the view' <<<"$err" || die "$*: $err"
}
expect 0 coppice up -n 8
expect 0 coppice kill 'n[1-7]'
expect 4 coppice restart 'n[1-7]'
socket=$XDG_RUNTIME_DIR/coppice/default/c3.sock
for i in 1 2 3 4 5; do
    refused coppice probe --from n3
    refused coppice probe --agent "$socket"
    refused coppice bcast --from n3 hello
    refused coppice agree --from n3
    refused coppice exec --from n3 true
    refused coppice group list --agent "$socket"
done
expect 0 coppice down
assert_nothing_left
