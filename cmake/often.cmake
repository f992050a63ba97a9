# SPDX-License-Identifier: Apache-2.0
# What runs for every message is laid side by side. A member that is one of hundreds on a
# machine finds nothing in the processor's tables of pages when it wakes up, and looking a page
# up takes longer than running what is on it: the functions of cmake/often.list, which would
# lie on more than fifty pages, are on a dozen.
#
# The linker is told by a script that puts their sections first. A name of the list that is no
# function any more costs nothing but its place; tests/style/check_often.sh finds it.

set(COPPICE_OFTEN ${PROJECT_BINARY_DIR}/generated/often.ld)
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/often.list names REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${PROJECT_SOURCE_DIR}/cmake/often.list)
set(lines "")
foreach(name IN LISTS names)
    # Compilers that make several of one function, or a part of it, add to its name.
    string(APPEND lines "        *(.text.${name} .text.${name}.*)\n")
endforeach()
file(CONFIGURE OUTPUT ${COPPICE_OFTEN} CONTENT
     "SECTIONS\n{\n    .text.often : {\n@lines@    }\n}\nINSERT BEFORE .text;\n" @ONLY)

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
        target_link_options(${target} PRIVATE -ffunction-sections -Wl,-T,${COPPICE_OFTEN})
        set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${COPPICE_OFTEN})
    endif()
endfunction()
