#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where processes are: running, waiting in a system call, stopped (and they stay so), with
# threads, without symbols, gone meanwhile, and another user's.
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
CC=${CC:-cc}

"$CC" -O1 -g -fno-optimize-sibling-calls -pthread -o "$scratch/victim" \
    "$here/stacks_victim.c" || die "the victim does not compile"
cp "$scratch/victim" "$scratch/bare"
strip "$scratch/bare"

victims=()
# start PROGRAM ARGUMENT: it is at work when this returns; its number is in $pid.
start() {
    local line
    mkfifo "$scratch/ready" 2>/dev/null || true
    "$scratch/$1" "$2" >"$scratch/ready" &
    pid=$!
    victims+=("$pid")
    read -r line <"$scratch/ready"
    [ "$line" = ready ] || die "$1 $2 says '$line'"
}
end_victims() {
    kill -KILL "${victims[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
}
trap 'status=$?; set +e; end_victims; (exit $status); cleanup' EXIT

state() { sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status"; }
# await_state PID LETTER: until the kernel says so.
await_state() {
    until [ "$(state "$1")" = "$2" ]; do
        [ -e "/proc/$1" ] || die "$1 is gone"
    done
}
# await_place PID FUNCTION: until it is there; it has said "ready" a moment before.
await_place() {
    until "$COPPICE" stacks --pid "$1" | grep -qE "^ +$2\b"; do
        [ -e "/proc/$1" ] || die "$1 is gone"
    done
}
host=$(hostname)
host=${host:0:63}

start victim wait
waiting=$pid
"$COPPICE" stacks --pid "$waiting" >"$scratch/first" 2>&1 || {
    grep -q 'libdw' "$scratch/first" && { echo "no elfutils here"; exit 77; }
    grep -q 'permission denied' "$scratch/first" && { echo "no tracing here"; exit 77; }
    die "$(cat "$scratch/first")"
}

# ---- what each of them does ----
await_place "$waiting" pause
expect 0 coppice stacks --pid "$waiting"
grep -qE '^ +pause$' <<<"$out" || die "$out"
grep -qE '^ +outer_work$' <<<"$out" || die "$out"
grep -qE "^[^ ].*  1 $host:$waiting\$" <<<"$out" || die "$out"
[ -z "$err" ] || die "$err"

start victim spin
spinning=$pid
await_place "$spinning" spin_for_ever
expect 0 coppice stacks --pid "$spinning"
grep -qE '^ +spin_for_ever$' <<<"$out" || die "$out"
[ "$(state "$spinning")" = R ] || die "it does not run any more: $(state "$spinning")"

start victim spin
stopped=$pid
await_place "$stopped" spin_for_ever
kill -STOP "$stopped"
await_state "$stopped" T
for _ in 1 2 3; do
    expect 0 coppice stacks --pid "$stopped"
    grep -qE '^ +spin_for_ever$' <<<"$out" || die "$out"
    [ "$(state "$stopped")" = T ] || die "it was stopped, and is $(state "$stopped")"
done
# It is stopped, not traced, and goes on when it is told to.
grep -q '^TracerPid:[[:space:]]*0$' "/proc/$stopped/status" || die "somebody traces it"
kill -CONT "$stopped"
await_state "$stopped" R

# Together they are one tree: what they share once, then who is where.
expect 0 coppice stacks --exe "$scratch/victim"
[ "$(grep -c 'outer_work' <<<"$out")" = 1 ] || die "$out"
grep -qE "spin_for_ever  2 $host:\[" <<<"$out" || die "$out"
grep -qE "wait_for_ever  1 $host:$waiting" <<<"$out" || die "$out"
# By any name of the program: from here, and through a link; there, agents are elsewhere.
ln -s "$scratch" "$scratch/by-link"
for path in ./victim ././/victim by-link/victim "$scratch/by-link/victim"; do
    cd "$scratch"
    expect 0 coppice stacks --exe "$path" --pid "$waiting"
    cd - >/dev/null
    grep -qE "  1 $host:$waiting\$" <<<"$out" || die "--exe $path: $out"
done
expect 1 coppice stacks --exe "$scratch/by-link/other"
# One whose program was replaced or removed since has the name that it was started by.
cp "$scratch/victim" "$scratch/rebuilt"
start rebuilt wait
rm "$scratch/rebuilt"
expect 0 coppice stacks --exe "$scratch/rebuilt"
grep -qE "  1 $host:$pid\$" <<<"$out" || die "$out"
expect 0 coppice stacks --exe rebuilt
expect 0 coppice stacks --exe victim --pid "$waiting,$spinning"
grep -qE "spin_for_ever  1 $host:$spinning" <<<"$out" || die "$out"

start victim threads
threads=$pid
await_place "$threads" pause
expect 0 coppice stacks --pid "$threads"
grep -q thread_begin <<<"$out" || die "$out"
grep -q outer_work <<<"$out" || die "$out"
expect 0 coppice stacks --pid "$threads" --threads
[ "$(grep -oE ":[0-9]+" <<<"$out" | sort -u | wc -l)" = 2 ] || die "not two threads: $out"

start bare wait
await_place "$pid" pause
expect 0 coppice stacks --name bare
grep -qE '^ +bare\+0x[0-9a-f]+' <<<"$out" || die "$out"
grep -q pause <<<"$out" || die "$out"

# ---- other forms ----
all="$waiting,$spinning,$threads"
expect 0 coppice stacks --pid "$all" --json
grep -q "^{\"schema\":\"coppice.stacks.v1\",\"depth\":1,\"frame\":\"[^\"]*\",\"processes\":[123]," \
    <<<"$out" || die "$out"
expect 0 coppice stacks --pid "$all" --dot
grep -q '^digraph stacks {' <<<"$out" || die "$out"
[ "$(grep -c -- '->' <<<"$out")" = "$(grep -c '^    [1-9][0-9]* \[label' <<<"$out")" ] ||
    die "a tree has as many edges as nodes: $out"
expect 0 coppice stacks --pid "$all" --svg
[ "$(grep -c '<rect' <<<"$out")" -ge 8 ] || die "$out"
if command -v python3 >/dev/null; then
    python3 -c 'import sys, xml.dom.minidom as x; x.parseString(sys.argv[1])' "$out" ||
        die "no XML"
fi

# ---- many hosts: lines that anything may carry, joined where they arrive ----
expect 0 coppice stacks --pid "$waiting" --sample
{
    sed 's/^/n0: /' <<<"$out" # two agents of one machine
    sed 's/^/n1: /' <<<"$out"
    sed 's/^/n2: /; s/coppice-stack-1 [^ ]* [^ ]*/coppice-stack-1 far other-boot:1:2/' <<<"$out"
    echo "n3: no such process"
    echo "n4: coppice-stack-1 closed third-boot:1:2 M 12 permission denied"
} >"$scratch/lines"
expect 0 coppice stacks --read - <"$scratch/lines"
grep -qE "^[^ ].*  2 $host:$waiting,far:$waiting\$" <<<"$out" || die "$out"
[ "$(grep -c pause <<<"$out")" = 1 ] || die "$out"
grep -q 'closed:12: permission denied' <<<"$err" || die "$err"
expect 1 coppice stacks --read /dev/null
expect 2 coppice stacks --read "$scratch/lines" --pid 1
expect 2 coppice stacks --read "$scratch"
grep -q 'Is a directory' <<<"$err" || die "$err"
expect 0 coppice stacks --name nosuchprocess --sample
[ -z "$out" ] || die "$out"

# ---- who cannot be looked at is said, and does not keep the others from it ----
kill -KILL "$spinning"
wait "$spinning" 2>/dev/null || true
expect 0 coppice stacks --pid "$all"
grep -q "$spinning" <<<"$out" && die "it is dead: $out"
expect 1 coppice stacks --pid "$spinning"
grep -q 'no process on this host matches' <<<"$err" || die "$err"
# Those who end while they are looked at: whatever moment it is, it is said, and nothing is left held.
cp "$(type -P sleep)" "$scratch/brief"
(until [ -e "$scratch/enough" ]; do "$scratch/brief" 0; done) &
brief=$!
victims+=("$brief")
for _ in 1 2 3 4 5 6 7 8; do
    got=0
    said=$(coppice stacks --name brief 2>&1 >/dev/null) || got=$?
    [ $got -le 1 ] || die "exit $got: $said"
    said=$(grep -vE 'no process on (this host|these hosts) matches|nobody who matches could be looked at|stacks: [^:]*:[0-9]+: ' <<<"$said" || true)
    [ -z "$said" ] || die "$said"
done
: >"$scratch/enough"
wait "$brief" || die "one of those who end has not ended well"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    # As somebody who may not: this one's process and ours.
    chmod 0755 "$scratch"
    setpriv --reuid=65534 --regid=65534 --clear-groups "$scratch/victim" wait \
        >"$scratch/ready" &
    other=$!
    victims+=("$other")
    read -r line <"$scratch/ready"
    got=0
    both=$(setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
        --inh-caps=-all "$COPPICE" stacks --pid "$other,$threads" 2>&1) || got=$?
    [ $got = 0 ] || die "exit $got: $both"
    grep -q "$host:$threads: permission denied" <<<"$both" || die "$both"
    grep -qE "  1 $host:$other\$" <<<"$both" || die "$both"
fi

# ---- what can be typed wrongly ----
expect 2 coppice stacks
grep -q 'of which processes' <<<"$err" || die "$err"
for list in x 1,,2 1- '' 1,; do
    expect 2 coppice stacks --pid "$list"
    grep -q 'bad list' <<<"$err" || die "$err"
done
expect 2 coppice stacks --pid 1 --dot --svg
end_victims
assert_nothing_left
