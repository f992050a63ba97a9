/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spares take over. replace SPARES STEP...: in each step the processes that it names (ranks of
 * MPI_COMM_WORLD, with commas) kill themselves, and the others replace those who worked. Who has
 * which rank then is printed, as are refusals, after which the rest shrinks and ends.
 */
#include "case.h"

static bool is_named(const char *step, int me)
{
    for (const char *at = step ? step : ""; *at != '\0';
         at += strcspn(at, ","), at += *at == ',')
        if (atoi(at) == me)
            return true;
    return false;
}

static void show(MPI_Comm work, int me, int step)
{
    int rank, size, sum = 0;
    MPI_Comm_rank(work, &rank);
    MPI_Comm_size(work, &size);
    must_mpi(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, work));
    printf("step %d: rank %d of %d is %d, sum %d\n", step, rank, size, me, sum);
}

/* The ranks go on as they are, without those for whom there is no spare. */
static void give_up(MPI_Comm work, int me, int step)
{
    MPI_Comm less;
    printf("step %d: %s\n", step, COP_Comm_error());
    must(COP_Comm_shrink(work, &less));
    show(less, me, step);
    must(COP_Comm_free(&less));
    COP_Comm_exit(0);
}

/* From whoever knows how far we are. */
static int agree_step(MPI_Comm work, int step)
{
    uint64_t word = (uint64_t)step;
    must(COP_Comm_agree_words(work, &word, 1, MPI_MAX));
    return (int)word;
}

static void do_step(MPI_Comm *work, int me, int step, const char *names)
{
    MPI_Comm old = *work;
    if (is_named(names, me))
        raise(SIGKILL);
    int error = COP_Comm_replace(old, work);
    if (error == COP_ENOENT)
        give_up(old, me, step);
    must(error);
    must(COP_Comm_free(&old));
}

/* A spare that waits until it is needed; it dies first if the first step names it. */
static void be_spare(MPI_Comm *work, int me, const char *names)
{
    int rank;
    if (is_named(names, me))
        raise(SIGKILL);
    must(COP_Comm_spare_wait(work, &rank));
    if (*work != MPI_COMM_NULL) {
        printf("%d took rank %d\n", me, rank);
        return;
    }
    printf("%d was never needed\n", me);
    COP_Comm_exit(0);
}

int main(int argc, char **argv)
{
    MPI_Comm work;
    int me = begin(&argc, &argv);
    must(COP_Comm_attach_spares(MPI_COMM_WORLD, atoi(argv[1]), &work));
    if (work == MPI_COMM_NULL)
        be_spare(&work, me, argv[2]);
    for (int step = agree_step(work, 0);; step = agree_step(work, step + 1)) {
        show(work, me, step);
        if (argv[2 + step] == NULL)
            COP_Comm_exit(0);
        do_step(&work, me, step, argv[2 + step]);
    }
}
