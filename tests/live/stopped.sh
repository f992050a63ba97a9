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
