/* SPDX-License-Identifier: Apache-2.0 */
/* Services and calls by callbacks: coppice/service.h, on the program's own loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "hall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 4u
#define ALL_VALUES 15 /* 1 + 2 + 4 + 8 */

static void replies_everywhere(struct hall *hall)
{
    for (uint32_t i = 0; i < hall->n; i++)
        hall->desks[i].replies = true;
}

/* ---- one call, one answer -------------------------------------------------------- */

static void numbers_are_combined(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .op = COP_OP_SUM};
    const struct cop_bcast_result *result = &hall->ended.result;
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(result->members, MEMBERS);
    assert_int_equal(result->answered, MEMBERS);
    assert_int_equal(result->failure_count, 0);
    assert_int_equal(cop_values(result), 1);
    assert_int_equal(cop_value(result, 0), ALL_VALUES);
    /* Any member can ask. */
    call.op = COP_OP_MIN;
    assert_int_equal(hall_rpc(hall, 3, &call), 0);
    assert_int_equal(cop_value(result, 0), 1);
    call.op = COP_OP_MAX;
    assert_int_equal(hall_rpc(hall, 1, &call), 0);
    assert_int_equal(cop_value(result, 0), 8);
    call.op = COP_OP_HISTOGRAM;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(cop_histogram(result, 2), 1);
    assert_int_equal(cop_histogram(result, 4), 0);
}

static void answers_are_listed(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .op = COP_OP_CONCAT};
    const struct cop_bcast_result *result = &hall->ended.result;
    const uint8_t *bytes;
    uint32_t at = 0, length, count, ranges;
    cop_id node;
    int64_t value;
    hall_open(hall, MEMBERS, "kary:2");
    replies_everywhere(hall);
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    for (cop_id i = 0; i < MEMBERS; i++) {
        assert_true(cop_concat_next(result, &at, &node, &bytes, &length));
        assert_int_equal(node, i);
        assert_int_equal(length, 8);
        assert_memory_equal(bytes, &hall->desks[i].value, 8);
    }
    assert_false(cop_concat_next(result, &at, &node, &bytes, &length));
    hall->desks[1].value = hall->desks[0].value;
    call.op = COP_OP_COUNT;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    at = 0;
    assert_true(cop_count_next(result, &at, &bytes, &length, &count, &ranges));
    assert_int_equal(count, 2);
    call.op = COP_OP_TOP;
    call.argument = 2;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    at = 0;
    assert_true(cop_top_next(result, &at, &value, &node));
    assert_int_equal(value, 8);
    assert_int_equal(node, 3);
    assert_true(cop_top_next(result, &at, &value, &node));
    assert_int_equal(value, 4);
    assert_false(cop_top_next(result, &at, &value, &node));
}

/* Without a reply: done, and nothing to say. */
static void nothing_to_say(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .bytes = "do it", .length = 5};
    enum cop_phase phase;
    hall_open(hall, MEMBERS, "chain");
    hall->desks[2].run_returns = COP_EIO;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 3);
    assert_int_equal(hall_failure(hall, 2, &phase, NULL), COP_EIO);
    assert_int_equal(phase, COP_PHASE_RUN);
    /* The relays had changed their copies. */
    assert_string_equal(hall->desks[3].request, "do it");
}

static void one_payload_each(void **state)
{
    struct hall *hall = *state;
    struct cop_portion portions[] = {{1, "one", 3}, {3, "three", 5}};
    struct cop_call call = {.service = SERVICE,
                            .bytes = "others",
                            .length = 6,
                            .portions = portions,
                            .portion_count = 2};
    hall_open(hall, MEMBERS, "chain");
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_string_equal(hall->desks[0].request, "others");
    assert_string_equal(hall->desks[1].request, "one");
    assert_string_equal(hall->desks[2].request, "others");
    assert_string_equal(hall->desks[3].request, "three");
}

/* ---- callbacks and their order --------------------------------------------------- */

static void order_with_heal(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE};
    hall_open(hall, 3, "chain");
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_string_equal(hall->desks[0].trace, "rad");
    assert_string_equal(hall->desks[1].trace, "crads");
    assert_string_equal(hall->desks[2].trace, "crds");
}

static void services_combine_without_heal(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .service_ns = 10 * COP_SEC};
    int64_t sum;
    hall_open(hall, MEMBERS, "kary:2");
    for (uint32_t i = 0; i < MEMBERS; i++) {
        hall->desks[i].combines = true;
        hall->desks[i].run_returns = COP_LATER;
    }
    assert_int_equal(hall_bcast(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.length, 8);
    memcpy(&sum, hall->ended.result.bytes, sizeof sum);
    assert_int_equal(sum, ALL_VALUES);
    assert_string_equal(hall->desks[0].trace, "raad");
    assert_string_equal(hall->desks[1].trace, "crads");
    assert_string_equal(hall->desks[3].trace, "crds");
}

/* What `run` returns waits for `done`, and is the answer if there is no other. */
static void verdicts_without_heal(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .service_ns = 10 * COP_SEC};
    enum cop_phase phase;
    hall_open(hall, 3, "chain");
    hall->desks[1].run_returns = COP_EIO;
    hall->desks[1].replies = hall->desks[2].replies = true;
    assert_int_equal(hall_bcast(hall, 0, &call), 0);
    /* Nobody is below the last: it speaks for itself. */
    assert_int_equal(hall->desks[1].replied, COP_ESTATE);
    assert_int_equal(hall->desks[2].replied, 0);
    assert_int_equal(hall->ended.result.answered, 2);
    assert_int_equal(hall_failure(hall, 1, &phase, NULL), COP_EIO);
    assert_int_equal(phase, COP_PHASE_RUN);
}

static void ask_the_tree(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    struct cop_child child;
    (void)desk;
    assert_int_equal(cop_children(run, task->number), 2);
    assert_int_equal(cop_child(run, task->number, 0, &child), 0);
    assert_int_equal(child.nodes, 1);
    assert_int_equal(child.entities, 0);
    assert_int_equal(cop_child(run, task->number, 9, &child), COP_ENOENT);
    assert_true(task->call != 0 && task->user == desk);
    assert_int_equal(cop_children(run, task->call), 2);
}

static void tree_is_known(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {
        .service = SERVICE, .flags = COP_BCAST_HEAL, .user = &hall->desks[0]};
    struct cop_child child;
    struct cop_run *run;
    uint64_t number;
    hall_open(hall, 5, "kary:2");
    run = hall_run(hall, 0);
    assert_int_equal(cop_bcast_new(run, &call, hall_done, hall, &number), 0);
    assert_int_equal(cop_children(run, number), 2);
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(cop_child(run, number, i, &child), 0);
        assert_int_equal(child.entities, 0);
        assert_true(child.node == 1 || child.node == 2);
        nodes += child.nodes;
    }
    assert_int_equal(nodes, 4);
    assert_int_equal(cop_children(run, number + 1), COP_ENOENT);
    hall->desks[0].on_run = NULL;
    assert_int_equal(cop_bcast_send(run, number, NULL), 0);
    hall_until_ended(hall);
    assert_int_equal(cop_children(run, number), COP_ENOENT);
    assert_int_equal(cop_bcast_abort(run, number), COP_ENOENT);
    assert_int_equal(cop_bcast_send(run, number, NULL), COP_ENOENT);
}

static void tree_is_known_to_the_task(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .user = &hall->desks[0]};
    hall_open(hall, 3, "kary:2");
    hall->desks[0].on_run = ask_the_tree;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
}

static void answers_land_in_buffers(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .service_ns = 10 * COP_SEC};
    uint8_t own[16] = {0};
    uint64_t number;
    int64_t value;
    hall_open(hall, 3, "chain");
    for (uint32_t i = 0; i < 3; i++) {
        hall->desks[i].combines = true;
        hall->desks[i].run_returns = COP_LATER;
    }
    hall->desks[1].buffer_size = 4; /* too small for a number */
    struct cop_run *run = hall_run(hall, 0);
    assert_int_equal(cop_bcast_new(run, &call, hall_done, hall, &number), 0);
    assert_int_equal(cop_reply_buffer(run, number, 0, own, sizeof own), 0);
    assert_int_equal(cop_reply_buffer(run, number, 0, own, sizeof own), COP_EEXIST);
    assert_int_equal(cop_reply_buffer(run, number, 1, own, sizeof own), COP_ENOENT);
    assert_int_equal(cop_bcast_send(run, number, NULL), 0);
    hall_until_ended(hall);
    assert_int_equal(hall->desks[1].answer_status, COP_ETOOBIG);
    assert_int_equal(hall->desks[1].answer_length, 4);
    assert_memory_equal(hall->desks[1].buffers[0], &hall->desks[2].value, 4);
    /* Only half of the last one's number came to the middle. */
    memcpy(&value, own, sizeof value);
    assert_int_equal(value, hall->desks[1].value);
}

static void in_pieces(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    int64_t value = desk->value;
    for (int i = 0; i < 3; i++)
        assert_int_equal(cop_reply_part(run, task->number, &value, sizeof value), 0);
}

static void answers_in_pieces(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .service_ns = 10 * COP_SEC};
    uint8_t own[64] = {0};
    uint64_t number;
    hall_open(hall, 2, "chain");
    hall->desks[1].on_run = in_pieces;
    struct cop_run *run = hall_run(hall, 0);
    assert_int_equal(cop_bcast_new(run, &call, hall_done, hall, &number), 0);
    assert_int_equal(cop_reply_buffer(run, number, 0, own, sizeof own), 0);
    assert_int_equal(cop_bcast_send(run, number, NULL), 0);
    hall_until_ended(hall);
    assert_string_equal(hall->desks[0].trace, "raaaad");
    assert_int_equal(hall->desks[0].answer_length, 24);
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(own + 8 * i, &hall->desks[1].value, 8);
}

/* ---- what a service does wrong --------------------------------------------------- */

static bool all_sent(struct hall *hall)
{
    for (uint32_t i = 1; i < hall->n; i++)
        if (hall->desks[i].sents < hall->desks[i].runs)
            return false;
    return true;
}

static void never_replies(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {
        .service = SERVICE, .op = COP_OP_SUM, .timeout_ns = 300 * COP_MSEC};
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    hall->desks[1].replies = false;
    hall->desks[1].run_returns = COP_LATER;
    /* On a busy machine the others may need longer. */
    do {
        memset(hall->desks[1].trace, 0, sizeof hall->desks[1].trace);
        assert_int_equal(hall_rpc(hall, 0, &call), COP_ETIMEDOUT);
        call.timeout_ns *= 4;
    } while (hall->ended.result.answered < 3 && call.timeout_ns < 100 * COP_SEC);
    assert_int_equal(hall->ended.result.answered, 3);
    assert_int_equal(hall_failure(hall, 1, NULL, NULL), COP_ETIMEDOUT);
    assert_int_equal(cop_value(&hall->ended.result, 0), ALL_VALUES - 2);
    hall_until(hall, all_sent);
    assert_string_equal(hall->desks[1].trace, "crads");
    /* And when it does, it is too late. */
    assert_int_equal(cop_reply(hall_run(hall, 1), hall->desks[1].task, 0, NULL, 0),
                     COP_ENOENT);
}

static void reply_twice(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    int64_t value = 100;
    assert_int_equal(cop_reply(run, task->number, 0, &value, 7), COP_EINVAL);
    assert_int_equal(cop_reply_part(run, task->number, &value, 8), COP_EINVAL);
    assert_int_equal(cop_reply(run, task->number, 3, &value, 8), COP_EINVAL);
    assert_int_equal(cop_reply(run, task->number, 0, NULL, 8), COP_EINVAL);
    assert_int_equal(cop_reply(run, task->number, 0, &value, COP_REPLY_MAX + 1),
                     COP_ETOOBIG);
    assert_int_equal(cop_reply(run, task->number, 0, &desk->value, sizeof desk->value),
                     0);
    desk->replied = cop_reply(run, task->number, 0, &value, sizeof value);
}

static void replies_twice(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .op = COP_OP_SUM};
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    hall->desks[1].replies = hall->desks[3].replies = false;
    hall->desks[1].on_run = hall->desks[3].on_run = reply_twice;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(cop_value(&hall->ended.result, 0), ALL_VALUES);
    /* One that waits for those below, and one whose answer has gone. */
    assert_int_equal(hall->desks[1].replied, COP_ESTATE);
    assert_int_equal(hall->desks[3].replied, COP_ENOENT);
    assert_int_equal(cop_reply(hall_run(hall, 1), hall->desks[1].task, 0, NULL, 0),
                     COP_ENOENT);
}

static void refuses(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .op = COP_OP_SUM};
    enum cop_phase phase;
    cop_id at;
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    hall->desks[2].check_status = COP_EREFUSED;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 2);
    assert_int_equal(hall_failure(hall, 2, &phase, &at), COP_EREFUSED);
    assert_int_equal(phase, COP_PHASE_CHECK);
    assert_int_equal(at, 2);
    assert_int_equal(hall_failure(hall, 3, &phase, &at), COP_EREFUSED);
    assert_int_equal(at, 2);
    assert_string_equal(hall->desks[2].trace, "c");
    assert_string_equal(hall->desks[3].trace, "");
    assert_int_equal(hall->desks[1].answer_phase, COP_PHASE_CHECK);
}

static bool the_last_runs(struct hall *hall)
{
    return hall->desks[hall->n - 1].runs > 0;
}

static void unregisters(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .op = COP_OP_SUM};
    enum cop_phase phase;
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    for (uint32_t i = 1; i < MEMBERS; i += 2) {
        hall->desks[i].replies = false;
        hall->desks[i].run_returns = COP_LATER;
    }
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, hall_done, hall), 0);
    hall_until(hall, the_last_runs);
    for (uint32_t i = 1; i < MEMBERS; i += 2) {
        assert_int_equal(cop_service_unregister(hall_run(hall, i), SERVICE), 0);
        /* All that was promised came before it returned. */
        assert_string_equal(hall->desks[i].trace, "crds");
        assert_int_equal(hall->desks[i].done_status, i == 1 ? COP_ENOENT : 0);
        assert_int_equal(cop_reply(hall_run(hall, i), hall->desks[i].task, 0, NULL, 0),
                         COP_ENOENT);
    }
    hall_until_ended(hall);
    assert_int_equal(hall->ended.status, 0);
    assert_int_equal(cop_value(&hall->ended.result, 0), ALL_VALUES - 2 - 8);
    assert_int_equal(hall_failure(hall, 1, &phase, NULL), COP_ENOENT);
    assert_int_equal(phase, COP_PHASE_SERVICE);
    assert_int_equal(cop_service_unregister(hall_run(hall, 1), SERVICE), COP_ENOENT);
    /* It is not there, then it is again. */
    hall->ended.count = 0;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall_failure(hall, 3, &phase, NULL), COP_ENOENT);
    assert_int_equal(phase, COP_PHASE_SERVICE);
    struct cop_handlers handlers = hall_handlers(hall, 3);
    assert_int_equal(cop_service_register(hall_run(hall, 3), &handlers), 0);
    assert_int_equal(cop_service_register(hall_run(hall, 3), &handlers), COP_EEXIST);
    hall->desks[3].replies = true;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(cop_value(&hall->ended.result, 0), ALL_VALUES - 2);
}

/* In the middle of its own callback: the task stays readable until that returns. */
static void go_away(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    assert_int_equal(cop_service_unregister(run, SERVICE), 0);
    assert_string_equal(desk->trace, "crds");
    assert_int_equal(task->service, SERVICE);
    assert_int_equal(cop_reply(run, task->number, 0, NULL, 0), COP_ENOENT);
}

static void unregisters_while_it_runs(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE};
    hall_open(hall, 3, "chain");
    hall->desks[1].on_run = go_away;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall_failure(hall, 1, NULL, NULL), COP_ENOENT);
    assert_int_equal(hall->ended.result.answered, 2);
    assert_string_equal(hall->desks[1].trace, "crds");
}

static void replies_after_abort(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE};
    uint64_t number = 0;
    hall_open(hall, MEMBERS, "chain");
    for (uint32_t i = 0; i < MEMBERS; i++)
        hall->desks[i].run_returns = COP_LATER;
    call.number = &number;
    for (uint32_t heal = 0; heal < 2; heal++) {
        struct cop_run *run = hall_run(hall, 0);
        hall->ended.count = 0;
        hall->desks[MEMBERS - 1].runs = hall->desks[MEMBERS - 1].dones = 0;
        hall->desks[MEMBERS - 1].sents = 0;
        if (heal) {
            assert_int_equal(cop_rpc(run, &call, hall_done, hall), 0);
        } else {
            call.service_ns = 100 * COP_SEC;
            assert_int_equal(cop_bcast_new(run, &call, hall_done, hall, &number), 0);
            assert_int_equal(cop_bcast_send(run, number, NULL), 0);
        }
        hall_until(hall, the_last_runs);
        assert_int_equal(cop_bcast_abort(run, number), 0);
        assert_int_equal(hall->ended.count, 0);
        hall_until_ended(hall);
        assert_int_equal(hall->ended.status, COP_EABORTED);
        hall_until(hall, all_sent);
        for (uint32_t i = 0; i < MEMBERS; i++)
            assert_int_equal(
                cop_reply(hall_run(hall, i), hall->desks[i].task, 0, NULL, 0),
                COP_ENOENT);
        assert_int_equal(cop_bcast_abort(run, number), COP_ENOENT);
    }
}

/* ---- groups ---------------------------------------------------------------------- */

static const struct cop_tag tags[2] = {{{1}}, {{2}}};

static void groups_now_and_lazy(void **state)
{
    struct hall *hall = *state;
    struct cop_target targets[] = {{0, NULL, 0}, {1, tags, 2}, {3, tags, 1}};
    struct cop_group_spec spec = {.service = SERVICE,
                                  .name = "odd",
                                  .targets = targets,
                                  .target_count = 3,
                                  .shape = {.kind = COP_SHAPE_CHAIN},
                                  .user = hall};
    struct cop_call call = {.op = COP_OP_SUM};
    struct cop_group_facts facts;
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    for (int lazy = 0; lazy < 2; lazy++) {
        struct cop_run *run = hall_run(hall, 0);
        uint64_t group;
        spec.kind = lazy ? COP_GROUP_LAZY : COP_GROUP_NOW;
        hall->ended.count = 0;
        assert_int_equal(cop_group_create(run, &spec, &group, hall_done, hall), 0);
        call.group = group;
        if (!lazy)
            assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_ESTATE);
        hall_until_ended(hall);
        assert_int_equal(hall->ended.status, 0);
        assert_int_equal(cop_group_look(run, group, &facts), 0);
        assert_string_equal(facts.name, "odd");
        assert_ptr_equal(facts.user, hall);
        assert_int_equal(hall_rpc(hall, 0, &call), 0);
        assert_int_equal(cop_value(&hall->ended.result, 0), 1 + 2 + 8);
        assert_int_equal(hall->desks[1].tag_count, 2);
        assert_int_equal(hall->desks[3].tag_count, 1);
        assert_int_equal(hall->desks[2].runs, 0);
        assert_int_equal(
            cop_group_look(hall_run(hall, 3), hall->desks[3].group, &facts), 0);
        assert_string_equal(facts.name, "odd");
        assert_null(facts.user);
        hall->ended.count = 0;
        assert_int_equal(cop_group_end(run, group, hall_done, hall), 0);
        hall_until_ended(hall);
        assert_int_equal(hall->ended.status, 0);
        assert_int_equal(cop_group_look(run, group, &facts), COP_ENOENT);
        assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_ENOENT);
    }
}

static void groups_that_cannot_be(void **state)
{
    struct hall *hall = *state;
    struct cop_target targets[] = {{0, NULL, 0}, {9, NULL, 0}};
    struct cop_group_spec spec = {
        .service = SERVICE, .targets = targets, .target_count = 2};
    uint64_t group = 5;
    hall_open(hall, 2, "chain");
    struct cop_run *run = hall_run(hall, 0);
    assert_int_equal(cop_group_create(run, &spec, &group, NULL, NULL), COP_EINVAL);
    spec.target_count = 1;
    spec.kind = COP_GROUP_OOB;
    assert_int_equal(cop_group_create(run, &spec, &group, NULL, NULL), COP_EINVAL);
    spec.kind = COP_GROUP_NOW;
    spec.targets = NULL;
    assert_int_equal(cop_group_create(run, &spec, &group, NULL, NULL), COP_EINVAL);
    spec.targets = targets;
    assert_int_equal(cop_group_create_wait(run, &spec, &group), COP_ESTATE);
    assert_int_equal(cop_group_end_wait(run, 4), COP_ESTATE);
    assert_int_equal(cop_group_end(run, 4, NULL, NULL), COP_ENOENT);
    assert_int_equal(group, 5);
}

static const uint8_t oob_name[16] = "the objects";

static void out_of_band_groups(void **state)
{
    struct hall *hall = *state;
    struct cop_group_spec spec = {.service = SERVICE, .name = "objects"};
    struct cop_call call = {.op = COP_OP_SUM};
    enum cop_phase phase;
    uint64_t group;
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    struct cop_run *run = hall_run(hall, 0);
    assert_int_equal(cop_group_create_oob(run, &spec, oob_name, &group), COP_EINVAL);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        hall->desks[i].member_count = 3;
        for (uint32_t k = 0; k < 3; k++)
            hall->desks[i].members[k] = k;
    }
    assert_int_equal(cop_group_create_oob(run, &spec, oob_name, &group), 0);
    call.group = group;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(cop_value(&hall->ended.result, 0), 7);
    assert_int_equal(hall->desks[2].tag_count, 1);
    /* Somebody has other members by now: refused, and nothing runs there or below. */
    hall->desks[1].members[2] = 3;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall_failure(hall, 1, &phase, NULL), COP_ESTATE);
    assert_int_equal(phase, COP_PHASE_GROUP);
    assert_int_equal(hall->desks[1].runs, 1);
    assert_int_equal(hall->desks[2].runs, 1);
    /* All have: the next call is about those. */
    for (uint32_t i = 0; i < MEMBERS; i++)
        hall->desks[i].members[2] = 3;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 3);
    assert_int_equal(cop_value(&hall->ended.result, 0), 1 + 2 + 8);
    hall->desks[0].resolve_status = COP_EIO;
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_EIO);
}

static bool is_found_dead(struct hall *hall)
{
    return hall->runs->players[0].suspicions > 0 || hall->runs->players[0].left > 0;
}

static void the_dead_are_named(void **state)
{
    struct hall *hall = *state;
    struct cop_target targets[] = {{0, NULL, 0}, {1, NULL, 0}, {2, NULL, 0}};
    struct cop_group_spec spec = {.kind = COP_GROUP_LAZY,
                                  .service = SERVICE,
                                  .targets = targets,
                                  .target_count = 3};
    struct cop_call call = {.op = COP_OP_SUM, .service_ns = 10 * COP_SEC};
    cop_id lost = COP_ID_NONE;
    uint64_t group, number;
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    struct cop_run *run = hall_run(hall, 0);
    assert_int_equal(cop_group_create(run, &spec, &group, NULL, NULL), 0);
    call.group = group;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    runs_free(hall->runs, 1);
    /* With HEAL those below it are asked by somebody else. */
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.members, 3);
    assert_int_equal(hall_failure(hall, 1, NULL, NULL), COP_ELOST);
    assert_int_equal(cop_value(&hall->ended.result, 0), 1 + 4);
    hall_until(hall, is_found_dead);
    /* Without it nothing is begun that cannot be finished. */
    assert_int_equal(cop_bcast_new(run, &call, hall_done, hall, &number), 0);
    assert_int_equal(cop_bcast_send(run, number, &lost), COP_ELOST);
    assert_int_equal(lost, 1);
    assert_int_equal(cop_bcast_abort(run, number), 0);
    /* And it is not missed among the living. */
    call.group = cop_group_alive(group);
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.members, 2);
    assert_int_equal(hall->ended.result.failure_count, 0);
    call.group = cop_group_alive(COP_GROUP_ALL);
    call.service = SERVICE;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(cop_value(&hall->ended.result, 0), ALL_VALUES - 2);
    /* The last broadcast is the end of the group. */
    call.group = cop_group_alive(group);
    call.flags = COP_BCAST_LAST;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_ENOENT);
}

/* ---- versions -------------------------------------------------------------------- */

static void lowest_version_is_tried(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = 41, .op = COP_OP_SUM, .version = 7};
    hall_open(hall, 3, "chain");
    for (uint32_t i = 0; i < 3; i++) {
        struct cop_handlers handlers = hall_handlers(hall, i);
        handlers.service = 41;
        handlers.version = 7 - 2 * i;
        assert_int_equal(cop_service_register(hall_run(hall, i), &handlers), 0);
    }
    replies_everywhere(hall);
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 1);
    assert_int_equal(hall->ended.result.lowest_version, 3);
    assert_int_equal(hall_failure(hall, 2, NULL, NULL), COP_EVERSION);
    call.retry = true;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(hall->ended.result.answered, 3);
    assert_int_equal(cop_value(&hall->ended.result, 0), 7);
    assert_int_equal(hall->desks[0].runs, 3);
    assert_int_equal(hall->desks[2].runs, 1);
    call.retry = false;
    call.flags = COP_BCAST_STRICT;
    assert_int_equal(hall_rpc(hall, 0, &call), COP_EVERSION);
}

/* ---- many ------------------------------------------------------------------------ */

#define HELD_MAX 1000u

struct crowd {
    struct hall *hall;
    uint32_t under_way, ended, answered, aborted;
    uint64_t held[HELD_MAX]; /* tasks that the last member has not replied to */
    uint32_t held_count;
};

static void on_one_of_many(void *context, int status,
                           const struct cop_bcast_result *result)
{
    struct crowd *crowd = context;
    crowd->ended++;
    crowd->under_way--;
    if (status == 0 && result->answered == crowd->hall->n &&
        cop_value(result, 0) == ALL_VALUES)
        crowd->answered++;
    crowd->aborted += status == COP_EABORTED;
}

static struct crowd *the_crowd;
static bool all_have_ended(struct hall *hall)
{
    (void)hall;
    return the_crowd->under_way == 0;
}

static void a_thousand_in_flight(void **state)
{
    struct hall *hall = *state;
    struct crowd crowd = {.hall = hall};
    struct cop_call call = {
        .service = SERVICE, .op = COP_OP_SUM, .timeout_ns = 100 * COP_SEC};
    the_crowd = &crowd;
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(cop_rpc(hall_run(hall, i % 2), &call, on_one_of_many, &crowd),
                         0);
        crowd.under_way++;
    }
    hall_until(hall, all_have_ended);
    assert_int_equal(crowd.answered, 1000);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(hall->desks[i].runs, 1000);
}

static void keep_task(struct desk *desk, struct cop_run *run, struct cop_task *task)
{
    (void)run;
    assert_true(the_crowd->held_count < HELD_MAX);
    desk->run_returns = task->group == COP_GROUP_ALL ? COP_LATER : 0;
    if (desk->run_returns == COP_LATER)
        the_crowd->held[the_crowd->held_count++] = task->number;
}

static bool all_are_held(struct hall *hall)
{
    (void)hall;
    return the_crowd->held_count == HELD_MAX;
}

/* Two members have a thousand calls under way, and all wait for the last one. What does not
 * need that one is not kept waiting. */
static void a_slow_leaf_holds_up_nobody_else(void **state)
{
    struct hall *hall = *state;
    struct crowd *crowd = calloc(1, sizeof *crowd);
    struct cop_target targets[] = {{0, NULL, 0}, {1, NULL, 0}, {2, NULL, 0}};
    struct cop_group_spec spec = {.kind = COP_GROUP_LAZY,
                                  .service = SERVICE,
                                  .targets = targets,
                                  .target_count = 3};
    struct cop_call call = {
        .service = SERVICE, .op = COP_OP_SUM, .timeout_ns = 300 * COP_SEC};
    assert_non_null(crowd);
    crowd->hall = hall;
    the_crowd = crowd;
    hall_open(hall, MEMBERS, "chain");
    replies_everywhere(hall);
    hall->desks[3].replies = false;
    hall->desks[3].on_run = keep_task;
    for (; crowd->under_way < HELD_MAX; crowd->under_way++)
        assert_int_equal(
            cop_rpc(hall_run(hall, crowd->under_way % 2), &call, on_one_of_many, crowd),
            0);
    hall_until(hall, all_are_held);
    assert_int_equal(crowd->ended, 0);
    struct cop_call quick = {.op = COP_OP_SUM};
    assert_int_equal(
        cop_group_create(hall_run(hall, 0), &spec, &quick.group, NULL, NULL), 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(hall_rpc(hall, 0, &quick), 0);
        assert_int_equal(cop_value(&hall->ended.result, 0), 7);
    }
    assert_int_equal(crowd->ended, 0);
    for (uint32_t i = 0; i < crowd->held_count; i++)
        assert_int_equal(cop_reply(hall_run(hall, 3), crowd->held[i], 0,
                                   &hall->desks[3].value, sizeof(int64_t)),
                         0);
    hall_until(hall, all_have_ended);
    assert_int_equal(crowd->answered, HELD_MAX);
    free(crowd);
}

static void too_many_are_pushed_back(void **state)
{
    struct hall *hall = *state;
    struct crowd crowd = {.hall = hall};
    uint64_t first = 0, last = 0;
    struct cop_call call = {
        .service = SERVICE, .timeout_ns = 100 * COP_SEC, .number = &last};
    the_crowd = &crowd;
    hall_open(hall, 2, "chain");
    hall->desks[1].run_returns = COP_LATER;
    struct cop_run *run = hall_run(hall, 0);
    int error;
    while ((error = cop_rpc(run, &call, on_one_of_many, &crowd)) == 0) {
        crowd.under_way++;
        first = first ? first : last;
    }
    assert_int_equal(error, COP_EAGAIN);
    assert_int_equal(crowd.under_way, COP_RPC_MAX);
    /* One that waits and one that does not are aborted, and there is room again. */
    assert_int_equal(cop_bcast_abort(run, last), 0);
    assert_int_equal(cop_bcast_abort(run, first), 0);
    assert_int_equal(crowd.ended, 0);
    while (crowd.ended < 2)
        assert_int_equal(cop_poll(run, -1), 0);
    assert_int_equal(crowd.aborted, 2);
    assert_int_equal(cop_rpc(run, &call, on_one_of_many, &crowd), 0);
    crowd.under_way++;
    /* The end of the run is the end of all. */
    runs_free(hall->runs, 0);
    assert_int_equal(crowd.under_way, 0);
    assert_int_equal(crowd.ended, COP_RPC_MAX + 1);
}

/* ---- lives ----------------------------------------------------------------------- */

static bool is_back(struct hall *hall)
{
    return hall->runs->players[2].views == 2 && hall->runs->players[0].views >= 3;
}

static bool three_have_a_view(struct runs *runs)
{
    return runs->players[0].size == 3 && runs->players[1].size == 3 &&
           runs->players[2].size == 3;
}

static void services_outlive_nodes(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {
        .service = SERVICE, .op = COP_OP_SUM, .timeout_ns = 100 * COP_SEC};
    hall->rejoins = true;
    hall_open(hall, 3, "chain");
    replies_everywhere(hall);
    hall->desks[2].replies = false;
    hall->desks[2].run_returns = COP_LATER;
    assert_int_equal(cop_rpc(hall_run(hall, 0), &call, hall_done, hall), 0);
    hall_until(hall, the_last_runs);
    uint64_t task = hall->desks[2].task;
    runs_remove_third(hall->runs);
    hall_until_ended(hall);
    assert_int_equal(hall_failure(hall, 2, NULL, NULL), COP_ELOST);
    hall_until(hall, is_back);
    /* Its task ended with its life, and the number is nobody's. */
    assert_string_equal(hall->desks[2].trace, "crds");
    hall->desks[2].replies = true;
    hall->desks[2].run_returns = 0;
    assert_int_equal(hall_rpc(hall, 0, &call), 0);
    assert_int_equal(cop_value(&hall->ended.result, 0), 7);
    assert_true(hall->desks[2].task != task);
    assert_int_equal(cop_reply(hall_run(hall, 2), task, 0, NULL, 0), COP_ENOENT);
}

/* Of one that joins, before it has a node. */
static void services_before_the_view(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .op = COP_OP_SUM};
    struct cop_handlers handlers = hall_handlers(hall, 2);
    hall_open(hall, 2, "chain");
    struct cop_settings settings = runs_joiner(hall->runs, 2, "third");
    runs_start(hall->runs, 2, &settings);
    assert_int_equal(cop_service_register(hall_run(hall, 2), &handlers), 0);
    assert_int_equal(cop_rpc(hall_run(hall, 2), &call, NULL, NULL), COP_ESTATE);
    hall->desks[2].value = 4;
    hall->n = 3;
    replies_everywhere(hall);
    runs_until(hall->runs, three_have_a_view);
    assert_int_equal(hall_rpc(hall, 2, &call), 0);
    assert_int_equal(cop_value(&hall->ended.result, 0), 7);
}

/* ---- without memory -------------------------------------------------------------- */

static void no_memory(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .bytes = "x", .length = 1};
    struct cop_handlers handlers = hall_handlers(hall, 0);
    bool is_hit = true;
    hall_open(hall, 2, "chain");
    struct cop_run *run = hall_run(hall, 0);
    handlers.service = 42;
    for (size_t n = 0; n < 2; n++) {
        failing_alloc_after(n);
        int error = cop_rpc(run, &call, hall_done, hall);
        failing_alloc_off();
        assert_int_equal(error, COP_ENOMEM);
    }
    for (size_t n = 0; is_hit; n++) {
        uint64_t number;
        failing_alloc_after(n);
        int error = cop_bcast_new(run, &call, hall_done, hall, &number);
        is_hit = failing_alloc_hit();
        failing_alloc_off();
        assert_int_equal(error, is_hit ? COP_ENOMEM : 0);
    }
    failing_alloc_after(0);
    assert_int_equal(cop_service_register(run, &handlers), COP_ENOMEM);
    failing_alloc_off();
    assert_int_equal(cop_service_unregister(run, 42), COP_ENOENT);
}

/* ---- arguments ------------------------------------------------------------------- */

static void wrong_arguments(void **state)
{
    struct hall *hall = *state;
    struct cop_call call = {.service = SERVICE, .length = 3};
    struct cop_bcast_result result;
    struct cop_handlers handlers = hall_handlers(hall, 0);
    static const uint8_t large[COP_BCAST_MAX + 1];
    struct cop_portion portion = {1, NULL, 3};
    uint64_t number;
    hall_open(hall, 2, "chain");
    struct cop_run *run = hall_run(hall, 0);
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_rpc(NULL, &call, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_rpc(run, NULL, NULL, NULL), COP_EINVAL);
    call.bytes = large;
    call.length = sizeof large;
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_ETOOBIG);
    call.length = COP_BCAST_MAX; /* there is a head before it */
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_ETOOBIG);
    call.length = 0;
    call.portion_count = 1;
    assert_int_equal(cop_bcast_new(run, &call, NULL, NULL, &number), COP_EINVAL);
    call.portions = &portion;
    assert_int_equal(cop_bcast_new(run, &call, NULL, NULL, &number), COP_EINVAL);
    call.portion_count = 0;
    call.flags = COP_BCAST_BULK;
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_EINVAL);
    call.flags = 0;
    call.group = 77;
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_ENOENT);
    call.group = COP_GROUP_ALL;
    call.op = COP_OP_TOP;
    assert_int_equal(cop_rpc(run, &call, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_rpc_wait(run, &call, &result), COP_ESTATE);
    handlers.size = 8;
    handlers.service = 43;
    assert_int_equal(cop_service_register(run, &handlers), COP_EINVAL);
    assert_int_equal(cop_service_register(run, NULL), COP_EINVAL);
    cop_result_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hall_set_up, hall_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_are_combined),
        TEST(answers_are_listed),
        TEST(nothing_to_say),
        TEST(one_payload_each),
        TEST(order_with_heal),
        TEST(services_combine_without_heal),
        TEST(verdicts_without_heal),
        TEST(tree_is_known),
        TEST(tree_is_known_to_the_task),
        TEST(answers_land_in_buffers),
        TEST(answers_in_pieces),
        TEST(never_replies),
        TEST(replies_twice),
        TEST(refuses),
        TEST(unregisters),
        TEST(unregisters_while_it_runs),
        TEST(replies_after_abort),
        TEST(groups_now_and_lazy),
        TEST(groups_that_cannot_be),
        TEST(out_of_band_groups),
        TEST(the_dead_are_named),
        TEST(lowest_version_is_tried),
        TEST(a_thousand_in_flight),
        TEST(a_slow_leaf_holds_up_nobody_else),
        TEST(too_many_are_pushed_back),
        TEST(services_outlive_nodes),
        TEST(services_before_the_view),
        TEST(no_memory),
        TEST(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
