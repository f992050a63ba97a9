# SPDX-License-Identifier: Apache-2.0
# Six members take 300 steps, and three are killed on the way, the root of the tree among
# them. The survivors must have seen the same in every step.
. "$(dirname "$0")/lib.sh"

addresses=
for i in 0 1 2 3 4 5; do addresses+=" unix:$scratch/$i"; done
for i in 0 1 2 3 4 5; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i 300 1 $addresses
done
die() { kill -KILL "${pids[$1]}" && unset "pids[$1]"; }
await 0 'n0: in step 100 '
die 4
await 5 'have failed: n4$'
die 0
await 5 'have failed: n0 n4$'
die 1
for i in 2 3 5; do
    await $i "^n$i: done, 3 have failed"
    ended $i
done
seen=$(sed -n 's/.*all have seen //p' out.2 out.3 out.5 | sort -u)
[ "$(wc -l <<<"$seen")" = 1 ] || { echo "FAILED: they have seen different things: $seen"; exit 1; }
grep -h 'these have failed' out.2 out.3 out.5 | sed 's/^n[0-9]*//' | sort | uniq -c |
    awk '$1 != 3 { print "FAILED: not all say:" $0; bad = 1 } END { exit bad }'
echo "300 steps, three deaths"
