#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A key is changed while members join and die; nobody is lost, and the old key is of no use
# afterwards.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"
. "$(dirname "$0")/lib_security.sh"

expect 0 coppice up -n 10 --transport tcp
cp "$home/key" "$scratch/old"
old=$(key_id "$home/key")
probe_says 10 ""

# ---- by the command, while others come and go ----
(
    coppice kill n3
    coppice join --as new1
    coppice restart n3
    coppice kill n[7-8]
    coppice join --as new2
    coppice restart n[7-8]
) >"$scratch/changes" 2>&1 &
changes=$!
for i in 1 2 3; do
    expect 0 coppice key rotate --name default --json
    [ "$(field step)" = alone ] || die "$out"
done
wait $changes || die "a change failed: $(cat "$scratch/changes")"
all_see "n[0-9],new[1-2]"
new=$(key_id "$home/key")
[ "$new" != "$old" ] || die "the key is the same"
expect 0 coppice key check --name default
# Connections of the former keys are gone as well: all talk, over new ones.
expect 0 coppice probe --json --count 20
[ "$(field complete)" = 20 ] && [ "$(field answered)" = 12 ] || die "$out"
[ "$(in_log 'removed from the view')" = 0 ] || die "somebody was lost: $(cat "$home/log")"

# ---- the old one ----
expect 4 coppice join --contact "tcp:127.0.0.1:$(port_of n0)" --key "$scratch/old" --as x
expect 0 coppice join --as new3
all_see "n[0-9],new[1-3]"

# ---- one step at a time, by SIGHUP ----
expect 0 coppice key rotate "$home/key"
grep -q '^next ' <<<"$out" || die "$out"
for name in n0 n1 new1; do kill -HUP "$(pid_of $name)"; done
read_again() { [ "$(grep -c "coppice\[$1\].*keys read again" "$home/log")" -ge "$2" ]; }
until_true read_again n0 1
# In this step both work: a contact that knows only the one in use is let in.
printf 'use %s\n' "$(key_hex "$home/key")" >"$scratch/one"
chmod 600 "$scratch/one"
"$COPPICE" join --contact "tcp:127.0.0.1:$(port_of n0)" --key "$scratch/one" --as guest \
    --command "$scratch/guest" 2>"$scratch/guest.log" &
guest=$!
in_it() { grep -qs 'joined as' "$scratch/guest.log"; }
until_true in_it
expect 0 coppice leave --agent "$scratch/guest"
wait $guest || die "$(cat "$scratch/guest.log")"
# The command finishes what was begun, whatever the step.
expect 0 coppice key rotate --name default
expect 0 coppice key check --name default
all_see "n[0-9],new[1-3]"

# ---- a file that cannot be read changes nothing ----
chmod 644 "$home/key"
kill -HUP "$(pid_of n2)"
stays() { grep -q "coppice\[n2\].*keys stay as they were" "$home/log"; }
until_true stays
chmod 600 "$home/key"
expect 0 coppice probe --json
expect 0 coppice down
assert_nothing_left
