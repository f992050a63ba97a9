/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * Down. A decision is kept as the bytes that are sent, the same for everyone: it keeps the
 * round in which it was taken, whoever passes it on.
 */

/* ---- making one ------------------------------------------------------------------ */

/* Who failed: all that the view has not, but for those who have no place anyway. Where the
 * coordinator's death ended it that is the coordinator alone: the one thing that all who hear
 * of it know, also if they come to it by themselves (G11). */
static uint32_t count_failed(const struct cop__agreement *agreement, int status)
{
    bool only_first = status == COP_UNDECIDED || status == COP_UNCERTAIN;
    return only_first ? 1 : agreement->lost_count;
}

static struct cop_buf *encode_failed(const struct cop__agreement *agreement, int status)
{
    bool only_first = status == COP_UNDECIDED || status == COP_UNCERTAIN;
    uint32_t count = count_failed(agreement, status);
    struct cop_buf *buf = cop_buf_create((size_t)count * COP__SIZE_rank);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    for (uint32_t i = 0; i < count; i++) {
        cop_rank place =
            only_first ? cop__agreement_coordinator(agreement) : agreement->lost[i].at;
        cop__put_u32(&writer, cop__agreement_rank(agreement, place));
    }
    return buf;
}

struct cop_buf *cop__decision_make(struct cop_node *node,
                                   const struct cop__agreement *agreement, int status,
                                   const struct cop__share *share)
{
    bool names_some = count_failed(agreement, status) > 0;
    struct cop_buf *failed = names_some ? encode_failed(agreement, status) : NULL;
    struct cop_buf *payload = NULL;
    if (!names_some || failed) {
        struct cop__msg_decide decide = {
            .group = agreement->group->number,
            .number = agreement->number,
            .round = agreement->round,
            .root = node->self,
            .epoch = cop_view_epoch(node->view),
            .status = (uint32_t)status,
        };
        if (failed)
            decide.failed =
                (struct cop__list){failed->data, failed->length / COP__SIZE_rank};
        if (share && share->value && status == 0)
            decide.value =
                (struct cop__bytes){share->value->data, share->value->length};
        payload = cop__encode_decide(&decide);
    }
    cop_buf_unref(failed);
    if (!payload)
        cop__fail(node, COP_ENOMEM);
    return payload;
}

/* ---- taking one ------------------------------------------------------------------ */

static bool has_failed(const struct cop_node *node,
                       const struct cop__agree_group *group, cop_rank rank)
{
    if (rank >= group->count || rank == group->rank)
        return false;
    struct cop_life life = cop__agree_group_life(group, rank);
    return !cop_view_has(node->view, life.id, life.incarnation);
}

static bool is_possible(const struct cop_node *node,
                        const struct cop__agreement *agreement,
                        const struct cop__msg_decide *decide)
{
    const struct cop__agree_group *group = agreement->group;
    if (decide->group != group->number || decide->number != agreement->number ||
        (int32_t)decide->status > 0 || decide->value.length > COP_VALUE_MAX ||
        decide->epoch > cop_view_epoch(node->view))
        return false;
    for (uint32_t i = 0; i < decide->failed.count; i++) {
        cop_rank rank = cop__listed_rank(decide->failed, i);
        if (!has_failed(node, group, rank) || cop__failed_has(agreement->base, rank) ||
            (i > 0 && cop__listed_rank(decide->failed, i - 1) >= rank))
            return false;
    }
    return true;
}

void cop__agreement_tell(struct cop_node *node, struct cop__agreement *agreement,
                         cop_rank place)
{
    struct cop_life life = cop__agreement_life(agreement, place);
    cop__emit_send(node, life.id, life.incarnation, COP__KIND_DECIDE,
                   cop_buf_ref(agreement->decision));
}

/* What came of the baseline is everybody's own affair. */
static void tell_below(struct cop_node *node, struct cop__agreement *agreement)
{
    for (uint32_t i = 0; i < agreement->order.count; i++)
        if (agreement->status != COP_ELOST)
            cop__agreement_tell(node, agreement, agreement->order.items[i]);
}

bool cop__agreement_decide(struct cop_node *node, struct cop__agreement *agreement,
                           struct cop_buf *payload)
{
    struct cop__msg_decide decide;
    if (cop__decode_decide(payload->data, payload->length, &decide) ||
        !is_possible(node, agreement, &decide))
        return false;
    agreement->decision = cop_buf_ref(payload);
    agreement->failed = cop__failed_add(agreement->base, decide.failed);
    if (!agreement->failed) {
        cop__fail(node, COP_ENOMEM);
        return true;
    }
    agreement->status = (int)decide.status;
    tell_below(node, agreement);
    if (agreement->waiting)
        cop__agreement_complete(node, agreement);
    cop__agreement_shrink(agreement);
    cop__agree_stir(node);
    if (agreement->number == agreement->group->last)
        cop__agree_group_closed(node, agreement);
    if (agreement->status != COP_UNDECIDED && agreement->status != COP_UNCERTAIN)
        cop__agree_group_settle(node, agreement->group, agreement->number);
    return true;
}

bool cop__agreement_decide_copy(struct cop_node *node, struct cop__agreement *agreement,
                                struct cop__bytes payload)
{
    struct cop_buf *copy = cop_buf_copy(payload.data, payload.length);
    if (!copy) {
        cop__fail(node, COP_ENOMEM);
        return true;
    }
    bool is_taken = cop__agreement_decide(node, agreement, copy);
    cop_buf_unref(copy);
    return is_taken;
}

/*
 * G6: a decision is taken from nobody but the one who has my vote. Whoever had it before is
 * gone from my view, and my vote of this round says that I had no decision then; if I took
 * one now, the root of this round would not know of it.
 */
static bool ignore_decide(const struct cop__agreement *agreement, cop_rank from)
{
    return agreement->parent == COP_RANK_NONE || agreement->parent != from;
}

void cop__on_decide(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_decide decide;
    cop_rank from;
    if (cop__decode_decide(frame->payload->data, frame->payload->length, &decide)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__agreement *agreement =
        cop__agree_find(node, frame, decide.group, decide.number, &from);
    if (!agreement)
        return;
    if (agreement->decision) {
        COP__COUNT(node, ignored_repeated);
    } else if (ignore_decide(agreement, from)) {
        COP__COUNT(node, ignored_not_ancestor);
    } else if (!cop__agreement_decide(node, agreement, frame->payload)) {
        COP__COUNT(node, ignored_malformed);
    }
}

/* ---- the result ------------------------------------------------------------------ */

/* elapsed 64, failed ids, then the decision. */
static struct cop_buf *encode_result(const struct cop_node *node,
                                     const struct cop__agreement *agreement)
{
    struct cop__failed *failed = agreement->failed;
    const struct cop_buf *decision = agreement->decision;
    const struct cop_buf *ids = cop__agree_group_ids(agreement->group, failed);
    size_t size = 8 + 4 + 4 * (size_t)failed->count + 4 + decision->length;
    struct cop_buf *buf = ids ? cop_buf_create(size) : NULL;
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u64(&writer, node->now - agreement->begun);
    cop__put_u32(&writer, failed->count);
    memcpy(writer.at, ids->data, ids->length);
    writer.at += ids->length;
    cop__put_bytes(&writer, (struct cop__bytes){decision->data, decision->length});
    return buf;
}

void cop__agreement_complete(struct cop_node *node, struct cop__agreement *agreement)
{
    struct cop_buf *result = encode_result(node, agreement);
    if (!result) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    COP__COUNT(node, agreements);
    agreement->waiting = false;
    cop__timer_cancel(node, &agreement->timer);
    cop__emit_complete(node, agreement->token, agreement->status, result);
}

static int read_failed(struct cop__reader *reader, struct cop_ranks *out)
{
    struct cop__list list = cop__get_list(reader, COP__SIZE_rank);
    if (reader->failed)
        return COP_EMALFORMED;
    if (list.count == 0)
        return 0;
    out->items = malloc(list.count * sizeof *out->items);
    if (!out->items)
        return COP_ENOMEM;
    out->count = out->capacity = list.count;
    for (uint32_t i = 0; i < list.count; i++)
        out->items[i] = cop__listed_rank(list, i);
    return 0;
}

int cop_agreed(const struct cop_buf *result, struct cop_agreed *out)
{
    struct cop_agreed agreed = {0};
    struct cop__msg_decide decide;
    struct cop__reader reader = cop__reader(result->data, result->length);
    agreed.elapsed_ns = cop__get_u64(&reader);
    int error = read_failed(&reader, &agreed.failed);
    struct cop__bytes bytes = cop__get_bytes(&reader);
    if (!error && (!cop__reader_is_done(&reader) ||
                   cop__decode_decide(bytes.data, bytes.length, &decide)))
        error = COP_EMALFORMED;
    if (error) {
        cop_agreed_free(&agreed);
        return error;
    }
    agreed.group = decide.group;
    agreed.number = decide.number;
    agreed.epoch = decide.epoch;
    agreed.round = decide.round;
    agreed.root = decide.root;
    agreed.length = decide.value.length;
    agreed.value = decide.value.length ? decide.value.data : NULL;
    *out = agreed;
    return 0;
}

void cop_agreed_free(struct cop_agreed *agreed)
{
    cop_ranks_free(&agreed->failed);
    cop_buf_unref(agreed->kept);
    agreed->kept = NULL;
    agreed->value = NULL;
    agreed->length = 0;
}

uint64_t cop_agreed_word(const struct cop_agreed *agreed, uint32_t i)
{
    if (agreed->length < 8 || i > (agreed->length - 8) / 8)
        return 0;
    struct cop__reader reader =
        cop__reader((const uint8_t *)agreed->value + 8 * (size_t)i, 8);
    return cop__get_u64(&reader);
}
