/* SPDX-License-Identifier: Apache-2.0 */
#include "run_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ABSURD_MS 30000

static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct player *player = context;
    struct cop_view_change change;
    uint64_t at = 0;
    player->views++;
    assert_true(cop_view_epoch(now) > player->epoch);
    player->epoch = cop_view_epoch(now);
    player->size = cop_view_size(now);
    player->has_old = old != NULL;
    while (old != NULL && cop_view_compare(old, now, &at, &change)) {
        player->joined += change.kind == COP_VIEW_JOINED;
        player->left += change.kind == COP_VIEW_LEFT;
        player->returned += change.kind == COP_VIEW_RETURNED;
        player->replaced += change.kind == COP_VIEW_REPLACED;
        if (change.kind == COP_VIEW_REPLACED)
            player->replaced_by = change.new_worker;
    }
    if (player->on_view != NULL)
        player->on_view(player, run);
}

static void on_degraded(void *context, struct cop_run *run, bool is_degraded)
{
    struct player *player = context;
    assert_int_equal(cop_is_degraded(run), is_degraded);
    player->degraded += is_degraded;
    player->recovered += !is_degraded;
}

static void on_message(void *context, struct cop_run *run,
                       const struct cop_message *message)
{
    struct player *player = context;
    struct cop_view *view = cop_view_current(run);
    /* Same-view delivery: the sender is in the view that was told last. */
    assert_int_equal(cop_view_epoch(view), player->epoch);
    assert_true(cop_view_has(view, message->from, message->incarnation));
    cop_view_unref(view);
    player->messages++;
    player->from = message->from;
    snprintf(player->message, sizeof player->message, "%.*s", (int)message->length,
             message->length ? (const char *)message->bytes : "");
}

static void on_suspicion(void *context, struct cop_run *run,
                         const struct cop_suspicion *suspicion)
{
    struct player *player = context;
    (void)run;
    player->suspicions++;
    player->removals += suspicion->outcome == COP_OUTCOME_REMOVED;
    if (suspicion->outcome == COP_OUTCOME_PENDING)
        player->undecided++;
    else if (player->undecided > 0)
        player->undecided--;
}

static void on_out(void *context, struct cop_run *run, int why)
{
    struct player *player = context;
    (void)run;
    player->out.count++;
    player->out.status = why;
}

static void on_log(void *context, enum cop_log_level level, const char *line)
{
    struct player *player = context;
    assert_true(level <= COP_LOG_INFO && line[0] != '\0');
    player->lines++;
}

struct runs *runs_create(void)
{
    struct runs *runs = calloc(1, sizeof *runs);
    assert_non_null(runs);
    char folder[] = "/tmp/coprun.XXXXXX";
    assert_non_null(mkdtemp(folder));
    strcpy(runs->folder, folder);
    for (int i = 0; i < RUNS; i++) {
        /* From a copy: gcc cannot tell that two arrays of one object do not overlap. */
        snprintf(runs->texts[i], sizeof runs->texts[i], "unix:%s/m%d", folder, i);
        runs->addresses[i] = runs->texts[i];
    }
    return runs;
}

void runs_free(struct runs *runs, uint32_t i)
{
    cop_free(runs->players[i].run);
    runs->players[i].run = NULL;
}

void runs_destroy(struct runs *runs)
{
    for (uint32_t i = 0; i < RUNS; i++)
        runs_free(runs, i);
    /* Every socket is gone, or this fails. */
    assert_int_equal(rmdir(runs->folder), 0);
    free(runs);
}

static struct cop_settings with_callbacks(struct player *player)
{
    return (struct cop_settings){.size = sizeof(struct cop_settings),
                                 .context = player,
                                 .on_view = on_view,
                                 .on_degraded = on_degraded,
                                 .on_message = on_message,
                                 .on_suspicion = on_suspicion,
                                 .on_out = on_out,
                                 .on_log = on_log,
                                 .log_level = COP_LOG_INFO};
}

struct cop_settings runs_settings(struct runs *runs, uint32_t i, uint32_t n)
{
    struct cop_settings settings = with_callbacks(&runs->players[i]);
    settings.cluster = "test";
    settings.instance = 7;
    settings.addresses = runs->addresses;
    settings.count = n;
    settings.self = i;
    return settings;
}

struct cop_settings runs_joiner(struct runs *runs, uint32_t i, const char *name)
{
    struct cop_settings settings = with_callbacks(&runs->players[i]);
    settings.contact = runs->addresses[0];
    settings.name = name;
    return settings;
}

void runs_start(struct runs *runs, uint32_t i, const struct cop_settings *settings)
{
    char why[200];
    int error = cop_start(settings, &runs->players[i].run, why, sizeof why);
    if (error)
        fail_msg("%s: %s", cop_strerror(error), why);
}

void runs_start_all(struct runs *runs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct cop_settings settings = runs_settings(runs, i, n);
        runs_start(runs, i, &settings);
    }
}

static bool is_on_loop(const struct player *player)
{
    return player->run != NULL && !player->is_asleep && cop_fd(player->run) >= 0 &&
           cop_state(player->run) != COP_RUN_OVER;
}

/* One wait for all, and whoever has something to do does it. */
static void turn(struct runs *runs)
{
    struct pollfd fds[RUNS];
    for (int i = 0; i < RUNS; i++) {
        bool is = is_on_loop(&runs->players[i]);
        fds[i] = (struct pollfd){is ? cop_fd(runs->players[i].run) : -1, POLLIN, 0};
    }
    if (poll(fds, RUNS, ABSURD_MS) == 0)
        fail_msg("nothing happens any more");
    for (int i = 0; i < RUNS; i++)
        if (fds[i].revents != 0)
            assert_int_equal(cop_dispatch(runs->players[i].run), 0);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void runs_until(struct runs *runs, bool (*is_done)(struct runs *runs))
{
    for (uint64_t begun = now_ms(); !is_done(runs); turn(runs))
        if (now_ms() - begun > ABSURD_MS)
            fail_msg("this takes absurdly long");
}

void runs_until_ended(struct runs *runs, const struct ending *ending)
{
    for (uint64_t begun = now_ms(); ending->count == 0; turn(runs))
        if (now_ms() - begun > ABSURD_MS)
            fail_msg("this takes absurdly long");
}

static bool somebody_left(struct runs *runs) { return runs->players[0].left > 0; }

void runs_remove_third(struct runs *runs)
{
    struct ending reported = {0};
    runs->players[2].is_asleep = true;
    int error = cop_report(runs->players[0].run, 2, 0, runs_done, &reported);
    assert_int_equal(error, 0);
    runs_until_ended(runs, &reported);
    assert_int_equal(reported.status, 0);
    runs_until(runs, somebody_left);
    runs->players[2].is_asleep = false;
}

void runs_done(void *context, int status)
{
    struct ending *ending = context;
    ending->count++;
    ending->status = status;
}
