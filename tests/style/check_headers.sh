#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every public header can be included first, alone, by C11 and by C++11, without a warning; and
# what it declares has the names of C. Those of libcoppice-mpi where there is MPI.
. "$(dirname "$0")/lib.sh"
CC=${CC:-cc} CXX=${CXX:-g++}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Of MPI's own header nothing is judged, and of its bindings for C++ nothing is wanted.
mpi=
if command -v mpicc >/dev/null; then
    mpi=$(mpicc -showme:compile 2>/dev/null || mpicc -compile_info 2>/dev/null | cut -d' ' -f2-) || mpi=
    mpi=$(tr ' ' '\n' <<<"$mpi" | sed -n 's/^-I/-isystem /p' | tr '\n' ' ')
fi
[ -n "$mpi" ] || echo "SKIPPED: mpi.h, mpix.h and net_mpi.h, for there is no mpicc that says where mpi.h is"
languages="c"
if command -v "$CXX" >/dev/null; then
    languages="c c++"
else
    echo "SKIPPED: C++, for there is no $CXX"
fi

# compile LANGUAGE HEADER
compile() {
    local command=("$CC" -std=c11)
    [ "$1" = c ] || command=("$CXX" -std=c++11 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)
    # shellcheck disable=SC2086 # flags are words
    echo "#include <coppice/$2>" |
        "${command[@]}" -Wall -Wextra -pedantic-errors -Werror -fsyntax-only \
            -I"$SOURCE/include" $mpi -x "$1" - >"$scratch/log" 2>&1 ||
        sed "s|^|$2, $1: |" "$scratch/log"
}

bad=$(
    for path in "$SOURCE"/include/coppice/*.h; do
        header=${path##*/}
        case $header in
        coppice.h) ;; # declares nothing itself
        *) grep -q '^extern "C" {$' "$path" || echo "$header: no extern \"C\"" ;;
        esac
        case $header in
        mpi.h | mpix.h | net_mpi.h) [ -n "$mpi" ] || continue ;;
        esac
        for language in $languages; do compile "$language" "$header"; done
    done
)
verdict "$bad" "A public header is for C11 and C++11 alike, and needs no other before it."
