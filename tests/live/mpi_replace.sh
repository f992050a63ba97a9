#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Spares take the ranks of MPI processes that were killed; everybody else keeps its own.
. "$(dirname "$0")/lib_mpi.sh"

# Of nine, four wait, and one of these dies first. Then one that works; then two at once, one of
# them a spare that had taken over; then one too many.
job 9 replace 4 1,5 0,6 4
said "6 took rank 1
7 took rank 0
8 took rank 1
step 0: rank 0 of 5 is 0, sum 10
step 0: rank 1 of 5 is 1, sum 10
step 0: rank 2 of 5 is 2, sum 10
step 0: rank 3 of 5 is 3, sum 10
step 0: rank 4 of 5 is 4, sum 10
step 1: rank 0 of 5 is 0, sum 15
step 1: rank 1 of 5 is 6, sum 15
step 1: rank 2 of 5 is 2, sum 15
step 1: rank 3 of 5 is 3, sum 15
step 1: rank 4 of 5 is 4, sum 15
step 2: no spare is left for rank 4
step 2: no spare is left for rank 4
step 2: no spare is left for rank 4
step 2: no spare is left for rank 4
step 2: rank 0 of 4 is 7, sum 20
step 2: rank 0 of 5 is 7, sum 24
step 2: rank 1 of 4 is 8, sum 20
step 2: rank 1 of 5 is 8, sum 24
step 2: rank 2 of 4 is 2, sum 20
step 2: rank 2 of 5 is 2, sum 24
step 2: rank 3 of 4 is 3, sum 20
step 2: rank 3 of 5 is 3, sum 24
step 2: rank 4 of 5 is 4, sum 24"
echo "replaced, until there was nobody left to do it"

job 4 replace 2
said "2 was never needed
3 was never needed
step 0: rank 0 of 2 is 0, sum 1
step 0: rank 1 of 2 is 1, sum 1"
echo "spares that nobody needs end with the others"

# One dies while MPI makes the communicator: as it leaves MPI, which is as good as before it; and
# as it enters, where the others wait for it in MPI until they are ended.
job 4 stuck 3 after
said "0 has 3 of 3
1 has 3 of 3
2 has 3 of 3"
export COPPICE_MPI_STUCK=1
job 3 stuck 1 before
said ""
[ "$(grep -c 'process [01] died while MPI made a communicator' "$scratch/err")" = 2 ] ||
    die "$(cat "$scratch/err")"
echo "a death while MPI makes a communicator"
