#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A communicator that is revoked and shrunk again and again uses nothing up; and two jobs on one
# machine do not see each other.
. "$(dirname "$0")/lib_mpi.sh"

job 4 rounds
said "0 did
2 did
3 did"
echo "a hundred rounds"

# The job that watches starts first, and sees the whole of the other one. Each has a folder of its
# own for what mpirun keeps there, too.
in_folder() {
    mkdir "$scratch/$1"
    scratch=$scratch/$1
    export TMPDIR=$scratch
    shift
    job "$@"
}
# did WHICH LINES: what that job said.
did() {
    [ "$(cat "$scratch/$1/out")" = "$2" ] || die "$1: $(cat "$scratch/$1/out" "$scratch/$1/err")"
}
(in_folder watch 3 pair watch "$scratch/lost") &
watching=$!
lost=0
(in_folder lose 3 pair lose "$scratch/lost") || lost=$?
# Should that job not have come so far, the other one must not wait for it.
touch "$scratch/lost"
wait $watching
[ $lost = 0 ] || die "the job that loses one failed"
did lose "lose 0 did
lose 2 did"
did watch "watch 0 did
watch 1 did
watch 2 did"
echo "two jobs do not see each other"
