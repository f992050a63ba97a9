#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Command lines are completed from the tables that parse them: `completion words` says what there
# is, and bash shows it. Shells that are not installed are left out.
. "$(dirname "$0")/lib.sh"

# offers WORDS... -- CANDIDATES: for the last of the words there is exactly this.
offers() {
    local words=()
    while [ "$1" != is ]; do
        words+=("$1")
        shift
    done
    shift
    expect 0 coppice completion words -- "${words[@]}"
    [ "${out//$'\n'/ }" = "$*" ] || die "[${words[*]}] offers '${out//$'\n'/ }', not '$*'"
}

coppice up -n 3
offers de is demo
offers help vi is view
offers up --tr is --transport
offers up --transport '' is unix tcp
offers up --shape kn is knomial:2
offers kill n is n0 n1 n2
offers kill --name default n1 '' is n0 n1 n2
offers kill --signal '' is KILL STOP CONT
offers exec -w '' is n0 n1 n2
offers exec -- '' is :files
offers bench t is ts tls
offers bench ts --victim-x is
offers bench ts --vic is --victim
offers key '' is new show check rotate
offers key show '' is :files
offers group '' is set list rm
offers agent --key '' is :files
offers nonsense '' is
# Every command, and every option that its help has.
expect 0 coppice --help
commands=$(sed -n 's/^  \([a-z]*\) .*/\1/p' <<<"$out")
for command in $commands; do
    offers "$command" is "$command"
    expect 0 coppice help "$command"
    helped=$(sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p' <<<"$out")
    # shellcheck disable=SC2086 # words
    offers "$command" -- is $helped
done
# Without a cluster there are no members, and no complaint on standard output.
coppice down
offers kill n is
expect 2 coppice completion tcsh
expect 2 coppice completion bash zsh

# In bash, as if the key had been pressed at the end of a line.
coppice up -n 3
mkdir "$scratch/bin"
ln -s "$COPPICE" "$scratch/bin/coppice"
export PATH=$scratch/bin:$PATH
coppice completion bash >"$scratch/completion"
pressed() {
    bash --norc -c '. "$1"; COMP_LINE=$2 COMP_POINT=${#2}; _coppice; printf "%s\n" "${COMPREPLY[@]}"' \
        - "$scratch/completion" "$1" | tr '\n' ' '
}
[ "$(pressed 'coppice kill ')" = 'n0 n1 n2 ' ] || die "bash: $(pressed 'coppice kill ')"
[ "$(pressed 'coppice pr')" = 'probe ' ] || die "bash: $(pressed 'coppice pr')"
[ "$(pressed 'coppice up --shape radix:')" = '2 4 ' ] || die "bash: $(pressed 'coppice up --shape radix:')"
[ "$(pressed "coppice agent --key $scratch/comp")" = "$scratch/completion " ] || die "bash: files"
for shell in zsh fish; do
    coppice completion $shell >"$scratch/completion.$shell"
    ! command -v $shell >/dev/null || $shell -n "$scratch/completion.$shell" || die "$shell cannot read it"
done
# zsh: as the function of a file, and read by eval, with those parts of its completion that tell.
if command -v zsh >/dev/null; then
    parts='compdef() { print "$@" }; compadd() { shift; print -- "$@" }; words=(coppice pr); CURRENT=2'
    said=$(zsh -fc "$parts"'; eval "$(<$1)"; _coppice' - "$scratch/completion.zsh")
    [ "$said" = $'_coppice coppice\nprobe' ] || die "zsh by eval: $said"
    mkdir "$scratch/fpath"
    cp "$scratch/completion.zsh" "$scratch/fpath/_coppice"
    said=$(zsh -fc "$parts"'; fpath=($1); autoload -U _coppice; _coppice' - "$scratch/fpath")
    [ "$said" = probe ] || die "zsh by fpath: $said"
fi
if command -v fish >/dev/null; then
    said=$(HOME=$scratch fish -c 'source $argv[1]; complete -C "coppice pr"' "$scratch/completion.fish")
    [ "$said" = probe ] || die "fish: $said"
fi
coppice down
assert_nothing_left
