#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Machines that are gone without a word: no socket closes, nothing refuses. The ring finds
# them; plugged in again they hear that they are out, and come back as new lives.
HOSTS=9
. "$(dirname "$0")/lib_space.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

begin_all
watch_all

# unplugs HOSTS REST SET: gone, and back. Leaves in $changes how many views it took.
unplugs() {
    local host hosts rest before
    hosts=$(names_of "$3" | tr -d n)
    rest=$(names_of "$2" | tr -d n)
    before=$(views_seen "${rest##*$'\n'}")
    declare -A lives=()
    for host in $hosts; do
        lives[$host]=$(incarnation_on "$host")
    done
    net unplug "$1"
    all_on "$(echo $rest)" "$2"
    [ "$(field removed)" = "$3" ] || die "somebody else is out: $out"
    changes=$(($(views_seen "${rest##*$'\n'}") - before))
    net plug "$1"
    all_on "$(everyone)" "n[0-8]"
    for host in $hosts; do
        [ "$(incarnation_on "$host")" -gt "${lives[$host]}" ] ||
            die "host $host did not come back as a new life"
    done
}

unplugs 7 "n[0-6,8]" n7
unplugs 0 "n[1-8]" n0
# A rack: found together, not one after the other.
unplugs 4-6 "n[0-3,7-8]" "n[4-6]"
[ "$changes" -le 2 ] || die "three that died together took $changes views"
check_watched
end_all
