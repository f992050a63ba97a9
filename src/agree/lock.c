/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

/*
 * STRICT (G7): before anybody returns a decision everybody in the view keeps it. Whoever is
 * root later hears of it with the votes, because all of those who live have it, and takes it.
 * It goes down as LOCK, is acknowledged up as LOCKED, and released as DECIDE.
 */

static bool is_locking(const struct cop__agreement *agreement)
{
    return agreement->lock && agreement->lock_round == agreement->round;
}

static cop_epoch round_of(const struct cop_buf *decision)
{
    struct cop__msg_decide decide;
    return cop__decode_decide(decision->data, decision->length, &decide) == 0
               ? decide.round
               : 0;
}

struct cop_buf *cop__agreement_best_lock(const struct cop__agreement *agreement)
{
    struct cop_buf *best = agreement->lock;
    for (uint32_t i = 0; i < agreement->child_count; i++) {
        struct cop_buf *lock = agreement->children[i].lock;
        if (lock && (!best || round_of(lock) > round_of(best)))
            best = lock;
    }
    return best;
}

static bool all_locked(const struct cop__agreement *agreement)
{
    for (uint32_t i = 0; i < agreement->child_count; i++)
        if (!agreement->children[i].locked)
            return false;
    return true;
}

static void send_locks(struct cop_node *node, struct cop__agreement *agreement)
{
    struct cop__msg_lock lock = {
        .group = agreement->group->number,
        .number = agreement->number,
        .round = agreement->round,
        .decision = {agreement->lock->data, agreement->lock->length},
    };
    struct cop_buf *payload = cop__encode_lock(&lock);
    for (uint32_t i = 0; i < agreement->order.count && payload; i++) {
        struct cop_life life =
            cop__agreement_life(agreement, agreement->order.items[i]);
        cop__emit_send(node, life.id, life.incarnation, COP__KIND_LOCK,
                       cop_buf_ref(payload));
    }
    if (!payload)
        cop__fail(node, COP_ENOMEM);
    cop_buf_unref(payload);
}

static void acknowledge(struct cop_node *node, struct cop__agreement *agreement)
{
    struct cop_life life = cop__agreement_life(agreement, agreement->parent);
    struct cop__msg_locked locked = {
        .group = agreement->group->number,
        .number = agreement->number,
        .round = agreement->round,
    };
    agreement->kept = true;
    cop__emit_send(node, life.id, life.incarnation, COP__KIND_LOCKED,
                   cop__encode_locked(&locked));
}

/* When everybody below keeps it: it is decided, or said further up. */
static void settle_lock(struct cop_node *node, struct cop__agreement *agreement)
{
    if (!all_locked(agreement) || agreement->kept)
        return;
    if (agreement->parent != COP_RANK_NONE) {
        acknowledge(node, agreement);
        return;
    }
    struct cop_buf *lock = cop_buf_ref(agreement->lock);
    cop__agreement_decide(node, agreement, lock);
    cop_buf_unref(lock);
}

static void take_lock(struct cop_node *node, struct cop__agreement *agreement,
                      struct cop_buf *lock)
{
    cop_buf_unref(agreement->lock);
    agreement->lock = lock;
    agreement->lock_round = agreement->round;
    agreement->kept = false;
    for (uint32_t i = 0; i < agreement->child_count; i++)
        agreement->children[i].locked = false;
    send_locks(node, agreement);
    settle_lock(node, agreement);
}

/* What somebody keeps, in the round that is to keep it now. */
static struct cop_buf *renew(struct cop_node *node,
                             const struct cop__agreement *agreement,
                             const struct cop_buf *kept)
{
    struct cop__msg_decide decide;
    if (cop__decode_decide(kept->data, kept->length, &decide))
        return NULL;
    decide.round = agreement->round;
    decide.root = node->self;
    return cop__encode_decide(&decide);
}

static struct cop_buf *compose(struct cop_node *node, struct cop__agreement *agreement)
{
    const struct cop_buf *kept = cop__agreement_best_lock(agreement);
    if (kept)
        return renew(node, agreement, kept);
    struct cop__share share = agreement->own;
    cop_buf_ref(share.value);
    int error = 0;
    for (uint32_t i = 0; i < agreement->child_count && !error; i++)
        error = cop__share_add(node, &share, &agreement->children[i].share);
    struct cop_buf *made =
        error ? NULL : cop__decision_make(node, agreement, share.status, &share);
    cop__share_free(&share);
    return made;
}

void cop__agreement_lock(struct cop_node *node, struct cop__agreement *agreement)
{
    if (is_locking(agreement))
        return;
    struct cop_buf *lock = compose(node, agreement);
    if (!lock)
        cop__fail(node, COP_ENOMEM);
    else
        take_lock(node, agreement, lock);
}

/* Like a decision it is taken from nobody but the one who has my vote. */
static bool ignore_lock(const struct cop__agreement *agreement,
                        const struct cop__msg_lock *lock, cop_rank from)
{
    return agreement->group->algorithm != COP_AGREE_STRICT || agreement->decision ||
           !agreement->cast || agreement->parent != from ||
           lock->round != agreement->round || is_locking(agreement);
}

static bool is_decision(const struct cop__agreement *agreement, struct cop__bytes bytes)
{
    struct cop__msg_decide decide;
    return cop__decode_decide(bytes.data, bytes.length, &decide) == 0 &&
           decide.group == agreement->group->number &&
           decide.number == agreement->number;
}

void cop__on_lock(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_lock lock;
    cop_rank from;
    if (cop__decode_lock(frame->payload->data, frame->payload->length, &lock)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__agreement *agreement =
        cop__agree_find(node, frame, lock.group, lock.number, &from);
    if (!agreement)
        return;
    if (ignore_lock(agreement, &lock, from)) {
        COP__COUNT(node, ignored_repeated);
    } else if (!is_decision(agreement, lock.decision)) {
        COP__COUNT(node, ignored_malformed);
    } else {
        struct cop_buf *kept = cop_buf_copy(lock.decision.data, lock.decision.length);
        if (!kept)
            cop__fail(node, COP_ENOMEM);
        else
            take_lock(node, agreement, kept);
    }
}

void cop__on_locked(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_locked locked;
    cop_rank from;
    if (cop__decode_locked(frame->payload->data, frame->payload->length, &locked)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__agreement *agreement =
        cop__agree_find(node, frame, locked.group, locked.number, &from);
    if (!agreement)
        return;
    struct cop__child *child = cop__agreement_child(agreement, from);
    if (agreement->decision || !child || !is_locking(agreement) ||
        locked.round != agreement->round) {
        COP__COUNT(node, ignored_repeated);
        return;
    }
    child->locked = true;
    settle_lock(node, agreement);
}
