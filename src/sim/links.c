/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include "base/assert.h"
#include "wire/header.h"

#include <stdlib.h>

/*
 * Connections, as the drivers of two nodes would keep them. The simulator knows at
 * once whether there is one (UP, the same at both ends); what the ends hear of it
 * travels.
 *
 * Invariants:
 *   1. What goes from a to b arrives in order: never before `last` of the channel, and
 *      behind everything that is held.
 *   2. Between the break of a connection and RECONNECT the channel is `recovering`:
 *      what is under way is held when it arrives (its epoch is old), what is sent is
 *      held at once. RECONNECT comes after the last arrival, so then everything is in
 *      the list.
 *   3. Everything that an end hears of a life of its peer comes before everything that
 *      it hears of the next life: both travel on the same channel.
 */

static uint64_t channel_key(cop_id src, cop_id dst)
{
    return (uint64_t)src << 32 | dst;
}

struct cop__side *cop__links_side(struct cop_sim *sim, cop_id src, cop_id dst,
                                  bool make)
{
    if (sim->sides.count == 0 && !make)
        return NULL;
    struct cop__side *side = cop__map_get(&sim->sides, channel_key(src, dst));
    if (side || !make)
        return side;
    side = calloc(1, sizeof(*side));
    if (!side || cop__map_put(&sim->sides, channel_key(src, dst), side, NULL) != 0) {
        free(side);
        cop_sim_fail(sim, "sim", "out of memory");
        return NULL;
    }
    return side;
}

static struct cop__peer *channel(struct cop_sim *sim, cop_id src, cop_id dst)
{
    COP_ASSERT(src != dst);
    struct cop__peer *peer = cop__peers_add(&sim->nodes[src].peers, dst);
    if (!peer)
        cop_sim_fail(sim, "sim", "out of memory");
    return peer;
}

/* ---- posting --------------------------------------------------------------------- */

static uint32_t wire_bytes(const struct cop__sim_event *event)
{
    return COP__HEADER_SIZE + (event->payload ? event->payload->length : 0);
}

/* Puts an event on the way from its src to its dst, behind all that is on it. */
static void post(struct cop_sim *sim, struct cop__peer *way,
                 struct cop__sim_event *event, cop_time delay)
{
    cop_time depart = sim->now > sim->depart ? sim->now : sim->depart;
    cop_time at = cop__net_arrival(sim, event->src, event->dst, wire_bytes(event),
                                   depart + delay);
    const struct cop__side *side = cop__links_side(sim, event->src, event->dst, false);
    if (side)
        at += side->slow_ns;
    if (at < way->last)
        at = way->last;
    way->last = at;
    event->epoch = way->epoch;
    cop__sim_push(sim, event, at);
}

static void hold(struct cop__held *held, struct cop__sim_event *event)
{
    event->next = NULL;
    if (held->last)
        held->last->next = event;
    else
        held->first = event;
    held->last = event;
}

/* Takes the list out. */
static struct cop__sim_event *take(struct cop__held *held)
{
    struct cop__sim_event *first = held->first;
    *held = (struct cop__held){NULL, NULL};
    return first;
}

static bool has_waiting(const struct cop__side *side)
{
    return side->held.first || side->unsent.first;
}

static void post_up(struct cop_sim *sim, cop_id src, cop_id dst)
{
    struct cop__peer *way = channel(sim, src, dst);
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_UP, src, dst);
    if (!way || !event)
        return;
    event->word = cop__sim_incarnation(sim, src);
    cop_time late = 0;
    if (cop_sim_buggify(sim, COP__PLACE_LATE_UP, 20))
        late = cop_sim_draw(sim, COP__PLACE_LATE_UP, sim->draws, 0, 5 * COP_MSEC);
    post(sim, way, event, late);
}

static void post_down(struct cop_sim *sim, cop_id src, cop_id dst, enum cop_down why)
{
    struct cop__peer *way = channel(sim, src, dst);
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_DOWN, src, dst);
    if (!way || !event)
        return;
    event->word = why;
    cop_time late = 0;
    if (cop_sim_buggify(sim, COP__PLACE_LATE_CLOSED, 8))
        late = cop_sim_draw(sim, COP__PLACE_LATE_CLOSED, sim->draws, 0, 20 * COP_MSEC);
    post(sim, way, event, late);
}

void cop__links_tell_down(struct cop_sim *sim, cop_id src, cop_id dst,
                          enum cop_down why, cop_time delay)
{
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_TOLD, src, dst);
    if (!event)
        return;
    event->word = why;
    cop__sim_push(sim, event, sim->now + delay);
    struct cop__peer *end = cop__peers_find(&sim->nodes[dst].peers, src);
    if (end)
        end->flags &= (uint8_t)~COP__PEER_TOLD;
}

/* ---- connecting ------------------------------------------------------------------ */

/* The drivers shake hands: both ends will hear it before any frame. */
static void join(struct cop_sim *sim, cop_id a, cop_id b)
{
    struct cop__peer *here = channel(sim, a, b);
    struct cop__peer *there = channel(sim, b, a);
    if (!here || !there)
        return;
    here->flags |= COP__PEER_UP | COP__PEER_TOLD;
    there->flags |= COP__PEER_UP | COP__PEER_TOLD;
    here->life = sim->nodes[b].life;
    there->life = sim->nodes[a].life;
    if ((sim->config.flags & COP_SIM_QUIET_START) && sim->now == 0)
        return;
    post_up(sim, a, b);
    post_up(sim, b, a);
}

/* An attempt across a partition: nothing comes back, until the driver gives up. */
static void give_up_later(struct cop_sim *sim, cop_id from, cop_id to)
{
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_SILENT, to, from);
    if (!event)
        return;
    event->word = sim->partitions_made;
    cop__sim_push(sim, event, sim->now + COP_SIM_SILENT_NS);
}

/* Sees to a connection. False if there cannot be one just now. */
static bool reach(struct cop_sim *sim, cop_id from, cop_id to)
{
    struct cop__peer *end = channel(sim, from, to);
    if (!end)
        return false;
    if (end->flags & COP__PEER_UP) {
        if (!(end->flags & COP__PEER_TOLD)) {
            end->flags |= COP__PEER_TOLD;
            post_up(sim, to, from);
        }
        return true;
    }
    if (cop__faults_parted(sim, from, to)) {
        give_up_later(sim, from, to);
        return false;
    }
    if (!cop__sim_alive(sim, to)) {
        end->flags &= (uint8_t)~COP__PEER_TOLD;
        post_down(sim, to, from, COP_DOWN_REFUSED);
        return false;
    }
    join(sim, from, to);
    return true;
}

void cop__links_connect(struct cop_sim *sim, cop_id from, cop_id to)
{
    struct cop__peer *end = channel(sim, from, to);
    if (!end)
        return;
    end->flags |= COP__PEER_KEPT;
    struct cop__side *side = cop__links_side(sim, from, to, false);
    if (side && side->recovering && !cop__faults_parted(sim, from, to)) {
        side->wanted = true;
        return;
    }
    reach(sim, from, to);
    /* An attempt under way when the partition heals succeeds, or is refused, then. */
    side =
        cop__faults_parted(sim, from, to) ? cop__links_side(sim, from, to, true) : NULL;
    if (side)
        side->wanted = true;
}

void cop__links_close(struct cop_sim *sim, cop_id from, cop_id to)
{
    struct cop__peer *here = channel(sim, from, to);
    struct cop__peer *there = channel(sim, to, from);
    if (!here || !there)
        return;
    here->flags &= (uint8_t)~COP__PEER_KEPT;
    /* A driver may age out what nobody keeps, once nothing is under way: nobody hears. */
    bool idle = !(there->flags & COP__PEER_KEPT) && here->last < sim->now &&
                there->last < sim->now && sim->depart <= sim->now;
    if (!idle || !cop_sim_buggify(sim, COP__PLACE_AGE_OUT, 2))
        return;
    here->flags &= (uint8_t) ~(COP__PEER_UP | COP__PEER_TOLD);
    there->flags &= (uint8_t) ~(COP__PEER_UP | COP__PEER_TOLD);
}

void cop__links_send(struct cop_sim *sim, struct cop__sim_event *event)
{
    cop_id src = event->src;
    cop_id dst = event->dst;
    struct cop__peer *known = cop__peers_find(&sim->nodes[src].peers, dst);
    if (known && (known->flags & COP__PEER_UP) && (known->flags & COP__PEER_TOLD) &&
        sim->sides.count == 0) { /* by far the most */
        post(sim, known, event, 0);
        return;
    }
    struct cop__side *side = cop__links_side(sim, src, dst, false);
    bool waits = side && (side->recovering || has_waiting(side));
    if (!waits && reach(sim, src, dst)) {
        struct cop__peer *way = channel(sim, src, dst);
        if (way)
            post(sim, way, event, 0);
        else
            cop__sim_drop(sim, event);
        return;
    }
    if (waits || cop__faults_parted(sim, src, dst))
        side = cop__links_side(sim, src, dst, true);
    else
        side = NULL;
    if (side)
        hold(&side->unsent, event);
    else
        cop__sim_drop(sim, event);
}

/* ---- arriving -------------------------------------------------------------------- */

static bool is_lost(const struct cop_sim *sim, const struct cop__side *side,
                    const struct cop__sim_event *event)
{
    const struct cop__sim_node *src = &sim->nodes[event->src];
    if (event->kind != COP__SIM_FRAME || (src->actor && src->life == event->src_life))
        return false;
    return side && side->cut_life == event->src_life && event->time > side->cut_after;
}

/* Whether the connection that this left on has broken since. */
static bool is_stale(const struct cop_sim *sim, const struct cop__sim_event *event)
{
    if (sim->breaks == 0)
        return false;
    const struct cop__peer *way =
        cop__peers_find(&sim->nodes[event->src].peers, event->dst);
    return way && way->epoch != event->epoch;
}

static bool is_of_the_dead(const struct cop_sim *sim,
                           const struct cop__sim_event *event)
{
    const struct cop__sim_node *src = &sim->nodes[event->src];
    return !src->actor || src->life != event->src_life;
}

/* Handles what cannot simply arrive. */
static bool admit_slowly(struct cop_sim *sim, struct cop__sim_event *event)
{
    struct cop__side *side = cop__links_side(sim, event->src, event->dst, false);
    bool blocked = cop__faults_blocked(sim, event->src, event->dst);
    bool stale = is_stale(sim, event);
    if (is_lost(sim, side, event) ||
        (stale && (event->kind == COP__SIM_UP || is_of_the_dead(sim, event)) &&
         event->kind != COP__SIM_DOWN)) {
        cop__sim_drop(sim, event);
        return false;
    }
    bool waits = blocked || (side && side->held.first) ||
                 (stale && event->kind == COP__SIM_FRAME);
    if (!waits)
        return true;
    side = cop__links_side(sim, event->src, event->dst, true);
    if (side)
        hold(&side->held, event);
    else
        cop__sim_drop(sim, event);
    return false;
}

bool cop__links_admit(struct cop_sim *sim, struct cop__sim_event *event)
{
    const struct cop__sim_node *dst = &sim->nodes[event->dst];
    if (!dst->actor || dst->life != event->dst_life) {
        cop__sim_drop(sim, event);
        return false;
    }
    if (sim->sides.count == 0 && sim->partition_count == 0)
        return true;
    return admit_slowly(sim, event);
}

/* ---- breaking -------------------------------------------------------------------- */

static void drop_list(struct cop_sim *sim, struct cop__sim_event *event)
{
    while (event) {
        struct cop__sim_event *next = event->next;
        cop__sim_drop(sim, event);
        event = next;
    }
}

static void drop_held(struct cop_sim *sim, struct cop__side *side)
{
    drop_list(sim, take(&side->held));
    drop_list(sim, take(&side->unsent));
}

/* The same, but for news of deaths, which outlive their subject. */
static void drop_frames(struct cop_sim *sim, struct cop__side *side)
{
    struct cop__sim_event *event = take(&side->held);
    drop_list(sim, take(&side->unsent));
    while (event) {
        struct cop__sim_event *next = event->next;
        if (event->kind == COP__SIM_DOWN)
            hold(&side->held, event);
        else
            cop__sim_drop(sim, event);
        event = next;
    }
}

static cop_time last_arrival(const struct cop_sim *sim, cop_id a, cop_id b)
{
    const struct cop__peer *here = cop__peers_find(&sim->nodes[a].peers, b);
    const struct cop__peer *there = cop__peers_find(&sim->nodes[b].peers, a);
    cop_time last = sim->now;
    if (here && here->last > last)
        last = here->last;
    if (there && there->last > last)
        last = there->last;
    return last;
}

static void reconnect_later(struct cop_sim *sim, cop_id a, cop_id b, cop_time delay)
{
    struct cop__side *side = cop__links_side(sim, a, b, true);
    struct cop__side *back = cop__links_side(sim, b, a, true);
    if (!side || !back || side->reconnect || back->reconnect)
        return;
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_RECONNECT, a, b);
    if (!event)
        return;
    side->reconnect = true;
    cop__sim_push(sim, event, last_arrival(sim, a, b) + delay);
}

void cop__links_break(struct cop_sim *sim, cop_id a, cop_id b, enum cop_down why)
{
    struct cop__peer *here = cop__peers_find(&sim->nodes[a].peers, b);
    struct cop__peer *there = cop__peers_find(&sim->nodes[b].peers, a);
    if (!here || !there || !(here->flags & COP__PEER_UP))
        return;
    struct cop__side *side = cop__links_side(sim, a, b, true);
    struct cop__side *back = cop__links_side(sim, b, a, true);
    if (!side || !back)
        return;
    sim->breaks++;
    here->epoch++;
    there->epoch++;
    here->flags &= (uint8_t) ~(COP__PEER_UP | COP__PEER_TOLD);
    there->flags &= (uint8_t) ~(COP__PEER_UP | COP__PEER_TOLD);
    side->recovering = back->recovering = true;
    side->wanted = back->wanted = false;
    cop_time delay = 1 + cop_sim_draw(sim, COP__PLACE_RECONNECT, channel_key(a, b),
                                      here->epoch, COP_MSEC);
    cop__links_tell_down(sim, b, a, why, 1 + delay / 2);
    cop__links_tell_down(sim, a, b, why, 1 + delay / 3);
    if (!cop__faults_parted(sim, a, b))
        reconnect_later(sim, a, b, 2 * delay);
}

static void post_again(struct cop_sim *sim, struct cop__peer *way,
                       struct cop__sim_event *event)
{
    while (event) {
        struct cop__sim_event *next = event->next;
        bool news = event->kind == COP__SIM_DOWN;
        if (event->dst_life != sim->nodes[event->dst].life ||
            (!news && is_of_the_dead(sim, event)))
            cop__sim_drop(sim, event);
        else
            post(sim, way, event, 0);
        event = next;
    }
}

/* Sends again what was held, in order, to a living peer. */
static void release(struct cop_sim *sim, cop_id src, cop_id dst)
{
    struct cop__side *side = cop__links_side(sim, src, dst, false);
    struct cop__peer *way = channel(sim, src, dst);
    if (!side || !way)
        return;
    post_again(sim, way, take(&side->held));
    post_again(sim, way, take(&side->unsent));
}

/* One end is gone. The other hears of it if it waits for something. */
static void bury(struct cop_sim *sim, cop_id dead, cop_id other)
{
    struct cop__side *out = cop__links_side(sim, dead, other, false);
    struct cop__side *back = cop__links_side(sim, other, dead, false);
    bool waits = back && (has_waiting(back) || back->wanted);
    if (back)
        drop_held(sim, back);
    if (!cop__sim_alive(sim, other)) {
        if (out)
            drop_held(sim, out);
        return;
    }
    release(sim, dead, other); /* only news of the death is left of it */
    if (waits)
        post_down(sim, dead, other, COP_DOWN_REFUSED);
}

void cop__links_reconnect(struct cop_sim *sim, cop_id a, cop_id b)
{
    struct cop__side *side = cop__links_side(sim, a, b, true);
    struct cop__side *back = cop__links_side(sim, b, a, true);
    if (!side || !back)
        return;
    side->reconnect = back->reconnect = false;
    if (cop__faults_parted(sim, a, b))
        return; /* healing tries again */
    side->recovering = back->recovering = false;
    if (!cop__sim_alive(sim, a) || !cop__sim_alive(sim, b)) {
        cop_id dead = cop__sim_alive(sim, a) ? b : a;
        bury(sim, dead, dead == a ? b : a);
    } else {
        bool wanted =
            has_waiting(side) || has_waiting(back) || side->wanted || back->wanted;
        struct cop__peer *here = channel(sim, a, b);
        if (here && wanted && !(here->flags & COP__PEER_UP))
            join(sim, a, b);
        release(sim, a, b);
        release(sim, b, a);
    }
    side->wanted = back->wanted = false;
}

void cop__links_silent(struct cop_sim *sim, const struct cop__sim_event *event)
{
    const struct cop__sim_node *node = &sim->nodes[event->dst];
    if (!node->actor || node->life != event->dst_life)
        return;
    if (cop__faults_parted(sim, event->src, event->dst))
        cop__links_tell_down(sim, event->src, event->dst, COP_DOWN_SILENT, 0);
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

void cop__links_retry(struct cop_sim *sim)
{
    uint64_t *keys = malloc((sim->sides.count + 1) * sizeof(*keys));
    if (!keys) {
        cop_sim_fail(sim, "sim", "out of memory");
        return;
    }
    uint32_t count = 0;
    uint32_t at = 0;
    for (struct cop__map_slot *slot;
         (slot = cop__map_next(&sim->sides, &at)) != NULL;) {
        const struct cop__side *side = slot->value;
        if (has_waiting(side) || side->recovering || side->wanted)
            keys[count++] = slot->key;
    }
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (uint32_t i = 0; i < count; i++)
        reconnect_later(sim, (cop_id)(keys[i] >> 32), (cop_id)keys[i], 1);
    free(keys);
}

/* ---- dying ----------------------------------------------------------------------- */

/* How much of what is on its way still arrives. */
static void cut(struct cop_sim *sim, cop_id dead, cop_id peer)
{
    const struct cop__peer *way = cop__peers_find(&sim->nodes[dead].peers, peer);
    if (!(sim->config.flags & COP_SIM_CUT) || way->last <= sim->now)
        return;
    struct cop__side *side = cop__links_side(sim, dead, peer, true);
    if (!side)
        return;
    cop_time span = way->last - sim->now;
    side->cut_life = sim->nodes[dead].life;
    side->cut_after =
        sim->now + cop_sim_draw(sim, COP__PLACE_CUT, channel_key(dead, peer),
                                sim->nodes[dead].life, span + 1);
}

static void lose(struct cop_sim *sim, cop_id dead, cop_id peer)
{
    struct cop__peer *end = channel(sim, peer, dead);
    struct cop__side *out = cop__links_side(sim, dead, peer, false);
    struct cop__side *back = cop__links_side(sim, peer, dead, false);
    if (!end)
        return;
    bool told = (end->flags & COP__PEER_UP) != 0;
    bool waits = back && !told && (has_waiting(back) || back->wanted);
    end->flags &= (uint8_t) ~(COP__PEER_UP | COP__PEER_TOLD);
    if (out) {
        drop_frames(sim, out);
        out->recovering = out->wanted = false;
    }
    if (back) {
        drop_held(sim, back);
        back->recovering = back->wanted = false;
    }
    cut(sim, dead, peer);
    if (cop__sim_alive(sim, peer) && (told || waits))
        post_down(sim, dead, peer, told ? COP_DOWN_CLOSED : COP_DOWN_REFUSED);
}

void cop__links_crash(struct cop_sim *sim, cop_id id)
{
    uint32_t count;
    cop_id *ids = cop__peers_sorted(&sim->nodes[id].peers, &count);
    if (!ids && sim->nodes[id].peers.count > 0)
        cop_sim_fail(sim, "sim", "out of memory");
    for (uint32_t i = 0; ids && i < count; i++) {
        lose(sim, id, ids[i]);
        struct cop__peer *peer = cop__peers_find(&sim->nodes[id].peers, ids[i]);
        peer->flags = 0;
    }
    free(ids);
}

void cop__links_fini(struct cop_sim *sim)
{
    uint32_t at = 0;
    for (struct cop__map_slot *slot;
         (slot = cop__map_next(&sim->sides, &at)) != NULL;) {
        drop_held(sim, slot->value);
        free(slot->value);
    }
    cop__map_fini(&sim->sides);
}
