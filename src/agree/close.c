/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include "base/rankset.h"

#include <stdlib.h>
#include <string.h>

/*
 * Giving groups back (G13). A member that is done with a group, and has decided all that it
 * called there, calls one more agreement, without a value: that all are done. When that is
 * decided nobody who lives will ask for anything that came before, and the group goes at
 * once, at whoever hears of it; what is left is its number.
 *
 * So the others may find that somebody who has to vote, or to tell them, has no group any
 * more. That in itself is the answer: it would have it if not everybody had voted. Whoever
 * votes to such a one is told (DECIDE); whoever gets new ones below it asks them (QUERY),
 * for they will not vote.
 */

/* ---- numbers that are over ------------------------------------------------------- */

/* The first span that does not end before the number. */
static uint32_t span_at(const struct cop__agree *agree, uint64_t number)
{
    uint32_t low = 0, high = agree->over_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (agree->over[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool cop__agree_is_over(const struct cop__agree *agree, uint64_t number)
{
    uint32_t at = span_at(agree, number);
    return at < agree->over_count && agree->over[at].first <= number;
}

static int insert_span(struct cop__agree *agree, uint32_t at, uint64_t number)
{
    if (agree->over_count == agree->over_capacity) {
        uint32_t capacity = agree->over_capacity ? 2 * agree->over_capacity : 2;
        void *grown = realloc(agree->over, capacity * sizeof *agree->over);
        if (!grown)
            return COP_ENOMEM;
        agree->over = grown;
        agree->over_capacity = capacity;
    }
    memmove(agree->over + at + 1, agree->over + at,
            (agree->over_count - at) * sizeof *agree->over);
    agree->over[at] = (struct cop__over){number, number};
    agree->over_count++;
    return 0;
}

/* Numbers that follow each other are one span: who counts its groups pays nothing for it. */
static int add_over(struct cop__agree *agree, uint64_t number)
{
    uint32_t at = span_at(agree, number);
    bool after = at > 0 && agree->over[at - 1].last + 1 == number;
    bool before = at < agree->over_count && agree->over[at].first == number + 1;
    if (after && before) {
        agree->over[at - 1].last = agree->over[at].last;
        agree->over_count--;
        memmove(agree->over + at, agree->over + at + 1,
                (agree->over_count - at) * sizeof *agree->over);
    } else if (after) {
        agree->over[at - 1].last = number;
    } else if (before) {
        agree->over[at].first = number;
    } else {
        return insert_span(agree, at, number);
    }
    return 0;
}

/* ---- saying that I am done ------------------------------------------------------- */

static bool is_idle(const struct cop__agree_group *group)
{
    for (uint64_t number = group->oldest; number <= group->called; number++) {
        const struct cop__agreement *agreement = cop__agree_group_at(group, number);
        if (agreement && !agreement->decision)
            return false;
    }
    return true;
}

/* Nobody waits for it, so it needs no deadline. */
static void call_last(struct cop_node *node, struct cop__agree_group *group)
{
    struct cop__agreement *agreement =
        cop__agree_group_open(node, group, group->called + 1);
    if (!agreement)
        return;
    group->last = ++group->called;
    agreement->called = true;
    agreement->begun = node->now;
    if (agreement->decision) { /* that nothing was, before I came to it (G10) */
        cop__agree_group_closed(node, agreement);
        return;
    }
    struct cop_buf *nothing = cop_buf_copy(NULL, 0);
    if (!nothing) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    agreement->own = (struct cop__share){.value = nothing, .op = COP__AGREE_CLOSE};
    cop__agreement_advance(node, agreement);
}

void cop__agree_group_closed(struct cop_node *node, struct cop__agreement *agreement)
{
    struct cop__agree_group *group = agreement->group;
    /* Without a decision, or with somebody who called something else: once more. */
    if (agreement->status == 0 || agreement->status == COP_ELOST)
        group->closed = true;
    else
        group->last = 0;
    cop__agree_stir(node);
}

static void give_back(struct cop_node *node, uint32_t at)
{
    struct cop__agree *agree = cop__agree(node);
    struct cop__agree_group *group = agree->groups[at];
    if (add_over(agree, group->number)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    for (uint32_t i = 0; i < group->watched.count; i++)
        cop__unwatch(node, group->watched.items[i]);
    cop__agree_group_free(node, group);
    agree->group_count--;
    memmove(agree->groups + at, agree->groups + at + 1,
            (agree->group_count - at) * sizeof(struct cop__agree_group *));
    cop__agree_stir(node); /* frames about it may wait */
}

void cop__agree_close_some(struct cop_node *node)
{
    struct cop__agree *agree = cop__agree(node);
    for (uint32_t i = agree->group_count; i-- > 0 && !node->failed;) {
        struct cop__agree_group *group = agree->groups[i];
        if (group->closed)
            give_back(node, i);
        else if (group->closing && group->last == 0 && is_idle(group))
            call_last(node, group);
    }
}

/* ---- somebody else is not --------------------------------------------------------- */

void cop__agreement_ask_below(struct cop_node *node, struct cop__agreement *agreement)
{
    const struct cop__agree_group *group = agreement->group;
    struct cop__msg_query query = {
        .group = group->number, .number = agreement->number, .round = agreement->round};
    for (uint32_t i = 0; i < agreement->child_count && !node->failed; i++) {
        const struct cop__child *child = &agreement->children[i];
        if (child->voted)
            continue;
        struct cop_life life = cop__agreement_life(agreement, child->place);
        cop__emit_send(node, life.id, life.incarnation, COP__KIND_QUERY,
                       cop__encode_query(&query));
    }
}

static struct cop_buf *decide_over(const struct cop_node *node,
                                   const struct cop_frame *frame, uint64_t group,
                                   uint64_t number, cop_epoch round)
{
    struct cop__msg_decide decide = {.group = group,
                                     .number = number,
                                     .round = round,
                                     .root = node->self,
                                     .epoch = frame->header.epoch};
    return cop__encode_decide(&decide);
}

static void answer_vote(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_vote vote;
    if (cop__decode_vote(frame->payload->data, frame->payload->length, &vote) ||
        vote.op != COP__AGREE_CLOSE || vote.flags == COP__HELD_DECISION) {
        COP__COUNT(node, ignored_repeated);
        return;
    }
    cop__emit_send(node, frame->header.sender, frame->header.sender_incarnation,
                   COP__KIND_DECIDE,
                   decide_over(node, frame, vote.group, vote.number, vote.round));
}

static void answer_query(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_query query;
    struct cop_buf *decision = NULL;
    if (cop__decode_query(frame->payload->data, frame->payload->length, &query) == 0)
        decision = decide_over(node, frame, query.group, query.number, query.round);
    if (!decision) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop__msg_standing standing = {
        .group = query.group,
        .number = query.number,
        .round = query.round,
        .decision = {decision->data, decision->length}};
    cop__emit_send(node, frame->header.sender, frame->header.sender_incarnation,
                   COP__KIND_STANDING, cop__encode_standing(&standing));
    cop_buf_unref(decision);
}

void cop__agree_answer_over(struct cop_node *node, const struct cop_frame *frame)
{
    if (frame->header.kind == COP__KIND_VOTE)
        answer_vote(node, frame);
    else if (frame->header.kind == COP__KIND_QUERY)
        answer_query(node, frame);
    else
        COP__COUNT(node, ignored_repeated);
}
