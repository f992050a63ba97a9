/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a stream needs to be whole again after an inner process was killed. The tree has two
 * levels: the root has k children, of which the first has k children of its own. That one is
 * killed, so there are k orphans, and the others can take them. Back-ends give all the while, so
 * that mending shares the processors with as many waves as these can carry; or, at rest, one packet
 * for each that comes down, of which the first after the kill is sent with it.
 */
#include "bench/chorus.h"
#include "bench/stream.h"
#include "term/commands.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_S 180
#define VICTIM 1u
/* Waves before the kill; and how far back-ends may be ahead, so that a new wave is soon out. */
#define WAVES_BEFORE 20u
#define WAVES_AT_REST_MAX 1000u
#define WINDOW 4u
/* Of a stream to which back-ends give one packet for each that comes down. */
#define ANSWERED (3u + CHORUS_ANSWER)
/* Clusters in which all orphans were elsewhere already. */
#define TRIES_MAX 5

struct watch {
    struct chorus chorus;
    bool at_rest;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* With the mutex. */
    uint64_t wave; /* the last that was complete */
    uint64_t last; /* the last of all */
    uint64_t told; /* how often something was */
    uint64_t
        after; /* a complete one from here on was given after the kill; 0: no kill yet */
    cop_time whole_ns;
    int status;
};

static uint32_t packet_of(cop_id id, uint64_t wave, uint8_t *out)
{
    uint64_t value = id + wave;
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (8 * i));
    return 8;
}

static void on_told(void *context, struct cop_run *run, uint64_t stream,
                    const struct cop_stream_event *event)
{
    struct watch *watch = context;
    (void)run, (void)stream;
    pthread_mutex_lock(&watch->mutex);
    watch->told++;
    if (event->kind == COP_STREAM_CLOSED)
        watch->status = event->status ? event->status : COP_ESTATE;
    if (event->kind == COP_STREAM_OUTPUT && event->wave > watch->last)
        watch->last = event->wave;
    if (event->kind == COP_STREAM_OUTPUT && event->complete) {
        watch->wave = event->wave;
        if (watch->after != 0 && event->wave >= watch->after && watch->whole_ns == 0)
            watch->whole_ns = now_ns();
    }
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
}

static bool is_whole(const struct watch *watch, uint64_t ignored)
{
    (void)ignored;
    return watch->whole_ns != 0;
}
static bool has_wave(const struct watch *watch, uint64_t wave)
{
    return watch->wave >= wave;
}
static bool has_any(const struct watch *watch, uint64_t wave)
{
    return watch->last >= wave;
}

static bool has_news(const struct watch *watch, uint64_t told)
{
    return watch->told > told;
}

static int wait_until(struct watch *watch,
                      bool (*is_there)(const struct watch *, uint64_t), uint64_t wave)
{
    struct timespec until;
    int late = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&watch->mutex);
    while (watch->status == 0 && late == 0 && !is_there(watch, wave))
        late = pthread_cond_timedwait(&watch->changed, &watch->mutex, &until);
    int status = late ? COP_ETIMEDOUT : watch->status;
    uint64_t complete = watch->wave, last = watch->last;
    pthread_mutex_unlock(&watch->mutex);
    return status ? fail(EXIT_FAILED,
                         "bench: the stream ended after wave %" PRIu64
                         ", the last complete one was %" PRIu64 ": %s",
                         last, complete, cop_strerror(status))
                  : 0;
}

/* One packet down, which all answer. Loaded: they need none. */
static int ask_all(struct watch *watch)
{
    int error = watch->at_rest ? COP_EAGAIN : 0, code = 0;
    while (error == COP_EAGAIN && code == 0) {
        pthread_mutex_lock(&watch->mutex);
        uint64_t told = watch->told;
        pthread_mutex_unlock(&watch->mutex);
        error = cop_stream_multicast(watch->chorus.run, ANSWERED, "", 1);
        /* Those who came late have yet to say what they have. */
        if (error == COP_EAGAIN)
            code = wait_until(watch, has_news, told);
    }
    if (code)
        return code;
    return error ? fail(EXIT_FAILED, "bench: no packet down: %s", cop_strerror(error))
                 : 0;
}

static bool was_complete(struct watch *watch, uint64_t wave)
{
    pthread_mutex_lock(&watch->mutex);
    bool was = watch->wave == wave;
    pthread_mutex_unlock(&watch->mutex);
    return was;
}

/*
 * Each question makes one wave. The first may go by without those who come late to the stream (T13);
 * no more is asked for it, for nobody would answer twice.
 */
static int warm_up(struct watch *watch)
{
    int code = 0;
    if (!watch->at_rest)
        return wait_until(watch, has_wave, WAVES_BEFORE);
    for (uint64_t asked = 1, complete = 0; complete < WAVES_BEFORE && code == 0;
         asked++) {
        if (asked > WAVES_AT_REST_MAX)
            return fail(EXIT_FAILED, "bench: waves are not complete");
        code = ask_all(watch);
        if (code == 0)
            code = wait_until(watch, has_any, asked);
        complete = was_complete(watch, asked) ? complete + 1 : 0;
    }
    return code;
}

/* What was given is looked at between the kill and the end of the process, which others may have
 * noticed long before it is told here. */
static int strike(struct watch *watch, uint32_t n, cop_time *out)
{
    uint64_t most = 0;
    *out = now_ns();
    chorus_strike(&watch->chorus, VICTIM);
    for (cop_id id = 0; id < n; id++)
        if (chorus_given(&watch->chorus, id) > most)
            most = chorus_given(&watch->chorus, id);
    pthread_mutex_lock(&watch->mutex);
    /* At rest the next is asked for after the kill; a back-end whose first packet was of a later
     * wave may have given more than the others. */
    watch->after = (watch->at_rest ? watch->wave : most) + 1;
    pthread_mutex_unlock(&watch->mutex);
    int code = ask_all(watch);
    chorus_kill(&watch->chorus, VICTIM);
    return code;
}

/*
 * Means over the orphans. On a busy machine some may have found a place elsewhere before: these
 * have lost nobody. False: all of them have.
 */
static bool read_parts(const struct watch *watch, uint32_t k, cop_time at,
                       double *parts)
{
    double sums[RECOVERY_CONNECT + 1] = {0};
    cop_time last = 0;
    uint32_t orphans = 0;
    for (cop_id id = k + 1; id <= 2 * k; id++) {
        const struct chorus_note *note = &watch->chorus.notes[id];
        cop_time lost = atomic_load(&note->lost), asked = atomic_load(&note->asked),
                 adopted = atomic_load(&note->adopted);
        if (lost < at || asked < lost || adopted < asked)
            continue;
        sums[RECOVERY_NOTICE] += (double)(lost - at);
        sums[RECOVERY_CHOOSE] += (double)(asked - lost);
        sums[RECOVERY_CONNECT] += (double)(adopted - asked);
        last = adopted > last ? adopted : last;
        orphans++;
    }
    for (int part = 0; part <= RECOVERY_CONNECT && orphans > 0; part++)
        parts[part] = sums[part] / orphans;
    parts[RECOVERY_ALL] = (double)(watch->whole_ns - at);
    parts[RECOVERY_STATE] =
        watch->whole_ns > last ? (double)(watch->whole_ns - last) : 0;
    return orphans > 0;
}

static int run_kill(struct watch *watch, uint32_t k, double *parts, bool *is_measured)
{
    struct cop_stream_options options = {.number =
                                             watch->at_rest ? ANSWERED : CHORUS_STREAM,
                                         .filter = "sum",
                                         .type = "u64",
                                         .flags = COP_STREAM_LEAVES,
                                         .window = WINDOW};
    int error = cop_stream_open(watch->chorus.run, &options, on_told, watch, NULL);
    if (error)
        return fail(EXIT_FAILED, "bench: no stream: %s", cop_strerror(error));
    cop_time at = 0;
    int code = warm_up(watch);
    if (code == 0)
        code = strike(watch, 2 * k + 1, &at);
    if (code == 0)
        code = wait_until(watch, is_whole, 0);
    /* Each orphan notes its times before it answers; or when it gets credit, a few waves later. */
    if (code == 0 && !watch->at_rest)
        code = wait_until(watch, has_wave, watch->after + WAVES_BEFORE);
    *is_measured = code == 0 && read_parts(watch, k, at, parts);
    return code;
}

static int run_cluster(const struct recovery_config *config, double *parts,
                       bool *is_measured)
{
    struct watch *watch = calloc(1, sizeof *watch);
    char shape[32];
    struct chorus_config chorus = {.n = 2 * config->fan_out + 1,
                                   .self = 0,
                                   .shape = shape,
                                   .key_file = config->key_file,
                                   .waves = UINT64_MAX,
                                   .is_struck = config->at_rest,
                                   .packet = packet_of,
                                   .opener = COP_ID_NONE};
    if (watch == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    watch->at_rest = config->at_rest;
    snprintf(shape, sizeof shape, "kary:%" PRIu32, config->fan_out);
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_cond_init(&watch->changed, NULL);
    int code = chorus_open(&watch->chorus, &chorus);
    if (code == 0) {
        code = run_kill(watch, config->fan_out, parts, is_measured);
        chorus_close(&watch->chorus);
    }
    pthread_mutex_destroy(&watch->mutex);
    pthread_cond_destroy(&watch->changed);
    free(watch);
    return code;
}

/* The values are sorted by then. */
static double at_99(const double *values, uint32_t count)
{
    return values[((uint64_t)(count - 1) * 99 + 50) / 100];
}

int bench_recovery(const struct recovery_config *config, struct progress *progress,
                   struct recovery_result *out)
{
    double *values[RECOVERY_PARTS] = {0};
    int code = 0;
    *out = (struct recovery_result){.n = 2 * config->fan_out + 1};
    for (int part = 0; part < RECOVERY_PARTS && code == 0; part++) {
        values[part] = calloc(config->kills, sizeof **values);
        if (values[part] == NULL)
            code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    for (uint32_t i = 0; i < config->kills && code == 0; i++) {
        double parts[RECOVERY_PARTS] = {0};
        bool is_measured = false;
        progress_show(progress, "kills", i, config->kills);
        for (int tries = 0; code == 0 && !is_measured; tries++)
            code = tries < TRIES_MAX
                       ? run_cluster(config, parts, &is_measured)
                       : fail(EXIT_FAILED, "bench: nobody is below the one that dies");
        for (int part = 0; part < RECOVERY_PARTS; part++)
            values[part][i] = parts[part];
    }
    out->kills = config->kills;
    for (int part = 0; part < RECOVERY_PARTS; part++) {
        if (code == 0) {
            out->ns[part] = summarize(values[part], config->kills);
            out->p99_ns[part] = at_99(values[part], config->kills);
        }
        free(values[part]);
    }
    return code;
}
