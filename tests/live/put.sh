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
grep -qxF "n1 (1): a folder is not replaced (DEST/ puts the file into it): $files/f-n1" <<<"$err" || die "$err"
rmdir "$files/f-n1"
have 14
rm -f "$files"/*

# ---- what is no file is not replaced: the member says what is there ----
echo kept >"$scratch/kept"
ln -s "$scratch/kept" "$files/f-n1"
ln -s "$scratch/nowhere" "$files/f-n2"
mkfifo "$files/f-n3"
special=3
if mknod "$files/f-n4" c 1 3 2>/dev/null; then special=4; fi # the null device, by another name
expect 1 coppice put --json "$scratch/source" "$files/f-%m"
[ "$(field written)" = $((15 - special)) ] || die "$out"
grep -q "\"nodes\":\"n1\",\"count\":1,\"why\":\"a symbolic link is not replaced: $files/f-n1\"" <<<"$out" || die "$out"
grep -q "a symbolic link is not replaced: $files/f-n2\"" <<<"$out" || die "$out"
grep -q "a FIFO is not replaced: $files/f-n3\"" <<<"$out" || die "$out"
[ $special = 3 ] || grep -q "a device is not replaced: $files/f-n4\"" <<<"$out" || die "$out"
[ $special = 3 ] || [ -c "$files/f-n4" ] || die "the device is gone: $(ls -l "$files")"
[ -L "$files/f-n1" ] && [ -L "$files/f-n2" ] && [ -p "$files/f-n3" ] || die "$(ls -l "$files")"
[ "$(cat "$scratch/kept")" = kept ] && [ ! -e "$scratch/nowhere" ] || die "followed a link"
find "$files" ! -type f ! -type d -delete
have $((15 - special))
rm -f "$files"/*
# The same words are folded.
mkfifo "$files/one"
expect 1 coppice put "$scratch/empty" "$files/one"
[ "$err" = "n[0-14] (15): a FIFO is not replaced: $files/one" ] && [ -p "$files/one" ] || die "$err"
rm "$files/one"
# It is looked at again at the end: n7 is stopped, so n1 cannot have all when the link comes.
expect 0 coppice kill --signal STOP n7
"$COPPICE" put "$scratch/source" "$files/f-%m" >/dev/null 2>"$scratch/late" &
asker=$!
until_true begun n8 "$files/f-n8"
kill -0 $asker || die "nothing waited for the one that was stopped"
ln -s "$scratch/kept" "$files/f-n1"
expect 0 coppice kill --signal CONT n7
code=0
wait $asker || code=$?
[ $code = 1 ] || die "$code: $(cat "$scratch/late")"
grep -q "^n1 (1): a symbolic link is not replaced: $files/f-n1$" "$scratch/late" || die "$(cat "$scratch/late")"
[ -L "$files/f-n1" ] && [ "$(cat "$scratch/kept")" = kept ] || die "$(ls -l "$files")"
rm "$files/f-n1"
have 14
rm -f "$files"/*

# ---- a file without a size of its own ----
expect 2 coppice put /proc/cpuinfo "$files/f-%m"
grep -q '/proc/cpuinfo cannot be read as far as its size says.*copy it first' <<<"$err" || die "$err"
[ -z "$(ls -A "$files")" ] || die "written: $(ls -A "$files")"

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
expect 4 coppice put "$scratch/source" "$files/f-%m"
grep -q 'n\[0-2\] (3): refused' <<<"$err" || die "$err"
expect 4 coppice put -w n[1-2] "$scratch/source" "$files/f-%m"
[ -z "$(ls -A "$files")" ] || die "written: $(ls -A "$files")"
expect 2 coppice put "$scratch/source" relative
expect 2 coppice put "$scratch/nothing" "$files/f"
expect 2 coppice put "$scratch/source" "$files/%n"
expect 0 coppice down
expect 0 coppice up -n 3 --allow-exec n1
expect 4 coppice put "$scratch/source" "$files/f-%m"
expect 0 coppice put --from n1 "$scratch/source" "$files/f-%m"
have 3
expect 0 coppice down
assert_nothing_left
