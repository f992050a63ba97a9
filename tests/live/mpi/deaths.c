/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold when processes are killed, with eight of them, one thing after the other. Who
 * is killed: 2 before an agreement, 5 and 6 in the middle of some, 7 at a moment that is drawn;
 * then one after the other, until one is left.
 */
#include "case.h"

#include <pthread.h>
#include <time.h>

#define CALLS 40

static void *kill_later(void *delay)
{
    const struct timespec time = {.tv_nsec = *(const long *)delay};
    nanosleep(&time, NULL);
    raise(SIGKILL);
    return NULL;
}

/* This process dies about then, whatever it does. */
static void die_after(long delay_ns)
{
    static long delay;
    pthread_t thread;
    delay = delay_ns;
    require(pthread_create(&thread, NULL, kill_later, &delay) == 0);
}

static unsigned failed_now(MPI_Comm comm)
{
    MPI_Group group;
    must(COP_Comm_validate(comm, &group));
    return bits(group);
}

static unsigned failed_agreed(MPI_Comm comm)
{
    MPI_Group group;
    must(COP_Comm_validate_all(comm, &group));
    return bits(group);
}

/* Somebody computes, for much longer than it takes to find a death, and says nothing. */
static void compute_silently(int me)
{
    volatile double x = 1;
    for (long i = 0; me == 3 && i < 60 * 1000 * 1000; i++)
        x = x * 1.0000001;
    require(failed_agreed(MPI_COMM_WORLD) == 0);
}

/* Collectives, and requests that are waited for, in the half in which nobody dies. */
static void stay_undisturbed(MPI_Comm half, int me)
{
    int sum;
    MPI_Request request;
    for (int i = 0; i < 50; i++) {
        must_mpi(MPI_Iallreduce(&me, &sum, 1, MPI_INT, MPI_SUM, half, &request));
        must(COP_Comm_waitall(half, 1, &request));
        require(sum == 4 + 5 + 6 + 7);
    }
    require(failed_agreed(half) == 0);
    must(COP_Comm_failure_ack(half));
    MPI_Group acked;
    must(COP_Comm_failure_get_acked(half, &acked));
    require(bits(acked) == 0);
}

/* Once it says that there is more to come: then that comes between it and the news of a death. */
static bool is_too_early;
int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    if (!is_too_early)
        return PMPI_Testall(count, requests, flag, statuses);
    is_too_early = false;
    *flag = 0;
    return MPI_SUCCESS;
}

/* What is all complete is no failure, also if somebody has died whom nobody acknowledged. */
static void complete_late(MPI_Comm half, int me)
{
    static int mine = 1, got;
    MPI_Request request;
    must_mpi(MPI_Irecv(&got, 1, MPI_INT, me, 1, half, &request));
    must_mpi(MPI_Send(&mine, 1, MPI_INT, me, 1, half));
    is_too_early = true;
    must(COP_Comm_waitall(half, 1, &request));
    require(!is_too_early && request == MPI_REQUEST_NULL && got == mine);
}

/* Requests that somebody who is dead would have to answer end, and say why; those that are complete
 * are over. */
static void end_waiting(MPI_Comm half, int me)
{
    static int unused, mine, got;
    MPI_Request both[2], request;
    mine = 7 + me;
    must_mpi(MPI_Irecv(&got, 1, MPI_INT, me, 1, half, &both[0]));
    must_mpi(MPI_Irecv(&unused, 1, MPI_INT, 2, 0, half, &both[1]));
    must_mpi(MPI_Send(&mine, 1, MPI_INT, me, 1, half));
    require(COP_Comm_waitall(half, 2, both) == COP_ELOST);
    require(both[0] == MPI_REQUEST_NULL && got == mine);
    require(both[1] != MPI_REQUEST_NULL);
    request = both[1];
    complete_late(half, me);
    must(COP_Comm_failure_ack(half));
    /* The others have found out, too. */
    require(failed_agreed(half) == 1 << 2);
    must(COP_Comm_revoke(half));
    require(COP_Comm_waitall(half, 1, &request) == COP_EABORTED);
    must_mpi(MPI_Cancel(&request));
    must_mpi(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void lose_in_one_half(int me)
{
    MPI_Comm half;
    must_mpi(MPI_Comm_split(MPI_COMM_WORLD, me / 4, me, &half));
    must(COP_Comm_attach(half));
    if (me == 2)
        raise(SIGKILL);
    if (me < 4) {
        require(failed_agreed(half) == 1 << 2);
        end_waiting(half, me);
    } else {
        stay_undisturbed(half, me);
    }
    require(failed_agreed(MPI_COMM_WORLD) == 1 << 2);
    must(COP_Comm_free(&half));
}

/* 5 has voted, or is about to, and dies before the last vote is cast. */
static void lose_voter(int me)
{
    if (me == 5)
        die_after(1000 * 1000);
    while (me == 0 && failed_now(MPI_COMM_WORLD) != (1 << 2 | 1 << 5))
        continue;
    require(failed_agreed(MPI_COMM_WORLD) == (1 << 2 | 1 << 5));
}

/* Agreements one after the other; two die among them. All who are left have the same lists. */
static void lose_in_the_middle(int me)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    char log[CALLS * 4 + 1] = "";
    for (int i = 0; i < CALLS; i++) {
        if ((me == 6 && i == 5) || (me == 7 && i == 20))
            die_after(now.tv_nsec % 5000 * 1000);
        unsigned failed = failed_agreed(MPI_COMM_WORLD);
        snprintf(log + strlen(log), sizeof log - strlen(log), " %02x", failed);
    }
    if (me >= 6)
        raise(SIGKILL);
    require(failed_agreed(MPI_COMM_WORLD) == 0xe4);
    printf("lists:%s\n", log);
}

static void run_down(int me)
{
    MPI_Comm comm, less;
    int size, rank, flag = 1 << me;
    must(COP_Comm_shrink(MPI_COMM_WORLD, &comm));
    for (;;) {
        MPI_Comm_size(comm, &size);
        MPI_Comm_rank(comm, &rank);
        printf("%d left\n", size);
        if (size == 1)
            break;
        if (rank == size / 2)
            raise(SIGKILL);
        must(COP_Comm_shrink(comm, &less));
        must(COP_Comm_free(&comm));
        comm = less;
    }
    must(COP_Comm_agree(comm, &flag));
    require(flag == 1 << me);
    require(failed_agreed(MPI_COMM_WORLD) == (0xffu & ~(1u << me)));
    printf("the last is %d\n", me);
}

int main(int argc, char **argv)
{
    int me = begin(&argc, &argv);
    must(COP_Comm_attach(MPI_COMM_WORLD));
    raise(SIGPIPE); /* as MPI may get it, when it writes to one that has died */
    compute_silently(me);
    lose_in_one_half(me);
    lose_voter(me);
    lose_in_the_middle(me);
    run_down(me);
    COP_Comm_exit(0);
}
