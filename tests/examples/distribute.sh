# SPDX-License-Identifier: Apache-2.0
# A file of 24 MiB for five members in a chain. The last takes no more than its window, so that
# all of them stand in the middle of the file; then the second is killed.
. "$(dirname "$0")/lib.sh"

addresses="unix:$scratch/a unix:$scratch/b unix:$scratch/c unix:$scratch/d unix:$scratch/e"
mkdir "$scratch/got"
head -c 25165824 /dev/urandom >"$scratch/file"
for i in 0 1 2 3 4; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i "$scratch/got" $addresses
done
for i in 0 1 2 3 4; do
    await $i "n$i: of 5"
done
tell 4 hold
await 4 "n4: will hold"
tell 0 "give $scratch/file"
await 4 "n4: holds"
if [ -e "$scratch/got/n1" ]; then
    echo "FAILED: n1 has all of it, though n4 takes nothing"
    exit 1
fi
kill -KILL "${pids[1]}"
await 0 "n0: of 4"
tell 4 "go on"
await 0 "n0: 4 have it, 1 died"
for i in 2 3 4; do
    cmp "$scratch/file" "$scratch/got/n$i" || exit 1
done
[ ! -e "$scratch/got/n1" ] || { echo "FAILED: the dead has it"; exit 1; }
# Once more, with nobody dying.
tell 0 "give $scratch/file"
await 0 "n0: 4 have it, 0 died"
echo "24 MiB for four members: the second of the chain was killed"
