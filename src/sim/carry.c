/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include "wire/header.h"

#include <stdlib.h>
#include <string.h>

/* The effects of a step become events, in their order. */

/* Whether the bytes of a header say what the header said. */
static bool survives_the_wire(const struct cop_header *header)
{
    uint8_t bytes[COP__HEADER_SIZE];
    struct cop_header read;
    cop__header_encode(header, bytes);
    if (cop__header_decode(bytes, &read) != 0)
        return false;
    return read.kind == header->kind && read.flags == header->flags &&
           read.sender == header->sender && read.receiver == header->receiver &&
           read.sender_incarnation == header->sender_incarnation &&
           read.receiver_incarnation == header->receiver_incarnation &&
           read.epoch == header->epoch && read.length == header->length;
}

/* The events of the queue do not carry what follows from who sends; so it must follow. */
static bool header_is_honest(const struct cop_sim *sim, cop_id id,
                             const struct cop_effect *effect)
{
    const struct cop_header *header = &effect->frame.header;
    uint32_t length = effect->frame.payload ? effect->frame.payload->length : 0;
    return header->sender == id && header->receiver == effect->peer &&
           header->sender_incarnation == cop__sim_incarnation(sim, id) &&
           header->flags == 0 && header->length == length && effect->peer != id &&
           effect->peer < sim->config.nodes;
}

static void carry_send(struct cop_sim *sim, cop_id id, const struct cop_effect *effect)
{
    const struct cop_header *header = &effect->frame.header;
    bool codec = (sim->config.flags & COP_SIM_CODEC) != 0;
    if (!header_is_honest(sim, id, effect) || (codec && !survives_the_wire(header))) {
        cop_sim_fail(sim, "sim",
                     "node %u sent a frame of kind %u that no driver could send",
                     (unsigned)id, (unsigned)header->kind);
        return;
    }
    struct cop__sim_event *event =
        cop__sim_event(sim, COP__SIM_FRAME, id, effect->peer);
    if (!event)
        return;
    event->frame_kind = header->kind;
    event->word = header->receiver_incarnation;
    event->view = header->epoch;
    struct cop_buf *payload = effect->frame.payload;
    event->payload = codec && payload ? cop_buf_copy(payload->data, payload->length)
                                      : cop_buf_ref(payload);
    sim->nodes[id].sends++;
    cop__links_send(sim, event);
}

static void carry_complete(struct cop_sim *sim, cop_id id,
                           const struct cop_effect *effect)
{
    cop__trace_complete(sim, id, effect);
    if (effect->token >= COP__INVITE_TOKEN) {
        cop__joining_complete(sim, effect);
        return;
    }
    cop__sim_after_complete(sim, id, effect);
    if (sim->config.complete)
        sim->config.complete(sim->config.context, sim, id, effect->token,
                             effect->status, effect->result);
}

/* Who left is gone; who was removed comes back, as a new life. */
static void carry_out(struct cop_sim *sim, cop_id id, int why)
{
    uint32_t called = sim->nodes[id].called;
    cop__faults_crash(sim, id);
    if (why == COP_EREMOVED)
        cop__joining_begin(sim, id, called, false, COP_MSEC);
    else if (why != 0) /* no view ever had it */
        cop__joining_begin(sim, called ? COP_ID_NONE : id, called, false, COP_MSEC);
}

static bool has_peer(enum cop_effect_kind kind)
{
    return kind == COP_EFFECT_SEND || kind == COP_EFFECT_CONNECT ||
           kind == COP_EFFECT_CLOSE;
}

static void carry(struct cop_sim *sim, cop_id id, const struct cop_effect *effect)
{
    if (has_peer(effect->kind) &&
        (effect->peer >= sim->config.nodes || effect->peer == id)) {
        cop_sim_fail(sim, "sim", "node %u named peer %u, which it cannot have",
                     (unsigned)id, (unsigned)effect->peer);
        return;
    }
    switch (effect->kind) {
    case COP_EFFECT_SEND:
        carry_send(sim, id, effect);
        break;
    case COP_EFFECT_CONNECT:
        cop__links_connect(sim, id, effect->peer);
        break;
    case COP_EFFECT_CLOSE:
        cop__links_close(sim, id, effect->peer);
        break;
    case COP_EFFECT_COMPLETE:
        carry_complete(sim, id, effect);
        break;
    case COP_EFFECT_VIEW:
        cop__sim_after_view(sim, id, effect->view);
        if (sim->config.viewed)
            sim->config.viewed(sim->config.context, sim, id, effect->view);
        break;
    case COP_EFFECT_DELIVER:
        cop__sim_after_deliver(sim, id, effect);
        break;
    case COP_EFFECT_DEGRADED:
    case COP_EFFECT_HELD:
    case COP_EFFECT_SUSPICION:
        break;
    case COP_EFFECT_UPCALL:
        cop__service_upcall(sim, id, effect);
        break;
    case COP_EFFECT_STREAM:
        cop__trace_stream(sim, id, effect);
        cop__sim_after_stream(sim, id, effect);
        break;
    case COP_EFFECT_OUT:
        carry_out(sim, id, effect->status);
        break;
    }
}

void cop__sim_carry(struct cop_sim *sim, cop_id id)
{
    struct cop__sim_node *node = &sim->nodes[id];
    uint16_t life = node->life;
    for (uint32_t i = 0; i < sim->effects.count; i++) {
        const struct cop_effect *effect = &sim->effects.items[i];
        carry(sim, id, effect);
        if (effect->kind == COP_EFFECT_SEND && (node->flags & COP__NODE_RULES) &&
            cop__faults_due(sim, id, COP_SIM_AFTER_SEND, node->sends))
            cop__faults_crash(sim, id);
        /* A crash, also one by a checker's or the caller's hand, loses the rest. */
        if (!node->actor || node->life != life || sim->failure[0])
            return;
    }
}
