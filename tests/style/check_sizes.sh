#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No function over 70 lines, no file over 1,000. sizes.ratchet lists what is allowed to be
# longer for now, and by how much; what has become shorter must be lowered or taken out
# there, so that the list only shrinks.
. "$(dirname "$0")/lib.sh"

ratchet=$SOURCE/tests/style/sizes.ratchet
function_limit=70
file_limit=1000

# Functions open and close with a brace in the first column (see .clang-format); their name
# is the last word before the first parenthesis since the previous blank line or brace.
measured=$(c_files src include tools tests bench examples | while read -r path; do
    awk -v file="${path#"$SOURCE"/}" '
        /^[A-Za-z_].*\(/ && !inside { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
        /^\{/ { inside = 1; start = NR }
        /^\}/ && inside { inside = 0; print file, name, NR - start + 1 }
        END { print file, "FILE", NR }' "$path"
done)

bad=$(awk -v function_limit=$function_limit -v file_limit=$file_limit '
    FNR == NR { if ($0 !~ /^#/ && NF == 3) allowed[$1 " " $2] = $3; next }
    {
        key = $1 " " $2
        limit = $2 == "FILE" ? file_limit : function_limit
        what = $2 == "FILE" ? $1 : $1 ": " $2 "()"
        if (key in allowed) {
            seen[key] = 1
            if ($3 > allowed[key])
                print what " has " $3 " lines; sizes.ratchet allows " allowed[key]
            else if ($3 <= limit)
                print what " has " $3 " lines now: take it out of sizes.ratchet"
            else if ($3 < allowed[key])
                print what " has " $3 " lines now: lower it in sizes.ratchet"
        } else if ($3 > limit)
            print what " has " $3 " lines; at most " limit
    }
    END {
        for (key in allowed)
            if (!(key in seen)) print key " is gone: take it out of sizes.ratchet"
    }' "$ratchet" <(printf '%s\n' "$measured"))
verdict "$bad" "A function of more than $function_limit lines has parts that want a name; a file of more
than $file_limit is two modules."
