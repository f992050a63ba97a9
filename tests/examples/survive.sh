# SPDX-License-Identifier: Apache-2.0
# An MPI program on a stock Open MPI loses processes, rank 0 among them, and goes on.
. "$(dirname "$0")/lib.sh"

command -v mpirun.openmpi >/dev/null || {
    echo "SKIPPED: no mpirun.openmpi here (on Debian: apt-get install openmpi-bin)"
    exit 77
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$scratch
# What Open MPI keeps is not ours to free.
export LSAN_OPTIONS=detect_leaks=0
start=(mpirun.openmpi --oversubscribe --mca pml ob1 --mca btl tcp,self)

# said N TEXT: exactly N processes said it.
said() {
    [ "$(grep -c "$2\$" out.0)" = "$1" ] || { echo "FAILED: not $1 times: $2"; exit 1; }
}
"${start[@]}" --enable-recovery -n 4 "$EXAMPLE" >out.0 2>&1
said 4 ': 4 left, sum 6'
said 4 ': 0 failed'
echo "nobody died"

"${start[@]}" --enable-recovery -n 8 "$EXAMPLE" 0 5 3 >out.0 2>&1
said 8 ': 8 left, sum 28'
said 7 ': 7 left, sum 28'
said 6 ': 6 left, sum 23'
said 5 ': 5 left, sum 20'
said 5 ': 3 failed'
echo "three of eight died"

# Where the others would be ended with the first to die, it is refused at once.
if "${start[@]}" -n 2 "$EXAMPLE" >out.0 2>&1; then
    echo "FAILED: not refused"
    exit 1
fi
grep -q 'start it with mpirun --enable-recovery' out.0
echo "refused without recovery"
