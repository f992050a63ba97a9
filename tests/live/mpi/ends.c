/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ends FILE HOW: until FILE is there, and once more, nobody has failed; then everybody ends with a
 * status of its own, by COP_Comm_exit. HOW is `lose`: before that, rank 1 is killed; `detach`: by
 * detaching, and MPI_Finalize.
 */
#include "case.h"

static void watch(const char *path)
{
    MPI_Group failed;
    int is_open = 1;
    while (is_open) {
        is_open = access(path, F_OK) != 0;
        must(COP_Comm_agree(MPI_COMM_WORLD, &is_open));
    }
    must(COP_Comm_validate_all(MPI_COMM_WORLD, &failed));
    require(bits(failed) == 0);
}

/* The first one goes last; what is detached is unknown. */
static void detach(void)
{
    MPI_Comm comm;
    MPI_Group failed;
    must_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    must(COP_Comm_attach(comm));
    require(COP_Comm_detach(MPI_COMM_WORLD) == COP_ESTATE);
    must(COP_Comm_detach(comm));
    require(COP_Comm_validate(comm, &failed) == COP_EINVAL);
    must_mpi(MPI_Comm_free(&comm));
    must(COP_Comm_detach(MPI_COMM_WORLD));
    must_mpi(MPI_Finalize());
}

int main(int argc, char **argv)
{
    int me = begin(&argc, &argv);
    must(COP_Comm_attach(MPI_COMM_WORLD));
    require(argc == 3);
    watch(argv[1]);
    if (strcmp(argv[2], "detach") == 0) {
        detach();
        return 10 + me;
    }
    if (strcmp(argv[2], "lose") == 0 && me == 1)
        raise(SIGKILL);
    COP_Comm_exit(10 + me);
}
