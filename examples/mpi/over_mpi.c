/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a cluster that have no sockets: what they say to each other goes over MPI. In
 * every round all of them agree on the sum of their ranks; the processes named on the command
 * line are killed, one in each round, and the others go on.
 *
 *   mpirun --enable-recovery -n 8 over_mpi 0 5
 */
#include <coppice/coppice.h>
#include <coppice/net_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GROUP 1

static int rank;
static bool is_done;
static uint64_t sum;
static uint32_t failed;
static struct cop_mpi *mpi;

static void fail(const char *what, int error)
{
    fprintf(stderr, "over_mpi: rank %d: %s: %s\n", rank, what, cop_strerror(error));
    fflush(stderr);
    _exit(1);
}

static void on_complete(const struct cop_effect *effect)
{
    struct cop_agreed agreed;
    if (effect->status != 0)
        fail("no agreement", effect->status);
    is_done = true;
    if (effect->result == NULL) /* the group was made */
        return;
    if (cop_agreed(effect->result, &agreed) != 0)
        fail("an agreement that cannot be read", COP_EMALFORMED);
    sum = cop_agreed_word(&agreed, 0);
    failed = agreed.failed.count;
    cop_agreed_free(&agreed);
}

static void on_effect(void *context, const struct cop_effect *effect)
{
    (void)context;
    if (effect->kind == COP_EFFECT_COMPLETE)
        on_complete(effect);
    else if (effect->kind == COP_EFFECT_OUT)
        fail("removed", effect->status);
}

static void ask(const struct cop_request *request)
{
    int error = cop_mpi_submit(mpi, request);
    is_done = false;
    while (error == 0 && !is_done)
        if (cop_mpi_wait(mpi, COP_TIME_NEVER) < 0)
            error = COP_EIO;
    if (error)
        fail("a request", error);
}

static void agree(void)
{
    uint64_t mine = (uint64_t)rank;
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token = 2,
                                  .group = GROUP,
                                  .op = COP_AGREE_SUM,
                                  .bytes = &mine,
                                  .length = sizeof mine,
                                  .timeout_ns = 600 * COP_SEC};
    ask(&request);
    printf("rank %d: %u failed, sum %llu\n", rank, failed, (unsigned long long)sum);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct cop_agree_group group = {.number = GROUP};
    struct cop_request make = {
        .kind = COP_REQUEST_AGREE_GROUP, .token = 1, .new_group = &group};
    struct cop_mpi_config config = {
        .size = sizeof config,
        .comm = MPI_COMM_WORLD,
        .effect = on_effect,
        .node = {.quorum = COP_QUORUM_NONE,
                 .detect = {.ring_period_ns = COP_SEC, .witnesses = 2}}};
    char why[200];
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int error = cop_mpi_create(&config, &mpi, why, sizeof why);
    if (error) {
        fprintf(stderr, "over_mpi: %s\n", why);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    ask(&make);
    agree();
    for (int i = 1; i < argc; i++) {
        if (atoi(argv[i]) == rank)
            raise(SIGKILL);
        agree();
    }
    cop_mpi_destroy(mpi, 10 * COP_SEC);
    if (argc == 1)
        MPI_Finalize(); /* it may wait for ever where somebody has died */
    fflush(stdout);
    _exit(0);
}
