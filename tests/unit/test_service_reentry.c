/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of services and calls that call the library again, about what they are called for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "hall.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOM 512u /* that many calls a node has at a time */

/* What the callbacks of a test are about, and what they were told. */
static struct {
    struct hall *hall;
    size_t live;
    uint64_t group, number;
    uint32_t at_resolve; /* the one in which something happens */
    int said;
    struct ending other; /* of something else */
    uint64_t tasks[2 * ROOM];
    uint32_t task_count;
    uint32_t ended, aborted;
} scene;

static int set_up(void **state)
{
    memset(&scene, 0, sizeof scene);
    scene.live = failing_alloc_live();
    int error = hall_set_up(state);
    scene.hall = *state;
    return error;
}

/* Nothing is left. */
static int tear_down(void **state)
{
    int error = hall_tear_down(state);
    assert_int_equal(failing_alloc_live(), scene.live);
    return error;
}

static void on_other_done(void *context, int status,
                          const struct cop_bcast_result *result)
{
    (void)context;
    (void)result;
    scene.other.count++;
    scene.other.status = status;
}

static bool other_has_ended(struct hall *hall)
{
    (void)hall;
    return scene.other.count > 0;
}

static void settle_all(struct hall *hall, uint32_t n)
{
    for (int i = 0; i < 100; i++)
        for (uint32_t k = 0; k < n; k++)
            assert_int_equal(cop_poll(hall_run(hall, k), 0), 0);
}

/* ---- resolve --------------------------------------------------------------------- */

static const uint8_t oob_name[16] = "all of them";

/* An out-of-band group of all, whose first `resolve` is the one of its making. */
static void open_group(struct hall *hall, uint32_t n)
{
    struct cop_group_spec spec = {.service = SERVICE, .name = "all"};
    hall_open(hall, n, "chain");
    for (uint32_t i = 0; i < n; i++) {
        hall->desks[i].member_count = n;
        for (uint32_t k = 0; k < n; k++)
            hall->desks[i].members[k] = k;
    }
    assert_int_equal(
        cop_group_create_oob(hall_run(hall, 0), &spec, oob_name, &scene.group), 0);
}

static void abort_it(struct desk *desk, struct cop_run *run)
{
    if (desk->resolves == scene.at_resolve)
        scene.said = cop_bcast_abort(run, scene.number);
}

/* Whoever sends it is told, and the call is gone. */
static void resolve_aborts_what_is_sent(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group};
    struct cop_run *run = hall_run(hall, 0);
    hall->desks[0].on_resolve = abort_it;
    scene.at_resolve = 2;
    scene.said = 1;
    assert_int_equal(cop_bcast_new(run, &call, hall_done, hall, &scene.number), 0);
    assert_int_equal(cop_bcast_send(run, scene.number, NULL), COP_EABORTED);
    assert_int_equal(scene.said, 0);
    assert_int_equal(cop_bcast_send(run, scene.number, NULL), COP_ENOENT);
    assert_int_equal(cop_bcast_abort(run, scene.number), COP_ENOENT);
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 2);
}

/* By cop_rpc the number is known as soon as somebody can ask for it. */
static void resolve_aborts_an_rpc(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group, .number = &scene.number};
    hall->desks[0].on_resolve = abort_it;
    scene.at_resolve = 2;
    scene.said = 1;
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, hall_done, hall), COP_EABORTED);
    assert_int_equal(scene.said, 0);
    assert_int_equal(scene.number, 0); /* written only on success */
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 2);
}

static void send_it(struct desk *desk, struct cop_run *run)
{
    if (desk->resolves == scene.at_resolve)
        scene.said = cop_bcast_send(run, scene.number, NULL);
}

static void resolve_sends_it_again(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group, .flags = COP_BCAST_HEAL};
    struct cop_run *run = hall_run(hall, 0);
    hall->desks[0].on_resolve = send_it;
    scene.at_resolve = 2;
    assert_int_equal(cop_bcast_new(run, &call, hall_done, hall, &scene.number), 0);
    assert_int_equal(cop_bcast_send(run, scene.number, NULL), 0);
    assert_int_equal(scene.said, COP_ESTATE);
    hall_until_ended(hall);
    assert_int_equal(hall->ended.result.answered, 2);
    assert_int_equal(hall->desks[1].runs, 1);
}

static void keep(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    (void)run;
    desk->run_returns = COP_LATER;
    scene.tasks[scene.task_count++] = task->number;
}

static void on_one(void *context, int status, const struct cop_bcast_result *result)
{
    (void)context;
    (void)result;
    scene.ended++;
    scene.aborted += status == COP_EABORTED;
}

static bool all_are_kept(struct hall *hall)
{
    (void)hall;
    return scene.task_count == ROOM;
}

/* As many calls as a node takes, which the second member keeps. */
static void fill(struct hall *hall)
{
    struct cop_call call = {.service = SERVICE, .timeout_ns = 100 * COP_SEC};
    hall->desks[1].on_run = keep;
    for (uint32_t i = 0; i < ROOM; i++)
        assert_int_equal(cop_rpc(hall_run(hall, 0), &call, on_one, NULL), 0);
    hall_until(hall, all_are_kept);
}

static void give_back(struct hall *hall)
{
    hall->desks[1].on_run = NULL;
    hall->desks[1].run_returns = 0;
    for (uint32_t i = 0; i < scene.task_count; i++)
        assert_int_equal(cop_reply(hall_run(hall, 1), scene.tasks[i], 0, NULL, 0), 0);
}

static bool all_have_ended(struct hall *hall)
{
    return scene.ended == ROOM && hall->ended.count > 0;
}

/* A call that had to wait is about to begin. */
static void resolve_aborts_what_waited(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group, .number = &scene.number};
    fill(hall);
    hall->desks[0].on_resolve = abort_it;
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, hall_done, hall), 0);
    assert_int_equal(hall->ended.count, 0);
    scene.at_resolve = hall->desks[0].resolves + 1;
    scene.said = 1;
    give_back(hall);
    hall_until(hall, all_have_ended);
    assert_int_equal(scene.said, 0);
    assert_int_equal(hall->ended.count, 1);
    assert_int_equal(hall->ended.status, COP_EABORTED);
    assert_false(hall->ended.has_result);
}

/* Of two that wait the first asks who is in the group, which is when the second is aborted: that
 * one ends, though there is no room for the first. */
static void resolve_aborts_another_that_waits(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call first = {.group = scene.group, .timeout_ns = 100 * COP_SEC};
    struct cop_call second = {.service = SERVICE, .number = &scene.number};
    fill(hall);
    assert_int_equal(cop_rpc(hall_run(hall, 0), &first, hall_done, hall), 0);
    assert_int_equal(cop_rpc(hall_run(hall, 0), &second, on_other_done, NULL), 0);
    hall->desks[0].on_resolve = abort_it;
    scene.at_resolve = hall->desks[0].resolves + 1;
    scene.said = 1;
    give_back(hall);
    hall_until(hall, other_has_ended);
    assert_int_equal(scene.said, 0);
    assert_int_equal(scene.other.status, COP_EABORTED);
    hall_until(hall, all_have_ended);
    assert_int_equal(hall->ended.status, 0);
}

/* Who is in a group is not asked while there is no room for the call. */
static void what_waits_is_not_resolved(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group, .timeout_ns = 100 * COP_SEC};
    fill(hall);
    uint32_t before = hall->desks[0].resolves;
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, hall_done, hall), 0);
    settle_all(hall, 2);
    assert_int_equal(hall->desks[0].resolves, before);
    give_back(hall);
    hall_until(hall, all_have_ended);
    assert_int_equal(hall->ended.status, 0);
    assert_int_equal(hall->desks[0].resolves, before + 1);
}

/* What was called over it is over, so nothing holds it. */
static void used_groups_can_be_ended(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group};
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(cop_group_end(hall_run(hall, 0), scene.group, on_other_done, NULL),
                     0);
    hall_until(hall, other_has_ended);
    assert_int_equal(scene.other.status, 0);
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, hall_done, hall), COP_ENOENT);
}

/* Somebody is older, so the call is made once more. */
static void resolve_aborts_the_next_try(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call call = {
        .group = scene.group, .version = 2, .retry = true, .number = &scene.number};
    struct cop_handlers handlers = hall_handlers(hall, 0);
    handlers.version = 2;
    assert_int_equal(cop_service_unregister(hall_run(hall, 0), SERVICE), 0);
    assert_int_equal(cop_service_register(hall_run(hall, 0), &handlers), 0);
    hall->desks[0].on_resolve = abort_it;
    scene.at_resolve = 3;
    scene.said = 1;
    assert_int_equal(hall_rpc(hall, 0, &call), COP_EABORTED);
    assert_int_equal(scene.said, 0);
    assert_false(hall->ended.has_result);
    /* The one before it was run by who understood it. */
    assert_int_equal(hall->desks[0].runs, 1);
    assert_int_equal(hall->desks[1].runs, 0);
}

static void call_another(struct desk *desk, struct cop_run *run)
{
    struct cop_call call = {.group = scene.group};
    if (desk->resolves == scene.at_resolve)
        scene.said = cop_rpc(run, &call, on_other_done, NULL);
}

static void resolve_makes_another_call(void **state)
{
    struct hall *hall = *state;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group};
    hall->desks[0].on_resolve = call_another;
    scene.at_resolve = 2;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 2);
    hall_until(hall, other_has_ended);
    assert_int_equal(scene.said, 0);
    assert_int_equal(scene.other.count, 1);
    assert_int_equal(scene.other.status, 0);
    assert_int_equal(hall->desks[1].runs, 2);
}

static void end_group(struct desk *desk, struct cop_run *run)
{
    if (desk->resolves == scene.at_resolve)
        scene.said = cop_group_end(run, scene.group, on_other_done, NULL);
}

/* It has ended, and no call makes it anew. */
static void resolve_ends_the_group(void **state)
{
    struct hall *hall = *state;
    struct cop_group_facts facts;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group};
    struct cop_run *run = hall_run(hall, 0);
    hall->desks[0].on_resolve = end_group;
    scene.at_resolve = 2;
    scene.said = 1;
    assert_int_equal(cop_rpc(run, &call, hall_done, hall), COP_ENOENT);
    assert_int_equal(scene.said, 0);
    assert_int_equal(cop_rpc(run, &call, hall_done, hall), COP_ENOENT);
    hall_until(hall, other_has_ended);
    assert_int_equal(scene.other.status, 0);
    assert_int_equal(cop_group_look(run, scene.group, &facts), COP_ENOENT);
    assert_int_equal(cop_group_end(run, scene.group, NULL, NULL), COP_ENOENT);
    assert_int_equal(hall->ended.count, 0);
}

static void ended_groups_are_not_resolved(void **state)
{
    struct hall *hall = *state;
    struct cop_group_facts facts;
    open_group(hall, 2);
    struct cop_call call = {.group = scene.group};
    struct cop_run *run = hall_run(hall, 0);
    assert_int_equal(cop_group_end(run, scene.group, on_other_done, NULL), 0);
    /* Before anybody was told. */
    assert_int_equal(cop_rpc(run, &call, hall_done, hall), COP_ENOENT);
    assert_int_equal(hall->desks[0].resolves, 1);
    hall_until(hall, other_has_ended);
    assert_int_equal(cop_group_look(run, scene.group, &facts), COP_ENOENT);
}

/* ---- the end of a call ----------------------------------------------------------- */

static void call_again(void *context, int status, const struct cop_bcast_result *result)
{
    struct cop_call call = {.service = SERVICE};
    (void)result;
    scene.ended++;
    assert_true(scene.ended <= 2 * ROOM);
    assert_int_equal(status, COP_ESTATE);
    assert_int_equal(cop_rpc(context, &call, call_again, context), COP_ESTATE);
}

/* Whoever does so whenever one fails finds that the run is over, though others still wait. */
static void calls_again_at_the_end(void **state)
{
    struct hall *hall = *state;
    hall_open(hall, 2, "chain");
    struct cop_run *run = hall_run(hall, 0);
    struct cop_call call = {.service = SERVICE, .timeout_ns = 100 * COP_SEC};
    hall->desks[1].run_returns = COP_LATER;
    for (uint32_t i = 0; i < 2 * ROOM; i++)
        assert_int_equal(cop_rpc(run, &call, call_again, run), 0);
    runs_free(hall->runs, 0);
    assert_int_equal(scene.ended, 2 * ROOM);
}

static void abort_and_call(void *context, int status,
                           const struct cop_bcast_result *result)
{
    struct cop_call call = {.service = SERVICE};
    struct cop_run *run = hall_run(scene.hall, 0);
    hall_done(context, status, result);
    assert_int_equal(cop_bcast_abort(run, scene.number), COP_ENOENT);
    assert_int_equal(cop_bcast_send(run, scene.number, NULL), COP_ENOENT);
    assert_int_equal(cop_service_unregister(run, SERVICE), 0);
    assert_int_equal(cop_rpc(run, &call, on_other_done, NULL), 0);
    assert_int_equal(cop_dispatch(run), COP_ESTATE);
}

static void does_everything_when_it_ends(void **state)
{
    struct hall *hall = *state;
    hall_open(hall, 2, "chain");
    struct cop_call call = {.service = SERVICE, .number = &scene.number};
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, abort_and_call, hall), 0);
    hall_until_ended(hall);
    assert_int_equal(hall->ended.status, 0);
    hall_until(hall, other_has_ended);
    assert_int_equal(scene.other.count, 1);
    assert_string_equal(hall->desks[0].trace, "rad");
}

/* ---- what gives, runs, and is told ----------------------------------------------- */

#define GIVEN 5000u

static void (*in_give)(struct cop_run *run);

static int on_give(void *context, uint64_t offset, void *to, uint32_t length)
{
    memset(to, 7, length);
    if (offset == 1000)
        in_give(context);
    return 0;
}

static int give_in_a_call(struct hall *hall, void (*what)(struct cop_run *run))
{
    struct cop_bulk bulk = {.length = GIVEN, .give = on_give, .chunk = 1000};
    struct cop_call call = {.service = SERVICE, .bulk = &bulk, .number = &scene.number};
    hall_open(hall, 3, "chain");
    bulk.context = hall_run(hall, 0);
    in_give = what;
    scene.said = 1;
    return hall_rpc(hall, 0, &call);
}

static void abort_number(struct cop_run *run)
{
    scene.said = cop_bcast_abort(run, scene.number);
}

static void give_aborts_its_call(void **state)
{
    assert_int_equal(give_in_a_call(*state, abort_number), COP_EABORTED);
    assert_int_equal(scene.said, 0);
}

static void unregister_here(struct cop_run *run)
{
    scene.said = cop_service_unregister(run, SERVICE);
}

/* Nobody is there any more who could give the rest. */
static void give_unregisters(void **state)
{
    struct hall *hall = *state;
    assert_int_equal(give_in_a_call(hall, unregister_here), 0);
    assert_int_equal(scene.said, 0);
    assert_int_equal(hall->ended.result.answered, 0);
    assert_true(hall_failure(hall, 2, NULL, NULL) < 0);
}

static void call_others(struct cop_run *run)
{
    struct cop_call call = {.service = SERVICE};
    scene.said = cop_rpc(run, &call, on_other_done, NULL);
}

static void give_makes_another_call(void **state)
{
    struct hall *hall = *state;
    assert_int_equal(give_in_a_call(hall, call_others), 0);
    assert_int_equal(hall->ended.result.answered, 3);
    hall_until(hall, other_has_ended);
    assert_int_equal(scene.other.status, 0);
}

/* At the root the task knows its call. */
static void abort_own(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    (void)desk;
    scene.said = cop_bcast_abort(run, task->call);
    assert_int_equal(cop_bcast_abort(run, task->number), COP_ENOENT);
}

static void run_aborts_its_call(void **state)
{
    struct hall *hall = *state;
    hall_open(hall, 3, "chain");
    hall->desks[0].on_run = abort_own;
    for (uint32_t heal = 0; heal < 2; heal++) {
        struct cop_call call = {.service = SERVICE, .service_ns = 100 * COP_SEC};
        scene.said = 1;
        assert_int_equal(heal ? hall_rpc(hall, 0, &call) : hall_bcast(hall, 0, &call),
                         COP_EABORTED);
        assert_int_equal(scene.said, 0);
        assert_int_equal(hall->desks[0].dones, heal + 1);
    }
}

/* The table of services moves while one of them is being called. */
static void register_many(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    (void)desk;
    (void)task;
    for (uint64_t i = 0; i < 40; i++) {
        struct cop_handlers handlers = {.size = sizeof handlers, .service = 100 + i};
        assert_int_equal(cop_service_register(run, &handlers), 0);
    }
    for (uint64_t i = 0; i < 40; i++)
        assert_int_equal(cop_service_unregister(run, 100 + i), 0);
}

static void run_registers_many(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE};
    hall_open(hall, 2, "chain");
    hall->desks[0].on_run = hall->desks[1].on_run = register_many;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 2);
}

#define HEIR 5u /* a desk that no member has */

static void give_place(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    struct cop_handlers heir = hall_handlers(scene.hall, HEIR);
    (void)task;
    desk->on_run = NULL;
    assert_int_equal(cop_service_unregister(run, SERVICE), 0);
    assert_int_equal(cop_service_register(run, &heir), 0);
}

static void go_away(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    (void)task;
    desk->on_run = NULL;
    assert_int_equal(cop_service_unregister(run, SERVICE), 0);
}

static void heir_comes_and_goes(struct desk *desk, struct cop_run *run)
{
    struct cop_handlers heir = hall_handlers(scene.hall, HEIR);
    desk->on_done = NULL;
    assert_int_equal(cop_service_register(run, &heir), 0);
    assert_int_equal(cop_service_unregister(run, SERVICE), 0);
}

/* `done` comes while the service goes; one that comes and goes in there ends nothing but its own. */
static void done_has_an_heir_for_a_moment(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE};
    hall_open(hall, 3, "chain");
    hall->desks[1].on_run = go_away;
    hall->desks[1].on_done = heir_comes_and_goes;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_string_equal(hall->desks[1].trace, "crds");
    assert_string_equal(hall->desks[HEIR].trace, "");
}

/* Of two requests that were checked the first gives the place away: the other failed with the
 * service that checked it, and is not for the one that comes. */
static void run_gives_its_place_away(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE};
    hall_open(hall, 3, "chain");
    hall->desks[1].on_run = give_place;
    hall->ended.count = 0;
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, hall_done, hall), 0);
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, on_other_done, NULL), 0);
    hall_until_ended(hall);
    assert_int_equal(hall_failure(hall, 1, NULL, NULL), COP_ENOENT);
    hall_until(hall, other_has_ended);
    assert_string_equal(hall->desks[1].trace, "ccrds");
    assert_string_equal(hall->desks[HEIR].trace, "");
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 3);
    assert_int_equal(hall->desks[HEIR].runs, 1);
}

static void end_what_was_made(void *context, int status,
                              const struct cop_bcast_result *result)
{
    (void)result;
    assert_int_equal(status, 0);
    scene.said = cop_group_end(context, scene.group, on_other_done, NULL);
}

static void group_ends_when_it_is_made(void **state)
{
    struct hall *hall = *state;
    struct cop_target targets[] = {{0, NULL, 0}, {1, NULL, 0}};
    struct cop_group_spec spec = {
        .service = SERVICE, .targets = targets, .target_count = 2};
    hall_open(hall, 2, "chain");
    struct cop_run *run = hall_run(hall, 0);
    for (int kind = COP_GROUP_NOW; kind <= COP_GROUP_LAZY; kind++) {
        spec.kind = (enum cop_group_kind)kind;
        scene.other.count = 0;
        assert_int_equal(
            cop_group_create(run, &spec, &scene.group, end_what_was_made, run), 0);
        hall_until(hall, other_has_ended);
        assert_int_equal(scene.said, 0);
        assert_int_equal(scene.other.status, 0);
    }
}

/* ---- callbacks that come from no loop -------------------------------------------- */

static void send_far(struct desk *desk, struct cop_run *run)
{
    (void)desk;
    scene.said = cop_send(run, 3, "hello", 6, runs_done, &scene.other);
}

/* The program's loop waits for nothing but cop_fd, so that has to be readable. */
static void what_is_done_outside_the_loop_is_seen_by_it(void **state)
{
    struct hall *hall = *state;
    struct cop_group_spec spec = {.service = SERVICE};
    hall_open(hall, 4, "chain");
    settle_all(hall, 4);
    hall->desks[0].on_resolve = send_far;
    hall->desks[0].resolve_status = COP_EIO;
    assert_int_equal(
        cop_group_create_oob(hall_run(hall, 0), &spec, oob_name, &scene.group),
        COP_EIO);
    assert_int_equal(scene.said, 0);
    time_t begun = time(NULL);
    runs_until_ended(hall->runs, &scene.other);
    assert_int_equal(scene.other.status, 0);
    assert_true(time(NULL) < begun + 6); /* not by what is done every ten seconds */
}

/* Of 0 and 3, who have no connection yet. */
static struct cop_group_spec two_far_apart(enum cop_group_kind kind)
{
    static const struct cop_target targets[] = {{0, NULL, 0}, {3, NULL, 0}};
    return (struct cop_group_spec){
        .kind = kind, .service = SERVICE, .targets = targets, .target_count = 2};
}

/* Whether cop_fd says at once that there is something to do. */
static bool is_readable(struct cop_run *run)
{
    struct pollfd fd = {.fd = cop_fd(run), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

static void a_group_that_is_made_is_seen(void **state)
{
    struct hall *hall = *state;
    struct cop_group_spec spec = two_far_apart(COP_GROUP_NOW);
    hall_open(hall, 4, "chain");
    settle_all(hall, 4);
    assert_false(is_readable(hall_run(hall, 0)));
    assert_int_equal(
        cop_group_create(hall_run(hall, 0), &spec, &scene.group, on_other_done, NULL),
        0);
    assert_true(is_readable(hall_run(hall, 0)));
    hall_until(hall, other_has_ended);
    assert_int_equal(scene.other.status, 0);
}

static void a_call_that_is_sent_is_seen(void **state)
{
    struct hall *hall = *state;
    struct cop_group_spec spec = two_far_apart(COP_GROUP_LAZY);
    hall_open(hall, 4, "chain");
    settle_all(hall, 4);
    /* Without the service nothing is called here that would wake the loop up anyway. */
    assert_int_equal(cop_service_unregister(hall_run(hall, 0), SERVICE), 0);
    assert_int_equal(
        cop_group_create(hall_run(hall, 0), &spec, &scene.group, NULL, NULL), 0);
    settle_all(hall, 4);
    struct cop_call call = {.group = scene.group, .flags = COP_BCAST_HEAL};
    assert_int_equal(
        cop_bcast_new(hall_run(hall, 0), &call, hall_done, hall, &scene.number), 0);
    settle_all(hall, 4);
    assert_false(is_readable(hall_run(hall, 0)));
    assert_int_equal(cop_bcast_send(hall_run(hall, 0), scene.number, NULL), 0);
    assert_true(is_readable(hall_run(hall, 0)));
    hall_until_ended(hall);
    assert_int_equal(hall->ended.result.answered, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(resolve_aborts_what_is_sent),
        TEST(resolve_aborts_an_rpc),
        TEST(resolve_sends_it_again),
        TEST(resolve_aborts_what_waited),
        TEST(resolve_aborts_another_that_waits),
        TEST(what_waits_is_not_resolved),
        TEST(used_groups_can_be_ended),
        TEST(resolve_aborts_the_next_try),
        TEST(resolve_makes_another_call),
        TEST(resolve_ends_the_group),
        TEST(ended_groups_are_not_resolved),
        TEST(calls_again_at_the_end),
        TEST(does_everything_when_it_ends),
        TEST(give_aborts_its_call),
        TEST(give_unregisters),
        TEST(give_makes_another_call),
        TEST(run_aborts_its_call),
        TEST(run_registers_many),
        TEST(run_gives_its_place_away),
        TEST(done_has_an_heir_for_a_moment),
        TEST(group_ends_when_it_is_made),
        TEST(what_is_done_outside_the_loop_is_seen_by_it),
        TEST(a_group_that_is_made_is_seen),
        TEST(a_call_that_is_sent_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
