#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that can be wrong gives its exit status and exactly one line, and leaves
# nothing behind. CODE, what the line must contain, the command.
. "$(dirname "$0")/lib.sh"

cases=0
bad() {
    local code=$1 text=$2
    shift 2
    expect "$code" "$@"
    [ "$(grep -c '' <<<"$err")" = 1 ] || die "not exactly one line from '$*': $err"
    grep -qF -- "$text" <<<"$err" || die "'$*' does not say '$text': $err"
    [ -z "$out" ] || die "'$*' prints something, too: $out"
    cases=$((cases + 1))
}

# ---- without a cluster ----
bad 2 'a command is missing' coppice
bad 2 "did you mean 'probe'" coppice prove
bad 2 "did you mean 'up'" coppice upp
bad 2 'coppice --help lists them' coppice frobnicate
bad 2 "no command '?[31m'" coppice $'\e[31m'
bad 2 "did you mean 'demo'" coppice help dem
for command in up down ps probe kill restart bench 'bench contention' 'bench ts' config agent demo model exec bcast put group; do
    bad 2 'unknown option --frob' coppice $command --frob
    bad 2 'unknown option -Z' coppice $command -Z
done
bad 2 'an operand is missing' coppice filter
bad 2 'of which processes' coppice stacks
bad 2 '--interval takes a time from 1ms to 3600s' coppice top --interval 1us
bad 2 'not both' coppice top --sample --read x
bad 2 'cannot read /nonexistent' coppice top --read /nonexistent
bad 2 'cannot read /nonexistent' coppice stacks --read /nonexistent
bad 2 "bad list of processes '1,x'" coppice stacks --pid 1,x
bad 2 'only one of' coppice stacks --pid 1 --dot --json
bad 2 "list or check, not 'x'" coppice filter x
bad 2 'check what?' coppice filter check
bad 2 "'/dev/null' is neither built in" coppice filter check /dev/null
bad 2 "cannot load '/dev/null'" coppice filter list /dev/null
bad 2 'a value is missing after --shape' coppice up --shape
bad 2 'this option takes no value: --json=1' coppice ps --json=1
bad 2 'unexpected operand x' coppice down x
bad 2 'an operand is missing' coppice kill
bad 2 'an operand is missing' coppice restart
bad 2 'an operand is missing' coppice bench
bad 2 "'x' is no benchmark" coppice bench x
bad 2 'contention comes first' coppice bench --json contention
bad 2 'ts comes first' coppice bench --json ts
bad 2 '-n N is needed' coppice up
bad 2 'a number from 1 to 16384' coppice up -n 0
bad 2 'a number from 1 to 16384' coppice up -n 16385
bad 2 'a number from 1 to 16384' coppice up -n many
bad 2 'a number from 1 to 16384' coppice up -n -1
bad 2 'a number from 1 to 16384' coppice up -n 99999999999999999999999
bad 2 "bad shape 'cube:3'" coppice up -n 2 --shape cube:3
bad 2 "bad shape 'radix:3'" coppice up -n 2 --shape radix:3
bad 2 "bad shape 'hosts:radix:4'" coppice up -n 2 --shape hosts:radix:4
bad 2 "bad name '../x'" coppice up -n 2 --name ../x
bad 2 "bad name '.x'" coppice up -n 2 --name .x
bad 2 "bad name ''" coppice up -n 2 --name ''
bad 2 "bad transport 'udp'" coppice up -n 2 --transport udp
bad 2 '--insecure is for --transport tcp' coppice up -n 2 --insecure
bad 2 "bad quorum 'most'" coppice up -n 2 --quorum most
bad 2 "bad detector 'ring'" coppice up -n 2 --detector ring
bad 2 "bad detector 'ring:1ns'" coppice up -n 2 --detector ring:1ns
bad 2 "bad detector 'ring:1s,witnesses:'" coppice up -n 2 --detector ring:1s,witnesses:
bad 2 "bad guard '-1'" coppice up -n 2 --guard -1
bad 2 "bad guard 'many'" coppice up -n 2 --guard many
for option in '--fanout 4' '--patience 5s' '--user x' '--ssh ssh' '--remote x' '--port 7000'; do
    bad 2 "${option%% *} is for --hosts, not for -n" coppice up -n 2 $option
done
bad 2 '--key is for --transport tcp, or --hosts' coppice up -n 2 --key x
bad 2 '--key and --insecure exclude each other' \
    coppice up -n 2 --transport tcp --insecure --key x
bad 1 'No such file' coppice up -n 2 --transport tcp --key "$scratch/none"
bad 2 "bad quorum 'has:'" coppice up -n 2 --quorum has:
bad 2 "there is no member 'n2'" coppice up -n 2 --quorum has:n1,n2
bad 2 "there is no member 'x'" coppice up -n 2 --quorum has:x
bad 2 "bad timeout '5'" coppice probe --timeout 5
bad 2 "bad timeout '-5s'" coppice probe --timeout -5s
bad 2 "bad timeout 'infs'" coppice probe --timeout infs
bad 2 'takes a number from 1 to 1000000' coppice probe --count 0
bad 2 'exclude each other' coppice probe --agent x --from 1
bad 2 "KILL, STOP or CONT, not 'TERM'" coppice kill n0 --signal TERM
bad 2 'up to 16 numbers' coppice bench sweep -n 64,
bad 2 'up to 16 numbers' coppice bench floor --arity 0
bad 2 "unix or tcp, not 'x'" coppice bench floor --transport x
bad 2 'unexpected operand x' coppice bench contention x
bad 2 'unexpected operand x' coppice bench ts x
bad 2 'numbers from 4 to 4096' coppice bench ts -n 3
bad 2 'numbers from 2 to 1024' coppice bench ts --arity 1
bad 2 "connection, inquiry or ring, not 'x'" coppice bench ts --trigger x
bad 2 'random, leaf, inner and root' coppice bench ts --victim leaf,x
bad 2 'random, leaf, inner and root' coppice bench ts --victim leaf,leaf
bad 2 'random, leaf, inner and root' coppice bench ts --victim any
bad 2 'all but the root are leaves' coppice bench ts -n 5 --arity 4 --victim inner
bad 2 "unix or tcp, not 'x'" coppice bench ts --transport x
bad 2 'json or --csv, not both' coppice bench ts --json --csv
bad 2 'pairs and tree:2 to tree:64' coppice bench contention --pattern ring
bad 2 'pairs and tree:2 to tree:64' coppice bench contention --pattern pairs,
bad 2 'names tree:2 twice' coppice bench contention --pattern tree:2,tree:2
bad 2 'up to 16 numbers from 2 to 4096' coppice bench contention --n 1
bad 2 'up to 16 numbers from 2 to 4096' coppice bench contention --n 2-40
bad 2 'an even number, not 5' coppice bench contention --pattern pairs --n 4,5
bad 2 '--n has 6 twice' coppice bench contention --pattern tree:2 --n 6,4-8
bad 2 'a number from 7 to 1000' coppice bench contention --rounds 6
bad 2 'No such file' coppice bench contention --out "$scratch/none/x"
bad 1 'processes failed: Too many open files' \
    bash -c 'ulimit -n 7; exec "$0" bench contention --pattern tree:4 --n 5' "$COPPICE"
model='coppice model ts --n 8 --arity 2 --latency 5us --compute 2us'
bad 2 'an operand is missing' coppice model
bad 2 "ts or bcast, not 'x'" coppice model x
bad 2 '--n N is needed' coppice model ts
bad 2 'from 1 to 16777216' $model --n 0
bad 2 'from 1 to 16777216' $model --n 8-4
bad 2 '--arity A is needed, or --best' coppice model ts --n 8 --latency 5us --compute 2us
bad 2 '--latency L is needed' coppice model ts --n 8 --arity 2 --compute 2us
bad 2 '--compute O is needed' coppice model ts --n 8 --arity 2 --latency 5us
bad 2 'takes a time' $model --latency 5
bad 2 'from 2 to 1024, or flat' $model --arity 1
bad 2 'from 2 to 1024, or flat' $model --arity 2,,4
bad 2 'from 2 to 1024, or flat' $model --arity ''
bad 2 '--torus takes X,Y,Z' $model --torus 8
bad 2 '--torus takes X,Y,Z' $model --torus 8,8,0
bad 2 '--torus takes X,Y,Z' $model --torus 8,8,8,8
bad 2 'the torus 2,2,2 has no place for 9 nodes' $model --torus 2,2,2 --n 3,9,1
bad 2 'No such file' $model --contention "$scratch/none"
bad 2 'Is a directory' $model --contention "$scratch"
printf 'pattern,n,latency_ns\npairs,2,x\n' >"$scratch/latencies"
bad 2 'latencies: line 2: expected a row' $model --contention "$scratch/latencies"
bad 2 'there are no rows' $model --contention /dev/null
# What would not be looked at is not taken.
bad 2 '--seeds goes with --swarm only' coppice sim --seeds 5
bad 2 '--lies goes with --swarm only' coppice sim --lies
bad 2 '--seed does not go with --swarm; one seed is --seeds S..S' coppice sim --swarm --seed 5
bad 2 '--script does not go with --swarm' coppice sim --swarm --script "$scratch/none"
bad 2 '--nodes does not go with --script' coppice sim --script /dev/null -n 4
bad 2 'cannot read /: Is a directory' coppice sim --script /
bad 2 "sim: --net 'x': net must be constant" coppice sim --net x
bad 2 "sim: --net '': " coppice sim --net ''
bad 2 'sim: shape "x": no such shape' coppice sim --shape x
bad 2 "sim: --shape 'radix:4 y': did not expect 'y'" coppice sim --shape 'radix:4 y'
bad 2 '--limit takes a number from 1 to 1000000, not ' coppice filter check sum --limit 0
bad 2 '--limit is for check, not for list' coppice filter list --limit 5
bad 2 '--type is for check, not for list' coppice filter list --type u64
bad 2 '--only goes with --cost' coppice bench stream --only healing:all
bad 2 '--only is healing or fragile' coppice bench stream --cost --only fragile
# Before anything is measured, also where only the last point is wrong.
bad 2 "bench: --algorithm: unknown algorithm 'x'" coppice bench agree --algorithm tree,x
bad 2 '--killed: of 8 not 7 can be killed: two must be left' coppice bench agree -n 64,8 --killed 0,7
# Whatever takes a number or a time names the option whose value is wrong. (host is no command of people's.)
checked=0
for command in $("$COPPICE" --help | sed -n 's/^  \([a-z]*\) .*/\1/p') bench\ {agree,bcast,bulk,contention,exec,floor,rpc,recovery,stream,sweep,tls,ts} 'model bcast'; do
    for option in $("$COPPICE" $command --help | sed -n 's/^  \(-., \| *\)--\([a-z-]*\) \(N\|K\|S\|J\|D\|MIB\|SEED\|BYTES\|TIME\|MS\|L\) .*/\2/p'); do
        bad 2 "--$option" coppice $command --$option 'x y'
        bad 2 "--$option" coppice $command --$option=
        checked=$((checked + 1))
    done
done
[ $checked -gt 60 ] || die "only $checked options are looked at"
for command in ps down probe 'kill n0' 'restart n0' view join 'leave n0' 'report n0'; do
    bad 3 "there is no cluster 'default'" coppice $command
    bad 3 "there is no cluster 'nope'" coppice $command --name nope
    hint=$(sed -n "s/.*; start one with: coppice //p" <<<"$err")
    [ "$hint" = "$([ "$command" = down ] || echo 'up -n 8 --name nope')" ] || die "$command: $err"
done
expect 0 coppice up -n 8 --name nope
expect 0 coppice down --name nope
bad 3 'no agent takes commands' coppice probe --agent "$scratch/nothing"
bad 3 'no agent takes commands' coppice view --agent "$scratch/nothing"
bad 3 'no agent takes commands' coppice leave --agent "$scratch/nothing"
bad 3 'no agent takes commands' coppice report --agent "$scratch/nothing" n0
bad 3 'nobody answers at' coppice join --contact "$scratch/nothing"
bad 2 'members, or --agent SOCKET' coppice leave
bad 2 'an operand is missing' coppice report
bad 2 '--agent excludes' coppice view --agent x --from n0
bad 2 '--contact excludes' coppice join --contact x --name y
bad 2 'need --contact' coppice join --listen unix:x
bad 2 "'a/b' cannot be a name: 1 to 63 letters" coppice join --contact x --as a/b
bad 2 "'12' cannot be a name" coppice join --contact x --as 12
bad 2 "'' cannot be a name" coppice join --contact x --as ''
bad 2 "'a b' cannot be a name" coppice join --as 'a b'
bad 2 'a port is a number' coppice join --contact tcp:127.0.0.1:0
assert_nothing_left

# ---- settings from the environment and from a file ----
bad 2 "COPPICE_SHAPE: bad shape 'x'" env COPPICE_SHAPE=x "$COPPICE" config
bad 2 "COPPICE_TIMEOUT: bad timeout 'x'" env COPPICE_TIMEOUT=x "$COPPICE" config
conf=$scratch/conf
bad_conf() {
    printf '%b' "$1" >"$conf"
    bad 2 "$2" env COPPICE_CONF="$conf" "$COPPICE" config
}
bad_conf '# fine\nshape = radix:4\nfrob = 1\n' "conf:3: unknown setting 'frob'"
bad_conf 'shape\n' 'conf:1: expected "key = value"'
bad_conf '\n\ntransport = pigeon' "conf:3: bad transport 'pigeon'"
bad_conf "name = $(printf 'x%.0s' {1..600})" 'conf:1: the line is too long'
bad 2 'No such file' env COPPICE_CONF="$scratch/none" "$COPPICE" config
printf 'shape = kary:3 # three\ntimeout=2s\n' >"$conf"
COPPICE_CONF=$conf COPPICE_TIMEOUT=3s expect 0 coppice config --name x
grep -q "^name  *x  *--name$" <<<"$out" || die "$out"
grep -q "^shape  *kary:3  *$conf:1$" <<<"$out" || die "$out"
grep -q "^timeout  *3s  *COPPICE_TIMEOUT$" <<<"$out" || die "$out"
grep -q "^transport  *unix  *default$" <<<"$out" || die "$out"

# The documentation lists every one of them.
document=$(dirname "$0")/../../docs/json.md
for setting in $(coppice config --json | sed 's/.*"setting":"\([a-z]*\)".*/\1/'); do
    grep -q "^| .setting. | string | .*\`$setting\`" "$document" || die "json.md: no $setting"
done

# ---- limits and places ----
bad 1 'file descriptors, and the limit is 100: raise it' \
    bash -c 'ulimit -n 100; exec "$0" up -n 64' "$COPPICE"
long=$scratch/$(printf 'd%.0s' {1..90})
mkdir -m 0700 "$long"
bad 1 'XDG_RUNTIME_DIR' env XDG_RUNTIME_DIR="$long" "$COPPICE" up -n 2
bad 1 'No such file' env XDG_RUNTIME_DIR="$scratch/none" "$COPPICE" up -n 2
mkdir -m 0700 "$scratch/open" "$scratch/link"
mkdir -m 0755 "$scratch/open/coppice"
bad 1 'is open to others (mode 755)' env XDG_RUNTIME_DIR="$scratch/open" "$COPPICE" up -n 2
bad 1 'is open to others (mode 755)' env XDG_RUNTIME_DIR="$scratch/open" "$COPPICE" ps
ln -s /tmp "$scratch/link/coppice"
bad 1 'coppice' env XDG_RUNTIME_DIR="$scratch/link" "$COPPICE" up -n 2
mkdir -m 0700 "$XDG_RUNTIME_DIR/coppice"
ln -s /tmp "$XDG_RUNTIME_DIR/coppice/default"
bad 1 'is not a directory of ours' coppice up -n 2
bad 1 'is not a directory of ours' coppice ps
rm -r "$XDG_RUNTIME_DIR/coppice"
if [ "$(id -u)" = 0 ]; then
    mkdir -m 0700 "$XDG_RUNTIME_DIR/coppice"
    chown 12345 "$XDG_RUNTIME_DIR/coppice"
    bad 1 'belongs to somebody else (uid 12345)' coppice up -n 2
    rmdir "$XDG_RUNTIME_DIR/coppice"
fi

# ---- agents ----
members=$scratch/members
bad_members() {
    printf '%b' "$1" >"$members"
    bad 2 "$2" coppice agent --members "$members" --id 0
}
id='cluster 00112233445566778899aabbccddeeff\n'
bad 2 '--members and --id are needed' coppice agent
bad 2 'No such file' coppice agent --members "$scratch/none" --id 0
bad 2 'not a file of members' coppice agent --members "$scratch" --id 0
bad_members '' 'not a file of members'
bad_members "$id" 'there are no members in it'
bad_members '0 a unix:x\n' 'the line "cluster ID" is missing'
bad_members 'cluster 12\n0 a unix:x\n' 'members:1: the id of a cluster is 32 digits'
bad_members "${id}frob 1\n" "members:2: unknown key 'frob'"
bad_members "${id}shape cube\n" 'members:2: '
bad_members "${id}quorum most\n" 'members:2: quorum is majority, none, fixed or has:NAMES'
bad_members "${id}quorum has:b\n0 a unix:x\n" "quorum: there is no member 'b'"
bad_members "${id}directory x\n" 'members:2: the directory is a path from the root'
bad_members "${id}0 a\n" 'members:2: expected "ID NAME ADDRESS"'
bad_members "${id}1 a unix:x\n" "members:2: expected member 0 here, not '1'"
bad_members "${id}0 a unix:x\n0 b unix:y\n" "members:3: expected member 1 here, not '0'"
bad_members "${id}0 a unix:x\n1 a unix:y\n" "two members are called 'a'"
bad_members "${id}0 a/b unix:x\n" "members:2: 'a/b' cannot be a name"
bad_members "${id}0 a file:x\n" 'members:2: an address begins with unix: or tcp:'
bad_members "${id}0 a tcp:localhost:80\n" 'members:2: the host must be a number'
bad_members "${id}0 a tcp:127.0.0.1:0\n" 'members:2: a port is a number from 1 to 65535'
bad_members "${id}0 a unix:$(printf 'x%.0s' {1..120})\n" 'members:2: the path of a socket'
printf "${id}0 a tcp:127.0.0.1:1\n1 b unix:b\n" >"$members"
bad 2 "there is no member 'c'" coppice agent --members "$members" --id c
bad 2 '--id takes one member' coppice agent --members "$members" --id 0,1
bad 2 'type --insecure' coppice agent --members "$members" --id a
bad 2 'go together' coppice agent --members "$members" --id a --ca x
bad 2 'exclude each other' coppice agent --members "$members" --id a --key x --insecure
bad 1 'No such file' coppice agent --members "$members" --id a --key "$scratch/none"
bad 1 'No such file' coppice agent --members "$members" --id a --ca "$scratch/none" \
    --cert "$scratch/none" --cert-key "$scratch/none"
bad 2 'type --insecure' coppice join --contact tcp:127.0.0.1:9
# Keys.
bad 2 'which file' coppice key new
bad 2 "not 'x'" coppice key x "$scratch/k"
bad 2 '--name is for check and rotate' coppice key show --name default
bad 2 'exclude each other' coppice key check --name default "$scratch/k"
bad 3 "no cluster 'default'" coppice key rotate --name default
bad 1 'No such file' coppice key show "$scratch/none"
bad 1 'No such file' coppice key new "$scratch/none/k"
bad 1 'not a key file' coppice key show "$scratch"
(umask 077; printf 'use %064d\nnext %064d\nformer %064d\n' 1 2 3 >"$scratch/k")
bad 1 'k:3: expected' coppice key show "$scratch/k"
bad 1 'File exists' coppice key new "$scratch/k"
printf 'use %064d\nuse %064d\n' 1 2 >"$scratch/k"
bad 1 'k:2: expected' coppice key check "$scratch/k"
printf 'use %063d\n' 1 >"$scratch/k"
bad 1 'k:1: expected' coppice key rotate "$scratch/k"
printf '# nothing\n' >"$scratch/k"
bad 1 'no key in it' coppice key show "$scratch/k"
head -c 5000 /dev/zero >"$scratch/k"
bad 1 'too long' coppice key show "$scratch/k"
printf 'use %064d\n' 1 >"$scratch/k"
touch "$scratch/k.new"
bad 1 'somebody else changes the key' coppice key rotate "$scratch/k"
rm "$scratch/k.new"
chmod 640 "$scratch/k"
bad 4 'chmod 600' coppice key show "$scratch/k"
bad 4 'chmod 600' coppice agent --members "$members" --id a --key "$scratch/k"
bad 4 'chmod 600' coppice up -n 2 --transport tcp --key "$scratch/k"
rm "$scratch/k"
bad 2 "--listen x: an address begins with" coppice agent --members "$members" --id a --listen x
bad 1 'cannot listen on' coppice agent --members "$members" --id a \
    --listen "unix:$scratch/none/x"
assert_nothing_left

# ---- with a key of somebody's own, from where it was typed ----
(umask 077; cd "$scratch" && coppice key new k >/dev/null)
(cd "$scratch" && coppice up -n 3 --transport tcp --key k >/dev/null)
grep -h '^use' "$scratch/k" >"$scratch/use"
grep -qxFf "$scratch/use" "$XDG_RUNTIME_DIR/coppice/default/key" || die 'it has another key'
probe_says 3 ""
expect 0 coppice down
[ -s "$scratch/k" ] || die 'the key is gone'
rm "$scratch/k"
assert_nothing_left

# ---- with a cluster ----
expect 0 coppice up -n 4 --transport tcp --insecure
port=$(coppice ps n2 | sed -n 's/.*tcp:127.0.0.1:\([0-9]*\).*/\1/p')
bad 1 'is taken: another process listens there' coppice agent --members "$members" \
    --id a --listen "tcp:127.0.0.1:$port" --insecure
bad 1 "cluster 'default' is already up" coppice up -n 2
bad 2 "there is no member 'n4'" coppice kill n4
bad 2 "there is no member 'n4'" coppice kill n[0-4]
bad 2 "there is no member '4'" coppice kill 4
bad 2 'is not closed' coppice kill 'n[0-1'
bad 2 "there is no group 'all'" coppice kill @all
bad 2 'kill: ' coppice kill ''
# Nobody is a mistake, not a success.
for command in kill restart leave report drain ps 'ps --stats'; do
    bad 2 "${command%% *}: '!n[0-3]' is nobody" coppice $command '!n[0-3]'
    bad 2 "${command%% *}: 'n1' with what follows is nobody" coppice $command n1 '!n1'
done
bad 2 "exec: 'n0!n0' is nobody" coppice exec -w 'n0!n0' -- true
bad 4 "if it is dead or has left, type: coppice restart --name default n2" coppice join --as n2
bad 2 "there is no member 'x'" coppice restart x
bad 2 "there is no member 'x'" coppice ps x
bad 2 "there is no member 'x'" coppice probe --from x
bad 2 '--from takes one member' coppice probe --from n[0-1]
bad 2 "bad shape 'cube'" coppice probe --shape cube
bad 4 'its view is 1, not 99: look again' coppice view --go-on 99
if [ -w /dev/full ]; then
    for words in events view ps probe 'group list'; do
        [ "$words" != 'group list' ] || expect 0 coppice group set some n1
        bad 1 'cannot write the output: No space left' \
            bash -c 'exec "$0" $1 >/dev/full' "$COPPICE" "$words"
    done
fi
# Nobody was harmed by any of this.
probe_says 4 ""
# The port of a dead member is taken by somebody else: its restart fails, and says so.
expect 0 coppice kill n2
perl -e 'use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr =>
    "127.0.0.1", LocalPort => $ARGV[0], ReuseAddr => 1) or exit 1;
    open(F, ">", $ARGV[1]); close(F); sleep 600' "$port" "$scratch/held" &
holder=$!
held() { [ -e "$scratch/held" ]; }
until_true held
bad 1 'could not be started: n2' coppice restart n2
kill $holder
wait $holder 2>/dev/null || true
probe_says 3 n2
restarted() { coppice restart n2 2>/dev/null; }
until_true restarted
probe_says 4 ""
expect 0 coppice down
# Everybody is dead: what there was, and what to do.
expect 0 coppice up -n 3
expect 0 coppice kill n[0-2]
for command in view events probe agree 'bcast x' 'exec -- true' 'group list' 'drain n0' 'top --once' join; do
    bad 3 "no member of 'default' lives (see: coppice ps --name default); end it with: coppice down" \
        coppice $command
done
expect 0 coppice down
# Output that cannot be written is not a success.
if [ -w /dev/full ]; then
    bash -c '"$0" config >/dev/full' "$COPPICE" 2>"$scratch/err" && die 'wrote to /dev/full'
    grep -q 'cannot write the output: No space left' "$scratch/err" || die "$(cat "$scratch/err")"
    # This one flushes before its end.
    bad 1 'cannot write the output: No space left' \
        bash -c 'exec "$0" top --here --once --interval 1ms >/dev/full' "$COPPICE"
fi
for command in config --version 'help up' 'tree radix:4 9' 'top --here --once --interval 1ms'; do
    bad 1 'cannot write the output: it is closed' bash -c 'exec "$0" $1 >&-' "$COPPICE" "$command"
done
assert_nothing_left
echo "$cases cases"
