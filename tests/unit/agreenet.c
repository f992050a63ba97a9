/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

#include "agreenet.h"

static int longest(const void *left, uint32_t left_length, const void *right,
                   uint32_t right_length, void *out, uint32_t *out_length)
{
    bool take_left =
        left_length > right_length ||
        (left_length == right_length && memcmp(left, right, left_length) >= 0);
    *out_length = take_left ? left_length : right_length;
    memcpy(out, take_left ? left : right, *out_length);
    return 0;
}

static int refuse(const void *left, uint32_t left_length, const void *right,
                  uint32_t right_length, void *out, uint32_t *out_length)
{
    (void)left;
    (void)left_length;
    (void)right;
    (void)right_length;
    (void)out;
    *out_length = 0;
    return COP_ERANGE;
}

static const struct cop_operation operations[] = {{"longest", longest},
                                                  {"refuse", refuse}};

/* ---- the network ----------------------------------------------------------------- */

void agreenet_crash(struct agreenet *net, cop_id id)
{
    cop_node_destroy(net->nodes[id]);
    net->nodes[id] = NULL;
    for (cop_id other = 0; other < AGREENET_NODES; other++)
        net->hears[other][id] = CLOSED;
}

static void carry(struct agreenet *net, cop_id id, const struct cop_effect *effect)
{
    if (effect->kind == COP_EFFECT_SEND) {
        assert_true(net->item_count < AGREENET_ITEMS);
        net->items[net->item_count] = effect->frame;
        cop_buf_ref(net->items[net->item_count++].payload);
    } else if (effect->kind == COP_EFFECT_COMPLETE) {
        assert_true(net->end_count < AGREENET_ENDS);
        net->ends[net->end_count++] = (struct agreenet_end){
            id, effect->token, effect->status, cop_buf_ref(effect->result)};
    }
    if ((effect->kind == COP_EFFECT_CONNECT || effect->kind == COP_EFFECT_SEND) &&
        !net->nodes[effect->peer])
        net->hears[id][effect->peer] = REFUSED;
}

int agreenet_event(struct agreenet *net, cop_id id, struct cop_event *given)
{
    given->now = net->now;
    if (!net->nodes[id])
        return COP_ELOST;
    int status = cop_step(net->nodes[id], given, &net->effects);
    if (status == COP_ENOMEM) {
        failing_alloc_off();
        net->unchecked = false;
        agreenet_crash(net, id);
        return status;
    }
    for (uint32_t i = 0; i < net->effects.count; i++)
        carry(net, id, &net->effects.items[i]);
    if (!net->unchecked)
        assert_null(cop_node_check(net->nodes[id]));
    return status;
}

void agreenet_down(struct agreenet *net, cop_id id, cop_id peer)
{
    struct cop_event gone = {.kind = COP_EVENT_PEER_DOWN,
                             .peer = peer,
                             .incarnation = 1,
                             .why = net->hears[id][peer] == CLOSED ? COP_DOWN_CLOSED
                                                                   : COP_DOWN_REFUSED};
    net->hears[id][peer] = NOTHING;
    agreenet_event(net, id, &gone);
}

static bool hear(struct agreenet *net)
{
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        for (cop_id peer = 0; peer < AGREENET_NODES; peer++)
            if (net->nodes[id] && !net->nodes[peer] && net->hears[id][peer]) {
                agreenet_down(net, id, peer);
                return true;
            }
    return false;
}

void agreenet_deliver_first(struct agreenet *net)
{
    struct cop_frame frame = net->items[0];
    struct cop_event recv = {
        .kind = COP_EVENT_RECV, .peer = frame.header.sender, .frame = &frame};
    net->item_count--;
    memmove(net->items, net->items + 1, net->item_count * sizeof *net->items);
    agreenet_event(net, frame.header.receiver, &recv);
    cop_buf_unref(frame.payload);
}

void agreenet_settle(struct agreenet *net)
{
    for (int turn = 0; turn < 120; turn++) {
        while (net->item_count > 0)
            agreenet_deliver_first(net);
        if (hear(net))
            continue;
        net->now += 25 * COP_MSEC;
        for (cop_id id = 0; id < AGREENET_NODES; id++) {
            struct cop_event tick = {.kind = COP_EVENT_TICK};
            if (net->nodes[id] && cop_deadline(net->nodes[id]) <= net->now)
                agreenet_event(net, id, &tick);
        }
    }
}

struct agreenet *agreenet_create(void)
{
    struct agreenet *net = calloc(1, sizeof *net);
    struct cop_shape shape;
    assert_non_null(net);
    net->now = COP_SEC;
    assert_int_equal(cop_shape_make(COP_SHAPE_CHAIN, 0, &shape), 0);
    assert_int_equal(cop_view_create_static(AGREENET_NODES, &shape, 1, &net->view), 0);
    return net;
}

void agreenet_start(struct agreenet *net, enum cop_quorum quorum)
{
    for (cop_id id = 0; id < AGREENET_NODES; id++) {
        struct cop_config config = {.self = id,
                                    .incarnation = 1,
                                    .view = net->view,
                                    .stats = &net->stats,
                                    .now = net->now,
                                    .quorum = quorum,
                                    .operations = operations,
                                    .operation_count = 2};
        struct cop_event tick = {.kind = COP_EVENT_TICK};
        if (cop_node_create(&config, &net->nodes[id]) != 0) {
            failing_alloc_off();
            net->unchecked = false;
            net->nodes[id] = NULL; /* it was never there */
        }
        agreenet_event(net, id, &tick);
    }
}

struct agreenet *agreenet_create_started(void)
{
    struct agreenet *net = agreenet_create();
    agreenet_start(net, COP_QUORUM_NONE);
    return net;
}

void agreenet_forget_ends(struct agreenet *net)
{
    while (net->end_count > 0)
        cop_buf_unref(net->ends[--net->end_count].result);
}

void agreenet_destroy(struct agreenet *net)
{
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        cop_node_destroy(net->nodes[id]);
    for (uint32_t i = 0; i < net->item_count; i++)
        cop_buf_unref(net->items[i].payload);
    agreenet_forget_ends(net);
    cop_effects_free(&net->effects);
    cop_view_unref(net->view);
    free(net);
}

/* ---- requests -------------------------------------------------------------------- */

int agreenet_submit(struct agreenet *net, cop_id id, const struct cop_request *request)
{
    struct cop_event given = {.kind = COP_EVENT_SUBMIT, .request = request};
    return agreenet_event(net, id, &given);
}

int agreenet_make(struct agreenet *net, cop_id id, const struct cop_agree_group *group)
{
    struct cop_request request = {
        .kind = COP_REQUEST_AGREE_GROUP, .token = 1000, .new_group = group};
    return agreenet_submit(net, id, &request);
}

void agreenet_make_all(struct agreenet *net, const struct cop_agree_group *group)
{
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        if (net->nodes[id])
            agreenet_make(net, id, group);
}

int agreenet_call(struct agreenet *net, cop_id id, uint64_t token, uint32_t op,
                  enum cop_value_type type, const void *bytes, uint32_t length)
{
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .token = token,
                                  .group = 7,
                                  .op = op,
                                  .type = type,
                                  .bytes = bytes,
                                  .length = length};
    return agreenet_submit(net, id, &request);
}

int agreenet_call_word(struct agreenet *net, cop_id id, uint64_t token, uint32_t op,
                       uint64_t word)
{
    return agreenet_call(net, id, token, op, COP_VALUE_WORDS, &word, sizeof word);
}

int agreenet_end_of(const struct agreenet *net, cop_id id, uint64_t token,
                    struct cop_agreed *out)
{
    const struct agreenet_end *found = NULL;
    for (uint32_t i = 0; i < net->end_count; i++) {
        if (net->ends[i].id != id || net->ends[i].token != token)
            continue;
        assert_null(found);
        found = &net->ends[i];
    }
    if (!found)
        return 1;
    if (found->result && out)
        assert_int_equal(cop_agreed(found->result, out), 0);
    return found->status;
}

void agreenet_expect_word(const struct agreenet *net, uint64_t token, uint64_t word,
                          uint32_t failed)
{
    for (cop_id id = 0; id < AGREENET_NODES; id++) {
        struct cop_agreed agreed;
        if (!net->nodes[id])
            continue;
        assert_int_equal(agreenet_end_of(net, id, token, &agreed), 0);
        assert_int_equal(agreed.group, 7);
        assert_int_equal(cop_agreed_word(&agreed, 0), word);
        assert_int_equal(cop_agreed_word(&agreed, 1), 0);
        assert_int_equal(agreed.failed.count, failed);
        cop_agreed_free(&agreed);
    }
}
void agreenet_call_all(struct agreenet *net, uint64_t token, uint64_t word)
{
    for (cop_id id = 0; id < AGREENET_NODES; id++)
        if (net->nodes[id])
            agreenet_call_word(net, id, token, COP_AGREE_SUM, word);
}

void agreenet_deliver_votes(struct agreenet *net)
{
    for (uint32_t i = 0; i < net->item_count;) {
        if (net->items[i].header.kind != COP__KIND_VOTE) {
            i++;
            continue;
        }
        struct cop_frame vote = net->items[i];
        memmove(net->items + 1, net->items, i * sizeof vote);
        net->items[0] = vote;
        agreenet_deliver_first(net);
        i = 0;
    }
}
