/* SPDX-License-Identifier: Apache-2.0 */
#include "member/state.h"

#include <stdlib.h>

/*
 * Frames that came too early: from a view, or on top of one, that I do not have. Their sender is
 * asked for it, and again after a while. They are judged anew whenever I know a view that I did
 * not; what is still too early then waits on. Nothing waits for ever: at its deadline a frame is
 * given to its handler as one that cannot be kept.
 */
#define HELD_MAX 256u
/* A member can choose how long its frames are. */
#define HELD_BYTES_MAX (16u << 20)

static bool has_room(const struct cop__member *member, const struct cop_frame *frame)
{
    size_t bytes = frame->payload->length;
    for (uint32_t i = 0; i < member->held_count; i++)
        bytes += member->held[i].frame.payload->length;
    return member->held_count < HELD_MAX && bytes <= HELD_BYTES_MAX;
}

static bool grow(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (member->held_count < member->held_capacity)
        return true;
    uint32_t capacity = member->held_capacity ? 2 * member->held_capacity : 4;
    void *grown = realloc(member->held, capacity * sizeof *member->held);
    if (!grown) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    member->held = grown;
    member->held_capacity = capacity;
    return true;
}

bool cop__member_hold(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__member *member = cop__member(node);
    const struct cop__held *again = member->judged; /* it was held before */
    if (!has_room(member, frame) || (again && node->now >= again->until)) {
        COP__COUNT(node, ignored_epoch);
        return false;
    }
    if (!grow(node))
        return false;
    cop_buf_ref(frame->payload);
    member->held[member->held_count++] = (struct cop__held){
        .frame = *frame, .until = again ? again->until : node->now + COP__HELD_FOR};
    if (!again) {
        COP__COUNT(node, frames_held);
        cop__member_ask_view(node, frame->header.sender,
                             frame->header.sender_incarnation);
    }
    cop__member_look_soon(node);
    return true;
}

/* Each is judged anew; what is still too early is held again, no longer than before. */
static void release(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    struct cop__held *held = member->held;
    uint32_t count = member->held_count;
    member->held = NULL;
    member->held_count = member->held_capacity = 0;
    for (uint32_t i = 0; i < count; i++) {
        member->judged = &held[i];
        if (!node->failed && member->phase != PHASE_OUT)
            cop__take_again(node, &held[i].frame);
        cop_buf_unref(held[i].frame.payload);
    }
    member->judged = NULL;
    free(held);
}

/* Whom I asked may have been asked too early, or have had nothing to say. */
static void ask_again(struct cop_node *node)
{
    const struct cop__member *member = cop__member(node);
    cop_id asked = COP_ID_NONE;
    for (uint32_t i = 0; i < member->held_count; i++) {
        const struct cop_header *header = &member->held[i].frame.header;
        if (header->sender != asked)
            cop__member_ask_view(node, header->sender, header->sender_incarnation);
        asked = header->sender;
    }
}

static bool is_any_due(const struct cop_node *node)
{
    const struct cop__member *member = cop__member(node);
    for (uint32_t i = 0; i < member->held_count; i++)
        if (node->now >= member->held[i].until)
            return true;
    return false;
}

void cop__member_mind_held(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    if (member->held_count > 0 && (member->judge_held || is_any_due(node)))
        release(node);
    member->judge_held = false;
    if (member->held_count == 0) {
        member->held_again = 0;
        return;
    }
    if (member->held_again != 0 && node->now >= member->held_again)
        ask_again(node);
    if (node->now >= member->held_again)
        member->held_again = node->now + COP__HELD_AGAIN;
    cop__member_wake_at(node, member->held_again);
    for (uint32_t i = 0; i < member->held_count; i++)
        cop__member_wake_at(node, member->held[i].until);
}
