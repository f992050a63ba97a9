#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Lets fuzzers look for new inputs, and keeps in tests/fuzz/corpus the smallest set that
# reaches as much of the code, so that every build can replay it.
#
#   tests/fuzz/grow_corpus.sh BUILD SECONDS NAME...      BUILD is one of the preset 'fuzz'
#
# KEEP (24 KiB) is the most that one fuzzer's corpus may take: what is kept are the shortest
# inputs. LENGTH (400) is the longest input tried.
set -euo pipefail

[ $# -ge 3 ] || { sed -n '4,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$1 seconds=$2
shift 2
corpora=$(cd "$(dirname "$0")" && pwd)/corpus
keep=${KEEP:-24576}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for name in "$@"; do
    fuzzer=$build/fuzz_$name corpus=$corpora/$name
    [ -x "$fuzzer" ] || { echo "$fuzzer is not there: build the preset 'fuzz'" >&2; exit 1; }
    mkdir -p "$corpus" "$scratch/found" "$scratch/merged"
    "$fuzzer" -max_total_time="$seconds" -max_len="${LENGTH:-400}" -verbosity=0 \
        -artifact_prefix="$scratch/" "$scratch/found" "$corpus" ||
        { cp "$scratch"/*-* "$corpus"; echo "$name: found something, kept in $corpus" >&2; exit 1; }
    # By places reached, not by how often each is: a tenth of the files.
    "$fuzzer" -set_cover_merge=1 -use_counters=0 -verbosity=0 "$scratch/merged" "$corpus" \
        "$scratch/found"
    rm -f "$corpus"/*
    total=0
    find "$scratch/merged" -type f -printf '%s %p\n' | sort -n | while read -r size file; do
        total=$((total + size))
        [ $total -le "$keep" ] || break
        cp "$file" "$corpus/$(sha1sum <"$file" | cut -c 1-12)"
    done
    echo "$name: $(find "$corpus" -type f | wc -l) inputs"
    rm -r "$scratch/found" "$scratch/merged"
done
