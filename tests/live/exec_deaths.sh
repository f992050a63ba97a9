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
