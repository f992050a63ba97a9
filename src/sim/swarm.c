/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/swarm.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Every seed is a script of its own: sizes, shapes, network, options, requests and faults
 * are all drawn from it. Each seed also draws which kinds of faults it has at all, because
 * a run with everything in it hides what a run with two things in it would show.
 */

static cop_id any_node(struct cop__draw *draw)
{
    return (cop_id)cop__below(draw, draw->n);
}

/* ---- size and shape -------------------------------------------------------------- */

static uint32_t draw_size(struct cop__draw *draw)
{
    uint64_t kind = cop__below(draw, 20);
    if (kind < 14)
        return (uint32_t)cop__between(draw, 2, 12);
    return (uint32_t)(kind < 19 ? cop__between(draw, 13, 40)
                                : cop__between(draw, 41, 100));
}

/* A shape without a table, as text. */
static void draw_plain_shape(struct cop__draw *draw, char *out, size_t size)
{
    unsigned k = (unsigned)cop__between(draw, 2, 4);
    switch (cop__below(draw, 5)) {
    case 0:
        snprintf(out, size, "kary:%u", k);
        return;
    case 1:
        snprintf(out, size, "radix:%u", 1u << cop__between(draw, 1, 3));
        return;
    case 2:
        snprintf(out, size, "knomial:%u", k);
        return;
    case 3:
        snprintf(out, size, "flat");
        return;
    default:
        snprintf(out, size, "chain");
        return;
    }
}

/* A random tree as a topology file: each rank below a random earlier one. */
static int draw_topology(struct cop__draw *draw)
{
    struct cop_sim_script *script = draw->script;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return COP_ENOMEM;
    for (uint32_t rank = 1; rank < draw->n; rank++)
        fprintf(out, "m:%u => m:%u ; ", (unsigned)cop__below(draw, rank),
                (unsigned)rank);
    if (fclose(out) != 0) {
        free(text);
        return COP_ENOMEM;
    }
    script->topology = text;
    return 0;
}

static void draw_shape(struct cop__draw *draw)
{
    char text[64];
    char message[200];
    uint32_t per_host = (uint32_t)cop__between(draw, 1, 5);
    size_t at = 0;
    if (cop__chance(draw, 20)) {
        snprintf(text, sizeof(text), "hosts:");
        at = strlen(text);
    }
    draw_plain_shape(draw, text + at, sizeof(text) - at);
    draw->error =
        cop_sim_script_shape(draw->script, text, per_host, message, sizeof(message));
}

/* ---- network --------------------------------------------------------------------- */

static int draw_recorded(struct cop__draw *draw, struct cop_sim_net *net)
{
    uint32_t count = (uint32_t)cop__between(draw, 1, 8);
    uint32_t *table = malloc(count * sizeof(*table));
    if (!table)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        table[i] = (uint32_t)(cop__between(draw, 1, 500) * COP_USEC);
    net->table = draw->script->table = table;
    net->table_count = count;
    return 0;
}

static void draw_net(struct cop__draw *draw)
{
    struct cop_sim_net *net = &draw->script->config.net;
    memset(net, 0, sizeof(*net));
    net->latency_ns = cop__between(draw, 1, 50) * COP_USEC;
    net->kind = cop__chance(draw, 40) ? COP_SIM_NET_CONSTANT
                                      : (enum cop_sim_net_kind)cop__between(draw, 1, 4);
    if (net->kind == COP_SIM_NET_LOGGP) {
        net->overhead_ns = cop__between(draw, 0, 5000);
        net->gap_ns = cop__between(draw, 0, 5000);
        net->byte_ps = cop__between(draw, 0, 10000);
    } else if (net->kind == COP_SIM_NET_TORUS) {
        net->hop_ns = cop__between(draw, 1, 2000);
        net->shuffle = cop__chance(draw, 50);
    } else if (net->kind == COP_SIM_NET_SWITCH) {
        net->service_ns = cop__between(draw, 1, 5000);
        net->ports = (uint32_t)cop__between(draw, 0, 8);
    } else if (net->kind == COP_SIM_NET_RECORDED) {
        draw->error = draw_recorded(draw, net);
    }
    if (cop__chance(draw, 60))
        net->jitter_ns = cop__between(draw, 1, 100) * COP_USEC;
    if (cop__chance(draw, 30))
        net->compute_ns = cop__between(draw, 1, 20) * COP_USEC;
}

/* For plots, in which it matters what comes first. */
static void plain_net(struct cop__draw *draw)
{
    struct cop_sim_net *net = &draw->script->config.net;
    if (cop__chance(draw, 70) && net->kind != COP_SIM_NET_RECORDED) {
        *net = (struct cop_sim_net){.latency_ns = 10 * COP_USEC};
        net->jitter_ns =
            cop__chance(draw, 50) ? cop__between(draw, 1, 40) * COP_USEC : 0;
    }
    draw->beat = net->latency_ns + net->jitter_ns / 2 + net->compute_ns;
    /* Where all is as far apart as detectors look, so are the parts of a plot. */
    if (draw->period && draw->span >= draw->period)
        draw->beat = draw->period / 16;
}

/* ---- requests -------------------------------------------------------------------- */

static struct cop_sim_action action_at(struct cop__draw *draw,
                                       enum cop_sim_action_kind kind)
{
    struct cop_sim_action action;
    memset(&action, 0, sizeof(action));
    action.kind = kind;
    action.at = cop__below(draw, draw->span + 1);
    action.a = any_node(draw);
    action.b = COP_ID_NONE;
    return action;
}

static void draw_probe(struct cop__draw *draw, uint64_t token)
{
    struct cop_sim_action probe = action_at(draw, COP_SIM_PROBE);
    struct cop_request *request = &probe.request;
    if (token == 1 && cop__chance(draw, 50))
        probe.at = 0;
    request->kind = COP_REQUEST_PROBE;
    request->token = token;
    request->timeout_ns =
        cop__chance(draw, 80) ? 10 * COP_SEC : cop__between(draw, 20, 20000) * COP_USEC;
    request->outcome = cop__chance(draw, 40);
    if (cop__chance(draw, 25)) {
        char text[64];
        draw_plain_shape(draw, text, sizeof(text));
        if (cop_shape_parse(text, &request->shape, NULL, 0) != 0)
            draw->error = COP_EINVAL;
    }
    cop__draw_add(draw, &probe);
    if (!cop__chance(draw, 8))
        return;
    struct cop_sim_action end = action_at(draw, COP_SIM_ABORT);
    end.a = probe.a;
    end.at = probe.at + cop__below(draw, draw->span / 2 + 1);
    end.request.kind = COP_REQUEST_ABORT;
    end.request.target = token;
    end.request.token = token + 1000;
    cop__draw_add(draw, &end);
}

/* ---- faults ---------------------------------------------------------------------- */

static void draw_crash(struct cop__draw *draw)
{
    struct cop_sim_action crash = action_at(draw, COP_SIM_CRASH);
    uint64_t kind = cop__below(draw, 10);
    if (kind < 2) {
        crash.when = COP_SIM_AFTER_SEND;
        crash.count = cop__between(draw, 1, 12);
    } else if (kind < 4) {
        crash.when = COP_SIM_BEFORE_RECV;
        crash.count = cop__between(draw, 1, 12);
    } else if (kind == 4) { /* a whole switch */
        crash.b = crash.a + (cop_id)cop__between(draw, 1, 3);
        crash.b = crash.b < draw->n ? crash.b : draw->n - 1;
        crash.b = crash.b > crash.a ? crash.b : COP_ID_NONE;
    }
    cop__draw_add(draw, &crash);
}

static void draw_restart(struct cop__draw *draw)
{
    struct cop_sim_action crash = action_at(draw, COP_SIM_CRASH);
    cop__draw_add(draw, &crash);
    struct cop_sim_action restart = crash;
    restart.kind = COP_SIM_RESTART;
    restart.at = crash.at + cop__below(draw, draw->span + 1);
    cop__draw_add(draw, &restart);
}

static void draw_pause(struct cop__draw *draw)
{
    struct cop_sim_action pause = action_at(draw, COP_SIM_PAUSE);
    cop__draw_add(draw, &pause);
    pause.kind = COP_SIM_RESUME;
    pause.at += cop__below(draw, 3 * draw->span);
    if (cop__chance(draw, 80))
        cop__draw_add(draw, &pause);
}

static void draw_slow(struct cop__draw *draw)
{
    struct cop_sim_action slow = action_at(draw, COP_SIM_SLOW);
    slow.amount_ns = cop__between(draw, 1, 500) * COP_USEC;
    cop_id other = any_node(draw);
    if (cop__chance(draw, 50) && other != slow.a) {
        slow.kind = COP_SIM_SLOW_LINK;
        slow.b = other;
    }
    cop__draw_add(draw, &slow);
}

static struct cop_sim_set set_of(cop_id first, cop_id last)
{
    return (struct cop_sim_set){.ranges = {{first, last}}, .count = 1};
}

static void draw_partition(struct cop__draw *draw)
{
    struct cop_sim_action wall = action_at(draw, COP_SIM_PARTITION);
    if (draw->n < 2)
        return;
    cop_id border = (cop_id)cop__between(draw, 1, draw->n - 1);
    wall.left = set_of(0, border - 1);
    wall.right = set_of(border, draw->n - 1);
    if (cop__chance(draw, 50)) {
        struct cop_sim_set left = wall.left;
        wall.left = wall.right;
        wall.right = left;
    }
    wall.one_way = cop__chance(draw, 30);
    cop__draw_add(draw, &wall);
    struct cop_sim_action heal = action_at(draw, COP_SIM_HEAL);
    heal.at =
        wall.at + cop__below(draw, cop__chance(draw, 50) ? draw->span : 5 * COP_SEC);
    if (cop__chance(draw, 80))
        cop__draw_add(draw, &heal);
}

static void draw_break(struct cop__draw *draw)
{
    struct cop_sim_action action = action_at(draw, COP_SIM_BREAK);
    action.b = any_node(draw);
    /* Neighbours in number are often neighbours in the tree. */
    if (cop__chance(draw, 60))
        action.b = action.a / 2;
    if (action.a != action.b)
        cop__draw_add(draw, &action);
}

static void draw_jump(struct cop__draw *draw)
{
    struct cop_sim_action jump = action_at(draw, COP_SIM_JUMP);
    jump.amount_ns = cop__between(draw, 1, 20000) * COP_MSEC;
    cop__draw_add(draw, &jump);
}

static void draw_lie(struct cop__draw *draw)
{
    struct cop_sim_action lie = action_at(draw, COP_SIM_LIE);
    lie.b = cop__chance(draw, 60) ? lie.a / 2 : any_node(draw);
    if (lie.a != lie.b)
        cop__draw_add(draw, &lie);
}

/* ---- coming and going ------------------------------------------------------------ */

static void draw_join(struct cop__draw *draw)
{
    struct cop_sim_action join = action_at(draw, COP_SIM_JOIN);
    join.a = 0;
    join.spare = cop__chance(draw, 30);
    if (draw->joins > 0)
        cop__draw_add(draw, &join);
}

static void draw_leave(struct cop__draw *draw)
{
    struct cop_sim_action leave = action_at(draw, COP_SIM_LEAVE);
    leave.request.kind = COP_REQUEST_LEAVE;
    leave.request.token = 1;
    cop__draw_add(draw, &leave);
}

static void draw_letters(struct cop__draw *draw)
{
    struct cop_sim_action letter = action_at(draw, COP_SIM_SEND);
    uint64_t count = cop__between(draw, 1, 6);
    letter.request.kind = COP_REQUEST_SEND;
    letter.b = any_node(draw);
    for (uint64_t i = 0; i < count && letter.a != letter.b; i++) {
        letter.at += cop__below(draw, draw->span / 4 + 1);
        letter.request.member = letter.b;
        letter.request.token = 10 + draw->letters++;
        cop__draw_add(draw, &letter);
    }
}

static void draw_report(struct cop__draw *draw)
{
    struct cop_sim_action crash = action_at(draw, COP_SIM_CRASH);
    /* Whoever is not dead denies it. */
    if (!cop__chance(draw, 40))
        cop__draw_add(draw, &crash);
    struct cop_sim_action report = action_at(draw, COP_SIM_REPORT);
    report.at = crash.at + cop__below(draw, draw->span / 4 + 1);
    report.b = crash.a;
    report.request.kind = COP_REQUEST_REPORT;
    report.request.member = crash.a;
    if (report.a != report.b)
        cop__draw_add(draw, &report);
}

/* Everybody who ever comes, or comes back, at once or nearly so. */
static void draw_crowd(struct cop__draw *draw)
{
    uint64_t count = cop__between(draw, 2, 4);
    struct cop_sim_action join = action_at(draw, COP_SIM_JOIN);
    join.a = 0;
    for (uint64_t i = 0; i < count && draw->joins > 0; i++)
        cop__draw_add(draw, &join);
}

static void draw_moves(struct cop__draw *draw)
{
    static void (*const kinds[])(struct cop__draw *) = {
        draw_join, draw_leave, draw_restart, draw_report, draw_crowd, draw_letters};
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    bool on[KINDS];
    for (size_t i = 0; i < KINDS; i++)
        on[i] = cop__chance(draw, 35);
    uint64_t count = cop__between(draw, 0, 6);
    for (uint64_t i = 0; i < count; i++) {
        size_t kind = (size_t)cop__below(draw, KINDS);
        if (on[kind])
            kinds[kind](draw);
    }
}

/* Few or many are drained from the start; where views change, others later, and back. */
static void draw_drains(struct cop__draw *draw)
{
    struct cop_sim_set *set = &draw->script->config.drained;
    uint64_t count = cop__between(draw, 0, 3);
    for (uint64_t i = 0; i < count; i++) {
        cop_id first = any_node(draw), last = first;
        if (cop__chance(draw, 30) && first + 1 < draw->n)
            last = (cop_id)cop__between(draw, first, draw->n - 1);
        set->ranges[set->count++] = (struct cop_sim_range){first, last};
    }
    count = draw->flags & COP_SIM_SWARM_VIEWS ? cop__between(draw, count == 0, 4) : 0;
    for (uint64_t i = 0; i < count; i++) {
        struct cop_sim_action drain = action_at(draw, COP_SIM_DRAIN);
        drain.b = any_node(draw);
        drain.request.kind = COP_REQUEST_DRAIN;
        drain.request.member = drain.b;
        drain.request.undo = cop__chance(draw, 40);
        cop__draw_add(draw, &drain);
    }
}

static void draw_faults(struct cop__draw *draw)
{
    static void (*const kinds[])(struct cop__draw *) = {
        draw_crash,     draw_restart, draw_pause, draw_slow,
        draw_partition, draw_break,   draw_jump,  draw_lie,
    };
    enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    bool lies = (draw->flags & COP_SIM_SWARM_LIES) != 0;
    /* Crashes are what this is about: they are in most runs, the others in some. */
    bool on[KINDS] = {cop__chance(draw, 85)};
    for (size_t i = 1; i < KINDS; i++)
        on[i] = cop__chance(draw, 30);
    on[KINDS - 1] = lies && cop__chance(draw, 70);
    uint64_t count = cop__between(draw, 1, 6);
    for (uint64_t i = 0; i < count; i++) {
        size_t kind = (size_t)cop__below(draw, KINDS);
        kind = on[kind] ? kind : 0;
        if (on[kind])
            kinds[kind](draw);
    }
}

/* ---- all of it ------------------------------------------------------------------- */

static int reread(struct cop_sim_script *script)
{
    /* A topology becomes a shape when it is read; reading also proves that what the swarm
     * runs and what a printed script says are the same. */
    char *text = cop_sim_script_print(script);
    if (!text)
        return COP_ENOMEM;
    char message[256];
    struct cop_sim_script again;
    int error = cop_sim_script_parse(text, &again, message, sizeof(message));
    free(text);
    if (error)
        return error;
    cop_sim_script_free(script);
    *script = again;
    return 0;
}

/* Mostly by majority; *has* names a few, near half of them or one. */
static void draw_quorum(struct cop__draw *draw)
{
    struct cop_sim_config *config = &draw->script->config;
    uint64_t kind = cop__below(draw, 20);
    config->quorum = kind < 15   ? COP_QUORUM_MAJORITY
                     : kind < 18 ? COP_QUORUM_NONE
                                 : COP_QUORUM_HAS;
    if (config->quorum != COP_QUORUM_HAS)
        return;
    cop_id first = any_node(draw);
    cop_id last = first + (cop_id)cop__below(draw, draw->n / 2 + 1);
    config->named = set_of(first, last < draw->n ? last : draw->n - 1);
}

/* A small cluster whose views change, with places for those who come. */
static void draw_views(struct cop__draw *draw)
{
    struct cop_sim_script *script = draw->script;
    char text[64];
    char message[200];
    draw->n = (uint32_t)(cop__chance(draw, 80) ? cop__between(draw, 1, 7)
                                               : cop__between(draw, 8, 20));
    if (draw->plots)
        draw->n = (uint32_t)cop__between(draw, cop__chance(draw, 60) ? 4 : 2, 9);
    draw->joins = cop__chance(draw, 60) ? 8 : 0;
    draw_quorum(draw);
    script->config.start = draw->joins ? draw->n : 0;
    script->config.nodes = draw->n + draw->joins;
    draw_plain_shape(draw, text, sizeof(text));
    draw->error = cop_sim_script_shape(script, text, 1, message, sizeof(message));
}

/* How far apart things of which there are so many are, at most. Where detectors look on, and that is
 * as slow as they are, all of them come within the time of the faults. */
static cop_time pace(const struct cop__draw *draw, uint64_t count)
{
    return draw->period ? draw->span / count + 1 : draw->span;
}

/* Agreements all the while: many short ones, or a few that are spread over the faults. */
static void draw_agree(struct cop__draw *draw)
{
    struct cop_sim_agree *agree = &draw->script->config.agree;
    uint32_t wanted = draw->flags >> 8;
    uint32_t any = (uint32_t)cop__below(draw, 10);
    static const enum cop_algorithm often[] = {
        COP_AGREE_EARLY,  COP_AGREE_EARLY,    COP_AGREE_EARLY, COP_AGREE_STRICT,
        COP_AGREE_STRICT, COP_AGREE_TREE,     COP_AGREE_TREE,  COP_AGREE_TREE,
        COP_AGREE_LINEAR, COP_AGREE_ALLREDUCE};
    agree->algorithm =
        wanted ? (enum cop_algorithm)((wanted - 1) % COP_ALGORITHMS) : often[any];
    agree->count = (uint32_t)cop__between(draw, 1, 12);
    agree->window = cop__chance(draw, 50) ? 1 : (uint32_t)cop__between(draw, 2, 4);
    agree->groups = cop__chance(draw, 40) ? (uint32_t)cop__between(draw, 1, 4) : 0;
    agree->gap_ns =
        cop__chance(draw, 70) ? cop__between(draw, 1, pace(draw, agree->count)) : 0;
    agree->timeout_ns =
        cop__chance(draw, 8) ? cop__between(draw, 20, 20000) * COP_USEC : 0;
    agree->keep_tree = cop__chance(draw, 25);
    agree->promote = cop__chance(draw, 30);
    agree->free = cop__chance(draw, 60);
}

/* Single waves, also of a filter that has no others. Of the seed alone: what is drawn after this
 * stays as it is. */
static void draw_single(uint64_t seed, struct cop_sim_stream *stream)
{
    uint64_t word = cop__mix64(seed ^ UINT64_C(0x51e));
    if (word % 5 != 0)
        return;
    stream->flags |= COP_STREAM_SINGLE;
    if (word / 5 % 3 == 0)
        snprintf(stream->filter, sizeof(stream->filter), "concat");
}

/* One that survives nothing. */
static void draw_fragile(uint64_t seed, struct cop_sim_stream *stream)
{
    if (cop__mix64(seed ^ UINT64_C(0xf4a)) % 12 == 0 && stream->sync == COP_SYNC_ALL)
        stream->flags |= COP_STREAM_FRAGILE;
}

/* Filters by level: sums and sets of groups, and what a stage says more of them. */
static void draw_levels(uint64_t seed, struct cop_sim_stream *stream)
{
    static const char *const stages[] = {"sum@1,max",         "sum@2,min@1,max",
                                         "max@1,sum",         "max@1,top(k=3)",
                                         "count@2,sum@1,min", "union@1,classes"};
    uint64_t word = cop__mix64(seed ^ UINT64_C(0x1e7e1));
    if (word % 4 != 0)
        return;
    snprintf(stream->filter, sizeof(stream->filter), "levels");
    snprintf(stream->params, sizeof(stream->params), "%s",
             stages[word / 4 % (sizeof stages / sizeof *stages)]);
}

/* A filter down; then there are packets for it. */
static void draw_down(uint64_t seed, struct cop_sim_stream *stream)
{
    static const char *const filters[][2] = {
        {"scatter", ""}, {"path", ""}, {"select", "to=1-3+6"}};
    uint64_t word = cop__mix64(seed ^ UINT64_C(0xd0a2));
    if (word % 4 != 0)
        return;
    uint64_t which = word / 4 % (sizeof filters / sizeof *filters);
    snprintf(stream->down, sizeof(stream->down), "%s", filters[which][0]);
    snprintf(stream->down_params, sizeof(stream->down_params), "%s", filters[which][1]);
    if (stream->downs == 0)
        stream->downs = 1 + (uint32_t)(word / 12 % 8);
}

/* At which member the front-end is, in two of three: with no more than that knows. */
static void draw_front(uint64_t seed, uint32_t members, struct cop_sim_stream *stream)
{
    uint64_t word = cop__mix64(seed ^ UINT64_C(0xf207));
    if (word % 3 != 0 && members > 0)
        stream->front = 1 + (uint32_t)(word / 3 % members);
}

/* In some, many waves wait for somebody who is slow or away for a while, more than the window has;
 * and somebody dies after that. */
static void draw_many(struct cop__draw *draw)
{
    struct cop_sim_stream *stream = &draw->script->config.stream;
    if (!cop__chance(draw, 12))
        return;
    stream->waves = (uint32_t)cop__between(draw, 30, 80);
    stream->window = (uint32_t)cop__between(draw, 1, 4);
    stream->gap_ns = cop__between(draw, 50, 1000) * COP_USEC;
    cop_time length = stream->waves * stream->gap_ns;
    bool is_slow = cop__chance(draw, 50);
    struct cop_sim_action hold =
        action_at(draw, is_slow ? COP_SIM_SLOW : COP_SIM_PAUSE);
    hold.at = cop__below(draw, length / 2);
    hold.amount_ns = is_slow ? cop__between(draw, 1, 5) * stream->gap_ns : 0;
    cop__draw_add(draw, &hold);
    if (!is_slow) {
        hold.kind = COP_SIM_RESUME;
        hold.at += cop__between(draw, 1, 20) * 20 * COP_MSEC;
        cop__draw_add(draw, &hold);
    }
    struct cop_sim_action crash = action_at(draw, COP_SIM_CRASH);
    crash.at = hold.at + cop__below(draw, length);
    cop__draw_add(draw, &crash);
}

/* A stream all the while, of a filter for which repetition matters, or not. */
static void draw_stream(struct cop__draw *draw)
{
    struct cop_sim_stream *stream = &draw->script->config.stream;
    static const char *const filters[] = {"sum", "sum", "sum", "union", "max"};
    snprintf(stream->filter, sizeof(stream->filter), "%s",
             filters[cop__below(draw, 5)]);
    stream->waves = (uint32_t)cop__between(draw, 1, cop__chance(draw, 70) ? 8 : 30);
    stream->window = (uint32_t)cop__between(draw, 1, cop__chance(draw, 70) ? 4 : 16);
    cop_time most = pace(draw, stream->waves);
    stream->gap_ns = cop__chance(draw, 80) ? cop__between(draw, 1, most) : 0;
    stream->lag_ns = cop__chance(draw, 50) ? cop__between(draw, 1, most) : 0;
    stream->downs = cop__chance(draw, 40) ? (uint32_t)cop__between(draw, 1, 8) : 0;
    if (cop__chance(draw, 20)) {
        stream->sync = COP_SYNC_TIMEOUT;
        stream->timeout_ns = cop__between(draw, 1, most);
    } else if (cop__chance(draw, 15)) {
        stream->sync = COP_SYNC_NONE;
    }
    stream->flags = (cop__chance(draw, 50) ? COP_STREAM_LEAVES : 0) |
                    (cop__chance(draw, 15) ? COP_STREAM_WITHDRAW : 0);
    stream->closes = cop__chance(draw, 10);
    stream->others = cop__chance(draw, 25) ? (uint32_t)cop__between(draw, 1, 3) : 0;
    draw_many(draw);
    draw_single(draw->script->config.seed, stream);
    draw_fragile(draw->script->config.seed, stream);
    draw_levels(draw->script->config.seed, stream);
    draw_down(draw->script->config.seed, stream);
    draw_front(draw->script->config.seed,
               draw->script->config.start ? draw->script->config.start : draw->n,
               stream);
}

/* About views, and nothing that is built on them. */
static bool is_about_members(uint32_t flags)
{
    return (flags & COP_SIM_SWARM_VIEWS) &&
           !(flags & (COP_SIM_SWARM_AGREE | COP_SIM_SWARM_STREAM));
}

int cop_sim_swarm_script(uint64_t seed, uint32_t flags, struct cop_sim_script *out)
{
    struct cop_sim_script script;
    memset(&script, 0, sizeof(script));
    struct cop__draw draw = {.script = &script, .flags = flags};
    cop__random_init(&draw.random, seed);
    bool calls = (flags & COP_SIM_SWARM_COLL) != 0;
    bool views =
        (flags & (COP_SIM_SWARM_VIEWS | COP_SIM_SWARM_AGREE | COP_SIM_SWARM_STREAM)) !=
            0 ||
        (calls && cop__swarm_calls_change_views(seed));
    draw.n = draw_size(&draw);
    script.config.nodes = draw.n;
    script.config.seed = seed;
    script.config.flags = COP_SIM_CHECK | COP_SIM_CODEC;
    script.config.flags |= cop__chance(&draw, 50) ? COP_SIM_CUT : 0;
    script.config.flags |= cop__chance(&draw, 50) ? COP_SIM_BUGGIFY : 0;
    script.liveness = true;
    static const cop_time spans[] = {100 * COP_USEC, COP_MSEC, 20 * COP_MSEC};
    draw.span = spans[cop__below(&draw, 3)];
    bool members = is_about_members(flags);
    if (members || (views && cop__swarm_looks_for_silence(seed)))
        cop__swarm_detectors(&draw, !members);
    draw.plots = views && cop__chance(&draw, 60);
    if (views)
        draw_views(&draw);
    else
        draw_shape(&draw);
    if (!views && cop__chance(&draw, 10) && draw.error == 0)
        draw.error = draw_topology(&draw);
    draw_net(&draw);
    if (draw.plots)
        plain_net(&draw);
    uint64_t probes = views && !calls ? 0 : cop__between(&draw, 1, 5);
    for (uint64_t token = 1; token <= probes; token++)
        draw_probe(&draw, token);
    if (!draw.plots || cop__chance(&draw, 30))
        draw_faults(&draw);
    if (views && (!draw.plots || cop__chance(&draw, 30)))
        draw_moves(&draw);
    if (flags & COP_SIM_SWARM_DRAIN)
        draw_drains(&draw);
    if (draw.period)
        cop__swarm_silence(&draw);
    if (views)
        cop__swarm_history(&draw);
    if (draw.error == 0 && (flags & COP_SIM_SWARM_COLL))
        draw.error = cop__swarm_collectives(&script);
    if (flags & COP_SIM_SWARM_GUARD)
        script.config.guard = (uint32_t)cop__between(&draw, 1, 4);
    if (draw.plots)
        cop__draw_plots(&draw);
    if (flags & COP_SIM_SWARM_AGREE)
        draw_agree(&draw);
    if (flags & COP_SIM_SWARM_STREAM)
        draw_stream(&draw);
    if (draw.error == 0)
        draw.error = reread(&script);
    if (draw.error) {
        cop_sim_script_free(&script);
        return draw.error;
    }
    *out = script;
    return 0;
}
