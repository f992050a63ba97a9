#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where the others would be ended with the first process that dies, attaching is refused: at once,
# by all, and in words.
. "$(dirname "$0")/lib_mpi.sh"

# refused WHY COMMAND...: every process says why, and nobody hangs.
refused() {
    local why=$1 code=0
    shift
    "$@" >"$scratch/raw" 2>&1 || code=$?
    [ $code -ne 0 ] || die "not refused: $*"$'\n'"$(cat "$scratch/raw")"
    [ "$(grep -c "refused: .*$why" "$scratch/raw")" = "$count" ] || die "$(cat "$scratch/raw")"
}
count=2
refused 'start it with mpirun --enable-recovery' \
    mpirun.openmpi --oversubscribe -n 2 "$BUILD/live_mpi_refused"
refused 'start it with mpirun --enable-recovery' \
    mpirun.openmpi --oversubscribe --mca orte_enable_recovery false -n 2 "$BUILD/live_mpi_refused"
count=1
refused 'not started by mpirun' "$BUILD/live_mpi_refused"
echo "Open MPI: without recovery, and without mpirun"

# The same sources, compiled for MPICH, whose mpiexec ends everyone.
if ! command -v mpicc.mpich >/dev/null || nm "$BUILD/libcoppice.so" | grep -q __asan_; then
    echo "not tried: MPICH (not installed, or a build with sanitizers)"
    exit 0
fi
mpicc.mpich -D_GNU_SOURCE -I"$SOURCE/include" -I"$SOURCE/src" -o "$scratch/refused" \
    "$SOURCE/tests/live/mpi/refused.c" "$SOURCE"/src/mpi/*.c -L"$BUILD" -lcoppice \
    -Wl,-rpath,"$BUILD" -pthread
count=2
refused 'MPICH Version: *4.* ends the job when a process is killed: use Open MPI 4' \
    mpiexec.mpich -n 2 "$scratch/refused"
echo "MPICH"
