/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/agree.h"

#include "ask/agreer.h"
#include "base/random.h"
#include "bench/floor.h"
#include "cluster/local.h"
#include "term/commands.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_NS (60 * COP_SEC)
/* Hundreds of processes that die on two processors are not missed at once. */
#define WAIT_NS (300 * COP_SEC)
#define FLOOR_BYTES 150u
#define FLOOR_TURNS 40u
/* A majority stays even if this part of those who are left goes at once. */
#define BATCH 4u

/* One measurement on its way. */
struct bench {
    const struct agree_config *config;
    struct local local;
    struct client client;
    double *floor;                      /* by set */
    double *means[AGREE_VARIANTS_MAX];  /* by set */
    double *paired[AGREE_VARIANTS_MAX]; /* over the first, by set and pair */
    double messages[AGREE_VARIANTS_MAX];
    uint32_t bytes;
};

/* ---- killing --------------------------------------------------------------------- */

static int await_size(struct bench *bench, uint32_t size)
{
    struct roll roll;
    uint64_t known = 0;
    for (;;) {
        int error = client_roll(&bench->client, known, WAIT_NS, &roll);
        if (error)
            return fail(EXIT_FAILED, "the view does not become one of %" PRIu32 ": %s",
                        size, cop_strerror(error));
        bool is_there = cop_view_size(roll.view) == size;
        known = roll.serial;
        roll_free(&roll);
        if (is_there)
            return 0;
    }
}

/* The same victims for the same numbers; never the one that is asked. */
static int kill_some(struct bench *bench, cop_id *ids, uint32_t count, uint32_t left)
{
    struct cop_ranks victims = {0};
    int code = 0;
    for (uint32_t i = 0; i < count && code == 0; i++)
        code = cop_ranks_push(&victims, ids[i]) ? EXIT_FAILED : 0;
    if (code)
        fail(code, "%s", cop_strerror(COP_ENOMEM));
    else
        code = local_signal(&bench->local, SIGKILL, &victims);
    cop_ranks_free(&victims);
    return code ? code : await_size(bench, left);
}

static int kill_victims(struct bench *bench)
{
    uint32_t n = bench->config->n, killed = bench->config->killed, done = 0;
    cop_id *ids = calloc(n, sizeof *ids);
    struct cop__random random;
    int code = 0;
    if (ids == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    cop__random_init(&random, n);
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t j = (uint32_t)cop__random_below(&random, i + 1);
        ids[i] = ids[j];
        ids[j] = i + 1;
    }
    while (done < killed && code == 0) {
        uint32_t batch = (n - done) / BATCH ? (n - done) / BATCH : 1;
        if (batch > killed - done)
            batch = killed - done;
        code = kill_some(bench, ids + done, batch, n - done - batch);
        done += batch;
    }
    free(ids);
    return code;
}

/* ---- messages -------------------------------------------------------------------- */

struct sent {
    uint64_t frames, bytes;
};

static uint64_t value_of(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            return strtoull(line + length, NULL, 10);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return 0;
}

/* With more patience than a command has for whom it only asks how it is. */
static char *ask_status(struct client *client)
{
    struct client_reply reply;
    int error = client_call(client, VERB_STATUS, NULL, TIMEOUT_NS, &reply);
    if (error || reply.status != 0)
        return NULL;
    return strndup((const char *)reply.body.data, reply.body.length);
}

/* What those who live have sent of agreements. */
static int count_sent(const struct bench *bench, struct sent *out)
{
    static const char *const kinds[] = {"sent_vote", "sent_decide", "sent_lock",
                                        "sent_locked"};
    *out = (struct sent){0};
    for (cop_id id = 0; id < bench->local.cluster.n; id++) {
        struct client client;
        if (local_connect(&bench->local, id, &client) != 0)
            continue; /* killed */
        char *text = ask_status(&client);
        client_close(&client);
        if (text == NULL)
            return fail(EXIT_FAILED, "n%" PRIu32 " does not tell its statistics", id);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            out->frames += value_of(text, kinds[i]);
        out->bytes += value_of(text, "sent_bytes");
        free(text);
    }
    return 0;
}

/* The group is given back after the command has its answer: until nothing more comes. */
static int count_all_sent(const struct bench *bench, struct sent *out)
{
    struct sent before;
    int code = count_sent(bench, out);
    do {
        before = *out;
        poll(NULL, 0, 20);
        if (code == 0)
            code = count_sent(bench, out);
    } while (code == 0 && out->frames != before.frames);
    return code;
}

/* ---- one set --------------------------------------------------------------------- */

static int run_set(struct bench *bench, const struct agree_variant *variant,
                   uint32_t operations, struct agreer *out)
{
    const struct agree_config *config = bench->config;
    bool is_baseline = variant->algorithm == COP_AGREE_ALLREDUCE;
    const struct agree_order order = {.algorithm = variant->algorithm,
                                      .op = COP_AGREE_SUM,
                                      .value = 1,
                                      .count = operations,
                                      .warm_up = config->warm_up,
                                      .window = 1,
                                      .skew_ms = config->skew_ms,
                                      .keep_tree = variant->keep_tree,
                                      .with_dead = !is_baseline && config->killed > 0,
                                      .timeout_ns = TIMEOUT_NS};
    int error = agreer_run(&bench->client, &order, out);
    if (error)
        return fail(EXIT_FAILED, "an agreement failed: %s", cop_strerror(error));
    for (uint32_t i = 0; i < out->count && !error; i++)
        if (out->samples[i].status != 0 ||
            out->samples[i].value != config->n - config->killed)
            error = fail(EXIT_FAILED, "an agreement came to %" PRIu64 ": %s",
                         out->samples[i].value, cop_strerror(out->samples[i].status));
    if (!error && out->verdict != AGREE_SAME)
        error = fail(EXIT_FAILED, "members have had different results");
    if (error)
        agreer_free(out);
    return error;
}

/* A part of the operations of a set, as near to the same for all pairs as can be. */
static int time_piece(struct bench *bench, uint32_t variant, uint32_t pair,
                      double *mean)
{
    const struct agree_config *config = bench->config;
    uint32_t operations = config->operations / config->pairs +
                          (pair < config->operations % config->pairs);
    struct agreer agreer;
    int code = run_set(bench, &config->variants[variant], operations, &agreer);
    if (code)
        return code;
    const struct agree_sample *first = agreer.samples,
                              *last = &agreer.samples[agreer.count - 1];
    *mean =
        (double)(last->at_ns + last->elapsed_ns - first->at_ns) / (double)agreer.count;
    agreer_free(&agreer);
    return 0;
}

/* A set that is not timed, for warmth: with all its messages counted. With the agreements go
 * the one on the results and the one that gives the group back. */
static int count_set(struct bench *bench, uint32_t variant)
{
    const struct agree_config *config = bench->config;
    struct sent before, after;
    struct agreer agreer;
    int code = count_all_sent(bench, &before);
    if (code == 0)
        code = run_set(bench, &config->variants[variant], config->operations, &agreer);
    if (code)
        return code;
    agreer_free(&agreer);
    code = count_all_sent(bench, &after);
    bench->messages[variant] = (double)(after.frames - before.frames) /
                               (double)(config->operations + config->warm_up + 2);
    return code;
}

static int time_floor(const struct bench *bench, double *median)
{
    const struct agree_config *config = bench->config;
    const struct floor_config floor = {
        .kind = FLOOR_BLOCKING,
        .transport = config->tcp ? FLOOR_TCP : FLOOR_UNIX,
        .n = config->n - config->killed,
        .k = config->arity ? config->arity : 2,
        .bytes = bench->bytes,
        .repetitions = FLOOR_TURNS,
        .warm_up = 10,
    };
    return bench_time_floor(&floor, median);
}

/* Another one is first in every set; every second pair goes the other way round. */
static int take_pair(struct bench *bench, uint32_t set, uint32_t pair)
{
    const struct agree_config *config = bench->config;
    uint32_t count = config->variant_count;
    double means[AGREE_VARIANTS_MAX];
    int code = 0;
    for (uint32_t i = 0; i < count && code == 0; i++) {
        uint32_t v = (set + (pair % 2 ? count - 1 - i : i)) % count;
        code = time_piece(bench, v, pair, &means[v]);
    }
    for (uint32_t v = 0; v < count && code == 0; v++) {
        bench->means[v][set] += means[v] / config->pairs;
        bench->paired[v][set * config->pairs + pair] = means[v] / means[0];
    }
    return code;
}

static int take_turns(struct bench *bench, struct progress *progress)
{
    const struct agree_config *config = bench->config;
    char what[64];
    int code = 0;
    snprintf(what, sizeof what, "n = %" PRIu32, config->n);
    for (uint32_t v = 0; v < config->variant_count && code == 0; v++)
        code = count_set(bench, v);
    for (uint32_t i = 0; i < config->sets && code == 0; i++) {
        progress_show(progress, what, i, config->sets);
        code = time_floor(bench, &bench->floor[i]);
        for (uint32_t pair = 0; pair < config->pairs && code == 0; pair++)
            code = take_pair(bench, i, pair);
    }
    return code;
}

/* ---- all of it ------------------------------------------------------------------- */

/* Ratios go turn by turn, before the turns are sorted. */
static int sum_up(struct bench *bench, struct agree_result *out)
{
    uint32_t sets = bench->config->sets;
    double *ratios = calloc(sets, sizeof *ratios);
    if (ratios == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    for (uint32_t v = 0; v < bench->config->variant_count; v++) {
        for (uint32_t i = 0; i < sets; i++)
            ratios[i] = bench->means[v][i] / bench->means[0][i];
        out->variants[v].over_first = summarize(ratios, sets);
        for (uint32_t i = 0; i < sets; i++)
            ratios[i] = bench->means[v][i] / bench->floor[i];
        out->variants[v].over_floor = summarize(ratios, sets);
        out->variants[v].paired =
            summarize(bench->paired[v], sets * bench->config->pairs);
        out->variants[v].messages = bench->messages[v];
    }
    for (uint32_t v = 0; v < bench->config->variant_count; v++)
        out->variants[v].ns = summarize(bench->means[v], sets);
    out->floor_ns = summarize(bench->floor, sets);
    out->bytes = bench->bytes;
    free(ratios);
    return 0;
}

static int measure(const char *name, struct bench *bench, struct progress *progress,
                   struct agree_result *out)
{
    int code = local_open(name, &bench->local);
    if (code)
        return code;
    if (local_connect(&bench->local, 0, &bench->client) != 0) {
        local_close(&bench->local);
        return fail(EXIT_FAILED, "member n0 of '%s' is gone", name);
    }
    code = kill_victims(bench);
    if (code == 0)
        code = take_turns(bench, progress);
    if (code == 0)
        code = sum_up(bench, out);
    client_close(&bench->client);
    local_close(&bench->local);
    return code;
}

static int make_room(struct bench *bench)
{
    uint32_t sets = bench->config->sets, pairs = bench->config->pairs;
    bool good = (bench->floor = calloc(sets, sizeof(double))) != NULL;
    for (uint32_t v = 0; v < bench->config->variant_count; v++) {
        bench->means[v] = calloc(sets, sizeof(double));
        bench->paired[v] = calloc((size_t)sets * pairs, sizeof(double));
        good = bench->means[v] && bench->paired[v] && good;
    }
    return good ? 0 : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
}

int bench_agree(const struct agree_config *config, struct progress *progress,
                struct agree_result *out)
{
    struct bench bench = {.config = config, .bytes = FLOOR_BYTES};
    char name[32], shape[32] = "knomial:2";
    if (config->arity)
        snprintf(shape, sizeof shape, "kary:%" PRIu32, config->arity);
    snprintf(name, sizeof name, "bench-%d", (int)getpid());
    const struct keeper_config keeper = {.n = config->n,
                                         .shape = shape,
                                         .quorum = "majority",
                                         .tcp = config->tcp,
                                         .insecure = true,
                                         .is_private = true};
    *out = (struct agree_result){0};
    int code = make_room(&bench);
    if (code == 0)
        code = local_up(name, &keeper);
    if (code == 0) {
        code = measure(name, &bench, progress, out);
        int end = local_down(name);
        code = code ? code : end;
    }
    free(bench.floor);
    for (uint32_t v = 0; v < AGREE_VARIANTS_MAX; v++) {
        free(bench.means[v]);
        free(bench.paired[v]);
    }
    return code;
}
