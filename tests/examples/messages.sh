# SPDX-License-Identifier: Apache-2.0
# A number goes round three members until it is 300; everyone leaves.
. "$(dirname "$0")/lib.sh"

addresses="unix:$scratch/a unix:$scratch/b unix:$scratch/c"
for i in 0 1 2; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i 300 $addresses
done
for i in 0 1 2; do
    await $i "n$i: left"
    ended $i
done
[ "$(cat out.* | grep -c ': 300 is reached')" = 1 ] || { echo "FAILED: not once"; exit 1; }
echo "300 messages"
