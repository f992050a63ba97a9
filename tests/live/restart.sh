#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A restart that has to wait says for whom, and one that nobody can let in does not wait.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

state_is() { coppice ps "$1" | grep -q "^$1 .*$2"; }
says() { grep -qF -- "$1" "$scratch/terminal"; }

# ---- nobody lives: no waiting, nobody is started, and what to do ----
expect 0 coppice up -n 4
expect 0 coppice kill n[0-3]
for names in n0 n[0-3] 'n3 n1'; do
    expect 3 coppice restart $names
    [ "$err" = "coppice: no member of 'default' lives (see: coppice ps --name default); end it with: \
coppice down --name default, and start it again" ] || die "$err"
done
expect 0 coppice ps
[ "$(grep -c '^n. *dead' <<<"$out")" = 4 ] || die "$out"
expect 0 coppice down
# With a view that never changes nobody has to let them in.
expect 0 coppice up -n 4 --quorum fixed
expect 0 coppice kill n[0-3]
expect 0 coppice restart n[0-3]
probe_says 4 ""
expect 0 coppice down

# ---- those who live are stopped ----
expect 0 coppice up -n 4
expect 0 coppice kill n0
all_see "n[1-3]"
expect 0 coppice kill --signal STOP n[1-3]
expect 1 coppice restart n0
go_on=$(sed -n "s/.*no member of 'default' answers; .*: coppice \(kill .*\)$/\1/p" <<<"$err")
[ "$(grep -c '' <<<"$err")" = 1 ] && [ -n "$go_on" ] || die "$err"
expect 0 coppice $go_on
expect 0 coppice restart n0
probe_says 4 ""

# ---- one is silent, so the view cannot change: who waits for whom is said on a terminal ----
expect 0 coppice kill n2
all_see "n[0-1,3]"
expect 0 coppice kill --signal STOP n3
if command -v script >/dev/null; then
    : >"$scratch/terminal"
    TERM=xterm script -qfec "stty cols 60; '$COPPICE' restart n2" /dev/null </dev/null \
        >"$scratch/terminal" &
    terminal=$!
    until_true says 'restart, waiting for n2 to be let in: 0 of 1'
    expect 0 coppice kill --signal CONT n3
    wait $terminal || die "$(cat -v "$scratch/terminal")"
    probe_says 4 ""
    expect 0 coppice kill n2
    all_see "n[0-1,3]"
    expect 0 coppice kill --signal STOP n3
fi
# Interrupted, it keeps nobody else from it.
"$COPPICE" restart n2 &
waiting=$!
until_true state_is n2 starting
kill -TERM $waiting
wait $waiting 2>/dev/null || true
expect 4 coppice restart n2
[ "$err" = "coppice: started, but not in the view: n2; no answer from n3, without which the view does \
not change: continue it (coppice kill --name default --signal CONT n3), or end it (coppice kill \
--name default n3)" ] || die "$err"
# It goes on asking.
expect 0 coppice kill --signal CONT n3
all_see "n[0-3]"
expect 0 coppice down
assert_nothing_left
