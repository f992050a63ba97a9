/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stream.h"

#include "bench/chorus.h"
#include "bench/floor.h"
#include "term/commands.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_S 180
/* A wave of an 8-byte sum is so long, with its header and record. */
#define MESSAGE_BYTES 120u

struct front {
    const struct stream_config *config;
    struct chorus chorus;
    struct floor *blocking, *epoll;
    uint64_t streams; /* opened so far */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* With the mutex. */
    uint64_t wave;
    cop_time asked_ns, last_ns;
    uint64_t *trips_ns; /* of the round trips: as many as were made */
    uint32_t trips;
    cop_time sent_ns;
    bool is_done;
    int status;
};

static uint32_t packet_of(cop_id id, uint64_t wave, uint8_t *out)
{
    uint64_t value = id + wave;
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (8 * i));
    return 8;
}

/* ---- on the library's thread ----------------------------------------------------- */

static void send_down(struct front *front, struct cop_run *run, uint64_t stream)
{
    front->sent_ns = now_ns();
    int error = cop_stream_multicast(run, stream, &front->sent_ns, 8);
    if (error) {
        front->status = error;
        front->is_done = true;
    }
}

/* The first is made when all are there, and is not counted. */
static void on_trip(struct front *front, struct cop_run *run, uint64_t stream,
                    uint64_t wave)
{
    if (front->sent_ns != 0 && wave == front->wave)
        return; /* the same, once more */
    if (wave > 1 && front->trips < front->config->trips)
        front->trips_ns[front->trips++] = now_ns() - front->sent_ns;
    if (front->trips == front->config->trips)
        front->is_done = true;
    else
        send_down(front, run, stream);
}

static void on_told(void *context, struct cop_run *run, uint64_t stream,
                    const struct cop_stream_event *event)
{
    struct front *front = context;
    pthread_mutex_lock(&front->mutex);
    if (event->kind == COP_STREAM_CLOSED) {
        front->status = event->status ? event->status : COP_ESTATE;
        front->is_done = true;
    } else if (event->kind == COP_STREAM_OUTPUT && event->complete && !front->is_done) {
        if (stream % 3 == CHORUS_ANSWER)
            on_trip(front, run, stream, event->wave);
        front->last_ns = now_ns();
        front->wave = event->wave;
        if (stream % 3 != CHORUS_ANSWER && event->wave >= front->config->waves)
            front->is_done = true;
    }
    if (front->is_done)
        pthread_cond_signal(&front->changed);
    pthread_mutex_unlock(&front->mutex);
}

/* ---- one turn -------------------------------------------------------------------- */

static int wait_until_done(struct front *front)
{
    struct timespec until;
    int late = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&front->mutex);
    while (!front->is_done && late == 0)
        late = pthread_cond_timedwait(&front->changed, &front->mutex, &until);
    int status = front->is_done ? front->status : COP_ETIMEDOUT;
    uint64_t wave = front->wave;
    pthread_mutex_unlock(&front->mutex);
    return status
               ? fail(EXIT_FAILED, "bench: the stream ended after wave %" PRIu64 ": %s",
                      wave, cop_strerror(status))
               : 0;
}

static int run_turn(struct front *front, enum chorus_way way)
{
    struct cop_stream_options options = {.number = 3 * ++front->streams + way,
                                         .network = front->streams * 3 + way,
                                         .filter = "sum",
                                         .type = "u64",
                                         .flags = COP_STREAM_LEAVES,
                                         .window = front->config->window};
    front->wave = front->sent_ns = 0;
    front->trips = 0;
    front->is_done = false;
    front->status = 0;
    front->asked_ns = now_ns();
    int error = cop_stream_open(front->chorus.run, &options, on_told, front, NULL);
    if (error)
        return fail(EXIT_FAILED, "bench: no stream: %s", cop_strerror(error));
    int code = wait_until_done(front);
    cop_stream_close(front->chorus.run, options.number);
    return code;
}

/* From the moment the stream was asked for: outputs are told in batches, so that the first may
 * come a moment before the last. */
static double rate_of(const struct front *front)
{
    double seconds = (double)(front->last_ns - front->asked_ns) / 1e9;
    return seconds > 0 ? (double)front->wave / seconds : 0;
}

static int run_floor(struct floor *floor, uint32_t trips, uint64_t *times, double *out)
{
    for (uint32_t i = 0; i < trips; i++)
        if (floor_turn(floor, &times[i]) != 0)
            return fail(EXIT_FAILED, "bench: the floor broke: %s", strerror(errno));
    *out = median_time(times, trips);
    return 0;
}

struct rows {
    double burst[BENCH_ROUNDS_MAX], flush[BENCH_ROUNDS_MAX], trip[BENCH_ROUNDS_MAX],
        blocking[BENCH_ROUNDS_MAX], epoll[BENCH_ROUNDS_MAX],
        over_blocking[BENCH_ROUNDS_MAX], over_epoll[BENCH_ROUNDS_MAX];
};

static int run_round(struct front *front, struct rows *rows, uint32_t i)
{
    uint32_t trips = front->config->trips;
    int code = run_turn(front, CHORUS_BURST);
    rows->burst[i] = rate_of(front);
    if (code == 0)
        code = run_turn(front, CHORUS_FLUSH);
    rows->flush[i] = rate_of(front);
    if (code == 0)
        code = run_floor(front->blocking, trips, front->trips_ns, &rows->blocking[i]);
    if (code == 0)
        code = run_turn(front, CHORUS_ANSWER);
    if (code)
        return code;
    rows->trip[i] = median_time(front->trips_ns, trips);
    code = run_floor(front->epoll, trips, front->trips_ns, &rows->epoll[i]);
    rows->over_blocking[i] = rows->trip[i] / rows->blocking[i];
    rows->over_epoll[i] = rows->trip[i] / rows->epoll[i];
    return code;
}

/* ---- all of it ------------------------------------------------------------------- */

static int open_floor(enum floor_kind kind, uint32_t n, uint32_t k, struct floor **out)
{
    struct floor_config config = {.kind = kind,
                                  .transport = FLOOR_TCP,
                                  .n = n,
                                  .k = k,
                                  .bytes = MESSAGE_BYTES,
                                  .repetitions = 1};
    char message[160];
    if (floor_open(&config, out, message, sizeof message) == 0)
        return 0;
    return fail(EXIT_FAILED, "bench: %s", message);
}

/* The floors are forked before there is a thread. */
static int open_all(struct front *front, uint32_t n)
{
    uint32_t k = front->config->fan_out;
    char shape[32];
    struct chorus_config chorus = {.n = n,
                                   .self = 0,
                                   .shape = shape,
                                   .waves = front->config->waves,
                                   .packet = packet_of,
                                   .opener = COP_ID_NONE};
    snprintf(shape, sizeof shape, "kary:%" PRIu32, k);
    int code = open_floor(FLOOR_BLOCKING, n, k, &front->blocking);
    if (code == 0)
        code = open_floor(FLOOR_EPOLL, n, k, &front->epoll);
    return code ? code : chorus_open(&front->chorus, &chorus);
}

static void summarize_all(struct rows *rows, uint32_t rounds, struct stream_result *out)
{
    out->burst = summarize(rows->burst, rounds);
    out->flush = summarize(rows->flush, rounds);
    out->trip_ns = summarize(rows->trip, rounds);
    out->blocking_ns = summarize(rows->blocking, rounds);
    out->epoll_ns = summarize(rows->epoll, rounds);
    out->over_blocking = summarize(rows->over_blocking, rounds);
    out->over_epoll = summarize(rows->over_epoll, rounds);
    out->bytes = MESSAGE_BYTES;
}

static int measure(struct front *front, struct rows *rows, struct progress *progress)
{
    uint32_t rounds = front->config->rounds;
    int code = 0;
    for (uint32_t i = 0; i < rounds && code == 0; i++) {
        progress_show(progress, "rounds", i, rounds);
        code = run_round(front, rows, i);
    }
    return code;
}

int bench_stream(const struct stream_config *config, struct progress *progress,
                 struct stream_result *out)
{
    struct front *front = calloc(1, sizeof *front);
    struct rows *rows = calloc(1, sizeof *rows);
    uint64_t *trips = calloc(config->trips, sizeof *trips);
    uint32_t k = config->fan_out;
    int code = EXIT_FAILED;
    out->n = 1 + k + k * k;
    if (front == NULL || rows == NULL || trips == NULL) {
        complain("%s", cop_strerror(COP_ENOMEM));
    } else {
        front->config = config;
        front->trips_ns = trips;
        pthread_mutex_init(&front->mutex, NULL);
        pthread_cond_init(&front->changed, NULL);
        code = open_all(front, out->n);
        if (code == 0) {
            code = measure(front, rows, progress);
            chorus_close(&front->chorus);
        }
        if (front->blocking != NULL)
            floor_close(front->blocking);
        if (front->epoll != NULL)
            floor_close(front->epoll);
        pthread_mutex_destroy(&front->mutex);
        pthread_cond_destroy(&front->changed);
    }
    if (code == 0)
        summarize_all(rows, config->rounds, out);
    free(front);
    free(rows);
    free(trips);
    return code;
}
