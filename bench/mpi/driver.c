/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Coppice costs over MPI, next to MPI itself, in one job and in turns:
 *
 *   an agreement            next to   MPI_Allreduce of one word, same communicator; and the same
 *                                     number of messages along the same tree (a pass, below)
 *   a change of the view    next to   the same pass down and up the same tree, by MPI_Send and
 *   (T_s: from the news                MPI_Recv of as many bytes
 *   until everybody has
 *   acknowledged)
 *
 * Passes are timed twice: back to back, when everybody waits for the next one already, and one
 * at a time after a barrier, as changes are, when those who have no processor of their own have
 * to leave the barrier first ("alone").
 *
 *   mpirun [--enable-recovery] -n N bench_mpi [--sets S] [--operations O] [--changes C]
 *                                             [--shape SHAPE] [--kill K] [--json]
 *
 * With --kill the last K processes are killed, one after another; each death is reported, and
 * the change that it leads to is measured next to passes of those who are left.
 */
#include <coppice/coppice.h>
#include <coppice/net_mpi.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "number/sample.h"
#include "term/json.h"

#define GROUP 1
#define WARM_UP 10
#define SETS_MAX 1000

struct options {
    uint64_t sets, operations, changes, killed;
    const char *shape; /* NULL: what the driver takes */
    bool json;
};

struct bench {
    struct options options;
    int rank, n;
    struct cop_mpi *mpi;
    struct cop_stats stats;
    struct cop_tree tree;
    char shape[40];
    struct cop_ranks children;
    uint8_t *message;
    int message_bytes;
    uint64_t token, views, completed;
    int status;
};

/* By set, in ns. */
struct times {
    double allreduce[SETS_MAX], agree[SETS_MAX];
    double pass[SETS_MAX], alone[SETS_MAX], change[SETS_MAX];
    double killed[SETS_MAX], killed_pass[SETS_MAX];
};

static void die(const struct bench *bench, const char *what, int error)
{
    fprintf(stderr, "bench_mpi: rank %d: %s: %s\n", bench->rank, what,
            cop_strerror(error));
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* ---- ours ------------------------------------------------------------------------ */

static void on_effect(void *context, const struct cop_effect *effect)
{
    struct bench *bench = context;
    if (effect->kind == COP_EFFECT_VIEW)
        bench->views++;
    if (effect->kind == COP_EFFECT_OUT)
        die(bench, "removed", effect->status);
    if (effect->kind != COP_EFFECT_COMPLETE)
        return;
    bench->completed++;
    bench->status = effect->status;
}

static void progress(struct bench *bench)
{
    int done = cop_mpi_wait(bench->mpi, COP_TIME_NEVER);
    if (done < 0)
        die(bench, "the driver", done);
}

static void submit(struct bench *bench, struct cop_request *request)
{
    request->token = ++bench->token;
    int error = cop_mpi_submit(bench->mpi, request);
    if (error)
        die(bench, "a request", error);
}

static void ask(struct bench *bench, struct cop_request *request)
{
    uint64_t before = bench->completed;
    submit(bench, request);
    while (bench->completed == before)
        progress(bench);
    if (bench->status != 0)
        die(bench, "a request", bench->status);
}

static void agree(struct bench *bench)
{
    uint64_t one = 1;
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .group = GROUP,
                                  .op = COP_AGREE_SUM,
                                  .bytes = &one,
                                  .length = sizeof one,
                                  .timeout_ns = 600 * COP_SEC};
    ask(bench, &request);
}

/* Until the view has changed here; at the root, how long it took. */
static double await_change(struct bench *bench, uint64_t views)
{
    while (bench->views < views)
        progress(bench);
    struct cop_change_times times = cop_node_change_times(cop_mpi_node(bench->mpi));
    return (double)(times.stable - times.heard);
}

/* Rank 0 drains the last one, or takes that back. */
static double change(struct bench *bench, bool undo)
{
    uint64_t views = bench->views + 1;
    struct cop_request request = {.kind = COP_REQUEST_DRAIN,
                                  .member = (cop_id)bench->n - 1,
                                  .undo = undo,
                                  .timeout_ns = 600 * COP_SEC};
    /* All have the view before: what it still had to do is not part of this change. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench->rank == 0)
        ask(bench, &request);
    return await_change(bench, views);
}

/* ---- MPI's ----------------------------------------------------------------------- */

static void allreduce(struct bench *bench)
{
    uint64_t one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (uint64_t)bench->n)
        die(bench, "MPI_Allreduce gave another sum", COP_EBUG);
}

/* Down and up once. */
static void pass(struct bench *bench)
{
    cop_rank parent = cop_tree_parent(&bench->tree, (cop_rank)bench->rank);
    const struct cop_ranks *children = &bench->children;
    if (parent != COP_RANK_NONE)
        MPI_Recv(bench->message, bench->message_bytes, MPI_BYTE, (int)parent, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (uint32_t i = 0; i < children->count; i++)
        MPI_Send(bench->message, bench->message_bytes, MPI_BYTE,
                 (int)children->items[i], 1, MPI_COMM_WORLD);
    for (uint32_t i = 0; i < children->count; i++)
        MPI_Recv(bench->message, bench->message_bytes, MPI_BYTE,
                 (int)children->items[i], 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (parent != COP_RANK_NONE)
        MPI_Send(bench->message, bench->message_bytes, MPI_BYTE, (int)parent, 1,
                 MPI_COMM_WORLD);
}

/* ---- turns ----------------------------------------------------------------------- */

static double time_operations(struct bench *bench, void (*one)(struct bench *bench))
{
    for (int i = 0; i < WARM_UP; i++)
        one(bench);
    double begun = MPI_Wtime();
    for (uint64_t i = 0; i < bench->options.operations; i++)
        one(bench);
    return (MPI_Wtime() - begun) * 1e9 / (double)bench->options.operations;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* One pass, as a change of the view is timed. */
static double pass_alone(struct bench *bench, bool undo)
{
    (void)undo;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    pass(bench);
    return (MPI_Wtime() - begun) * 1e9;
}

/* The median of one at a time. */
static double time_each(struct bench *bench,
                        double (*one)(struct bench *bench, bool undo))
{
    uint64_t count = bench->options.changes;
    double *all = calloc(count, sizeof *all);
    if (all == NULL)
        die(bench, "no memory", COP_ENOMEM);
    for (uint64_t i = 0; i < count; i++)
        all[i] = one(bench, i % 2 == 1);
    qsort(all, count, sizeof *all, compare);
    double median = all[count / 2];
    free(all);
    return median;
}

static void take_turns(struct bench *bench, struct times *times)
{
    for (uint64_t i = 0; i < bench->options.sets; i++) {
        /* Another one is first in every turn. */
        for (uint64_t turn = 0; turn < 2; turn++) {
            if ((turn + i) % 2 == 0)
                times->allreduce[i] = time_operations(bench, allreduce);
            else
                times->agree[i] = time_operations(bench, agree);
        }
        for (uint64_t turn = 0; turn < 3; turn++) {
            if ((turn + i) % 3 == 0)
                times->pass[i] = time_operations(bench, pass);
            else if ((turn + i) % 3 == 1)
                times->change[i] = time_each(bench, change);
            else
                times->alone[i] = time_each(bench, pass_alone);
        }
    }
}

static void lay_tree(struct bench *bench, int n)
{
    bench->tree.n = (uint32_t)n;
    if (cop_tree_children(&bench->tree, (cop_rank)bench->rank, &bench->children) != 0)
        die(bench, "no memory", COP_ENOMEM);
}

/* The highest that lives goes; whoever is left has a turn of both. */
static void kill_last(struct bench *bench, int left, uint64_t i, struct times *times)
{
    uint64_t views = bench->views + 1;
    struct cop_request report = {.kind = COP_REQUEST_REPORT, .member = (cop_id)left};
    lay_tree(bench, bench->rank < left ? left : left + 1);
    if (bench->rank == left)
        raise(SIGKILL);
    times->killed_pass[i] = time_operations(bench, pass);
    submit(bench, &report);
    times->killed[i] = await_change(bench, views);
}

/* A frame of a change of the view, on average: the raw passes send as many bytes. */
static void measure_frames(struct bench *bench)
{
    uint64_t all[2] = {0, 0}, sum[2];
    struct cop_stats before = bench->stats;
    for (int i = 0; i < 2 * WARM_UP; i++)
        change(bench, i % 2 == 1);
    for (int i = 0; i < COP_STATS_KINDS; i++)
        all[0] += bench->stats.sent[i] - before.sent[i];
    all[1] = bench->stats.sent_bytes - before.sent_bytes;
    MPI_Allreduce(all, sum, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    bench->message_bytes = (int)(sum[1] / sum[0]);
    bench->message = calloc(1, (size_t)bench->message_bytes);
    if (bench->message == NULL)
        die(bench, "no memory", COP_ENOMEM);
}

/* ---- what came of it ------------------------------------------------------------- */

static void put_summary(struct json *json, const char *key,
                        const struct summary *summary, int decimals)
{
    json_key(json, key);
    json_begin_object(json);
    json_put_double(json, "median", summary->median, decimals);
    json_put_double(json, "low", summary->low, decimals);
    json_put_double(json, "high", summary->high, decimals);
    json_put_double(json, "confidence", summary->confidence, 4);
    json_end_object(json);
}

static void put(const struct bench *bench, struct json *json, const char *what,
                double *ours, double *theirs, uint64_t count)
{
    double ratios[SETS_MAX];
    for (uint64_t i = 0; i < count; i++)
        ratios[i] = ours[i] / theirs[i];
    struct summary ratio = summarize(ratios, (uint32_t)count);
    struct summary mine = summarize(ours, (uint32_t)count);
    struct summary raw = summarize(theirs, (uint32_t)count);
    if (bench->options.json) {
        json_begin_object(json);
        json_put_string(json, "schema", "coppice.bench_mpi.v1");
        json_put_string(json, "what", what);
        json_put_u64(json, "n", (uint64_t)bench->n);
        json_put_string(json, "shape", bench->shape);
        json_put_u64(json, "sets", count);
        json_put_u64(json, "message_bytes", (uint64_t)bench->message_bytes);
        put_summary(json, "ours_ns", &mine, 0);
        put_summary(json, "mpi_ns", &raw, 0);
        put_summary(json, "over_mpi", &ratio, 4);
        json_end_object(json);
        return;
    }
    printf("%-10s n = %d, %s: ours %.1f us, MPI %.1f us, ratio %.2f (99 %%: %.2f-%.2f) "
           "of %llu sets\n",
           what, bench->n, bench->shape, mine.median / 1e3, raw.median / 1e3,
           ratio.median, ratio.low, ratio.high, (unsigned long long)count);
}

static void print(const struct bench *bench, struct times *times)
{
    struct json json;
    json_init(&json, stdout);
    put(bench, &json, "agreement", times->agree, times->allreduce, bench->options.sets);
    put(bench, &json, "messages", times->agree, times->pass, bench->options.sets);
    put(bench, &json, "change", times->change, times->pass, bench->options.sets);
    put(bench, &json, "alone", times->change, times->alone, bench->options.sets);
    if (bench->options.killed > 0)
        put(bench, &json, "death", times->killed, times->killed_pass,
            bench->options.killed);
    fflush(stdout);
}

/* ---- life ------------------------------------------------------------------------ */

static void start(struct bench *bench)
{
    struct cop_mpi_config config = {
        .size = sizeof config,
        .comm = MPI_COMM_WORLD,
        .effect = on_effect,
        .context = bench,
        .shape = bench->options.shape,
        .node = {.quorum = COP_QUORUM_NONE, .stats = &bench->stats}};
    struct cop_agree_group group = {.number = GROUP};
    struct cop_request make = {.kind = COP_REQUEST_AGREE_GROUP, .new_group = &group};
    char why[200];
    if (cop_mpi_create(&config, &bench->mpi, why, sizeof why) != 0) {
        if (bench->rank == 0)
            fprintf(stderr, "bench_mpi: %s\n", why);
        MPI_Finalize();
        exit(2);
    }
    bench->tree.shape = *cop_view_shape(cop_node_view(cop_mpi_node(bench->mpi)));
    cop_shape_print(&bench->tree.shape, bench->shape, sizeof bench->shape);
    lay_tree(bench, bench->n);
    ask(bench, &make);
    agree(bench);
    measure_frames(bench);
}

static int usage(int rank)
{
    if (rank == 0)
        fprintf(
            stderr,
            "usage: mpirun -n N bench_mpi [--sets S] [--operations O] [--changes C] "
            "[--shape SHAPE] [--kill K] [--json]\n"
            "S and K are at most %d, C is even, N is at least 2 and above K + 1.\n",
            SETS_MAX);
    MPI_Finalize();
    return 2;
}

static bool read_options(struct bench *bench, int argc, char **argv)
{
    static const struct option known[] = {
        {"sets", 1, NULL, 's'},    {"operations", 1, NULL, 'o'},
        {"changes", 1, NULL, 'c'}, {"shape", 1, NULL, 'h'},
        {"kill", 1, NULL, 'k'},    {"json", 0, NULL, 'j'},
        {NULL, 0, NULL, 0}};
    struct options *options = &bench->options;
    *options = (struct options){.sets = 7, .operations = 200, .changes = 20};
    opterr = bench->rank == 0;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        uint64_t *number = c == 's'   ? &options->sets
                           : c == 'o' ? &options->operations
                           : c == 'c' ? &options->changes
                           : c == 'k' ? &options->killed
                                      : NULL;
        if (number != NULL) {
            char *end;
            *number = strtoull(optarg, &end, 10);
            if (*end != '\0' || *optarg < '0' || *optarg > '9')
                return false;
        } else if (c == 'h')
            options->shape = optarg;
        else if (c == 'j')
            options->json = true;
        else
            return false;
    }
    return optind == argc && options->sets >= 1 && options->sets <= SETS_MAX &&
           options->killed <= SETS_MAX && options->operations >= 1 &&
           options->changes >= 2 && options->changes % 2 == 0 && bench->n >= 2 &&
           (int)options->killed < bench->n - 1;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static struct times times;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.n);
    if (!read_options(&bench, argc, argv))
        return usage(bench.rank);
    start(&bench);
    take_turns(&bench, &times);
    int left = bench.n;
    for (uint64_t i = 0; i < bench.options.killed; i++)
        kill_last(&bench, --left, i, &times);
    if (bench.rank == 0)
        print(&bench, &times);
    cop_mpi_destroy(bench.mpi, COP_SEC);
    if (bench.options.killed > 0)
        _exit(0); /* MPI_Finalize would wait for the dead */
    MPI_Finalize();
    cop_ranks_free(&bench.children);
    free(bench.message);
    return 0;
}
