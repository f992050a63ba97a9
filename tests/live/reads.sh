#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Members of one host and user read bulk in each other's memory, also while relays are killed, and
# not over TCP. Everyone who lives has all of it every time.
. "$(dirname "$0")/lib.sh"

files=$scratch/files
log=$XDG_RUNTIME_DIR/coppice/default/log
mkdir "$files"
head -c 8M /dev/urandom >"$scratch/source"
wanted=$(sha256sum <"$scratch/source")
# have COUNT: so many files, and each is the source.
have() {
    local file
    [ "$(ls -A "$files" | wc -l)" = "$1" ] || die "not $1 files: $(ls -A "$files")"
    for file in "$files"/*; do
        [ "$(sha256sum <"$file")" = "$wanted" ] || die "other bytes: $file"
    done
    rm -f "$files"/*
}
# seen COUNTER: its sum over all members.
seen() {
    expect 0 coppice ps --stats
    awk -v name="$1" '$2 == name { sum += $3 } END { print sum + 0 }' <<<"$out"
}
begun() { grep -q "^coppice\[$1\]: exec: put $2" "$log"; }

# ---- read ----
expect 0 coppice up -n 7 --shape kary:2
expect 0 coppice put "$scratch/source" "$files/f-%m"
have 7
count=$(seen payloads_read)
if [ "$count" = 0 ]; then
    echo "SKIPPED: processes may not read each other's memory here"
    exit 77
fi
[ "$(seen payloads_unseen)" = 0 ] || die "not seen: $(seen payloads_unseen)"
echo "read: $count"

# ---- relays are killed while they are read from: n3 is stopped, so n1 has a window and no more ----
expect 0 coppice kill --signal STOP n3
"$COPPICE" put --json "$scratch/source" "$files/f-%m" >"$scratch/json" 2>&1 &
asker=$!
until_true begun n4 "$files/f-n4"
kill -0 $asker || die "nothing waited for the one that was stopped"
expect 0 coppice kill n1
expect 0 coppice kill --signal CONT n3
code=0
wait $asker || code=$?
out=$(cat "$scratch/json")
[ $code = 1 ] && [ "$(field written)" = 6 ] || die "$code: $out"
grep -q '"nodes":"n1","count":1,"why":"dead"' <<<"$out" || die "$out"
rm -f "$files"/.*.n1 "$files"/.f-n1*
have 6
echo "read while one was killed"
expect 0 coppice down

# ---- sent ----
expect 0 coppice up -n 3 --transport tcp
expect 0 coppice put "$scratch/source" "$files/f-%m"
have 3
[ "$(seen payloads_read)" = 0 ] || die "read over TCP"
expect 0 coppice down
echo "sent over TCP"

assert_nothing_left
