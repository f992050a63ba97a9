# SPDX-License-Identifier: Apache-2.0
# What the tests of examples share. EXAMPLE is the program. Each process writes to a file of
# its own; what is waited for is a line, not a time.
set -eu
: "${EXAMPLE:?the path of the example}"
scratch=$(mktemp -d /tmp/copex.XXXXXX)
cd "$scratch"
pids=()

cleanup() {
    local status=$? pid
    trap - EXIT
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    if [ $status -ne 0 ]; then
        tail -n 20 out.* >&2
    fi
    rm -rf "$scratch"
    exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# launch I ARGS...: in the background, with out.I and, as its input, the pipe in.I, which
# stays open. Its process number is ${pids[I]}.
launch() {
    local i=$1
    shift
    mkfifo "in.$i"
    "$EXAMPLE" "$@" <"in.$i" >"out.$i" 2>&1 &
    pids[i]=$!
    eval "exec {input_$i}>in.$i"
}

# tell I LINE: a line to its input.
tell() {
    local input=input_$1
    echo "$2" >&"${!input}"
}

# await I PATTERN: until a line of out.I matches.
await() {
    local rounds=0
    until grep -qE "$2" "out.$1" 2>/dev/null; do
        rounds=$((rounds + 1))
        [ $rounds -lt 600 ] || { echo "FAILED: out.$1 never had: $2" >&2; exit 1; }
        kill -0 "${pids[$1]}" 2>/dev/null || grep -qE "$2" "out.$1" ||
            { echo "FAILED: $1 ended, without: $2" >&2; exit 1; }
        sleep 0.05
    done
}

# ended I: waits for its end, which must be a success.
ended() {
    wait "${pids[$1]}" || { echo "FAILED: $1 ended with $?" >&2; exit 1; }
    unset "pids[$1]"
}

# await_count I PATTERN COUNT: until so many lines of out.I match.
await_count() {
    local rounds=0
    until [ "$(grep -cE "$2" "out.$1")" -ge "$3" ]; do
        rounds=$((rounds + 1))
        [ $rounds -lt 600 ] || { echo "FAILED: out.$1 never had $3 of: $2" >&2; exit 1; }
        sleep 0.05
    done
}
