# SPDX-License-Identifier: Apache-2.0
# A bag of tasks loses workers, and twice whoever hands the tasks out: all are done, once each.
. "$(dirname "$0")/lib_mpi.sh"

# On a busy machine 4 and 5 may not get that many to do; 0 and 1 hand out as many in any case.
job 7 4@3 0@40 1@60 5@10
left=$(grep -c '^bag: ' out.0)
said "$left" ': 17984 primes below 200000, handed out by 3'
[ "$left" -ge 3 ] && [ "$left" -le 5 ]
echo "seven ranks, $((7 - left)) killed"
# The first that gets its share dies of it, then the other; the last one does the rest alone.
job 3 1@2 2@3
said 1 ': 17984 primes below 200000, handed out by 1'
echo "three ranks, two killed"
