#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All hosts of a cluster as a stream of its agents: one of the host samples, whoever dies, is
# stopped or joins meanwhile, and the stacks of processes come by the same way.
. "$(dirname "$0")/lib.sh"

expect 3 coppice top --once
coppice up -n 7 >/dev/null
expect 0 coppice top --once --json --interval 20ms
[ "$(wc -l <<<"$out")" = 5 ] || die "$out"
[ "$(grep -c '"hosts":1,.*"complete":true,"covered":7,"members":7}' <<<"$out")" = 5 ] || die "$out"
expect 0 coppice top --once --interval 20ms
grep -qE '^1 host, 7 of 7 members, wave [0-9]+$' <<<"$out" || die "$out"

# The same screen after screen, without an end, while everything happens.
exec 3< <(exec "$COPPICE" top --json --interval 20ms 2>"$scratch/top.err")
top=$!
# await PATTERN: reads on until an output has it; never is the host counted twice.
await() {
    local line
    while IFS= read -r line <&3; do
        grep -q '"hosts":[01],' <<<"$line" || die "a host was sampled twice: $line"
        grep -q "$1" <<<"$line" && return 0
    done
    die "top has ended before '$1': $(cat "$scratch/top.err")"
}
await '"complete":true,"covered":7,"members":7}'
coppice kill n2 # carries nobody
await '"complete":true,"covered":6,"members":6}'
coppice kill n1 # carries others
await '"hosts":1,.*"complete":true,"covered":5,"members":5}'
coppice kill n0 # the root, and the one that was asked
await '"hosts":1,.*"complete":true,"covered":4,"members":4}'
grep -q 'n0 does not answer any more; going on with n3' "$scratch/top.err" ||
    die "$(cat "$scratch/top.err")"
coppice join >/dev/null
await '"hosts":1,.*"complete":true,"covered":5,"members":5}'
# One that is stopped holds up nobody: outputs come, without it; and with it when it goes on.
coppice kill --signal STOP n5
await '"complete":false'
coppice kill --signal CONT n5
await '"complete":true,"covered":5,"members":5}'
kill "$top"
exec 3<&-
wait "$top" 2>/dev/null || true

# On a terminal it is a screen, and a key ends it; so does Ctrl-C, which is no failure of its own,
# and leaves the terminal as it was.
# press KEY STATUS
press() {
    local seen='' part script got=0
    TERM=xterm script -qec "$COPPICE top --interval 20ms" /dev/null \
        <"$scratch/keys" >"$scratch/screen" &
    script=$!
    exec 4>"$scratch/keys" 5<"$scratch/screen"
    until [[ $seen == *"5 of 5 members"* ]]; do
        IFS= read -r -d m -u 5 part || die "the screen has ended: $seen"
        seen+=${part}m
    done
    printf "$1" >&4
    part=$(tr -d '\0' <&5)
    wait "$script" || got=$?
    [ $got = "$2" ] || die "exit status $got, not $2, after '$1'"
    [[ $part == *$'\e[?1049l'* ]] || die "the screen was not given back after '$1'"
    exec 4>&- 5<&-
}
if command -v script >/dev/null && "$COPPICE" --version >/dev/null; then
    mkfifo "$scratch/keys" "$scratch/screen"
    press q 0
    press '\003' 130
fi

# ---- stacks ----
# The one agent that looks at this host has bound a name for as long.
instance=$(sed -n 's/^instance //p' "$XDG_RUNTIME_DIR/coppice/default/members")
nobody_looks() { ! grep -q "coppice-samples-$(printf %x "$instance")-" /proc/net/unix; }
if coppice stacks --pid $$ >/dev/null 2>&1; then
    # Agents of root have none of its capabilities, and may look at nobody who has.
    lower=()
    [ "$(id -u)" != 0 ] || lower=(setpriv --bounding-set=-all --inh-caps=-all)
    if [ "$(id -u)" != 0 ] || command -v setpriv >/dev/null; then
        "${lower[@]}" sleep 1000 &
        sleeper=$!
        until grep -q sleep "/proc/$sleeper/comm"; do :; done
        expect 0 coppice stacks --cluster default --pid "$sleeper"
        grep -qE "^[^ ].*  1 n[0-9]+:$sleeper\$" <<<"$out" || die "$out"
        expect 0 coppice stacks --cluster default --pid "$sleeper" --json
        grep -q "\"depth\":1,.*\"members\":\"n[0-9]*:$sleeper\"" <<<"$out" || die "$out"
        # One that is stopped, and does not look at the host itself: what the others say is
        # shown.
        until_true nobody_looks
        coppice kill --signal STOP n5
        expect 1 coppice stacks --cluster default --pid "$sleeper" --timeout 10s
        grep -qE "^[^ ].*  1 n[0-9]+:$sleeper\$" <<<"$out" || die "$out"
        grep -q '4 of 5 members have answered; no answer from n5: ' <<<"$err" || die "$err"
        expect 1 coppice stacks --cluster default --name nosuchprocess --timeout 1s
        grep -qx 'coppice: stacks: no process matches: 4 of 5 members have answered; no answer from n5: stopped, or out of reach' \
            <<<"$err" || die "$err"
        # A short time is kept, too, whether that is enough for anybody or not.
        expect 1 coppice stacks --cluster default --pid "$sleeper" --timeout 10ms
        grep -qE '[1-4] of 5 members have answered|nobody has answered in time' <<<"$err" ||
            die "$err"
        coppice kill --signal CONT n5
        kill "$sleeper"
    fi
fi
# With the root stopped nobody can answer: whoever has less time is done while one who has more
# still waits.
socket=$XDG_RUNTIME_DIR/coppice/default/c6.sock
expect 0 coppice view --agent "$socket" --json
root=$(field root)
coppice kill --signal STOP "$root"
"$COPPICE" probe --agent "$socket" --timeout 7s >/dev/null 2>&1 &
longer=$!
expect 1 coppice stacks --agent "$socket" --name nosuchprocess --timeout 500ms
grep -qE "nobody has answered in time; no answer from ($root|.*\[$root,.*|[0-9,]*)" <<<"$err" || die "$err"
kill -0 "$longer" 2>/dev/null || die "500ms were not kept"
kill "$longer"
wait "$longer" 2>/dev/null || true
coppice kill --signal CONT "$root"
expect 1 coppice stacks --cluster default --name nosuchprocess
grep -q 'no process on these hosts matches' <<<"$err" || die "$err"
expect 2 coppice stacks --cluster default --pid 1 --sample
coppice down
coppice up -n 3 --quorum fixed >/dev/null
expect 4 coppice top --once
coppice down
expect 2 coppice top --here --name x
expect 2 coppice top --interval 10us
assert_nothing_left
