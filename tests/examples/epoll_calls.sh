# SPDX-License-Identifier: Apache-2.0
# Five members ask each other all the time, while the root and another one are killed and a
# third one ends: in every answer whoever lives is counted once.
. "$(dirname "$0")/lib.sh"

addresses="unix:$scratch/a unix:$scratch/b unix:$scratch/c unix:$scratch/d unix:$scratch/e"
for i in 0 1 2 3 4; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i $addresses
done
for i in 0 1 2 3 4; do
    await $i "n$i: 5 of 5: success"
done
kill -KILL "${pids[0]}"
for i in 1 2 3 4; do
    await $i "n$i: 4 of 4: success"
done
kill -KILL "${pids[3]}"
for i in 1 2 4; do
    await $i "n$i: 3 of 3: success"
done
tell 2 end
ended 2
for i in 1 4; do
    await $i "n$i: 2 of 2: success"
done
# Who is not counted is named.
if grep -hE '^n[0-9]+: [0-9]+ of' out.* | awk '{
        named = gsub(/peer is lost,/, "") + gsub(/deadline passed,/, "")
        sub(/:$/, "", $4)
        if ($2 + named != $4) { print; bad = 1 }
    } END { exit bad }'; then
    echo "five members: two killed, one ended, each counted once"
else
    echo "FAILED: somebody is missing" >&2
    exit 1
fi
