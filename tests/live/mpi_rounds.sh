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

# The job that watches starts first, and sees the whole of the other one.
in_folder() {
    mkdir "$scratch/$1"
    scratch=$scratch/$1
    shift
    job "$@"
}
(in_folder watch 3 pair watch "$scratch/lost") &
watching=$!
(in_folder lose 3 pair lose "$scratch/lost")
wait $watching
[ "$(cat "$scratch/lose/out")" = "lose 0 did
lose 2 did" ] || die "$(cat "$scratch/lose/out")"
[ "$(cat "$scratch/watch/out")" = "watch 0 did
watch 1 did
watch 2 did" ] || die "$(cat "$scratch/watch/out")"
echo "two jobs do not see each other"
