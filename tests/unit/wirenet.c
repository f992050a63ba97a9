/* SPDX-License-Identifier: Apache-2.0 */
#include "wirenet.h"

#include "probe/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* More deliveries than this without an end in sight are a loop. */
#define DELIVERIES_MAX 1000000u

/* ---- a protocol that is watched -------------------------------------------------- */

/* A node knows its statistics, and those are the first thing in a wirenet_node. */
static struct wirenet_node *seen_by(const struct cop_node *node)
{
    return (struct wirenet_node *)(void *)node->stats;
}

/* The net that a node is in: its stack is a part of it. */
static struct wirenet *net_of(const struct cop_node *node)
{
    const char *stack = (const char *)node->stack;
    return (struct wirenet *)(uintptr_t)(stack - offsetof(struct wirenet, stack));
}

static void witness_ask(struct cop_node *node, struct cop__sweep *sweep)
{
    seen_by(node)->asks++;
    cop__probe_protocol.on_ask(node, sweep);
}

static void witness_loss(struct cop_node *node, struct cop__sweep *sweep)
{
    seen_by(node)->losses++;
    if (net_of(node)->leaves)
        cop__sweep_leave(node, sweep);
}

static void witness_outcome(struct cop_node *node, struct cop__sweep *sweep, int status,
                            struct cop__bytes payload)
{
    struct wirenet_node *seen = seen_by(node);
    seen->outcomes++;
    seen->outcome_status = status;
    seen->outcome_length = payload.length;
    cop__probe_protocol.on_outcome(node, sweep, status, payload);
}

/* The real stack, with the real protocol, but for the functions above. */
static void put_witness(struct wirenet *net, struct cop_node *node)
{
    net->witness = cop__probe_protocol;
    net->witness.on_ask = witness_ask;
    net->witness.on_outcome = witness_outcome;
    net->witness.on_initiator_lost = witness_loss;
    net->protocols[COP__PROBE_PROTOCOL] = &net->witness;
    net->stack = *node->stack;
    net->stack.protocols = net->protocols;
    node->stack = &net->stack;
}

/* ---- the queue ------------------------------------------------------------------- */

static void push(struct wirenet *net, struct wirenet_item item)
{
    if (net->item_count == WIRENET_ITEMS)
        fail_msg("wirenet: more than %u items under way", WIRENET_ITEMS);
    net->items[net->item_count++] = item;
}

static struct wirenet_item take(struct wirenet *net, uint32_t i)
{
    struct wirenet_item item = net->items[i];
    net->item_count--;
    memmove(net->items + i, net->items + i + 1,
            (net->item_count - i) * sizeof *net->items);
    return item;
}

static bool matches(const struct wirenet_item *item, cop_id from, cop_id to)
{
    return (from == COP_ID_NONE || item->from == from) &&
           (to == COP_ID_NONE || item->to == to);
}

void wirenet_lose(struct wirenet *net, cop_id from, cop_id to)
{
    for (uint32_t i = net->item_count; i > 0; i--)
        if (matches(&net->items[i - 1], from, to))
            cop_buf_unref(take(net, i - 1).frame.payload);
}

void wirenet_lose_all(struct wirenet *net)
{
    wirenet_lose(net, COP_ID_NONE, COP_ID_NONE);
}

const struct wirenet_item *wirenet_find(const struct wirenet *net, cop_id from,
                                        cop_id to, enum cop__kind kind)
{
    for (uint32_t i = 0; i < net->item_count; i++) {
        const struct wirenet_item *item = &net->items[i];
        if (item->kind == COP_EVENT_RECV && matches(item, from, to) &&
            item->frame.header.kind == kind)
            return item;
    }
    return NULL;
}

uint32_t wirenet_count(const struct wirenet *net, cop_id from, cop_id to,
                       enum cop__kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->item_count; i++)
        count += net->items[i].kind == COP_EVENT_RECV &&
                 matches(&net->items[i], from, to) &&
                 net->items[i].frame.header.kind == kind;
    return count;
}

/* ---- connections ----------------------------------------------------------------- */

bool wirenet_lives(const struct wirenet *net, cop_id id)
{
    return net->nodes[id].node != NULL;
}

static bool reach(struct wirenet *net, cop_id from, cop_id to)
{
    if (!wirenet_lives(net, to)) {
        push(net, (struct wirenet_item){.kind = COP_EVENT_PEER_DOWN,
                                        .from = to,
                                        .to = from,
                                        .why = COP_DOWN_REFUSED});
        return false;
    }
    if (net->connected[from][to])
        return true;
    net->connected[from][to] = net->connected[to][from] = true;
    push(net, (struct wirenet_item){.kind = COP_EVENT_PEER_UP,
                                    .from = to,
                                    .to = from,
                                    .incarnation = net->nodes[to].incarnation});
    push(net, (struct wirenet_item){.kind = COP_EVENT_PEER_UP,
                                    .from = from,
                                    .to = to,
                                    .incarnation = net->nodes[from].incarnation});
    return true;
}

static void keep_end(struct wirenet *net, cop_id id, const struct cop_effect *effect)
{
    assert_true(net->end_count < WIRENET_ENDS);
    net->ends[net->end_count++] = (struct wirenet_end){
        .id = id,
        .token = effect->token,
        .status = effect->status,
        .result = cop_buf_ref(effect->result),
    };
}

static void carry_out(struct wirenet *net, cop_id id, const struct cop_effect *effect)
{
    switch (effect->kind) {
    case COP_EFFECT_SEND:
        if (!reach(net, id, effect->peer))
            return;
        cop_buf_ref(effect->frame.payload);
        push(net, (struct wirenet_item){.kind = COP_EVENT_RECV,
                                        .from = id,
                                        .to = effect->peer,
                                        .frame = effect->frame});
        return;
    case COP_EFFECT_CONNECT:
        net->wished[id][effect->peer] = true;
        reach(net, id, effect->peer);
        return;
    case COP_EFFECT_CLOSE:
        net->wished[id][effect->peer] = false;
        return;
    case COP_EFFECT_DELIVER:
    case COP_EFFECT_VIEW:
    case COP_EFFECT_DEGRADED:
    case COP_EFFECT_UPCALL:
    case COP_EFFECT_OUT:
    case COP_EFFECT_HELD:
    case COP_EFFECT_SUSPICION:
    case COP_EFFECT_STREAM:
        return; /* its views are fixed */
    case COP_EFFECT_COMPLETE:
        keep_end(net, id, effect);
        return;
    }
}

/* ---- life ------------------------------------------------------------------------ */

int wirenet_start(struct wirenet *net, cop_id id)
{
    struct wirenet_node *slot = &net->nodes[id];
    struct cop_config config = {
        .self = id,
        .incarnation = slot->incarnation + 1,
        .view = net->view,
        .stats = &slot->stats,
        .now = net->now,
    };
    struct cop_node *node;
    int error = cop_node_create(&config, &node);
    if (error)
        return error;
    put_witness(net, node);
    slot->node = node;
    slot->incarnation = config.incarnation;
    slot->failed = 0;
    return 0;
}

struct wirenet *wirenet_create_empty(uint32_t n, const char *shape)
{
    assert_true(n <= WIRENET_NODES);
    struct wirenet *net = calloc(1, sizeof *net);
    assert_non_null(net);
    struct cop_shape parsed;
    assert_int_equal(cop_shape_parse(shape, &parsed, NULL, 0), 0);
    net->n = n;
    net->now = COP_SEC;
    assert_int_equal(cop_view_create_static(n, &parsed, 1, &net->view), 0);
    return net;
}

struct wirenet *wirenet_create(uint32_t n, const char *shape)
{
    struct wirenet *net = wirenet_create_empty(n, shape);
    for (cop_id id = 0; id < n; id++)
        assert_int_equal(wirenet_start(net, id), 0);
    wirenet_tick(net);
    wirenet_settle(net);
    return net;
}

void wirenet_destroy(struct wirenet *net)
{
    wirenet_lose_all(net);
    for (cop_id id = 0; id < net->n; id++)
        cop_node_destroy(net->nodes[id].node);
    for (uint32_t i = 0; i < net->end_count; i++)
        cop_buf_unref(net->ends[i].result);
    cop_effects_free(&net->effects);
    cop_view_unref(net->view);
    free(net);
}

void wirenet_crash(struct wirenet *net, cop_id id)
{
    assert_true(wirenet_lives(net, id));
    cop_node_destroy(net->nodes[id].node);
    net->nodes[id].node = NULL;
    wirenet_lose(net, COP_ID_NONE, id);
    for (cop_id peer = 0; peer < net->n; peer++) {
        net->wished[id][peer] = false;
        if (!net->connected[id][peer])
            continue;
        net->connected[id][peer] = net->connected[peer][id] = false;
        push(net, (struct wirenet_item){.kind = COP_EVENT_PEER_DOWN,
                                        .from = id,
                                        .to = peer,
                                        .why = COP_DOWN_CLOSED});
    }
}

int wirenet_restart(struct wirenet *net, cop_id id)
{
    assert_false(wirenet_lives(net, id));
    int error = wirenet_start(net, id);
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    return error ? error : wirenet_event(net, id, &tick);
}

void wirenet_hold(struct wirenet *net, cop_id from, cop_id to)
{
    net->held[from][to] = true;
}

void wirenet_release(struct wirenet *net) { memset(net->held, 0, sizeof net->held); }

/* ---- steps ----------------------------------------------------------------------- */

int wirenet_event(struct wirenet *net, cop_id id, struct cop_event *event)
{
    struct wirenet_node *slot = &net->nodes[id];
    event->now = net->now;
    int error = cop_step(slot->node, event, &net->effects);
    if (error == COP_ENOMEM) {
        /* It has stopped for good, and its process would end. */
        assert_int_equal(net->effects.count, 0);
        slot->failed = error;
        wirenet_crash(net, id);
        return error;
    }
    const char *wrong = net->unchecked ? NULL : cop_node_check(slot->node);
    if (wrong)
        fail_msg("node %u: %s", (unsigned)id, wrong);
    for (uint32_t i = 0; i < net->effects.count; i++)
        carry_out(net, id, &net->effects.items[i]);
    return error;
}

int wirenet_submit(struct wirenet *net, cop_id id, const struct cop_request *request)
{
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = request};
    return wirenet_event(net, id, &event);
}

int wirenet_probe(struct wirenet *net, cop_id id, uint64_t token, bool outcome)
{
    struct cop_request request = {
        .kind = COP_REQUEST_PROBE,
        .token = token,
        .outcome = outcome,
    };
    return wirenet_submit(net, id, &request);
}

void wirenet_down(struct wirenet *net, cop_id id, cop_id peer, enum cop_down why)
{
    struct cop_event event = {.kind = COP_EVENT_PEER_DOWN, .peer = peer, .why = why};
    wirenet_event(net, id, &event);
}

static void deliver(struct wirenet *net, uint32_t i)
{
    struct wirenet_item item = take(net, i);
    if (wirenet_lives(net, item.to)) {
        struct cop_event event = {
            .kind = item.kind,
            .peer = item.from,
            .incarnation = item.incarnation,
            .why = item.why,
            .frame = item.kind == COP_EVENT_RECV ? &item.frame : NULL,
        };
        wirenet_event(net, item.to, &event);
    }
    cop_buf_unref(item.frame.payload);
}

bool wirenet_deliver_from(struct wirenet *net, cop_id from, cop_id to)
{
    for (uint32_t i = 0; i < net->item_count; i++) {
        if (!matches(&net->items[i], from, to))
            continue;
        deliver(net, i);
        return true;
    }
    return false;
}

bool wirenet_deliver(struct wirenet *net)
{
    uint32_t start = 0;
    if (net->random && net->item_count > 0)
        start = (uint32_t)cop__random_below(net->random, net->item_count);
    for (uint32_t k = 0; k < net->item_count; k++) {
        const struct wirenet_item *item = &net->items[(start + k) % net->item_count];
        if (!net->held[item->from][item->to])
            return wirenet_deliver_from(net, item->from, item->to);
    }
    return false;
}

void wirenet_deliver_all(struct wirenet *net, cop_id from, cop_id to)
{
    while (wirenet_deliver_from(net, from, to))
        ;
}

void wirenet_settle(struct wirenet *net)
{
    uint32_t deliveries = 0;
    while (wirenet_deliver(net))
        if (++deliveries > DELIVERIES_MAX)
            fail_msg("wirenet: no end in sight");
}

/* The earliest deadline of all. */
static cop_time next_deadline(const struct wirenet *net)
{
    cop_time next = COP_TIME_NEVER;
    for (cop_id id = 0; id < net->n; id++)
        if (wirenet_lives(net, id) && cop_deadline(net->nodes[id].node) < next)
            next = cop_deadline(net->nodes[id].node);
    return next;
}

void wirenet_tick(struct wirenet *net)
{
    struct cop_event tick = {.kind = COP_EVENT_TICK};
    for (cop_id id = 0; id < net->n; id++)
        if (wirenet_lives(net, id) && cop_deadline(net->nodes[id].node) <= net->now)
            wirenet_event(net, id, &tick);
}

void wirenet_advance(struct wirenet *net, cop_time by)
{
    cop_time end = net->now + by;
    wirenet_settle(net);
    for (cop_time next; (next = next_deadline(net)) <= end;) {
        if (next > net->now)
            net->now = next;
        wirenet_tick(net);
        wirenet_settle(net);
    }
    net->now = end;
}

/* ---- frames by hand -------------------------------------------------------------- */

struct cop_frame wirenet_frame(const struct wirenet *net, cop_id from, cop_id to,
                               enum cop__kind kind, struct cop_buf *payload)
{
    assert_non_null(payload);
    return (struct cop_frame){
        .header =
            {
                .kind = (uint16_t)kind,
                .sender = from,
                .receiver = to,
                .sender_incarnation = net->nodes[from].incarnation,
                .receiver_incarnation = net->nodes[to].incarnation,
                .epoch = cop_view_epoch(net->view),
                .length = payload->length,
            },
        .payload = payload,
    };
}

void wirenet_recv(struct wirenet *net, const struct cop_frame *frame)
{
    struct cop_event event = {
        .kind = COP_EVENT_RECV,
        .peer = frame->header.sender,
        .frame = frame,
    };
    wirenet_event(net, frame->header.receiver, &event);
    cop_buf_unref(frame->payload);
}

void wirenet_tell(struct wirenet *net, cop_id from, cop_id to,
                  struct cop__belief belief)
{
    uint8_t bytes[COP__SIZE_belief];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__belief_put(&writer, &belief);
    struct cop__msg_news news = {.beliefs = {bytes, 1}};
    struct cop_frame frame =
        wirenet_frame(net, from, to, COP__KIND_NEWS, cop__encode_news(&news));
    wirenet_recv(net, &frame);
}
