#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the object code says of itself:
#   1. the pure archive calls nothing but libc's memory and string functions, libcrypto's
#      digest and our own names;
#   2. it has no variable that can be written: two nodes in one process share nothing;
#   3. every name that we define begins with cop_;
#   4. the shared library shows what a public header declares, all of it, and nothing else;
#      names.list has these, so that one that goes, or comes by mistake, is seen in review.
. "$(dirname "$0")/lib.sh"

pure=$BUILD/libcoppice_pure.a
[ -f "$pure" ] || { echo "no $pure: build first"; exit 77; }
if [ -n "$(nm "$pure" 2>/dev/null | grep -E '__(asan|tsan|ubsan|gcov|sanitizer)_')" ]; then
    echo "an instrumented build calls its run-time; run this in a plain one"
    exit 77
fi

allowed="malloc calloc realloc free
memcpy memmove memset memcmp memchr
strlen strnlen strcmp strncmp strchr strrchr strstr strspn strcspn
snprintf vsnprintf
__memcpy_chk __memmove_chk __memset_chk __snprintf_chk __vsnprintf_chk
__stack_chk_fail _GLOBAL_OFFSET_TABLE_"
# The assertion is the only code that may speak and stop, so only its object may.
allowed_assert="abort stderr fprintf __fprintf_chk fputs fwrite fflush"
allowed_pattern='^(cop_|EVP_(MD|Digest|sha256|sha512|blake2))'

calls=$(nm -u "$pure" 2>/dev/null | awk \
    -v allowed="$allowed" -v assertion="$allowed_assert" -v pattern="$allowed_pattern" '
    BEGIN {
        n = split(allowed, a); for (i = 1; i <= n; i++) may[a[i]] = 1
        n = split(assertion, a); for (i = 1; i <= n; i++) in_assert[a[i]] = 1
    }
    /:$/ { object = $0; sub(/:$/, "", object); next }
    $1 == "U" || $1 == "w" {
        if ($2 in may || $2 ~ pattern) next
        if (object ~ /^assert\.c\.o$/ && $2 in in_assert) next
        printf "%s calls %s\n", object, $2
    }')

# Constant tables with pointers lie in .data.rel.ro, which is read-only once loaded.
variables=$(size -A "$pure" 2>/dev/null | awk '
    $2 == ":" || $0 ~ /\(ex .*\):?$/ { object = $1 }
    $1 ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $1 !~ /^\.data\.rel\.ro/ && $2 > 0 {
        printf "%s has %d bytes of variables in %s\n", object, $2, $1
    }')

names=$(for archive in pure sim net run; do
    nm -g --defined-only "$BUILD/libcoppice_$archive.a" 2>/dev/null |
        awk -v archive="libcoppice_$archive.a" '
            NF == 3 && $3 !~ /^cop_/ { printf "%s defines %s\n", archive, $3 }'
done)

shown=""
if [ -e "$BUILD/libcoppice.so" ]; then
    names_shown=$(nm -D --defined-only "$BUILD/libcoppice.so" |
        awk '{ sub(/@.*/, "", $3) } $2 != "A" { print $3 }' | sort)
    list=$SOURCE/tests/style/names.list
    if [ "${UPDATE:-}" = 1 ]; then
        { grep '^#' "$list"; printf '%s\n' "$names_shown"; } >"$list.new"
        mv "$list.new" "$list"
    fi
    shown=$(
        comm -13 <(grep -v '^#' "$list") <(printf '%s\n' "$names_shown") |
            sed 's/$/: libcoppice.so shows it, names.list does not (UPDATE=1 adds it)/'
        comm -23 <(grep -v '^#' "$list") <(printf '%s\n' "$names_shown") |
            sed 's/$/: in names.list, but libcoppice.so does not show it any more/'
        for name in $names_shown; do
            grep -qE "\\b$name\\(" "$SOURCE"/include/coppice/*.h ||
                echo "libcoppice.so shows $name, which no public header declares"
        done
    )
fi

verdict "$(printf '%s\n' "$calls" "$variables" "$names" "$shown" | sed '/^$/d')" \
    "The core does no I/O and keeps no global state; names begin with cop_ (public) or cop__."
