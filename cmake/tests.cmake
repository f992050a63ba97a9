# SPDX-License-Identifier: Apache-2.0
# Everything that CTest runs. Labels: unit, sim, scenario, live, fuzz, style, example.
# A test that cannot run here exits with 77 and is reported as skipped.

set(tests ${PROJECT_SOURCE_DIR}/tests)

# coppice_add_cmocka_tests(<label> <timeout>): tests/<label>/test_*.c, each one executable;
# the other .c files of the folder are helpers that all of them get.
function(coppice_add_cmocka_tests label timeout)
    file(GLOB all CONFIGURE_DEPENDS ${tests}/${label}/*.c)
    set(cases ${all})
    list(FILTER cases INCLUDE REGEX "/test_[^/]*\\.c$")
    set(helpers ${all})
    list(FILTER helpers EXCLUDE REGEX "/test_[^/]*\\.c$")
    list(LENGTH cases count)
    if(count AND NOT CMOCKA_FOUND)
        coppice_say("${label} tests" "off" "${count} left out: no cmocka")
        return()
    endif()
    coppice_say("${label} tests" "${count}" "tests/${label}")
    # The allocator that fails on demand replaces libc's in the whole executable.
    set(wrap "")
    if(EXISTS ${tests}/unit/failing_alloc.c)
        list(APPEND helpers ${tests}/unit/failing_alloc.c)
        list(REMOVE_DUPLICATES helpers)
        set(wrap -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free)
    endif()
    if(helpers AND cases)
        add_library(coppice_${label}_helpers OBJECT ${helpers})
        target_link_libraries(coppice_${label}_helpers PRIVATE coppice_flags coppice_system
            coppice_tools_common PkgConfig::CMOCKA)
        # __wrap_malloc and its like are called by the linker's doing, and have no header.
        set_source_files_properties(${helpers} PROPERTIES
                                    COMPILE_OPTIONS -Wno-missing-prototypes)
        target_include_directories(coppice_${label}_helpers PRIVATE ${tests}/unit)
        set(helper_objects $<TARGET_OBJECTS:coppice_${label}_helpers>)
    endif()
    foreach(source IN LISTS cases)
        get_filename_component(file ${source} NAME_WE)
        string(REGEX REPLACE "^test_" "" name ${file})
        set(target ${label}_${name})
        add_executable(${target} ${source} ${helper_objects})
        target_include_directories(${target} PRIVATE ${tests}/unit ${tests}/${label})
        target_link_libraries(${target} PRIVATE coppice_flags coppice_system
            coppice_tools_common PkgConfig::CMOCKA m)
        target_compile_definitions(${target} PRIVATE COPPICE_TESTS_DIR="${tests}")
        target_link_options(${target} PRIVATE ${wrap})
        add_test(NAME ${target} COMMAND ${target})
        set(labels ${label})
        if(name MATCHES "explore")
            list(APPEND labels explore)
        endif()
        set_tests_properties(${target} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout}
                                                  SKIP_RETURN_CODE 77)
    endforeach()
endfunction()
# Simulation tests are as long as COPPICE_SEEDS says; a million take a while.
coppice_add_cmocka_tests(unit 300)
coppice_add_cmocka_tests(sim 3600)
# The longest first, or one of them is left for one processor at the end.
foreach(name swarm explore coll agree drain member stream)
    if(TARGET sim_${name})
        set_tests_properties(sim_${name} PROPERTIES COST 100)
    endif()
endforeach()
if(TARGET sim_swarm)
    set_tests_properties(sim_swarm PROPERTIES COST 200)
endif()

# coppice_add_script(<name> <label> <timeout> <script> [args...])
function(coppice_add_script name label timeout script)
    add_test(NAME ${name} COMMAND bash ${script} ${ARGN})
    set(environment "SOURCE=${PROJECT_SOURCE_DIR}" "BUILD=${PROJECT_BINARY_DIR}"
                    "CC=${CMAKE_C_COMPILER}")
    if(TARGET coppice)
        list(APPEND environment "COPPICE=$<TARGET_FILE:coppice>"
                                "SWITCH=$<TARGET_FILE_DIR:coppice>/live_switch"
                                "NEXT=$<TARGET_FILE_DIR:coppice>/live_next")
    endif()
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout}
        SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endfunction()

# Scenarios: a script and the transcript that it must give.
file(GLOB scenarios CONFIGURE_DEPENDS ${tests}/scenario/*.scn)
list(LENGTH scenarios count)
file(GLOB sources CONFIGURE_DEPENDS ${tests}/scenario/*.c)
if("${tests}/scenario/runner.c" IN_LIST sources)
    add_executable(scenario_runner ${sources})
    target_link_libraries(scenario_runner PRIVATE coppice_flags coppice_system
                                                  coppice_tools_common)
    foreach(script IN LISTS scenarios)
        get_filename_component(name ${script} NAME_WE)
        string(REGEX REPLACE "\\.scn$" ".expected" expected ${script})
        add_test(NAME scenario_${name} COMMAND scenario_runner ${script} ${expected})
        set_tests_properties(scenario_${name} PROPERTIES LABELS scenario TIMEOUT 60)
    endforeach()
    coppice_say("scenarios" "${count}" "tests/scenario")
else()
    coppice_say("scenarios" "off" "tests/scenario/runner.c is not there")
endif()

# Live: real processes. They share the machine's patience, so one at a time of each of three kinds: jobs
# of MPI and of launchers, whose processes poll; those who have hosts of their own; and all others.
file(GLOB scripts CONFIGURE_DEPENDS ${tests}/live/*.sh)
list(FILTER scripts EXCLUDE REGEX "/(lib|common)[^/]*\\.sh$")
list(LENGTH scripts count)
if(TARGET coppice)
    # The network of those who need one of their own.
    file(GLOB sources CONFIGURE_DEPENDS ${tests}/live/switch*.c)
    add_executable(live_switch ${sources})
    target_link_libraries(live_switch PRIVATE coppice_flags coppice_system)
    # A member that means harm.
    add_executable(live_hostile ${tests}/live/hostile.c)
    target_link_libraries(live_hostile PRIVATE coppice_flags coppice_system
                                               coppice_tools_common)
    # MPI programs that lose processes.
    if(TARGET coppice_mpi)
        file(GLOB sources CONFIGURE_DEPENDS ${tests}/live/mpi/*.c)
        foreach(source IN LISTS sources)
            get_filename_component(name ${source} NAME_WE)
            add_executable(live_mpi_${name} ${source})
            set_target_properties(live_mpi_${name} PROPERTIES C_EXTENSIONS ON)
            target_compile_definitions(live_mpi_${name} PRIVATE _GNU_SOURCE)
            target_link_libraries(live_mpi_${name} PRIVATE coppice_flags coppice_mpi
                                                           Threads::Threads)
        endforeach()
    endif()
    # The command with the next minor version of the protocol: the two files that know it are
    # compiled anew, and come before the archive that has them, too.
    add_executable(live_next $<TARGET_OBJECTS:coppice> ${PROJECT_SOURCE_DIR}/src/wire/header.c
                             ${PROJECT_SOURCE_DIR}/src/net/tcp/handshake.c)
    target_compile_definitions(live_next PRIVATE COP__PROTOCOL_MINOR=1u)
    set_target_properties(live_next PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(live_next PRIVATE coppice_flags coppice_system coppice_tools_common)
    foreach(script IN LISTS scripts)
        get_filename_component(name ${script} NAME_WE)
        string(REGEX REPLACE "^(test|live)_" "" name ${name})
        # All wait with deadlines of their own: this one is for a machine that has other things
        # to do, where they were seen to take five times as long.
        coppice_add_script(live_${name} live 600 ${script})
        set_tests_properties(live_${name} PROPERTIES RESOURCE_LOCK live)
        if(name MATCHES "^(hosts|space)")
            set_tests_properties(live_${name} PROPERTIES RESOURCE_LOCK live_hosts COST 100)
        elseif(name MATCHES "^(mpi|launchers|slurm)")
            set_tests_properties(live_${name} PROPERTIES RESOURCE_LOCK live_jobs)
        endif()
    endforeach()
    coppice_say("live tests" "${count}" "tests/live")
else()
    coppice_say("live tests" "off" "no command to test")
endif()

# Examples: what a user would write, against the shared library and the public headers. One
# that needs several processes has a script in tests/examples that starts them.
file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
list(LENGTH examples count)
foreach(source IN LISTS examples)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^example_" "" name ${name})
    add_executable(example_${name} ${source})
    set_target_properties(example_${name} PROPERTIES C_EXTENSIONS ON)
    target_link_libraries(example_${name} PRIVATE coppice_flags coppice_shared
                                                  Threads::Threads)
    if(EXISTS ${tests}/examples/${name}.sh)
        coppice_add_script(example_${name} example 60 ${tests}/examples/${name}.sh)
        set_property(TEST example_${name} APPEND PROPERTY
                     ENVIRONMENT "EXAMPLE=$<TARGET_FILE:example_${name}>")
    else()
        add_test(NAME example_${name} COMMAND example_${name})
        set_tests_properties(example_${name} PROPERTIES LABELS example TIMEOUT 60)
    endif()
endforeach()
coppice_say("examples" "${count}" "examples/")
if(TARGET coppice_mpi)
    file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/mpi/*.c)
    foreach(source IN LISTS examples)
        get_filename_component(name ${source} NAME_WE)
        add_executable(example_${name} ${source})
        set_target_properties(example_${name} PROPERTIES C_EXTENSIONS ON)
        target_link_libraries(example_${name} PRIVATE coppice_flags coppice_mpi m)
        coppice_add_script(example_${name} example 120 ${tests}/examples/${name}.sh)
        set_property(TEST example_${name} APPEND PROPERTY
                     ENVIRONMENT "EXAMPLE=$<TARGET_FILE:example_${name}>")
    endforeach()
    if(MPICH_FOUND)
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/net/mpi/*.c)
        add_executable(example_over_mpich ${PROJECT_SOURCE_DIR}/examples/mpi/over_mpi.c
                                          ${sources})
        target_include_directories(example_over_mpich SYSTEM PRIVATE ${MPICH_INCLUDE_DIRS})
        target_link_libraries(example_over_mpich PRIVATE coppice_flags coppice_system
                                                         coppice_net ${MPICH_LINK_LIBRARIES})
        set_property(TEST example_over_mpi APPEND PROPERTY
                     ENVIRONMENT "EXAMPLE_MPICH=$<TARGET_FILE:example_over_mpich>")
    endif()
endif()

if(TARGET coppice_ofi)
    add_executable(example_over_ofi ${PROJECT_SOURCE_DIR}/examples/ofi/over_ofi.c)
    set_target_properties(example_over_ofi PROPERTIES C_EXTENSIONS ON)
    target_compile_definitions(example_over_ofi PRIVATE _GNU_SOURCE)
    target_link_libraries(example_over_ofi PRIVATE coppice_flags coppice_ofi)
    coppice_add_script(example_over_ofi example 180 ${tests}/examples/over_ofi.sh)
    set_property(TEST example_over_ofi APPEND PROPERTY
                 ENVIRONMENT "EXAMPLE=$<TARGET_FILE:example_over_ofi>")
endif()

# Style: each rule is a script that prints the lines that break it.
file(GLOB scripts CONFIGURE_DEPENDS ${tests}/style/check_*.sh)
list(LENGTH scripts count)
foreach(script IN LISTS scripts)
    get_filename_component(name ${script} NAME_WE)
    string(REGEX REPLACE "^check_" "" name ${name})
    coppice_add_script(style_${name} style 60 ${script})
endforeach()
coppice_say("style tests" "${count}" "tests/style")

# The installed package, through pkg-config and find_package. A sanitizer's run-time would
# have to be linked into the consumer, so only in plain builds.
if(COPPICE_SANITIZE OR COPPICE_COVERAGE)
    coppice_say("install test" "off" "only in builds without sanitizers and coverage")
else()
    file(GLOB scripts CONFIGURE_DEPENDS ${tests}/install/*.sh)
    foreach(script IN LISTS scripts)
        get_filename_component(name ${script} NAME_WE)
        coppice_add_script(install_${name} install 300 ${script})
    endforeach()
    coppice_say("install test" "on" "tests/install")
endif()
