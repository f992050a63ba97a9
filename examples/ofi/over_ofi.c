/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members over libfabric. The program starts `n` processes of itself, which leave the names of
 * their endpoints in memory that they share; in every round all agree on the sum of their ids.
 * The members named on the command line are killed, one in each round, and the others go on.
 *
 *   over_ofi PROVIDER N [ID...]
 */
#include <coppice/coppice.h>
#include <coppice/net_ofi.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64
#define GROUP 1

static struct board {
    struct cop_ofi_name names[MOST];
    atomic_uint ready, over;
} * board;
static cop_id self;
static struct cop_ofi *ofi;
static bool is_done;
static uint64_t sum;
static uint32_t failed;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "over_ofi: %u: %s: %s\n", self, what, why);
    exit(1);
}

static void on_effect(void *context, const struct cop_effect *effect)
{
    struct cop_agreed agreed;
    (void)context;
    if (effect->kind == COP_EFFECT_OUT)
        fail("removed", cop_strerror(effect->status));
    if (effect->kind != COP_EFFECT_COMPLETE)
        return;
    if (effect->status != 0)
        fail("no agreement", cop_strerror(effect->status));
    is_done = true;
    if (effect->result == NULL || cop_agreed(effect->result, &agreed) != 0)
        return;
    sum = cop_agreed_word(&agreed, 0);
    failed = agreed.failed.count;
    cop_agreed_free(&agreed);
}

static void ask(const struct cop_request *request)
{
    int error = cop_ofi_submit(ofi, request);
    is_done = false;
    while (error >= 0 && !is_done)
        error = cop_ofi_wait(ofi, COP_TIME_NEVER);
    if (error < 0)
        fail("a request", cop_strerror(error));
}

static void agree(void)
{
    uint64_t mine = self;
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token = 2,
                                  .group = GROUP,
                                  .op = COP_AGREE_SUM,
                                  .bytes = &mine,
                                  .length = sizeof mine,
                                  .timeout_ns = 600 * COP_SEC};
    ask(&request);
    printf("%u: %u failed, sum %llu\n", self, failed, (unsigned long long)sum);
    fflush(stdout);
}

static void start(const char *provider, uint32_t n, uint64_t incarnation)
{
    struct cop_ofi_config config = {
        .size = sizeof config,
        .names = board->names,
        .count = n,
        .self = self,
        .incarnation = incarnation,
        .effect = on_effect,
        .node = {.quorum = COP_QUORUM_NONE,
                 .detect = {.ring_period_ns = COP_SEC, .witnesses = 2}}};
    char why[300];
    if (cop_ofi_open(provider, NULL, &ofi, why, sizeof why) != 0)
        fail("open", why);
    cop_ofi_name(ofi, &board->names[self]);
    atomic_fetch_add(&board->ready, 1);
    while (atomic_load(&board->ready) < n)
        sched_yield();
    if (cop_ofi_start(ofi, &config, why, sizeof why) != 0)
        fail("start", why);
}

static int run(int argc, char **argv, uint32_t n, uint64_t incarnation)
{
    struct cop_agree_group group = {.number = GROUP};
    struct cop_request make = {
        .kind = COP_REQUEST_AGREE_GROUP, .token = 1, .new_group = &group};
    start(argv[1], n, incarnation);
    ask(&make);
    agree();
    for (int i = 3; i < argc; i++) {
        if ((cop_id)atoi(argv[i]) == self)
            raise(SIGKILL);
        agree();
    }
    /* Who has its result may still be needed by others, until they have theirs. */
    atomic_fetch_add(&board->over, 1);
    while (atomic_load(&board->over) < n - (uint32_t)(argc - 3))
        cop_ofi_wait(ofi, COP_MSEC);
    cop_ofi_destroy(ofi, 0);
    return 0;
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    uint64_t incarnation = (uint64_t)getpid();
    int status, code = 0;
    if (n < 1 || n > MOST) {
        fprintf(stderr, "usage: over_ofi PROVIDER N [ID...], N at most %d\n", MOST);
        return 2;
    }
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    for (self = 0; self < n; self++) {
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            return run(argc, argv, n, incarnation);
        }
    }
    while (wait(&status) > 0)
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            code = 1;
    return code;
}
