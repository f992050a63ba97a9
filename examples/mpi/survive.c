/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An MPI program that loses processes and goes on: each round it sums up ranks with MPI; the
 * VICTIM of a round kills itself before it. Those who are left agree that the round was not
 * complete, shrink the communicator, and do the round again.
 *
 *   mpirun --enable-recovery --mca pml ob1 --mca btl tcp,self -n 8 survive [VICTIM...]
 */
#include <coppice/mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int error)
{
    if (error == 0)
        return;
    fprintf(stderr, "survive: %s\n", COP_Comm_error());
    _Exit(1);
}

/* Waits until it is known here that `rank` is gone: MPI would wait for it for ever. */
static void await_failure(MPI_Comm comm, int rank)
{
    MPI_Group failed, all;
    int place = MPI_UNDEFINED;
    MPI_Comm_group(comm, &all);
    while (place == MPI_UNDEFINED) {
        check(COP_Comm_validate(comm, &failed));
        MPI_Group_translate_ranks(all, 1, &rank, failed, &place);
        if (failed != MPI_GROUP_EMPTY)
            MPI_Group_free(&failed);
    }
    MPI_Group_free(&all);
}

/* The sum of what the ranks of MPI_COMM_WORLD are, over those who are left. */
static void do_round(MPI_Comm *comm, int me, int victim)
{
    int left, sum = 0, size, flag = 1;
    if (victim == me)
        raise(SIGKILL);
    MPI_Comm_size(*comm, &size);
    if (victim >= 0) {
        MPI_Group world, mine;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Comm_group(*comm, &mine);
        MPI_Group_translate_ranks(world, 1, &victim, mine, &left);
        MPI_Group_free(&world);
        MPI_Group_free(&mine);
        await_failure(*comm, left);
        check(COP_Comm_revoke(*comm));
        flag = 0;
    }
    check(COP_Comm_agree(*comm, &flag));
    if (!flag) {
        MPI_Comm old = *comm;
        check(COP_Comm_shrink(old, comm));
        if (old != MPI_COMM_WORLD)
            check(COP_Comm_detach(old));
    }
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, *comm);
    MPI_Comm_size(*comm, &left);
    printf("survive: %d: %d left, sum %d\n", me, left, sum);
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Group failed;
    int me, count = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    check(COP_Comm_attach(MPI_COMM_WORLD));
    do_round(&comm, me, -1);
    for (int i = 1; i < argc; i++)
        do_round(&comm, me, atoi(argv[i]));
    check(COP_Comm_validate_all(MPI_COMM_WORLD, &failed));
    MPI_Group_size(failed, &count);
    if (failed != MPI_GROUP_EMPTY)
        MPI_Group_free(&failed);
    printf("survive: %d: %d failed\n", me, count);
    COP_Comm_exit(0);
}
