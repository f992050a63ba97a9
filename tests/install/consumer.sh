#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs into a scratch prefix, then builds and runs a small program against it: through
# pkg-config, shared and static, and through find_package, shared and static.
set -euo pipefail
: "${SOURCE:?}" "${BUILD:?}"
CC=${CC:-cc}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
cmake --install "$BUILD" --prefix "$prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }

pc=$(find "$prefix" -name coppice.pc)
[ -n "$pc" ] || { echo "coppice.pc was not installed"; exit 1; }
export PKG_CONFIG_PATH=${pc%/*}
libdir=$(pkg-config --variable=libdir coppice)
libdir=$(cd "$libdir" && pwd)
[ -e "$libdir/libcoppice.so.0" ] || { echo "no libcoppice.so.0 in $libdir"; exit 1; }

# Every public header stands alone: each first, by itself. (As C++: tests/style/check_headers.sh.)
for header in "$prefix"/include/coppice/*.h; do
    # Those of libcoppice-mpi need MPI; its examples are compiled by the build.
    case ${header##*/} in mpi.h | mpix.h | net_mpi.h) continue ;; esac
    echo "#include <coppice/${header##*/}>" |
        "$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c \
            $(pkg-config --cflags coppice) -
done
echo "headers: ok"

# A program in C++, by the linker too: without extern "C" it would find nothing.
if command -v "${CXX:-g++}" >/dev/null; then
    # shellcheck disable=SC2046
    "${CXX:-g++}" -std=c++11 -Wall -Wextra -pedantic-errors -Werror -o "$scratch/plus" \
        "$SOURCE/tests/install/consumer.cc" $(pkg-config --cflags --libs coppice)
    echo -n "C++: "
    LD_LIBRARY_PATH=$libdir "$scratch/plus"
else
    echo "C++: SKIPPED, there is no ${CXX:-g++}"
fi

# The example of a filter is built by its own makefile, with nothing but what was installed.
cp "$SOURCE"/examples/filter/* "$scratch"
make -s -C "$scratch" CC="$CC" median.so
"$prefix/bin/coppice" filter check "$scratch/median.so" --runs 20

run() {
    echo -n "$1: "
    LD_LIBRARY_PATH=$libdir "$2"
}

# shellcheck disable=SC2046 # flags are words
"$CC" -o "$scratch/shared" "$SOURCE/tests/install/consumer.c" \
    $(pkg-config --cflags --libs coppice)
run "pkg-config, shared" "$scratch/shared"

# shellcheck disable=SC2046
"$CC" -o "$scratch/static" "$SOURCE/tests/install/consumer.c" \
    $(pkg-config --cflags coppice) "$libdir/libcoppice.a" \
    $(pkg-config --libs libuv openssl) -pthread
run "pkg-config, archive" "$scratch/static"

# An example as a user would build it, and two processes of it that meet.
# shellcheck disable=SC2046
"$CC" -D_GNU_SOURCE -o "$scratch/messages" "$SOURCE/examples/messages.c" \
    $(pkg-config --cflags --libs coppice)
echo -n "example: "
LD_LIBRARY_PATH=$libdir EXAMPLE=$scratch/messages bash "$SOURCE/tests/examples/messages.sh"

# The example of the README compiles.
sed -n '/^```c$/,/^```$/p' "$SOURCE/README.md" | sed '/^```/d' >"$scratch/readme.c"
# shellcheck disable=SC2046
"$CC" -o "$scratch/readme" "$scratch/readme.c" $(pkg-config --cflags --libs coppice)
[ -f "$prefix/share/man/man3/cop_run.3" ] || { echo "no manual pages"; exit 1; }

cmake -S "$SOURCE/tests/install" -B "$scratch/build" -G Ninja \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1 &&
    cmake --build "$scratch/build" >>"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
run "find_package, shared" "$scratch/build/consumer"
run "find_package, archive" "$scratch/build/consumer_static"

if [ -n "${COPPICE:-}" ]; then
    echo -n "command: "
    "$prefix/bin/coppice" --version
    # One file: none of our own libraries, so that it can be copied.
    if [ -n "$(ldd "$prefix/bin/coppice" | grep libcoppice)" ]; then
        echo "bin/coppice needs libcoppice.so"
        exit 1
    fi
fi
