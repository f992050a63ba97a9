# SPDX-License-Identifier: Apache-2.0
# Shared by the style checks. SOURCE and BUILD come from CTest; by hand, the tree that this
# file is in and its release build.
set -euo pipefail
export LC_ALL=C
: "${SOURCE:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${BUILD:=$SOURCE/build/release}"

# Folders of the pure core, low to high. Here once, for all checks.
pure_folders="base wire filter tree view node roster detect sweep member letter agree stream probe coll stack"

# c_files FOLDER...: sources and headers below these folders of the tree, those that exist.
c_files() {
    local folder
    for folder in "$@"; do
        [ -d "$SOURCE/$folder" ] && find "$SOURCE/$folder" -name '*.[ch]' -type f
    done | sort
}

# without_comments FILE: the same lines, comments and the insides of strings blanked.
without_comments() {
    awk '{
        out = ""; line = $0
        while (line != "") {
            if (inside) {
                at = index(line, "*/")
                if (!at) { line = ""; break }
                line = substr(line, at + 2); inside = 0
            } else if (match(line, /\/\*|\/\/|"([^"\\]|\\.)*"|'"'"'([^'"'"'\\]|\\.)*'"'"'/)) {
                what = substr(line, RSTART, RLENGTH)
                out = out substr(line, 1, RSTART - 1)
                line = substr(line, RSTART + RLENGTH)
                if (what == "/*") inside = 1
                else if (what == "//") line = ""
                else out = out "\"\""
            } else { out = out line; line = "" }
        }
        print out
    }' "$1"
}

# verdict LINES RULE: exit 0 if there are none, otherwise print them with the rule.
verdict() {
    [ -z "$1" ] && exit 0
    printf '%s\n' "$1"
    printf '\n%s\n' "$2" >&2
    exit 1
}
