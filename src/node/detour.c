/* SPDX-License-Identifier: Apache-2.0 */
#include "node/node.h"
#include "wire/header.h"

#include <stdlib.h>
#include <string.h>

/*
 * D14. Frames for a peer that I do not reach, and somebody else does, go to that one in a
 * RELAY, and from there to the peer: one step in between and never two, so nothing goes in
 * circles. Whoever gets a frame that way answers the same way. The first frame that comes
 * straight ends it.
 *
 * What was said before stays with the driver, and comes when the link is back. So frames may
 * overtake each other and come late, and be lost with the one in between: only kinds whose
 * senders live with that, because they ask again, are sent this way.
 */

static struct cop__detour *find(const struct cop_node *node, cop_id peer)
{
    for (uint32_t i = 0; i < node->detour_count; i++)
        if (node->detours[i].peer == peer)
            return &node->detours[i];
    return NULL;
}

/* A bad network has more of them than is worth having: then one goes. */
#define DETOURS_MAX 64u

static struct cop__detour *add(struct cop_node *node, cop_id peer)
{
    if (node->detour_count == DETOURS_MAX)
        node->detours[0] = node->detours[--node->detour_count];
    if (node->detour_count == node->detour_capacity) {
        uint32_t capacity = node->detour_capacity ? 2 * node->detour_capacity : 2;
        void *grown = realloc(node->detours, capacity * sizeof *node->detours);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        node->detours = grown;
        node->detour_capacity = capacity;
    }
    struct cop__detour *detour = &node->detours[node->detour_count++];
    *detour = (struct cop__detour){peer, COP_ID_NONE};
    return detour;
}

void cop__detour_set(struct cop_node *node, cop_id peer, cop_id via)
{
    struct cop__detour *detour = find(node, peer);
    if (peer == via || peer == node->self || via == node->self)
        return;
    if (!detour)
        detour = add(node, peer);
    if (!detour || detour->via == via)
        return;
    detour->via = via;
    cop__tell_detour(node, peer);
}

void cop__detour_end(struct cop_node *node, cop_id peer)
{
    struct cop__detour *detour = node->detour_count ? find(node, peer) : NULL;
    if (detour)
        *detour = node->detours[--node->detour_count];
}

void cop__detour_lose(struct cop_node *node, cop_id id)
{
    for (uint32_t i = node->detour_count; i > 0; i--)
        if (node->detours[i - 1].peer == id || node->detours[i - 1].via == id)
            node->detours[i - 1] = node->detours[--node->detour_count];
}

void cop__detour_prune(struct cop_node *node)
{
    for (uint32_t i = node->detour_count; i > 0; i--)
        if (cop_view_rank(node->view, node->detours[i - 1].peer) == COP_RANK_NONE ||
            cop_view_rank(node->view, node->detours[i - 1].via) == COP_RANK_NONE)
            node->detours[i - 1] = node->detours[--node->detour_count];
}

/* ---- sending --------------------------------------------------------------------- */

/*
 * Questions about the way itself go that way. Letters are numbered, and kept in order by
 * the connection.
 */
static bool may_go_round(enum cop__kind kind)
{
    switch (kind) {
    case COP__KIND_NEWS:
    case COP__KIND_JOIN:
    case COP__KIND_WHOLE:
    case COP__KIND_SYNC:
    case COP__KIND_OUT:
    case COP__KIND_INVITE:
    case COP__KIND_INVITED:
    case COP__KIND_ASK:
    case COP__KIND_ANSWER:
    case COP__KIND_REFUSED:
    case COP__KIND_TURN:
    case COP__KIND_OUTCOME:
    case COP__KIND_DONE:
    case COP__KIND_HOLD:
        return true;
    default:
        return false;
    }
}

#define AROUND (COP__HEADER_SIZE + 4u) /* and the length of the bytes */

cop_id cop__detour_for(const struct cop_node *node, cop_id peer, enum cop__kind kind,
                       uint32_t length)
{
    const struct cop__detour *detour = node->detour_count ? find(node, peer) : NULL;
    return detour && may_go_round(kind) && length <= COP__FRAME_MAX - AROUND
               ? detour->via
               : COP_ID_NONE;
}

struct cop_buf *cop__detour_wrap(const struct cop_frame *frame)
{
    size_t size = COP__HEADER_SIZE + frame->payload->length;
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return NULL;
    cop__header_encode(&frame->header, bytes);
    memcpy(bytes + COP__HEADER_SIZE, frame->payload->data, frame->payload->length);
    struct cop__msg_relay relay = {.frame = {bytes, (uint32_t)size}};
    struct cop_buf *wrapped = cop__encode_relay(&relay);
    free(bytes);
    return wrapped;
}

/* ---- in between, and at the end -------------------------------------------------- */

/* The frame inside; false if there is none that may be there. */
static bool unwrap(const struct cop_frame *outer, struct cop_header *header,
                   struct cop__bytes *payload)
{
    struct cop__msg_relay relay;
    if (cop__decode_relay(outer->payload->data, outer->payload->length, &relay) ||
        relay.frame.length < COP__HEADER_SIZE ||
        cop__header_decode(relay.frame.data, header) ||
        header->length != relay.frame.length - COP__HEADER_SIZE ||
        !may_go_round((enum cop__kind)header->kind))
        return false;
    payload->data = relay.frame.data + COP__HEADER_SIZE;
    payload->length = header->length;
    return true;
}

/* One step in between: only what its own sender gave me is passed on. */
static void pass_on(struct cop_node *node, const struct cop_frame *outer,
                    const struct cop_header *header)
{
    if (header->sender != outer->header.sender ||
        cop_view_rank(node->view, header->receiver) == COP_RANK_NONE) {
        COP__COUNT(node, ignored_stranger);
        return;
    }
    COP__COUNT(node, relayed);
    cop__emit_send(node, header->receiver, header->receiver_incarnation,
                   COP__KIND_RELAY, cop_buf_ref(outer->payload));
}

static void take_in(struct cop_node *node, const struct cop_frame *outer,
                    const struct cop_header *header, struct cop__bytes payload)
{
    struct cop_frame frame = {.header = *header};
    /* Who is not in the view has nothing to say but that it wants to be: or I would answer, and
     * keep the answers for, as many as somebody makes up. */
    if (header->sender == outer->header.sender || header->sender >= COP_MEMBERS_MAX ||
        (header->kind != COP__KIND_JOIN &&
         cop_view_rank(node->view, header->sender) == COP_RANK_NONE)) {
        COP__COUNT(node, ignored_stranger);
        return;
    }
    frame.payload = cop_buf_copy(payload.data, payload.length);
    if (!frame.payload) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    if (cop_view_rank(node->view, header->sender) != COP_RANK_NONE)
        cop__detour_set(node, header->sender, outer->header.sender);
    cop__judge_frame(node, header->sender, &frame);
    cop_buf_unref(frame.payload);
}

void cop__on_relay(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop_header header;
    struct cop__bytes payload;
    if (!cop__has_views(node) || !unwrap(frame, &header, &payload)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (header.receiver == node->self)
        take_in(node, frame, &header, payload);
    else
        pass_on(node, frame, &header);
}
