# SPDX-License-Identifier: Apache-2.0
# Three workers and a spare; one worker is killed, and the spare does its work.
. "$(dirname "$0")/lib.sh"

addresses="unix:$scratch/a unix:$scratch/b unix:$scratch/c"
for i in 0 1 2; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i $addresses
done
for i in 0 1 2; do
    await $i "n$i: was nothing, is rank $i"
done
launch 3 join "unix:$scratch/b" standby
await 3 "standby: was nothing, is spare"
kill -KILL "${pids[1]}"
await 3 "standby: was spare, is rank 1"
await 0 "rank 1: n1 replaced by standby"
await 2 "rank 1: n1 replaced by standby"
tell 3 bye
await 3 "^left"
ended 3
echo "rank 1 was handed on"
