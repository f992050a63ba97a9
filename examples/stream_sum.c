/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream: the members at the bottom of a tree give one number after the other, those above
 * add them up, and one of them, the front-end, gets the sum of all. Whoever only adds may be
 * killed, the root of the tree too: the sum stays exact.
 *
 *   stream_sum INSTANCE SELF FRONT WAVES PAUSE_MS ADDRESS...
 *
 * FRONT is the number of the member that is the front-end. It takes a pause after each sum
 * that it has got, and because of that everybody else has to: nobody is ahead of it by more
 * than the window.
 */
#include <coppice/coppice.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STREAM 1
#define WINDOW 8

struct member {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_over;
    cop_id front;
    uint64_t waves, begins, given; /* touched by callbacks only */
};

static uint64_t value_of(cop_id id, uint64_t wave) { return 1000 * id + wave; }

/* ---- a back-end ------------------------------------------------------------------ */

static void end(struct member *member)
{
    pthread_mutex_lock(&member->mutex);
    member->is_over = true;
    pthread_cond_signal(&member->changed);
    pthread_mutex_unlock(&member->mutex);
}

/* The front-end ends when it has everything, and may take the news of that along. */
static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct member *member = context;
    (void)run;
    (void)old;
    if (cop_view_rank(now, member->front) == COP_RANK_NONE)
        end(member);
}

static void on_stream(void *context, struct cop_run *run, uint64_t stream,
                      const struct cop_stream_event *event)
{
    struct member *member = context;
    if (event->kind == COP_STREAM_CLOSED) {
        end(member);
        return;
    }
    if (event->kind == COP_STREAM_OPENED)
        member->begins = event->wave;
    while (member->given < member->waves) {
        /* Who comes late, when waves have gone by without it, makes up for them at first. */
        uint64_t value = 0, last = member->given + 1;
        if (last <= member->begins)
            last = member->begins + 1;
        for (uint64_t k = member->given + 1; k <= last; k++)
            value += value_of(cop_self(run), k);
        if (cop_stream_send(run, stream, &value, sizeof value) != 0)
            return; /* there is no room: this is called again when there is */
        member->given = last;
    }
}

/* ---- the front-end --------------------------------------------------------------- */

/* What the members at the bottom of the tree must have given by then. */
static uint64_t expected(const struct cop_view *start, uint64_t wave)
{
    struct cop_tree tree = {.shape = *cop_view_shape(start),
                            .n = cop_view_size(start),
                            .root = cop_view_root(start)};
    uint64_t sum = 0;
    for (cop_id id = 0; id < tree.n; id++)
        for (uint64_t k = 1; k <= wave && cop_tree_child_count(&tree, id) == 0; k++)
            sum += value_of(id, k);
    return sum;
}

static int take_all(struct cop_run *run, const struct cop_view *start, uint64_t waves,
                    unsigned long pause_ms)
{
    struct timespec pause = {0, (long)(pause_ms * 1000000)};
    struct cop_stream_options options = {.number = STREAM,
                                         .filter = "sum",
                                         .type = "u64",
                                         .flags = COP_STREAM_LEAVES,
                                         .window = WINDOW};
    struct cop_stream_output output;
    uint64_t wave = 0;
    int error = cop_stream_open(run, &options, NULL, NULL, NULL);
    while (error == 0 && wave < waves) {
        error = cop_stream_wait(run, STREAM, 60 * COP_SEC, &output);
        if (error)
            break;
        uint64_t sum = cop_filter_get_u64(output.result->data);
        /* Transient: somebody who lives is not in it just now, or is in it twice. */
        if (output.event.complete)
            wave = output.event.wave;
        printf("wave %" PRIu64 ": %" PRIu64 "%s\n", output.event.wave, sum,
               output.event.complete ? "" : ", transient");
        if (output.event.complete && sum != expected(start, wave))
            error = COP_EBUG;
        cop_stream_output_free(&output);
        nanosleep(&pause, NULL);
    }
    if (error == 0)
        printf("done: all %" PRIu64 " waves, to the unit\n", waves);
    else
        printf("wave %" PRIu64 ": %s\n", wave, cop_strerror(error));
    cop_stream_close(run, STREAM);
    return error ? 1 : 0;
}

static void wait_for_end(struct member *member)
{
    pthread_mutex_lock(&member->mutex);
    while (!member->is_over)
        pthread_cond_wait(&member->changed, &member->mutex);
    pthread_mutex_unlock(&member->mutex);
}

int main(int argc, char **argv)
{
    struct cop_run *run;
    struct cop_view *view;
    char why[200];
    if (argc < 7) {
        fprintf(stderr,
                "usage: stream_sum INSTANCE SELF FRONT WAVES PAUSE_MS ADDRESS...\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct member member = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER,
                            .front = (cop_id)strtoul(argv[3], NULL, 10),
                            .waves = strtoull(argv[4], NULL, 10)};
    struct cop_settings settings = {
        .size = sizeof settings,
        .cluster = "stream",
        .instance = strtoull(argv[1], NULL, 10),
        .self = (cop_id)strtoul(argv[2], NULL, 10),
        .addresses = (const char *const *)argv + 6,
        .count = (uint32_t)argc - 6,
        .shape = "kary:2",
        .quorum = "none", /* those who are left when the front-end ends may be few */
        .insecure = true,
        .context = &member,
        .on_view = on_view,
        .on_stream = on_stream,
    };
    if (cop_start_thread(&settings, &run, why, sizeof why) != 0) {
        fprintf(stderr, "stream_sum: %s\n", why);
        return 1;
    }
    int code = 1;
    int error = cop_view_wait(run, 0, 60 * COP_SEC, &view);
    if (error) {
        fprintf(stderr, "stream_sum: %s\n", cop_strerror(error));
    } else {
        printf("n%u is there\n", (unsigned)cop_self(run));
        code = settings.self == member.front
                   ? take_all(run, view, member.waves, strtoul(argv[5], NULL, 10))
                   : 0;
        wait_for_end(&member);
        cop_view_unref(view);
    }
    cop_free(run);
    return code;
}
