#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The table of messages in docs/PROTOCOL.md says what src/wire/messages.h says.
. "$(dirname "$0")/lib.sh"

row='M\([A-Z]+, ([a-z]+), ([0-9]+), ([A-Z]+), [A-Z_0-9]+, *"([^"]*)"\)'
code=$(tr -d '\\\n' <"$SOURCE/src/wire/messages.h" | sed 's/,  */, /g' | grep -oE "$row" |
    sed -E "s/$row/\\1 | \\2 | \\L\\3\\E | \\4/")
docs=$(grep -E '^\| [a-z]+ \| [0-9]+ \| (link|control|bulk|command) \|' \
    "$SOURCE/docs/PROTOCOL.md" | sed -E 's/^\| //; s/ \|$//')
[ -n "$code" ] || verdict "src/wire/messages.h: no row found" "Has the table another form?"
verdict "$(diff <(echo "$code") <(echo "$docs") || true)" \
    "docs/PROTOCOL.md and src/wire/messages.h list different messages (< code, > text)"
