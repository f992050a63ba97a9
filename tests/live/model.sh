#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The models print what they predict, the benchmark writes what they read, and nobody is
# left behind, also when it is interrupted. How fast it was is not asked here.
. "$(dirname "$0")/lib.sh"

bluegene='--latency 4.6us --compute 2us'

# ---- the published machines: 1,024 nodes of a BlueGene/L, 47 on Ethernet ----
expect 0 coppice model ts --n 1024 --arity 2,4 $bluegene --torus 8,8,16 --json
[ "$(field levels)" = $'11\n6' ] || die "$out"
[ "$(field base_ns)" = $'114000\n58000' ] || die "$out"
[ "$(field torus)" = $'8x8x16\n8x8x16' ] || die "$out"
distance=$(field distance_ns)
for ns in $distance; do # "hundreds of microseconds"
    [ "$ns" -ge 100000 ] && [ "$ns" -lt 1000000 ] || die "$out"
done
[ "$(field ts_ns)" = "$distance" ] || die "$out"
expect 0 coppice model ts --n 1024 --arity 2,4 $bluegene --torus 8x8x16
grep -q '^ *1024 radix:4 *6 *58.0 *8x8x16 ' <<<"$out" || die "$out"
expect 0 coppice model ts --n 47 --arity 4 --latency 118us --compute 2us --json
[ "$(field base_ns)" = 716000 ] && [ "$(field distance_ns)" = null ] || die "$out"
expect 0 coppice model ts -n 2-16x2,5 --arity 3 $bluegene --json
[ "$(field n)" = $'2\n4\n8\n16\n5' ] || die "$out"
# The models have the simulator's idea of a cube.
expect 0 coppice model ts --n 60 --arity 2 $bluegene --torus cube --json
[ "$(field torus)" = 4x4x4 ] || die "$out"

# ---- broadcasts: the model against nodes in the simulator, to the nanosecond ----
expect 0 coppice model bcast --o 9us --l 2us --n 100,1000 --shape knomial:2,kary:4 --simulate --json
[ "$(field n)" = $'100\n1000' ] || die "$out"
[ "$(grep -o '"simulated_ns":[0-9]*,"error_percent":0.0000' <<<"$out" | wc -l)" = 6 ] || die "$out"
expect 0 coppice model bcast --o 1us --l 5us --n 64 --simulate
grep -q ' knomial:4 .* 21.0 .* 21.0 *0.00 % .*<- best' <<<"$out" || die "$out"
[ "$(grep -c ' % ' <<<"$out")" = 1 ] || die "more than the best tree was simulated: $out"

# ---- the best arity ----
expect 0 coppice model ts --n 9 --best $bluegene
[ "$(grep -c 'best, by model base' <<<"$out")" = 1 ] || die "$out"
grep -q 'radix:8 .*<- best' <<<"$out" || die "$out"
expect 0 coppice model ts --n 1024 --best --arity 2,4 $bluegene --json
[ "${out%%,\"levels*}" = '{"schema":"coppice.model.best.v1","latency_ns":4600,"compute_ns":2000,"n":1024,"shape":"radix:4"' ] ||
    die "$out"

# ---- latencies of a file ----
cat >"$scratch/latencies" <<'END'
# made up
pattern,n,latency_ns
tree:4,20,300000
tree:4,5,150000
END
expect 0 coppice model ts --n 5,10,20,40 --arity 4 --compute 2us \
    --contention "$scratch/latencies" --json
grep -q '"latency_ns":null' <<<"$out" || die "$out"
[ "$(sed 's/.*"latency_ns":\([0-9]*\).*/\1/' <<<"$out")" = $'150000\n200000\n300000\n500000' ] ||
    die "$out"
[ "$(field origin)" = $'measured\ninterpolated\nmeasured\nextrapolated' ] || die "$out"
[ "$(field contention_ns)" = $'304000\n806000\n1206000\n3008000' ] || die "$out"
expect 0 coppice model ts --n 40 --arity 4 --compute 2us --contention "$scratch/latencies"
grep -q 'extrapolated' <<<"$out" || die "it does not say that it extrapolates: $out"

# ---- measured ones ----
expect 0 coppice bench contention --pattern pairs,tree:2 --n 2,6 --rounds 7 \
    --repetitions 5 --out "$scratch/measured" --json
[ "$(field pattern)" = $'pairs\npairs\ntree:2\ntree:2' ] || die "$out"
[ "$(field groups)" = $'1\n3\n1\n2' ] || die "$out"
grep -q '"latency_ns":{"median":[1-9]' <<<"$out" || die "$out"
expect 0 coppice model ts --n 6 --arity 2 --compute 2us --contention "$scratch/measured" --json
[ "$(field pattern) $(field origin)" = 'tree:2 measured' ] || die "$out"
expect 0 coppice bench contention --pattern tree:4 --rounds 7 --repetitions 2
[ "$(grep -c '^tree:4 ' <<<"$out")" = 5 ] || die "$out"
assert_nothing_left

# ---- interrupted, and killed, in the middle of it ----
busy() { [ "$(processes | wc -l)" -ge 9 ]; }
for signal in INT TERM KILL; do
    # A shell starts what is in the background deaf to INT; env makes it listen.
    env --default-signal=INT "$COPPICE" bench contention --pattern pairs --n 8 \
        --rounds 1000 --repetitions 10000 >/dev/null &
    bench=$!
    until_true busy
    kill -$signal $bench
    code=0
    wait $bench 2>/dev/null || code=$?
    [ $code -gt 128 ] || die "exit status $code after SIG$signal"
    assert_nothing_left
done
