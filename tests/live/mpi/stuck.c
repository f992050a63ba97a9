/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process dies while MPI makes a communicator: stuck RANK before|after. Those who are stuck in MPI are
 * ended. With "before" RANK dies as it enters MPI, and all are stuck; with "after" as it
 * leaves, and nobody is.
 */
#include "case.h"

static const char *when;
static bool is_victim;

/* MPI's own, with a death in it. */
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out)
{
    if (is_victim && strcmp(when, "before") == 0)
        raise(SIGKILL);
    int error = PMPI_Comm_create_group(comm, group, tag, out);
    if (is_victim)
        raise(SIGKILL);
    return error;
}

int main(int argc, char **argv)
{
    MPI_Comm less;
    int me = begin(&argc, &argv), size, one = 1, sum;
    must(COP_Comm_attach(MPI_COMM_WORLD));
    is_victim = me == atoi(argv[1]);
    when = argv[2];
    must(COP_Comm_shrink(MPI_COMM_WORLD, &less));
    MPI_Comm_size(less, &size);
    must_mpi(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, less));
    printf("%d has %d of %d\n", me, sum, size);
    COP_Comm_exit(0);
}
