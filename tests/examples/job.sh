# SPDX-License-Identifier: Apache-2.0
# A job of four, of which one is killed. tests/live/launchers.sh has more.
. "$(dirname "$0")/lib.sh"

command -v mpirun.openmpi >/dev/null || {
    echo "SKIPPED: no mpirun.openmpi here (on Debian: apt-get install openmpi-bin)"
    exit 77
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$scratch
# A few bytes that libpmix itself never frees.
echo leak:libpmix >leaks
export LSAN_OPTIONS=suppressions=$scratch/leaks:print_suppressions=0
mpirun.openmpi --oversubscribe --enable-recovery -n 4 "$EXAMPLE" 2 >out.0 2>&1
[ "$(grep -c 'counts 3 of 4$' out.0)" = 3 ] || { echo "FAILED: not three"; exit 1; }
echo "three of four"
