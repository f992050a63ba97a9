/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bcast.h"

#include "bench/crowd.h"
#include "bench/floor.h"
#include "bench/launch_mpi.h"
#include "term/commands.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <coppice/stats.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SERVICE 2u
/* The same, but each member notes when it had the request. */
#define NOTING 3u
#define WARM_UP 20u
#define SILENCE_MS 60000

/* When each member had the latest request: in memory that all of them share. The clock is one
 * for all processes of a machine. */
struct note {
    _Alignas(64) _Atomic(uint64_t) at_ns;
};

/* The medians of the rounds so far. */
struct rounds {
    double *floor, *call, *one_way, *mpi[BCAST_MPIS];
};

struct bench {
    const struct bcast_config *config;
    struct crowd *crowd;
    struct note *notes;
    uint32_t bytes;
    uint64_t *calls_ns, *one_ways_ns; /* of one turn */
    struct rounds rounds;
};

/* ---- the members ----------------------------------------------------------------- */

/* The floor notes nothing either: what is timed from end to end is an empty request. */
static int answer(void *context, struct cop_run *run, struct cop_task *task)
{
    (void)context, (void)run, (void)task;
    return 0;
}

/* Of this process, once it has been asked for. */
static struct note *own_note;

static int note_and_answer(void *context, struct cop_run *run, struct cop_task *task)
{
    struct note *notes = context;
    (void)task;
    if (own_note == NULL)
        own_note = &notes[cop_self(run)];
    atomic_store_explicit(&own_note->at_ns, now_ns(), memory_order_relaxed);
    return 0;
}

/* ---- one turn -------------------------------------------------------------------- */

struct end {
    bool is_over;
    int status;
    uint32_t answered;
};

static void on_end(void *context, int status, const struct cop_bcast_result *result)
{
    struct end *end = context;
    *end = (struct end){true, status, result ? result->answered : 0};
}

static uint64_t last_note(const struct bench *bench)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < bench->config->n; i++) {
        uint64_t at =
            atomic_load_explicit(&bench->notes[i].at_ns, memory_order_relaxed);
        last = at > last ? at : last;
    }
    return last;
}

/* `one_way_ns` says something of NOTING alone. */
static int call_once(struct bench *bench, uint32_t service, uint64_t *call_ns,
                     uint64_t *one_way_ns)
{
    const struct cop_call call = {.service = service};
    struct end end = {0};
    cop_time begun = now_ns();
    int error = cop_rpc(bench->crowd->run, &call, on_end, &end);
    if (error)
        return fail(EXIT_FAILED, "bench: a call failed: %s", cop_strerror(error));
    while (!end.is_over)
        if (cop_poll(bench->crowd->run, SILENCE_MS) != 0)
            return fail(EXIT_FAILED, "bench: this member was removed");
    *call_ns = now_ns() - begun;
    *one_way_ns = last_note(bench) - begun;
    if (end.status != 0 || end.answered != bench->config->n)
        return fail(EXIT_FAILED,
                    "bench: a call was answered by %" PRIu32 " of %" PRIu32,
                    end.answered, bench->config->n);
    return 0;
}

static int count_frames(const struct bench *bench, struct bench_traffic *out)
{
    struct cop_stats stats;
    int error = cop_counters(bench->crowd->run, &stats, sizeof stats);
    if (error)
        return fail(EXIT_FAILED, "bench: no counters: %s", cop_strerror(error));
    *out = (struct bench_traffic){.bytes = stats.sent_bytes + stats.received_bytes};
    for (uint32_t i = 0; i < COP_STATS_KINDS; i++)
        out->frames += stats.sent[i] + stats.received[i];
    return 0;
}

/* Connections are made, and caches filled. Counts how long a message is, as the root sees it. */
static int warm_up(struct bench *bench)
{
    struct bench_traffic before, after;
    uint64_t ignored;
    int code = call_once(bench, NOTING, &ignored, &ignored);
    if (code == 0)
        code = count_frames(bench, &before);
    for (uint32_t i = 0; i < WARM_UP && code == 0; i++)
        code = call_once(bench, SERVICE, &ignored, &ignored);
    if (code == 0)
        code = count_frames(bench, &after);
    if (code == 0)
        bench->bytes = bench_message_bytes(&before, &after);
    return code;
}

static int run_calls(struct bench *bench, uint32_t round)
{
    uint32_t count = bench->config->repetitions;
    uint64_t ignored;
    int code = warm_up(bench);
    for (uint32_t i = 0; i < count && code == 0; i++)
        code = call_once(bench, SERVICE, &bench->calls_ns[i], &ignored);
    for (uint32_t i = 0; i < count && code == 0; i++)
        code = call_once(bench, NOTING, &ignored, &bench->one_ways_ns[i]);
    if (code)
        return code;
    bench->rounds.call[round] = median_time(bench->calls_ns, count);
    bench->rounds.one_way[round] = median_time(bench->one_ways_ns, count);
    return 0;
}

static int time_calls(struct bench *bench, uint32_t round)
{
    char shape[32];
    const struct cop_handlers services[] = {
        {.size = sizeof services[0], .service = SERVICE, .run = answer},
        {.size = sizeof services[0],
         .service = NOTING,
         .context = bench->notes,
         .run = note_and_answer},
    };
    const struct crowd_config config = {
        .n = bench->config->n, .shape = shape, .service = services, .service_count = 2};
    snprintf(shape, sizeof shape, "kary:%" PRIu32, bench->config->arity);
    own_note = NULL;
    int code = crowd_open(bench->crowd, &config);
    if (code)
        return code;
    code = run_calls(bench, round);
    crowd_close(bench->crowd);
    return code;
}

static int time_floor(const struct bench *bench, double *median)
{
    const struct floor_config floor = {
        .kind = FLOOR_BLOCKING,
        .transport = FLOOR_TCP,
        .n = bench->config->n,
        .k = bench->config->arity,
        .bytes = bench->bytes,
        .repetitions = bench->config->repetitions,
        .warm_up = WARM_UP,
    };
    return bench_time_floor(&floor, median);
}

static int time_mpi(const struct bench *bench, uint32_t round)
{
    static const char *const transports[BCAST_MPIS] = {"tcp", "vader"};
    int code = 0;
    for (int i = 0; i < BCAST_MPIS && code == 0 && bench->config->with_mpi; i++) {
        const struct mpi_launch launch = {.program = "coppice-mpi-bcast",
                                          .n = bench->config->n,
                                          .transport = transports[i],
                                          .repetitions = bench->config->repetitions,
                                          .warm_up = WARM_UP};
        code = mpi_time(&launch, &bench->rounds.mpi[i][round]);
    }
    return code;
}

static int take_turns(struct bench *bench, struct progress *progress)
{
    char what[64];
    int code = 0;
    snprintf(what, sizeof what, "n = %" PRIu32, bench->config->n);
    for (uint32_t i = 0; i < bench->config->rounds && code == 0; i++) {
        progress_show(progress, what, i, bench->config->rounds);
        code = time_calls(bench, i);
        if (code == 0)
            code = time_floor(bench, &bench->rounds.floor[i]);
        if (code == 0)
            code = time_mpi(bench, i);
    }
    return code;
}

/* ---- all of it ------------------------------------------------------------------- */

static struct summary ratio(const double *over, const double *under, uint32_t count)
{
    double ratios[BENCH_ROUNDS_MAX];
    for (uint32_t i = 0; i < count; i++)
        ratios[i] = over[i] / under[i];
    return summarize(ratios, count);
}

/* Ratios go round by round, before the rounds are sorted. */
static void sum_up(struct bench *bench, struct bcast_result *out)
{
    const struct rounds *rounds = &bench->rounds;
    uint32_t count = bench->config->rounds;
    out->bytes = bench->bytes;
    out->over_floor = ratio(rounds->call, rounds->floor, count);
    for (int i = 0; i < BCAST_MPIS && bench->config->with_mpi; i++) {
        out->mpi_over_call[i] = ratio(rounds->mpi[i], rounds->call, count);
        out->mpi_ns[i] = summarize(rounds->mpi[i], count);
    }
    out->floor_ns = summarize(rounds->floor, count);
    out->call_ns = summarize(rounds->call, count);
    out->one_way_ns = summarize(rounds->one_way, count);
}

static bool make_room(struct bench *bench, double *values)
{
    const struct bcast_config *config = bench->config;
    struct rounds *rounds = &bench->rounds;
    rounds->floor = values;
    rounds->call = values + config->rounds;
    rounds->one_way = values + 2 * config->rounds;
    for (uint32_t i = 0; i < BCAST_MPIS; i++)
        rounds->mpi[i] = values + (3 + i) * config->rounds;
    bench->crowd = malloc(sizeof *bench->crowd);
    bench->calls_ns = calloc(config->repetitions, sizeof *bench->calls_ns);
    bench->one_ways_ns = calloc(config->repetitions, sizeof *bench->one_ways_ns);
    return values && bench->crowd && bench->calls_ns && bench->one_ways_ns;
}

int bench_bcast(const struct bcast_config *config, struct progress *progress,
                struct bcast_result *out)
{
    struct bench bench = {.config = config};
    size_t size = config->n * sizeof *bench.notes;
    double *values = calloc((3u + BCAST_MPIS) * config->rounds, sizeof *values);
    void *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code = 0;
    *out = (struct bcast_result){0};
    bench.notes = shared;
    if (!make_room(&bench, values) || shared == MAP_FAILED)
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0)
        code = take_turns(&bench, progress);
    if (code == 0)
        sum_up(&bench, out);
    if (shared != MAP_FAILED)
        munmap(shared, size);
    free(bench.crowd);
    free(bench.calls_ns);
    free(bench.one_ways_ns);
    free(values);
    return code;
}
