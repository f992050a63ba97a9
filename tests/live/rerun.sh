#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/rerun-on-cluster: a job of six stands for a cluster; two of them die. The files have the
# columns of scripts/figures.
. "$(dirname "$0")/lib.sh"

command -v mpirun.openmpi >/dev/null || {
    echo "SKIPPED: no mpirun.openmpi here (on Debian: apt-get install openmpi-bin)"
    exit 77
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$scratch
script=$(dirname "$0")/../../scripts/rerun-on-cluster
expect 2 "$script"
grep -q 'rerun-on-cluster LAUNCHER' <<<"$err" || die "no usage: $err"
OUT=$scratch/csv SIZES=6 ARITIES=2 SETS=2 OPERATIONS=2 DEATHS=2 MIB=1 COPPICE=$COPPICE \
    expect 0 "$script" mpirun.openmpi --oversubscribe --enable-recovery -n '{n}'
for file in f2-measured-arity2 f3-measured f4-measured f6-bulk; do
    header=$(head -1 "$scratch/csv/$file.csv")
    grep -qF "\"$header\"" "$(dirname "$0")/../../scripts/figures" || die "$file: other columns: $header"
done
# One row of T_s, five algorithms, numbers in all that can be known.
grep -qE '^6,[1-9][0-9]*,[1-9][0-9]*,[1-9][0-9]*,,$' "$scratch/csv/f2-measured-arity2.csv" ||
    die "$(cat "$scratch/csv/f2-measured-arity2.csv")"
[ "$(grep -cE '^6,[a-z]+(,[0-9]+){3}(,[0-9.]+){3},$' "$scratch/csv/f3-measured.csv")" = 5 ] ||
    die "$(cat "$scratch/csv/f3-measured.csv")"
grep -qE '^6,2(,[1-9][0-9]*){4}$' "$scratch/csv/probes.csv" || die "$(cat "$scratch/csv/probes.csv")"
grep -qE '^2,tree,false(,[0-9]+){3}(,[0-9.]+){3}$' "$scratch/csv/f4-measured.csv" || die "$(cat "$scratch/csv/f4-measured.csv")"
grep -qE '^1,[0-9.]+,[0-9]+$' "$scratch/csv/f6-bulk.csv" || die "$(cat "$scratch/csv/f6-bulk.csv")"
# Their own page, with pictures where there is gnuplot.
OUT=$scratch/csv expect 0 "$(dirname "$0")/../../scripts/figures" page
[ -s "$scratch/csv/index.html" ] || die "no page: $out $err"
# A launcher that fails is said to have.
OUT=$scratch/csv expect 1 "$script" false
grep -q 'the launcher has ended' <<<"$err" || die "$err"
assert_nothing_left
