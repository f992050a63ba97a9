# SPDX-License-Identifier: Apache-2.0
# The libraries, the command and the benchmarks.
#
# Sources are globbed: a new file is a new file and no change here, so that two people who
# each add one do not meet in this list. CONFIGURE_DEPENDS makes every build look again.

# Folders of the pure core: no I/O, no clock, no thread. tests/style holds them to it.
set(COPPICE_PURE_FOLDERS base wire filter tree view node roster detect sweep member letter agree stream probe coll
                          stack)

# coppice_sources(<out> <target> <pattern>...): what the patterns find, or an empty
# translation unit, because an archive must have at least one object.
function(coppice_sources out target)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${ARGN})
    if(NOT found)
        set(stub ${PROJECT_BINARY_DIR}/generated/${target}_empty.c)
        if(NOT EXISTS ${stub})
            file(WRITE ${stub} "typedef int ${target}_empty;\n")
        endif()
        set(found ${stub})
        coppice_say("${target}" "empty" "no sources yet")
    endif()
    set(${out} ${found} PARENT_SCOPE)
endfunction()

# Code that talks to the system sees all of it; pure code sees ISO C and nothing else.
add_library(coppice_system INTERFACE)
target_compile_definitions(coppice_system INTERFACE _GNU_SOURCE)

set(patterns "")
foreach(folder IN LISTS COPPICE_PURE_FOLDERS)
    list(APPEND patterns ${PROJECT_SOURCE_DIR}/src/${folder}/*.c)
endforeach()
coppice_sources(sources coppice_pure ${patterns})
add_library(coppice_pure STATIC ${sources})
target_link_libraries(coppice_pure PRIVATE coppice_flags OpenSSL::Crypto)
if(COPPICE_FUZZ)
    # Telling the fuzzer about every comparison takes half of its time. It learns magic
    # numbers from them, and only the decoder has any.
    target_compile_options(coppice_pure PRIVATE -fno-sanitize-coverage=trace-cmp)
    file(GLOB decoders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/wire/*.c)
    set_source_files_properties(${decoders} PROPERTIES
                                COMPILE_OPTIONS -fsanitize-coverage=trace-cmp)
endif()

coppice_sources(sources coppice_sim ${PROJECT_SOURCE_DIR}/src/sim/*.c)
add_library(coppice_sim STATIC ${sources})
target_link_libraries(coppice_sim PRIVATE coppice_flags coppice_system
                                  PUBLIC coppice_pure Threads::Threads)

coppice_sources(sources coppice_net ${PROJECT_SOURCE_DIR}/src/net/*.c)
# Drivers that need a library of their own go where that library is.
list(FILTER sources EXCLUDE REGEX "/src/net/(mpi|ofi)/")
add_library(coppice_net STATIC ${sources})
if(COPPICE_FUZZ)
    target_compile_options(coppice_net PRIVATE -fno-sanitize-coverage=trace-cmp)
endif()
target_link_libraries(coppice_net PRIVATE coppice_flags coppice_system
                                  PUBLIC coppice_pure PkgConfig::LIBUV OpenSSL::SSL
                                         Threads::Threads)

coppice_sources(sources coppice_run ${PROJECT_SOURCE_DIR}/src/run/*.c)
add_library(coppice_run STATIC ${sources})
target_link_libraries(coppice_run PRIVATE coppice_flags coppice_system
                                  PUBLIC coppice_net ${CMAKE_DL_LIBS})

coppice_sources(sources coppice_boot ${PROJECT_SOURCE_DIR}/src/boot/*.c)
add_library(coppice_boot STATIC ${sources})
target_link_libraries(coppice_boot PRIVATE coppice_flags coppice_system
                                   PUBLIC coppice_run ${CMAKE_DL_LIBS})
if(PMIX_FOUND)
    # The header only: libpmix is loaded when a launcher speaks it. Its headers are not
    # clean by our rules, hence SYSTEM.
    target_include_directories(coppice_boot SYSTEM PRIVATE ${PMIX_INCLUDE_DIRS})
    target_compile_definitions(coppice_boot PRIVATE COPPICE_HAS_PMIX)
endif()

foreach(part coppice_pure coppice_sim coppice_net coppice_run coppice_boot)
    target_include_directories(${part} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                              ${PROJECT_SOURCE_DIR}/src)
endforeach()

# The command and the shared library are each compiled as one when they are linked: a step of a
# node crosses six folders, and a quarter of its instructions are calls between them. The objects are fat, so that everybody else
# (each of the many tests) links the plain code in them and does not wait.
set(lto OFF)
if(COPPICE_LTO AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release"
   AND NOT COPPICE_SANITIZE AND NOT COPPICE_COVERAGE)
    set(lto ON)
    foreach(part coppice_pure coppice_sim coppice_net coppice_run coppice_boot)
        target_compile_options(${part} PRIVATE -flto=auto -ffat-lto-objects)
    endforeach()
    # The linker's plug-in would take the other code unless it is told not to.
    target_link_options(coppice_flags INTERFACE
        $<IF:$<BOOL:$<TARGET_PROPERTY:COPPICE_LTO>>,-flto=auto;-O2,-fno-lto>)
endif()
coppice_say("link-time optimisation" "${lto}" "of the command and the shared library: gcc, release")

include(cmake/often.cmake)

# What is shipped: the same objects, once as an archive and once as a shared library that
# shows cop_* and hides cop__*.
set(parts $<TARGET_OBJECTS:coppice_pure> $<TARGET_OBJECTS:coppice_sim>
          $<TARGET_OBJECTS:coppice_net> $<TARGET_OBJECTS:coppice_run>
          $<TARGET_OBJECTS:coppice_boot>)
set(map ${PROJECT_SOURCE_DIR}/cmake/coppice.map)
add_library(coppice_shared SHARED ${parts})
add_library(coppice_static STATIC ${parts})
set_target_properties(coppice_shared PROPERTIES
    OUTPUT_NAME coppice EXPORT_NAME coppice LINKER_LANGUAGE C
    VERSION ${PROJECT_VERSION} SOVERSION ${COPPICE_SOVERSION} LINK_DEPENDS ${map})
set_target_properties(coppice_static PROPERTIES
    OUTPUT_NAME coppice EXPORT_NAME static LINKER_LANGUAGE C)
target_link_options(coppice_shared PRIVATE -Wl,--version-script=${map}
                                           -Wl,-Bsymbolic-functions)
if(lto)
    set_target_properties(coppice_shared PROPERTIES COPPICE_LTO ON)
endif()
coppice_lay_often(coppice_shared)
if(NOT COPPICE_SANITIZE AND NOT COPPICE_FUZZ) # a sanitizer's run-time is in the executable
    target_link_options(coppice_shared PRIVATE -Wl,-z,defs)
endif()
foreach(shipped coppice_shared coppice_static)
    target_include_directories(${shipped} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${shipped} PRIVATE $<BUILD_INTERFACE:coppice_flags>)
endforeach()
target_link_libraries(coppice_shared PRIVATE PkgConfig::LIBUV OpenSSL::SSL Threads::Threads
                                             ${CMAKE_DL_LIBS})
target_link_libraries(coppice_static PUBLIC PkgConfig::LIBUV OpenSSL::SSL Threads::Threads
                                            ${CMAKE_DL_LIBS})
add_library(coppice::coppice ALIAS coppice_shared)
add_library(coppice::static ALIAS coppice_static)

# For MPI programs: on the public interface of the library, and MPI.
if(OMPI_FOUND AND NOT COPPICE_FUZZ)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/mpi/*.c
                                        ${PROJECT_SOURCE_DIR}/src/net/mpi/*.c)
    add_library(coppice_mpi SHARED ${sources})
    set_target_properties(coppice_mpi PROPERTIES OUTPUT_NAME coppice-mpi
        VERSION ${PROJECT_VERSION} SOVERSION ${COPPICE_SOVERSION}
        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/coppice-mpi.map)
    target_link_options(coppice_mpi PRIVATE
        -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/coppice-mpi.map)
    target_compile_definitions(coppice_mpi PRIVATE _GNU_SOURCE)
    target_include_directories(coppice_mpi PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(coppice_mpi SYSTEM PUBLIC ${OMPI_INCLUDE_DIRS})
    # The driver below the I/O line needs some of our own names. They come from the archives,
    # after all that the shared library shows, and are not shown again. Not compiled as one:
    # the linker would then take the whole node from the archives, too.
    target_link_libraries(coppice_mpi PUBLIC coppice_shared ${OMPI_LINK_LIBRARIES}
                                      PRIVATE coppice_flags $<TARGET_FILE:coppice_net>
                                              $<TARGET_FILE:coppice_pure>)
    add_dependencies(coppice_mpi coppice_net coppice_pure)
    # What `coppice bench bcast --mpi` launches: MPI alone.
    add_executable(coppice-mpi-bcast ${PROJECT_SOURCE_DIR}/bench/mpi/bcast.c)
    target_include_directories(coppice-mpi-bcast SYSTEM PRIVATE ${OMPI_INCLUDE_DIRS})
    target_link_libraries(coppice-mpi-bcast PRIVATE coppice_flags ${OMPI_LINK_LIBRARIES})
endif()

# Members over libfabric: a library of its own, so that nobody else needs that.
if(LIBFABRIC_FOUND AND NOT COPPICE_FUZZ)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/net/ofi/*.c)
    add_library(coppice_ofi SHARED ${sources})
    set_target_properties(coppice_ofi PROPERTIES OUTPUT_NAME coppice-ofi
        VERSION ${PROJECT_VERSION} SOVERSION ${COPPICE_SOVERSION}
        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/coppice-ofi.map)
    target_link_options(coppice_ofi PRIVATE
        -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/coppice-ofi.map)
    target_compile_definitions(coppice_ofi PRIVATE _GNU_SOURCE)
    target_include_directories(coppice_ofi PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(coppice_ofi SYSTEM PRIVATE ${LIBFABRIC_INCLUDE_DIRS})
    target_link_libraries(coppice_ofi PUBLIC coppice_shared
                                      PRIVATE coppice_flags ${LIBFABRIC_LINK_LIBRARIES}
                                              $<TARGET_FILE:coppice_net>
                                              $<TARGET_FILE:coppice_pure>)
    add_dependencies(coppice_ofi coppice_net coppice_pure)
endif()

# The command: one file that needs no library of ours, so that it starts fast and can be
# copied. What tests want to call (drawing, node sets, JSON) is an archive of its own.
file(GLOB_RECURSE tools CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.c)
set(commands ${tools})
list(FILTER commands INCLUDE REGEX "/(main|cmd_[^/]*)\\.c$")
set(common ${tools})
list(FILTER common EXCLUDE REGEX "/(main|cmd_[^/]*)\\.c$")
if(NOT common)
    coppice_sources(common coppice_tools_common ${PROJECT_SOURCE_DIR}/tools/no_such_file.c)
endif()
add_library(coppice_tools_common STATIC ${common})
target_include_directories(coppice_tools_common PUBLIC ${PROJECT_SOURCE_DIR}/tools)
target_link_libraries(coppice_tools_common PRIVATE coppice_flags coppice_system
                                           PUBLIC coppice_sim coppice_boot coppice_run coppice_net
                                                  coppice_pure m)
if(COPPICE_FUZZ)
    target_compile_options(coppice_tools_common PRIVATE -fno-sanitize-coverage=trace-cmp)
endif()

# Only its headers: the library is loaded by who needs it, and not by every agent.
if(LIBDW_FOUND)
    target_compile_definitions(coppice_tools_common PRIVATE COPPICE_HAVE_LIBDW)
    target_include_directories(coppice_tools_common SYSTEM PRIVATE ${LIBDW_INCLUDE_DIRS})
endif()
if(NCURSES_FOUND)
    target_compile_definitions(coppice_tools_common PRIVATE COPPICE_HAVE_NCURSES)
    target_include_directories(coppice_tools_common SYSTEM PRIVATE ${NCURSES_INCLUDE_DIRS})
endif()

if(EXISTS ${PROJECT_SOURCE_DIR}/tools/main.c AND NOT COPPICE_FUZZ)
    add_executable(coppice ${commands})
    target_link_libraries(coppice PRIVATE coppice_flags coppice_system coppice_tools_common)
    if(lto)
        set_target_properties(coppice PROPERTIES COPPICE_LTO ON)
    endif()
    coppice_lay_often(coppice)
    coppice_say("coppice (command)" "on" "tools/")
elseif(COPPICE_FUZZ)
    coppice_say("coppice (command)" "off" "fuzzers only")
else()
    coppice_say("coppice (command)" "off" "tools/main.c is not there")
endif()

file(GLOB benches CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
if(NOT COPPICE_FUZZ)
    foreach(source IN LISTS benches)
        get_filename_component(name ${source} NAME_WE)
        string(REGEX REPLACE "^bench_" "" name ${name})
        add_executable(bench_${name} ${source})
        target_link_libraries(bench_${name} PRIVATE coppice_flags coppice_system
                                                    coppice_tools_common)
    endforeach()
endif()
# What our protocols cost over MPI, with the libraries that programs have.
if(OMPI_FOUND AND NOT COPPICE_FUZZ)
    add_executable(bench_mpi ${PROJECT_SOURCE_DIR}/bench/mpi/driver.c
                             ${PROJECT_SOURCE_DIR}/tools/term/json.c
                             ${PROJECT_SOURCE_DIR}/tools/number/sample.c
                             ${PROJECT_SOURCE_DIR}/src/base/assert.c)
    target_include_directories(bench_mpi PRIVATE ${PROJECT_SOURCE_DIR}/tools
                                                 ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(bench_mpi PRIVATE coppice_flags coppice_system coppice_mpi m)
endif()
# Bulk over libfabric next to bulk over our own sockets.
if(TARGET coppice_ofi)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/net/ofi/*.c)
    add_executable(bench_ofi ${PROJECT_SOURCE_DIR}/bench/ofi/bulk.c ${sources})
    target_include_directories(bench_ofi SYSTEM PRIVATE ${LIBFABRIC_INCLUDE_DIRS})
    target_link_libraries(bench_ofi PRIVATE coppice_flags coppice_system coppice_tools_common
                                            ${LIBFABRIC_LINK_LIBRARIES})
endif()
