#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A cluster on hosts, from the first login to the last: it starts, works from a machine that is
# no member, loses a member and heals, gets it back, also after everything of a host was killed,
# and leaves nothing.
MEMBERS=3
. "$(dirname "$0")/lib_hosts.sh"

expect 0 up --hosts "$everywhere" --json
[ "$(field members)" = 3 ] && [ "$(field failed)" = "" ] || die "$out"
expect 1 up --hosts "$everywhere"
grep -q 'already up' <<<"$err" || die "$err"
expect 1 coppice up -n 2 --name "$cluster"
grep -q 'is up on hosts' <<<"$err" || die "$err"

# The key is there for its owner alone, and was on nobody's command line.
for key in "$XDG_STATE_HOME/coppice/$cluster/key" /tmp/coppice-0/$cluster@*/key; do
    [ "$(stat -c %a "$key")" = 600 ] || die "$key can be read by others"
done
[ "$(cat /tmp/coppice-0/$cluster@*/key | sort -u | wc -l)" = 1 ] || die "not the same key"
secret=$(sed -n 's/^use //p' "$XDG_STATE_HOME/coppice/$cluster/key")
[ ${#secret} = 64 ] || die "no key"
! grep -qs "$secret" /proc/[0-9]*/cmdline /proc/[0-9]*/environ || die "the key was seen"

# From here, through ssh.
sees "$everywhere" || die "$out"
[ "$(field epoch)" = 1 ] || die "somebody was taken for dead: $out"
expect 0 coppice probe --name "$cluster" --json
[ "$(field answered)" = 3 ] || die "$out"
expect 0 coppice exec --name "$cluster" -- hostname
grep -qF "$everywhere" <<<"$out" || die "$out"
expect 0 coppice ps --name "$cluster"
grep -q '^3 members: 3 running$' <<<"$out" || die "$out"
expect 0 coppice ps --name "$cluster" --json 10.77.0.2
[ "$(field state)" = running ] && [ "$(field private_bytes)" -gt 0 ] || die "$out"
pid=$(field pid)
[ "/proc/$pid/exe" -ef "$COPPICE" ] || die "$pid is no agent"

# One dies: the others agree on a view without it. It comes back.
expect 0 coppice kill --name "$cluster" 10.77.0.2
patiently sees '10.77.0.[1,3]'
expect 1 coppice kill --name "$cluster" 10.77.0.2
grep -q '^coppice: 10.77.0.2: dead already' <<<"$err" || die "$err"
expect 0 coppice ps --name "$cluster" --json 10.77.0.2
[ "$(field state)" = dead ] && [ "$(field end)" = "killed by SIGKILL" ] || die "$out"
expect 0 coppice restart --name "$cluster" 10.77.0.2
patiently sees "$everywhere"

# Everything of a host is killed, as at a crash; and the first one is, which was asked so far.
for pid in $(processes); do
    [ "$(readlink "/proc/$pid/ns/net")" = "$("$SWITCH" --in 0 readlink /proc/self/ns/net)" ] &&
        kill -KILL "$pid"
done
patiently sees '10.77.0.[2-3]'
expect 0 coppice restart --name "$cluster" 10.77.0.1
patiently sees "$everywhere"
expect 0 coppice probe --name "$cluster" --json
[ "$(field answered)" = 3 ] || die "$out"

# Another key, everywhere, and the old one opens nothing any more.
expect 0 coppice key rotate --name "$cluster"
[ "$(cat /tmp/coppice-0/$cluster@*/key "$XDG_STATE_HOME/coppice/$cluster/key" | sort -u |
    grep -c '^use ')" = 1 ] || die "not the same key"
! grep -qF "$secret" "$XDG_STATE_HOME/coppice/$cluster/key" || die "it is the old key"
expect 0 coppice probe --name "$cluster" --json
[ "$(field answered)" = 3 ] || die "$out"
expect 2 coppice join --name "$cluster"

expect 0 coppice down --name "$cluster"
assert_all_gone
expect 3 coppice down --name "$cluster"
