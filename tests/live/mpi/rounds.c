/* SPDX-License-Identifier: Apache-2.0 */
/* Revoking and shrinking, a hundred times, without using anything up. */
#include "case.h"

#include <dirent.h>
#include <malloc.h>

/*
 * Communicators have the next free handle of Fortran; memory is what malloc has given out, which
 * comes and goes with what is under way, as descriptors do, so the least of ten rounds counts.
 */
struct use {
    long handles, bytes, descriptors;
};
#define SAMPLES 10
/* A group of agreements that is not given back is 800 bytes; buffers may grow once. */
#define SLACK (32 * 1024)
/* Connections are made when they are needed; one for each round would be eighty. */
#define SLACK_DESCRIPTORS 16

static long count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    long count = 0;
    require(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static long least(long known, long now)
{
    return known == 0 || now < known ? now : known;
}

static void measure(struct use *use, MPI_Comm comm)
{
    long handles = MPI_Comm_c2f(comm), bytes = (long)mallinfo2().uordblks;
    use->handles = handles > use->handles ? handles : use->handles;
    use->bytes = least(use->bytes, bytes);
    use->descriptors = least(use->descriptors, count_descriptors());
}

static void do_round(MPI_Comm *comm, int round)
{
    MPI_Comm less;
    int size, rank, flag = 0;
    MPI_Comm_size(*comm, &size);
    MPI_Comm_rank(*comm, &rank);
    if (rank == round % size)
        must(COP_Comm_revoke(*comm));
    while (!flag)
        must(COP_Comm_is_revoked(*comm, &flag));
    must(COP_Comm_shrink(*comm, &less));
    if (*comm != MPI_COMM_WORLD)
        must(COP_Comm_free(comm));
    *comm = less;
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    struct use early = {0}, late = {0};
    int me = begin(&argc, &argv), rounds = argc > 1 ? atoi(argv[1]) : 100;
    must(COP_Comm_attach(comm));
    for (int round = 0; round < rounds; round++) {
        /* Also of those that somebody in them is dead. */
        if (me == 1 && round == 3)
            raise(SIGKILL);
        do_round(&comm, round);
        if (round >= SAMPLES && round < 2 * SAMPLES)
            measure(&early, comm);
        if (round >= rounds - SAMPLES)
            measure(&late, comm);
    }
    fprintf(
        stderr,
        "%d: handle %ld, then %ld; %ld bytes, then %ld; %ld descriptors, then %ld\n",
        me, early.handles, late.handles, early.bytes, late.bytes, early.descriptors,
        late.descriptors);
    require(late.handles <= early.handles);
    require(late.bytes - early.bytes < SLACK);
    require(late.descriptors - early.descriptors < SLACK_DESCRIPTORS);
    printf("%d did\n", me);
    COP_Comm_exit(0);
}
