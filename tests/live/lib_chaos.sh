# SPDX-License-Identifier: Apache-2.0
# Faults for agents on hosts of their own, on top of lib_space.sh and lib.sh: each has a
# beginning and an end, and all that has begun is in force together until `end_faults`.
#
# Those that take a member away take at most `most_away` of them in a round, so that whoever is left
# is a majority of whatever view came of it: more can leave a cluster that rightly waits for
# somebody who knows better (see ARCHITECTURE.md).

: "${HOSTS:?how many hosts}"
most_away=$(((HOSTS - 1) / 4))
kinds_all="kill stop cut unplug loss delay garbage hold descriptors disk clock"
faketime=$(ls /usr/lib/*/faketime/libfaketime.so.1 2>/dev/null | head -n 1) || true

# ---- agents ------------------------------------------------------------------------------

# Their logs are on a small disk of their own, which can be filled, and each has a clock of its own
# where libfaketime is installed.
chaos_prepare() {
    mkdir "$scratch/disk" "$scratch/clocks"
    mount -t tmpfs -o size=4m none "$scratch/disk" 2>/dev/null || disk_is_small=
    mount -t tmpfs none /dev/shm 2>/dev/null || true
    # A sanitizer wants to be the first library, too.
    [ -z "$faketime" ] || LD_PRELOAD=$faketime "$COPPICE" --version >/dev/null 2>&1 || faketime=
    local host
    for host in $(everyone); do echo '+0' >"$scratch/clocks/$host"; done
}
disk_is_small=1

# begin of lib_space.sh with these; a process of this shell as well.
begin() {
    local host=$1 clock=()
    shift
    [ -z "$faketime" ] || clock=(env "LD_PRELOAD=$faketime" "FAKETIME_TIMESTAMP_FILE=$scratch/clocks/$host"
        FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_CACHE_DURATION=1 FAKETIME_DISABLE_SHM=1)
    "$SWITCH" --in "$host" "${clock[@]}" "$COPPICE" agent --members "$scratch/members" --id "$host" \
        --command "$scratch/$host.cmd" --insecure "$@" 2>>"$scratch/disk/$host.log" &
    agents[host]=$!
}

# What is mounted goes before the rest.
chaos_cleanup() {
    local status=$?
    umount -l "$scratch/disk" 2>/dev/null || true
    (exit $status)
    cleanup
}

is_alive() { kill -0 "${agents[$1]}" 2>/dev/null; }
descriptors_of() { ls "/proc/${agents[$1]}/fd" 2>/dev/null | wc -l; }

# ---- chance ------------------------------------------------------------------------------

# Not RANDOM, which begins anew in every sub-shell; what is drawn is in $drawn.
chance=${SEED:-1}
# draw MOST: 0 to MOST - 1
draw() {
    chance=$(((chance * 1103515245 + 12345) & 0x7fffffff))
    drawn=$(((chance >> 8) % $1))
}
draw_host() { draw "$HOSTS"; }
draw_of() {
    draw $#
    shift $drawn
    drawn=$1
}
# pause MOST_MS
pause() {
    draw "$1"
    sleep "$(printf '%d.%03d' $((drawn / 1000)) $((drawn % 1000)))"
}

# ---- faults ------------------------------------------------------------------------------

declare -A away=() # host -> how it has gone
declare -A counts=()
fault_pids=()
limited=()

count() { counts[$1]=$((${counts[$1]:-0} + 1)); }
# somebody: in $host one that is there; false if enough are gone.
somebody() {
    [ ${#away[@]} -lt $most_away ] || return 1
    draw_host
    host=$drawn
    [ -z "${away[$host]:-}" ]
}

fault_kill() {
    local host
    somebody || return 0
    kill -KILL "${agents[host]}"
    wait "${agents[host]}" 2>/dev/null || true
    away[$host]=killed
    count kill
}
fault_stop() {
    local host
    somebody || return 0
    kill -STOP "${agents[host]}"
    away[$host]=stopped
    count stop
}
fault_unplug() {
    local host
    somebody || return 0
    net unplug "$host"
    away[$host]=unplugged
    count unplug
}
# A minority from the rest; those who are away are not more than most_away besides.
fault_cut() {
    local first size
    draw $most_away
    size=$((1 + drawn))
    draw_host
    first=$drawn
    [ $((first + size)) -lt "$HOSTS" ] || first=0
    net cut "$first-$((first + size - 1))" all
    net heal "$first-$((first + size - 1))" "$first-$((first + size - 1))"
    count cut
}
fault_loss() {
    draw 30
    net loss $((1 + drawn)) all all
    count loss
}
fault_delay() {
    local milliseconds
    draw 100
    milliseconds=$((1 + drawn))
    draw_host
    net delay $milliseconds "$drawn" all
    count delay
}
# Noise on somebody's port, from somewhere.
fault_garbage() {
    local from
    draw_host
    from=$drawn
    draw_host
    "$SWITCH" --in "$from" timeout 20 bash -c 'for i in 1 2 3 4 5; do
        { exec 7<>/dev/tcp/10.77.0.$1/7000 && head -c $((RANDOM % 9000)) /dev/urandom >&7; } 2>/dev/null
        exec 7<&- 7>&-
    done' - $((1 + drawn)) 2>/dev/null &
    fault_pids+=($!)
    count garbage
}
# Connections on which nothing comes.
fault_hold() {
    local from
    draw_host
    from=$drawn
    draw_host
    "$SWITCH" --in "$from" timeout 20 bash -c 'for ((i = 0; i < 40; i++)); do
        exec {fd}<>/dev/tcp/10.77.0.$1/7000
    done 2>/dev/null
    sleep 20' - $((1 + drawn)) 2>/dev/null &
    fault_pids+=($!)
    count hold
}
# No descriptor more than it has.
fault_descriptors() {
    local host
    draw_host
    host=$drawn
    [ -z "${away[$host]:-}" ] || return 0
    prlimit --pid "${agents[host]}" --nofile="$(($(descriptors_of "$host") + 1)):" 2>/dev/null || return 0
    limited+=("$host")
    count descriptors
}
# What is logged goes nowhere; and a file that comes there has no room.
fault_disk() {
    [ -n "$disk_is_small" ] || return 0
    head -c 5M /dev/zero >"$scratch/disk/full" 2>/dev/null || true
    count disk
}
# The time of day jumps. A life that begins is numbered by it, and one that is numbered lower than the
# one before is not taken in again: so a clock is right again when somebody begins.
fault_clock() {
    [ -n "$faketime" ] || return 0
    local host
    draw_host
    host=$drawn
    draw_of +3600 -3600 -86400 +86400 -1000000
    echo "$drawn" >"$scratch/clocks/$host"
    count clock
}

# All is as before: who is killed is started again, and so on.
end_faults() {
    local host pid
    net heal
    rm -f "$scratch/disk/full"
    for host in "${!away[@]}"; do
        case ${away[$host]} in
        killed)
            echo '+0' >"$scratch/clocks/$host"
            begin "$host"
            ;;
        stopped) kill -CONT "${agents[host]}" ;;
        unplugged) net plug "$host" ;;
        esac
        unset "away[$host]"
    done
    for host in "${limited[@]}"; do
        prlimit --pid "${agents[host]}" --nofile=1024: 2>/dev/null || true
    done
    limited=()
    for pid in "${fault_pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    fault_pids=()
}

# ---- what must hold ----------------------------------------------------------------------

declare -A read_to=()
# One view for each epoch, everywhere and for ever: new lines of the watchers against all earlier.
check_views() {
    local host lines
    for host in $(everyone); do
        # Whole lines: more may be coming.
        lines=$(wc -l <"$scratch/$host.views")
        head -n "$lines" "$scratch/$host.views" | tail -n +$((${read_to[$host]:-0} + 1))
        read_to[$host]=$lines
    done >"$scratch/fresh"
    # No pipe after the loop: what has been read would be forgotten.
    { grep '"in_view":true' "$scratch/fresh" || true; } |
        sed -n 's/.*"epoch":\([0-9]*\),"root":"\([^"]*\)".*"members":"\([^"]*\)".*/\1 \2 \3/p' >>"$scratch/known"
    sort -u -o "$scratch/known" "$scratch/known"
    local twice
    twice=$(sort -n "$scratch/known" | awk '{ if ($1 == last) print; last = $1 }')
    [ -z "$twice" ] || die "two views with one epoch: $twice"
}

# Nobody holds on to what strangers have left.
few_descriptors() {
    local host
    for host in $(everyone); do
        [ "$(descriptors_of "$host")" -le $((24 + 4 * HOSTS)) ] || return 1
    done
}

# Nobody who lives stays out, and nobody is gone that nobody killed.
check_whole() {
    local host
    for host in $(everyone); do
        is_alive "$host" || die "the agent of host $host has ended: $(tail -n 3 "$scratch/disk/$host.log")"
    done
    all_on "$(everyone)" "n[0-$((HOSTS - 1))]"
    patiently few_descriptors
}
