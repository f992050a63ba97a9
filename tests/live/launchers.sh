#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Jobs of real launchers: their processes find each other without any configuration, and
# outlive each other where the launcher lets them.
. "$(dirname "$0")/lib.sh"

job=$BUILD/example_job
# A few bytes that libpmix itself never frees.
echo leak:libpmix >"$scratch/leaks"
export LSAN_OPTIONS=suppressions=$scratch/leaks:print_suppressions=0
agents=8
# As root, mpirun wants to be told twice that this is meant.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Its files must not meet those of another run of this test.
export TMPDIR=$scratch/t
mkdir "$TMPDIR"
recover=(--oversubscribe --enable-recovery)

missing=
for tool in mpirun.openmpi mpiexec.hydra; do
    command -v "$tool" >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    echo "SKIPPED: no$missing here (on Debian: apt-get install openmpi-bin mpich)"
    exit 77
fi

# counted N OF: N processes of the job each counted N of OF.
counted() {
    [ "$(grep -c "counts $1 of $2\$" <<<"$out")" = "$1" ] || die "$out"$'\n'"$err"
    [ "$(grep -c '^job: ' <<<"$out")" = "$1" ] || die "$out"$'\n'"$err"
}

echo "PMIx: Open MPI's mpirun"
expect 0 mpirun.openmpi "${recover[@]}" -n 8 "$job"
counted 8 8
expect 0 mpirun.openmpi "${recover[@]}" -n 8 "$job" 0 5
counted 6 8

echo "PMI-1: MPICH's mpiexec"
expect 0 mpiexec.hydra -n 8 "$job"
counted 8 8

echo "agents of a job, and commands to them"
mpirun.openmpi "${recover[@]}" -n $agents "$COPPICE" agent --command "$scratch/%r.sock" \
    >"$scratch/log" 2>&1 &
launcher=$!
answered() {
    out=$(coppice probe --agent "$scratch/$1.sock" --json 2>/dev/null)
    [ "$(field answered)" = "$2" ]
}
until_true answered 0 $agents
until_true answered 5 $agents
# Two jobs on one machine do not meet: the other one counts itself, and nobody else.
expect 0 mpirun.openmpi "${recover[@]}" -n 3 "$job"
counted 3 3
answered 0 $agents || die "$out"
# Nor does anybody join who has not the key of the job: not with one of its own, and not without any.
# port PID: where that process listens.
port() {
    local inode hex
    for inode in $(readlink /proc/"$1"/fd/* | sed -n 's/^socket:\[\(.*\)\]$/\1/p'); do
        hex=$(awk -v inode="$inode" '$4 == "0A" && $10 == inode {sub(".*:", "", $2); print $2}' \
            /proc/net/tcp)
        [ -z "$hex" ] || { echo $((0x$hex)); return; }
    done
}
for pid in $(processes); do
    grep -qszxF "PMIX_RANK=2" "/proc/$pid/environ" && contact=tcp:127.0.0.1:$(port "$pid")
done
expect 0 coppice key new "$scratch/own"
expect 4 coppice join --contact "$contact" --key "$scratch/own" --as foreign
grep -q 'did not accept what we prove ourselves with' <<<"$err" || die "$err"
expect 3 coppice join --contact "$contact" --insecure --as foreign
answered 0 $agents || die "$out"
# The root is killed; the rest has a view without it.
member() { coppice view --agent "$scratch/$1.sock" --json 2>/dev/null; }
for pid in $(processes); do
    grep -qszxF "PMIX_RANK=0" "/proc/$pid/environ" && kill -KILL "$pid"
done
without_root() {
    out=$(member 5)
    [ "$(field root)" = n1 ]
}
until_true without_root
# One that is told to end takes its socket with it.
for pid in $(processes); do
    grep -qszxF "PMIX_RANK=3" "/proc/$pid/environ" && kill -TERM "$pid"
done
no_socket() { [ ! -e "$scratch/3.sock" ]; }
until_true no_socket
# The launcher is killed, and cannot end its job: it ends all the same.
kill -KILL $launcher
wait $launcher || true
gone() { [ -z "$(processes)" ]; }
until_true gone

echo "exit codes"
expect 0 mpirun.openmpi --oversubscribe -n 2 true
expect 3 mpirun.openmpi --oversubscribe -n 2 bash -c 'exit 3'
expect 137 mpirun.openmpi --oversubscribe -n 2 bash -c 'kill -KILL $$'

echo "no launcher"
expect 1 "$job"
[ "$err" = "job: no launcher started this program (mpirun, srun --mpi=pmix or mpiexec would)" ] ||
    die "$err"
expect 2 coppice agent --command "$scratch/x.sock"
grep -q -- '--members and --id are needed' <<<"$err" || die "$err"

echo "an interface that is not there"
expect 1 env COPPICE_INTERFACE=nowhere0 mpirun.openmpi --oversubscribe -n 2 "$job"
grep -q 'COPPICE_INTERFACE=nowhere0 is neither' <<<"$err" || die "$err"
echo "a launcher that lies"
expect 1 env PMI_FD=99 PMI_RANK=0 PMI_SIZE=2 "$job"
grep -q "PMI connection is broken" <<<"$err" || die "$err"
expect 1 env PMI_FD=0 PMI_RANK=2 PMI_SIZE=2 "$job"
grep -q "do not fit together" <<<"$err" || die "$err"
echo done
