#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job of MPI processes: nobody joins it who is not of it, each process ends with the status that
# it said, also after a death, and nothing is left of them.
. "$(dirname "$0")/lib_mpi.sh"

program=$BUILD/live_mpi_ends
[ -x "$program" ] || die "no $program: build it first"
# A job that is still under way when this fails ends with its launcher.
finish() {
    local status=$?
    kill "${launcher:-}" 2>/dev/null || true
    wait || true
    (exit $status) || cleanup
    cleanup
}
trap finish EXIT
mkdir "$scratch/t" "$scratch/pids"
export TMPDIR=$scratch/t
# Notes its number, and says how it ended.
cat >"$scratch/note" <<'EOF'
"$@" &
echo $! >"$pids/$OMPI_COMM_WORLD_RANK.new"
mv "$pids/$OMPI_COMM_WORLD_RANK.new" "$pids/$OMPI_COMM_WORLD_RANK"
status=0
wait $! || status=$?
echo "$OMPI_COMM_WORLD_RANK ended with $status"
EOF
# begin_job ARGS...: three processes. In shared memory, so that no socket but ours listens.
begin_job() {
    rm -f "$scratch/pids/"*
    pids=$scratch/pids mpirun.openmpi --oversubscribe --enable-recovery --mca pml ob1 \
        --mca btl vader,self -n 3 bash "$scratch/note" "$program" "$@" \
        >"$scratch/raw" 2>"$scratch/err" &
    launcher=$!
}
# ended LINES: the job is over, and this is what its processes ended with.
ended() {
    wait $launcher || die "mpirun failed with $?: $(cat "$scratch/err")"
    sort "$scratch/raw" >"$scratch/out"
    out=$(cat "$scratch/out")
    said "$1"
}
# left: what there is of a job that is over: processes, and files.
left() {
    local pid
    for pid in $(cat "$scratch/pids/"*); do
        [ ! "/proc/$pid/exe" -ef "$program" ] || echo "process $pid"
    done
    find "$TMPDIR" "$XDG_RUNTIME_DIR" ! -type d
}
# ports PID: where it listens.
ports() {
    local inode
    for inode in $(readlink "/proc/$1/fd/"* | sed -n 's/^socket:\[\(.*\)\]$/\1/p'); do
        awk -v inode="$inode" '$4 == "0A" && $10 == inode {sub(".*:", "", $2); print $2}' \
            /proc/net/tcp
    done
}

begin_job "$scratch/over" exit
listens() { [ -e "$scratch/pids/1" ] && [ -n "$(ports "$(cat "$scratch/pids/1")")" ]; }
until_true listens
contact=tcp:127.0.0.1:$((0x$(ports "$(cat "$scratch/pids/1")" | head -n 1)))
expect 0 coppice key new "$scratch/own"
expect 4 coppice join --contact "$contact" --key "$scratch/own" --as foreign
grep -q 'did not accept what we prove ourselves with' <<<"$err" || die "$err"
expect 3 coppice join --contact "$contact" --insecure --as foreign
echo "nobody else joins"

touch "$scratch/over"
ended "0 ended with 10
1 ended with 11
2 ended with 12"
[ -z "$(left)" ] || die "left: $(left)"
begin_job "$scratch/over" detach
ended "0 ended with 10
1 ended with 11
2 ended with 12"
[ -z "$(left)" ] || die "left: $(left)"
echo "each ends with its own status, and nothing is left"

begin_job "$scratch/over" lose
ended "0 ended with 10
1 ended with 137
2 ended with 12"
[ -z "$(left)" ] || die "left: $(left)"
echo "also after a death"
