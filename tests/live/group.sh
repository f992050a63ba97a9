#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Named node sets: every member knows them, also one that came later, as long as one lives.
. "$(dirname "$0")/lib.sh"

expect 0 coppice up -n 9
expect 0 coppice group list
[ -z "$out" ] || die "groups out of nothing: $out"
expect 0 coppice group set web n[0-3] n5
expect 0 coppice group set db n[7-8]
expect 0 coppice group set both @web,@db '!n2'
expect 0 coppice group list
[ "$out" = "both                  6  n[0-1,3,5,7-8]
db                    2  n[7-8]
web                   5  n[0-3,5]" ] || die "$out"
# Where members are taken: added, taken away, all but.
expect 0 coppice exec -g db -- true
expect 0 coppice exec -w '@web,!@db,!n[0-2],n8' -- echo x
[ "$out" = $'-- n[3,5,8] (3)\nx' ] || die "$out"
expect 0 coppice exec -w '!@both' -- echo x
[ "$out" = $'-- n[2,4,6] (3)\nx' ] || die "$out"
expect 0 coppice exec -w '@web!n[0-2]!@db' -- echo x
[ "$out" = $'-- n[3,5] (2)\nx' ] || die "$out"
expect 0 coppice exec --agent "$XDG_RUNTIME_DIR/coppice/default/c6.sock" -w '@db' -- echo x
[ "$out" = $'-- n[7-8] (2)\nx' ] || die "$out"
expect 0 coppice ps @db
grep -q '^2 members' <<<"$out" || die "$out"
# Another meaning; gone; and not back.
expect 0 coppice group set web n4
expect 0 coppice group rm db both
expect 0 coppice group list --json
[ "$(field name)" = web ] && [ "$(field members)" = n4 ] && [ "$(grep -c . <<<"$out")" = 1 ] || die "$out"
# New lives know nothing, and are told by the next reading; then the old ones may die.
expect 0 coppice kill n[5-8]
expect 0 coppice restart n[5-8]
expect 0 coppice group list web
expect 0 coppice kill n[0-3]
expect 0 coppice kill n4
expect 0 coppice restart n[0-4]
expect 0 coppice group list
[ "$out" = 'web                   1  n4' ] || die "$out"

bad() {
    local code=$1 text=$2
    shift 2
    expect "$code" "$@"
    [ "$(grep -c '' <<<"$err")" = 1 ] && grep -qF -- "$text" <<<"$err" || die "'$*': $err"
}
bad 2 'an operand is missing' coppice group
bad 2 "set, list or rm, not 'x'" coppice group x
bad 2 'takes a name and its members' coppice group set a
bad 2 "'a@b' cannot be the name of a group: 1 to 63 letters, digits and -_." \
    coppice group set a@b n1
bad 2 "there is no member 'n99'" coppice group set a n99
bad 2 "there is no group 'db'" coppice group set a @db
bad 1 "there is no group 'db'" coppice group rm db
bad 1 "there is no group 'db'" coppice group list db
bad 2 "there is no group 'db'" coppice exec -g db -- true
bad 2 '-g excludes -w' coppice exec -g web -w n1 -- true
expect 0 coppice down
assert_nothing_left
