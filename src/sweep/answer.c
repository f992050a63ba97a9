/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/state.h"

#include <stdlib.h>

/* ---- bytes of an answer ---------------------------------------------------------- */

/* A part on the wire: list of marks, bytes of the payload. */
static size_t part_bytes(const struct cop__cover *cover, struct cop__bytes payload)
{
    return 4 + cop__cover_bytes(cover) + 4 + payload.length;
}

static void put_part(struct cop__writer *writer, const struct cop__cover *cover,
                     struct cop__bytes payload)
{
    cop__put_u32(writer, cover->count);
    cop__cover_put(writer, cover);
    cop__put_bytes(writer, payload);
}

#define FEW_BYTES 256u

struct answer {
    uint8_t *parts; /* encoded, one after the other: in `few` if they fit */
    size_t length;
    uint8_t few[FEW_BYTES];
    uint8_t *lost; /* beliefs about those of my sub-tree who are not covered */
    uint32_t lost_count;
    uint8_t flags;
};

/* Room for `length` bytes of parts. */
static int reserve(struct answer *answer, size_t length)
{
    answer->length = length;
    answer->parts = length <= FEW_BYTES ? answer->few : malloc(length);
    return answer->parts ? 0 : COP_ENOMEM;
}

static void init_answer(struct answer *answer)
{
    answer->parts = answer->few;
    answer->lost = NULL;
    answer->length = answer->lost_count = answer->flags = 0;
}

static void fini_answer(struct answer *answer)
{
    if (answer->parts != answer->few)
        free(answer->parts);
    free(answer->lost);
}

static struct cop_buf *encode_answer(const struct cop_node *node,
                                     const struct cop__sweep *sweep,
                                     const struct answer *answer)
{
    struct cop__msg_answer message = {
        .initiator = sweep->initiator,
        .incarnation = sweep->incarnation,
        .sequence = sweep->sequence,
        .mark = cop__origin_mark(node, sweep->initiator, sweep->incarnation),
        .floor = sweep->floor,
        .flags = answer->flags,
        .parts = {answer->parts, (uint32_t)answer->length},
        .lost = {answer->lost, answer->lost_count},
    };
    return cop__encode_answer(&message);
}

/* ---- what to say ----------------------------------------------------------------- */

/* Losses in one answer, so that it fits a frame; the initiator asks for the others itself
 * (chase_missing), and is refused. */
#define LOST_MAX 16384u

/* S6: whoever hears of a loss from me acts as I did, so every loss goes with the
 * answer. */
static int gather_lost(const struct cop_node *node, const struct cop__sweep *sweep,
                       struct answer *out)
{
    const struct cop_dead *dead = cop__roster_dead(node);
    if (dead->extra_count == 0)
        return 0;
    size_t most = (size_t)dead->extra_count * COP__SIZE_belief;
    out->lost = malloc(most);
    if (!out->lost)
        return COP_ENOMEM;
    struct cop__writer writer = cop__writer(out->lost, most);
    for (uint32_t i = 0; i < dead->extra_count && out->lost_count < LOST_MAX; i++) {
        cop_rank rank = cop__sweep_rank(sweep, dead->extra[i]);
        if (rank == COP_RANK_NONE ||
            !cop_tree_is_below(&sweep->tree, rank, sweep->self))
            continue;
        struct cop__belief belief = cop__roster_get(node, dead->extra[i]);
        if (belief.status < COP_SUSPECT)
            continue; /* its absence is the view's word, not mine */
        cop__belief_put(&writer, &belief);
        out->lost_count++;
    }
    return 0;
}

static int gather_folded(const struct cop_node *node, const struct cop__sweep *sweep,
                         struct answer *out)
{
    struct cop__cover held;
    struct cop_buf *payload = cop__sweep_fold(node, sweep);
    if (!payload)
        return COP_ENOMEM;
    struct cop__bytes bytes = {payload->data, payload->length};
    int error = cop__sweep_held(sweep, &held);
    if (!error) {
        error = reserve(out, part_bytes(&held, bytes));
        struct cop__writer writer = cop__writer(out->parts, error ? 0 : out->length);
        put_part(&writer, &held, bytes);
        cop__cover_fini(&held);
    }
    cop_buf_unref(payload);
    return error;
}

/* All parts as they are. */
COP__COLD static int gather_pieces(const struct cop__sweep *sweep, struct answer *out)
{
    out->flags = ANSWER_PIECES;
    size_t length = 0;
    for (uint32_t i = 0; i < sweep->part_count; i++)
        length += part_bytes(&sweep->parts[i].cover, sweep->parts[i].payload);
    if (reserve(out, length))
        return COP_ENOMEM;
    struct cop__writer writer = cop__writer(out->parts, out->length);
    for (uint32_t i = 0; i < sweep->part_count; i++)
        put_part(&writer, &sweep->parts[i].cover, sweep->parts[i].payload);
    return 0;
}

/* NULL: no memory. */
static struct cop_buf *make_answer(const struct cop_node *node,
                                   const struct cop__sweep *sweep)
{
    struct answer answer;
    init_answer(&answer);
    int error = gather_lost(node, sweep, &answer);
    if (!error && sweep->part_count > 0)
        error = sweep->pieces ? gather_pieces(sweep, &answer)
                              : gather_folded(node, sweep, &answer);
    struct cop_buf *frame = error ? NULL : encode_answer(node, sweep, &answer);
    fini_answer(&answer);
    return frame;
}

/* One part alone; with all losses if it is the last that is said. */
COP__COLD static struct cop_buf *make_piece(const struct cop_node *node,
                                            const struct cop__sweep *sweep, uint32_t i,
                                            bool last)
{
    struct answer answer;
    init_answer(&answer);
    int error = last ? gather_lost(node, sweep, &answer) : 0;
    if (sweep->pieces)
        answer.flags = ANSWER_PIECES;
    if (!error && i < sweep->part_count) {
        const struct cop__part *part = &sweep->parts[i];
        error = reserve(&answer, part_bytes(&part->cover, part->payload));
        struct cop__writer writer =
            cop__writer(answer.parts, error ? 0 : answer.length);
        put_part(&writer, &part->cover, part->payload);
    }
    struct cop_buf *frame = error ? NULL : encode_answer(node, sweep, &answer);
    fini_answer(&answer);
    return frame;
}

/* ---- saying it ------------------------------------------------------------------- */

static bool is_reachable(const struct cop_node *node, const struct cop__sweep *sweep,
                         cop_rank rank)
{
    return rank != COP_RANK_NONE && !cop__sweep_is_lost(node, sweep, rank);
}

/* To all who asked; takes over the reference. */
static void send_to_askers(struct cop_node *node, struct cop__sweep *sweep,
                           struct cop_buf *frame)
{
    if (!frame) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    for (uint32_t i = 0; i < sweep->askers.count; i++)
        if (is_reachable(node, sweep, sweep->askers.items[i]))
            cop__sweep_send(node, sweep, sweep->askers.items[i], COP__KIND_ANSWER,
                            cop_buf_ref(frame));
    if (is_reachable(node, sweep, sweep->parent))
        cop__sweep_send(node, sweep, sweep->parent, COP__KIND_ANSWER,
                        cop_buf_ref(frame));
    cop_buf_unref(frame);
}

/* To one, or (NONE) to all who asked; takes over the reference. */
static void send_answer(struct cop_node *node, struct cop__sweep *sweep, cop_rank to,
                        struct cop_buf *frame)
{
    if (to == COP_RANK_NONE)
        send_to_askers(node, sweep, frame);
    else
        cop__sweep_send(node, sweep, to, COP__KIND_ANSWER, frame);
}

/*
 * What does not fit one message goes in as many as there are parts. Mine is the last: it is
 * the one by which I have answered.
 */
static void say_answer(struct cop_node *node, struct cop__sweep *sweep, cop_rank to)
{
    uint32_t own = sweep->part_count;
    struct cop_buf *frame = make_answer(node, sweep);
    if (!frame || frame->length <= COP__FRAME_MAX) {
        send_answer(node, sweep, to, frame);
        return;
    }
    cop_buf_unref(frame);
    for (uint32_t i = 0; i < sweep->part_count; i++) {
        if (sweep->parts[i].source == sweep->self)
            own = i;
        else
            send_answer(node, sweep, to, make_piece(node, sweep, i, false));
    }
    send_answer(node, sweep, to, make_piece(node, sweep, own, true));
}

void cop__sweep_answer_to(struct cop_node *node, struct cop__sweep *sweep, cop_rank to)
{
    say_answer(node, sweep, to);
}

/* Lowest of the initiator's earlier sweeps that still waits here for its outcome. */
static void lower_floor(struct cop_node *node, struct cop__sweep *sweep)
{
    for (struct cop__sweep *other = cop__sweeps(node)->first; other;
         other = other->next)
        if (other->initiator == sweep->initiator && other->wants_outcome &&
            !other->has_outcome && !other->over && other->sequence < sweep->sequence &&
            other->sequence < sweep->floor)
            sweep->floor = other->sequence;
}

static void complete(struct cop_node *node, struct cop__sweep *sweep, int status)
{
    sweep->answered = true;
    if (status == 0)
        COP__COUNT(node, sweeps_completed);
    else
        COP__COUNT(node, sweeps_timed_out);
    cop__sweep_protocol(node, sweep)->on_complete(node, sweep, status);
    if (status == 0)
        cop__sweep_release_below(node, sweep);
    if (!sweep->wants_outcome)
        cop__sweep_end(node, sweep);
}

/* Somebody of whom the protocol knows why it does not answer. */
static bool is_excused(const struct cop_node *node, const struct cop__sweep *sweep,
                       cop_rank rank)
{
    const struct cop__protocol *protocol = cop__sweep_protocol(node, sweep);
    return protocol->is_excused && protocol->is_excused(node, sweep, rank);
}

/* At the initiator: whether somebody who is not lost has not answered. It may have been
 * given up further down, where deadlines are earlier. */
COP__COLD static bool is_anybody_silent(struct cop_node *node,
                                        const struct cop__sweep *sweep)
{
    struct cop_ranks missing = {0};
    bool silent = false;
    if (cop__sweep_missing(sweep, &missing))
        cop__fail(node, COP_ENOMEM);
    for (uint32_t i = 0; i < missing.count && !silent; i++)
        silent = !cop__sweep_is_lost(node, sweep, missing.items[i]) &&
                 !is_excused(node, sweep, missing.items[i]);
    cop_ranks_free(&missing);
    return silent;
}

/* With whatever is there: whoever still owes is given up. */
void cop__sweep_answer_now(struct cop_node *node, struct cop__sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->child_count; i++)
        if (sweep->children[i].state == CHILD_OWED) {
            cop__sweep_settle_child(node, sweep, &sweep->children[i], CHILD_FAILED);
            cop__sweep_tell_part(node, sweep, sweep->children[i].rank, COP_ETIMEDOUT,
                                 (struct cop__bytes){NULL, 0});
        }
    cop__sweep_tell_gathered(node, sweep, COP_ETIMEDOUT);
    lower_floor(node, sweep);
    if (cop__sweep_is_mine(node, sweep)) {
        complete(node, sweep, is_anybody_silent(node, sweep) ? COP_ETIMEDOUT : 0);
        return;
    }
    bool first = !sweep->answered;
    sweep->answered = true;
    sweep->refining = false;
    say_answer(node, sweep, COP_RANK_NONE);
    cop__sweep_mind_parent(node, sweep);
    if (first && cop__sweep_protocol(node, sweep)->on_answered)
        cop__sweep_protocol(node, sweep)->on_answered(node, sweep);
}

/*
 * S2, at the initiator: somebody whom another one passed around, but whom I do not
 * suspect (it has denied), is asked by me directly, once. True if that means waiting.
 */
static bool chase_missing(struct cop_node *node, struct cop__sweep *sweep)
{
    struct cop_ranks missing = {0};
    if (cop__sweep_missing(sweep, &missing))
        cop__fail(node, COP_ENOMEM);
    for (uint32_t i = 0; i < missing.count && !node->failed; i++) {
        cop_rank rank = missing.items[i];
        const struct cop__child *child = cop__sweep_child(sweep, rank);
        if (rank != sweep->self && !cop__sweep_is_lost(node, sweep, rank) &&
            !(child && child->state == CHILD_FAILED) && !is_excused(node, sweep, rank))
            cop__sweep_ask_one(node, sweep, rank);
    }
    cop_ranks_free(&missing);
    return sweep->owed > 0;
}

void cop__sweep_answer_if_complete(struct cop_node *node, struct cop__sweep *sweep)
{
    bool due = !sweep->answered || sweep->refining;
    if (!due || !sweep->forwarded || sweep->owed > 0 || sweep->over || node->failed)
        return;
    bool follows = cop__sweep_protocol(node, sweep)->on_gathered != NULL;
    if (cop__sweep_is_mine(node, sweep) && (sweep->contributed || follows) &&
        chase_missing(node, sweep))
        return;
    cop__sweep_tell_gathered(node, sweep, 0);
    if (!sweep->contributed || (sweep->answered && !sweep->refining) || sweep->over)
        return;
    cop__sweep_answer_now(node, sweep);
}

void cop__sweep_contribute(struct cop_node *node, struct cop__sweep *sweep,
                           struct cop_buf *payload)
{
    COP_ASSERT(!sweep->contributed);
    struct cop__part part = {.source = sweep->self, .owner = payload};
    if (payload)
        part.payload = (struct cop__bytes){payload->data, payload->length};
    if (!payload || cop__cover_add(&part.cover, sweep->self, COP__ONE_IN) ||
        cop__sweep_push_part(sweep, &part)) {
        cop__cover_fini(&part.cover);
        cop_buf_unref(payload);
        cop__fail(node, COP_ENOMEM);
        return;
    }
    sweep->contributed = true;
    cop__sweeps_enter(node);
    cop__sweep_answer_if_complete(node, sweep);
    cop__sweeps_leave(node);
}

/* ---- hearing it ------------------------------------------------------------------ */

/* A part that came after I answered goes up on its own. */
COP__COLD static void relay(struct cop_node *node, struct cop__sweep *sweep,
                            const struct cop__part *part)
{
    struct answer answer;
    init_answer(&answer);
    COP__COUNT(node, supplements);
    if (!is_reachable(node, sweep, sweep->parent))
        cop__sweep_find_parent(node, sweep);
    int error = reserve(&answer, part_bytes(&part->cover, part->payload));
    struct cop__writer writer = cop__writer(answer.parts, error ? 0 : answer.length);
    put_part(&writer, &part->cover, part->payload);
    send_to_askers(node, sweep, error ? NULL : encode_answer(node, sweep, &answer));
    fini_answer(&answer);
}

/* Reads one part; COP_EMALFORMED or COP_ENOMEM, or the caller's to free. */
static int read_part(const struct cop_node *node, const struct cop__sweep *sweep,
                     struct cop_buf *frame, cop_rank from, struct cop__reader *reader,
                     struct cop__part *out)
{
    struct cop__list marks = cop__get_list(reader, COP__SIZE_mark);
    struct cop__bytes payload = cop__get_bytes(reader);
    struct cop__part part = {.source = from, .payload = payload};
    if (reader->failed || !cop__sweep_protocol(node, sweep)->accept(payload))
        return COP_EMALFORMED;
    int error = cop__cover_decode(&sweep->tree, from, marks, &part.cover);
    if (error)
        return error;
    part.owner = cop_buf_ref(frame);
    *out = part;
    return 0;
}

bool cop__sweep_take_part(struct cop_node *node, struct cop__sweep *sweep,
                          struct cop__part *part, bool pieces)
{
    enum cop__place place = cop__sweep_place(sweep, part, pieces);
    if (place == PLACE_KEPT) {
        cop__sweep_tell_part(node, sweep, part->source, 0, part->payload);
        if (sweep->answered && !sweep->refining)
            relay(node, sweep, part);
        return false;
    }
    cop__cover_fini(&part->cover);
    cop_buf_unref(part->owner);
    if (place == PLACE_REPEATED)
        COP__COUNT(node, ignored_repeated);
    if (place == PLACE_FAILED)
        cop__fail(node, COP_ENOMEM);
    return place == PLACE_REFUSED;
}

/* All parts of a frame; COP_EREFUSED if any has to come in pieces. */
static int take_parts(struct cop_node *node, struct cop__sweep *sweep, cop_rank from,
                      struct cop_buf *frame, const struct cop__msg_answer *message)
{
    struct cop__reader reader = cop__reader(message->parts.data, message->parts.length);
    bool pieces = (message->flags & ANSWER_PIECES) != 0, refused = false;
    if (pieces)
        sweep->tangled = true;
    while (!cop__reader_is_done(&reader)) {
        struct cop__part part;
        int error = read_part(node, sweep, frame, from, &reader, &part);
        if (error)
            return error;
        /* A long answer comes in several frames, and nothing but comparing shows that none of
         * it is said twice. */
        if (!sweep->tangled && cop__sweep_has_part_of(sweep, from))
            sweep->tangled = true;
        refused |= cop__sweep_take_part(node, sweep, &part, pieces);
    }
    return refused ? COP_EREFUSED : 0;
}

/* Nobody whom the parts now cover is waited for. */
static void settle_covered(struct cop_node *node, struct cop__sweep *sweep,
                           cop_rank from)
{
    struct cop__child *child = cop__sweep_child(sweep, from);
    if (child && cop__sweep_holds(sweep, from))
        cop__sweep_settle_child(node, sweep, child, CHILD_ANSWERED);
    else /* a supplement, sent before it was asked: its answer will contain it */
        sweep->tangled = true;
    /* What came lies below its sender. */
    if (!sweep->tangled || cop_tree_size(&sweep->tree, from) == 1)
        return;
    for (uint32_t i = 0; i < sweep->child_count; i++) {
        child = &sweep->children[i];
        if (child->state != CHILD_ANSWERED &&
            cop_tree_is_below(&sweep->tree, child->rank, from) &&
            cop__sweep_holds(sweep, child->rank))
            cop__sweep_settle_child(node, sweep, child, CHILD_ANSWERED);
    }
}

COP__COLD static void say_hold(struct cop_node *node, struct cop__sweep *sweep,
                               cop_rank to, const struct cop__cover *cover)
{
    uint8_t *bytes = malloc(cop__cover_bytes(cover) + 1);
    struct cop__writer writer = cop__writer(bytes, bytes ? cop__cover_bytes(cover) : 0);
    cop__cover_put(&writer, cover);
    struct cop__msg_hold hold = {
        .initiator = sweep->initiator,
        .incarnation = sweep->incarnation,
        .sequence = sweep->sequence,
        .mark = cop__origin_mark(node, sweep->initiator, sweep->incarnation),
        .cover = {bytes, cover->count},
    };
    COP__COUNT(node, holds);
    cop__sweep_send(node, sweep, to, COP__KIND_HOLD,
                    bytes ? cop__encode_hold(&hold) : NULL);
    free(bytes);
}

/* S2: the sender is told what I hold, and stays owed until it has answered in pieces. */
COP__COLD static void refuse(struct cop_node *node, struct cop__sweep *sweep,
                             cop_rank from)
{
    struct cop__cover held;
    sweep->tangled = true;
    if (cop__sweep_held(sweep, &held)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    say_hold(node, sweep, from, &held);
    cop__cover_fini(&held);
}

/* An answer that nobody asked for, as from a child that lost its parent before I knew,
 * can only be kept apart from the others by comparing. */
static bool is_expected(struct cop__sweep *sweep, cop_rank from)
{
    const struct cop__child *child = cop__sweep_child(sweep, from);
    return child && child->state == CHILD_OWED;
}

static void take_answer(struct cop_node *node, struct cop__sweep *sweep, cop_id sender,
                        struct cop_buf *frame, const struct cop__msg_answer *message)
{
    cop_rank from = cop__sweep_rank(sweep, sender);
    if (from == sweep->self || from == COP_RANK_NONE ||
        !cop_tree_is_below(&sweep->tree, from, sweep->self)) {
        COP__COUNT(node, ignored_not_below);
        return;
    }
    if (!is_expected(sweep, from))
        sweep->tangled = true;
    /* It was passed over when the outcome went down. */
    if (sweep->has_outcome)
        cop__sweep_send_outcome(node, sweep, from);
    int error = take_parts(node, sweep, from, frame, message);
    if (error == COP_EMALFORMED)
        COP__COUNT(node, ignored_malformed);
    else if (error == COP_ENOMEM)
        cop__fail(node, COP_ENOMEM);
    if (message->floor < sweep->floor)
        sweep->floor = message->floor;
    /* All losses first, while the sender is still owed: each may make this sweep look
     * complete, and it must not end before the last is known. */
    for (uint32_t i = 0; i < message->lost.count; i++) {
        struct cop__belief belief = cop__belief_at(message->lost, i);
        cop__roster_merge(node, &belief);
    }
    if (sweep->over)
        return;
    if (error == COP_EREFUSED)
        refuse(node, sweep, from);
    else
        settle_covered(node, sweep, from);
    cop__sweep_answer_if_complete(node, sweep);
}

/* S2, S5, S6. */
void cop__on_answer(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_answer message;
    struct cop_buf *bytes = frame->payload;
    if (cop__decode_answer(bytes->data, bytes->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__sweeps_enter(node);
    struct cop__sweep *sweep = cop__sweep_hear_of(
        node, message.initiator, message.incarnation, message.sequence, message.mark);
    if (sweep)
        take_answer(node, sweep, frame->header.sender, frame->payload, &message);
    cop__sweeps_leave(node);
}

/* ---- in pieces ------------------------------------------------------------------- */

/*
 * Gets finer pieces of part `i` from whoever sent it, or, if it is gone, from those
 * that were below it.
 */
static void refine(struct cop_node *node, struct cop__sweep *sweep, uint32_t i,
                   const struct cop__cover *hold)
{
    cop_rank source = sweep->parts[i].source;
    struct cop__child *child = cop__sweep_child(sweep, source);
    if (!child || cop__sweep_is_lost(node, sweep, source)) {
        cop__sweep_remove_part(sweep, i);
        if (child && child->state != CHILD_LOST)
            cop__sweep_lose_child(node, sweep, child);
        return;
    }
    if (child->state != CHILD_OWED) {
        child->state = CHILD_OWED;
        sweep->owed++;
        cop__watch(node, cop__sweep_id(sweep, source));
    }
    say_hold(node, sweep, source, hold);
}

static void take_hold(struct cop_node *node, struct cop__sweep *sweep,
                      const struct cop__cover *hold)
{
    sweep->tangled = sweep->pieces = sweep->refining = true;
    for (uint32_t i = sweep->part_count; i > 0 && !node->failed; i--) {
        enum cop__relation relation;
        if (i > sweep->part_count || sweep->parts[i - 1].source == sweep->self)
            continue;
        if (cop__cover_compare(&sweep->tree, &sweep->parts[i - 1].cover, hold,
                               &relation))
            cop__fail(node, COP_ENOMEM);
        else if (relation == COP__OVERLAP || relation == COP__AROUND)
            refine(node, sweep, i - 1, hold);
    }
    cop__sweep_answer_if_complete(node, sweep);
}

/* S2: somebody above has part of what I answered, by another way. */
void cop__on_hold(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_hold message;
    struct cop_buf *bytes = frame->payload;
    if (cop__decode_hold(bytes->data, bytes->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__sweeps_enter(node);
    struct cop__sweep *sweep = cop__sweep_hear_of(
        node, message.initiator, message.incarnation, message.sequence, message.mark);
    cop_rank from =
        sweep ? cop__sweep_rank(sweep, frame->header.sender) : COP_RANK_NONE;
    struct cop__cover hold;
    if (sweep && (from == sweep->self || cop__sweep_is_mine(node, sweep) ||
                  from == COP_RANK_NONE ||
                  !cop_tree_is_below(&sweep->tree, sweep->self, from))) {
        COP__COUNT(node, ignored_not_ancestor);
    } else if (sweep && sweep->answered) {
        int error =
            cop__cover_decode(&sweep->tree, sweep->tree.root, message.cover, &hold);
        if (error == 0) {
            take_hold(node, sweep, &hold);
            cop__cover_fini(&hold);
        } else if (error == COP_EMALFORMED) {
            COP__COUNT(node, ignored_malformed);
        } else {
            cop__fail(node, error);
        }
    }
    cop__sweeps_leave(node);
}
