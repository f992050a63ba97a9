/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any history of one member among four to seven whose views change: frames of any kind from
 * members, strangers and later lives, evidence, ticks, requests. Its invariants hold after
 * every step, and what it sends is well formed.
 *
 * A third of the frames are arbitrary bytes. The others are views, proposals, ballots and
 * letters that nearly make sense.
 */
#include "base/assert.h"
#include "detect/detect.h"
#include "fuzz_turn.h"
#include "member/state.h"
#include "node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 48
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
static cop_id next_id(struct world *world) { return next(world) % (world->n + 3); }

static struct cop_ballot next_ballot(struct world *world)
{
    uint8_t byte = next(world);
    return (struct cop_ballot){byte % 7, byte / 7 % 6, byte / 42 % 2 + 1u};
}

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

static void check_effects(const struct world *world)
{
    for (uint32_t i = 0; i < world->effects.count; i++) {
        const struct cop_effect *effect = &world->effects.items[i];
        const struct cop_header *header = &effect->frame.header;
        if (effect->kind == COP_EFFECT_VIEW)
            COP_ASSERT(cop_view_has(effect->view, world->self, 1));
        if (effect->kind != COP_EFFECT_SEND)
            continue;
        COP_ASSERT(effect->peer != world->self && header->receiver == effect->peer);
        COP_ASSERT(header->length <= cop__kind_info(header->kind)->most);
        COP_ASSERT(is_well_formed(header->kind, effect->frame.payload));
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

static void step(struct world *world, struct cop_event *event)
{
    event->now = world->now;
    cop_step(world->node, event, &world->effects);
    if (world->is_thorough)
        check_node(world);
    check_effects(world);
}

/* ---- frames ---------------------------------------------------------------------- */

static struct cop__entry next_entry(struct world *world)
{
    uint8_t byte = next(world);
    return (struct cop__entry){
        .id = next_id(world),
        .role = byte & 1 ? COP_SPARE : byte >> 4,
        .incarnation = 1u + (byte >> 1 & 1),
        .since = byte >> 2 & 7,
        .presence = (uint8_t)((byte >> 5) % 3),
    };
}

static struct cop__delta next_delta(struct world *world)
{
    struct cop__delta delta = {0};
    for (uint8_t count = next(world) % 4; count > 0; count--) {
        struct cop__entry entry = next_entry(world);
        COP_ASSERT(cop__delta_put(&delta, &entry) == 0);
    }
    return delta;
}

static struct cop_view *next_view(struct world *world, const struct cop__delta *delta)
{
    struct cop_ballot ballot = next_ballot(world);
    struct cop_view *view;
    COP_ASSERT(cop__view_derive(cop_node_view(world->node), &ballot, delta, &view) ==
               0);
    return view;
}

static struct cop_buf *make_whole(struct world *world)
{
    struct cop__delta delta = next_delta(world);
    struct cop_view *view = next_view(world, &delta);
    struct cop_buf *bytes = cop__view_encode(view);
    COP_ASSERT(bytes);
    struct cop__msg_whole whole = {.view = {bytes->data, bytes->length}};
    struct cop_buf *payload = cop__encode_whole(&whole);
    cop_buf_unref(bytes);
    cop_view_unref(view);
    cop__delta_free(&delta);
    return payload;
}

/* A proposal on the view that the node has. */
static struct cop_buf *make_proposal(struct world *world, cop_id initiator)
{
    struct cop__delta delta = next_delta(world);
    struct cop_view *base = (struct cop_view *)(uintptr_t)cop_node_view(world->node);
    struct cop_ballot ballot = {cop_view_epoch(base) + 1u + next(world) % 3, initiator,
                                1};
    struct cop_view *view;
    COP_ASSERT(cop__view_derive(base, &ballot, &delta, &view) == 0);
    struct cop_buf *bytes =
        cop__proposal_write(base, view, &delta, next(world) % 8 == 0);
    COP_ASSERT(bytes);
    const struct cop_shape *shape = cop_view_shape(base);
    struct cop__msg_ask ask = {
        .initiator = initiator,
        .incarnation = 1,
        .sequence = 1u + next(world) % 3,
        .epoch = cop_view_epoch(base),
        .left_ns = COP_SEC,
        .hop_ns = COP_MSEC,
        .protocol = COP__MEMBER_PROTOCOL,
        .flags = 1,
        .shape = (uint8_t)shape->kind,
        .inner = (uint8_t)shape->inner,
        .arity = shape->k,
        .members = cop_view_slots(view),
        .payload = {bytes->data, bytes->length},
    };
    struct cop_buf *payload = cop__encode_ask(&ask);
    cop_buf_unref(bytes);
    cop_view_unref(view);
    cop__delta_free(&delta);
    return payload;
}

static struct cop_buf *make_outcome(struct world *world, cop_id initiator)
{
    struct cop__msg_outcome outcome = {
        .initiator = initiator, .incarnation = 1, .sequence = 1u + next(world) % 3};
    return cop__encode_outcome(&outcome);
}

static struct cop_buf *make_small(struct world *world, uint16_t *kind)
{
    struct cop_ballot ballot = next_ballot(world);
    uint8_t text[] = {'x', next(world)};
    struct cop__bytes bytes = {text, sizeof text};
    struct cop__msg_join join = {ballot.epoch, ballot.root, ballot.incarnation, 0,
                                 bytes};
    struct cop__msg_sync sync = {ballot.epoch, ballot.root, ballot.incarnation,
                                 next(world) % 8};
    struct cop__msg_out out = {ballot.epoch, ballot.root, ballot.incarnation};
    struct cop__msg_invite invite = {1, ballot.incarnation, bytes};
    struct cop__msg_letter letter = {next(world) % 4,
                                     ballot.epoch,
                                     ballot.root,
                                     ballot.incarnation,
                                     (uint8_t)(next(world) % 3),
                                     bytes};
    struct cop__msg_receipt receipt = {next(world) % 4, next(world) % 2};
    switch (next(world) % 6) {
    case 0:
        *kind = COP__KIND_JOIN;
        return cop__encode_join(&join);
    case 1:
        *kind = COP__KIND_SYNC;
        return cop__encode_sync(&sync);
    case 2:
        *kind = COP__KIND_OUT;
        return cop__encode_out(&out);
    case 3:
        *kind = COP__KIND_INVITE;
        return cop__encode_invite(&invite);
    case 4:
        *kind = COP__KIND_LETTER;
        return cop__encode_letter(&letter);
    default:
        *kind = COP__KIND_RECEIPT;
        return cop__encode_receipt(&receipt);
    }
}

static struct cop_buf *make_any(struct world *world, uint16_t *kind)
{
    *kind = cop__kind_at((enum cop__kind_index)(next(world) % COP__KINDS))->kind;
    uint32_t length = next(world) % PAYLOAD_MAX;
    uint32_t left = (uint32_t)(world->end - world->at);
    length = length < left ? length : left;
    struct cop_buf *payload = cop_buf_copy(world->at, length);
    world->at += length;
    return payload;
}

static struct cop_buf *make_payload(struct world *world, cop_id sender, uint16_t *kind)
{
    switch (next(world) % 6) {
    case 0:
    case 1:
        return make_any(world, kind);
    case 2:
        *kind = COP__KIND_WHOLE;
        return make_whole(world);
    case 3:
        *kind = COP__KIND_ASK;
        return make_proposal(world, sender);
    case 4:
        *kind = COP__KIND_OUTCOME;
        return make_outcome(world, sender);
    default:
        return make_small(world, kind);
    }
}

static void receive(struct world *world)
{
    struct cop_frame frame = {0};
    cop_id sender = next_id(world);
    uint8_t byte = next(world);
    frame.payload = make_payload(world, sender, &frame.header.kind);
    COP_ASSERT(frame.payload);
    frame.header.sender = sender;
    frame.header.receiver = world->self;
    frame.header.sender_incarnation = 1u + (byte & 1);
    frame.header.receiver_incarnation = 1;
    frame.header.epoch = cop_view_epoch(cop_node_view(world->node)) + (byte >> 1 & 1);
    frame.header.length = frame.payload->length;
    struct cop_event event = {.kind = COP_EVENT_RECV, .peer = sender, .frame = &frame};
    step(world, &event);
    cop_buf_unref(frame.payload);
}

/* ---- everything else ------------------------------------------------------------- */

static void submit(struct world *world)
{
    static const enum cop_request_kind kinds[] = {COP_REQUEST_PROBE, COP_REQUEST_INVITE,
                                                  COP_REQUEST_LEAVE, COP_REQUEST_REPORT,
                                                  COP_REQUEST_SEND};
    struct cop_request request = {
        .kind = kinds[next(world) % 5],
        .token = ++world->token,
        .member = next_id(world),
        .name = "x1",
        .incarnation = next(world) % 3,
        .bytes = "ab",
        .length = 2,
    };
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    step(world, &event);
}

static void one_event(struct world *world)
{
    struct cop_event event = {0};
    switch (next(world) % 8) {
    case 0:
        event.kind = COP_EVENT_PEER_UP;
        event.peer = next_id(world);
        event.incarnation = 1u + next(world) % 2;
        step(world, &event);
        return;
    case 1:
        event.kind = COP_EVENT_PEER_DOWN;
        event.peer = next_id(world);
        event.incarnation = next(world) % 3;
        event.why = (enum cop_down)(next(world) % 3);
        step(world, &event);
        return;
    case 2:
        event.kind = COP_EVENT_TICK;
        if (cop_deadline(world->node) != COP_TIME_NEVER &&
            cop_deadline(world->node) > world->now)
            world->now = cop_deadline(world->node);
        step(world, &event);
        return;
    case 3:
        submit(world);
        return;
    default:
        receive(world);
        return;
    }
}

static void begin(struct world *world)
{
    static const char *const shapes[] = {"kary:2", "radix:4", "flat", "chain"};
    struct cop_shape shape;
    uint8_t byte = next(world);
    world->n = 4 + byte % 4;
    world->self = byte / 4 % world->n;
    world->now = COP_SEC;
    byte = next(world);
    COP_ASSERT(cop_shape_parse(shapes[byte % 4], &shape, NULL, 0) == 0);
    COP_ASSERT(cop_view_create_static(world->n, &shape, 1, &world->view) == 0);
    struct cop_config config = {
        .self = world->self,
        .incarnation = 1,
        .view = world->view,
        .stats = &world->stats,
        .now = world->now,
        .quorum = byte & 4 ? COP_QUORUM_NONE : COP_QUORUM_MAJORITY,
        .detect = {.ring_period_ns = byte & 8 ? 100 * COP_MSEC : 0,
                   .witnesses = byte & 16 ? 2 : 0},
    };
    COP_ASSERT(cop_node_create(&config, &world->node) == 0);
    struct cop_event event = {.kind = COP_EVENT_TICK};
    step(world, &event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A check costs as much as a step; what is wrong hardly ever mends itself. */
    struct world world = {.at = data, .end = data + size, .is_thorough = is_turn(8)};
    begin(&world);
    for (int i = 0; i < EVENTS_MAX && world.at < world.end; i++)
        one_event(&world);
    check_node(&world);
    cop_effects_free(&world.effects);
    cop_node_destroy(world.node);
    cop_view_unref(world.view);
    return 0;
}
