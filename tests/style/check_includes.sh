#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Includes point down only. The table says which folders each folder may include from; its
# own is always allowed. A folder that is not in the table is an error: give it a row.
. "$(dirname "$0")/lib.sh"

# Of the command the folders below all others have rows of their own. What reads arguments also completes them, with names of a cluster.
below_tools="$pure_folders sim net run boot"
tools_folders=$(cd "$SOURCE/tools" && printf '%s ' */ | tr -d /)

# A layer of the core may include every layer before it; wire and tree know only base, and filter these alone (levels have trees).
table="base:
wire: base
filter: base wire tree
tree: base
view: base wire tree
node: base wire tree view
roster: base wire tree view node
detect: base wire tree view node roster
sweep: base wire tree view node roster detect
member: base wire tree view node roster detect sweep
letter: base wire tree view node roster detect sweep member
agree: base wire tree view node roster detect sweep member letter
stream: base wire filter tree view node roster detect sweep member letter
probe: base wire tree view node roster detect sweep member letter
coll: base wire tree view node roster detect sweep member letter
stack: base wire tree view node roster detect sweep member letter agree stream filter probe coll
sim: $pure_folders
net: $pure_folders
run: $pure_folders net
boot: $pure_folders net run
mpi:
tools/term: base run complete
tools/number: base run term
tools/names: $below_tools term
tools/talk: $below_tools term names number
tools/draw: base term names
tools: $below_tools $tools_folders
include:"

# Public headers that only the named folders may include.
private_to="sim.h: sim tools include"

bad=$(
    c_files src tools include | while read -r path; do
        file=${path#"$SOURCE"/}
        case $file in
        src/*) folder=${file#src/} folder=${folder%%/*} ;;
        tools/term/* | tools/number/* | tools/names/* | tools/talk/* | tools/draw/*) folder=${file%/*} ;;
        *) folder=${file%%/*} ;;
        esac
        { grep -nE '^[[:space:]]*#[[:space:]]*include' "$path" || true; } |
            awk -v file="$file" -v folder="$folder" -v table="$table" \
                -v private_to="$private_to" -v source="$SOURCE" '
            function allowed_for(list, name,    rows, n, i, words, m, j) {
                n = split(list, rows, "\n")
                for (i = 1; i <= n; i++) {
                    m = split(rows[i], words, /[: ]+/)
                    if (words[1] != name) continue
                    known = 1
                    for (j = 2; j <= m; j++) if (words[j] != "") may[words[j]] = 1
                }
            }
            function complain(why) { printf "%s:%s: %s  (%s)\n", file, number, text, why }
            function exists(path,    line, status) {
                status = (getline line < path); close(path); return status >= 0
            }
            BEGIN { allowed_for(table, folder); own_name = folder; sub(/.*\//, "", own_name); may[own_name] = 1 }
            {
                number = $0; sub(/:.*/, "", number)
                text = $0; sub(/^[0-9]+:/, "", text)
                if (!known) { complain("folder " folder " is not in the table"); next }
                name = text
                if (match(text, /<[^>]*>/)) {
                    name = substr(text, RSTART + 1, RLENGTH - 2)
                    if (name !~ /^coppice\//) next
                    sub(/^coppice\//, "", name)
                    n = split(private_to, rows, "\n")
                    for (i = 1; i <= n; i++)
                        if (index(rows[i], name ":") == 1 && rows[i] !~ (" " folder "( |$)"))
                            complain(folder " may not include it")
                } else if (match(text, /"[^"]*"/)) {
                    name = substr(text, RSTART + 1, RLENGTH - 2)
                    if (folder == "include") complain("public headers include <coppice/...>")
                    else if (name ~ /^\.\.?\//) complain("write \"folder/file.h\"")
                    else if (name ~ /^coppice\//) complain("write <coppice/...>")
                    else {
                        # "file.h" beside the includer (or below its folder), or "folder/file.h".
                        own = file; sub(/\/[^\/]*$/, "/", own)
                        if (exists(source "/" own name)) next
                        target = name; sub(/\/.*/, "", target)
                        if (name !~ /\//) complain("not in " own)
                        else if (!(target in may)) complain(folder " may not include " target)
                    }
                } else complain("cannot be read")
            }'
    done
)
verdict "$bad" "Includes must point down: base < wire, tree < filter, view < node < roster <
detect < sweep < member < letter < agree, stream, probe, coll < stack < sim | net < run < boot < tools; there
term < number, names < draw, talk < all others. See ARCHITECTURE.md."
