#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Bulk over libfabric: chunks are read where they lie, or sent where that is not wanted, over
# both providers that are everywhere; also from a member that is killed.
. "$(dirname "$0")/lib.sh"

bench=$BUILD/bench_ofi
[ -x "$bench" ] || {
    echo "SKIPPED: no libfabric here (on Debian: apt-get install libfabric-dev)"
    exit 77
}
# What providers keep is not ours to free.
export LSAN_OPTIONS=detect_leaks=0

expect 0 "$bench" --mib 1 --sets 1 --rounds 1 --json
said=$(sed -E 's/.*"way": ?"([^"]*)".*"chunks": ?"([^"]*)".*/\1 \2/' <<<"$out")
[ "$said" = "sockets sent
local either
tcp;ofi_rxm read
tcp;ofi_rxm sent
shm read
shm sent" ] || die "$out"$'\n'"$err"
echo "read, and sent"

expect 0 "$bench" --kill --mib 2 --members 3 'tcp;ofi_rxm' shm
[ "$(grep -c 'read: member 1 was killed, the others have all$' <<<"$out")" = 2 ] || die "$out"
echo "from one that is killed"

expect 2 "$bench" --members 65
expect 2 "$bench" --kill --members 2
expect 1 "$bench" --mib 1 --sets 1 --rounds 1 nowhere
grep -q "no reliable datagrams by 'nowhere'" <<<"$err" || die "$err"
echo "what cannot be is refused"
