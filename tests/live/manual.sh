#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every command has a manual page; it lists exactly the options that --help does.
. "$(dirname "$0")/lib.sh"

manual=$(dirname "$0")/../../docs/man
expect 0 coppice --help
commands=$(sed -n 's/^  \([a-z]*\) .*/\1/p' <<<"$out")
[ "$(wc -w <<<"$commands")" -ge 13 ] || die "too few commands: $out"
for command in $commands; do
    page=$manual/coppice-$command.1
    [ -f "$page" ] || die "there is no $page"
    grep -q "Xr coppice-$command 1" "$manual/coppice.1" || die "coppice.1 omits $command"
    expect 0 coppice help $command
    text=$out
    # What a command does may have options of its own.
    if [ $command = bench ]; then
        for what in $(sed -n 's/^    {"\([a-z]*\)", cmd_bench_.*/\1/p' "$SOURCE/tools/bench/cmd_bench.c"); do
            expect 0 coppice bench $what --help
            text+=$'\n'$out
        done
    fi
    if [ $command = model ]; then
        expect 0 coppice model bcast --help
        text+=$'\n'$out
    fi
    named=$(sed -n 's/^The manual page \(.*\)(1) says more\.$/\1/p' <<<"$text" | sort -u)
    [ "$named" = "coppice-$command" ] || die "$command: --help names the pages: $named"
    helped=$(sed -n 's/^  \(-., \|    \)--\([a-z-]*\).*/\2/p' <<<"$text" | sort -u)
    expect 0 coppice $command --help
    paged=$(sed -n 's/^\.It .*Fl -\([a-z-]*\).*/\1/p' "$page" | sort -u)
    [ "$helped" = "$paged" ] ||
        die "$command: help (<) and page (>) differ:"$'\n'"$(diff <(echo "$helped") <(echo "$paged"))"
done
for page in "$manual"/coppice-*.1; do
    command=${page##*/coppice-}
    grep -qw "${command%.1}" <<<"$commands" || die "$page is of no command"
done
expect 0 coppice --version
grep -qx 'coppice [0-9.]*' <<<"$out" || die "$out"
