#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What goes wrong with hosts: another version, no command, a host that cannot be reached, a port
# that is taken; at the start, where nothing is left, and at the end, where the others go on.
MEMBERS=3
# Each host that is unplugged costs so much.
CONNECT_TIMEOUT=6
. "$(dirname "$0")/lib_hosts.sh"

# Another version, and none: each in a line, before anything starts.
printf '#!/bin/sh\necho coppice 0.0.1\n' >"$scratch/other"
chmod +x "$scratch/other"
ln -sf "$scratch/other" "$scratch/host0/bin/coppice"
rm "$scratch/host1/bin/coppice"
expect 1 up --hosts "$everywhere"
grep -q '^coppice: another version of coppice than .* here: 10.77.0.1 (0.0.1)$' <<<"$err" ||
    die "$err"
grep -q '^coppice: 10.77.0.2: there is no coppice there' <<<"$err" || die "$err"
[ "$(wc -l <<<"$err")" = 3 ] || die "$err"
assert_all_gone
# With a path it is found.
expect 0 up --hosts "$everywhere" --remote "$COPPICE"
expect 0 coppice down --name "$cluster"
assert_all_gone
ln -sf "$COPPICE" "$scratch/host0/bin/coppice"
ln -sf "$COPPICE" "$scratch/host1/bin/coppice"

# A file of hosts: names, a user, a port that somebody has.
cat >"$scratch/hosts" <<END
# three
10.77.0.1 name=alpha
root@10.77.0.2:7700 name=beta
10.77.0.[3-3]
END
expect 0 up --hosts "$scratch/hosts" --print
grep -q '^1 beta tcp:10.77.0.2:7700$' <<<"$out" || die "$out"
grep -q '^2 10.77.0.3 tcp:10.77.0.3:7640$' <<<"$out" || die "$out"
"$SWITCH" --in 1 perl -MIO::Socket::INET -e '$| = 1;
    $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "10.77.0.2:7700") or die;
    print "ready\n"; sleep 600' >"$scratch/taken" &
squatter=$!
patiently test -s "$scratch/taken"
expect 1 up --hosts "$scratch/hosts"
grep -q '^coppice: beta: tcp:10.77.0.2:7700 is taken' <<<"$err" || die "$err"
assert_all_gone
kill "$squatter"
wait "$squatter" || true
expect 2 up --hosts "$scratch/nothing"
grep -q 'No such file' <<<"$err" || die "$err"
expect 2 up --hosts "$scratch/hosts" --quorum has:gamma
grep -q gamma <<<"$err" || die "$err"

# One cannot be reached: named, and nothing is started; or the others are.
net unplug 2
expect 1 up --hosts "$scratch/hosts"
grep -q '^coppice: 10.77.0.3: not reached: ' <<<"$err" || die "$err"
assert_all_gone
expect 1 up --hosts "$scratch/hosts" --keep-going --json
[ "$(field members)" = 2 ] && [ "$(field failed)" = 10.77.0.3 ] || die "$out $err"
patiently sees alpha,beta
expect 0 coppice down --name "$cluster"
assert_all_gone
net plug 2

# One is gone at the end: named, the rest goes on, and the cluster is kept in mind.
expect 0 up --hosts "$scratch/hosts"
net unplug 0
patiently sees '10.77.0.3,beta'
expect 1 coppice ps --name "$cluster"
grep -q '^alpha *unreachable' <<<"$out" || die "$out"
expect 1 coppice down --name "$cluster"
grep -q '^coppice: alpha: not reached: ' <<<"$err" || die "$err"
ls -d /tmp/coppice-0/$cluster@{beta,10.77.0.3} 2>/dev/null && die "the rest did not go on"
net plug 0
expect 0 coppice down --name "$cluster"
assert_all_gone

# And for good.
expect 0 up --hosts 10.77.0.1
net unplug 0
expect 1 coppice down --force --name "$cluster"
nothing_known || die "it is kept in mind"
net plug 0
# What was forgotten is still there, and can be ended there by hand.
[ -n "$(left_at_hosts)" ] || die "nobody could have ended it"
expect 0 "$SWITCH" --in 0 "$COPPICE" host stop "$cluster" 10.77.0.1
assert_all_gone

# Interrupted while one host takes its time: what was started is stopped.
rm "$scratch/host2/bin/coppice"
cat >"$scratch/host2/bin/coppice" <<END
#!/bin/sh
case "\$1 \$2" in
"host start") exec sleep 600 ;;
esac
exec "$COPPICE" "\$@"
END
chmod +x "$scratch/host2/bin/coppice"
"$SWITCH" --in "$MEMBERS" "$COPPICE" up --name "$cluster" --ssh "$ssh_command" \
    --hosts "$scratch/hosts" >"$scratch/out" 2>"$scratch/err" &
starter=$!
patiently test -S "/tmp/coppice-0/$cluster@alpha/keeper.sock"
kill -INT "$starter"
code=0
wait "$starter" || code=$?
[ $code = 130 ] || die "interrupted, it ended with $code: $(cat "$scratch/err")"
assert_all_gone
