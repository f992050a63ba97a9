# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/fuzz_NAME.c. With COPPICE_FUZZ each is a libFuzzer program; otherwise it is
# linked with replay_main.c, which runs it over tests/fuzz/corpus/NAME, so that every input
# that once found something is tried again in every build, with any compiler.

file(GLOB fuzzers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
set(names "")
foreach(source IN LISTS fuzzers)
    get_filename_component(target ${source} NAME_WE)
    string(REGEX REPLACE "^fuzz_" "" name ${target})
    list(APPEND names ${name})
    add_executable(${target} ${source})
    # LLVMFuzzerTestOneInput has no header. (Options of a source come after all others.)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz)
    target_link_libraries(${target} PRIVATE coppice_flags coppice_system
                                            coppice_tools_common)
    set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    if(COPPICE_FUZZ)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
        # What a fuzzer compares itself is no magic number either (targets.cmake).
        target_compile_options(${target} PRIVATE -fno-sanitize-coverage=trace-cmp)
        add_test(NAME fuzz_short_${name} COMMAND ${target} -runs=20000 -seed=1)
        set_tests_properties(fuzz_short_${name} PROPERTIES LABELS fuzz TIMEOUT 300)
    else()
        target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.c)
        add_test(NAME fuzz_replay_${name} COMMAND ${target} ${corpus})
        set_tests_properties(fuzz_replay_${name} PROPERTIES LABELS fuzz TIMEOUT 300)
    endif()
endforeach()
list(LENGTH names count)
string(REPLACE ";" " " names "${names}")
if(COPPICE_FUZZ)
    coppice_say("fuzzers" "${count}" "libFuzzer: ${names}")
else()
    coppice_say("fuzzers" "${count}" "corpus replay only (preset 'fuzz' has libFuzzer): ${names}")
endif()
