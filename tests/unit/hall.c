/* SPDX-License-Identifier: Apache-2.0 */
#include "hall.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* ---- the service ----------------------------------------------------------------- */

static void note(struct desk *desk, char what)
{
    size_t length = strlen(desk->trace);
    if (length + 1 < sizeof desk->trace)
        desk->trace[length] = what;
}

static int on_check(void *context, struct cop_run *run, struct cop_task *task)
{
    struct desk *desk = context;
    note(desk, 'c');
    int count = cop_children(run, task->number);
    assert_true(count >= 0 || count == COP_ENOENT); /* it was aborted on the way */
    desk->children = count > 0 ? (uint32_t)count : 0;
    for (uint32_t i = 0; desk->buffer_size > 0 && i < desk->children && i < 4; i++)
        assert_int_equal(
            cop_reply_buffer(run, task->number, i, desk->buffers[i], desk->buffer_size),
            0);
    return desk->check_status;
}

static int on_run(void *context, struct cop_run *run, struct cop_task *task)
{
    struct desk *desk = context;
    note(desk, 'r');
    desk->runs++;
    desk->task = task->number;
    desk->group = task->group;
    desk->tag_count = task->tag_count;
    desk->sum = 0;
    memset(desk->request, 0, sizeof desk->request);
    memcpy(desk->request, task->bytes, task->length < 63 ? task->length : 63);
    /* It is the service's own: those below have what they were sent. */
    memset(task->bytes, 'x', task->length);
    if (desk->on_run != NULL)
        desk->on_run(desk, run, task);
    if (desk->replies)
        desk->replied =
            cop_reply(run, task->number, 0, &desk->value, sizeof desk->value);
    return desk->run_returns;
}

static void on_reply(void *context, struct cop_run *run, struct cop_task *task,
                     const struct cop_answer *answer)
{
    struct desk *desk = context;
    int64_t value;
    (void)run;
    (void)task;
    note(desk, 'a');
    desk->answer_from = answer->from;
    desk->answer_status = answer->status;
    desk->answer_phase = answer->phase;
    desk->answer_length = answer->length;
    for (uint32_t at = 0; desk->combines && at + 8 <= answer->length; at += 8) {
        memcpy(&value, answer->bytes + at, sizeof value);
        desk->sum += value;
    }
}

static void on_done(void *context, struct cop_run *run, struct cop_task *task)
{
    struct desk *desk = context;
    int64_t sum = desk->sum + desk->value;
    note(desk, 'd');
    desk->dones++;
    desk->done_status = task->status;
    if (desk->combines)
        desk->replied = cop_reply(run, task->number, 0, &sum, sizeof sum);
    if (desk->on_done != NULL)
        desk->on_done(desk, run);
}

static void on_sent(void *context, struct cop_run *run, struct cop_task *task)
{
    struct desk *desk = context;
    (void)run;
    (void)task;
    note(desk, 's');
    desk->sents++;
}

static int on_resolve(void *context, struct cop_run *run, const uint8_t name[16],
                      struct cop_members *members)
{
    struct desk *desk = context;
    struct cop_tag tag = {{0}};
    desk->resolves++;
    memcpy(tag.bytes, name, sizeof tag.bytes);
    for (uint32_t i = 0; i < desk->member_count; i++)
        assert_int_equal(cop_members_add(members, desk->members[i], &tag, 1), 0);
    if (desk->on_resolve != NULL)
        desk->on_resolve(desk, run);
    return desk->resolve_status;
}

struct cop_handlers hall_handlers(struct hall *hall, uint32_t i)
{
    return (struct cop_handlers){.size = sizeof(struct cop_handlers),
                                 .service = SERVICE,
                                 .context = &hall->desks[i],
                                 .check = on_check,
                                 .run = on_run,
                                 .reply = on_reply,
                                 .done = on_done,
                                 .sent = on_sent,
                                 .resolve = on_resolve};
}

/* ---- the members ----------------------------------------------------------------- */

int hall_set_up(void **state)
{
    struct hall *hall = calloc(1, sizeof *hall);
    assert_non_null(hall);
    hall->runs = runs_create();
    *state = hall;
    return 0;
}

int hall_tear_down(void **state)
{
    struct hall *hall = *state;
    runs_destroy(hall->runs);
    for (uint32_t i = 0; i < RUNS; i++) {
        /* Whoever got `run` got the rest. */
        assert_true(hall->desks[i].dones <= hall->desks[i].runs);
        assert_true(hall->desks[i].sents <= hall->desks[i].dones);
    }
    free(hall);
    return 0;
}

static bool all_are_there(struct runs *runs)
{
    for (int i = 0; i < RUNS; i++)
        if (runs->players[i].run != NULL && runs->players[i].views == 0)
            return false;
    return true;
}

void hall_open(struct hall *hall, uint32_t n, const char *shape)
{
    hall->n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct cop_settings settings = runs_settings(hall->runs, i, n);
        struct cop_handlers handlers = hall_handlers(hall, i);
        hall->desks[i].value = 1 << i;
        settings.shape = shape;
        /* A busy machine is no death. */
        settings.detector = "connection";
        settings.rejoin = hall->rejoins;
        settings.services = &handlers;
        settings.service_count = 1;
        runs_start(hall->runs, i, &settings);
    }
    runs_until(hall->runs, all_are_there);
}

struct cop_run *hall_run(struct hall *hall, uint32_t i)
{
    return hall->runs->players[i].run;
}

/* ---- calls ----------------------------------------------------------------------- */

void hall_done(void *context, int status, const struct cop_bcast_result *result)
{
    struct ended *ended = &((struct hall *)context)->ended;
    ended->count++;
    ended->status = status;
    ended->has_result = result != NULL;
    if (result == NULL)
        return;
    assert_true(result->length <= sizeof ended->bytes && result->failure_count <= RUNS);
    ended->result = *result;
    if (result->failure_count > 0)
        memcpy(ended->failures, result->failures,
               result->failure_count * sizeof *result->failures);
    if (result->length > 0)
        memcpy(ended->bytes, result->bytes, result->length);
    ended->result.failures = ended->failures;
    ended->result.bytes = ended->bytes;
}

static struct hall *awaited_hall;
static bool (*awaited)(struct hall *hall);
static bool is_so(struct runs *runs)
{
    (void)runs;
    return awaited(awaited_hall);
}

void hall_until(struct hall *hall, bool (*what)(struct hall *hall))
{
    awaited_hall = hall;
    awaited = what;
    runs_until(hall->runs, is_so);
}

static bool has_ended(struct hall *hall) { return hall->ended.count > 0; }

void hall_until_ended(struct hall *hall)
{
    hall_until(hall, has_ended);
    assert_int_equal(hall->ended.count, 1);
}

int hall_rpc(struct hall *hall, uint32_t i, const struct cop_call *call)
{
    hall->ended.count = 0;
    assert_int_equal(cop_rpc(hall_run(hall, i), call, hall_done, hall), 0);
    assert_int_equal(hall->ended.count, 0);
    hall_until_ended(hall);
    return hall->ended.status;
}

int hall_bcast(struct hall *hall, uint32_t i, const struct cop_call *call)
{
    uint64_t number;
    hall->ended.count = 0;
    assert_int_equal(cop_bcast_new(hall_run(hall, i), call, hall_done, hall, &number),
                     0);
    int error = cop_bcast_send(hall_run(hall, i), number, NULL);
    if (error) {
        assert_int_equal(cop_bcast_abort(hall_run(hall, i), number), 0);
        return error;
    }
    assert_int_equal(cop_bcast_send(hall_run(hall, i), number, NULL), COP_ESTATE);
    hall_until_ended(hall);
    return hall->ended.status;
}

int hall_failure(const struct hall *hall, cop_id node, enum cop_phase *phase,
                 cop_id *at)
{
    const struct cop_bcast_result *result = &hall->ended.result;
    for (uint32_t i = 0; i < result->failure_count; i++) {
        if (result->failures[i].node != node)
            continue;
        if (phase != NULL)
            *phase = result->failures[i].phase;
        if (at != NULL)
            *at = result->failures[i].at;
        return result->failures[i].status;
    }
    return 0;
}
