#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every source begins with the licence line; scripts and CMake files have it near the top.
. "$(dirname "$0")/lib.sh"

bad=$(
    c_files src include tools tests bench examples | while read -r path; do
        [ "$(head -n 1 "$path")" = '/* SPDX-License-Identifier: Apache-2.0 */' ] ||
            echo "${path#"$SOURCE"/}:1: does not begin with the licence line"
    done
    for path in "$SOURCE"/CMakeLists.txt "$SOURCE"/Makefile "$SOURCE"/cmake/*.cmake \
        "$SOURCE"/scripts/* "$SOURCE"/tests/*/*.sh; do
        [ -f "$path" ] || continue
        head -n 3 "$path" | grep -qx '# SPDX-License-Identifier: Apache-2.0' ||
            echo "${path#"$SOURCE"/}: no licence line"
    done
)
verdict "$bad" "First line of a .c or .h: /* SPDX-License-Identifier: Apache-2.0 */"
