# SPDX-License-Identifier: Apache-2.0
# Agents on hosts of their own, with a switch between them that cuts, loses and delays; on
# top of lib.sh. A test sets HOSTS, sources this before lib.sh, and is begun a second time by
# the switch, beside the hosts.

: "${SWITCH:?the path of live_switch}" "${HOSTS:?how many hosts}"
if [ -z "${LIVE_SWITCH_PID:-}" ]; then
    exec "$SWITCH" "$HOSTS" bash "$0" "$@"
fi

# Deadlines that a loaded machine keeps: what is tested is what happens, not how soon.
DETECTOR=${DETECTOR:-ring:400ms,witnesses:2}
SHAPE=${SHAPE:-radix:4}
agents=()

# net ORDER...: an order to the switch, in force when this returns (see switch.h).
net() {
    local answer
    echo "$*" >&98
    read -r answer <&99
    [ "$answer" = ok ] || [ "$1" = count ] || die "the switch does not know '$*': $answer"
    [ "$1" != count ] || echo "$answer"
}

# The first COUNT hosts are members of the static start; all of them may be.
write_members() {
    local i
    {
        echo 'cluster 5ace5ace5ace5ace5ace5ace5ace5ace'
        echo "shape $SHAPE"
        echo "quorum ${QUORUM:-majority}"
        echo "detector $DETECTOR"
        for ((i = 0; i < $1; i++)); do
            echo "$i n$i tcp:10.77.0.$((i + 1)):7000"
        done
    } >"$scratch/members"
}

# begin HOST [options]: its agent as a process of this shell; it dies with it.
begin() {
    local host=$1
    shift
    "$SWITCH" --in "$host" "$COPPICE" agent --members "$scratch/members" --id "$host" \
        --command "$scratch/$host.cmd" --insecure "$@" 2>>"$scratch/$host.log" &
    agents[host]=$!
}

# All at once, and all in one view.
begin_all() {
    local host
    write_members "$HOSTS"
    for ((host = 0; host < HOSTS; host++)); do
        begin "$host" --first
    done
    all_on "$(everyone)" "n[0-$((HOSTS - 1))]"
}

everyone() { seq -s ' ' 0 $((HOSTS - 1)); }

end_all() {
    local host
    for host in "${!agents[@]}"; do
        kill -TERM "${agents[host]}"
    done
    for host in "${!agents[@]}"; do
        wait "${agents[host]}" || die "the agent of host $host ended with $?"
    done
    agents=()
    assert_nothing_left
}

# The view of the agent on a host, in $out; 4 if it is degraded or out.
view_on() {
    out=$("$COPPICE" view --json --agent "$scratch/$1.cmd" 2>/dev/null)
}

# they_see "HOSTS" MEMBERS: whether each of them has this view, the same one.
they_see() {
    local host epoch=
    [ -n "$1" ] || die "they_see: who?"
    for host in $1; do
        view_on "$host" || return 1
        [ "$(field members)" = "$2" ] || return 1
        [ "${epoch:=$(field epoch)}" = "$(field epoch)" ] || return 1
    done
}

# Generous: 120 s at least.
patiently() {
    local begun=$SECONDS
    until "$@"; do
        [ $((SECONDS - begun)) -lt 120 ] || die "never came true: $*"$'\n'"$(all_views)"
        sleep 0.05
    done
}

all_on() { patiently they_see "$1" "$2"; }

# What to look at when something never came true.
all_views() {
    local host
    for host in $(everyone); do
        echo "--- host $host"
        "$COPPICE" view --agent "$scratch/$host.cmd" 2>&1 || true
        tail -5 "$scratch/$host.log" 2>/dev/null || true
    done
}

is_degraded() {
    view_on "$1" && return 1
    [ "$(field degraded)" = true ]
}

epoch_on() {
    view_on "$1" || true
    field epoch
}

incarnation_on() {
    view_on "$1" || true
    field incarnation
}

# ---- every view that anybody has ---------------------------------------------------------

watch_one() {
    "$SWITCH" --in - bash -c 'while :; do "$0" view --watch --json --agent "$1"; sleep 0.1
        done' "$COPPICE" "$scratch/$1.cmd" >>"$scratch/$1.views" 2>/dev/null &
    watchers+=($!)
}

# From now on each agent's views are written down.
watchers=()
watch_all() {
    local host
    for host in $(everyone); do
        watch_one "$host"
        patiently test -s "$scratch/$host.views"
    done
}

# How many views this host had until now.
views_seen() {
    grep -o '"epoch":[0-9]*,"root"' "$scratch/$1.views" | sort -u | wc -l
}

# One view for each epoch, everywhere.
check_watched() {
    local pid twice
    twice=$(cat "$scratch"/*.views | grep '"in_view":true' |
        sed 's/.*"epoch":\([0-9]*\),"root":"\([^"]*\)".*"members":"\([^"]*\)".*/\1 \2 \3/' |
        sort -u | awk '{ if ($1 == last) print; last = $1 }')
    [ -z "$twice" ] || die "two views with one epoch: $twice"
    for pid in "${watchers[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    watchers=()
}
