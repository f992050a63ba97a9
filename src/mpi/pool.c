/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spares: processes that wait until one that works has failed, and take its rank.
 *
 * All processes, those that work and those that wait, are in one group of agreements, and who
 * waits is always in the next of them. What it says there is nothing; those who work say, all
 * together, that they want to replace somebody, or that the work is over. So who has which
 * rank, and who waits, is the same at all of them.
 */
#include "mpi/make.h"

#include <stdlib.h>
#include <string.h>

/* What those who work want. */
#define REPLACE 1u
#define END 2u

#define pool cop__job.pool

void cop__pool_free(void)
{
    if (pool.number != 0)
        cop_agree_group_free(cop__job.run, pool.number);
    free(pool.places);
    free(pool.spares);
    memset(&pool, 0, sizeof pool);
}

/* ---- attaching ------------------------------------------------------------------- */

static int fill(int spares)
{
    pool.size = cop__job.size - spares;
    pool.spare_count = spares;
    pool.places = calloc((size_t)pool.size, sizeof *pool.places);
    pool.spares = calloc((size_t)spares + 1, sizeof *pool.spares);
    cop_id *all = calloc((size_t)cop__job.size, sizeof *all);
    if (pool.places == NULL || pool.spares == NULL || all == NULL) {
        free(all);
        return cop__mpi_fail(COP_ENOMEM, "no memory");
    }
    for (int i = 0; i < cop__job.size; i++) {
        all[i] = (cop_id)i;
        *(i < pool.size ? &pool.places[i] : &pool.spares[i - pool.size]) = (cop_id)i;
    }
    uint64_t number = cop__mpi_number(cop__job.counter, 0);
    int error = cop__mpi_make_group(number, all, cop__job.size);
    if (error == 0)
        pool.number = number;
    free(all);
    return error;
}

/* Those who work attach it. */
static int join_work(MPI_Comm work, uint64_t counter)
{
    if (work == MPI_COMM_NULL) {
        cop__job_set_counter(counter);
        return 0;
    }
    int error = cop__mpi_add_comm(work, counter);
    if (error == 0)
        pool.work = cop__job.list->number;
    return error;
}

/* While everybody lives. */
static int split(MPI_Comm comm, MPI_Comm *work)
{
    uint64_t counter;
    MPI_Comm made;
    bool is_spare = cop_self(cop__job.run) >= (cop_id)pool.size;
    int error = MPI_Comm_split(comm, is_spare ? MPI_UNDEFINED : 0,
                               (int)cop_self(cop__job.run), &made);
    if (error != MPI_SUCCESS)
        return cop__mpi_fail_with(error, "MPI_Comm_split");
    error = cop__mpi_next_counter(comm, &counter);
    if (error)
        return error;
    error = join_work(made, counter);
    if (error == 0)
        *work = made;
    return error;
}

int COP_Comm_attach_spares(MPI_Comm comm, int spares, MPI_Comm *work)
{
    int size = 0;
    cop__mpi_clear_error();
    if (cop__job.run != NULL)
        return cop__mpi_fail(
            COP_ESTATE, "spares belong to the first communicator that is attached");
    int error = cop__mpi_check_place(work);
    if (error == 0)
        error = cop__mpi_check_comm(comm);
    if (error)
        return error;
    MPI_Comm_size(comm, &size);
    if (spares < 0 || spares >= size)
        return cop__mpi_fail(COP_ERANGE, "%d spares of %d processes: one must work",
                             spares, size);
    error = COP_Comm_attach(comm);
    if (error)
        return error;
    cop__job_set_counter(cop__job.counter + 1);
    error = fill(spares);
    if (error == 0)
        error = split(comm, work);
    if (error) {
        while (cop__job.list != NULL)
            cop__mpi_remove(cop__job.list);
        cop__job_end();
    }
    return error;
}

/* ---- replacing ------------------------------------------------------------------- */

/* Takes the spares that have failed out. */
static void drop_spares(const bool *failed)
{
    int kept = 0;
    for (int i = 0; i < pool.spare_count; i++)
        if (!failed[pool.spares[i]])
            pool.spares[kept++] = pool.spares[i];
    pool.spare_count = kept;
}

/* Who has which rank once the failed ones are replaced, by the first spares that live. */
static int choose_replaced(const bool *failed, cop_id *members, int *count,
                           void *context)
{
    int taken = 0;
    (void)context;
    drop_spares(failed);
    for (int i = 0; i < pool.size; i++) {
        if (!failed[pool.places[i]]) {
            members[i] = pool.places[i];
            continue;
        }
        if (taken == pool.spare_count)
            return cop__mpi_fail(COP_ENOENT, "no spare is left for rank %d", i);
        members[i] = pool.spares[taken++];
    }
    *count = pool.size;
    return 0;
}

/* What was chosen, when everybody had it. */
static void settle(const bool *failed)
{
    int taken = 0;
    drop_spares(failed);
    for (int i = 0; i < pool.size; i++)
        if (failed[pool.places[i]])
            pool.places[i] = pool.spares[taken++];
    pool.spare_count -= taken;
    memmove(pool.spares, pool.spares + taken,
            (size_t)pool.spare_count * sizeof *pool.spares);
}

/* Everybody, those who work and those who wait, after they agreed to. */
static int replace(bool *failed, uint64_t which, MPI_Comm *out)
{
    const struct cop__making making = {
        .number = pool.number, .parent = cop__job.first, .choose = choose_replaced};
    uint64_t counter;
    int error = cop__mpi_make(&making, failed, which, out, &counter);
    if (error)
        return error;
    settle(failed);
    return join_work(*out, counter);
}

/* The next agreement of all: `*wanted` is what I want, and then what somebody does. */
static int agree_wanted(uint64_t *wanted, bool **failed, uint64_t *which)
{
    *failed = calloc((size_t)cop__job.size, sizeof **failed);
    if (*failed == NULL)
        return cop__mpi_fail(COP_ENOMEM, "no memory");
    int error = cop__mpi_agree(pool.number, COP_AGREE_OR, wanted, 1, *failed, which);
    if (error == 0 && ((*wanted & END) != 0 || *wanted == 0))
        pool.is_over = true;
    return error;
}

int COP_Comm_replace(MPI_Comm comm, MPI_Comm *out)
{
    const struct cop__attached *at = cop__mpi_find_with(comm, out);
    MPI_Comm made = MPI_COMM_NULL;
    uint64_t wanted = REPLACE, which = 0;
    bool *failed;
    if (at == NULL)
        return COP_EINVAL;
    if (pool.number == 0 || pool.is_over || at->number != pool.work)
        return cop__mpi_fail(COP_ESTATE, "there are no spares for this communicator: "
                                         "COP_Comm_attach_spares holds them back");
    if (cop__job.first == MPI_COMM_NULL)
        return cop__mpi_fail(COP_ESTATE, "the first communicator, out of which others "
                                         "are made, was given back to MPI");
    int error = agree_wanted(&wanted, &failed, &which);
    if (error == 0 && pool.is_over)
        error = cop__mpi_fail(COP_ESTATE, "somebody else has ended the work");
    if (error == 0)
        error = replace(failed, which, &made);
    free(failed);
    if (error == 0)
        *out = made;
    return error;
}

/* ---- waiting --------------------------------------------------------------------- */

static bool is_waiting(void)
{
    bool found = false;
    for (int i = 0; i < pool.spare_count; i++)
        found |= pool.spares[i] == cop_self(cop__job.run);
    return found && !pool.is_over;
}

/* One change of the pool; `work` stays MPI_COMM_NULL if this process goes on waiting. */
static int wait_once(MPI_Comm *work)
{
    uint64_t wanted = 0, which = 0;
    bool *failed;
    int error = agree_wanted(&wanted, &failed, &which);
    if (error == 0 && wanted == 0)
        error = cop__mpi_fail(COP_ELOST, "everybody who worked has failed");
    if (error == 0 && !pool.is_over)
        error = replace(failed, which, work);
    free(failed);
    return error == COP_ENOENT ? 0 : error;
}

int COP_Comm_spare_wait(MPI_Comm *work, int *rank)
{
    MPI_Comm made = MPI_COMM_NULL;
    int error = cop__mpi_check_place(work);
    if (error == 0)
        error = cop__mpi_check_place(rank);
    if (error)
        return error;
    if (cop__job.run == NULL || !is_waiting())
        return cop__mpi_fail(COP_ESTATE, "this process is not a spare that waits");
    while (error == 0 && made == MPI_COMM_NULL && !pool.is_over)
        error = wait_once(&made);
    if (error)
        return error;
    *work = made;
    *rank = MPI_UNDEFINED;
    if (made != MPI_COMM_NULL)
        MPI_Comm_rank(made, rank);
    return 0;
}

int cop__pool_end(void)
{
    uint64_t wanted = END, which;
    bool *failed;
    if (pool.number == 0 || pool.is_over)
        return 0;
    int error = agree_wanted(&wanted, &failed, &which);
    free(failed);
    return error;
}
