#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every sub-command that `coppice --help` lists has a manual page, every page belongs to
# something, and the pages give no warnings. Every public function is in a page of section 3.
. "$(dirname "$0")/lib.sh"

man=$SOURCE/docs/man
commands=""
if [ -x "${COPPICE:-}" ]; then
    # Sub-commands are the indented first words in lower case: "  up -n N   start ...".
    commands=$("$COPPICE" --help | sed -nE 's/^ {2,4}([a-z][a-z0-9-]*)( .*|$)/\1/p' |
        grep -vx coppice | sort -u)
    [ -n "$commands" ] || { echo "coppice --help lists no sub-commands"; exit 1; }
elif ! ls "$man"/*.[137] >/dev/null 2>&1; then
    echo "neither a command nor manual pages yet"
    exit 77
fi

lint() {
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "$1" 2>&1 | grep -v 'referenced manual not found' || true
    # (Debian: mandoc, which scripts/deps check installs.)
    elif command -v man >/dev/null && command -v groff >/dev/null; then
        MANROFFSEQ= MANWIDTH=80 man --warnings -E UTF-8 -Tutf8 -Z -l "$1" 2>&1 >/dev/null | sed "s|^|${1##*/}: |"
    fi
}

bad=$(
    if [ -n "$commands" ]; then
        [ -f "$man/coppice.1" ] || echo "docs/man/coppice.1 is missing"
        for command in $commands; do
            [ -f "$man/coppice-$command.1" ] ||
                echo "coppice $command: docs/man/coppice-$command.1 is missing"
        done
        for page in "$man"/coppice-*.1; do
            [ -f "$page" ] || continue
            name=${page##*/coppice-} name=${name%.1}
            grep -qxF "$name" <<<"$commands" ||
                echo "docs/man/coppice-$name.1: there is no such sub-command"
        done
    fi
    for page in "$man"/*.[137]; do
        [ ! -f "$page" ] || lint "$page"
    done
    # Pages of the library are their headers; every function is in one, with a text.
    made=$(mktemp -d)
    "$SOURCE/scripts/man3" "$made"
    for page in "$made"/*.3; do
        cmp -s "$page" "$man/${page##*/}" ||
            echo "docs/man/${page##*/} is not its header's: run scripts/man3"
    done
    awk '/^\.Fo/ { name = $2 }
         /^\.It|^\.El/ && bare { print name ": its header does not say what it does" }
         { bare = /^\.Xc/ }' "$made"/*.3
    rm -r "$made"
    # shellcheck disable=SC2013 # words
    for name in $(grep -hoE '\bcop_[a-z_]+\(' "$SOURCE"/include/coppice/run.h | sort -u); do
        grep -qE "^\.Fn ${name%(} " "$man/cop_run.3" ||
            echo "${name%(}: not in docs/man/cop_run.3"
    done
)
verdict "$bad" "The manual and the command must agree."
