/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/swarm.h"
#include "sim/world.h"

/*
 * Two more dimensions of seeds in which views change: detectors of silence, with stops and delays
 * as long as their deadlines, and long histories of the same few nodes. Which seeds have them, and
 * all of them that is drawn, comes from a source of its own: all other seeds stay what they are.
 */
static void begin(struct cop__draw *draw, uint64_t what)
{
    cop__random_init(&draw->own, cop__mix64(draw->script->config.seed ^ what));
}

static uint64_t below(struct cop__draw *draw, uint64_t bound)
{
    return cop__random_below(&draw->own, bound);
}

static bool chance(struct cop__draw *draw, uint32_t percent)
{
    return cop__random_chance(&draw->own, percent, 100);
}

static cop_id anyone(struct cop__draw *draw) { return (cop_id)below(draw, draw->n); }

/* Somebody of the start, or (sometimes) one who may have come since. */
static cop_id anyone_ever(struct cop__draw *draw)
{
    bool comes = draw->joins > 0 && chance(draw, 25);
    return comes ? draw->n + (cop_id)below(draw, draw->joins) : anyone(draw);
}

static void put(struct cop__draw *draw, enum cop_sim_action_kind kind, cop_time at,
                cop_id a)
{
    struct cop_sim_action made = cop__draw_action(kind, at, a, COP_ID_NONE);
    if (kind == COP_SIM_LEAVE) {
        made.request.kind = COP_REQUEST_LEAVE;
        made.request.token = 1;
    }
    cop__draw_add(draw, &made);
}

/* ---- detectors ------------------------------------------------------------------- */

/*
 * What is late in a simulation that is as it should be (buggify: up to 20 ms on each way) is never
 * later than a deadline, which is a period at least.
 */
static cop_time draw_period(struct cop__draw *draw)
{
    static const uint32_t periods[] = {400, 200, 100, 50, 20}; /* ms */
    uint64_t kinds = draw->script->config.flags & COP_SIM_BUGGIFY ? 3 : 5;
    return periods[below(draw, kinds)] * COP_MSEC;
}

bool cop__swarm_looks_for_silence(uint64_t seed)
{
    return cop__mix64(seed ^ UINT64_C(0x51e7ce)) % 4 == 0;
}

void cop__swarm_detectors(struct cop__draw *draw, bool always)
{
    struct cop_detect *detect = &draw->script->config.detect;
    begin(draw, UINT64_C(0xde7ec7));
    if (!chance(draw, 30) && !always)
        return;
    uint64_t kind = below(draw, 10);
    draw->period = draw_period(draw);
    if (kind < 6)
        detect->ring_period_ns = draw->period;
    if (kind == 5 || kind == 6 || kind == 7)
        detect->gossip_period_ns = kind == 5 ? draw_period(draw) : draw->period;
    if (kind > 7 || chance(draw, 60))
        detect->witnesses = 1 + (uint32_t)below(draw, 4);
    /* Where nobody may be removed by chance: gossip alone accuses a living one now and then. */
    if (always && detect->gossip_period_ns > 0 && detect->witnesses == 0)
        detect->witnesses = 1;
    /* Who keeps silent takes no part in what is built on views (D13). */
    detect->stealth = detect->gossip_period_ns > 0 && chance(draw, 40) && !always;
    /* All that is drawn for other seeds, but as far apart as the detectors look; or much faster. */
    if (chance(draw, 60))
        draw->span = (1 + below(draw, 20)) * draw->period;
}

/* So long that somebody notices, or nearly so. */
static cop_time draw_length(struct cop__draw *draw)
{
    return draw->period / 4 + below(draw, (chance(draw, 70) ? 4 : 20) * draw->period);
}

static void stop(struct cop__draw *draw, cop_time at)
{
    cop_id id = anyone_ever(draw);
    put(draw, COP_SIM_PAUSE, at, id);
    put(draw, COP_SIM_RESUME, at + draw_length(draw), id);
}

static void delay(struct cop__draw *draw, cop_time at)
{
    struct cop_sim_action slow =
        cop__draw_action(COP_SIM_SLOW_LINK, at, anyone(draw), COP_ID_NONE);
    slow.b = anyone(draw);
    slow.amount_ns = below(draw, 3 * draw->period);
    if (slow.a == slow.b)
        return;
    cop__draw_add(draw, &slow);
    slow.at += draw_length(draw);
    slow.amount_ns = 0;
    cop__draw_add(draw, &slow);
}

static struct cop_sim_set one(cop_id id)
{
    return (struct cop_sim_set){.ranges = {{id, id}}, .count = 1};
}

/* One bad link, for one way or both; or one that loses all of them. */
static void cut(struct cop__draw *draw, cop_time at)
{
    struct cop_sim_action wall =
        cop__draw_action(COP_SIM_PARTITION, at, 0, COP_ID_NONE);
    cop_id a = anyone(draw), b = anyone(draw);
    bool alone = chance(draw, 40);
    wall.left = one(a);
    wall.right = one(b);
    if (alone)
        wall.right.count = 0;
    if (alone && a > 0)
        wall.right.ranges[wall.right.count++] = (struct cop_sim_range){0, a - 1};
    if (alone && a + 1 < draw->n)
        wall.right.ranges[wall.right.count++] =
            (struct cop_sim_range){a + 1, draw->n - 1};
    wall.one_way = chance(draw, 30);
    if (a == b && !alone)
        return;
    cop__draw_add(draw, &wall);
    if (chance(draw, 85))
        put(draw, COP_SIM_HEAL, at + draw_length(draw), 0);
}

static void jump(struct cop__draw *draw, cop_time at)
{
    struct cop_sim_action made =
        cop__draw_action(COP_SIM_JUMP, at, anyone(draw), COP_ID_NONE);
    made.amount_ns = draw_length(draw);
    cop__draw_add(draw, &made);
}

/* Any time, or just when a question is under way: periods begin with the run. */
static cop_time draw_moment(struct cop__draw *draw)
{
    const struct cop_sim_net *net = &draw->script->config.net;
    if (chance(draw, 40))
        return below(draw, 10 * draw->period);
    return below(draw, 10) * draw->period +
           below(draw, 2 * (net->latency_ns + net->jitter_ns) + 20 * COP_USEC);
}

void cop__swarm_silence(struct cop__draw *draw)
{
    static void (*const kinds[])(struct cop__draw *, cop_time) = {stop, delay, cut,
                                                                  jump};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    uint64_t count =
        draw->period && draw->n > 1 && chance(draw, 70) ? below(draw, 4) : 0;
    /* One or two kinds in a run: what is not disturbed can be judged. */
    uint64_t first = below(draw, KINDS), second = below(draw, KINDS);
    for (uint64_t i = 0; i < count; i++)
        kinds[chance(draw, 50) ? first : second](draw, draw_moment(draw));
}

/* ---- long histories -------------------------------------------------------------- */

static cop_time draw_gap(struct cop__draw *draw)
{
    static const cop_time gaps[] = {100 * COP_USEC, 5 * COP_MSEC, 200 * COP_MSEC,
                                    2 * COP_SEC};
    return below(draw, gaps[below(draw, 4)]);
}

static cop_time die(struct cop__draw *draw, cop_time at, cop_id id)
{
    put(draw, chance(draw, 75) ? COP_SIM_CRASH : COP_SIM_LEAVE, at, id);
    at += draw_gap(draw);
    put(draw, COP_SIM_RESTART, at, id);
    return at;
}

static cop_time stand_aside(struct cop__draw *draw, cop_time at, cop_id id)
{
    struct cop_sim_action drain =
        cop__draw_action(COP_SIM_DRAIN, at, anyone(draw), COP_ID_NONE);
    drain.b = id;
    drain.request.kind = COP_REQUEST_DRAIN;
    drain.request.member = id;
    drain.request.undo = chance(draw, 40);
    cop__draw_add(draw, &drain);
    return at;
}

static cop_time come(struct cop__draw *draw, cop_time at, cop_id id)
{
    struct cop_sim_action join = cop__draw_action(COP_SIM_JOIN, at, 0, COP_ID_NONE);
    (void)id;
    join.spare = chance(draw, 50);
    if (draw->joins > 0)
        cop__draw_add(draw, &join);
    return at;
}

static cop_time tell(struct cop__draw *draw, cop_time at, cop_id id)
{
    struct cop_sim_action report =
        cop__draw_action(COP_SIM_REPORT, at, anyone(draw), COP_ID_NONE);
    report.b = id;
    report.request.kind = COP_REQUEST_REPORT;
    report.request.member = id;
    if (report.a != id)
        cop__draw_add(draw, &report);
    return at;
}

static cop_time send(struct cop__draw *draw, cop_time at, cop_id id)
{
    struct cop_sim_action letter =
        cop__draw_action(COP_SIM_SEND, at, anyone_ever(draw), COP_ID_NONE);
    letter.b = id;
    letter.request.kind = COP_REQUEST_SEND;
    letter.request.member = id;
    letter.request.token = 10 + draw->letters++;
    if (letter.a != id)
        cop__draw_add(draw, &letter);
    return at;
}

/* The same few die, come back under their names, stand aside and are written to, many times. */
void cop__swarm_history(struct cop__draw *draw)
{
    static cop_time (*const kinds[])(struct cop__draw *, cop_time, cop_id) = {
        die, die, die, come, stand_aside, tell, send};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    begin(draw, UINT64_C(0x4157));
    if (!chance(draw, 12))
        return;
    uint32_t on = (uint32_t)below(draw, 1u << KINDS) | 1;
    cop_id who[3] = {anyone(draw), anyone_ever(draw), anyone_ever(draw)};
    cop_time at = 0;
    uint64_t count = 4 + below(draw, 20);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t kind = below(draw, KINDS);
        at += draw_gap(draw);
        if (on >> kind & 1)
            at = kinds[kind](draw, at, who[below(draw, 3)]);
    }
}
