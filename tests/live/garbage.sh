#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Nonsense on a member's port and on its command socket: the connection is closed, and
# nothing else happens.
. "$(dirname "$0")/lib.sh"

expect 0 coppice up -n 8 --transport tcp --insecure
probe_says 8 ""
port=$(coppice ps n0 | sed -n 's/.*tcp:127.0.0.1:\([0-9]*\).*/\1/p')

# say TEXT: sends bytes (printf's notation) to n0, then reads until n0 closes.
say() {
    exec 7<>"/dev/tcp/127.0.0.1/$port"
    # n0 may have closed before all is written.
    printf "$1" >&7 2>/dev/null || true
    # A reset, because n0 did not read everything, is a close as well.
    local status=0
    timeout 20 cat <&7 >/dev/null 2>&1 || status=$?
    [ $status -ne 124 ] || die "n0 did not close after '${1:0:20}'"
    exec 7<&- 7>&-
}
# Long enough to be judged: a record's head is 24 bytes.
zeros='\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000'
say 'GET / HTTP/1.0\r\nHost: example.org\r\n\r\n'
say "$zeros$zeros"
# A record that claims a body of 4 GiB.
say "\\004\\000\\000\\000\\377\\377\\377\\377$zeros"
# A greeting whose body is garbage.
say "\\001\\000\\000\\000\\010\\000\\000\\000${zeros}abcdefgh"
# A frame before any greeting, and not a command.
say "\\004\\000\\000\\000\\060\\000\\000\\000$zeros$zeros$zeros$zeros"
head -c 100000 /dev/urandom >"$scratch/noise"
exec 7<>"/dev/tcp/127.0.0.1/$port"
cat "$scratch/noise" >&7 2>/dev/null || true
exec 7<&- 7>&-
probe_says 8 ""
counted() {
    [ "$(coppice ps --stats n0 | awk '$2 == "refused_garbage" { print $3 }')" -ge 5 ]
}
until_true counted

# Connections on which nothing comes, or half a record, do not disturb.
exec 5<>"/dev/tcp/127.0.0.1/$port" 6<>"/dev/tcp/127.0.0.1/$port"
printf '\001\000' >&6
probe_says 8 ""
exec 5<&- 5>&- 6<&- 6>&-
probe_says 8 ""

# The same on the Unix sockets for commands, of a member and of the keeper.
speak='use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die;
$SIG{PIPE} = "IGNORE"; $s->syswrite(eval qq("$ARGV[1]")); $s->shutdown(1);
alarm 20; 1 while $s->sysread(my $x, 4096);'
for socket in c0.sock keeper.sock; do
    for bytes in 'hello, world, this is not a record' \
        '\x04\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' \
        '\x04\0\0\0\x30\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' '\x04' ''; do
        perl -e "$speak" "$XDG_RUNTIME_DIR/coppice/default/$socket" "$bytes" ||
            die "$socket: not closed after '$bytes'"
    done
done
probe_says 8 ""
expect 0 coppice ps
grep -q '^8 members: 8 running$' <<<"$out" || die "$out"

# A member of another cluster is refused, and told so.
expect 0 coppice up -n 2 --name other --transport tcp --insecure
sed "s/^cluster .*/cluster $(printf 'ab%.0s' $(seq 16))/" \
    "$XDG_RUNTIME_DIR/coppice/default/members" >"$scratch/members"
sed -i "s/^7 n7 .*/7 n7 unix:$(echo "$scratch" | sed 's:/:\\/:g')\/m7.sock/" "$scratch/members"
"$COPPICE" agent --members "$scratch/members" --id n7 --command "$scratch/c7.sock" \
    --first 2>"$scratch/agent.log" &
foreign=$!
listens() { [ -S "$scratch/c7.sock" ]; }
until_true listens
expect 1 coppice probe --agent "$scratch/c7.sock" --timeout 2s --json
[ "$(field answered)" = 1 ] || die "members of another cluster answered: $out"
kill $foreign
wait $foreign || die "the agent did not end cleanly"
rm -f "$scratch/c7.sock" "$scratch/m7.sock"
probe_says 8 ""
probe_says 2 "" --name other
expect 0 coppice down --name other
expect 0 coppice down
assert_nothing_left
