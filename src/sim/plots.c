/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/swarm.h"
#include "sim/world.h"

/*
 * Plots: what single faults, drawn one by one, hardly ever add up to. Two roots at once, cuts
 * near the middle that move before they heal, a root that dies while it commits, one who joins
 * and is lost on the way. A plot is nothing but actions that belong together, a few messages
 * apart, so a script with one is printed and cut down like any other.
 *
 * Without a detector for silence nobody suspects whom it does not hear. So whoever is cut off is
 * reported, as somebody outside would; who can be heard is accused only where lies are wanted.
 */
#define PLOT_NODES 16u /* more are never cut apart */

static bool lies(const struct cop__draw *draw)
{
    return (draw->flags & COP_SIM_SWARM_LIES) != 0;
}

/* ---- single actions -------------------------------------------------------------- */

static void put(struct cop__draw *draw, enum cop_sim_action_kind kind, cop_time at,
                cop_id a)
{
    struct cop_sim_action made = cop__draw_action(kind, at, a, COP_ID_NONE);
    if (kind == COP_SIM_LEAVE) {
        made.request.kind = COP_REQUEST_LEAVE;
        made.request.token = 1;
    } else if (kind == COP_SIM_GO_ON) {
        made.request.kind = COP_REQUEST_GO_ON;
        made.request.token = COP__GO_ON_TOKEN;
    }
    cop__draw_add(draw, &made);
}

/* So many messages after `from`, or fewer. */
static cop_time within(struct cop__draw *draw, cop_time from, uint64_t beats)
{
    return from + cop__below(draw, beats * draw->beat + 1);
}

static void report(struct cop__draw *draw, cop_time at, cop_id a, cop_id b)
{
    struct cop_sim_action made = cop__draw_action(COP_SIM_REPORT, at, a, b);
    made.request.kind = COP_REQUEST_REPORT;
    made.request.member = b;
    if (a != b)
        cop__draw_add(draw, &made);
}

/* Somebody finds another gone; it may live. */
static void accuse(struct cop__draw *draw, cop_time at, cop_id a, cop_id b)
{
    struct cop_sim_action made = cop__draw_action(COP_SIM_LIE, at, a, b);
    if (cop__chance(draw, 50))
        report(draw, at, a, b);
    else if (a != b)
        cop__draw_add(draw, &made);
}

static void crash_at_boundary(struct cop__draw *draw, cop_id id, uint64_t most)
{
    struct cop_sim_action made = cop__draw_action(COP_SIM_CRASH, 0, id, COP_ID_NONE);
    made.when = cop__chance(draw, 60) ? COP_SIM_AFTER_SEND : COP_SIM_BEFORE_RECV;
    made.count = cop__between(draw, 1, most);
    cop__draw_add(draw, &made);
}

/* By time, or at a message boundary while it proposes and commits. */
static void crash_soon(struct cop__draw *draw, cop_time from, cop_id id)
{
    if (cop__chance(draw, 50))
        crash_at_boundary(draw, id, 4 * draw->n + 4);
    else
        put(draw, COP_SIM_CRASH, within(draw, from, 16), id);
}

static void slow_link(struct cop__draw *draw, cop_time at, cop_id a, cop_id b)
{
    struct cop_sim_action made = cop__draw_action(COP_SIM_SLOW_LINK, at, a, b);
    made.amount_ns = cop__between(draw, 1, 30) * draw->beat;
    if (a != b)
        cop__draw_add(draw, &made);
}

static cop_id anyone(struct cop__draw *draw)
{
    return (cop_id)cop__below(draw, draw->n);
}

/* One of the first three, who will be root sooner or later. */
static cop_id any_root(struct cop__draw *draw)
{
    return (cop_id)cop__below(draw, draw->n < 3 ? draw->n : 3);
}

/* Something that makes the root propose. */
static void start_change(struct cop__draw *draw, cop_time at)
{
    cop_id last = draw->n - 1 - (cop_id)cop__below(draw, draw->n > 3 ? 2 : 1);
    switch (cop__below(draw, 4)) {
    case 0:
        put(draw, COP_SIM_LEAVE, at, cop__chance(draw, 70) ? last : anyone(draw));
        return;
    case 1:
        if (draw->joins > 0) {
            put(draw, COP_SIM_JOIN, at, 0);
            return;
        }
        break;
    case 2:
        if (lies(draw)) {
            report(draw, at, any_root(draw), last);
            return;
        }
        break;
    default:
        break;
    }
    put(draw, COP_SIM_CRASH, at, last);
}

/* ---- cuts ------------------------------------------------------------------------ */

static struct cop_sim_set set_of(uint32_t mask)
{
    struct cop_sim_set set = {.count = 0};
    for (cop_id id = 0; id < PLOT_NODES; id++) {
        if (!(mask >> id & 1))
            continue;
        struct cop_sim_range *last = &set.ranges[set.count ? set.count - 1 : 0];
        if (set.count > 0 && last->last + 1 == id)
            last->last = id;
        else
            set.ranges[set.count++] = (struct cop_sim_range){id, id};
    }
    return set;
}

static void cut(struct cop__draw *draw, cop_time at, uint32_t left, uint32_t right)
{
    struct cop_sim_action wall =
        cop__draw_action(COP_SIM_PARTITION, at, 0, COP_ID_NONE);
    wall.left = set_of(left);
    wall.right = set_of(right);
    wall.one_way = cop__chance(draw, 10);
    if (left != 0 && right != 0)
        cop__draw_add(draw, &wall);
}

static uint32_t everyone(const struct cop__draw *draw) { return (1u << draw->n) - 1; }

static uint32_t count(uint32_t mask)
{
    uint32_t bits = 0;
    for (; mask; mask &= mask - 1)
        bits++;
    return bits;
}

/* So many of `of`. */
static uint32_t choose(struct cop__draw *draw, uint32_t of, uint32_t size)
{
    uint32_t chosen = 0;
    while (count(chosen) < size && chosen != of) {
        uint32_t bit = 1u << cop__below(draw, draw->n);
        chosen |= bit & of;
    }
    return chosen;
}

/* Who is first on a side, and perhaps another one there, finds the other side gone. */
static void find_gone(struct cop__draw *draw, cop_time at, uint32_t side,
                      uint32_t other)
{
    uint32_t finders = side & (~side + 1);
    if (cop__chance(draw, 40))
        finders |= choose(draw, side, 1);
    for (cop_id a = 0; a < draw->n; a++) {
        if (!(finders >> a & 1))
            continue;
        cop_time when = within(draw, at, 3);
        for (cop_id b = 0; b < draw->n; b++)
            if (other >> b & 1 && cop__chance(draw, 95))
                report(draw, when, a, b);
    }
}

/* A cut through the middle, which moves before it heals: of nine five go on without four, then
 * two of the five meet the four. */
static void plot_moving_cut(struct cop__draw *draw, cop_time at)
{
    uint32_t all = everyone(draw);
    uint32_t half = draw->n / 2 + (cop__chance(draw, 80) ? 1 : 0);
    uint32_t side = choose(draw, all, half < draw->n ? half : draw->n - 1);
    cut(draw, at, side, all & ~side);
    find_gone(draw, at, side, all & ~side);
    if (cop__chance(draw, 40))
        find_gone(draw, at, all & ~side, side);
    uint64_t moves = cop__between(draw, 1, 2);
    for (uint64_t i = 0; i < moves; i++) {
        at = within(draw, at + 2 * draw->beat, cop__chance(draw, 70) ? 4 : 14);
        if (cop__chance(draw, 20))
            crash_soon(draw, at, any_root(draw));
        put(draw, COP_SIM_HEAL, at, 0);
        uint32_t size = count(side);
        uint32_t part = choose(
            draw, side, (uint32_t)cop__between(draw, 1, size > 1 ? size - 1 : 1));
        side = cop__chance(draw, 80) ? side & ~part : part;
        side = side ? side : all & 1;
        cut(draw, at, side, all & ~side);
        find_gone(draw, at, all & ~side, side);
        if (cop__chance(draw, 50))
            find_gone(draw, at, side, all & ~side);
    }
    if (cop__chance(draw, 70))
        put(draw, COP_SIM_HEAL, within(draw, at, 200), 0);
}

/* The first in line is alone with one neighbour, who sees all the others. */
static void plot_lonely_root(struct cop__draw *draw, cop_time at)
{
    uint32_t all = everyone(draw);
    uint32_t others = all & ~1u;
    uint32_t friend = choose(draw, others, 1);
    others &= ~friend;
    cut(draw, at, 1, others);
    if (cop__chance(draw, 70))
        find_gone(draw, at, 1, others);
    if (cop__chance(draw, 70))
        find_gone(draw, within(draw, at, 10), others, 1);
    if (cop__chance(draw, 40))
        start_change(draw, within(draw, at, 10));
    if (cop__chance(draw, 70))
        put(draw, COP_SIM_HEAL, within(draw, at, 2000), 0);
}

/* A side that is too small is told to go on, by somebody who may be wrong about the other. */
static void plot_go_on(struct cop__draw *draw, cop_time at)
{
    uint32_t all = everyone(draw), half = draw->n / 2;
    uint32_t side = choose(draw, all, (uint32_t)cop__between(draw, 1, half ? half : 1));
    bool crash = cop__chance(draw, 50);
    for (cop_id id = 0; id < draw->n && crash; id++)
        if (!(side >> id & 1))
            put(draw, COP_SIM_CRASH, within(draw, at, 10), id);
    if (!crash)
        cut(draw, at, side, all & ~side);
    find_gone(draw, at, side, all & ~side);
    if (cop__chance(draw, 50))
        find_gone(draw, within(draw, at, 20), all & ~side, side);
    uint64_t times = cop__between(draw, 1, 3);
    for (uint64_t i = 0; i < times; i++)
        for (cop_id id = 0; id < draw->n; id++)
            if (side >> id & 1 && cop__chance(draw, 70))
                put(draw, COP_SIM_GO_ON, within(draw, at + 10 * draw->beat, 60), id);
    if (cop__chance(draw, 30))
        crash_soon(draw, at + 10 * draw->beat, any_root(draw));
    if (cop__chance(draw, 30))
        start_change(draw, within(draw, at, 80));
    put(draw, COP_SIM_HEAL, within(draw, at + 10 * draw->beat, 400), 0);
}

/* ---- roots ----------------------------------------------------------------------- */

/* Who is next in line finds those before it gone, while they propose. Where nobody lies, they
 * are cut off for a moment. */
static void plot_duel(struct cop__draw *draw, cop_time at)
{
    uint32_t rivals = (uint32_t)cop__between(draw, 1, draw->n > 2 ? 2 : 1);
    uint64_t slow = cop__below(draw, 4);
    for (uint64_t i = 0; i < slow; i++) {
        cop_id root = any_root(draw), other = anyone(draw);
        bool to = cop__chance(draw, 50);
        slow_link(draw, cop__chance(draw, 50) ? 0 : at, to ? other : root,
                  to ? root : other);
    }
    start_change(draw, within(draw, at, 6));
    if (cop__chance(draw, 40))
        start_change(draw, within(draw, at, 12));
    if (!lies(draw)) {
        uint32_t before = (1u << cop__between(draw, 1, rivals)) - 1;
        cut(draw, within(draw, at, 8), before, everyone(draw) & ~before);
        put(draw, COP_SIM_HEAL, within(draw, at, 24), 0);
    }
    for (cop_id rival = 1; rival <= rivals; rival++)
        for (cop_id id = 0; id < rival; id++)
            if (cop__chance(draw, 80))
                accuse(draw, within(draw, at, 12), rival, id);
    if (cop__chance(draw, 50))
        crash_soon(draw, at, any_root(draw));
    if (cop__chance(draw, 25))
        crash_soon(draw, at, any_root(draw));
}

/* A root that dies within a message of its commit, and perhaps the next one, too. */
static void plot_last_words(struct cop__draw *draw, cop_time at)
{
    start_change(draw, at);
    crash_at_boundary(draw, 0, 3 * draw->n + 4);
    if (cop__chance(draw, 50))
        crash_at_boundary(draw, 1 % draw->n, 4 * draw->n + 4);
    if (cop__chance(draw, 40))
        start_change(draw, within(draw, at, 20));
    if (cop__chance(draw, 30))
        slow_link(draw, at, any_root(draw), anyone(draw));
}

/* ---- coming and going ------------------------------------------------------------ */

static void trouble_joiner(struct cop__draw *draw, cop_time at, cop_id id)
{
    switch (cop__below(draw, 5)) {
    case 0:
        crash_at_boundary(draw, id, 8);
        return;
    case 1:
        put(draw, COP_SIM_CRASH, within(draw, at, 60), id);
        return;
    case 2:
        at = within(draw, at, 60);
        put(draw, COP_SIM_PAUSE, at, id);
        put(draw, COP_SIM_RESUME, within(draw, at, 400), id);
        if (cop__chance(draw, 60))
            report(draw, within(draw, at, 40), 0, id);
        return;
    case 3:
        slow_link(draw, at, any_root(draw), id);
        slow_link(draw, at, id, any_root(draw));
        return;
    default: {
        struct cop_sim_action wall =
            cop__draw_action(COP_SIM_PARTITION, 0, 0, COP_ID_NONE);
        wall.at = within(draw, at, 60);
        wall.left = set_of(1u << any_root(draw));
        wall.right = (struct cop_sim_set){.ranges = {{id, id}}, .count = 1};
        cop__draw_add(draw, &wall);
        put(draw, COP_SIM_HEAL, within(draw, wall.at, 400), 0);
        return;
    }
    }
}

/* Some come; each may be lost on its way, and the root with them. */
static void plot_joiners(struct cop__draw *draw, cop_time at)
{
    uint64_t comers = cop__between(draw, 1, 3);
    for (uint64_t i = 0; i < comers && draw->joins > 0; i++) {
        put(draw, COP_SIM_JOIN, cop__chance(draw, 60) ? at : within(draw, at, 100), 0);
        if (cop__chance(draw, 60))
            trouble_joiner(draw, at, draw->n + (cop_id)cop__below(draw, comers));
    }
    if (cop__chance(draw, 50))
        crash_soon(draw, within(draw, at, 80), any_root(draw));
    if (cop__chance(draw, 30))
        put(draw, COP_SIM_LEAVE, within(draw, at, 100), anyone(draw));
}

/* One dies and comes back, again and again, the root as likely as not. */
static void plot_returns(struct cop__draw *draw, cop_time at)
{
    cop_id id = cop__chance(draw, 60) ? any_root(draw) : anyone(draw);
    uint64_t rounds = cop__between(draw, 1, 3);
    for (uint64_t i = 0; i < rounds; i++) {
        put(draw, COP_SIM_CRASH, at, id);
        at = within(draw, at, cop__chance(draw, 50) ? 8 : 200);
        put(draw, COP_SIM_RESTART, at, id);
        at = within(draw, at, cop__chance(draw, 50) ? 40 : 4000);
    }
    if (cop__chance(draw, 40))
        crash_soon(draw, at, any_root(draw));
}

/* Several leave at once, while something else changes. */
static void plot_leavers(struct cop__draw *draw, cop_time at)
{
    uint64_t leavers = cop__between(draw, 1, draw->n > 2 ? 3 : 1);
    for (uint64_t i = 0; i < leavers; i++)
        put(draw, COP_SIM_LEAVE, within(draw, at, 20),
            cop__chance(draw, 40) ? any_root(draw) : anyone(draw));
    if (cop__chance(draw, 50))
        start_change(draw, within(draw, at, 20));
    if (cop__chance(draw, 40))
        crash_soon(draw, at, anyone(draw));
}

/* One stops, is removed, and wakes up in a world that went on. */
static void plot_stopped(struct cop__draw *draw, cop_time at)
{
    cop_id id = anyone(draw);
    put(draw, COP_SIM_PAUSE, at, id);
    for (cop_id other = 0; other < draw->n; other++)
        if (cop__chance(draw, other < 2 ? 70 : 20))
            report(draw, within(draw, at, 10), other, id);
    if (cop__chance(draw, 60))
        crash_soon(draw, at, any_root(draw));
    if (cop__chance(draw, 80))
        put(draw, COP_SIM_RESUME, within(draw, at, 100), id);
}

void cop__draw_plots(struct cop__draw *draw)
{
    /* Those stand twice in which timing matters most. */
    static void (*const plots[])(struct cop__draw *, cop_time) = {
        plot_moving_cut, plot_moving_cut, plot_lonely_root, plot_duel,
        plot_duel,       plot_last_words, plot_joiners,     plot_joiners,
        plot_returns,    plot_leavers,    plot_stopped,     plot_go_on,
    };
    uint64_t most = cop__chance(draw, 70) ? 1 : 2;
    for (uint64_t i = 0; i < most; i++) {
        cop_time at = cop__below(draw, draw->span + 1);
        size_t plot = (size_t)cop__below(draw, sizeof(plots) / sizeof(plots[0]));
        if (draw->n >= 2 && draw->n <= PLOT_NODES)
            plots[plot](draw, at);
    }
}
