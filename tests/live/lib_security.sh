# SPDX-License-Identifier: Apache-2.0
# What the tests of security share: attackers. Source lib.sh first.

command -v perl >/dev/null || { echo "no perl"; exit 77; }
command -v openssl >/dev/null || { echo "no openssl command"; exit 77; }

# Attackers do not outlive the test, however it ends, and hold none of its pipes.
attackers=()
attack() {
    "$@" >"$scratch/attacker" 2>&1 &
    attacker=$!
    attackers+=($attacker)
}
end_attack() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
cleanup_all() {
    local status=$?
    set +e
    [ ${#attackers[@]} = 0 ] || kill "${attackers[@]}" 2>/dev/null
    # What cleanup ends with is what it finds here.
    (exit $status)
    cleanup
}
trap cleanup_all EXIT

home=$XDG_RUNTIME_DIR/coppice/default

port_of() { coppice ps "$1" | sed -n 's/.*tcp:127.0.0.1:\([0-9]*\).*/\1/p'; }
pid_of() { coppice ps --json "$1" | sed -n 's/.*"pid":\([0-9]*\).*/\1/p'; }

# stat_of MEMBER COUNTER
stat_of() {
    local value
    value=$(coppice ps --stats "$1" | awk -v name="$2" '$2 == name { print $3 }')
    echo "${value:-0}"
}

# private_kib PID: memory that is nobody else's.
private_kib() { awk '/^RssAnon/ { print $2 }' "/proc/$1/status"; }

# in_log TEXT [FILE]: how many lines have it.
in_log() { grep -c -- "$1" "${2:-$home/log}" || true; }

# once TEXT MEMBER: the reason is in that member's log once, however often it happened; where the
# test has taken minutes, at most once in each.
once() {
    local lines
    lines=$(grep -c "coppice\[$2\].*$1" "$home/log" || true)
    [ "$lines" -ge 1 ] && [ "$lines" -le $((1 + SECONDS / 60)) ] || die "'$1' is $lines times in the log of $2"$'\n'"$(cat "$home/log")"
}

# key_hex FILE, key_id FILE: for openssl.
key_hex() { sed -n 's/^use //p' "$1"; }
key_id() { coppice key show "$1" | sed -n 's/^use *//p'; }

# tls PORT KEYFILE [options]: a client that has the key; its input goes to the member.
tls() {
    local port=$1 key=$2
    shift 2
    timeout 20 openssl s_client -connect "127.0.0.1:$port" -tls1_3 -quiet \
        -ciphersuites TLS_AES_128_GCM_SHA256 -psk "$(key_hex "$key")" \
        -psk_identity "$(key_id "$key")" "$@"
}

# flood PORT COUNT WIDTH TEXT [FROM]: COUNT connections, WIDTH of them at once, each says
# TEXT (as perl writes it) and waits to be cut. Prints how many were.
flood() {
    perl -MIO::Socket::INET -MIO::Select -e '
        my ($port, $count, $width, $text, $from) = @ARGV;
        my $bytes = eval qq("$text");
        my ($made, $cut, $failed) = (0, 0, 0);
        my $select = IO::Select->new;
        $SIG{PIPE} = "IGNORE";
        alarm 120;
        while ($cut + $failed < $count) {
            while ($select->count < $width && $made < $count) {
                $made++;
                my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port,
                    LocalAddr => $from || undef, Timeout => 10) or ($failed++, next);
                $s->syswrite($bytes) if length $bytes;
                $select->add($s);
            }
            for my $s ($select->can_read(1)) {
                next if ($s->sysread(my $x, 4096) // 0) > 0;
                $select->remove($s);
                $s->close;
                $cut++;
            }
        }
        print "$cut\n";' "$@"
}

# hold PORT COUNT TEXT FILE: keeps COUNT connections that have said TEXT, until it is
# killed; FILE appears when all are made.
hold() {
    exec perl -MIO::Socket::INET -e '
        my ($port, $count, $text, $file) = @ARGV;
        my $bytes = eval qq("$text");
        $SIG{PIPE} = "IGNORE";
        my @all;
        for (1 .. $count) {
            my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port,
                Timeout => 10) or next;
            $s->syswrite($bytes) if length $bytes;
            push @all, $s;
        }
        open(F, ">", $file); close(F);
        sleep 600;' "$@"
}

# between PORT TARGET HOW FILE: a man in the middle. HOW: record (writes what the client
# said to FILE), flip:N (changes the N-th byte of what the server says), cut:N (ends after
# N bytes of what the client says); only of the first connection.
between() {
    exec perl -MIO::Socket::INET -MIO::Select -e '
        my ($port, $target, $how, $file) = @ARGV;
        $SIG{PIPE} = "IGNORE";
        my $listener = IO::Socket::INET->new(Listen => 50, LocalAddr => "127.0.0.1",
            LocalPort => $port, ReuseAddr => 1) or die;
        open(my $ready, ">", "$file.ready"); close($ready);
        my ($kind, $at) = split /:/, $how;
        my (%other, %is_first, %is_client, %seen);
        my $first = 1;
        my $select = IO::Select->new($listener);
        for (;;) {
            for my $s ($select->can_read) {
                if ($s == $listener) {
                    my $c = $listener->accept or next;
                    my $t = IO::Socket::INET->new(PeerAddr => "127.0.0.1",
                        PeerPort => $target) or (close($c), next);
                    ($other{$c}, $other{$t}, $is_client{$c}) = ($t, $c, 1);
                    $is_first{$c} = $is_first{$t} = $first;
                    $first = 0;
                    $select->add($c, $t);
                    next;
                }
                my $o = $other{$s};
                my $got = $s->sysread(my $bytes, 65536) || 0;
                if ($is_first{$s} && $got > 0) {
                    my $from = $seen{$s} || 0;
                    $seen{$s} = $from + $got;
                    if ($kind eq "record" && $is_client{$s}) {
                        open(my $f, ">>", $file); print $f $bytes; close($f);
                    }
                    if ($kind eq "flip" && !$is_client{$s} && $from <= $at &&
                        $at < $from + $got) {
                        substr($bytes, $at - $from, 1) ^= "\x01";
                    }
                    if ($kind eq "cut" && $is_client{$s} && $from + $got > $at) {
                        $bytes = substr($bytes, 0, $at > $from ? $at - $from : 0);
                        $got = 0;
                    }
                }
                $o->syswrite($bytes) if length $bytes;
                next if $got > 0;
                $select->remove($s, $o);
                close($s); close($o);
                delete @other{$s, $o};
            }
        }' "$@"
}

# free_port: one that nobody has just now.
free_port() {
    perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1,
        LocalAddr => "127.0.0.1")->sockport'
}
