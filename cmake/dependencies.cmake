# SPDX-License-Identifier: Apache-2.0
# libc, OpenSSL and libuv are needed. Everything else is found or left out, and said.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(LIBUV QUIET IMPORTED_TARGET libuv>=1.40)
endif()
if(NOT LIBUV_FOUND)
    message(FATAL_ERROR "libuv (1.40 or later) was not found by pkg-config. "
                        "On Debian: apt-get install pkg-config libuv1-dev, or: make deps")
endif()
coppice_say("libuv" "on" "${LIBUV_VERSION}")

find_package(OpenSSL 3.0 QUIET COMPONENTS SSL Crypto)
if(NOT OPENSSL_FOUND)
    message(FATAL_ERROR "libssl (OpenSSL 3.0 or later) was not found. "
                        "On Debian: apt-get install libssl-dev, or: make deps")
endif()
coppice_say("OpenSSL" "on" "${OPENSSL_VERSION}")

if(PkgConfig_FOUND)
    pkg_check_modules(PMIX QUIET pmix>=3.1)
endif()
if(PMIX_FOUND)
    coppice_say("PMIx" "on" "${PMIX_VERSION}: jobs of mpirun and srun (libpmix is loaded at run time)")
else()
    coppice_say("PMIx" "off" "not found (libpmix-dev): NO jobs of mpirun and srun; PMI-1 is there")
endif()

if(PkgConfig_FOUND)
    pkg_check_modules(LIBDW QUIET libdw>=0.160)
endif()
if(LIBDW_FOUND)
    coppice_say("elfutils" "on" "${LIBDW_VERSION}: for coppice stacks, loaded when used")
else()
    coppice_say("elfutils" "off" "not found (libdw-dev): coppice stacks says so and does nothing")
endif()

if(PkgConfig_FOUND)
    pkg_check_modules(OMPI QUIET IMPORTED_TARGET ompi-c)
endif()
if(OMPI_FOUND)
    coppice_say("Open MPI" "on" "${OMPI_VERSION}: libcoppice-mpi")
else()
    coppice_say("Open MPI" "off" "not found (libopenmpi-dev): NO libcoppice-mpi")
endif()

if(PkgConfig_FOUND)
    pkg_check_modules(LIBFABRIC QUIET libfabric>=1.14)
endif()
if(LIBFABRIC_FOUND)
    coppice_say("libfabric" "on" "${LIBFABRIC_VERSION}: libcoppice-ofi")
else()
    coppice_say("libfabric" "off" "not found (libfabric-dev): NO libcoppice-ofi")
endif()

# Another MPI, for a test only: the driver over MPI needs nothing of Open MPI's own.
if(PkgConfig_FOUND AND COPPICE_TESTS)
    pkg_check_modules(MPICH QUIET mpich)
endif()

if(COPPICE_TESTS AND NOT COPPICE_FUZZ)
    if(PkgConfig_FOUND)
        pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
    endif()
    if(CMOCKA_FOUND)
        coppice_say("cmocka" "on" "${CMOCKA_VERSION}: unit and simulation tests")
    else()
        coppice_say("cmocka" "off" "not found (libcmocka-dev): NO unit and simulation tests")
    endif()
endif()
