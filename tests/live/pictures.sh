#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The pictures of docs/healing.md are those that the command computes, and each is on the page.
. "$(dirname "$0")/lib.sh"

docs=$(dirname "$0")/../../docs
COPPICE=$COPPICE "$docs/../scripts/pictures" "$scratch/pictures"
diff -r "$docs/pictures" "$scratch/pictures" ||
    die "docs/pictures is not up to date: run scripts/pictures"
for picture in "$docs"/pictures/*.svg; do
    grep -q "(pictures/${picture##*/})" "$docs/healing.md" || die "nobody shows $picture"
done
