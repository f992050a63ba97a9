# SPDX-License-Identifier: Apache-2.0
# Headers, both libraries, the command and its completion, manual pages, coppice.pc and the CMake package.

include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/coppice)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/coppice
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS coppice_shared EXPORT coppice-targets)
install(TARGETS coppice_static EXPORT coppice-static-targets)
if(TARGET coppice_mpi)
    install(TARGETS coppice_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(TARGETS coppice-mpi-bcast RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/coppice)
endif()
if(TARGET coppice_ofi)
    install(TARGETS coppice_ofi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET coppice)
    install(TARGETS coppice)
    # The command prints what shells need; each looks for it under a name of its own.
    set(completions ${PROJECT_BINARY_DIR}/completions)
    file(MAKE_DIRECTORY ${completions})
    foreach(shell bash zsh fish)
        add_custom_command(TARGET coppice POST_BUILD VERBATIM
            COMMAND sh -c "exec \"$0\" completion ${shell} >\"$1\"" $<TARGET_FILE:coppice>
                    ${completions}/${shell})
    endforeach()
    install(FILES ${completions}/bash RENAME coppice
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${completions}/zsh RENAME _coppice
            DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
    install(FILES ${completions}/fish RENAME coppice.fish
            DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
foreach(section 1 3 7)
    file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.${section})
    if(pages)
        install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endif()
endforeach()

# Relative to the .pc file, so that an installed tree can be moved. LIBDIR may be absolute.
set(pcdir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH COPPICE_PC_PREFIX ${pcdir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" COPPICE_PC_PREFIX "${COPPICE_PC_PREFIX}")
configure_file(cmake/coppice.pc.in coppice.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/coppice.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The archive needs targets for libuv and OpenSSL in the consumer's build, the shared
# library does not: two sets, and the second only when it is asked for.
install(EXPORT coppice-targets NAMESPACE coppice:: DESTINATION ${package})
install(EXPORT coppice-static-targets NAMESPACE coppice:: DESTINATION ${package})
configure_package_config_file(cmake/coppice-config.cmake.in coppice-config.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(coppice-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/coppice-config.cmake
              ${PROJECT_BINARY_DIR}/coppice-config-version.cmake DESTINATION ${package})
