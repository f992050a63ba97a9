# SPDX-License-Identifier: Apache-2.0
# Members over MPI, without a socket of ours: some die, rank 0 among them, over either
# transport of Open MPI; and with MPICH, where nobody may die.
. "$(dirname "$0")/lib.sh"

command -v mpirun.openmpi >/dev/null || {
    echo "SKIPPED: no mpirun.openmpi here (on Debian: apt-get install openmpi-bin)"
    exit 77
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$scratch
# What MPI keeps is not ours to free.
export LSAN_OPTIONS=detect_leaks=0
start=(timeout 100 mpirun.openmpi --oversubscribe --enable-recovery --mca pml ob1)

# said N TEXT: exactly N processes said it.
said() {
    [ "$(grep -c "$2\$" out.0)" = "$1" ] || { echo "FAILED: not $1 times: $2"; exit 1; }
}
"${start[@]}" --mca btl tcp,self --mca btl_tcp_if_include lo -n 8 "$EXAMPLE" 0 5 >out.0 2>&1
said 8 ': 0 failed, sum 28'
said 7 ': 1 failed, sum 28'
said 6 ': 2 failed, sum 23'
echo "two of eight died, over TCP"

"${start[@]}" --mca btl vader,self -n 16 "$EXAMPLE" 8 >out.0 2>&1
said 16 ': 0 failed, sum 120'
said 15 ': 1 failed, sum 112'
echo "one of sixteen died, over shared memory"

if [ -n "${EXAMPLE_MPICH:-}" ] && command -v mpiexec.hydra >/dev/null; then
    timeout 100 mpiexec.hydra -n 2 "$EXAMPLE_MPICH" >out.0 2>&1
    said 2 ': 0 failed, sum 1'
    echo "two with MPICH"
fi
