# SPDX-License-Identifier: Apache-2.0
# A computation on a grid loses ranks, gets them back from spares, and ends with the right answer.
. "$(dirname "$0")/lib_mpi.sh"

# Two of five, in different stretches; then the spares that took over for them, at once: if none
# of them notices the other, the rows and their copy are lost, and it is from the start.
job 9 4 1@13 2@47 5@85 6@85
said 5 ': from step 10'
said 5 ': from step 40'
grep -qE 'from step (0|80)$' <(sed -n '/from step 40/,$p' out.0)
said 5 'right after 120 steps and [0-4] restarts'
echo "five ranks, four killed"
