# SPDX-License-Identifier: Apache-2.0
# Seven members, of which four give numbers and three add them up. All three are killed while
# that goes on, the root of the tree among them; every complete sum must be exact.
. "$(dirname "$0")/lib.sh"

addresses=
for i in 0 1 2 3 4 5 6; do addresses+=" unix:$scratch/$i"; done
for i in 0 1 2 3 4 5 6; do
    # shellcheck disable=SC2086 # several words
    launch $i 1 $i 6 2000 5 $addresses
done
die() { kill -KILL "${pids[$1]}" && unset "pids[$1]"; }
await 6 '^wave [0-9]+: [0-9]+$'
die 1
await 6 '^wave ([4-9]..|[12]...): [0-9]+$'
die 0
await 6 '^wave ([89]..|[12]...): [0-9]+$'
die 2
await 6 '^done: all 2000 waves, to the unit$'
for i in 3 4 5 6; do ended $i; done
echo "2000 waves, three deaths"
