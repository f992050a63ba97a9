# SPDX-License-Identifier: Apache-2.0
# Five members commit a value. One refuses the next; then a coordinator is killed between the
# phases, and whoever prepared undoes it; then a member is killed while all commit.
. "$(dirname "$0")/lib.sh"

addresses="unix:$scratch/a unix:$scratch/b unix:$scratch/c unix:$scratch/d unix:$scratch/e"
for i in 0 1 2 3 4; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i $addresses
done
for i in 0 1 2 3 4; do
    await $i "n$i: of 5"
done
tell 3 "set red"
await 3 "n3: red is committed at 5: success"
for i in 0 1 2 3 4; do
    await $i "n$i: committed red"
done
# Between the phases.
tell 0 pause
tell 0 "set green"
await 0 "n0: all could"
for i in 1 2 3 4; do
    await $i "n$i: prepared green"
done
kill -KILL "${pids[0]}"
for i in 1 2 3 4; do
    await $i "n$i: undid green"
done
# Somebody says no.
tell 4 refuse
tell 1 "set blue"
await 1 "n1: n4 says no: refused"
await 1 "n1: blue is undone at 4: success"
kill -KILL "${pids[4]}"
await 1 "n1: of 3"
# A member dies while it is committed: those who live agree.
tell 2 "set white"
kill -KILL "${pids[1]}"
await 2 "n2: white is (committed|undone) at [23]"
for i in 2 3; do
    tell $i show
    await $i "n$i: value"
done
[ "$(grep -h value out.2 | cut -d' ' -f3)" = "$(grep -h value out.3 | cut -d' ' -f3)" ] ||
    { echo "FAILED: two values"; exit 1; }
echo "five members: three were killed, and all agree"
