# SPDX-License-Identifier: Apache-2.0
# Three members; the root is killed, one leaves.
. "$(dirname "$0")/lib.sh"

addresses="unix:$scratch/a unix:$scratch/b unix:$scratch/c unix:$scratch/d"
for i in 0 1 2 3; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i $addresses
done
for i in 0 1 2 3; do
    await $i "n$i: view 1 of 4: the first"
done
kill -KILL "${pids[0]}"
for i in 1 2 3; do
    await $i "n$i: view [0-9]+ of 3: -n0"
done
tell 3 leave
await 3 "n3: left"
ended 3
for i in 1 2; do
    await $i "n$i: view [0-9]+ of 2: -n3"
done
echo "three members: root killed, one left"
