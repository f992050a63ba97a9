# SPDX-License-Identifier: Apache-2.0
# What is on, what is off, and why: collected while configuring, printed at the end.

set_property(GLOBAL PROPERTY COPPICE_SUMMARY "")

# coppice_say(<what> <on|off|...> <why or which>)
function(coppice_say what state why)
    string(LENGTH "${what}" length)
    math(EXPR pad "22 - ${length}")
    if(pad GREATER 0)
        string(REPEAT " " ${pad} spaces)
    endif()
    string(LENGTH "${state}" length)
    math(EXPR pad "5 - ${length}")
    if(pad GREATER 0)
        string(REPEAT " " ${pad} more)
    endif()
    set_property(GLOBAL APPEND PROPERTY COPPICE_SUMMARY
                 "  ${what}${spaces} ${state}${more} ${why}")
endfunction()

function(coppice_print_summary)
    get_property(lines GLOBAL PROPERTY COPPICE_SUMMARY)
    message(STATUS "")
    message(STATUS "Coppice ${PROJECT_VERSION}")
    foreach(line IN LISTS lines)
        message(STATUS "${line}")
    endforeach()
    message(STATUS "")
endfunction()
