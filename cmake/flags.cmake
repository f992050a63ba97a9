# SPDX-License-Identifier: Apache-2.0
# Flags of all our code. They live on one interface target, so that nothing leaks into the
# installed package.

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(coppice_flags INTERFACE)
target_compile_features(coppice_flags INTERFACE c_std_11)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

# Every object is position-independent, so that it is compiled once and goes into the
# archive, the shared library and the executable.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

target_compile_options(coppice_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -Wpedantic
    -Wstrict-prototypes -Wmissing-prototypes -Wvla
    $<$<BOOL:${COPPICE_WERROR}>:-Werror>
    # A fused multiply-add rounds once instead of twice: no two compilers agree on where to
    # use it, and traces must be the same on all of them.
    -ffp-contract=off
    # Our own calls inside the shared library are never to be replaced from outside.
    -fno-semantic-interposition
    # Calls of other libraries without a stop at the linker's table of jumps: everything is
    # bound at the start anyway, and each is a line of code less to be fetched.
    -fno-plt)
target_compile_definitions(coppice_flags INTERFACE COPPICE_VERSION="${PROJECT_VERSION}")
# Libraries are named where they may be needed; the linker keeps what is used.
target_link_options(coppice_flags INTERFACE -Wl,--as-needed)
coppice_say("compiler" "${CMAKE_C_COMPILER_ID}" "${CMAKE_C_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
coppice_say("warnings as errors" "${COPPICE_WERROR}" "COPPICE_WERROR")

if(COPPICE_HARDEN AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT COPPICE_SANITIZE
   AND NOT COPPICE_FUZZ)
    target_compile_options(coppice_flags INTERFACE
        -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    target_link_options(coppice_flags INTERFACE -Wl,-z,relro,-z,now)
    coppice_say("hardening" "on" "stack protector, fortify, relro, now, PIE")
else()
    coppice_say("hardening" "off" "only in release builds, with COPPICE_HARDEN")
endif()

# Every test is an executable with the whole library in it; the usual linker takes its time.
if(COPPICE_LINKER)
    find_program(COPPICE_LINKER_PATH ld.${COPPICE_LINKER})
    if(COPPICE_LINKER_PATH)
        # Not the shared libraries: gold cannot read a map that says [!_].
        target_link_options(coppice_flags INTERFACE
            $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-fuse-ld=${COPPICE_LINKER}>)
        coppice_say("linker" "${COPPICE_LINKER}" "${COPPICE_LINKER_PATH}")
    else()
        coppice_say("linker" "usual" "no ld.${COPPICE_LINKER} on this machine")
    endif()
endif()

set(sanitize "${COPPICE_SANITIZE}")
if(COPPICE_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "COPPICE_FUZZ needs clang (libFuzzer): use the preset 'fuzz'")
    endif()
    # The libraries get coverage only; the fuzzers themselves add libFuzzer's main.
    target_compile_options(coppice_flags INTERFACE -fsanitize=fuzzer-no-link)
    target_compile_definitions(coppice_flags INTERFACE COPPICE_FUZZING=1)
endif()
if(sanitize)
    target_compile_options(coppice_flags INTERFACE
        -fsanitize=${sanitize} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(coppice_flags INTERFACE -fsanitize=${sanitize})
    coppice_say("sanitizers" "on" "${sanitize}")
else()
    coppice_say("sanitizers" "off" "COPPICE_SANITIZE is empty")
endif()
if(COPPICE_COVERAGE)
    target_compile_options(coppice_flags INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(coppice_flags INTERFACE --coverage)
    coppice_say("coverage" "on" "gcov data beside the objects")
endif()
