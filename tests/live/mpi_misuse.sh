#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What an MPI program gets wrong is told to it, and neither hangs nor ends it.
. "$(dirname "$0")/lib_mpi.sh"

for how in attached freed first over; do
    job 2 misuse $how
    said "0: $how
1: $how"
    echo "$how: told"
done
# Alone, so that no connection of MPI's takes the descriptor first.
job 1 misuse input
said "0: input"
echo "input: attached"
