#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Certificates instead of a key: a member is who its certificate says, and nobody else.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_security.sh"

# authority NAME; certificate NAME AUTHORITY DAYS: files NAME.pem and NAME.key.
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
        -subj "/CN=$1" -keyout "$scratch/$1.key" -out "$scratch/$1.pem" 2>/dev/null
}
certificate() {
    local name=$1 by=$2 days=$3 file=${4:-$1}
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
        -keyout "$scratch/$file.key" -out "$scratch/$file.csr" 2>/dev/null
    openssl x509 -req -in "$scratch/$file.csr" -CA "$scratch/$by.pem" \
        -CAkey "$scratch/$by.key" -CAcreateserial -days "$days" \
        -extfile <(printf 'subjectAltName=DNS:%s' "$name") -out "$scratch/$file.pem" 2>/dev/null
    chmod 600 "$scratch/$file.key"
}
authority ours
authority theirs
for name in alpha beta gamma delta; do certificate $name ours 30; done
certificate beta theirs 30 foreign
certificate beta ours -1 expired
certificate mallory ours 30

{
    printf 'cluster %s\n' "$(printf 'ef%.0s' $(seq 16))"
    i=0
    for name in alpha beta gamma; do
        echo "$i $name tcp:127.0.0.1:$(free_port)"
        i=$((i + 1))
    done
} >"$scratch/members"
address_of() { awk -v name="$1" '$2 == name { print $3 }' "$scratch/members"; }

# prove CA FILE: the options of a member.
prove() { echo --ca "$scratch/$1.pem" --cert "$scratch/$2.pem" --cert-key "$scratch/$2.key"; }

# start NAME CA FILE [options]: an agent in the background; its process is $agent.
start() {
    local name=$1 options
    options=$(prove "$2" "$3")
    shift 3
    "$COPPICE" agent --members "$scratch/members" --id "$name" $options "$@" \
        --command "$scratch/$name.cmd" 2>>"$scratch/$name.log" &
    agent=$!
}
agents=()
for name in alpha beta gamma; do
    start $name ours $name --first
    agents+=($agent)
done
three() {
    out=$("$COPPICE" probe --agent "$scratch/alpha.cmd" --json --timeout 1s 2>/dev/null) || true
    [ "$(field answered)" = "$1" ]
}
until_true three 3
expect 0 coppice view --agent "$scratch/alpha.cmd" --json
[ "$(field security)" = certificates ] || die "$out"

# ---- our own is not accepted: said before anything else ----
expect 4 coppice agent --members "$scratch/members" --id beta $(prove ours expired)
grep -q 'certificate has expired' <<<"$err" || die "$err"
expect 4 coppice agent --members "$scratch/members" --id beta $(prove ours foreign)
grep -q 'nobody would accept us' <<<"$err" || die "$err"
expect 1 coppice agent --members "$scratch/members" --id beta --ca "$scratch/ours.pem" \
    --cert "$scratch/beta.pem" --cert-key "$scratch/gamma.key"
chmod 640 "$scratch/delta.key"
expect 4 coppice agent --members "$scratch/members" --id beta $(prove ours delta)
chmod 600 "$scratch/delta.key"

# ---- nobody, a foreigner, and one who is late ----
port=$(address_of alpha)
port=${port##*:}
said() { cat "$scratch/alpha.log" "$scratch/gamma.log" | grep -q "$1"; }
timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_3 </dev/null >/dev/null 2>&1 || true
until_true said 'its certificate is not accepted: it has none'
certificate_is_refused() {
    (sleep 0.3) | timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_3 \
        -cert "$scratch/$1.pem" -key "$scratch/$1.key" >/dev/null 2>&1 || true
}
before=$("$COPPICE" view --agent "$scratch/alpha.cmd" --json | sed 's/.*"epoch":\([0-9]*\).*/\1/')
certificate_is_refused foreign
certificate_is_refused expired
[ "$(grep -c 'its certificate is not accepted' "$scratch/alpha.log")" = 1 ] ||
    die "more than one line a minute: $(cat "$scratch/alpha.log")"
expect 4 coppice join --contact "$(address_of alpha)" $(prove theirs foreign) --as beta

# ---- a peer that claims another's name ----
# As a member that starts again: it asks for an invitation for beta.
kill "${agents[1]}"
wait "${agents[1]}" || die "beta ended with $?"
until_true three 2
start beta ours mallory
until_true said 'refused to invite n1: whoever asked has another'
wait $agent && die "it was let in"
# However often: one line a minute.
for i in 1 2 3; do
    expect 4 coppice join --contact "$(address_of alpha)" $(prove ours mallory) --as delta
done
lines=$(grep -c 'refused to invite' "$scratch/alpha.log" || true)
[ "$lines" = 1 ] || die "refused to invite, $lines times in the log"
# As one that says it was always there.
start beta ours mallory --first
until_true said "your certificate is another member's"
kill $agent 2>/dev/null || true
wait $agent 2>/dev/null || true
# As somebody new.
expect 4 coppice join --contact "$(address_of alpha)" $(prove ours mallory) --as delta
until_true three 2

# ---- those who are who they say ----
start beta ours beta
agents[1]=$agent
until_true three 3
"$COPPICE" join --contact "$(address_of gamma)" $(prove ours delta) --as delta \
    --command "$scratch/delta.cmd" 2>"$scratch/delta.log" &
agents+=($!)
until_true three 4
expect 0 coppice probe --agent "$scratch/delta.cmd" --json
[ "$(field answered)" = 4 ] || die "$out"

# ---- a renewed certificate ----
certificate gamma ours 60
kill -HUP "${agents[2]}"
renewed() { grep -q 'keys read again: certificates' "$scratch/gamma.log"; }
until_true renewed
until_true three 4
expect 0 coppice probe --agent "$scratch/gamma.cmd" --json
[ "$(field answered)" = 4 ] || die "$out"

kill "${agents[@]}"
wait "${agents[@]}" || die "an agent ended with $?"
assert_nothing_left
