#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/json.md says what --json prints: for every object the keys on the page are those in
# the object, and the outermost keys in the object are those on the page.
. "$(dirname "$0")/lib.sh"

page=$(dirname "$0")/../../docs/json.md

# The keys that the page lists for a schema.
listed() {
    awk -v schema="## $1" '$0 == schema { on = 1; next } /^## / { on = 0 }
        on && /^\| `/ { gsub(/`/, "", $2); print $2 }' "$page" | sort
}

# The outermost keys of the object in $1: what is nested is cut out first, inside to outside.
outermost() {
    local object=$1 before=
    object=${object#\{}
    object=${object%\}}
    while [ "$object" != "$before" ]; do
        before=$object
        object=$(sed 's/\[[^][{}]*\]/0/g; s/{[^{}]*}/0/g' <<<"$object")
    done
    grep -o '"[a-z_0-9]*":' <<<"$object" | tr -d '":' | grep -vx schema | sort
}

# check SCHEMA COMMAND...: the first line that it prints. EXTRA in the environment: keys
# that may be missing; MORE=1: keys that are not listed are fine.
check() {
    local schema=$1
    shift
    "$@" >"$scratch/json" 2>/dev/null || true
    local line got page_keys
    line=$(head -1 "$scratch/json")
    grep -q "^{\"schema\":\"$schema\",.*}$" <<<"$line" || die "'$*' is no $schema: $line"
    got=$(outermost "$line")
    page_keys=$( { listed "$schema"; [ -z "${ALSO-}" ] || listed "$ALSO"; } | sort)
    [ -n "$page_keys" ] || die "$schema is not on the page"
    [ -z "${EXTRA-}" ] || got=$(printf '%s\n' "$got" $EXTRA | sort -u)
    [ -n "${MORE-}" ] && got=$(comm -12 <(echo "$got") <(echo "$page_keys"))
    [ "$got" = "$page_keys" ] ||
        die "$schema: page and command differ:"$'\n'"$(diff <(echo "$page_keys") <(echo "$got"))"
    seen="$seen $schema"
}

seen=
check coppice.up.v1 coppice up -n 5 --json
check coppice.ps.v1 coppice ps --json
MORE=1 check coppice.stats.v1 coppice ps --stats --json
check coppice.probe.v1 coppice probe --json
check coppice.exec.v1 coppice exec --json -- hostname
coppice group set some n[1-2]
check coppice.group.v1 coppice group list --json
check coppice.bcast.v1 coppice bcast --json -k 3 hello
check coppice.agree.v1 coppice agree --json --count 2
check coppice.stream.v1 coppice stream sum -n 7 --waves 12 --kill leaf --json
check coppice.put.v1 coppice put --json "$0" "$scratch/put-%m"
coppice kill n3
check coppice.ps.v1 coppice ps --json n3
check coppice.probe.v1 coppice probe --json --count 3
check coppice.view.v1 coppice view --json
check coppice.event.v1 coppice events --json
check coppice.join.v1 coppice join --json
check coppice.key.v1 coppice key new --json "$scratch/key"
check coppice.key.v1 coppice key rotate --json "$scratch/key"
check coppice.config.v1 coppice config --json
coppice down
check coppice.demo.v1 coppice demo -n 16 --json
check coppice.bench.floor.v1 coppice bench floor -n 3 --arity 2 --rounds 7 --repetitions 2 --json
ALSO=coppice.bench.floor.v1 check coppice.bench.sweep.v1 \
    coppice bench sweep -n 3 --arity 2 --rounds 7 --repetitions 2 --idle 10ms --json
check coppice.bench.contention.v1 coppice bench contention --n 2 --pattern pairs --rounds 7 \
    --repetitions 2 --json
coppice bench ts -n 4 --arity 2 --victim leaf --repeat 1 --repetitions 2 --json >"$scratch/ts"
check coppice.bench.ts.v1 sed -n 1p "$scratch/ts"
check coppice.bench.fit.v1 sed -n 2p "$scratch/ts"
check coppice.bench.tls.v1 coppice bench tls -n 5 --rounds 7 --repetitions 2 --json
check coppice.bench.rpc.v1 coppice bench rpc -n 4 --in-flight 2 --rounds 2 --requests 4 --json
check coppice.bench.bcast.v1 coppice bench bcast -n 4 --rounds 2 --repetitions 4 --json
check coppice.bench.bulk.v1 coppice bench bulk --local -n 3 --rounds 1 --size 100K --json
check coppice.bench.stream.v1 coppice bench stream --fan-out 2 --rounds 1 --waves 10 --trips 3 --json
# In a container the kernel may not let anybody count.
EXTRA="instructions system_calls" check coppice.bench.stream_cost.v1 \
    coppice bench stream --fan-out 2 --rounds 1 --waves 10 --cost --json
check coppice.bench.recovery.v1 coppice bench recovery --fan-out 2 --kills 1 --json
check coppice.bench.agree.v1 coppice bench agree -n 3 --sets 2 --operations 3 --warm-up 1 --json
# Without pdsh and clush, which take their time.
mkdir "$scratch/bin"
ln -s "$(type -P true)" "$(type -P xargs)" "$scratch/bin"
PATH=$scratch/bin "$COPPICE" bench exec -n 3 --rounds 7 --json >"$scratch/bench_exec"
check coppice.bench.exec.v1 cat "$scratch/bench_exec"
check coppice.model.bcast.v1 coppice model bcast --o 1us --l 5us --n 9 --shape knomial:2,flat --json
check coppice.model.ts.v1 coppice model ts --n 9 --arity 2 --latency 5us --compute 2us --json
ALSO=coppice.model.ts.v1 check coppice.model.best.v1 \
    coppice model ts --n 9 --best --latency 5us --compute 2us --torus cube --json
check coppice.top.v1 coppice top --here --once --interval 1ms --json
# What has ended and waits for its parent cannot be looked at.
bash -c 'sleep 0 & echo $! >"$0"; exec sleep 1000' "$scratch/gone" &
parent=$!
until [ -s "$scratch/gone" ] && grep -qs '^State:.*Z' "/proc/$(cat "$scratch/gone")/status"; do :; done
if coppice stacks --pid $parent >/dev/null 2>&1; then
    check coppice.stacks.v1 coppice stacks --pid $parent --json
    check coppice.stacks.missed.v1 coppice stacks --pid "$(cat "$scratch/gone")" --json
else # no elfutils, or nobody may be traced
    seen="$seen coppice.stacks.v1 coppice.stacks.missed.v1"
fi
kill $parent
check coppice.filter.v1 coppice filter list --json
check coppice.filter.check.v1 coppice filter check sum --runs 5 --json
check coppice.tree.v1 coppice tree radix:4 9 --dead 1 --json
check coppice.sim.v1 coppice sim --protocol probe --nodes 20 --seed 1 --json
check coppice.swarm.v1 coppice sim --swarm --seeds 3 --json
check coppice.explore.v1 coppice explore --protocol probe --nodes 2 --crashes 1 --json
# Nothing on the page that is not checked.
for schema in $(sed -n 's/^## \(coppice\..*\)/\1/p' "$page"); do
    grep -qw -- "$schema" <<<"$seen" || die "$schema is on the page, and not in this test"
done
assert_nothing_left
