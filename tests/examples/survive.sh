# SPDX-License-Identifier: Apache-2.0
# An MPI program on a stock Open MPI loses processes, rank 0 among them, and goes on.
. "$(dirname "$0")/lib_mpi.sh"

job 4
said 4 ': 4 left, sum 6'
said 4 ': 0 failed'
echo "nobody died"

job 8 0 5 3
said 8 ': 8 left, sum 28'
said 7 ': 7 left, sum 28'
said 6 ': 6 left, sum 23'
said 5 ': 5 left, sum 20'
said 5 ': 3 failed'
echo "three of eight died"
