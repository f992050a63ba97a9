# SPDX-License-Identifier: Apache-2.0
# What the live tests share; each sources this first. Every test has its own
# XDG_RUNTIME_DIR, so that two runs at once do not meet, and checks at its end that
# nothing of it is left: no process, no socket, no file.
set -eu

: "${COPPICE:?the path of the command}"
COPPICE=$(realpath "$COPPICE")
# A user's own settings must not change what is tested.
unset COPPICE_NAME COPPICE_SHAPE COPPICE_TRANSPORT COPPICE_TIMEOUT COPPICE_QUORUM COPPICE_KEY
unset COPPICE_DETECTOR COPPICE_GUARD COPPICE_HOSTS COPPICE_USER COPPICE_SSH COPPICE_REMOTE
unset COPPICE_PORT
export COPPICE_CONF=/dev/null
scratch=$(mktemp -d /tmp/cop.XXXXXX)
export XDG_RUNTIME_DIR=$scratch/r
mkdir -m 0700 "$XDG_RUNTIME_DIR"
export XDG_STATE_HOME=$scratch/state

# In the background use "$COPPICE" itself: $! would be the shell around this function.
coppice() { "$COPPICE" "$@"; }

# Processes of this test, by the environment that they were started with. A process that
# has ended and waits for its parent has no /proc/PID/exe, so it does not count.
processes() {
    local entry
    for entry in $(grep -lszxF "XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR" /proc/[0-9]*/environ); do
        entry=${entry%/environ}
        [ "$entry/exe" -ef "$COPPICE" ] && echo "${entry#/proc/}"
    done
    return 0
}

# The processes of this test whose title is $1 (coppice:keeper, coppice:janitor).
titled() {
    local pid
    for pid in $(processes); do
        # The kernel keeps 15 bytes.
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "${1:0:15}" ] && echo "$pid"
    done
    return 0
}

cleanup() {
    local status=$? pid
    trap - EXIT
    for pid in $(processes); do
        kill -KILL "$pid" 2>/dev/null || true
    done
    rm -rf "$scratch"
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() {
    echo "FAILED (line ${BASH_LINENO[1]}): $*" >&2
    exit 1
}

# expect CODE COMMAND...: runs it; its output is in $out and $err afterwards.
expect() {
    local wanted=$1 got=0
    shift
    "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
    out=$(cat "$scratch/out")
    err=$(cat "$scratch/err")
    [ "$got" = "$wanted" ] ||
        die "'$*' gave exit status $got, not $wanted"$'\n'"$out"$'\n'"$err"
}

# Tries a command until it is true: 400 times, 25 ms apart.
until_true() {
    local i
    for i in $(seq 400); do
        "$@" && return 0
        sleep 0.025
    done
    die "never came true: $*"
}

# field NAME: the value in the one JSON object in $out, as it is written there.
field() {
    sed -n "s/.*\"$1\":\(\"[^\"]*\"\|[^,}]*\).*/\1/p" <<<"$out" | tr -d '"'
}

nothing_left() {
    [ -z "$(processes)" ] && [ -z "$(ls -A "$XDG_RUNTIME_DIR")" ]
}

assert_nothing_left() {
    until_true nothing_left
}

# probe_says ANSWERED DEAD [options]: a probe finds exactly this.
probe_says() {
    local answered=$1 dead=$2 code=0
    shift 2
    [ -z "$dead" ] || code=1
    expect $code coppice probe --json "$@"
    [ "$(field answered)" = "$answered" ] || die "answered is not $answered: $out"
    [ "$(field dead)" = "$dead" ] || die "dead is not '$dead': $out"
    [ "$(field silent)" = "" ] || die "somebody is silent: $out"
}
