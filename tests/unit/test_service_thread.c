/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services of members on threads of the library's own. Replies come from other threads, calls
 * from several at a time. ThreadSanitizer runs this.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <coppice/service.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMBERS 4u
#define CALLERS 3u
#define CALLS 40u
#define LONG_NS (60 * COP_SEC) /* nothing here takes that long */
#define SLOW 50u               /* a service whose replies come from a worker */
#define QUICK 51u
#define TASKS_MAX 4096u

struct clerk {
    struct cop_run *run;
    int64_t value;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t tasks[TASKS_MAX]; /* that the worker has not replied to */
    uint32_t count;
    bool is_closed, holds; /* `holds`: does not reply for now */
    pthread_t worker;
    atomic_bool has_ended; /* the run was stopped: replies are refused */
    atomic_uint runs, dones, sents, late, refused, wrong;
};

struct office {
    char folder[32], texts[MEMBERS][96];
    const char *addresses[MEMBERS];
    struct clerk clerks[MEMBERS];
};

/* ---- the services ---------------------------------------------------------------- */

static int run_slow(void *context, struct cop_run *run, struct cop_task *task)
{
    struct clerk *clerk = context;
    struct cop_bcast_result result;
    struct cop_call call = {.service = QUICK};
    clerk->runs++;
    /* What waits must not be called here. */
    if (cop_rpc_wait(run, &call, &result) != COP_ESTATE ||
        cop_group_end_wait(run, 2) != COP_ESTATE)
        clerk->wrong++;
    pthread_mutex_lock(&clerk->mutex);
    if (clerk->count < TASKS_MAX)
        clerk->tasks[clerk->count++] = task->number;
    pthread_cond_broadcast(&clerk->changed);
    pthread_mutex_unlock(&clerk->mutex);
    return COP_LATER;
}

static int run_quick(void *context, struct cop_run *run, struct cop_task *task)
{
    struct clerk *clerk = context;
    clerk->runs++;
    return cop_reply(run, task->number, 0, &clerk->value, sizeof clerk->value);
}

static void on_done(void *context, struct cop_run *run, struct cop_task *task)
{
    (void)run;
    (void)task;
    ((struct clerk *)context)->dones++;
}

static void on_sent(void *context, struct cop_run *run, struct cop_task *task)
{
    (void)run;
    (void)task;
    ((struct clerk *)context)->sents++;
}

/* Takes a task; false at the end. */
static bool take(struct clerk *clerk, uint64_t *task)
{
    pthread_mutex_lock(&clerk->mutex);
    while (!clerk->is_closed && (clerk->count == 0 || clerk->holds))
        pthread_cond_wait(&clerk->changed, &clerk->mutex);
    bool is_one = clerk->count > 0 && !clerk->is_closed;
    if (is_one)
        *task = clerk->tasks[--clerk->count];
    pthread_mutex_unlock(&clerk->mutex);
    return is_one;
}

static void *work(void *context)
{
    struct clerk *clerk = context;
    uint64_t task;
    while (take(clerk, &task)) {
        int error = cop_reply(clerk->run, task, 0, &clerk->value, sizeof clerk->value);
        bool is_refused = error == COP_ESTATE && clerk->has_ended;
        clerk->late += error == COP_ENOENT;
        clerk->refused += is_refused;
        clerk->wrong += error != 0 && error != COP_ENOENT && !is_refused;
        /* Once is enough. */
        error = cop_reply(clerk->run, task, 0, &clerk->value, sizeof clerk->value);
        clerk->wrong += error != COP_ENOENT && error != COP_ESTATE;
    }
    return NULL;
}

static void hold(struct clerk *clerk, bool holds)
{
    pthread_mutex_lock(&clerk->mutex);
    clerk->holds = holds;
    pthread_cond_broadcast(&clerk->changed);
    pthread_mutex_unlock(&clerk->mutex);
}

/* ---- the members ----------------------------------------------------------------- */

static void open_one(struct office *office, uint32_t i)
{
    struct clerk *clerk = &office->clerks[i];
    struct cop_handlers services[] = {
        {.size = sizeof(struct cop_handlers),
         .service = SLOW,
         .context = clerk,
         .run = run_slow,
         .done = on_done,
         .sent = on_sent},
        {.size = sizeof(struct cop_handlers),
         .service = QUICK,
         .context = clerk,
         .run = run_quick,
         .done = on_done,
         .sent = on_sent},
    };
    struct cop_settings settings = {.size = sizeof settings,
                                    .cluster = "office",
                                    .instance = 3,
                                    .addresses = office->addresses,
                                    .count = MEMBERS,
                                    .self = i,
                                    .shape = "chain",
                                    .detector = "connection",
                                    .services = services,
                                    .service_count = 2};
    char why[200];
    clerk->value = 1 << i;
    int error = cop_start_thread(&settings, &clerk->run, why, sizeof why);
    if (error)
        fail_msg("%s: %s", cop_strerror(error), why);
}

static int set_up(void **state)
{
    struct office *office = calloc(1, sizeof *office);
    assert_non_null(office);
    strcpy(office->folder, "/tmp/copoff.XXXXXX");
    assert_non_null(mkdtemp(office->folder));
    for (uint32_t i = 0; i < MEMBERS; i++) {
        snprintf(office->texts[i], sizeof office->texts[i], "unix:%s/m%u",
                 office->folder, (unsigned)i);
        office->addresses[i] = office->texts[i];
        pthread_mutex_init(&office->clerks[i].mutex, NULL);
        pthread_cond_init(&office->clerks[i].changed, NULL);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        open_one(office, i);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct clerk *clerk = &office->clerks[i];
        struct cop_view *view;
        assert_int_equal(cop_view_wait(clerk->run, 0, LONG_NS, &view), 0);
        cop_view_unref(view);
        assert_int_equal(pthread_create(&clerk->worker, NULL, work, clerk), 0);
    }
    *state = office;
    return 0;
}

static int tear_down(void **state)
{
    struct office *office = *state;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct clerk *clerk = &office->clerks[i];
        pthread_mutex_lock(&clerk->mutex);
        clerk->is_closed = true;
        pthread_cond_broadcast(&clerk->changed);
        pthread_mutex_unlock(&clerk->mutex);
        pthread_join(clerk->worker, NULL);
        cop_free(clerk->run);
        /* Whoever got `run` got the rest: `sent` not where the call came from. */
        assert_int_equal(clerk->dones, clerk->runs);
        assert_true(clerk->sents <= clerk->runs);
        assert_int_equal(clerk->wrong, 0);
        pthread_mutex_destroy(&clerk->mutex);
        pthread_cond_destroy(&clerk->changed);
    }
    assert_int_equal(rmdir(office->folder), 0);
    free(office);
    return 0;
}

/* ---- tests ----------------------------------------------------------------------- */

struct caller {
    struct cop_run *run;
    uint64_t service;
    uint32_t good;
};

static void *ask(void *context)
{
    struct caller *caller = context;
    struct cop_call call = {
        .service = caller->service, .op = COP_OP_SUM, .timeout_ns = LONG_NS};
    for (uint32_t i = 0; i < CALLS; i++) {
        struct cop_bcast_result result;
        if (cop_rpc_wait(caller->run, &call, &result) == 0) {
            caller->good += result.answered == MEMBERS && cop_value(&result, 0) == 15;
            cop_result_free(&result);
        }
    }
    return NULL;
}

static void replies_from_other_threads(void **state)
{
    struct office *office = *state;
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    for (uint32_t i = 0; i < CALLERS; i++) {
        /* Two over the same run. */
        callers[i] = (struct caller){office->clerks[i / 2].run, i ? SLOW : QUICK, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &callers[i]), 0);
    }
    for (uint32_t i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].good, CALLS);
    }
}

static void count_end(void *context, int status, const struct cop_bcast_result *result)
{
    atomic_uint *ends = context;
    if (status == 0 && result->answered == MEMBERS)
        ends[0]++;
    else if (status == COP_EABORTED)
        ends[1]++;
    else
        ends[2]++;
}

static void wait_for(const atomic_uint *what, unsigned least)
{
    while (atomic_load(what) < least)
        sched_yield();
}

static void many_in_flight(void **state)
{
    struct office *office = *state;
    struct cop_call call = {.service = SLOW, .timeout_ns = LONG_NS};
    atomic_uint ends[3] = {0};
    /* The last one keeps them all waiting. */
    hold(&office->clerks[MEMBERS - 1], true);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(cop_rpc(office->clerks[i % 2].run, &call, count_end, ends), 0);
    hold(&office->clerks[MEMBERS - 1], false);
    wait_for(&ends[0], 1000);
    assert_int_equal(ends[1] + ends[2], 0);
}

static void aborted_from_another_thread(void **state)
{
    struct office *office = *state;
    struct clerk *last = &office->clerks[MEMBERS - 1];
    uint64_t number;
    struct cop_call call = {.service = SLOW, .timeout_ns = LONG_NS, .number = &number};
    atomic_uint ends[3] = {0};
    hold(last, true);
    assert_int_equal(cop_rpc(office->clerks[0].run, &call, count_end, ends), 0);
    wait_for(&last->runs, 1);
    assert_int_equal(cop_bcast_abort(office->clerks[0].run, number), 0);
    wait_for(&ends[1], 1);
    wait_for(&last->sents, 1);
    /* The worker comes too late, and is told so. */
    hold(last, false);
    wait_for(&last->late, 1);
    assert_int_equal(cop_bcast_abort(office->clerks[0].run, number), COP_ENOENT);
}

/* A service on the caller's own thread that waits for a number, and ends what that is of. */
struct rival {
    int (*end)(struct cop_run *run, uint64_t number);
    _Atomic uint64_t number;
    atomic_int said;
    atomic_uint runs, ends[3];
};
#define RIVAL 52u

static int end_given(void *context, struct cop_run *run, struct cop_task *task)
{
    struct rival *rival = context;
    (void)task;
    rival->runs++;
    while (atomic_load(&rival->number) == 0)
        sched_yield();
    atomic_store(&rival->said, rival->end(run, rival->number));
    return 0;
}

/* From now on the run's own thread is busy, until there is a number. */
static void keep_busy(struct cop_run *run, struct rival *rival)
{
    struct cop_handlers handlers = {
        .size = sizeof handlers, .service = RIVAL, .context = rival, .run = end_given};
    struct cop_call busy = {.service = RIVAL};
    rival->said = 1;
    assert_int_equal(cop_service_register(run, &handlers), 0);
    assert_int_equal(cop_rpc(run, &busy, count_end, rival->ends), 0);
    wait_for(&rival->runs, 1);
}

/* A call that was made while the run's own thread was busy has not begun there yet. */
static void aborted_before_it_began(void **state)
{
    struct office *office = *state;
    struct cop_run *run = office->clerks[0].run;
    struct rival rival = {.end = cop_bcast_abort};
    atomic_uint ends[3] = {0};
    uint64_t number;
    struct cop_call call = {.service = QUICK, .number = &number};
    keep_busy(run, &rival);
    assert_int_equal(cop_rpc(run, &call, count_end, ends), 0);
    atomic_store(&rival.number, number);
    while (ends[0] + ends[1] + ends[2] == 0)
        sched_yield();
    assert_int_equal(ends[1], 1);
    assert_int_equal(rival.said, 0);
    wait_for(&rival.ends[2], 1); /* the others do not have that service */
    assert_int_equal(office->clerks[0].runs, 0);
}

/* It is no call, by which others would find it. */
static int cancel_agreement(struct cop_run *run, uint64_t ticket)
{
    int error = cop_bcast_abort(run, ticket);
    return error == COP_ENOENT ? cop_agree_cancel(run, ticket) : COP_EBUG;
}

static void note_agreed(void *context, int status, const struct cop_agreed *agreed)
{
    atomic_int *said = context;
    (void)agreed;
    atomic_store(said, status);
}

/* The same of an agreement, for which nobody else votes. */
static void cancelled_before_it_began(void **state)
{
    struct office *office = *state;
    struct cop_run *run = office->clerks[0].run;
    struct rival rival = {.end = cancel_agreement};
    atomic_int status = 1;
    uint64_t ticket;
    struct cop_agree_call call = {.group = 9, .timeout_ns = 100 * COP_SEC};
    struct cop_view *view = cop_view_current(run);
    assert_int_equal(
        cop_agree_group_create(run, view, &(struct cop_agree_group){.number = 9}), 0);
    cop_view_unref(view);
    keep_busy(run, &rival);
    assert_int_equal(cop_iagree(run, &call, note_agreed, &status, &ticket), 0);
    atomic_store(&rival.number, ticket);
    while (status == 1)
        sched_yield();
    assert_int_equal(status, COP_EABORTED);
    assert_int_equal(rival.said, 0);
    wait_for(&rival.ends[2], 1);
}

/* What a caller may keep for a call, and give back when that has ended. */
struct errand {
    uint64_t number, *seen;
    atomic_uint *ends;
};

static void end_errand(void *context, int status, const struct cop_bcast_result *result)
{
    struct errand *errand = context;
    atomic_uint *ends = errand->ends;
    (void)status;
    (void)result;
    *errand->seen = errand->number;
    free(errand);
    atomic_fetch_add(ends, 1);
}

/* `done` may come before whoever asked for it goes on. */
static void numbers_are_known_in_time(void **state)
{
    struct office *office = *state;
    struct cop_run *run = office->clerks[0].run;
    struct cop_target alone = {0, NULL, 0};
    struct cop_group_spec spec = {
        .kind = COP_GROUP_LAZY, .service = QUICK, .targets = &alone, .target_count = 1};
    struct cop_call call = {0};
    atomic_uint ends = 0;
    assert_int_equal(cop_group_create(run, &spec, &call.group, NULL, NULL), 0);
    for (unsigned i = 1; i <= 2000; i++) {
        struct errand *errand = calloc(1, sizeof *errand);
        uint64_t seen = 0;
        assert_non_null(errand);
        *errand = (struct errand){.seen = &seen, .ends = &ends};
        call.number = &errand->number;
        assert_int_equal(cop_rpc(run, &call, end_errand, errand), 0);
        wait_for(&ends, i);
        assert_true(seen != 0);
    }
}

static void groups_are_known_in_time(void **state)
{
    struct office *office = *state;
    struct cop_run *run = office->clerks[0].run;
    struct cop_target alone = {0, NULL, 0};
    struct cop_group_spec spec = {
        .kind = COP_GROUP_LAZY, .service = QUICK, .targets = &alone, .target_count = 1};
    atomic_uint ends = 0;
    for (unsigned i = 1; i <= 1000; i++) {
        struct errand *errand = calloc(1, sizeof *errand);
        uint64_t seen = 0;
        assert_non_null(errand);
        *errand = (struct errand){.seen = &seen, .ends = &ends};
        assert_int_equal(
            cop_group_create(run, &spec, &errand->number, end_errand, errand), 0);
        wait_for(&ends, i);
        assert_true(seen != 0);
        assert_int_equal(cop_group_end_wait(run, seen), 0);
    }
}

static void unregistered_from_another_thread(void **state)
{
    struct office *office = *state;
    struct clerk *last = &office->clerks[MEMBERS - 1];
    struct cop_call call = {.service = SLOW, .timeout_ns = LONG_NS};
    struct cop_bcast_result result;
    atomic_uint ends[3] = {0};
    hold(last, true);
    assert_int_equal(cop_rpc(office->clerks[0].run, &call, count_end, ends), 0);
    wait_for(&last->runs, 1);
    assert_int_equal(cop_service_unregister(last->run, SLOW), 0);
    /* No callback comes after this: all were before it. */
    assert_int_equal(last->dones, 1);
    assert_int_equal(last->sents, 1);
    wait_for(&ends[2], 1);
    hold(last, false);
    assert_int_equal(cop_rpc_wait(office->clerks[0].run, &call, &result), 0);
    assert_int_equal(result.failure_count, 1);
    assert_int_equal(result.failures[0].phase, COP_PHASE_SERVICE);
    cop_result_free(&result);
    assert_int_equal(last->runs, 1);
}

static void groups_that_are_waited_for(void **state)
{
    struct office *office = *state;
    struct cop_run *run = office->clerks[1].run;
    struct cop_target targets[] = {{1, NULL, 0}, {3, NULL, 0}};
    struct cop_group_spec spec = {
        .service = QUICK, .targets = targets, .target_count = 2};
    struct cop_bcast_result result;
    struct cop_call call = {.op = COP_OP_SUM};
    assert_int_equal(cop_group_create_wait(run, &spec, &call.group), 0);
    assert_int_equal(cop_rpc_wait(run, &call, &result), 0);
    assert_int_equal(cop_value(&result, 0), 2 + 8);
    cop_result_free(&result);
    assert_int_equal(cop_group_end_wait(run, call.group), 0);
    assert_int_equal(cop_rpc_wait(run, &call, &result), COP_ENOENT);
    cop_result_free(&result);
}

/* Who waits when the run ends is told; so is who replies after that. */
static void *ask_until_the_end(void *context)
{
    struct caller *caller = context;
    struct cop_call call = {.service = SLOW, .timeout_ns = LONG_NS};
    struct cop_bcast_result result;
    int error = cop_rpc_wait(caller->run, &call, &result);
    caller->good = error == COP_ESTATE;
    return NULL;
}

static void the_run_ends(void **state)
{
    struct office *office = *state;
    struct clerk *first = &office->clerks[0];
    struct caller caller = {.run = first->run};
    pthread_t thread;
    hold(first, true);
    hold(&office->clerks[MEMBERS - 1], true);
    assert_int_equal(pthread_create(&thread, NULL, ask_until_the_end, &caller), 0);
    wait_for(&office->clerks[MEMBERS - 1].runs, 1);
    first->has_ended = true;
    assert_int_equal(cop_stop(caller.run), 0);
    pthread_join(thread, NULL);
    assert_int_equal(caller.good, 1);
    hold(first, false);
    wait_for(&first->refused, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(replies_from_other_threads),  TEST(many_in_flight),
        TEST(aborted_from_another_thread), TEST(aborted_before_it_began),
        TEST(cancelled_before_it_began),   TEST(numbers_are_known_in_time),
        TEST(groups_are_known_in_time),    TEST(unregistered_from_another_thread),
        TEST(groups_that_are_waited_for),  TEST(the_run_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
