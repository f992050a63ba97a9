# SPDX-License-Identifier: Apache-2.0
# A capability of four holders is revoked: one still uses it, one is killed meanwhile.
. "$(dirname "$0")/lib.sh"

addresses="unix:$scratch/a unix:$scratch/b unix:$scratch/c unix:$scratch/d unix:$scratch/e"
for i in 0 1 2 3 4; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i $addresses
done
for i in 0 1 2 3 4; do
    await $i "n$i: of 5"
done
tell 0 "grant 7 1 2 3 4"
for i in 1 2 3 4; do
    await $i "n$i: has 7"
done
await 0 "n0: sure of 5, 0 lost it"
tell 1 use
tell 2 use
tell 0 revoke
await 1 "n1: not yet"
await 2 "n2: not yet"
await 3 "n3: dropped"
await 4 "n4: dropped"
kill -KILL "${pids[2]}"
await 0 "n0: of 4"
if grep -q "sure of [1-4]" out.0; then
    echo "FAILED: revoked while it is used"
    exit 1
fi
tell 1 release
await 1 "n1: dropped"
await 0 "n0: sure of 4, 1 lost it by dying"
# The group ended with it.
tell 0 revoke
await 0 "n0: no such thing"
echo "four holders: one was slow, one was killed"
