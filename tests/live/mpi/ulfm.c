/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of ULFM, with six processes of which three die: an agreement says that somebody has
 * failed until all have acknowledged it; who is acknowledged is exact, and grows by
 * acknowledging alone; what was revoked is so for all, and can be shrunk.
 */
#include "case.h"

#include <coppice/mpix.h>

#if COP_MPIX_IS_NATIVE
#error this MPI has names of its own
#endif

/* How often the error handler was called, and with what last. */
static int calls, last;

static void count_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    calls++;
    last = *code;
}

/* The acknowledged ranks, as bits. */
static unsigned acked(MPI_Comm comm)
{
    MPI_Group group, all;
    int size, rank;
    unsigned bits = 0;
    must_mpi(MPIX_Comm_failure_get_acked(comm, &group));
    MPI_Comm_group(comm, &all);
    MPI_Group_size(group, &size);
    for (int i = 0; i < size; i++) {
        MPI_Group_translate_ranks(group, 1, &i, all, &rank);
        bits |= 1u << rank;
    }
    MPI_Group_free(&all);
    if (group != MPI_GROUP_EMPTY)
        MPI_Group_free(&group);
    return bits;
}

/* An agreement with all bits but that of my rank; it must end so, with these bits less. */
static void agree(MPI_Comm comm, int me, int wanted, int lacking)
{
    int flag = ~(1 << me), error = MPIX_Comm_agree(comm, &flag);
    require(error == wanted);
    require(flag == ~lacking);
}

/* Whoever dies in the middle of it is not in the flag. */
static void lose(MPI_Comm comm, int me, int victim)
{
    if (me == victim)
        raise(SIGKILL);
    must(COP_Comm_validate_all(comm, NULL));
}

static void acknowledge(MPI_Comm comm, int me)
{
    lose(comm, me, 3);
    require(acked(comm) == 0);
    agree(comm, me, MPIX_ERR_PROC_FAILED, 067);
    require(calls == 1 && last == MPIX_ERR_PROC_FAILED);
    if (me == 0)
        must_mpi(MPIX_Comm_failure_ack(comm));
    require(acked(comm) == (me == 0 ? 010 : 0));
    agree(comm, me, MPIX_ERR_PROC_FAILED, 067);
    must_mpi(MPIX_Comm_failure_ack(comm));
    agree(comm, me, MPI_SUCCESS, 067);
    require(acked(comm) == 010);
    lose(comm, me, 4);
    require(acked(comm) == 010);
    agree(comm, me, MPIX_ERR_PROC_FAILED, 047);
    require(calls == 3);
}

static bool is_revoked(MPI_Comm comm)
{
    int flag;
    must_mpi(MPIX_Comm_is_revoked(comm, &flag));
    return flag;
}

/* 1 revokes and dies: nobody has heard of it, or all will. */
static void revoke_and_die(MPI_Comm comm, int me)
{
    if (me == 1) {
        must_mpi(MPIX_Comm_revoke(comm));
        raise(SIGKILL);
    }
    must(COP_Comm_validate_all(comm, NULL));
    uint64_t heard = is_revoked(comm);
    must(COP_Comm_agree_words(comm, &heard, 1, MPI_MAX));
    if (!heard && me == 0)
        must_mpi(MPIX_Comm_revoke(comm));
    while (!is_revoked(comm))
        continue;
}

static void give_up(MPI_Comm comm, int me)
{
    MPI_Comm less;
    int size;
    revoke_and_die(comm, me);
    require(MPIX_Comm_failure_ack(comm) == MPIX_ERR_REVOKED && calls == 4);
    require(acked(comm) == 010);
    must_mpi(MPIX_Comm_shrink(comm, &less));
    MPI_Comm_size(less, &size);
    require(!is_revoked(less) && size == 3 && acked(less) == 0);
    agree(less, 0, MPI_SUCCESS, 1);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    int me = begin(&argc, &argv);
    must(COP_Comm_attach(MPI_COMM_WORLD));
    MPI_Comm_create_errhandler(count_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    require(MPIX_ERR_PROC_FAILED != MPIX_ERR_REVOKED);
    agree(MPI_COMM_WORLD, me, MPI_SUCCESS, 077);
    acknowledge(MPI_COMM_WORLD, me);
    give_up(MPI_COMM_WORLD, me);
    printf("%d did\n", me);
    COP_Comm_exit(0);
}
