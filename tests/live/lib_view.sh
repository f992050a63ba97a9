# SPDX-License-Identifier: Apache-2.0
# What the live tests of views share, on top of lib.sh.

# view_is MEMBERS [options]: whether one member has this view, and all others the same.
view_is() {
    local wanted=$1
    shift
    out=$("$COPPICE" view --json "$@" 2>/dev/null) || return 1
    [ "$(field members)" = "$wanted" ] && [ "$(field agree)" = true ]
}

# all_see MEMBERS: until each of them, asked itself, has this view and says that all others
# do. A view that comes later is another one: then it is not true for long enough.
each_sees() {
    local name
    for name in $(names_of "$1"); do
        view_is "$1" --from "$name" || return 1
    done
}
all_see() {
    until_true each_sees "$1"
}

# Unfolds n[0-2,5],x1 of one bracket for each prefix.
names_of() {
    awk -v set="$1" 'BEGIN {
        while (match(set, /^[^,\[]+(\[[^\]]*\])?,?/)) {
            term = substr(set, 1, RLENGTH); set = substr(set, RLENGTH + 1)
            sub(/,$/, "", term)
            if (!match(term, /\[.*\]/)) { print term; continue }
            prefix = substr(term, 1, RSTART - 1)
            count = split(substr(term, RSTART + 1, RLENGTH - 2), parts, ",")
            for (i = 1; i <= count; i++) {
                many = split(parts[i], ends, "-")
                last = many > 1 ? ends[2] : ends[1]
                for (k = ends[1]; k <= last + 0; k++) print prefix k
            }
        }
    }'
}

epoch_of() {
    out=$("$COPPICE" view --json "$@") || true
    field epoch
}

incarnation_of() {
    out=$("$COPPICE" ps --json "$1")
    field incarnation
}
