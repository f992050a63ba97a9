#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every name in cmake/often.list is a function of ours, and every name in often-data.list a constant:
# one that was renamed would lose its place among those that run often, and nobody would notice.
. "$(dirname "$0")/lib.sh"

list=$SOURCE/cmake/often.list
# Lines that begin a function, and codecs, which a macro makes of the table of messages.
defined=$({
    grep -rhE '^[A-Za-z_].*\(' "$SOURCE/src" --include='*.c' --include='*.h' |
        grep -oE '[a-z_][a-z0-9_]*\(' | tr -d '('
    sed -nE 's/.*COP__FIELDS_([a-z]+)\(.*/cop__encode_\1\ncop__decode_\1/p' \
        "$SOURCE/src/wire/messages.h"
} | sort -u)
gone=$(grep -v '^#' "$list" | sort -u | comm -23 - <(echo "$defined"))
twice=$(grep -v '^#' "$list" | sort | uniq -d)
# Constants have a value where they are defined; `extern` in headers does not.
data=$SOURCE/cmake/often-data.list
constants=$(grep -rhoE '\bconst [^();]*\b[a-z_0-9]+(\[[^]]*\])* = ' "$SOURCE/src" --include='*.c' |
    sed -E 's/(\[[^]]*\])* = $//; s/.*[ *]//' | sort -u)
lost=$(grep -v '^#' "$data" | sort -u | comm -23 - <(echo "$constants"))
bad=$(
    [ -z "$lost" ] || echo "$lost" | sed 's|$|: in cmake/often-data.list, but there is no such constant|'
    [ -z "$gone" ] || echo "$gone" | sed 's|$|: in cmake/often.list, but there is no such function|'
    [ -z "$twice" ] || echo "$twice" | sed 's|$|: twice in cmake/often.list|'
)
verdict "$bad" "Take it out, or write its new name (cmake/often.cmake says what the list is for)."
