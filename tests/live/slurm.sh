#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job of Slurm: a whole Slurm on this machine, with a key, sockets, ports and files of
# its own, that ends with the test.
. "$(dirname "$0")/lib.sh"

missing=
for tool in munged slurmctld slurmd srun; do
    PATH=$PATH:/usr/sbin command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    echo "SKIPPED: no$missing here (on Debian: apt-get install slurmctld slurmd slurm-client munge)"
    exit 77
fi
PATH=$PATH:/usr/sbin
job=$BUILD/example_job
# A few bytes that libpmix itself never frees.
echo leak:libpmix >"$scratch/leaks"
export LSAN_OPTIONS=suppressions=$scratch/leaks:print_suppressions=0
d=$scratch/slurm
mkdir -p "$d/munge" "$d/state" "$d/spool"
chmod 755 "$scratch" "$d" "$d/munge"
export SLURM_CONF=$d/slurm.conf

slurm_stop() {
    local status=$? file pid
    for file in "$d"/slurmd.pid "$d"/ctld.pid "$d"/munge/pid; do
        pid=$(cat "$file" 2>/dev/null) || continue
        kill -KILL "$pid" 2>/dev/null || true
    done
    # Those that a step may have left.
    pkill -KILL -f "slurmstepd.*$scratch" 2>/dev/null || true
    if [ $status -ne 0 ]; then
        tail -n 20 "$d/ctld.log" >&2 || true
        tail -n 20 "$d/slurmd.log" >&2 || true
    fi
    (exit $status)
}
trap 'slurm_stop; cleanup' EXIT

head -c 1024 /dev/urandom >"$d/munge/key"
chmod 600 "$d/munge/key"
munged --force --key-file="$d/munge/key" --socket="$d/munge/sock" --pid-file="$d/munge/pid" \
    --log-file="$d/munge/log" --seed-file="$d/munge/seed" 2>"$scratch/munge.err"

free_port() {
    perl -MIO::Socket::INET -e \
        'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}
host=$(hostname -s)
# The ports are free now, and may be taken before Slurm has them: then another try.
configure() {
    cat >"$SLURM_CONF" <<EOF
ClusterName=coppice
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$d/munge/sock
CredType=cred/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
StateSaveLocation=$d/state
SlurmdSpoolDir=$d/spool
SlurmctldPidFile=$d/ctld.pid
SlurmdPidFile=$d/slurmd.pid
SlurmctldLogFile=$d/ctld.log
SlurmdLogFile=$d/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
NodeName=$host NodeAddr=127.0.0.1 CPUs=64 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
EOF
}
idle() { sinfo -h -o %t 2>/dev/null | grep -q idle; }
for _ in 1 2 3; do
    configure
    slurmctld -f "$SLURM_CONF" 2>>"$scratch/slurm.err" && slurmd -f "$SLURM_CONF" \
        2>>"$scratch/slurm.err" && break
done
if ! grep -qs . "$d/slurmd.pid" && grep -qsE 'cgroup filesystem not mounted|No filesystem mounted on /sys/fs/cgroup' "$d/slurmd.log"; then
    echo "SKIPPED: Debian's slurmd does not start without /sys/fs/cgroup, and there is none here"
    exit 77
fi
until_true idle

# counted N OF: N processes of the job each counted N of OF.
counted() {
    [ "$(grep -c "counts $1 of $2\$" <<<"$out")" = "$1" ] || die "$out"$'\n'"$err"
    [ "$(grep -c '^job: ' <<<"$out")" = "$1" ] || die "$out"$'\n'"$err"
}
echo "srun --mpi=pmix"
expect 0 srun -n 8 --mpi=pmix "$job"
counted 8 8
echo "the root and another are killed"
expect 137 srun -n 8 --mpi=pmix --kill-on-bad-exit=0 "$job" 0 5
counted 6 8
echo "srun --mpi=pmi2"
expect 0 srun -n 4 --mpi=pmi2 "$job"
counted 4 4
if [ -x "$BUILD/live_mpi_refused" ]; then
    # An MPI program there ends with the first of its processes: libcoppice-mpi refuses.
    echo "MPI under srun"
    expect 3 env LSAN_OPTIONS=detect_leaks=0 srun -n 2 --mpi=pmix "$BUILD/live_mpi_refused"
    [ "$(grep -c 'refused: not started by mpirun' <<<"$out")" = 2 ] || die "$out"$'\n'"$err"
fi
echo "srun without any"
expect 1 srun -n 2 --mpi=none "$job"
grep -q 'no launcher started this program' <<<"$err" || die "$err"
echo done
