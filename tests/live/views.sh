#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Deaths change the view: of the root, of inner members, of leaves, of several roots in line
# at once. All that live agree on exactly those that live, and those who come back are in it
# again, with the same id in a later life.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_view.sh"

deaths() {
    expect 0 coppice up -n 12 "$@"
    all_see "n[0-11]"
    [ "$(epoch_of)" = 1 ] || die "the view of the start is not the first: $out"

    expect 0 coppice kill n11
    all_see "n[0-10]"
    expect 0 coppice kill n1
    all_see "n[0,2-10]"
    expect 0 coppice kill n0
    all_see "n[2-10]"
    [ "$(field root)" = n2 ] && [ "$(field removed)" = "n[0-1,11]" ] || die "$out"
    expect 0 coppice ps
    grep -q '^n0 .*dead  *- .*SIGKILL' <<<"$out" || die "$out"
    grep -q '^view [0-9]*: 9 members, root n2$' <<<"$out" || die "$out"

    # Back: the same ids, later lives.
    local before
    before=$(incarnation_of n0)
    expect 0 coppice restart n[0-1,11]
    view_is "n[0-11]" || die "restart returned before all see it: $out"
    [ "$(field root)" = n0 ] && [ "$(field removed)" = "" ] || die "$out"
    [ "$(incarnation_of n0)" -gt "$before" ] || die "the same life again"
    expect 0 coppice ps --json n0
    [ "$(field id)" = 0 ] && [ "$(field role)" = 0 ] || die "not what it was: $out"

    # The first three in line at once.
    expect 0 coppice kill n[0-2]
    all_see "n[3-11]"
    expect 0 coppice restart n[0-2]
    all_see "n[0-11]"
    probe_says 12 ""
    # A member that lives is killed first; nobody has seen it gone.
    expect 0 coppice restart n5
    view_is "n[0-11]" || die "$out"
    expect 0 coppice down
    assert_nothing_left
}

deaths
deaths --transport tcp
deaths --shape chain --quorum none

# Without views nothing changes.
expect 0 coppice up -n 6 --quorum fixed
expect 0 coppice kill n2
probe_says 5 n2
expect 1 coppice view --json
[ "$(field epoch)" = 1 ] && [ "$(field members)" = "n[0-5]" ] || die "$out"
expect 0 coppice restart n2
probe_says 6 ""
expect 0 coppice down
assert_nothing_left
