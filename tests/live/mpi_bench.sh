#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_mpi measures what it says that it does, also while processes are killed.
. "$(dirname "$0")/lib_mpi.sh"

bench=$BUILD/bench_mpi
[ -x "$bench" ] || die "no $bench: build it first"

# ran N ARGS...: its rows are in $out.
ran() {
    local n=$1
    shift
    mpirun.openmpi --oversubscribe --enable-recovery --mca pml ob1 --mca btl tcp,self \
        -n "$n" "$bench" --sets 2 --operations 5 --changes 2 --json "$@" \
        >"$scratch/out" 2>"$scratch/err" || die "$(cat "$scratch/err")"
    out=$(cat "$scratch/out")
}
# rows WHAT...: one of each, in this order.
rows() {
    local said
    said=$(sed -E 's/.*"what": ?"([a-z]*)".*/\1/' <<<"$out" | tr '\n' ' ')
    [ "$said" = "$* " ] || die "$said: $out"$'\n'"$(cat "$scratch/err")"
}
shaped() {
    [ "$(grep -cE "\"shape\": ?\"$1\"" <<<"$out")" = "$(wc -l <<<"$out")" ] || die "$out"
}

ran 4
rows agreement messages change alone
shaped flat
echo "agreements and changes"

# The last three are killed one after another; each is a change for those who are left.
ran 5 --kill 3 --shape chain
shaped chain
rows agreement messages change alone death
[ "$(grep -cE '"what": ?"death".*"sets": ?3' <<<"$out")" = 1 ] || die "$out"
echo "deaths"

for wrong in '--kill 1' '--shape hosts:radix:4'; do
    # Words are options.
    # shellcheck disable=SC2086
    if mpirun.openmpi --oversubscribe -n 2 "$bench" $wrong >"$scratch/out" 2>"$scratch/err"; then
        die "$wrong: not refused"
    fi
    grep -qE '^(usage|bench_mpi): ' "$scratch/err" || die "$wrong: $(cat "$scratch/err")"
done
echo "what cannot be is refused"
