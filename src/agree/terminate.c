/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include <stdlib.h>

/*
 * TREE and LINEAR, when the coordinator is gone (G10). Each who depended on it alone, because
 * everybody between the two is gone too, stands for its sub-tree:
 *   - if its vote never left it the coordinator cannot have decided: it decides UNDECIDED;
 *   - otherwise it asks the others of its kind, and nobody else: had the coordinator decided,
 *     they were the first to know, and who is below them knows nothing that they do not;
 *   - who has decided says what; if nobody has, the outcome is UNCERTAIN.
 * All answers are of one round: after another loss they are asked for again. What comes from
 * the coordinator itself after the view that ended it is dropped (V12), so nobody who has
 * answered learns anything but by such an answer.
 */

static void decide_without(struct cop_node *node, struct cop__agreement *agreement,
                           int status)
{
    struct cop_buf *payload = cop__decision_make(node, agreement, status, NULL);
    if (!payload)
        return;
    cop__agreement_decide(node, agreement, payload);
    cop_buf_unref(payload);
}

static void end_in_doubt(struct cop_node *node, struct cop__agreement *agreement)
{
    decide_without(node, agreement,
                   agreement->group->promote ? COP_UNDECIDED : COP_UNCERTAIN);
}

static int list_tops(struct cop__agreement *agreement)
{
    struct cop_ranks tops = {0};
    int error = cop__agreement_tops(agreement, &tops);
    free(agreement->asked);
    agreement->asked_count = 0;
    agreement->asked = calloc(tops.count ? tops.count : 1, sizeof *agreement->asked);
    if (!agreement->asked)
        error = COP_ENOMEM;
    for (uint32_t i = 0; i < tops.count && !error; i++)
        if (tops.items[i] != agreement->place)
            agreement->asked[agreement->asked_count++].place = tops.items[i];
    cop_ranks_free(&tops);
    return error;
}

static void send_query(struct cop_node *node, struct cop__agreement *agreement,
                       cop_rank place)
{
    struct cop_life life = cop__agreement_life(agreement, place);
    struct cop__msg_query query = {
        .group = agreement->group->number,
        .number = agreement->number,
        .round = agreement->round,
    };
    cop__agree_group_watch(node, agreement->group,
                           cop__agreement_rank(agreement, place));
    cop__emit_send(node, life.id, life.incarnation, COP__KIND_QUERY,
                   cop__encode_query(&query));
}

void cop__agreement_terminate(struct cop_node *node, struct cop__agreement *agreement)
{
    if (!agreement->ever_cast) {
        decide_without(node, agreement, COP_UNDECIDED);
        return;
    }
    if (agreement->asked && agreement->asked_round == agreement->round)
        return;
    COP__COUNT(node, terminations);
    if (list_tops(agreement)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    agreement->asked_round = agreement->round;
    for (uint32_t i = 0; i < agreement->asked_count; i++)
        send_query(node, agreement, agreement->asked[i].place);
    if (agreement->asked_count == 0)
        end_in_doubt(node, agreement);
}

/* ---- being asked ----------------------------------------------------------------- */

static void answer(struct cop_node *node, const struct cop__agreement *agreement,
                   cop_rank to, cop_epoch round)
{
    struct cop_life life = cop__agreement_life(agreement, to);
    struct cop__msg_standing standing = {
        .group = agreement->group->number,
        .number = agreement->number,
        .round = round,
    };
    if (agreement->decision)
        standing.decision =
            (struct cop__bytes){agreement->decision->data, agreement->decision->length};
    cop__emit_send(node, life.id, life.incarnation, COP__KIND_STANDING,
                   cop__encode_standing(&standing));
}

void cop__on_query(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_query query;
    cop_rank from;
    if (cop__decode_query(frame->payload->data, frame->payload->length, &query)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__agreement *agreement =
        cop__agree_find(node, frame, query.group, query.number, &from);
    if (!agreement)
        return;
    /* My vote may not have left me: then this decides it. */
    cop__agreement_advance(node, agreement);
    bool is_left_alone =
        cop__agree_group_is_two_phase(agreement->group) && agreement->coordinator_lost;
    if (!agreement->decision && !is_left_alone)
        COP__COUNT(node, ignored_unasked); /* my vote is the answer, when I have it */
    else if (!node->failed)
        answer(node, agreement, from, query.round);
}

/* ---- hearing how things stand ---------------------------------------------------- */

static struct cop__peer_asked *find_asked(const struct cop__agreement *agreement,
                                          cop_rank place)
{
    for (uint32_t i = 0; i < agreement->asked_count; i++)
        if (agreement->asked[i].place == place)
            return &agreement->asked[i];
    return NULL;
}

static void mind_answers(struct cop_node *node, struct cop__agreement *agreement)
{
    for (uint32_t i = 0; i < agreement->asked_count; i++)
        if (!agreement->asked[i].answered)
            return;
    end_in_doubt(node, agreement);
}

/* G13: somebody below knows that everyone is done; whoever is above may not. */
static void take_last(struct cop_node *node, struct cop__agreement *agreement,
                      struct cop__bytes decision)
{
    if (!cop__agreement_decide_copy(node, agreement, decision))
        COP__COUNT(node, ignored_malformed);
    else if (agreement->parent != COP_RANK_NONE && !node->failed)
        cop__agreement_cast(node, agreement);
}

void cop__on_standing(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_standing standing;
    cop_rank from;
    if (cop__decode_standing(frame->payload->data, frame->payload->length, &standing)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__agreement *agreement =
        cop__agree_find(node, frame, standing.group, standing.number, &from);
    if (!agreement)
        return;
    if (cop__agreement_is_last(agreement) && standing.decision.length > 0) {
        take_last(node, agreement, standing.decision);
        return;
    }
    struct cop__peer_asked *asked = find_asked(agreement, from);
    if (agreement->decision || !asked || standing.round != agreement->asked_round ||
        agreement->asked_round != agreement->round) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    asked->answered = true;
    if (standing.decision.length == 0)
        mind_answers(node, agreement);
    else if (!cop__agreement_decide_copy(node, agreement, standing.decision))
        COP__COUNT(node, ignored_malformed);
}
