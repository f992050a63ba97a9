#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Members, and the root itself, die while a command runs: everyone who lives runs it once, the
# dead are named, and no process outlives its agent, its root or Ctrl-C.
. "$(dirname "$0")/lib.sh"

# A number of seconds that nobody else sleeps.
nap=$((100000 + $$))
commands() { pgrep -c -x -f "sleep $nap" || true; }
none() { [ "$(commands)" = 0 ]; }
some() { [ "$(commands)" -ge "$1" ]; }
at_most() { [ "$(commands)" -le "$1" ]; }
# A test that fails kills agents and minders at once, and nobody is left to kill these.
end_naps() {
    local pid
    for pid in $(pgrep -x -f "sleep $nap"); do
        kill -KILL "$pid" 2>/dev/null || true
    done
}
trap 'status=$?; set +e; end_naps; (exit $status); cleanup' EXIT

runs=$scratch/runs
gate=$scratch/gate
begun() { [ -f "$runs" ] && [ "$(wc -l <"$runs")" -ge "$1" ]; }
expect 0 coppice up -n 32

# ---- a relay, with a sub-tree below it, in the middle of a run ----
mkfifo "$gate"
"$COPPICE" exec --json -- sh -c "echo \$COPPICE_MEMBER >>$runs; cat $gate; :" \
    >"$scratch/json" 2>"$scratch/err" &
asker=$!
until_true begun 32
expect 0 coppice kill n1
expect 0 coppice kill n2
# Readers of the gate go on when the last writer has closed it.
exec 3>"$gate"
exec 3>&-
code=0
wait $asker || code=$?
out=$(cat "$scratch/json")
[ $code = 1 ] || die "exit status $code: $out"
[ "$(field dead)" = "n[1-2]" ] || die "dead: $out"
[ "$(field succeeded)" = 30 ] || die "succeeded: $out"
[ "$(sort "$runs" | uniq -d)" = "" ] || die "ran twice: $(sort "$runs" | uniq -d)"
expect 0 coppice restart n[1-2]

# ---- a relay that dies while the order is on its way ----
for i in 1 2 3; do
    rm -f "$runs"
    "$COPPICE" exec --json -- sh -c "echo \$COPPICE_MEMBER >>$runs" >"$scratch/json" 2>"$scratch/err" &
    asker=$!
    coppice kill n$i
    wait $asker || true
    out=$(cat "$scratch/json")
    [ "$(sort "$runs" | uniq -d)" = "" ] || die "ran twice: $(sort "$runs" | uniq -d)"
    for member in $(seq 0 31); do
        [ $member = $i ] || grep -qx "n$member" "$runs" || die "n$member did not run it: $out $(cat "$scratch/err")"
    done
    expect 0 coppice restart n$i
done

# ---- what a dead agent had running dies with it, also below a shell ----
"$COPPICE" exec -w n[4-7] -- sh -c "sleep $nap; :" >"$scratch/json" 2>"$scratch/err" &
asker=$!
until_true some 4
expect 0 coppice kill n5
until_true at_most 3

# ---- Ctrl-C: no process, and what has arrived is kept ----
kill -INT $asker
code=0
wait $asker || code=$?
[ $code = 130 ] || die "Ctrl-C gave $code: $(cat "$scratch/err")"
none || die "commands are left after Ctrl-C"
grep -q 'n\[4,6-7\] (3): killed by SIGTERM, cancelled' "$scratch/json" || die "$(cat "$scratch/json")"
grep -q 'dead: n5' "$scratch/err" || die "$(cat "$scratch/err")"
expect 0 coppice restart n5

# ---- the command itself is killed ----
"$COPPICE" exec -- sh -c "sleep $nap; :" >/dev/null 2>&1 &
asker=$!
until_true some 32
kill -KILL $asker
until_true none

# ---- the root is killed: what it had others run ends ----
"$COPPICE" exec --from n9 -w n[9-20] -- sh -c "sleep $nap; :" >/dev/null 2>"$scratch/err" &
asker=$!
until_true some 12
expect 0 coppice kill n9
code=0
wait $asker || code=$?
[ $code = 1 ] && grep -q 'the agent that was asked is gone' "$scratch/err" || die "$(cat "$scratch/err")"
until_true none

# ---- the cluster goes down while commands run ----
expect 0 coppice down
expect 0 coppice up -n 4
"$COPPICE" exec --from n0 -- sh -c "sleep $nap; :" >/dev/null 2>&1 &
asker=$!
until_true some 4
expect 0 coppice down
wait $asker || true
until_true none
assert_nothing_left

# ---- one is stopped: the outputs of all others are there, it is named as silent, and it does
# ---- not begin when it goes on: nobody waits for it any more ----
expect 0 coppice up -n 16
log=$XDG_RUNTIME_DIR/coppice/default/log
late() { [ "$(grep -c "^coppice\[$1\]: .*not begun, it came too late" "$log")" -ge "$2" ]; }
# Runs in the background; what it says is in $scratch/$1.out and .err.
start() {
    local name=$1
    shift
    "$COPPICE" exec "$@" -- sh -c "echo $name-\$COPPICE_MEMBER >>$runs; echo hi" \
        >"$scratch/$name.out" 2>"$scratch/$name.err" &
    askers[$name]=$!
}
ended() {
    local name=$1 code=0
    wait "${askers[$name]}" || code=$?
    out=$(cat "$scratch/$name.out")
    err=$(cat "$scratch/$name.err")
    [ $code = "$2" ] || die "$name: exit status $code: $out $err"
}
declare -A askers
rm -f "$runs"
"$COPPICE" exec --json -- sh -c "echo \$COPPICE_MEMBER >>$runs; cat $gate; :" \
    >"$scratch/middle.out" 2>"$scratch/middle.err" &
askers[middle]=$!
until_true begun 16
expect 0 coppice kill --signal STOP n5
exec 3>"$gate"
exec 3>&-
start text
start json --json -t 1s
start label --label
ended text 1
[ "$out" = $'-- n[0-4,6-15] (15)\nhi' ] || die "$out"
[ "$err" = 'coppice: no answer yet from n5
coppice: silent: n5 (stopped, or out of reach: see coppice ps; if dead for certain: coppice report)
coppice: 15 of 16 ran it with exit status 0' ] || die "$err"
ended json 1
[ "$(field silent)" = n5 ] && [ "$(field dead)" = "" ] && [ "$(field succeeded)" = 15 ] || die "$out"
ended label 1
[ "$(wc -l <<<"$out")" = 15 ] && grep -q 'silent: n5 (stopped' <<<"$err" || die "$out $err"
# This one it had begun: how it ended there is not known.
ended middle 1
[ "$(field silent)" = n5 ] && [ "$(field dead)" = "" ] && [ "$(field succeeded)" = 15 ] || die "$out"
expect 0 coppice kill --signal CONT n5
until_true late n5 3
grep -q -- '-n5$' "$runs" && die "n5 began after all: $(cat "$runs")"
expect 0 coppice exec -- true

# ---- one that carries others: they are silent with it, and do not begin after it either ----
rm -f "$runs"
expect 0 coppice kill --signal STOP n1
start relay --json
ended relay 1
[ "$(field dead)" = "" ] && grep -q '^n1$\|^n\[1[],-]' <<<"$(field silent)" || die "$out"
[ "$(field succeeded)" = "$(wc -l <"$runs")" ] || die "$out $(cat "$runs")"
before=$(sort "$runs")
expect 0 coppice kill --signal CONT n1
until_true late n1 1
expect 0 coppice exec -- true
[ "$(sort "$runs")" = "$before" ] || die "began after all: $(cat "$runs")"

# ---- it goes on while the root still waits: it runs it, once; or it is silent and does not ----
rm -f "$runs"
expect 0 coppice kill --signal STOP n5
start again --json
until_true begun 15
# Until the order is so old that it has to ask.
aged() { [ $(($(date +%s) - $(stat -c %Y "$runs"))) -gt 3 ]; }
until_true aged
expect 0 coppice kill --signal CONT n5
wait "${askers[again]}" || true
out=$(cat "$scratch/again.out")
ran=$(grep -c -- '-n5$' "$runs" || true)
case "$(field succeeded) $(field silent) $ran" in
"16  1" | "15 n5 0") ;;
*) die "$out $(cat "$runs")" ;;
esac
expect 0 coppice down
assert_nothing_left
