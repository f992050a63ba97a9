/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/state.h"

/*
 * D5. The living members stand in a ring, ordered by a hash of their ids, so that what stands
 * together in a rack does not stand together here. Each asks the next one how it is. When
 * that one is late, more of those behind it are asked, 1, 2, 4, ... at once: when it is found
 * silent so are those who died with it.
 */

/* ---- the order ------------------------------------------------------------------- */

/*
 * The hash is a bijection of the numbers below a power of two, and so has a way back: the
 * next in the ring is found without looking at everyone.
 */
#define FACTOR_A 0x9E3779B1u
#define FACTOR_B 0x85EBCA6Bu
#define INVERSE_A 0x0E8B2F51u /* FACTOR_A * INVERSE_A == 1, modulo 2^32 */
#define INVERSE_B 0xA5CB9243u

static uint32_t mask_of(unsigned bits) { return (UINT32_C(1) << bits) - 1; }

static uint32_t fold(uint32_t value, unsigned bits)
{
    return value ^ value >> (bits + 1) / 2; /* its own inverse */
}

static uint32_t scatter(uint32_t id, unsigned bits)
{
    uint32_t value = fold(id * FACTOR_A & mask_of(bits), bits);
    return value * FACTOR_B & mask_of(bits);
}

static uint32_t gather(uint32_t position, unsigned bits)
{
    uint32_t value = fold(position * INVERSE_B & mask_of(bits), bits);
    return value * INVERSE_A & mask_of(bits);
}

struct cop__walk cop__ring_walk(const struct cop_node *node, uint32_t position)
{
    struct cop__walk walk = {.bits = 1};
    while (mask_of(walk.bits) < cop_view_slots(node->view) - 1)
        walk.bits++;
    walk.position = position & mask_of(walk.bits);
    walk.left = mask_of(walk.bits) + 1;
    return walk;
}

static bool is_living(const struct cop_node *node, cop_id id)
{
    return id < cop_view_slots(node->view) && id != node->self &&
           cop_view_rank(node->view, id) != COP_RANK_NONE &&
           !cop__roster_is_suspect(node, id);
}

cop_id cop__ring_next(const struct cop_node *node, struct cop__walk *walk)
{
    while (walk->left > 0) {
        walk->left--;
        walk->position = (walk->position + 1) & mask_of(walk->bits);
        cop_id id = gather(walk->position, walk->bits);
        if (is_living(node, id) &&
            (walk->with_drained || !cop__view_is_drained(node->view, id)))
            return id;
    }
    return COP_ID_NONE;
}

struct cop__walk cop__ring_walk_from(const struct cop_node *node, cop_id id)
{
    struct cop__walk walk = cop__ring_walk(node, 0);
    walk.position = scatter(id, walk.bits);
    return walk;
}

static struct cop__walk walk_from_me(const struct cop_node *node)
{
    return cop__ring_walk_from(node, node->self);
}

/* ---- whom I ask ------------------------------------------------------------------ */

#define REACH_MAX 64u

static cop_time period_of(const struct cop_node *node)
{
    return cop__detect_settings(node)->ring_period_ns;
}

/* Whether `id` is among the first of the ring that I look at. */
static bool is_in_reach(const struct cop_node *node, cop_id id)
{
    struct cop__walk walk = walk_from_me(node);
    for (uint32_t i = 0; i < cop__senses(node)->reach; i++)
        if (cop__ring_next(node, &walk) == id)
            return true;
    return false;
}

static void follow(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    bool inside = cop__is_inside(node) && !cop__detect_is_stealthy(node);
    for (uint32_t i = senses->look_count; i > 0; i--) {
        struct cop__look *look = &senses->looks[i - 1];
        if (look->purpose != LOOK_RING)
            continue;
        if (!inside || !is_in_reach(node, look->id) ||
            look->incarnation != cop_view_incarnation(node->view, look->id))
            cop__look_end(node, look);
    }
    struct cop__walk walk = walk_from_me(node);
    for (uint32_t i = 0; inside && i < senses->reach && !node->failed; i++) {
        cop_id id = cop__ring_next(node, &walk);
        if (id == COP_ID_NONE)
            return;
        if (!cop__look_find(node, id, LOOK_RING))
            cop__look_begin(node, id, LOOK_RING, period_of(node));
    }
}

/* ---- those who are late ---------------------------------------------------------- */

/* When all whom I asked will be late; NEVER if one has answered. */
cop_time cop__ring_further_at(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    cop_time last = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < senses->look_count; i++) {
        const struct cop__look *look = &senses->looks[i];
        if (look->purpose != LOOK_RING)
            continue;
        if (!look->open)
            return COP_TIME_NEVER;
        count++;
        if (look->asked > last)
            last = look->asked;
    }
    /* Fewer than I would ask: there are no more. */
    if (count < senses->reach || senses->reach >= REACH_MAX)
        return COP_TIME_NEVER;
    return last + cop__senses_deadline(node) / 4;
}

void cop__ring_mind(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    if (period_of(node) == 0)
        return;
    while (!node->failed && cop__ring_further_at(node) <= node->now) {
        senses->reach *= 2;
        follow(node);
        cop__look_mind(node); /* asks the new ones */
    }
    follow(node);
}

/* ---- what comes of it ------------------------------------------------------------ */

static bool is_first(const struct cop_node *node, cop_id id)
{
    struct cop__walk walk = walk_from_me(node);
    return cop__ring_next(node, &walk) == id;
}

/* D15. At most to the end of the patience: so the deadline does not grow. */
static bool is_awaited(struct cop_node *node, struct cop__look *look)
{
    if (look->is_met || !cop__senses_are_patient(node))
        return false;
    look->deadline = node->now + cop__senses_deadline(node);
    return true;
}

static void on_silence(struct cop_node *node, struct cop__look *look)
{
    cop_id id = look->id;
    if (is_awaited(node, look))
        return;
    uint32_t doublings = look->misses < 4 ? look->misses : 4;
    look->misses++;
    look->patience = cop__senses_deadline(node) << doublings;
    look->deadline = node->now + look->patience;
    cop__accuse(node, id, COP_REASON_SILENT);
}

/* D5. Who is accused stays asked: its answer may still come. */
void cop__ring_see(struct cop_node *node, struct cop__look *look, enum cop__sight sight)
{
    switch (sight) {
    case SIGHT_REACHED:
        look->open = false;
        look->is_met = true;
        look->misses = 0;
        look->deadline = look->asked + period_of(node);
        if (look->deadline < node->now)
            look->deadline = node->now;
        if (is_first(node, look->id))
            cop__senses(node)->reach = 1;
        cop__senses_touch(node);
        return;
    case SIGHT_SILENT:
        cop__senses(node)->scan = true;
        if (look->open)
            on_silence(node, look);
        else
            cop__look_ask(node, look, cop__senses_deadline(node));
        return;
    case SIGHT_REFUSED:
        return; /* whoever is told of refused connections accuses it */
    case SIGHT_GONE:
        cop__look_end(node, look);
        return;
    }
}
