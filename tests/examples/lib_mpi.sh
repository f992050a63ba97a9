# SPDX-License-Identifier: Apache-2.0
# What the tests of MPI examples share.
. "$(dirname "$0")/lib.sh"

command -v mpirun.openmpi >/dev/null || {
    echo "SKIPPED: no mpirun.openmpi here (on Debian: apt-get install openmpi-bin)"
    exit 77
}
# As root, mpirun wants to be told twice that this is meant.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$scratch
# What Open MPI keeps is not ours to free.
export LSAN_OPTIONS=detect_leaks=0

# job N ARGS...: what it says is in out.0; mpirun's exit status is not the program's.
job() {
    local n=$1
    shift
    mpirun.openmpi --oversubscribe --enable-recovery --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo \
        -n "$n" "$EXAMPLE" "$@" >out.0 2>&1 || true
}

# said N TEXT: exactly N lines end so.
said() {
    [ "$(grep -cE "$2\$" out.0)" = "$1" ] || { echo "FAILED: not $1 times: $2"; exit 1; }
}
