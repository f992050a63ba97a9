/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators without those who have failed. */
#include "mpi/make.h"

#include "mpi/stuck.h"

#include <stdlib.h>

/* If a member dies now MPI may wait for ever. One may have died since the agreement. */
static int create_group(MPI_Comm parent, MPI_Group group, const cop_id *members,
                        int count, uint64_t which, MPI_Comm *out)
{
    cop__stuck_enter(members, count);
    bool *failed = cop__job_failed();
    if (failed != NULL)
        cop__stuck_look(failed);
    free(failed);
    /* Who has been cut off since would not hear of it. */
    int error = MPI_ERR_OTHER;
    if (cop__job_check_in() == 0)
        error = MPI_Comm_create_group(parent, group, (int)(which & 0x3fff), out);
    cop__stuck_leave();
    return error;
}

/* All members call MPI, and nobody else. MPI_SUCCESS, too, if this is no member. */
static int create(const struct cop__making *making, const cop_id *members, int count,
                  uint64_t which, MPI_Comm *out)
{
    MPI_Group group;
    bool is_member = false;
    int *ids = calloc((size_t)count + 1, sizeof *ids);
    if (ids == NULL)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < count; i++) {
        ids[i] = (int)members[i];
        is_member |= members[i] == cop_self(cop__job.run);
    }
    *out = MPI_COMM_NULL;
    int error = MPI_Group_incl(cop__job.all, count, ids, &group);
    free(ids);
    if (error != MPI_SUCCESS)
        return error;
    if (is_member)
        error = create_group(making->parent, group, members, count, which, out);
    MPI_Group_free(&group);
    return error;
}

static bool has_failed(const bool *failed, const cop_id *members, int count)
{
    bool any = false;
    for (int i = 0; i < count; i++)
        any |= failed[members[i]];
    return any;
}

/* One attempt. `failed` is then as of its end. */
static int attempt(const struct cop__making *making, bool *failed, cop_id *members,
                   uint64_t *which, MPI_Comm *out, bool *is_good, uint64_t *counter)
{
    int count = 0;
    int error = making->choose(failed, members, &count, making->context);
    if (error)
        return error;
    int trouble = create(making, members, count, *which, out);
    /* The minimum: of what everybody says, all must be good; of the counters it is the largest. */
    uint64_t words[] = {trouble == MPI_SUCCESS, ~cop__job.counter};
    error = cop__mpi_agree(making->number, COP_AGREE_MIN, words, 2, failed, which);
    *is_good = error == 0 && words[0] == 1 && !has_failed(failed, members, count);
    *counter = ~words[1] + 1;
    if (!*is_good && *out != MPI_COMM_NULL)
        MPI_Comm_free(out);
    return error;
}

int cop__mpi_make(const struct cop__making *making, bool *failed, uint64_t which,
                  MPI_Comm *out, uint64_t *counter)
{
    bool is_good = false;
    int error = 0;
    cop_id *members = calloc((size_t)cop__job.size, sizeof *members);
    if (members == NULL)
        return cop__mpi_fail(COP_ENOMEM, "no memory");
    *out = MPI_COMM_NULL;
    while (error == 0 && !is_good)
        error = attempt(making, failed, members, &which, out, &is_good, counter);
    free(members);
    return error;
}

/* ---- shrinking ------------------------------------------------------------------- */

static int choose_living(const bool *failed, cop_id *members, int *count, void *context)
{
    const struct cop__attached *at = context;
    for (int i = 0; i < at->size; i++)
        if (!failed[at->ids[i]])
            members[(*count)++] = at->ids[i];
    return 0;
}

int COP_Comm_shrink(MPI_Comm comm, MPI_Comm *out)
{
    struct cop__attached *at = cop__mpi_find_with(comm, out);
    MPI_Comm made = MPI_COMM_NULL;
    uint64_t counter = 0, which = 0, word = 0;
    bool *failed = at ? calloc((size_t)cop__job.size, sizeof *failed) : NULL;
    if (failed == NULL)
        return at ? cop__mpi_fail(COP_ENOMEM, "no memory") : COP_EINVAL;
    const struct cop__making making = {
        .number = at->number, .parent = comm, .choose = choose_living, .context = at};
    int error = cop__mpi_agree(at->number, COP_AGREE_AND, &word, 1, failed, &which);
    if (error == 0)
        error = cop__mpi_make(&making, failed, which, &made, &counter);
    free(failed);
    if (error == 0)
        error = cop__mpi_add_comm(made, counter);
    if (error == 0)
        *out = made;
    return error;
}
