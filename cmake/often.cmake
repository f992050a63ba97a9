# SPDX-License-Identifier: Apache-2.0
# What runs for every message is laid side by side. A member that is one of hundreds on a
# machine finds nothing in the processor's tables of pages when it wakes up, and looking a page
# up takes longer than running what is on it: the functions of cmake/often.list, which would
# lie on more than fifty pages, are on a few more than a dozen.
#
# The linker is told by a script that puts their sections first. A name of the list that is no
# function any more costs nothing but its place; tests/style/check_often.sh finds it.
#
# The same holds for what they read: constants of functions are beside each other on a page of
# their own, and the tables of cmake/often-data.list before the table of what is linked. That
# needs link-time optimisation, for only the linker is told to part data, too.

set(COPPICE_OFTEN ${PROJECT_BINARY_DIR}/generated/often.ld)
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/often.list names REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${PROJECT_SOURCE_DIR}/cmake/often.list)
set(functions "")
set(jumps "")
foreach(name IN LISTS names)
    # Compilers that make several of one function, or a part of it, add to its name.
    string(APPEND functions "        *(.text.${name} .text.${name}.*)\n")
    # Where its switches lead to.
    string(APPEND jumps "        *(.rodata.${name} .rodata.${name}.*)\n")
endforeach()
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/often-data.list names REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${PROJECT_SOURCE_DIR}/cmake/often-data.list)
set(tables "")
# What compilers make of switches that only choose a value, and of several fields at once.
set(constants "        *(.rodata.CSWTCH.*)\n        *(.rodata.cst*)\n")
foreach(name IN LISTS names)
    string(APPEND constants "        *(.rodata.${name} .rodata.${name}.*)\n")
    foreach(section .data.rel.ro .data.rel.ro.local)
        string(APPEND tables "        *(${section}.${name} ${section}.${name}.*)\n")
    endforeach()
endforeach()
file(CONFIGURE OUTPUT ${COPPICE_OFTEN} CONTENT
     "SECTIONS\n{\n    .text.often : {\n@functions@    }\n}\nINSERT BEFORE .text;\n\
SECTIONS\n{\n    .rodata.often : ALIGN(4096) {\n@constants@@jumps@    }\n}\nINSERT AFTER .rodata;\n\
SECTIONS\n{\n    .data.rel.ro.often : {\n@tables@    }\n}\nINSERT AFTER .data.rel.ro;\n" @ONLY)

include(CheckCSourceCompiles)
set(often OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT COPPICE_SANITIZE AND NOT COPPICE_FUZZ
   AND NOT COPPICE_COVERAGE)
    set(CMAKE_REQUIRED_FLAGS -ffunction-sections)
    set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-T,${COPPICE_OFTEN})
    check_c_source_compiles("int main(void) { return 0; }" COPPICE_LINKER_INSERTS)
    unset(CMAKE_REQUIRED_FLAGS)
    unset(CMAKE_REQUIRED_LINK_OPTIONS)
    set(often ${COPPICE_LINKER_INSERTS})
endif()
if(often)
    foreach(part coppice_pure coppice_sim coppice_net coppice_run coppice_boot)
        target_compile_options(${part} PRIVATE -ffunction-sections)
    endforeach()
endif()
coppice_say("layout of the code" "${often}" "cmake/often.list: in release builds, where the linker can")

# coppice_lay_often(<target>): an executable, or a library that is shared.
function(coppice_lay_often target)
    if(often)
        # The first for link-time optimisation, which compiles once more.
        target_link_options(${target} PRIVATE -ffunction-sections -fdata-sections
                            -Wl,-T,${COPPICE_OFTEN})
        set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${COPPICE_OFTEN})
    endif()
endfunction()
