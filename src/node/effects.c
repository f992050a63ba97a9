/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"
#include "wire/header.h"

#include <stdlib.h>

void cop_effects_clear(struct cop_effects *effects)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        cop_buf_unref(effects->items[i].frame.payload);
        cop_buf_unref(effects->items[i].result);
        cop_view_unref(effects->items[i].view);
    }
    effects->count = 0;
}

void cop_effects_free(struct cop_effects *effects)
{
    cop_effects_clear(effects);
    free(effects->items);
    *effects = (struct cop_effects){0};
}

/* A new effect at the end of the list, or NULL if the node has failed. */
static struct cop_effect *append(struct cop_node *node, enum cop_effect_kind kind)
{
    struct cop_effects *effects = node->effects;
    if (node->failed || !effects)
        return NULL;
    if (effects->count == effects->capacity) {
        uint32_t capacity = effects->capacity ? effects->capacity * 2 : 16;
        void *grown = realloc(effects->items, capacity * sizeof *effects->items);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        effects->items = grown;
        effects->capacity = capacity;
    }
    struct cop_effect *effect = &effects->items[effects->count++];
    *effect = (struct cop_effect){.kind = kind, .peer = COP_ID_NONE};
    return effect;
}

static void count_send(struct cop_node *node, enum cop__kind kind, uint32_t length)
{
    if (!node->stats)
        return;
    node->stats->sent[cop__kind_index((uint16_t)kind)]++;
    node->stats->sent_bytes += COP__HEADER_SIZE + length;
}

static struct cop_header make_header(const struct cop_node *node, cop_id peer,
                                     cop_incarnation incarnation, enum cop__kind kind,
                                     uint32_t length)
{
    return (struct cop_header){
        .kind = (uint16_t)kind,
        .sender = node->self,
        .receiver = peer,
        .sender_incarnation = node->incarnation,
        .receiver_incarnation = incarnation,
        .epoch = cop_view_epoch(node->view),
        .length = length,
    };
}

/* The same frame, in one to somebody in between; takes over the payload. */
COP__COLD static struct cop_frame go_round(struct cop_node *node, cop_id via,
                                           const struct cop_frame *frame)
{
    struct cop_buf *wrapped = cop__detour_wrap(frame);
    cop_buf_unref(frame->payload);
    if (!wrapped)
        cop__fail(node, COP_ENOMEM);
    return (struct cop_frame){
        .header = make_header(node, via, cop_view_incarnation(node->view, via),
                              COP__KIND_RELAY, wrapped ? wrapped->length : 0),
        .payload = wrapped,
    };
}

void cop__emit_send(struct cop_node *node, cop_id peer, cop_incarnation incarnation,
                    enum cop__kind kind, struct cop_buf *payload)
{
    if (!payload) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop_frame frame = {
        .header = make_header(node, peer, incarnation, kind, payload->length),
        .payload = payload,
    };
    cop_id via = cop__detour_for(node, peer, kind, payload->length);
    if (via != COP_ID_NONE)
        frame = go_round(node, via, &frame);
    struct cop_effect *effect = append(node, COP_EFFECT_SEND);
    if (!effect) {
        cop_buf_unref(frame.payload);
        return;
    }
    effect->peer = frame.header.receiver;
    effect->frame = frame;
    count_send(node, (enum cop__kind)frame.header.kind, frame.header.length);
}

void cop__emit_complete(struct cop_node *node, uint64_t token, int status,
                        struct cop_buf *result)
{
    struct cop_effect *effect = append(node, COP_EFFECT_COMPLETE);
    if (!effect) {
        cop_buf_unref(result);
        return;
    }
    effect->token = token;
    effect->status = status;
    effect->result = result;
}

void cop__emit_connect(struct cop_node *node, cop_id peer)
{
    struct cop_effect *effect = append(node, COP_EFFECT_CONNECT);
    if (effect)
        effect->peer = peer;
}

void cop__emit_close(struct cop_node *node, cop_id peer)
{
    struct cop_effect *effect = append(node, COP_EFFECT_CLOSE);
    if (effect)
        effect->peer = peer;
}

void cop__emit_deliver(struct cop_node *node, cop_id from, cop_incarnation incarnation,
                       uint8_t channel, struct cop_buf *bytes)
{
    struct cop_effect *effect = append(node, COP_EFFECT_DELIVER);
    if (!effect) {
        cop_buf_unref(bytes);
        return;
    }
    effect->peer = from;
    effect->token = incarnation;
    effect->status = channel;
    effect->result = bytes;
}

void cop__emit_service(struct cop_node *node, uint64_t handle, int status,
                       struct cop_buf *record)
{
    struct cop_effect *effect = append(node, COP_EFFECT_UPCALL);
    if (!effect) {
        cop_buf_unref(record);
        return;
    }
    effect->token = handle;
    effect->status = status;
    effect->result = record;
}

void cop__emit_stream(struct cop_node *node, uint64_t stream, struct cop_buf *event)
{
    struct cop_effect *effect = append(node, COP_EFFECT_STREAM);
    if (!effect) {
        cop_buf_unref(event);
        return;
    }
    effect->token = stream;
    effect->result = event;
}

void cop__emit_piece(struct cop_node *node, uint64_t handle, struct cop_buf *record,
                     struct cop_buf *bytes)
{
    struct cop_effect *effect = append(node, COP_EFFECT_UPCALL);
    if (!effect) {
        cop_buf_unref(record);
        cop_buf_unref(bytes);
        return;
    }
    effect->token = handle;
    effect->result = record;
    effect->frame.payload = bytes;
}

void cop__emit_view(struct cop_node *node)
{
    struct cop_effect *effect = append(node, COP_EFFECT_VIEW);
    if (effect)
        effect->view = cop_view_ref(node->view);
}

void cop__emit_state(struct cop_node *node, enum cop_effect_kind kind, int status)
{
    struct cop_effect *effect = append(node, kind);
    if (effect)
        effect->status = status;
}
