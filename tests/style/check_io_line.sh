#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No clock, no random source, no socket, file or thread above the I/O line, also where the
# linker would not see it (inline code, headers). The simulator may have threads, but
# neither clocks nor chance that do not come from its seed.
. "$(dirname "$0")/lib.sh"

clock='time|clock|clock_gettime|timespec_get|gettimeofday|times|nanosleep|usleep|sleep'
chance='rand|rand_r|srand|random|srandom|[djlmn]rand48|getrandom|getentropy|arc4random[a-z_]*|RAND_[a-z_]*'
socket='socket|socketpair|connect|accept4?|listen|bind|sendto|recvfrom|sendmsg|recvmsg|poll|select|epoll_[a-z_0-9]*|uv_[a-z_]*'
file='fopen|freopen|open|openat|read|write|pread|pwrite|mmap|getenv|system|popen|fork|exec[lv][a-z]*'
thread='pthread_[a-z_]*|thrd_[a-z]*|mtx_[a-z]*'

headers='assert|ctype|errno|fcntl|locale|math|poll|pthread|setjmp|signal|threads|time|unistd|uv|wchar|sys/[a-z_]*|netinet/[a-z_]*|arpa/[a-z_]*|openssl/(rand|ssl|bio)'

# scan PATTERN FOLDER...: lines that call one of the names as a function of libc. A member
# (x->send, x.send) and a declaration of our own with a prefix are not such calls.
scan() {
    local pattern=$1 path
    shift
    c_files "$@" | while read -r path; do
        without_comments "$path" |
            grep -nE "(^|[^A-Za-z0-9_>.])($pattern)[[:space:]]*\(" |
            sed "s|^|${path#"$SOURCE"/}:|" || true
    done
}

pure=()
for folder in $pure_folders; do pure+=("src/$folder"); done

# A bare name is a static function's (style: bare names for statics), so what the file
# itself defines is not libc's.
not_own() {
    while IFS= read -r line; do
        path=${line%%:*}
        call=$(grep -oE "\b($1)[[:space:]]*\(" <<<"${line#*:*:}" | head -1 | tr -d ' (')
        grep -qE "^static .*\b$call\(" "$SOURCE/$path" || printf '%s\n' "$line"
    done
}

all="$clock|$chance|$socket|$file|$thread"
simulator="$clock|$chance|$socket"
bad=$(
    scan "$all" "${pure[@]}" | not_own "$all"
    scan "$simulator" src/sim | not_own "$simulator"
    c_files "${pure[@]}" | while read -r path; do
        grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<($headers)\.h>" "$path" |
            sed "s|^|${path#"$SOURCE"/}:|" || true
    done
    # Floating point in pure code: results of libm, and of contraction, differ by machine.
    scan 'exp|exp2|log|log2|log10|log1p|pow|sqrt|sin|cos|tan|ceil|floor|round' "${pure[@]}" |
        not_own 'exp|exp2|log|log2|log10|log1p|pow|sqrt|sin|cos|tan|ceil|floor|round'
)
verdict "$bad" "The node does no I/O: time and chance come in with the event or the seed."
