/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bag of tasks: rank 0 hands them out, the others do them. The task of one that is killed goes
 * back into the bag, and nobody else notices. When rank 0 is killed the others shrink the
 * communicator, put together what they did, and the new rank 0 hands out the rest.
 *
 *   mpirun --enable-recovery --mca pml ob1 --mca btl tcp,self -n 6 bag [RANK@COUNT...]
 *
 * RANK, of MPI_COMM_WORLD, kills itself when it has handed out, or been given, COUNT tasks. A task
 * is to count the primes in a range.
 */
#include <coppice/error.h>
#include <coppice/mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 200, RANGE = 1000, END = -1, RESULT = 1, TASK = 2 };

struct bag {
    MPI_Comm comm;
    int rank, size;
    int lives;               /* tasks until this process kills itself; -1: never */
    uint64_t results[TASKS]; /* one more than there are primes, and 0 if not done */
};

/* What rank 0 knows besides. */
struct master {
    int given[TASKS];  /* to whom; 0: to nobody */
    int *task;         /* by rank: what it was sent last; kept, for MPI reads it */
    bool *idle, *dead; /* by rank */
};

static void check(int error)
{
    if (error == 0)
        return;
    fprintf(stderr, "bag: %s\n", COP_Comm_error());
    _Exit(1);
}

static uint64_t count_primes(int task)
{
    uint64_t count = 0;
    for (int n = task * RANGE; n < (task + 1) * RANGE; n++) {
        bool prime = n >= 2;
        for (int d = 2; prime && d * d <= n; d++)
            prime = n % d != 0;
        count += prime;
    }
    return count;
}

static void live_on(struct bag *bag)
{
    if (bag->lives > 0 && --bag->lives == 0)
        raise(SIGKILL);
}

/* Whether `rank` is known to have failed. */
static bool is_dead(const struct bag *bag, int rank)
{
    MPI_Group failed, all;
    int place = MPI_UNDEFINED;
    check(COP_Comm_validate(bag->comm, &failed));
    MPI_Comm_group(bag->comm, &all);
    MPI_Group_translate_ranks(all, 1, &rank, failed, &place);
    MPI_Group_free(&all);
    if (failed != MPI_GROUP_EMPTY)
        MPI_Group_free(&failed);
    return place != MPI_UNDEFINED;
}

/* ---- rank 0 ---------------------------------------------------------------------- */

static bool is_done(const struct bag *bag)
{
    for (int i = 0; i < TASKS; i++)
        if (bag->results[i] == 0)
            return false;
    return true;
}

static int next_task(const struct bag *bag, const struct master *master)
{
    for (int i = 0; i < TASKS; i++)
        if (bag->results[i] == 0 && master->given[i] == 0)
            return i;
    return END;
}

static void send_task(const struct bag *bag, struct master *master, int rank, int task)
{
    MPI_Request request;
    master->task[rank] = task;
    master->idle[rank] = false;
    /* Who is dead does not get it; nobody waits for that. */
    if (MPI_Isend(&master->task[rank], 1, MPI_INT, rank, TASK, bag->comm, &request) ==
        MPI_SUCCESS)
        MPI_Request_free(&request);
}

/* Those who wait for something to do get it, as long as there is something. */
static void hand_out(struct bag *bag, struct master *master)
{
    for (int rank = 1; rank < bag->size; rank++) {
        int task = next_task(bag, master);
        if (task == END)
            return;
        if (master->dead[rank] || !master->idle[rank])
            continue;
        master->given[task] = rank;
        send_task(bag, master, rank, task);
        live_on(bag);
    }
}

static int count_living(const struct bag *bag, const struct master *master)
{
    int count = 0;
    for (int rank = 1; rank < bag->size; rank++)
        count += !master->dead[rank];
    return count;
}

/* What the dead had been given goes back. */
static void take_back(struct bag *bag, struct master *master)
{
    check(COP_Comm_failure_ack(bag->comm));
    for (int rank = 1; rank < bag->size; rank++) {
        if (master->dead[rank] || !is_dead(bag, rank))
            continue;
        master->dead[rank] = true;
        for (int i = 0; i < TASKS; i++)
            if (master->given[i] == rank)
                master->given[i] = 0;
    }
}

/* What a rank sends: a result, or that it has none yet. */
struct result {
    int task, rank;
    uint64_t primes;
};

static void note(struct bag *bag, struct master *master, const struct result *result)
{
    master->idle[result->rank] = true;
    if (result->task != END)
        bag->results[result->task] = result->primes + 1;
}

static void serve(struct bag *bag, struct master *master)
{
    struct result result;
    MPI_Request request = MPI_REQUEST_NULL;
    while (!is_done(bag) && count_living(bag, master) > 0) {
        if (request == MPI_REQUEST_NULL)
            MPI_Irecv(&result, sizeof result, MPI_BYTE, MPI_ANY_SOURCE, RESULT,
                      bag->comm, &request);
        int error = COP_Comm_waitall(bag->comm, 1, &request);
        if (error == COP_ELOST)
            take_back(bag, master);
        else if (error == 0)
            note(bag, master, &result);
        else
            check(error);
        hand_out(bag, master);
    }
    if (request != MPI_REQUEST_NULL) {
        MPI_Cancel(&request);
        MPI_Request_free(&request);
    }
}

static bool be_master(struct bag *bag)
{
    struct master master = {.task = calloc((size_t)bag->size, sizeof *master.task),
                            .idle = calloc((size_t)bag->size, sizeof *master.idle),
                            .dead = calloc((size_t)bag->size, sizeof *master.dead)};
    if (master.task == NULL || master.idle == NULL || master.dead == NULL)
        abort();
    take_back(bag, &master);
    serve(bag, &master);
    /* Nobody is left to do it. */
    for (int i = 0; i < TASKS; i++)
        if (bag->results[i] == 0)
            bag->results[i] = count_primes(i) + 1;
    for (int rank = 1; rank < bag->size; rank++)
        send_task(bag, &master, rank, END);
    return true;
}

/* ---- the others ------------------------------------------------------------------ */

/* Waits for rank 0, whoever else dies; false if it is dead. */
static bool await_master(const struct bag *bag, int count, MPI_Request *requests)
{
    int error;
    while ((error = COP_Comm_waitall(bag->comm, count, requests)) == COP_ELOST) {
        check(COP_Comm_failure_ack(bag->comm));
        if (is_dead(bag, 0))
            return false;
    }
    return error == 0;
}

/* Until there is nothing more to do; false if rank 0 is dead. */
static bool be_worker(struct bag *bag)
{
    struct result *result = malloc(sizeof *result + sizeof(int));
    int *task = (int *)(result + 1);
    if (result == NULL)
        abort();
    *result = (struct result){.task = END, .rank = bag->rank};
    for (;;) {
        MPI_Request requests[2];
        MPI_Irecv(task, 1, MPI_INT, 0, TASK, bag->comm, &requests[0]);
        MPI_Isend(result, sizeof *result, MPI_BYTE, 0, RESULT, bag->comm, &requests[1]);
        if (!await_master(bag, 2, requests))
            return false; /* the memory stays MPI's */
        if (*task == END)
            break;
        live_on(bag);
        *result = (struct result){*task, bag->rank, count_primes(*task)};
        bag->results[*task] = result->primes + 1;
    }
    free(result);
    return true;
}

/* ---- the program ----------------------------------------------------------------- */

static int find_death(char **arguments, int me)
{
    int rank, count;
    for (; *arguments != NULL; arguments++)
        if (sscanf(*arguments, "%d@%d", &rank, &count) == 2 && rank == me)
            return count;
    return -1;
}

/* Until rank 0 is done or dead; whether all who are left agree that it was done. */
static bool empty_bag(struct bag *bag)
{
    MPI_Comm_rank(bag->comm, &bag->rank);
    MPI_Comm_size(bag->comm, &bag->size);
    int done = bag->rank == 0 ? be_master(bag) : be_worker(bag);
    check(COP_Comm_agree(bag->comm, &done));
    check(COP_Comm_agree_words(bag->comm, bag->results, TASKS, MPI_MAX));
    return done;
}

int main(int argc, char **argv)
{
    static struct bag bag;
    uint64_t sum = 0;
    int me, masters = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    check(COP_Comm_attach(MPI_COMM_WORLD));
    bag = (struct bag){.comm = MPI_COMM_WORLD, .lives = find_death(argv + 1, me)};
    for (; !empty_bag(&bag); masters++) {
        MPI_Comm old = bag.comm;
        check(COP_Comm_shrink(old, &bag.comm));
        if (old != MPI_COMM_WORLD)
            check(COP_Comm_free(&old));
    }
    for (int i = 0; i < TASKS; i++)
        sum += bag.results[i] - 1;
    printf("bag: %d: %llu primes below %d, handed out by %d\n", me,
           (unsigned long long)sum, TASKS * RANGE, masters);
    COP_Comm_exit(0);
}
