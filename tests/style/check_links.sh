#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Links from one of our pages to a file lead somewhere.
. "$(dirname "$0")/lib.sh"

bad=0
for page in "$SOURCE"/*.md "$SOURCE"/docs/*.md; do
    for link in $(grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//'); do
        case $link in *://* | mailto:*) continue ;; esac
        [ -e "$(dirname "$page")/$link" ] || { echo "$page: there is no $link"; bad=1; }
    done
done
exit $bad
