/* SPDX-License-Identifier: Apache-2.0 */
/* Members on threads of the library's own. Callbacks count with atomics: the tests run them
 * under ThreadSanitizer, which knows of no other excuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <coppice/run.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUNS 4
#define LONG_NS (60 * COP_SEC) /* nothing here takes that long */

struct player {
    struct cop_run *run;
    atomic_uint views, messages, outs, wrong;
    atomic_int why;
    pthread_t thread; /* of its callbacks */
};

struct stage {
    char folder[32], texts[RUNS][96];
    const char *addresses[RUNS];
    struct player players[RUNS];
};

static void check_thread(struct player *player)
{
    if (player->views == 0 && player->messages == 0 && player->outs == 0)
        player->thread = pthread_self();
    else if (!pthread_equal(player->thread, pthread_self()))
        player->wrong++;
}

/* What waits must not be called here; it would wait for itself. */
static void on_view(void *context, struct cop_run *run, struct cop_view *old,
                    struct cop_view *now)
{
    struct player *player = context;
    struct cop_view *view;
    struct cop_stats stats;
    sigset_t blocked;
    (void)old;
    check_thread(player);
    if (cop_view_wait(run, 0, LONG_NS, &view) != COP_ESTATE ||
        cop_send_wait(run, 0, "x", 1) != COP_ESTATE ||
        cop_leave_wait(run, LONG_NS) != COP_ESTATE || cop_dispatch(run) != COP_ESTATE ||
        cop_poll(run, 0) != COP_ESTATE)
        player->wrong++;
    if (cop_counters(run, &stats, sizeof stats) != 0)
        player->wrong++;
    /* No signal of the program's ends up here. */
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGTERM))
        player->wrong++;
    view = cop_view_current(run);
    if (view != now)
        player->wrong++;
    cop_view_unref(view);
    player->views++;
}

static void on_message(void *context, struct cop_run *run,
                       const struct cop_message *message)
{
    struct player *player = context;
    check_thread(player);
    player->messages++;
    /* An answer from a callback; what is lost in a change is not the point here. */
    if (message->length == 4 && memcmp(message->bytes, "ping", 4) == 0)
        (void)cop_send(run, message->from, "pong", 4, NULL, NULL);
}

static void on_out(void *context, struct cop_run *run, int why)
{
    struct player *player = context;
    (void)run;
    check_thread(player);
    player->why = why;
    player->outs++;
}

static struct cop_settings settings_of(struct stage *stage, uint32_t i)
{
    return (struct cop_settings){.size = sizeof(struct cop_settings),
                                 .context = &stage->players[i],
                                 .on_view = on_view,
                                 .on_message = on_message,
                                 .on_out = on_out};
}

static void start(struct stage *stage, uint32_t i, const struct cop_settings *settings)
{
    char why[200];
    int error = cop_start_thread(settings, &stage->players[i].run, why, sizeof why);
    if (error)
        fail_msg("%s: %s", cop_strerror(error), why);
}

static void start_static(struct stage *stage, uint32_t i, uint32_t n)
{
    struct cop_settings settings = settings_of(stage, i);
    settings.cluster = "threads";
    settings.instance = 3;
    settings.addresses = stage->addresses;
    settings.count = n;
    settings.self = i;
    /* A busy machine is no death. */
    settings.detector = "connection";
    start(stage, i, &settings);
}

static void start_joiner(struct stage *stage, uint32_t i, const char *name)
{
    struct cop_settings settings = settings_of(stage, i);
    settings.contact = stage->addresses[0];
    settings.name = name;
    start(stage, i, &settings);
}

static int set_up(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);
    assert_non_null(stage);
    strcpy(stage->folder, "/tmp/copthr.XXXXXX");
    assert_non_null(mkdtemp(stage->folder));
    for (uint32_t i = 0; i < RUNS; i++) {
        snprintf(stage->texts[i], sizeof stage->texts[i], "unix:%s/m%u", stage->folder,
                 (unsigned)i);
        stage->addresses[i] = stage->texts[i];
    }
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;
    unsigned wrong = 0;
    for (int i = 0; i < RUNS; i++) {
        struct player *player = &stage->players[i];
        bool was = player->run != NULL;
        cop_free(player->run);
        wrong += player->wrong + (was && player->outs != 1);
    }
    int error = rmdir(stage->folder);
    free(stage);
    return wrong > 0 || error != 0;
}

static cop_epoch wait_view(struct cop_run *run, cop_epoch after, uint32_t size)
{
    struct cop_view *view;
    for (;;) {
        assert_int_equal(cop_view_wait(run, after, LONG_NS, &view), 0);
        after = cop_view_epoch(view);
        bool is_it = cop_view_size(view) == size;
        cop_view_unref(view);
        if (is_it)
            return after;
    }
}

/* ---- blocking style -------------------------------------------------------------- */

static void everything_by_waiting(void **state)
{
    struct stage *stage = *state;
    struct cop_probe_result result;
    for (uint32_t i = 0; i < 3; i++)
        start_static(stage, i, 3);
    struct cop_run *run = stage->players[0].run;
    assert_int_equal(cop_fd(run), -1);
    cop_epoch epoch = wait_view(run, 0, 3);
    assert_int_equal(cop_probe_wait(run, 0, &result), 0);
    assert_int_equal(result.answered, 3);
    cop_probe_result_free(&result);
    assert_int_equal(cop_send_wait(run, 1, "hello", 5), 0);
    /* It is there; its thread tells the program next. */
    while (stage->players[1].messages == 0)
        sched_yield();
    assert_int_equal(cop_send_wait(run, 0, "self", 4), COP_EINVAL);
    assert_int_equal(cop_inquire_wait(run, 2, 0), 0);
    start_joiner(stage, 3, "new");
    epoch = wait_view(run, epoch, 4);
    assert_int_equal(cop_leave_wait(stage->players[3].run, LONG_NS), 0);
    assert_int_equal(cop_leave_wait(stage->players[3].run, LONG_NS), COP_ESTATE);
    epoch = wait_view(run, epoch, 3);
    assert_int_equal(cop_stop(stage->players[2].run), 0);
    wait_view(run, epoch, 2);
}

static void waits_that_end_in_time(void **state)
{
    struct stage *stage = *state;
    struct cop_view *view;
    start_static(stage, 0, 1);
    struct cop_run *run = stage->players[0].run;
    cop_epoch epoch = wait_view(run, 0, 1);
    assert_int_equal(cop_view_wait(run, epoch, COP_MSEC, &view), COP_ETIMEDOUT);
    assert_int_equal(cop_view_wait(run, epoch, 0, &view), COP_ETIMEDOUT);
}

static void *wait_for_more(void *argument)
{
    struct cop_view *view;
    int error = cop_view_wait(argument, UINT64_MAX, COP_TIME_NEVER, &view);
    return (void *)(intptr_t)error;
}

/* Who waits when the run ends is told so. */
static void waits_that_end_with_the_run(void **state)
{
    struct stage *stage = *state;
    pthread_t waiters[3];
    void *got;
    start_static(stage, 0, 1);
    struct cop_run *run = stage->players[0].run;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&waiters[i], NULL, wait_for_more, run), 0);
    assert_int_equal(cop_stop(run), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(waiters[i], &got);
        assert_int_equal((intptr_t)got, COP_ESTATE);
    }
    assert_int_equal(cop_send_wait(run, 0, "x", 1), COP_ESTATE);
    assert_int_equal(cop_state(run), COP_RUN_OVER);
}

/* ---- many at once ---------------------------------------------------------------- */

struct load {
    struct stage *stage;
    uint32_t at;
    atomic_bool *ends;
    atomic_uint made, done;
    unsigned views;
};

static void on_done(void *context, int status)
{
    struct load *load = context;
    (void)status;
    load->done++;
}

/* Sends, reads and asks without a pause, whatever the others do. */
static void *make_load(void *argument)
{
    struct load *load = argument;
    struct cop_run *run = load->stage->players[load->at % 3].run;
    struct cop_suspicion suspicions[4];
    struct cop_stats stats;
    uint32_t count;
    while (!*load->ends) {
        /* Waits for an answer now and then, or the loops would do nothing else. */
        (void)cop_inquire_wait(run, (cop_self(run) + 1) % 3, 0);
        if (load->made - load->done > 64)
            continue;
        struct cop_view *view = cop_view_current(run);
        for (cop_id id = view ? cop_view_next(view, COP_ID_NONE) : COP_ID_NONE;
             id != COP_ID_NONE; id = cop_view_next(view, id))
            if (cop_send(run, id, "ping", 4, on_done, load) == 0)
                load->made++;
        if (view != NULL)
            load->views++;
        cop_view_unref(view);
        if (cop_inquire(run, (cop_self(run) + 1) % 3, 0, on_done, load) == 0)
            load->made++;
        (void)cop_counters(run, &stats, sizeof stats);
        (void)cop_suspicions(run, 0, suspicions, 4, &count);
        (void)cop_is_degraded(run);
    }
    return NULL;
}

static void many_threads_and_changes(void **state)
{
    struct stage *stage = *state;
    pthread_t threads[6];
    struct load loads[6] = {0};
    atomic_bool ends = false;
    for (uint32_t i = 0; i < 3; i++)
        start_static(stage, i, 3);
    for (uint32_t i = 0; i < 6; i++) {
        loads[i].stage = stage;
        loads[i].at = i;
        loads[i].ends = &ends;
        assert_int_equal(pthread_create(&threads[i], NULL, make_load, &loads[i]), 0);
    }
    cop_epoch epoch = wait_view(stage->players[1].run, 0, 3);
    for (int round = 0; round < 3; round++) {
        start_joiner(stage, 3, "guest");
        epoch = wait_view(stage->players[1].run, epoch, 4);
        if (round < 2)
            assert_int_equal(cop_leave_wait(stage->players[3].run, LONG_NS), 0);
        cop_free(stage->players[3].run);
        assert_int_equal(stage->players[3].outs, 1);
        assert_int_equal(stage->players[3].wrong, 0);
        memset(&stage->players[3], 0, sizeof stage->players[3]);
        epoch = wait_view(stage->players[1].run, epoch, 3);
    }
    ends = true;
    for (uint32_t i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    /* The end of the runs completes whatever is still under way: each once. */
    for (uint32_t i = 0; i < 3; i++) {
        cop_free(stage->players[i].run);
        stage->players[i].run = NULL;
        assert_int_equal(stage->players[i].wrong, 0);
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(loads[i].made > 0 && loads[i].views > 0);
        assert_int_equal(loads[i].made, loads[i].done);
    }
}

/* ---- beginnings and ends --------------------------------------------------------- */

static void freed_at_once(void **state)
{
    struct stage *stage = *state;
    for (int i = 0; i < 20; i++) {
        memset(&stage->players[0], 0, sizeof stage->players[0]);
        start_static(stage, 0, 2);
        cop_free(stage->players[0].run);
        stage->players[0].run = NULL;
        assert_int_equal(stage->players[0].outs, 1);
        assert_int_equal(stage->players[0].why, COP_ESTATE);
    }
}

static void wrong_settings(void **state)
{
    struct stage *stage = *state;
    struct cop_run *run = NULL;
    char why[100] = "";
    struct cop_settings settings = settings_of(stage, 0);
    assert_int_equal(cop_start_thread(&settings, &run, why, sizeof why), COP_EINVAL);
    assert_true(strlen(why) > 10);
    start_static(stage, 0, 1);
    settings.contact = stage->addresses[0];
    settings.name = "a";
    settings.listen = stage->addresses[0];
    assert_int_equal(cop_start_thread(&settings, &run, why, sizeof why), COP_EEXIST);
    assert_null(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_by_waiting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waits_that_end_in_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waits_that_end_with_the_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_threads_and_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(freed_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_settings, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
