#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# exec: what members say is folded by how it ended and what was said, cut off at the limit,
# streamed, and refused where nobody allowed it. Nothing of it stays.
. "$(dirname "$0")/lib.sh"

# A number of seconds that nobody else sleeps.
nap=$((200000 + $$))
no_commands() { ! pgrep -x -f "sleep $nap" >"$scratch/left"; }

expect 0 coppice up -n 7

# ---- folding ----
expect 0 coppice exec -- true
[ -z "$out$err" ] || die "silence was expected: $out$err"
expect 0 coppice exec -- echo same
[ "$out" = $'-- n[0-6] (7)\nsame' ] || die "$out"
expect 1 coppice exec -- sh -c 'echo $((COPPICE_ID / 4)); exit $((COPPICE_ID / 4 * 3))'
[ "$out" = $'-- n[0-3] (4)\n0\n-- n[4-6] (3): exit 3\n1' ] || die "$out"
grep -q '4 of 7 ran it with exit status 0' <<<"$err" || die "$err"
# The same text with another exit status is another end; no newline at its end is added.
expect 1 coppice exec -w n[1-3] -- sh -c 'printf x; [ $COPPICE_MEMBER != n2 ]'
[ "$out" = $'-- n[1,3] (2)\nx\n-- n2 (1): exit 1\nx' ] || die "$out"
expect 0 coppice exec -w n5 -- sh -c 'echo out; echo err >&2'
[ "$out" = $'-- n5 (1)\nout' ] && [ "$err" = $'-- n5 (1): standard error\nerr' ] || die "$out $err"
# Words go as they are.
expect 0 coppice exec -w n5 --from n3 -- printf '%s|' 'a  b' '$HOME' '' '*'
[ "$out" = $'-- n5 (1)\na  b|$HOME||*|' ] || die "$out"
expect 1 coppice exec -- "$scratch/nonesuch"
[ "$out" = '-- n[0-6] (7): cannot be started: No such file or directory' ] || die "$out"
expect 1 coppice exec -w n0 -- sh -c 'kill -9 $$'
[ "$out" = '-- n0 (1): killed by SIGKILL' ] || die "$out"
expect 1 coppice exec --json -w n[0-1] -- sh -c 'echo $COPPICE_MEMBER; exit 7'
[ "$(field members)" = n1 ] && [ "$(field succeeded)" = 0 ] && [ "$(field exit)" = 7 ] || die "$out"
# All bytes are there: NUL, too, and what is not UTF-8 as U+FFFD, also when it is cut off.
expect 0 coppice exec --json -w n1 -- printf 'a\0b\0'
grep -qF '"stdout":"a\u0000b\u0000","stdout_bytes":4,' <<<"$out" || die "$out"
expect 0 coppice exec --json -w n1 -- printf 'x\303\251\377\303'
grep -qF $'"stdout":"x\303\251\\ufffd\\ufffd","stdout_bytes":5,' <<<"$out" || die "$out"

# ---- what a command leaves is killed; its input; its time ----
expect 0 coppice exec -- sh -c "sleep $nap & echo done"
until_true no_commands
expect 0 coppice exec -i -w n[2-3] -- cat <<<'to all'
[ "$out" = $'-- n[2-3] (2)\nto all' ] || die "$out"
expect 0 coppice exec -w n2 -- cat
# Time enough to begin, on any machine.
expect 1 coppice exec -t 2s -w n[0,6] -- sh -c 'echo begun; [ $COPPICE_ID = 0 ] || sleep '$nap
[ "$out" = $'-- n0 (1)\nbegun\n-- n6 (1): killed by SIGTERM, timed out\nbegun' ] || die "$out"
# One that does not listen to SIGTERM.
expect 1 coppice exec -t 2s -w n6 -- sh -c "trap '' TERM; while :; do sleep 0.1; done"
[ "$out" = '-- n6 (1): killed by SIGKILL, timed out' ] || die "$out"
no_commands || die "commands are left"

# ---- long ones: more than a broadcast waits, equal and different long outputs ----
expect 0 coppice exec -- sh -c 'sleep 1.$COPPICE_ID; echo late'
[ "$out" = $'-- n[0-6] (7)\nlate' ] || die "$out"
expect 0 coppice exec -- seq 30000
[ "$(md5sum <<<"$out")" = "$({ echo '-- n[0-6] (7)'; seq 30000; } | md5sum)" ] || die "long outputs differ"
expect 0 coppice exec --from n4 -- sh -c 'seq $((30000 + COPPICE_ID % 2)); seq 9000 >&2'
{
    echo '-- n[0,2,4,6] (4)'
    seq 30000
    echo '-- n[1,3,5] (3)'
    seq 30001
} | cmp - "$scratch/out" || die "two long outputs"
[ "$(grep -c '^9000$' "$scratch/err")" = 2 ] || die "standard error: $(tail -3 "$scratch/err")"
expect 0 coppice exec --limit 20 -w n[1-2] -- seq 1000
[ "$out" = $'-- n[1-2] (2)\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10' ] || die "$out"
grep -q 'n\[1-2\]: standard output is cut off after 20 of 3893 bytes' <<<"$err" || die "$err"

# ---- on a terminal: how far it is, in one line, which is no longer than the terminal is wide ----
if command -v script >/dev/null; then
    wait_for="until [ -e $scratch/seen ]; do sleep 0.1; done"
    TERM=xterm script -qfec "stty cols 30; '$COPPICE' exec -w n[0,2,4,6] -- sh -c '$wait_for'" /dev/null \
        </dev/null >"$scratch/terminal" &
    terminal=$!
    until_true grep -q 'waiting for n\[0: 0 of 4' "$scratch/terminal"
    : >"$scratch/seen"
    wait "$terminal"
    tr '\r' '\n' <"$scratch/terminal" | sed 's/\x1b\[K//' | grep waiting >"$scratch/shown"
    ! grep -qE '.{30}' "$scratch/shown" || die "$(cat -v "$scratch/shown")"
fi

# ---- streams ----
expect 0 coppice exec -l -- sh -c 'echo a; echo b >&2; printf c'
[ "$(sort <<<"$out" | head -3)" = $'n0: a\nn0: c\nn1: a' ] || die "$out"
[ "$(wc -l <<<"$out")" = 14 ] && [ "$(sort -u <<<"$err" | wc -l)" = 7 ] || die "$out $err"
expect 0 coppice exec --stream -w n[3-4] -- seq 20000
[ "$(sort -n <<<"$out" | uniq -c | awk '$1 != 2' | wc -l)" = 0 ] || die "lines are lost"
[ "$(wc -l <<<"$out")" = 40000 ] || die "lines are lost: $(wc -l <<<"$out")"

# ---- output that cannot be written: why, also if that was found out early; no success ----
for how in "" --stream --label --json; do
    [ -w /dev/full ] || break
    expect 1 bash -c 'exec "$0" exec $1 -- echo x >/dev/full' "$COPPICE" "$how"
    [ "$err" = 'coppice: cannot write the output: No space left on device' ] || die "exec $how: $err"
    expect 1 bash -c 'exec "$0" exec $1 -- echo x >&-' "$COPPICE" "$how"
    [ "$err" = 'coppice: cannot write the output: it is closed' ] || die "exec $how: $err"
done
expect 0 bash -c 'exec "$0" exec -- true >&-' "$COPPICE"

# ---- the log has every run, with its origin ----
log=$XDG_RUNTIME_DIR/coppice/default/log
grep -q "^coppice\[n5\]: exec: $(id -un) at n3: printf %s| a  b" "$log" || die "$(tail -3 "$log")"

# ---- mistakes ----
bad() {
    local code=$1 text=$2
    shift 2
    expect "$code" "$@"
    [ "$(grep -c '' <<<"$err")" = 1 ] && grep -qF -- "$text" <<<"$err" || die "'$*': $err"
}
bad 2 'an operand is missing' coppice exec
bad 2 "there is no member 'n9'" coppice exec -w n9 -- true
bad 2 'too long' coppice exec -- echo "$(seq 2000)"
head -c 4000 /dev/zero | bad 2 'too long' coppice exec -i -- cat
head -c 5000 /dev/zero | bad 2 'bytes of standard input at most' coppice exec -i -- cat
bad 2 'excludes --stream' coppice exec --json --stream -- true
bad 2 'a time such as' coppice exec -t 5 -- true
bad 3 'no cluster' coppice exec --name other -- true
bad 2 'excludes --name' coppice exec --agent x --name y -- true
expect 0 coppice down
assert_nothing_left

# ---- who may ----
bad 2 '--allow-exec' coppice up -n 2 --allow-exec 'n[1'
expect 0 coppice up -n 3 --allow-exec n1
expect 4 coppice exec -- true
grep -q 'refused: n\[0-2\]' <<<"$err" || die "$err"
expect 0 coppice exec --from n1 -- true
grep -q "exec: refused, by $(id -un) at n0: true" "$log" || die "$(tail -3 "$log")"
expect 0 coppice down
expect 0 coppice up -n 2 --transport tcp --insecure
expect 4 coppice exec -- true
expect 0 coppice down
expect 0 coppice up -n 3 --quorum fixed
expect 0 coppice exec -- seq 5000
bad 4 'cannot stream' coppice exec --stream -- true
expect 0 coppice down
assert_nothing_left
