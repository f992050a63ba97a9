#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A file for every member, while relays die: who lives has all of it or what was there before,
# the dead are named, and nothing half-written is left.
. "$(dirname "$0")/lib.sh"

files=$scratch/files
log=$XDG_RUNTIME_DIR/coppice/default/log
mkdir "$files"
# More than all windows on the way together hold.
head -c 12M /dev/urandom >"$scratch/source"
chmod 0640 "$scratch/source"
digest() { sha256sum "$@" | cut -d' ' -f1 | sort -u; }
wanted=$(digest "$scratch/source")
# have COUNT: so many files, and each is the source.
have() {
    [ "$(find "$files" -name 'f-*' | wc -l)" = "$1" ] || die "not $1 files: $(ls -A "$files")"
    [ "$(digest "$files"/f-*)" = "$wanted" ] || die "other bytes: $(sha256sum "$files"/f-*)"
    [ "$(find "$files" -name '.*' | wc -l)" = 0 ] || die "left: $(ls -A "$files")"
}
begun() { grep -q "^coppice\[$1\]: exec: put $2" "$log"; }
expect 0 coppice up -n 15 --shape kary:2

# ---- everyone, some, nothing ----
expect 0 coppice put --json "$scratch/source" "$files/f-%m"
[ "$(field written)" = 15 ] || die "$out"
have 15
[ "$(stat -c %a "$files/f-n7")" = 640 ] || die "mode: $(stat -c %a "$files/f-n7")"
: >"$scratch/empty"
expect 0 coppice put -w n[3-5] "$scratch/empty" "$scratch/e-%m"
[ "$(ls "$scratch" | grep -c '^e-n[345]$')" = 3 ] || die "$(ls "$scratch")"
[ ! -s "$scratch/e-n3" ] && [ ! -e "$scratch/e-n0" ] || die "$(ls "$scratch")"
rm -f "$files"/*

# ---- who cannot write says why; those below it have the file ----
mkdir "$files/f-n1"
expect 1 coppice put "$scratch/source" "$files/f-%m"
grep -q "^n1 (1): cannot name $files/f-n1: Is a directory" <<<"$err" || die "$err"
rmdir "$files/f-n1"
have 14
rm -f "$files"/*

# ---- a relay dies in the middle: n7 is stopped, so n3 and n1 have windows and no more ----
echo before >"$scratch/before"
cp "$scratch/before" "$files/f-n1"
expect 0 coppice kill --signal STOP n7
"$COPPICE" put --json "$scratch/source" "$files/f-%m" >"$scratch/json" 2>&1 &
asker=$!
until_true begun n8 "$files/f-n8"
kill -0 $asker || die "nothing waited for the one that was stopped"
expect 0 coppice kill n1 n3
expect 0 coppice kill --signal CONT n7
code=0
wait $asker || code=$?
out=$(cat "$scratch/json")
[ $code = 1 ] && [ "$(field written)" = 13 ] || die "$code: $out"
grep -q '"nodes":"n\[1,3\]","count":2,"why":"dead"' <<<"$out" || die "$out"
cmp -s "$scratch/before" "$files/f-n1" || die "n1 has something else now"
rm "$files/f-n1"
have 13
rm -f "$files"/*
expect 0 coppice restart n[1,3]

# ---- interrupted: nothing is left ----
expect 0 coppice kill --signal STOP n14
"$COPPICE" put "$scratch/source" "$files/g-%m" >/dev/null 2>&1 &
asker=$!
until_true begun n12 "$files/g-n12"
kill -TERM $asker
wait $asker || true
expect 0 coppice kill --signal CONT n14
empty() { [ -z "$(ls -A "$files")" ]; }
until_true empty

# ---- nobody is allowed, nobody writes ----
expect 0 coppice down
expect 0 coppice up -n 3 --allow-exec none
expect 1 coppice put "$scratch/source" "$files/f-%m"
grep -q 'n\[0-2\] (3): refused' <<<"$err" || die "$err"
[ -z "$(ls -A "$files")" ] || die "written: $(ls -A "$files")"
expect 2 coppice put "$scratch/source" relative
expect 2 coppice put "$scratch/nothing" "$files/f"
expect 2 coppice put "$scratch/source" "$files/%n"
expect 0 coppice down
assert_nothing_left
