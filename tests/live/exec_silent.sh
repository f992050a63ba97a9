#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One member is stopped, and nobody finds it dead: what the others say is shown while the command
# still waits for it, and it is named; also where it is in a named group.
. "$(dirname "$0")/lib.sh"

expect 0 coppice up -n 8
expect 0 coppice group set web n[4-6]
expect 0 coppice group set db n[1-3]

asker=
# start ARGUMENT...: an exec in the background; what it says is in $scratch/said and heard.
start() {
    : >"$scratch/said"
    : >"$scratch/heard"
    "$COPPICE" exec "$@" >"$scratch/said" 2>"$scratch/heard" &
    asker=$!
}
# ended CODE: it ends with this exit status.
ended() {
    local code=0
    wait "$asker" || code=$?
    out=$(cat "$scratch/said")
    err=$(cat "$scratch/heard")
    [ $code = "$1" ] || die "exit status $code, not $1: $out $err"
}
told=' (stopped, or out of reach: see coppice ps; if dead for certain: coppice report)'
waits() { kill -0 "$asker" 2>/dev/null || die "it does not wait any more: $(cat "$scratch/heard")"; }
shows() { grep -qxF -- "$1" "$scratch/said"; }
names() { grep -qxF -- "coppice: no answer yet from $1" "$scratch/heard"; }

# ---- it is silent from the beginning, and dies while the command waits ----
expect 0 coppice kill --signal STOP n5
start -- echo hi
until_true shows '-- n[0-4,6-7] (7)'
until_true names n5
waits
expect 0 coppice kill n5
ended 1
[ "$out" = $'-- n[0-4,6-7] (7)\nhi' ] || die "$out"
[ "$err" = 'coppice: no answer yet from n5
coppice: dead: n5
coppice: 7 of 8 ran it with exit status 0' ] || die "$err"
expect 0 coppice restart n5

# ---- long outputs, which are fetched, and ends that differ; it comes back, and runs it, or is told
# ---- that nobody waits any more; nobody's output is shown twice ----
expect 0 coppice kill --signal STOP n5
start -- sh -c 'seq 2000; [ $COPPICE_MEMBER != n2 ]'
until_true shows '-- n[0-1,3-4,6-7] (6)'
until_true shows '-- n2 (1): exit 1'
until_true names n5
waits
expect 0 coppice kill --signal CONT n5
ended 1
[ "$(grep -cx 2000 <<<"$out")" = "$(grep -c '^-- ' <<<"$out")" ] || die "$out"
case "$(grep -c '^-- ' <<<"$out") $(grep -c 'silent: n5' <<<"$err")" in
"3 0" | "2 1") ;;
*) die "$out $err" ;;
esac

# ---- it stops while commands run: the others are shown when they end, and it is named ----
gate=$scratch/gate
runs=$scratch/runs
mkfifo "$gate"
begun() { [ -f "$runs" ] && [ "$(wc -l <"$runs")" = 8 ]; }
start -- sh -c "echo x >>$runs; cat $gate; echo hi"
until_true begun
expect 0 coppice kill --signal STOP n5
# Readers of the gate go on when the last writer has closed it.
exec 3>"$gate"
exec 3>&-
until_true shows '-- n[0-4,6-7] (7)'
until_true names n5
ended 1
[ "$out" = $'-- n[0-4,6-7] (7)\nhi' ] || die "$out"
grep -qx "coppice: silent: n5$told" <<<"$err" || die "$err"

# ---- nobody but those who are silent: for whom it waits is said before the end ----
start -w n5 -- echo hi
until_true names n5
waits
ended 1
[ "$err" = "coppice: no answer yet from n5
coppice: silent: n5$told
coppice: 0 of 1 ran it with exit status 0" ] && [ -z "$out" ] || die "$out $err"
# Asked itself, it is named, and another one is to be asked.
expect 1 coppice exec --from n5 -- echo hi
[ "$err" = 'coppice: n5 does not answer: it is stopped, or busy; ask another one' ] || die "$err"
expect 1 coppice probe --from n5 --timeout 100ms
[ "$err" = 'coppice: n5 does not answer: it is stopped, or busy; ask another one' ] || die "$err"

# ---- groups: the others know them, whoever is silent, and that is said ----
for agent in '' "--agent $XDG_RUNTIME_DIR/coppice/default/c7.sock"; do
    expect 0 coppice exec $agent -w @db -- echo hi
    [ "$out" = $'-- n[1-3] (3)\nhi' ] || die "$out"
    grep -qE '^coppice: exec: no answer from n?5: groups are as the others know them$' <<<"$err" ||
        die "$err"
done
expect 1 coppice exec -g web -t 1s -- echo hi
[ "$out" = $'-- n[4,6] (2)\nhi' ] || die "$out"
grep -qx 'coppice: exec: no answer from n5: groups are as the others know them' <<<"$err" || die "$err"
grep -qx "coppice: silent: n5$told" <<<"$err" || die "$err"
expect 2 coppice exec -w @nobody -- true
grep -q "there is no group 'nobody'" <<<"$err" || die "$err"
expect 0 coppice kill --signal CONT n5
expect 0 coppice exec -w @web,@db -- true
# All are stopped: that is said, and what to do, not that nobody lives; and the silence of each is
# not waited for.
expect 0 coppice kill --signal STOP n[0-7]
for words in 'exec -- true' view 'group list'; do
    expect 1 coppice $words
    go_on=$(sed -n "s/^coppice: no member of 'default' answers; first let those go on that are stopped: coppice //p" <<<"$err")
    [ "$go_on" = 'kill --name default --signal CONT n[0-7]' ] || die "$words: $err"
done
expect 0 coppice $go_on
expect 0 coppice exec -- true
expect 0 coppice down
assert_nothing_left
