#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs docs/guide.md as a reader would, against an installed tree: programs (```c, whose first
# line says "NAME.c") are written to files, commands (```sh) run in order in one shell, and each
# line of an output (```text) must be among what the commands before it printed; numbers with
# their units and runs of blanks count as equal. What has no language is not run.
set -euo pipefail
: "${SOURCE:?}" "${BUILD:?}"
page=$SOURCE/docs/guide.md

scratch=$(mktemp -d /tmp/cop-guide.XXXXXX)
reader=
finish() {
    [ -z "$reader" ] || kill -KILL -- "-$reader" 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT TERM

prefix=$scratch/prefix
cmake --install "$BUILD" --prefix "$prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
pc=$(find "$prefix" -name coppice.pc)
export PATH=$prefix/bin:$PATH PKG_CONFIG_PATH=${pc%/*} COPPICE_CONF=/dev/null
LD_LIBRARY_PATH=$(pkg-config --variable=libdir coppice)
export LD_LIBRARY_PATH XDG_RUNTIME_DIR=$scratch/run
mkdir -m 0700 "$XDG_RUNTIME_DIR" "$scratch/work"

# The blocks of the page, numbered in their order: work/NAME.c, NN.sh, NN.text. Ports are others
# than those of the page, so that two tests can run at a time.
ports=$((20000 + $$ % 12000))
awk -v out="$scratch" -v ports=$ports '
    /^```/ && kind == "" {
        kind = substr($0, 4); if (kind == "") kind = "none"
        file = sprintf("%s/%02d.%s", out, ++blocks, kind); first = 1; next
    }
    /^```$/ { close(file); kind = ""; next }
    kind == "c" && first {
        if (!match($0, /[a-z_]+\.c/)) { print "a program without a name: " $0; exit 1 }
        file = out "/work/" substr($0, RSTART, RLENGTH)
    }
    kind != "" && kind != "none" {
        first = 0
        while (match($0, /:71[0-9][0-9]$/))
            $0 = substr($0, 1, RSTART) (ports + substr($0, RSTART + 3))
        print >file
    }' "$page"

# One shell for all commands; what each block printed goes to NN.out.
{
    echo 'set -e; trap "coppice down 2>/dev/null || true; kill \$(jobs -p) 2>/dev/null || true" EXIT'
    echo "cd '$scratch/work'"
    for block in "$scratch"/[0-9][0-9].sh; do
        echo "exec >'${block%.sh}.out' 2>&1"
        cat "$block"
    done
    echo "exec >'$scratch/end' 2>&1"
} >"$scratch/script"
set -m
bash "$scratch/script" &
reader=$!
set +m
code=0
timeout 150 tail --pid=$reader -f /dev/null || code=$?
[ $code != 0 ] || wait $reader || code=$?
if [ $code != 0 ]; then
    echo "FAILED: the commands of $page end with $code; the last block:"
    last=$(ls "$scratch"/[0-9][0-9].out | tail -1)
    cat "${last%.out}.sh" "$last"
    exit 1
fi
reader=

plain() { sed -E 's/[0-9]+(\.[0-9]+)? ?([num]?s)?\b/#/g; s/[[:blank:]]+/ /g; s/^ | $//g' "$1"; }
blocks=0 lines=0
for text in "$scratch"/[0-9][0-9].text; do
    number=$(basename "$text" .text)
    printed=$scratch/$(printf %02d $((10#$number - 1))).out
    [ -f "$printed" ] || { echo "FAILED: block $number shows the output of no command"; exit 1; }
    plain "$printed" >"$scratch/printed"
    while IFS= read -r line; do
        grep -qxF -- "$line" "$scratch/printed" || {
            echo "FAILED: $page shows '$line', and this was printed:"
            cat "$printed"
            exit 1
        }
        lines=$((lines + 1))
    done < <(plain "$text")
    blocks=$((blocks + 1))
done
[ "$(find "$scratch" -name '[0-9][0-9].sh' | wc -l)" -ge 10 ] && [ $lines -ge 12 ] ||
    { echo "FAILED: too little was found in $page"; exit 1; }
[ -z "$(ls -A "$XDG_RUNTIME_DIR")" ] || { echo "FAILED: a cluster is left"; exit 1; }
echo "the guide: $(ls "$scratch"/[0-9][0-9].sh | wc -l) blocks of commands, $lines lines as shown"
