/* SPDX-License-Identifier: Apache-2.0 */
/* What is attached, its members and its number; and how a program ends. */
#include "mpi/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * In front of the counter is the least id, so that two groups without a member in common, whose
 * counters may be the same, have different numbers, too. Numbers that follow each other are cheap
 * to remember when their groups are over, so the counter is in the last place.
 */
#define COUNTER_BITS 40

uint64_t cop__mpi_number(uint64_t counter, cop_id least)
{
    return (uint64_t)least << COUNTER_BITS | counter;
}

uint64_t cop__mpi_counter_of(uint64_t number)
{
    return number & ((UINT64_C(1) << COUNTER_BITS) - 1);
}

struct cop__attached *cop__mpi_find(MPI_Comm comm)
{
    struct cop__attached *at = cop__job.list;
    while (at != NULL && (comm == MPI_COMM_NULL || at->comm != comm))
        at = at->next;
    if (at == NULL)
        cop__mpi_fail(COP_EINVAL, "this communicator is not attached");
    return at;
}

int cop__mpi_check_place(const void *place)
{
    return place ? 0 : cop__mpi_fail(COP_EINVAL, "an argument is NULL");
}

struct cop__attached *cop__mpi_find_with(MPI_Comm comm, const void *place)
{
    return cop__mpi_check_place(place) == 0 ? cop__mpi_find(comm) : NULL;
}

/* ---- members --------------------------------------------------------------------- */

static int compare_lives(const void *a, const void *b)
{
    const struct cop_life *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

int cop__mpi_make_group(uint64_t number, const cop_id *ids, int size)
{
    struct cop_view *view = cop_view_current(cop__job.run);
    struct cop_life *lives = calloc((size_t)size, sizeof *lives);
    struct cop_member member;
    int error = view && lives ? 0 : COP_ESTATE;
    for (int i = 0; error == 0 && i < size; i++) {
        error = cop_view_member(view, ids[i], &member);
        lives[i] = (struct cop_life){ids[i], member.incarnation};
    }
    if (error == 0) {
        qsort(lives, (size_t)size, sizeof *lives, compare_lives);
        const struct cop_agree_group group = {
            .number = number, .members = lives, .count = (uint32_t)size};
        error = cop_agree_group_create(cop__job.run, NULL, &group);
    }
    free(lives);
    cop_view_unref(view);
    return error ? cop__mpi_fail_with(error, "no agreements for these processes") : 0;
}

/* The ids of a group of MPI, by rank. */
static int list_ids(MPI_Group group, int size, cop_id *ids)
{
    int *ranks = calloc((size_t)size, 2 * sizeof *ranks), error = 0;
    if (ranks == NULL)
        return cop__mpi_fail(COP_ENOMEM, "no memory");
    int *found = ranks + size;
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(group, size, ranks, cop__job.all, found);
    for (int i = 0; i < size; i++) {
        if (found[i] == MPI_UNDEFINED)
            error = cop__mpi_fail(COP_EINVAL,
                                  "rank %d is not in the first communicator", i);
        ids[i] = (cop_id)found[i];
    }
    free(ranks);
    return error;
}

static void forget(struct cop__attached *at)
{
    free(at->ids);
    free(at->acked);
    free(at);
}

/* From now on revocations find it; the one that came before this may be of it. */
static void publish(struct cop__attached *at, uint64_t counter)
{
    struct cop__letter *letters = NULL;
    size_t kept = 0;
    pthread_mutex_lock(&cop__job.mutex);
    at->next = cop__job.list;
    cop__job.list = at;
    cop__job.counter = counter;
    for (size_t i = 0; i < cop__job.early_count; i++) {
        const struct cop__hearsay early = cop__job.early[i];
        if (early.number == at->number) {
            at->is_revoked = true;
            at->teller = early.teller;
        } else if (cop__mpi_counter_of(early.number) > counter) {
            cop__job.early[kept++] = early;
        }
    }
    cop__job.early_count = kept;
    if (at->is_revoked && cop__job.failed[at->teller])
        letters = cop__job_write(at, NULL);
    pthread_mutex_unlock(&cop__job.mutex);
    cop__job_send(letters);
}

int cop__mpi_add(const struct cop__attached *like, MPI_Group group, uint64_t counter)
{
    struct cop__attached *at = calloc(1, sizeof *at);
    cop_id least = COP_ID_NONE;
    if (at == NULL)
        return cop__mpi_fail(COP_ENOMEM, "no memory");
    *at = *like;
    MPI_Group_size(group, &at->size);
    at->ids = calloc((size_t)at->size, sizeof *at->ids);
    at->acked = calloc((size_t)at->size, sizeof *at->acked);
    int error = COP_ENOMEM;
    if (at->ids && at->acked)
        error = list_ids(group, at->size, at->ids);
    else
        cop__mpi_fail(COP_ENOMEM, "no memory");
    for (int i = 0; error == 0 && i < at->size; i++)
        least = at->ids[i] < least ? at->ids[i] : least;
    at->number = cop__mpi_number(counter, least);
    if (error == 0)
        error = cop__mpi_make_group(at->number, at->ids, at->size);
    if (error) {
        forget(at);
        return error;
    }
    publish(at, counter);
    error = cop__mpi_watch(at);
    if (error)
        cop__mpi_remove(at);
    return error;
}

int cop__mpi_add_comm(MPI_Comm comm, uint64_t counter)
{
    const struct cop__attached like = {
        .comm = comm, .win = MPI_WIN_NULL, .file = MPI_FILE_NULL};
    MPI_Group group;
    int error = MPI_Comm_group(comm, &group);
    if (error != MPI_SUCCESS)
        return cop__mpi_fail_with(error, "MPI_Comm_group");
    error = cop__mpi_add(&like, group, counter);
    MPI_Group_free(&group);
    if (error == 0)
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return error;
}

void cop__mpi_remove(struct cop__attached *at)
{
    cop__mpi_unwatch(at);
    pthread_mutex_lock(&cop__job.mutex);
    struct cop__attached **link = &cop__job.list;
    while (*link != at)
        link = &(*link)->next;
    *link = at->next;
    pthread_mutex_unlock(&cop__job.mutex);
    cop_agree_group_free(cop__job.run, at->number);
    forget(at);
}

/* ---- attaching ------------------------------------------------------------------- */

int cop__mpi_next_counter(MPI_Comm comm, uint64_t *out)
{
    int error = MPI_Allreduce(&cop__job.counter, out, 1, MPI_UINT64_T, MPI_MAX, comm);
    if (error != MPI_SUCCESS)
        return cop__mpi_fail_with(error, "MPI_Allreduce");
    ++*out;
    return 0;
}

/* Open MPI writes to its sockets with writev, and so gets SIGPIPE where the other end has died just
 * before: a survivor would die of it. Who handles the signal, or ignores it, goes on to do so. */
static void mind_pipe(void)
{
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

bool cop__mpi_is_running(void)
{
    int begun = 0, over = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    return begun && !over;
}

int cop__mpi_check_comm(MPI_Comm comm)
{
    int is_inter = 0;
    if (!cop__mpi_is_running())
        return cop__mpi_fail(COP_ESTATE, "MPI was not initialized, or is finalized");
    if (comm == MPI_COMM_NULL)
        return cop__mpi_fail(COP_EINVAL, "no communicator");
    int error = MPI_Comm_test_inter(comm, &is_inter);
    if (error != MPI_SUCCESS)
        return cop__mpi_fail_with(error, "MPI_Comm_test_inter");
    return is_inter
               ? cop__mpi_fail(COP_EINVAL,
                               "an intercommunicator cannot be attached: it has "
                               "two groups (MPI_Intercomm_merge makes one of them)")
               : 0;
}

int COP_Comm_attach(MPI_Comm comm)
{
    uint64_t counter;
    cop__mpi_clear_error();
    int error = cop__mpi_check_comm(comm);
    if (error)
        return error;
    for (const struct cop__attached *at = cop__job.list; at; at = at->next)
        if (at->comm == comm)
            return cop__mpi_fail(COP_EEXIST, "this communicator is attached already");
    error = cop__job.run == NULL ? cop__job_begin(comm) : 0;
    if (error)
        return error;
    mind_pipe();
    error = cop__mpi_next_counter(comm, &counter);
    if (error == 0)
        error = cop__mpi_add_comm(comm, counter);
    if (error && cop__job.list == NULL)
        cop__job_end();
    return error;
}

int COP_Comm_detach(MPI_Comm comm)
{
    struct cop__attached *at = cop__mpi_find(comm);
    int error = 0;
    if (at == NULL)
        return COP_EINVAL;
    if (at->next == NULL && cop__job.list != at)
        return cop__mpi_fail(COP_ESTATE, "the first communicator is detached last");
    if (at->next == NULL)
        error = cop__pool_end();
    cop__mpi_remove(at);
    if (cop__job.list == NULL)
        cop__job_end();
    return error;
}

int COP_Comm_free(MPI_Comm *comm)
{
    int error = cop__mpi_check_place(comm);
    if (error == 0)
        error = COP_Comm_detach(*comm);
    if (error)
        return error;
    error = MPI_Comm_free(comm);
    return error == MPI_SUCCESS ? 0 : cop__mpi_fail_with(error, "MPI_Comm_free");
}

/* ---- the end --------------------------------------------------------------------- */

/* Whether all who live agree that all live. */
static bool is_whole(void)
{
    const struct cop__attached *first = cop__job.list;
    MPI_Group failed = MPI_GROUP_EMPTY;
    int count = 1;
    while (first != NULL && first->next != NULL)
        first = first->next;
    if (first == NULL)
        return true;
    if (cop__mpi_validate_all(first, &failed) == 0)
        MPI_Group_size(failed, &count);
    if (failed != MPI_GROUP_EMPTY)
        MPI_Group_free(&failed);
    return count == 0;
}

void COP_Comm_exit(int status)
{
    cop__pool_end();
    bool whole = !cop__mpi_is_running() || is_whole();
    while (cop__job.list != NULL)
        cop__mpi_remove(cop__job.list);
    if (cop__job.run != NULL)
        cop__job_end();
    if (whole) {
        if (cop__mpi_is_running())
            MPI_Finalize();
        exit(status);
    }
    fflush(NULL);
    _exit(status);
}
