#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who comes and goes on purpose: joins, one by one and eight at once, by the keeper and by a
# contact; spares that take over; goodbyes, also of the root; reports.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

joins() {
    expect 0 coppice up -n 6 "$@"
    expect 0 coppice join --json
    [ "$(field member)" = n6 ] && [ "$(field id)" = 6 ] || die "$out"
    all_see "n[0-6]"
    probe_says 7 "" --from n6

    # Eight at the same time.
    local i pids=()
    for i in 1 2 3 4 5 6 7 8; do
        "$COPPICE" join --as "x$i" >"$scratch/join.$i" 2>&1 &
        pids+=($!)
    done
    for i in "${pids[@]}"; do
        wait "$i" || die "a join failed: $(cat "$scratch"/join.*)"
    done
    all_see "n[0-6],x[1-8]"
    probe_says 15 ""
    [ "$(cat "$scratch"/join.* | sed 's/.* as //' | sort -n | tr '\n' ' ')" = \
        "7 8 9 10 11 12 13 14 " ] || die "ids: $(cat "$scratch"/join.*)"

    # They die and come back as any other.
    expect 0 coppice kill x[3-4]
    all_see "n[0-6],x[1-2,5-8]"
    probe_says 13 "x[3-4]"
    expect 0 coppice restart x3
    all_see "n[0-6],x[1-3,5-8]"
    # What cannot be a name is refused at once, and spoils nothing.
    local name
    for name in 'a b' 'n[0-3]' x,y '!x' @g a/b ü '' 12 0 $'a\033[1m' $'a\nb' "$(printf 'x%.0s' {1..64})"; do
        expect 2 coppice join --as "$name"
        grep -q 'cannot be a name: 1 to 63 letters' <<<"$err" || die "$err"
    done
    expect 0 coppice ps '!x4'
    grep -q '^14 members: ' <<<"$out" || die "$out"
    expect 4 coppice join --as n3
    expect 4 coppice join --as x4

    # A spare works when somebody's rank is free.
    expect 0 coppice restart x4
    expect 0 coppice join --spare --as s1
    all_see "n[0-6],s1,x[1-8]"
    [ "$(field spares)" = s1 ] || die "s1 is no spare: $out"
    expect 0 coppice kill n2
    all_see "n[0-1,3-6],s1,x[1-8]"
    [ "$(field spares)" = "" ] || die "s1 does not work: $out"
    grep -q '"what":"replaced","member":"s1","role":2' <<<"$out" || die "$out"
    expect 0 coppice ps --json s1
    [ "$(field role)" = 2 ] || die "$out"

    # Goodbyes: of a leaf, of the root, and of one of the others.
    expect 0 coppice leave x8
    all_see "n[0-1,3-6],s1,x[1-7]"
    [ "$(field left)" = x8 ] && [ "$(field removed)" = n2 ] || die "$out"
    expect 0 coppice leave n0
    all_see "n[1,3-6],s1,x[1-7]"
    [ "$(field root)" = n1 ] || die "$out"
    expect 0 coppice ps n0
    grep -q '^n0 .*left ' <<<"$out" || die "$out"
    grep -q '^1 member: 1 left (n0)$' <<<"$out" || die "$out"
    expect 1 coppice leave n0
    [ "$err" = 'coppice: n0 has left already' ] || die "$err"
    expect 1 coppice leave n2
    [ "$err" = 'coppice: n2 is dead' ] || die "$err"
    # Nothing is given up by a word that is refused.
    expect 4 coppice view --go-on 99999
    ! grep -q 'given up' <<<"$err" || die "$err"
    expect 0 coppice leave n[4-5]
    all_see "n[1,3,6],s1,x[1-7]"
    # Who left is not missed.
    probe_says 11 n2

    # Somebody outside knows: a member that cannot deny it is removed, and joins again
    # when it can.
    local before
    before=$(incarnation_of n6)
    expect 0 coppice kill n6 --signal STOP
    expect 0 coppice report n6 --why 'the test stopped it'
    gone() { coppice view --json --from n1 2>/dev/null | grep -q '"removed":"n\[2,6\]"'; }
    until_true gone
    expect 0 coppice kill n6 --signal CONT
    all_see "n[1,3,6],s1,x[1-7]"
    [ "$(incarnation_of n6)" -gt "$before" ] || die "the same life again"
    # One that lives denies it, every time.
    before=$(incarnation_of n3)
    for _ in $(seq 20); do
        expect 0 coppice report n3
    done
    all_see "n[1,3,6],s1,x[1-7]"
    [ "$(incarnation_of n3)" = "$before" ] || die "it was removed, and lives"
    all_answer() { (probe_says 11 n2) 2>/dev/null; }
    until_true all_answer
    expect 2 coppice report nobody
    expect 0 coppice down
    assert_nothing_left
}

joins
joins --transport tcp

# From outside, by a contact: its command socket, or the address of a member.
outside() {
    local contact prove=
    expect 0 coppice up -n 4 "$@"
    case $* in
    *insecure*) prove=--insecure ;;
    *tcp*) prove="--key $XDG_RUNTIME_DIR/coppice/default/key" ;;
    esac
    contact=$(coppice ps --json n2 | sed 's/.*"address":"\([^"]*\)".*/\1/')
    case $contact in
    unix:*) contact=$XDG_RUNTIME_DIR/coppice/default/c2.sock ;;
    esac
    "$COPPICE" join --contact "$contact" --as guest --command "$scratch/guest.sock" \
        $prove 2>"$scratch/guest.log" &
    local guest=$!
    is_in() { view_is "guest,n[0-3]" --from n3; }
    until_true is_in
    expect 0 coppice probe --agent "$scratch/guest.sock" --json
    [ "$(field answered)" = 5 ] || die "$out"
    # The name is taken.
    expect 4 coppice join --contact "$contact" --as guest $prove
    grep -q 'already there' <<<"$err" || die "$err"
    expect 0 coppice leave --agent "$scratch/guest.sock"
    wait $guest || die "the guest ended with $?: $(cat "$scratch/guest.log")"
    all_see "n[0-3]"
    expect 0 coppice down
    assert_nothing_left
}
outside
outside --transport tcp
outside --transport tcp --insecure
expect 3 coppice join --contact "unix:$scratch/nobody"
