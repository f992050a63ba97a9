# SPDX-License-Identifier: Apache-2.0
# What the live tests of MPI programs share.
. "$(dirname "$0")/lib.sh"

command -v mpirun.openmpi >/dev/null && [ -e "$BUILD/libcoppice-mpi.so" ] || {
    echo "SKIPPED: no Open MPI here (on Debian: apt-get install openmpi-bin libopenmpi-dev)"
    exit 77
}
# As root, mpirun wants to be told twice that this is meant.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$scratch
# What Open MPI keeps is not ours to free.
export LSAN_OPTIONS=detect_leaks=0

# job N PROGRAM ARGS...: runs it with recovery; what it said, sorted, is in $out and $scratch/out.
# With recovery mpirun's exit status is 0 whatever becomes of the processes, unless mpirun itself
# fails.
job() {
    local n=$1 program=$BUILD/live_mpi_$2
    shift 2
    # mpirun --enable-recovery waits for ever for a program that is not there.
    [ -x "$program" ] || die "no $program: build it first"
    mpirun.openmpi --oversubscribe --enable-recovery --mca pml ob1 --mca btl tcp,self \
        --mca osc pt2pt --mca sharedfp ^sm \
        -n "$n" "$program" "$@" >"$scratch/raw" 2>"$scratch/err" ||
        die "mpirun failed with $?: $(cat "$scratch/err")"
    if grep -q FAILED "$scratch/err" "$scratch/raw"; then
        die "$(cat "$scratch/raw" "$scratch/err")"
    fi
    sort "$scratch/raw" >"$scratch/out"
    out=$(cat "$scratch/out")
}

# said WHAT: these lines, sorted, and no others.
said() {
    [ "$out" = "$1" ] || die "$(diff <(echo "$1") "$scratch/out")"$'\n'"$(cat "$scratch/err")"
}
