# SPDX-License-Identifier: Apache-2.0
# Training loses workers: one is replaced, two more make the world smaller, and the model is right.
. "$(dirname "$0")/lib_mpi.sh"

job 6 1 3 2@20 0@40 5@60
said 5 'round 1: rank [0-4] of 5, from step (19|20)'
said 4 'round 2: rank [0-3] of 4, from step (39|40)'
said 3 'round 3: rank [0-2] of 3, from step (59|60)'
said 3 'rank [0-2] of 3: right after 80 steps'
echo "five workers and a spare, three killed"

job 4 0 4 1@5
said 3 'elastic: 3 workers are left, of at least 4'
echo "too few"
