/* SPDX-License-Identifier: Apache-2.0 */
/* Attaches, and says why it cannot; also with spares. MPI itself is as good as before. */
#include "case.h"

int main(int argc, char **argv)
{
    MPI_Comm work = MPI_COMM_NULL;
    int sum, one = 1, size;
    begin(&argc, &argv);
    require(COP_Comm_attach(MPI_COMM_WORLD) == COP_EREFUSED);
    require(COP_Comm_attach_spares(MPI_COMM_WORLD, 0, &work) == COP_EREFUSED);
    require(work == MPI_COMM_NULL);
    printf("refused: %s\n", COP_Comm_error());
    require(COP_Comm_agree(MPI_COMM_WORLD, &one) == COP_EINVAL);
    require(COP_Comm_spare_wait(&work, &one) == COP_ESTATE);
    must_mpi(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    require(sum == size);
    MPI_Finalize();
    return 3;
}
