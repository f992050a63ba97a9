#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An MPI process that the others hold to be dead, and that lives, does not wait for ever.
. "$(dirname "$0")/lib_mpi.sh"

job 3 out wait
said "0 ends
1 ends
2 ends"
echo "in COP_Comm_waitall"

export COPPICE_MPI_STUCK=1
job 3 out make
said ""
grep -q 'this process was cut off from the others while MPI made a communicator' "$scratch/err" ||
    die "$(cat "$scratch/err")"
echo "in MPI"
