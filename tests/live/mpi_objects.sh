#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Windows and files of MPI processes that were killed.
. "$(dirname "$0")/lib_mpi.sh"

job 6 objects "$scratch/file.1" "$scratch/file.2"
said "1 did
2 did
3 did
5 did"
[ "$(od -An -td4 -w20 "$scratch/file.2" | tr -s ' ')" = " 0 1 2 3 4" ] || die "the file is wrong"
echo "windows and files"
