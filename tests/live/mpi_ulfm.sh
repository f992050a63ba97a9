#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The names of ULFM over a stock MPI; and an MPI that has them keeps its own.
. "$(dirname "$0")/lib_mpi.sh"

job 6 ulfm
said "0 did
2 did
5 did"
echo "six processes, three killed"
job 3 crowd
said "0 heard
1 heard
2 heard"
echo "a revocation that there is no room for waits until there is"

# native COMPILER OPTIONS...: the header defines none of the names.
native() {
    printf '%s\n' '#include <coppice/mpix.h>' '#if !COP_MPIX_IS_NATIVE' '#error ours' '#endif' \
        '#ifdef MPIX_Comm_agree' '#error defined' '#endif' >"$scratch/native.c"
    "$@" -Wall -Wextra -Werror -I"$SOURCE/include" -fsyntax-only "$scratch/native.c" ||
        die "not its own names: $*"
}
if command -v mpicc.mpich >/dev/null; then
    native mpicc.mpich
fi
# As Open MPI 5 has them: in a header beside mpi.h.
mkdir "$scratch/include"
echo '#define OMPI_HAVE_MPI_EXT_FTMPI 1
int MPIX_Comm_agree(MPI_Comm comm, int *flag);' >"$scratch/include/mpi-ext.h"
native mpicc.openmpi -I"$scratch/include"
echo "an MPI that has them keeps its own"
