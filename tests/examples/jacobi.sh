# SPDX-License-Identifier: Apache-2.0
# A computation on a grid loses ranks, gets them back from spares, and ends with the right answer.
. "$(dirname "$0")/lib_mpi.sh"

# Two of five, in different stretches; then the spares that took over for them, at once. Where it
# begins again depends on who notices what first; that it is the last checkpoint at least once,
# and that the end is right, does not.
# Two spares more than are killed: on a machine that is short of time one that lives may be taken
# for dead, and is replaced, too.
job 11 6 1@13 2@47 5@85 6@85
[ "$(grep -cE ': from step (10|40|80)$' out.0)" -ge 5 ]
said 5 'right after 120 steps and [0-9]+ restarts'
echo "five ranks, four killed"
