#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Eight MPI processes are killed, but for one: what they agree on, whom it disturbs, and that
# silence is not death.
. "$(dirname "$0")/lib_mpi.sh"

job 8 deaths
[ "$(grep -c '^lists: ' <<<"$out")" = 4 ] || die "$out"
[ "$(grep '^lists: ' <<<"$out" | sort -u | wc -l)" = 1 ] || die "not the same lists: $out"
echo "killed in the middle of agreements: all have the same lists"
out=$(grep -v '^lists: ' <<<"$out")
echo "$out" >"$scratch/out"
# 0, 1, 3, 4 are left; the upper middle dies each time.
said "1 left
2 left
2 left
3 left
3 left
3 left
4 left
4 left
4 left
4 left
the last is 0"
echo "down to one"
