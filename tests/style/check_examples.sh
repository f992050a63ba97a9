#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every example is compiled and run: a program in examples/ has a test of its name, and whatever
# is in a folder of its own is built by a test that is named here.
. "$(dirname "$0")/lib.sh"

tests=$(ctest --test-dir "$BUILD" -N | sed -n 's/^ *Test *#[0-9]*: //p')
[ -n "$tests" ] || { echo "no tests in $BUILD"; exit 1; }
has() { grep -qxF "$1" <<<"$tests"; }
bad=0
for file in "$SOURCE"/examples/*.c "$SOURCE"/examples/*/*.c; do
    name=$(basename "$file" .c)
    case ${file#"$SOURCE"/examples/} in
    filter/*) # by its own makefile, against an installed tree
        grep -q 'examples/filter' "$SOURCE/tests/install/consumer.sh" && continue ;;
    mpi/*) # where there is an MPI to build it with
        [ -e "$BUILD/libcoppice-mpi.so" ] || continue
        has "example_$name" && continue ;;
    *) has "example_$name" && continue ;;
    esac
    echo "$file: no test compiles and runs it"
    bad=1
done
# And the other way round: a script without an example runs nothing.
for script in "$SOURCE"/tests/examples/*.sh; do
    name=$(basename "$script" .sh)
    case $name in lib*) continue ;; esac
    compgen -G "$SOURCE/examples/$name.c" >/dev/null || compgen -G "$SOURCE/examples/*/$name.c" >/dev/null || {
        echo "$script: there is no such example"
        bad=1
    }
done
exit $bad
