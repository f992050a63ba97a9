# SPDX-License-Identifier: Apache-2.0
# Hosts with an sshd each, in network namespaces with a switch between them; on top of
# lib_space.sh and lib.sh. A test sets MEMBERS and sources this. The command is run at one more
# host, which is no member. Keys, configuration and known hosts are the test's own. All of it is
# in a namespace of processes: who is killed, however, takes everybody along, also daemons.

sshd=$(command -v sshd || echo /usr/sbin/sshd)
skip() {
    echo "skipped: $*"
    exit 77
}
if [ -z "${LIVE_SWITCH_PID:-}" ]; then
    [ -x "$sshd" ] || skip "there is no sshd: install openssh-server (scripts/deps check)"
    command -v ssh >/dev/null || skip "there is no ssh: install openssh-client"
    [ "$(id -u)" = 0 ] || skip "only root can run an sshd that anybody logs in to"
    alone=(unshare --pid --fork --kill-child --mount-proc)
    "${alone[@]}" true 2>/dev/null || skip "namespaces of processes are not permitted here"
    "${alone[@]}" mount -t tmpfs none /run 2>/dev/null || skip "nothing can be mounted here"
    HOSTS=$((MEMBERS + 1)) exec "${alone[@]}" "$SWITCH" "$((MEMBERS + 1))" bash "$0" "$@"
fi
HOSTS=$((MEMBERS + 1))
. "$(dirname "$0")/lib_space.sh"
. "$(dirname "$0")/lib.sh"

# At the host of whoever types.
coppice() { "$SWITCH" --in "$MEMBERS" "$COPPICE" "$@"; }

cluster=hosts
address() { echo "10.77.0.$(($1 + 1))"; }

# What sshd wants to find on any machine, and where members are; this one's own is not touched.
mount -t tmpfs none /run
mkdir -m 0755 /run/sshd
mkdir -p -m 0700 "/tmp/coppice-$(id -u)"
mount -t tmpfs -o mode=0700 none "/tmp/coppice-$(id -u)"
ssh-keygen -q -t ed25519 -N '' -f "$scratch/login"
cat >"$scratch/ssh_config" <<END
Host *
    Port 22022
    User root
    IdentityFile $scratch/login
    IdentitiesOnly yes
    UserKnownHostsFile $scratch/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    LogLevel ERROR
    KexAlgorithms curve25519-sha256
END
ssh_command="ssh -F $scratch/ssh_config -oConnectTimeout=${CONNECT_TIMEOUT:-60}"

# begin_sshd HOST: with a PATH of its own, in which `coppice` is ours, and a home of its own: what the
# shell of this user does when it starts may take locks, and whoever is killed then leaves them behind.
begin_sshd() {
    local home=$scratch/host$1
    mkdir -p "$home/bin"
    ln -sf "$COPPICE" "$home/bin/coppice"
    ssh-keygen -q -t ed25519 -N '' -f "$home/key"
    echo "[$(address "$1")]:22022 $(cut -d' ' -f1,2 "$home/key.pub")" >>"$scratch/known_hosts"
    cat >"$home/sshd_config" <<END
Port 22022
ListenAddress $(address "$1")
HostKey $home/key
PidFile none
AuthorizedKeysFile $scratch/login.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
MaxStartups 100
SetEnv PATH=$home/bin:/usr/bin:/bin HOME=$home XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0}
END
    "$SWITCH" --in "$1" "$sshd" -D -e -f "$home/sshd_config" 2>"$home/log" &
    listens() { grep -q 'Server listening' "$home/log"; }
    until_true listens
}
for ((host = 0; host < MEMBERS; host++)); do
    begin_sshd "$host"
done

# up [options]: on all hosts that are members, unless --hosts is among the options.
up() {
    coppice up --name "$cluster" --ssh "$ssh_command" --detector ring:400ms,witnesses:2 "$@"
}
everywhere="10.77.0.[1-$MEMBERS]"

# What is at the hosts: directories of members, and processes.
left_at_hosts() {
    ls -d "/tmp/coppice-$(id -u)/$cluster@"* 2>/dev/null
    processes
}
nothing_at_hosts() { [ -z "$(left_at_hosts)" ]; }
nothing_known() { [ ! -e "$XDG_STATE_HOME/coppice" ]; }
assert_all_gone() {
    patiently nothing_at_hosts
    nothing_known || die "something is known of a cluster that is gone"
}

# sees MEMBERS: whether the view is of exactly these, and all of them agree.
sees() {
    out=$(coppice view --json --name "$cluster" 2>/dev/null) || return 1
    [ "$(field members)" = "$1" ]
}
