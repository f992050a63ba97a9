/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 1 lives, and the others hold it to be dead: to them its run has crashed. out HOW.
 *   wait  it waits for a request, and for a revocation
 *   make  it waits in MPI, which makes a communicator, and rank 2 dies there: nobody tells it
 */
#include "case.h"

#include <coppice/coppice.h>
#include <dlfcn.h>
#include <sched.h>

typedef int starter(const struct cop_settings *, struct cop_run **, char *, size_t);

static int me;
static struct cop_run **run;

/* The library's own; where its run is. */
int cop_start_thread(const struct cop_settings *settings, struct cop_run **out,
                     char *why, size_t size)
{
    starter *real;
    void *found = dlsym(RTLD_NEXT, "cop_start_thread");
    memcpy(&real, &found, sizeof real);
    run = out;
    return real(settings, out, why, size);
}

/* MPI's own, with a death in it, of which rank 1 hears no more. */
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out)
{
    int word = 0;
    if (me == 1) {
        must(cop_stop(*run));
        while (cop_state(*run) != COP_RUN_OVER)
            sched_yield();
        must_mpi(MPI_Send(&word, 1, MPI_INT, 2, 0, MPI_COMM_WORLD));
    }
    if (me == 2) {
        must_mpi(MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        raise(SIGKILL);
    }
    return PMPI_Comm_create_group(comm, group, tag, out);
}

static void wait_alone(void)
{
    static int unused;
    MPI_Request request;
    int flag = 0;
    must(cop_stop(*run));
    must_mpi(MPI_Irecv(&unused, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
    require(COP_Comm_waitall(MPI_COMM_WORLD, 1, &request) == COP_ESTATE);
    require(COP_Comm_is_revoked(MPI_COMM_WORLD, &flag) == COP_ESTATE);
    must(COP_Comm_revoke(MPI_COMM_WORLD));
    must(COP_Comm_is_revoked(MPI_COMM_WORLD, &flag));
    require(flag == 1);
    require(COP_Comm_agree(MPI_COMM_WORLD, &flag) == COP_ESTATE);
}

int main(int argc, char **argv)
{
    MPI_Group failed;
    MPI_Comm less;
    me = begin(&argc, &argv);
    must(COP_Comm_attach(MPI_COMM_WORLD));
    if (strcmp(argv[1], "make") == 0) {
        must(COP_Comm_shrink(MPI_COMM_WORLD, &less));
    } else if (me == 1) {
        wait_alone();
    } else {
        must(COP_Comm_validate_all(MPI_COMM_WORLD, &failed));
        require(bits(failed) == 1 << 1);
    }
    printf("%d ends\n", me);
    COP_Comm_exit(0);
}
