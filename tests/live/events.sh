#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who was suspected, by whom and why, and what came of it: in the memory of one member, and
# followed over the death of the member that is asked.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

# has FILE KEY=VALUE...: some object in it has all of these.
has() {
    local file=$1 lines pair value
    shift
    lines=$(cat "$file")
    for pair in "$@"; do
        value=${pair#*=}
        lines=$(grep -E "\"${pair%%=*}\":\"?$value\"?[,}]" <<<"$lines") || return 1
    done
}

expect 0 coppice up -n 7
expect 0 coppice events
[ "$out" = "as n0 remembers" ] || die "$out"
expect 0 coppice kill n3
all_see "n[0-2,4-6]"
# Who finds it first accuses; the root hears of it, or was the first itself; all have the view.
first=0
for name in n0 n1 n2 n4 n5 n6; do
    expect 0 coppice events --member $name --json
    has "$scratch/out" what=removed member=n3 epoch=2 accuser=null from=$name || die "$out"
    has "$scratch/out" what=suspected accuser=$name member=n3 reason=refused outcome=removed epoch=2 &&
        first=$((first + 1))
done
[ $first -ge 1 ] || die "nobody was the first to know"
expect 0 coppice events
grep -Eq ' (n[0-9] says that n3 is gone|n0 suspects n3: nobody listens there); removed by view 2$' \
    <<<"$out" || die "$out"
grep -q ' view 2: n3 removed$' <<<"$out" || die "$out"

# Followed: what was, what comes, and on with the next when the one that is asked dies.
"$COPPICE" events --follow --json >"$scratch/log" 2>"$scratch/said" &
follower=$!
until_true has "$scratch/log" what=removed member=n3 from=n0
expect 0 coppice kill n0
until_true has "$scratch/log" what=suspected member=n0 from=n1
until_true has "$scratch/log" what=removed member=n0 from=n1
until_true has "$scratch/log" member=n0 outcome=removed from=n1
grep -qx 'coppice: n0 does not answer any more; going on with n1' "$scratch/said" ||
    die "$(cat "$scratch/said")"
# Once: what the first had shown the second does not show again.
[ "$(grep -c '"what":"removed","member":"n3"' "$scratch/log")" = 1 ] || die "$(cat "$scratch/log")"
expect 0 coppice leave n6
until_true has "$scratch/log" what=left member=n6
expect 0 coppice restart n3
until_true has "$scratch/log" what=joined member=n3
# A member that was stopped is passed over, too.
expect 0 coppice kill n1 --signal STOP
until_true grep -q 'n1 does not answer any more; going on with n2' "$scratch/said"
expect 0 coppice report n1 --why "it is stopped"
until_true has "$scratch/log" what=removed member=n1 from=n2
kill "$follower"
wait "$follower" || [ $? = 143 ] || die "the follower ended by itself: $(cat "$scratch/said")"
# Who follows ends when nobody reads it any more, also if nothing happens.
for command in 'view --watch' 'events --follow'; do
    timeout 20 bash -c "'$COPPICE' $command | head -1" >/dev/null || die "'$command | head -1' goes on"
done

# Only 64 are kept, and who reads says what is missing.
expect 0 coppice kill n1 --signal CONT
until_true each_sees "n[1-5]"
before=$(incarnation_of n4)
for i in $(seq 70); do
    expect 0 coppice report n4
done
[ "$(incarnation_of n4)" = "$before" ] || die "it was removed, and lives"
expect 0 coppice events --member n1 --json
[ "$(grep -c '"what":"suspected"' "$scratch/out")" -le 64 ] || die "$out"
has "$scratch/out" what=lost 'count=[1-9][0-9]*' || die "$out"

# One member and no other: when it is gone, that is the end.
"$COPPICE" events --follow --member n5 >"$scratch/log" 2>"$scratch/said" &
follower=$!
until_true grep -q 'as n5 remembers' "$scratch/log"
expect 0 coppice kill n5
code=0
wait "$follower" || code=$?
[ $code = 1 ] && grep -q 'agent that was asked is gone' "$scratch/said" || die "$(cat "$scratch/said")"
expect 3 coppice events --member n5
expect 2 coppice events --member n9
expect 2 coppice events --member n[1-2]
expect 2 coppice events --agent x --member n1
expect 3 coppice events --agent "$scratch/nothing"

# The end of all of them is the end of it.
"$COPPICE" view --watch --json >"$scratch/log" 2>"$scratch/said" &
follower=$!
until_true grep -q schema "$scratch/log"
expect 0 coppice down
code=0
wait "$follower" || code=$?
[ $code != 0 ] && [ -s "$scratch/said" ] || die "exit status $code: $(cat "$scratch/said")"
assert_nothing_left
