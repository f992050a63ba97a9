#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who is not a member: without a key, with another one, in clear, with what was recorded,
# slowly, and very often. The cluster goes on, its memory stays bounded, and the reason is
# in the log once.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"
. "$(dirname "$0")/lib_security.sh"

expect 0 coppice up -n 8 --transport tcp
probe_says 8 ""
[ "$(stat -c %a "$home/key")" = 600 ] || die "others can read the key"
expect 0 coppice view --json
[ "$(field security)" = "key $(key_id "$home/key")" ] || die "$out"
port=$(port_of n7)

# ---- no key ----
# In clear: a record of ours, a request of a browser, and nothing that makes sense.
for text in '\x01\0\0\0\x08\0\0\0' 'GET / HTTP/1.0\r\n\r\n' '\0\0\0\0'; do
    [ "$(flood "$port" 1 1 "$text")" = 1 ] || die "not cut: $text"
done
# TLS 1.2, and TLS 1.3 without a key.
! timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_2 </dev/null >"$scratch/x" 2>&1 ||
    die "TLS 1.2 is spoken"
! timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_3 </dev/null >"$scratch/x" 2>&1 ||
    die "somebody without a key was let in"
once 'it does not speak TLS 1.3' n7
once 'it does not have our key' n7

# ---- another key, and one that is not what it says ----
expect 0 coppice key new "$scratch/other"
expect 4 coppice join --contact "tcp:127.0.0.1:$port" --key "$scratch/other" --as x
grep -q 'did not accept what we prove ourselves with' <<<"$err" || die "$err"
cp "$scratch/other" "$scratch/liar"
! timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_3 -ciphersuites \
    TLS_AES_128_GCM_SHA256 -psk "$(key_hex "$scratch/other")" \
    -psk_identity "$(key_id "$home/key")" </dev/null >"$scratch/x" 2>&1 ||
    die "a wrong key with the right name was accepted"
# The right one is, so that all of this says something.
(printf '\001\000\000\000\010\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000abcdefgh'
    sleep 1) | tls "$port" "$home/key" >"$scratch/x" 2>&1 || true
grep -aq 'your protocol version is not spoken' "$scratch/x" || die "the key was not accepted"

# ---- a key that others can read ----
chmod 644 "$scratch/other"
expect 4 coppice join --contact "tcp:127.0.0.1:$port" --key "$scratch/other"
grep -q 'chmod 600' <<<"$err" || die "$err"
chmod 600 "$scratch/other"

# ---- TLS to somebody who speaks in clear ----
expect 0 coppice up -n 2 --name plain --transport tcp --insecure
contact=$(coppice ps --name plain --json n0 | sed 's/.*"address":"\([^"]*\)".*/\1/')
expect 4 coppice join --contact "$contact" --key "$home/key"
expect 0 coppice view --name plain --json
[ "$(field security)" = none ] || die "$out"
expect 0 coppice view --name plain
grep -q '^insecure' <<<"$out" || die "view hides --insecure: $out"
[ "$(in_log 'insecure: nothing is encrypted' "$XDG_RUNTIME_DIR/coppice/plain/log")" = 2 ] ||
    die "--insecure is not in the log of each"
expect 0 coppice down --name plain

# ---- another cluster with the same key ----
sed "s/^cluster .*/cluster $(printf 'ab%.0s' $(seq 16))/; s/^2 n2 .*/2 n2 tcp:127.0.0.1:$(free_port)/" \
    "$home/members" >"$scratch/members"
"$COPPICE" agent --members "$scratch/members" --id n2 --command "$scratch/c2" --first \
    --key "$home/key" 2>"$scratch/agent.log" &
foreign=$!
told() { grep -q 'this is another cluster' "$scratch/agent.log"; }
until_true told
kill $foreign
wait $foreign || die "the agent did not end cleanly: $(cat "$scratch/agent.log")"

# ---- what was recorded is of no use again ----
middle=$(free_port)
attack between "$middle" "$port" record "$scratch/flight"
spy=$attacker
ready() { [ -e "$scratch/flight.ready" ]; }
until_true ready
(printf '\001\000\000\000\010\000\000\000'; sleep 1) | tls "$middle" "$home/key" >/dev/null 2>&1 || true
end_attack $spy
before=$(stat_of n7 refused_unproven)
[ -s "$scratch/flight" ] || die "nothing was recorded"
exec 7<>"/dev/tcp/127.0.0.1/$port"
cat "$scratch/flight" >&7 2>/dev/null || true
timeout 20 cat <&7 >"$scratch/x" 2>&1 || true
exec 7<&- 7>&-
[ "$(stat_of n7 refused_unproven)" -gt "$before" ] || die "a replay was taken"
once 'changed on the way, or makes no sense' n7

# ---- slow handshakes by the hundred ----
pid=$(pid_of n7)
before=$(private_kib "$pid")
# The head of a first message that claims to be long, and never comes.
attack hold "$port" 600 '\x16\x03\x01\x03\xf0\x01\0\x03\xec\x03\x03' "$scratch/held"
holder=$attacker
held() { [ -e "$scratch/held" ]; }
until_true held
probe_says 8 ""
probe_says 8 "" --from n7
after=$(private_kib "$pid")
[ $((after - before)) -lt 4096 ] || die "600 slow strangers cost $((after - before)) KiB"
# A member can still come and go.
expect 0 coppice join --as late
all_see "late,n[0-7]"
end_attack $holder

# ---- 10,000 of them while the view changes ----
before=$(private_kib "$pid")
flood "$port" 10000 100 'this is not TLS' 127.0.0.2 >"$scratch/cut" 2>&1 &
flooder=$!
attackers+=($flooder)
expect 0 coppice kill n1
expect 0 coppice join --as later
all_see "late,later,n[0,2-7]"
expect 0 coppice restart n1
all_see "late,later,n[0-7]"
wait $flooder || die "the flood did not end"
[ "$(cat "$scratch/cut")" = 10000 ] || die "not all were cut: $(cat "$scratch/cut")"
[ "$(stat_of n7 refused_rate)" -gt 5000 ] || die "they were looked at one by one"
once 'too many connections from 127.0.0.2 came to nothing' n7
after=$(private_kib "$pid")
[ $((after - before)) -lt 4096 ] || die "the flood cost $((after - before)) KiB"
# Also from where members are: they get in as soon as it is over.
flood "$port" 2000 100 '\x17\x03\x03\0\0' >"$scratch/cut"
expect 0 coppice restart n7
all_see "late,later,n[0-7]"
expect 0 coppice probe --json --from n7

expect 0 coppice down
assert_nothing_left
