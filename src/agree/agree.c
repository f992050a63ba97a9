/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include "member/member.h"

#include <stdlib.h>
#include <string.h>

/* ---- frames that came too early -------------------------------------------------- */

void cop__agree_stir(struct cop_node *node)
{
    cop__agree(node)->stirred = true;
    cop__notice(node, COP__SLOT_AGREE);
}

/* Of more than there is room for the latest are kept: nobody may ever ask for the others. */
static void drop_oldest(struct cop_node *node, uint32_t count)
{
    struct cop__agree *agree = cop__agree(node);
    for (uint32_t i = 0; i < count; i++) {
        agree->early_bytes -= agree->early[i].frame.header.length;
        cop_buf_unref(agree->early[i].frame.payload);
        COP__COUNT(node, ignored_unasked);
    }
    agree->early_count -= count;
    memmove(agree->early, agree->early + count,
            agree->early_count * sizeof *agree->early);
}

static void keep(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__agree *agree = cop__agree(node);
    if (agree->early_count == COP__EARLY_MAX)
        drop_oldest(node, COP__EARLY_MAX / 4);
    while (agree->early_count > 0 &&
           agree->early_bytes + frame->header.length > COP__EARLY_BYTES)
        drop_oldest(node, (agree->early_count + 3) / 4);
    if (agree->early_count == agree->early_capacity) {
        uint32_t capacity = agree->early_capacity ? 2 * agree->early_capacity : 4;
        void *grown = realloc(agree->early, capacity * sizeof *agree->early);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return;
        }
        agree->early = grown;
        agree->early_capacity = capacity;
    }
    cop_buf_ref(frame->payload);
    agree->early_bytes += frame->header.length;
    agree->early[agree->early_count++] = (struct cop__early){*frame};
}

/* Each is judged anew, in the order in which they came. */
static void release(struct cop_node *node)
{
    struct cop__agree *agree = cop__agree(node);
    struct cop__early *early = agree->early;
    uint32_t count = agree->early_count;
    agree->early = NULL;
    agree->early_count = agree->early_capacity = agree->early_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!node->failed)
            cop__take_again(node, &early[i].frame);
        cop_buf_unref(early[i].frame.payload);
    }
    free(early);
}

/*
 * What a frame needs: the view of its sender (G2), the group, and what the agreement builds on.
 * A frame that lacks one of them waits; all of them come, if they are ever needed.
 */
struct cop__agreement *cop__agree_find(struct cop_node *node,
                                       const struct cop_frame *frame, uint64_t group,
                                       uint64_t number, cop_rank *from)
{
    const struct cop_header *header = &frame->header;
    struct cop__agree_group *found = cop__agree_group_find(node, group);
    if (!found && cop__agree_is_over(cop__agree(node), group)) {
        cop__agree_answer_over(node, frame);
        return NULL;
    }
    if (header->epoch > cop_view_epoch(node->view) || !found) {
        keep(node, frame);
        return NULL;
    }
    cop_rank rank =
        cop__agree_group_rank(found, header->sender, header->sender_incarnation);
    if (rank == COP_RANK_NONE || !cop__agree_group_may_open(found, number)) {
        if (rank == COP_RANK_NONE)
            COP__COUNT(node, ignored_stranger);
        else
            COP__COUNT(node, ignored_repeated);
        return NULL;
    }
    struct cop__agreement *agreement = cop__agree_group_open(node, found, number);
    if (!agreement) {
        keep(node, frame);
        return NULL;
    }
    *from = cop__agreement_place(agreement, rank);
    if (*from == COP_RANK_NONE) {
        COP__COUNT(node, ignored_stranger);
        return NULL;
    }
    if (!agreement->laid && !agreement->decision)
        cop__agreement_lay(node, agreement);
    return node->failed ? NULL : agreement;
}

/* ---- requests -------------------------------------------------------------------- */

static void on_deadline(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__agreement *agreement = (struct cop__agreement *)(void *)timer;
    if (!agreement->waiting)
        return;
    agreement->waiting = false;
    cop__emit_complete(node, agreement->token,
                       cop_node_is_degraded(node) ? COP_EDEGRADED : COP_ETIMEDOUT,
                       NULL);
}

static void call(struct cop_node *node, struct cop__agreement *agreement,
                 const struct cop_request *request)
{
    agreement->own.value = cop_buf_copy(request->bytes, request->length);
    if (!agreement->own.value) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    agreement->own.op = request->op;
    agreement->own.type = (uint8_t)request->type;
    agreement->called = agreement->waiting = true;
    agreement->token = request->token;
    agreement->begun = node->now;
    agreement->timer.fire = on_deadline;
    cop_time left = request->timeout_ns ? request->timeout_ns : COP__AGREE_TIMEOUT;
    cop__timer_set(node, &agreement->timer,
                   left < COP_TIME_NEVER - node->now ? node->now + left
                                                     : COP_TIME_NEVER - 1);
    if (agreement->decision) {
        cop__agreement_complete(node, agreement);
        cop__share_free(&agreement->own);
    } else {
        cop__agreement_advance(node, agreement);
    }
}

static int agree(struct cop_node *node, const struct cop_request *request)
{
    struct cop__agree_group *group = cop__agree_group_find(node, request->group);
    if (!group || group->closing || (request->length && !request->bytes) ||
        request->op == COP__AGREE_CLOSE ||
        !cop__op_is_possible(node, request->op, (uint32_t)request->type,
                             request->length))
        return COP_EINVAL;
    struct cop__agreement *agreement =
        cop__agree_group_open(node, group, group->called + 1);
    if (!agreement)
        return COP_EAGAIN;
    group->called++;
    call(node, agreement, request);
    return 0;
}

static int make_group(struct cop_node *node, const struct cop_request *request)
{
    if (!request->new_group)
        return COP_EINVAL;
    int error = cop__agree_group_create(node, request->new_group);
    if (error == COP_ENOMEM)
        cop__fail(node, error);
    if (error)
        return error;
    cop__emit_complete(node, request->token, 0, NULL);
    cop__agree_stir(node);
    return 0;
}

static int free_group(struct cop_node *node, const struct cop_request *request)
{
    struct cop__agree_group *group = cop__agree_group_find(node, request->group);
    if (!group || group->closing)
        return COP_EINVAL;
    group->closing = true;
    cop__emit_complete(node, request->token, 0, NULL);
    cop__agree_stir(node);
    return 0;
}

/* The caller waits no longer; what it gave stands. */
static int cancel(struct cop_node *node, uint64_t token)
{
    const struct cop__agree *agree = cop__agree(node);
    for (uint32_t i = 0; i < agree->group_count; i++) {
        struct cop__agree_group *group = agree->groups[i];
        for (uint32_t j = 0; j < group->ring_size; j++) {
            struct cop__agreement *agreement = group->ring[j];
            if (!agreement || !agreement->waiting || agreement->token != token)
                continue;
            agreement->waiting = false;
            cop__timer_cancel(node, &agreement->timer);
            cop__emit_complete(node, token, COP_EABORTED, NULL);
            return 0;
        }
    }
    return COP_ENOENT;
}

static int on_submit(struct cop_node *node, const struct cop_request *request)
{
    bool is_mine = request->kind == COP_REQUEST_AGREE_GROUP ||
                   request->kind == COP_REQUEST_AGREE ||
                   request->kind == COP_REQUEST_AGREE_FREE;
    if (request->kind == COP_REQUEST_ABORT)
        return cancel(node, request->target);
    if (!is_mine)
        return COP_ENOENT;
    if (!cop_node_is_member(node))
        return COP_ESTATE;
    if (request->kind == COP_REQUEST_AGREE_FREE)
        return free_group(node, request);
    return request->kind == COP_REQUEST_AGREE_GROUP ? make_group(node, request)
                                                    : agree(node, request);
}

/* ---- the layer ------------------------------------------------------------------- */

static void on_view(struct cop_node *node, const struct cop_view *old)
{
    (void)old;
    cop__agree(node)->moved = true;
    cop__agree_stir(node);
}

static void on_change(struct cop_node *node, const struct cop__change *change)
{
    (void)change;
    cop__agree(node)->doubted = true;
    cop__notice(node, COP__SLOT_AGREE);
}

/* G6: who has decided, and loses the one above it, says so to the next one above. */
static void report_decision(struct cop_node *node, struct cop__agreement *agreement)
{
    if (agreement->group->algorithm == COP_AGREE_ALLREDUCE)
        return;
    cop_rank before = agreement->parent;
    cop__agreement_lay(node, agreement);
    if (agreement->parent != COP_RANK_NONE && agreement->parent != before &&
        !node->failed)
        cop__agreement_cast(node, agreement);
    cop__agreement_shrink(agreement);
}

static void advance_all(struct cop_node *node, struct cop__agree_group *group,
                        bool anew)
{
    for (uint32_t i = 0; i < group->ring_size && !node->failed; i++) {
        struct cop__agreement *agreement = group->ring[i];
        if (!agreement)
            continue;
        if (anew)
            agreement->laid = false;
        if (!agreement->decision)
            cop__agreement_advance(node, agreement);
        else if (anew)
            report_decision(node, agreement);
        if (anew && cop__agreement_is_last(agreement))
            cop__agreement_ask_below(node, agreement);
    }
}

/* Who is lost by a view is lost for all agreements at once, before any frame is read. */
static void settle(struct cop_node *node)
{
    struct cop__agree *agree = cop__agree(node);
    while ((agree->moved || agree->doubted || agree->stirred) && !node->failed) {
        bool moved = agree->moved, doubted = agree->doubted, stirred = agree->stirred;
        agree->moved = agree->doubted = agree->stirred = false;
        for (uint32_t i = 0; i < agree->group_count && (moved || doubted); i++) {
            bool anew = moved && cop__agree_group_survey(node, agree->groups[i]);
            if (anew || doubted)
                advance_all(node, agree->groups[i], anew);
        }
        if (stirred && agree->early_count > 0)
            release(node);
        cop__agree_close_some(node);
    }
}

static void fini(struct cop_node *node)
{
    struct cop__agree *agree = cop__agree(node);
    for (uint32_t i = 0; i < agree->group_count; i++)
        cop__agree_group_free(node, agree->groups[i]);
    for (uint32_t i = 0; i < agree->early_count; i++)
        cop_buf_unref(agree->early[i].frame.payload);
    free(agree->groups);
    free(agree->early);
    free(agree->over);
}

const struct cop__layer cop__agree_layer = {
    .name = "agree",
    .size = sizeof(struct cop__agree),
    .for_views = true,
    .fini = fini,
    .on_view = on_view,
    .on_change = on_change,
    .settle = settle,
    .on_submit = on_submit,
    .digest = cop__agree_digest,
    .check = cop__agree_check,
    .bytes = cop__agree_bytes,
};
