/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/state.h"

/* The invariants of state.h, the digest of a state, and its size: for tests and tools. */

static void digest_children(const struct cop__sweep *sweep, struct cop__digest *digest)
{
    cop__digest_word(digest, sweep->child_count);
    for (uint32_t i = 0; i < sweep->child_count; i++)
        cop__digest_word(digest, (uint64_t)sweep->children[i].rank << 8 |
                                     sweep->children[i].state);
}

static void digest_parts(const struct cop__sweep *sweep, struct cop__digest *digest)
{
    cop__digest_word(digest, sweep->part_count);
    for (uint32_t i = 0; i < sweep->part_count; i++) {
        const struct cop__part *part = &sweep->parts[i];
        cop__digest_word(digest, part->source);
        const struct cop__mark *marks = cop__cover_marks(&part->cover);
        for (uint32_t j = 0; j < part->cover.count; j++)
            cop__digest_word(digest, (uint64_t)marks[j].rank << 8 | marks[j].mode);
        cop__digest_bytes(digest, part->payload.data, part->payload.length);
    }
}

static void digest_ranks(const struct cop_ranks *ranks, struct cop__digest *digest)
{
    cop__digest_word(digest, ranks->count);
    for (uint32_t i = 0; i < ranks->count; i++)
        cop__digest_word(digest, ranks->items[i]);
}

static void digest_sweep(const struct cop__sweep *sweep, struct cop__digest *digest)
{
    cop__digest_word(digest, sweep->initiator);
    cop__digest_word(digest, sweep->incarnation);
    cop__digest_word(digest, sweep->sequence);
    cop__digest_word(digest, sweep->parent);
    cop__digest_word(digest, sweep->floor);
    cop__digest_word(
        digest, (uint64_t)sweep->contributed | (uint64_t)sweep->answered << 1 |
                    (uint64_t)sweep->has_outcome << 2 | (uint64_t)sweep->tangled << 3 |
                    (uint64_t)sweep->pieces << 4 | (uint64_t)sweep->refining << 5 |
                    (uint64_t)sweep->told << 6 | (uint64_t)sweep->forwarded << 7 |
                    (uint64_t)sweep->gathered << 40 |
                    (uint64_t)(uint32_t)sweep->status << 8);
    digest_ranks(&sweep->askers, digest);
    digest_ranks(&sweep->strangers, digest);
    digest_children(sweep, digest);
    digest_parts(sweep, digest);
}

void cop__sweeps_digest(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__sweeps *sweeps = cop__sweeps(node);
    cop__digest_word(digest, sweeps->sequence);
    for (uint32_t i = 0; i < sweeps->origin_count; i++) {
        cop__digest_word(digest, sweeps->origins[i].id);
        cop__digest_word(digest, sweeps->origins[i].incarnation);
        cop__digest_word(digest, sweeps->origins[i].mark);
        cop__digest_word(digest, sweeps->origins[i].ended);
        for (uint32_t k = 0; sweeps->origins[i].beyond && k < COP__ORIGIN_BEYOND; k++)
            cop__digest_word(digest, sweeps->origins[i].beyond[k]);
    }
    cop__digest_word(digest, sweeps->count);
    for (const struct cop__sweep *sweep = sweeps->first; sweep; sweep = sweep->next)
        digest_sweep(sweep, digest);
}

/* ---- invariants ------------------------------------------------------------------ */

static const char *check_parts(const struct cop__sweep *sweep)
{
    uint64_t sum = 0;
    struct cop__cover held;
    for (uint32_t i = 0; i < sweep->part_count; i++)
        sum += cop__cover_size(&sweep->tree, &sweep->parts[i].cover);
    if (cop__sweep_held(sweep, &held))
        return NULL; /* no memory to look */
    uint32_t size = cop__cover_size(&sweep->tree, &held);
    cop__cover_fini(&held);
    if (size != sum)
        return "sweep: the parts overlap, or their union is written wrongly";
    return NULL;
}

static const char *check_children(const struct cop_node *node,
                                  const struct cop__sweep *sweep)
{
    uint32_t owed = 0;
    for (uint32_t i = 0; i < sweep->child_count; i++) {
        const struct cop__child *child = &sweep->children[i];
        cop_id id = cop__sweep_id(sweep, child->rank);
        if (child->state == CHILD_OWED) {
            owed++;
            if (!cop__is_watched(node, id))
                return "sweep: waits for a child without watching it";
            /* Who has the outcome waits for nobody: it is kept for those who ask for it. */
            if (!sweep->has_outcome && cop__sweep_is_lost(node, sweep, child->rank))
                return "sweep: waits for a suspect";
        }
        if (!cop_tree_is_below(&sweep->tree, child->rank, sweep->self))
            return "sweep: a child that is not below";
    }
    return owed == sweep->owed ? NULL : "sweep: miscounts whom it waits for";
}

static const char *check_waits(const struct cop_node *node,
                               const struct cop__sweep *sweep)
{
    bool mine = cop__sweep_is_mine(node, sweep);
    bool waits = !sweep->answered || (sweep->wants_outcome && !sweep->has_outcome);
    if (!cop__timer_is_running(&sweep->timer.timer))
        return "sweep: kept without a deadline";
    if (!mine && waits && sweep->parent != COP_RANK_NONE &&
        !cop__is_watched(node, cop__sweep_id(sweep, sweep->parent)))
        return "sweep: waits for its parent without watching it";
    if (!mine && waits && sweep->parent != COP_RANK_NONE &&
        cop__sweep_is_lost(node, sweep, sweep->parent))
        return "sweep: waits for a parent that is a suspect";
    if (!sweep->answered && sweep->contributed && sweep->owed == 0)
        return "sweep: complete, but does not answer";
    return NULL;
}

const char *cop__sweeps_check(const struct cop_node *node)
{
    const struct cop__sweeps *sweeps = cop__sweeps(node);
    if (sweeps->busy || sweeps->reap)
        return "sweep: a call did not return";
    uint32_t count = 0;
    for (const struct cop__sweep *sweep = sweeps->first; sweep; sweep = sweep->next) {
        const char *wrong = check_children(node, sweep);
        if (!wrong)
            wrong = check_waits(node, sweep);
        if (!wrong)
            wrong = check_parts(sweep);
        if (wrong)
            return wrong;
        count++;
    }
    return count == sweeps->count ? NULL : "sweep: miscounts its sweeps";
}

/* ---- size ------------------------------------------------------------------------ */

static size_t sweep_bytes(const struct cop__sweep *sweep)
{
    size_t parts = sweep->part_capacity > 1 ? sweep->part_capacity : 0;
    size_t bytes =
        sizeof *sweep + sweep->child_capacity * sizeof *sweep->children +
        parts * sizeof *sweep->parts +
        sweep->places.capacity * sizeof *sweep->places.slots +
        (sweep->askers.capacity + sweep->strangers.capacity) * sizeof(cop_rank);
    for (uint32_t i = 0; i < sweep->part_count; i++)
        bytes += sweep->parts[i].cover.capacity * sizeof(struct cop__mark);
    return bytes;
}

size_t cop__sweeps_bytes(const struct cop_node *node)
{
    const struct cop__sweeps *sweeps = cop__sweeps(node);
    size_t bytes = sweeps->origin_capacity * sizeof *sweeps->origins +
                   sweeps->scratch.capacity * sizeof *sweeps->scratch.items;
    for (uint32_t i = 0; i < sweeps->origin_count; i++)
        if (sweeps->origins[i].beyond)
            bytes += COP__ORIGIN_BEYOND * sizeof(uint64_t);
    bytes += sweeps->spare ? sweep_bytes(sweeps->spare) : 0;
    for (const struct cop__sweep *sweep = sweeps->first; sweep; sweep = sweep->next)
        bytes += sweep_bytes(sweep);
    return bytes;
}
