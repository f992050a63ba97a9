#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two rounds of what `make soak` does for hours: faults of every kind come together, and then all
# are in one view again. And it sees what is wrong: two views with one epoch.
: "${COPPICE:?the path of the command}" "${SWITCH:?the path of live_switch}"
cd "$(dirname "$0")/../.." || exit 1

out=$(HOSTS=5 ROUNDS=2 MINUTES=1 SEED=${SEED:-6} scripts/soak-chaos 2>&1)
status=$?
[ $status -ne 77 ] || exit 77
echo "$out"
[ $status -eq 0 ] && grep -q ' [12] rounds: ' <<<"$out" && grep -q 'violations 0$' <<<"$out" || exit 1

HOSTS=5 scripts/soak-chaos earthquake >/dev/null 2>&1
[ $? -eq 2 ] || { echo "a fault that there is not is no mistake" >&2; exit 1; }

# The check itself, on views that somebody might have had.
HOSTS=5
scratch=$(mktemp -d /tmp/cop.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
everyone() { echo 0 1; }
die() { echo "$*" >"$scratch/said"; exit 1; }
. tests/live/lib_chaos.sh
: >"$scratch/known"
view() { printf '{"epoch":%s,"root":"n0","in_view":true,"members":"%s"}\n' "$2" "$3" >>"$scratch/$1.views"; }
view 0 1 'n[0-4]'
view 1 1 'n[0-4]'
view 0 2 'n[0-3]'
check_views
view 1 2 'n[1-4]'
(check_views) && { echo "two views with one epoch are not seen" >&2; exit 1; }
grep -q 'two views with one epoch: 2 n0 n\[' "$scratch/said"
