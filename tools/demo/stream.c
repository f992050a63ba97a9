/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/stream.h"

#include "term/commands.h"
#include "term/say.h"
#include "trial/trial.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * Half of the waves come before the kill, slowly enough that the other services have their time;
 * and if these are not ready yet, no more than some come until they are.
 */
#define WAVES 300u
#define WINDOW 16u
#define PAUSE_NS 5000000L /* after each wave before the kill */

/* From the process that runs the stream, in one piece each. */
enum event_kind { EVENT_WAVE, EVENT_ASKS, EVENT_OVER };
struct event {
    enum event_kind kind;
    int code;      /* OVER */
    bool is_exact; /* OVER; of WAVE: complete */
    cop_time at_ns, took_ns;
    uint64_t waves, total, expected, misaligned;
};

/* ---- the process that runs it ---------------------------------------------------- */

struct ends {
    int events, words;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool may_go_on; /* the kill is due */
};

/* Whoever does not listen any more is gone, and this process is about to be. */
static void tell(const struct ends *ends, const struct event *event)
{
    ssize_t written;
    do
        written = write(ends->events, event, sizeof *event);
    while (written < 0 && errno == EINTR);
}

static void await_word(const struct ends *ends)
{
    char word;
    ssize_t got;
    do
        got = read(ends->words, &word, 1);
    while (got < 0 && errno == EINTR);
    if (got != 1)
        _exit(EXIT_FAILED);
}

/* On the front-end's own thread: whoever is slow to take has everybody else wait. */
static void hold_back(struct ends *ends, uint64_t wave)
{
    const struct timespec pause = {0, PAUSE_NS};
    pthread_mutex_lock(&ends->mutex);
    while (!ends->may_go_on && wave >= WAVES / 2 + WINDOW)
        pthread_cond_wait(&ends->changed, &ends->mutex);
    bool may_go_on = ends->may_go_on;
    pthread_mutex_unlock(&ends->mutex);
    if (!may_go_on)
        nanosleep(&pause, NULL);
}

static void on_wave(void *context, uint64_t wave, uint64_t total, bool is_complete)
{
    const struct event event = {.kind = EVENT_WAVE,
                                .is_exact = is_complete,
                                .at_ns = now_ns(),
                                .waves = wave,
                                .total = total};
    tell(context, &event);
    hold_back(context, wave);
}

static void on_kill(void *context, const char *what, uint64_t wave)
{
    const struct event event = {.kind = EVENT_ASKS, .at_ns = now_ns(), .waves = wave};
    struct ends *ends = context;
    (void)what;
    tell(ends, &event);
    await_word(ends);
    pthread_mutex_lock(&ends->mutex);
    ends->may_go_on = true;
    pthread_cond_signal(&ends->changed);
    pthread_mutex_unlock(&ends->mutex);
}

_Noreturn static void run_child(uint32_t n, const char *kills, struct ends *ends)
{
    struct trial_result result;
    const struct trial_config config = {.kind = TRIAL_SUM,
                                        .n = n,
                                        .arity = 4,
                                        .waves = WAVES,
                                        .window = WINDOW,
                                        .kills = kills,
                                        .on_wave = on_wave,
                                        .on_kill = on_kill,
                                        .context = ends};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    await_word(ends);
    struct event event = {.kind = EVENT_OVER, .code = trial_run(&config, &result)};
    if (event.code == 0) {
        event.is_exact = result.is_exact;
        event.waves = result.wave;
        event.total = result.total;
        event.expected = result.expected;
        event.misaligned = result.misaligned;
        event.took_ns = result.kills[0].took_ns;
    }
    tell(ends, &event);
    _exit(event.code);
}

int demo_stream_fork(uint32_t n, const struct demo_victims *victims,
                     struct demo_stream *out)
{
    int events[2], words[2];
    char kills[64];
    const cop_id *ids = victims->ids;
    snprintf(kills, sizeof kills, "%u+%u+%u+%u", ids[0], ids[1], ids[2], ids[3]);
    if (pipe2(events, O_CLOEXEC) != 0)
        return fail(EXIT_FAILED, "pipe: %s", strerror(errno));
    pid_t child = pipe2(words, O_CLOEXEC) == 0 ? fork() : -1;
    if (child < 0)
        return fail(EXIT_FAILED, "fork: %s", strerror(errno));
    if (child == 0) {
        struct ends ends = {.events = events[1],
                            .words = words[0],
                            .mutex = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
        close(events[0]);
        close(words[1]);
        run_child(n, kills, &ends);
    }
    close(events[1]);
    close(words[0]);
    *out = (struct demo_stream){.child = child, .events = events[0], .words = words[1]};
    return 0;
}

/* ---- the one that looks on ------------------------------------------------------- */

int demo_stream_go(struct demo_stream *stream)
{
    if (write(stream->words, "g", 1) == 1)
        return 0;
    return fail(EXIT_FAILED, "the stream is gone: %s", strerror(errno));
}

/* What is shown of a wave is the time since the one before it. */
static int push(struct demo_stream *stream, cop_time at)
{
    if (stream->count == stream->capacity) {
        uint32_t capacity = stream->capacity * 2 + 256;
        struct demo_op *ops = realloc(stream->ops, capacity * sizeof *ops);
        if (ops == NULL)
            return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
        stream->ops = ops;
        stream->capacity = capacity;
    }
    if (stream->last_ns != 0)
        stream->ops[stream->count++] = (struct demo_op){
            .at_ns = stream->last_ns, .elapsed_ns = at - stream->last_ns};
    stream->last_ns = at;
    return 0;
}

static void note_end(struct demo_stream *stream, const struct event *event)
{
    stream->is_over = true;
    stream->code = event->code;
    stream->is_exact = event->is_exact;
    stream->waves = event->waves;
    stream->total = event->total;
    stream->expected = event->expected;
    stream->misaligned = event->misaligned;
    stream->took_ns = event->took_ns;
}

int demo_stream_take(struct demo_stream *stream)
{
    struct event event;
    ssize_t got = read(stream->events, &event, sizeof event);
    if (got < 0 && errno == EINTR)
        return 0;
    if (got != (ssize_t)sizeof event)
        return fail(EXIT_FAILED, "the stream has ended before its time");
    if (event.kind == EVENT_ASKS)
        stream->is_asking = true;
    if (event.kind == EVENT_OVER)
        note_end(stream, &event);
    /* Why has been said, by the other process. */
    if (event.kind == EVENT_OVER && event.code != 0)
        return EXIT_FAILED;
    return event.kind == EVENT_WAVE && event.is_exact ? push(stream, event.at_ns) : 0;
}

void demo_stream_claim(const struct demo_stream *stream, uint32_t n, cop_time killed_ns,
                       struct demo_claim *out)
{
    struct demo_claim claim = {.name = "stream",
                               .is_kept = stream->is_exact && stream->misaligned == 0 &&
                                          stream->took_ns > 0,
                               .healed_ns = stream->took_ns,
                               .count = stream->count,
                               .ops = stream->ops};
    for (uint32_t i = 0; i < stream->count; i++)
        if (stream->ops[i].at_ns + stream->ops[i].elapsed_ns >= killed_ns &&
            stream->ops[i].elapsed_ns > claim.slowest_ns)
            claim.slowest_ns = stream->ops[i].elapsed_ns;
    if (stream->took_ns == 0)
        snprintf(claim.text, sizeof claim.text, "no wave was whole after the kill");
    else if (!claim.is_kept)
        snprintf(claim.text, sizeof claim.text,
                 "the sum is %" PRIu64 " and should be %" PRIu64
                 "; of the waves %" PRIu64 " are wrong",
                 stream->total, stream->expected, stream->misaligned);
    else
        snprintf(claim.text, sizeof claim.text,
                 "%" PRIu64 " waves of %" PRIu32
                 " processes of its own: the sum is exact, %" PRIu64,
                 stream->waves, n, stream->total);
    *out = claim;
}

void demo_stream_free(struct demo_stream *stream)
{
    if (stream->child > 0) {
        close(stream->events);
        close(stream->words);
        if (!stream->is_over)
            kill(stream->child, SIGKILL);
        while (waitpid(stream->child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    free(stream->ops);
    *stream = (struct demo_stream){.events = -1, .words = -1};
}
