# SPDX-License-Identifier: Apache-2.0
# Five members. One is killed and another is stopped while they are asked: the answer has all
# who live, and names the others.
. "$(dirname "$0")/lib.sh"

addresses="unix:$scratch/a unix:$scratch/b unix:$scratch/c unix:$scratch/d unix:$scratch/e"
for i in 0 1 2 3 4; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i $addresses
done
for i in 0 1 2 3 4; do
    await $i "n$i: of 5"
done
tell 2 ""
await 2 "n2: 5 of 5 are well, success, at least [0-9]+ pages free$"
kill -KILL "${pids[1]}"
tell 4 ""
# It may be out of the view by now, or still be in it.
await 4 "n4: 4 of (4|5) are well, success, at least [0-9]+ pages free(, n1: peer is lost)?$"
kill -KILL "${pids[0]}"
for round in 1 2 3; do
    tell 3 ""
    await_count 3 "n3: 3 of [345] are well, success" $round
done
echo "five members: two killed, and nobody missed"
