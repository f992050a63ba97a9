/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any history of one node among five to nine: frames of any kind from anybody, evidence,
 * ticks, requests. Its invariants hold after every step; what it sends is well formed and for
 * a member; and when time has passed nothing of any sweep is left.
 *
 * Half of the frames are arbitrary bytes. The others are built from small numbers, because
 * only what nearly makes sense comes far.
 */
#include "base/assert.h"
#include "fuzz_turn.h"
#include "node/node.h"
#include "sweep/cover.h"
#include "sweep/sweep.h"

#include <stdio.h>
#include <stdlib.h>

#define EVENTS_MAX 40
#define PAYLOAD_MAX 200u

struct world {
    const uint8_t *at, *end; /* of the input */
    uint32_t n;
    cop_id self;
    cop_time now;
    struct cop_view *view;
    struct cop_node *node;
    struct cop_stats stats;
    struct cop_effects effects;
    uint64_t token;
    bool is_thorough; /* checked after every step, and not only at the end */
};

static uint8_t next(struct world *world)
{
    return world->at < world->end ? *world->at++ : 0;
}

/* Members, and now and then somebody who is none. */
static cop_id next_id(struct world *world) { return next(world) % (world->n + 1); }

/* ---- steps ----------------------------------------------------------------------- */

static bool is_well_formed(uint16_t kind, const struct cop_buf *payload)
{
    switch (kind) {
#define CASE(NAME, name, number, class, most, text)                                    \
    case number: {                                                                     \
        struct cop__msg_##name message;                                                \
        return cop__decode_##name(payload->data, payload->length, &message) == 0;      \
    }
        COP__MESSAGES(CASE)
#undef CASE
    default:
        return false;
    }
}

static void check_send(const struct world *world, const struct cop_effect *effect)
{
    const struct cop_header *header = &effect->frame.header;
    COP_ASSERT(header->sender == world->self && header->receiver == effect->peer);
    COP_ASSERT(header->sender_incarnation == 1 && header->receiver_incarnation > 0);
    COP_ASSERT(header->epoch == cop_view_epoch(world->view));
    COP_ASSERT(effect->frame.payload->length == header->length);
    COP_ASSERT(header->length <= cop__kind_info(header->kind)->most);
    COP_ASSERT(is_well_formed(header->kind, effect->frame.payload));
}

static void check_complete(const struct world *world, const struct cop_effect *effect)
{
    struct cop_probe_result result;
    COP_ASSERT(effect->token > 0 && effect->token <= world->token);
    if (!effect->result) {
        COP_ASSERT(effect->status == COP_EABORTED);
        return;
    }
    COP_ASSERT(cop_probe_result(effect->result, &result) == 0);
    COP_ASSERT(result.members == world->n);
    COP_ASSERT(result.dead.count + result.silent.count < world->n);
    cop_probe_result_free(&result);
}

static void check_effects(const struct world *world)
{
    for (uint32_t i = 0; i < world->effects.count; i++) {
        const struct cop_effect *effect = &world->effects.items[i];
        if (effect->kind == COP_EFFECT_COMPLETE) {
            check_complete(world, effect);
            continue;
        }
        if (effect->kind == COP_EFFECT_SUSPICION)
            continue;
        COP_ASSERT(effect->peer < world->n && effect->peer != world->self);
        if (effect->kind == COP_EFFECT_SEND)
            check_send(world, effect);
    }
}

static void check_node(const struct world *world)
{
    const char *wrong = cop_node_check(world->node);
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        abort();
    }
}

static int step(struct world *world, struct cop_event *event)
{
    event->now = world->now;
    int error = cop_step(world->node, event, &world->effects);
    if (world->is_thorough)
        check_node(world);
    check_effects(world);
    return error;
}

/* ---- frames ---------------------------------------------------------------------- */

static uint32_t put_beliefs(struct world *world, struct cop__writer *writer)
{
    uint32_t count = next(world) % 4;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t bits = next(world);
        struct cop__belief belief = {
            .id = next_id(world),
            .incarnation = 1 + (bits & 3),
            .denial = bits >> 2 & 3,
            .status = bits >> 4 & 1,
        };
        cop__belief_put(writer, &belief);
    }
    return count;
}

static uint32_t put_marks(struct world *world, struct cop__writer *writer)
{
    uint32_t count = next(world) % 4;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t bits = next(world);
        struct cop__mark mark = {.rank = bits >> 2, .mode = bits & 3};
        cop__mark_put(writer, &mark);
    }
    return count;
}

static uint32_t put_parts(struct world *world, struct cop__writer *writer)
{
    uint8_t *start = writer->at;
    for (uint32_t parts = next(world) % 4; parts > 0; parts--) {
        struct cop__writer length = *writer;
        cop__put_u32(writer, 0);
        cop__put_u32(&length, put_marks(world, writer));
        cop__put_u32(writer, 16);
        cop__put_u64(writer, next(world) % 8);
        cop__put_u64(writer, next(world));
    }
    COP_ASSERT(!writer->failed);
    return (uint32_t)(writer->at - start);
}

/* Whose sweep: small numbers, so that frames meet. */
struct name {
    cop_id initiator;
    cop_incarnation incarnation;
    uint64_t sequence, mark;
};

static struct name next_name(struct world *world)
{
    uint8_t bits = next(world);
    return (struct name){
        .initiator = next_id(world),
        .incarnation = 1 + (bits & 1),
        .sequence = 1 + (bits >> 1 & 3),
        .mark = bits >> 3 & 3,
    };
}

static struct cop_buf *build_ask(struct world *world, const struct name *name)
{
    static const cop_time times[] = {0, COP_MSEC, COP_SEC, 10 * COP_SEC};
    const struct cop_shape *shape = cop_view_shape(world->view);
    uint8_t bits = next(world);
    struct cop__msg_ask ask = {
        .initiator = name->initiator,
        .incarnation = name->incarnation,
        .sequence = name->sequence,
        .mark = name->mark,
        .left_ns = times[bits & 3],
        .hop_ns = times[bits >> 2 & 1],
        .flags = bits >> 3 & 1,
        .shape = (uint8_t)(bits & 0x80 ? next(world) % 8 : shape->kind),
        .arity = bits & 0x80 ? next(world) % 5 : shape->k,
        .members = world->n,
    };
    return cop__encode_ask(&ask);
}

static struct cop_buf *build_answer(struct world *world, const struct name *name)
{
    uint8_t parts[3 * (4 + 3 * COP__SIZE_mark + 20)], lost[4 * COP__SIZE_belief];
    struct cop__writer writer = cop__writer(parts, sizeof parts);
    uint32_t length = put_parts(world, &writer);
    writer = cop__writer(lost, sizeof lost);
    uint32_t count = put_beliefs(world, &writer);
    uint8_t bits = next(world);
    struct cop__msg_answer answer = {
        .initiator = name->initiator,
        .incarnation = name->incarnation,
        .sequence = name->sequence,
        .mark = name->mark,
        .floor = bits & 2 ? bits >> 2 & 7 : UINT64_MAX,
        .flags = bits & 1,
        .parts = {parts, length},
        .lost = {lost, count},
    };
    return cop__encode_answer(&answer);
}

static struct cop_buf *build_turn(struct world *world, const struct name *name)
{
    uint8_t lineage[4 * COP__SIZE_belief];
    struct cop__writer writer = cop__writer(lineage, sizeof lineage);
    uint32_t count = put_beliefs(world, &writer);
    struct cop__msg_turn turn = {
        name->initiator, name->incarnation, name->sequence,
        name->mark,      {lineage, count},
    };
    return cop__encode_turn(&turn);
}

static struct cop_buf *build_outcome(struct world *world, const struct name *name)
{
    static const int statuses[] = {0, COP_EABORTED, COP_ETIMEDOUT, 77};
    struct cop__msg_outcome outcome = {
        .initiator = name->initiator,
        .incarnation = name->incarnation,
        .sequence = name->sequence,
        .mark = name->mark,
        .status = (uint32_t)statuses[next(world) & 3],
    };
    return cop__encode_outcome(&outcome);
}

static struct cop_buf *build_hold(struct world *world, const struct name *name)
{
    uint8_t marks[4 * COP__SIZE_mark];
    struct cop__writer writer = cop__writer(marks, sizeof marks);
    uint32_t count = put_marks(world, &writer);
    struct cop__msg_hold hold = {
        name->initiator, name->incarnation, name->sequence, name->mark, {marks, count},
    };
    return cop__encode_hold(&hold);
}

static struct cop_buf *build_news(struct world *world)
{
    uint8_t beliefs[4 * COP__SIZE_belief];
    struct cop__writer writer = cop__writer(beliefs, sizeof beliefs);
    uint32_t count = put_beliefs(world, &writer);
    struct cop__msg_news news = {.beliefs = {beliefs, count}};
    return cop__encode_news(&news);
}

static struct cop_buf *build(struct world *world, uint16_t kind)
{
    if (kind == COP__KIND_NEWS)
        return build_news(world);
    struct name name = next_name(world);
    switch (kind) {
    case COP__KIND_ASK:
        return build_ask(world, &name);
    case COP__KIND_ANSWER:
        return build_answer(world, &name);
    case COP__KIND_TURN:
        return build_turn(world, &name);
    case COP__KIND_OUTCOME:
        return build_outcome(world, &name);
    case COP__KIND_HOLD:
        return build_hold(world, &name);
    default: {
        struct cop__msg_done done = {name.initiator, name.incarnation, name.sequence,
                                     name.mark};
        return cop__encode_done(&done);
    }
    }
}

/* Bytes as they are; NULL for none. */
static struct cop_buf *raw(struct world *world)
{
    uint32_t length = next(world) % PAYLOAD_MAX;
    if (length > (size_t)(world->end - world->at))
        length = (uint32_t)(world->end - world->at);
    struct cop_buf *buf = length ? cop_buf_copy(world->at, length) : NULL;
    world->at += length;
    return buf;
}

static void receive(struct world *world, bool arbitrary)
{
    static const uint16_t kinds[] = {
        COP__KIND_NEWS,    COP__KIND_ASK,  COP__KIND_ANSWER, COP__KIND_TURN,
        COP__KIND_OUTCOME, COP__KIND_DONE, COP__KIND_HOLD,   COP__KIND_DATA};
    uint8_t bits = next(world);
    cop_id sender = next_id(world);
    uint16_t kind = kinds[bits & 7];
    struct cop_buf *payload = arbitrary ? raw(world) : build(world, kind);
    struct cop_frame frame = {
        .header =
            {
                .kind = kind,
                .sender = sender,
                .receiver = world->self,
                .sender_incarnation = 1 + (bits >> 3 & 1),
                .receiver_incarnation = 1,
                .epoch = cop_view_epoch(world->view),
                .length = payload ? payload->length : 0,
            },
        .payload = payload,
    };
    /* The life of the sender that is known now is what most frames are from. */
    if (sender < world->n && !(bits & 0x10))
        frame.header.sender_incarnation =
            cop_node_belief(world->node, sender).incarnation;
    struct cop_event event = {.kind = COP_EVENT_RECV, .peer = sender, .frame = &frame};
    step(world, &event);
    cop_buf_unref(payload);
}

/* ---- other events ---------------------------------------------------------------- */

static void submit(struct world *world)
{
    uint8_t bits = next(world);
    struct cop_request request = {
        .kind = bits & 1 ? COP_REQUEST_ABORT : COP_REQUEST_PROBE,
        .token = world->token + 1,
        .timeout_ns = bits & 2 ? COP_SEC : 0,
        .outcome = bits & 4,
        .target = 1 + (bits >> 4),
    };
    if (bits & 8)
        request.shape.kind = COP_SHAPE_FLAT;
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    if (request.kind == COP_REQUEST_PROBE)
        world->token++;
    step(world, &event);
}

static void tick(struct world *world)
{
    static const cop_time steps[] = {0, COP_MSEC, 100 * COP_MSEC, 5 * COP_SEC};
    struct cop_event event = {.kind = COP_EVENT_TICK};
    world->now += steps[next(world) & 3];
    step(world, &event);
}

static void one_event(struct world *world)
{
    uint8_t op = next(world) & 7;
    struct cop_event event = {0};
    switch (op) {
    case 0:
        receive(world, true);
        return;
    case 1:
    case 2:
    case 3:
        receive(world, false);
        return;
    case 4:
        event.kind = COP_EVENT_PEER_UP;
        event.peer = next_id(world);
        event.incarnation = 1 + (next(world) & 3);
        break;
    case 5:
        event.kind = COP_EVENT_PEER_DOWN;
        event.peer = next_id(world);
        event.why = (enum cop_down)(next(world) % 3);
        break;
    case 6:
        tick(world);
        return;
    default:
        submit(world);
        return;
    }
    step(world, &event);
}

/* ---- one history ----------------------------------------------------------------- */

static void begin(struct world *world)
{
    static const char *const shapes[] = {"kary:2", "radix:4", "knomial:2", "flat",
                                         "chain"};
    struct cop_shape shape;
    world->n = 5 + next(world) % 5;
    world->self = next(world) % world->n;
    world->now = COP_SEC;
    COP_ASSERT(cop_shape_parse(shapes[next(world) % 5], &shape, NULL, 0) == 0);
    COP_ASSERT(cop_view_create_static(world->n, &shape, 1, &world->view) == 0);
    struct cop_config config = {
        .self = world->self,
        .incarnation = 1,
        .view = world->view,
        .stats = &world->stats,
        .now = world->now,
    };
    COP_ASSERT(cop_node_create(&config, &world->node) == 0);
    struct cop_event event = {.kind = COP_EVENT_TICK};
    step(world, &event);
}

/* Every wait ends: ticks alone bring the node to rest, with nothing kept. */
static void rest(struct world *world)
{
    struct cop_event event = {.kind = COP_EVENT_TICK};
    for (int i = 0; i < 1000 && cop_deadline(world->node) != COP_TIME_NEVER; i++) {
        if (cop_deadline(world->node) > world->now)
            world->now = cop_deadline(world->node);
        step(world, &event);
    }
    COP_ASSERT(cop_deadline(world->node) == COP_TIME_NEVER);
    COP_ASSERT(cop_node_sweeps(world->node) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A check costs as much as a step; what is wrong hardly ever mends itself. */
    struct world world = {.at = data, .end = data + size, .is_thorough = is_turn(8)};
    begin(&world);
    for (int i = 0; i < EVENTS_MAX && world.at < world.end; i++)
        one_event(&world);
    check_node(&world);
    rest(&world);
    check_node(&world);
    cop_effects_free(&world.effects);
    cop_node_destroy(world.node);
    cop_view_unref(world.view);
    return 0;
}
