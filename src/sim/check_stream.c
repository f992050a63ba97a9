/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/check_stream.h"
#include "base/digest.h"
#include "filter/levels.h"

#include <stdlib.h>
#include <string.h>

/*
 * What streams promise, S1 to S3:
 *   S1  an output that is said to be complete is the fold of exactly the first k packets of each
 *       back-end of the view, and of what departed back-ends had given (idempotent filters: it
 *       has all of the former, and nothing that nobody gave); what anybody who lives knows of
 *       the departed is known at the root, and of one that is not in the view it was known
 *       before the first complete output. Of single waves: of exactly their k-th packets
 *   S2  when faults stop and views agree, all back-ends can give all that they have, and the last
 *       output has it; packets down come to each back-end in order, once, and to all (where two
 *       sides have gone on without each other the one front-end has said to one of them what
 *       the other never hears: then only in order); with a filter down, as what that makes of
 *       each for the place that was planned, and to nobody for whom it makes nothing; and all
 *       have one plan of the stream
 *   S3  no more waves wait in a slot, and no more packets are kept, than the window has; and no
 *       back-end is ahead of the front-end by more
 */

/* In larger ones nobody looks for worlds that part. */
#define PARTED_NODES_MAX 4096u

/* One for each stream, by its number. */
struct all {
    struct cop__watched *streams;
    uint32_t count;
};

static struct cop__watched *state_of(const struct all *all, uint64_t number)
{
    return number > 0 && number <= all->count ? &all->streams[number - 1] : NULL;
}

static void fini_one(struct cop__watched *state)
{
    for (uint32_t i = 0; i < state->count; i++) {
        for (uint32_t j = 0; j < state->lives[i].count; j++)
            cop_buf_unref(state->lives[i].states[j]);
        free(state->lives[i].states);
    }
    for (uint32_t i = 0; state->told && i < state->nodes; i++)
        cop_buf_unref(state->told[i].state);
    cop__plans_free(state->plans);
    free(state->lives);
    free(state->latest);
    free(state->told);
    free(state->known);
    free(state->sides);
}

static void fini(void *of)
{
    struct all *all = of;
    for (uint32_t i = 0; i < all->count; i++)
        fini_one(&all->streams[i]);
    free(all->streams);
    free(all);
}

static bool init_one(struct cop_sim *sim, struct cop__watched *state)
{
    state->nodes = sim->config.nodes;
    state->told = calloc(state->nodes, sizeof(*state->told));
    state->filter = cop_filter_find(sim->config.stream.filter);
    state->known = calloc(state->nodes, sizeof(*state->known));
    state->sides = calloc(state->nodes, sizeof(*state->sides));
    state->latest = calloc(state->nodes, sizeof(*state->latest));
    return state->told && state->known && state->sides && state->latest &&
           state->filter;
}

static void *init(struct cop_sim *sim)
{
    struct all *all = calloc(1, sizeof(*all));
    if (!all)
        return NULL;
    all->streams = calloc(1 + sim->config.stream.others, sizeof(*all->streams));
    bool good = all->streams != NULL;
    while (good && all->count <= sim->config.stream.others) {
        struct cop__watched *state = &all->streams[all->count++];
        state->number = all->count;
        good = init_one(sim, state);
    }
    if (good)
        return all;
    fini(all);
    return NULL;
}

/* ---- what was given -------------------------------------------------------------- */

static struct cop__life *find(const struct cop__watched *state, cop_id id,
                              cop_incarnation life)
{
    uint32_t at = id < state->nodes ? state->latest[id] : 0;
    while (at > 0 && state->lives[at - 1].incarnation != life)
        at = state->lives[at - 1].before;
    return at > 0 ? &state->lives[at - 1] : NULL;
}

static void *make_room(struct cop_sim *sim, void *items, uint32_t count,
                       uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    uint32_t more = *capacity ? 2 * *capacity : 8;
    void *grown = realloc(items, more * size);
    if (!grown) {
        cop_sim_fail(sim, "sim", "out of memory");
        return NULL;
    }
    *capacity = more;
    return grown;
}

static void join(struct cop_sim *sim, const struct cop__watched *state,
                 struct cop_buf **sum, struct cop_buf *with)
{
    struct cop_buf *joined;
    if (cop_filter_join(state->filter, *sum, with, &joined) != 0) {
        cop_sim_fail(sim, "sim", "the filter cannot join");
        return;
    }
    cop_buf_unref(*sum);
    *sum = joined;
}

static void note_life(struct cop__watched *state, struct cop_sim *sim, cop_id id)
{
    cop_incarnation incarnation = cop__sim_incarnation(sim, id);
    if (find(state, id, incarnation))
        return;
    void *lives = make_room(sim, state->lives, state->count, &state->capacity,
                            sizeof(*state->lives));
    if (!lives)
        return;
    state->lives = lives;
    state->lives[state->count++] = (struct cop__life){
        .id = id, .incarnation = incarnation, .before = state->latest[id]};
    state->latest[id] = state->count;
}

/* By what a node has the stream; NULL: it has not. */
static struct cop__plan *plan_of(struct cop__watched *state, struct cop_sim *sim,
                                 cop_id id)
{
    int error;
    struct cop__plan *plan =
        cop__plan_of(&state->plans, cop_sim_node(sim, id), state->number, &error);
    if (error)
        cop_sim_fail(sim, "sim", "out of memory");
    return plan;
}

/* T1: what it gave to another stream of the number, which was not to be, is in nothing. */
static void begin_anew(struct cop__life *life, const struct cop__plan *plan)
{
    if (life->plan == plan)
        return;
    for (uint32_t i = 0; i < life->count; i++)
        cop_buf_unref(life->states[i]);
    life->count = 0;
    life->first = life->down = life->shown = 0;
    life->plan = plan;
}

static void note_packet(struct cop__watched *state, struct cop_sim *sim, cop_id id,
                        const struct cop_request *request)
{
    struct cop__life *life = find(state, id, cop__sim_incarnation(sim, id));
    struct cop_stream_info info;
    struct cop__plan *plan = plan_of(state, sim, id);
    if (!life || !plan ||
        cop_node_stream(cop_sim_node(sim, id), state->number, &info) != 0)
        return;
    if (request->key != 0 && request->key != info.key)
        cop_sim_fail(sim, "S2",
                     "what %u gave to another stream %llu is taken by this one",
                     (unsigned)id, (unsigned long long)state->number);
    begin_anew(life, plan);
    struct cop_packet packet = {.type = "u64",
                                .leaf = id,
                                .wave = info.given,
                                .data = {request->bytes, request->length}};
    bool joins = life->count > 0 && !cop__watched_is_single(sim);
    struct cop_buf *sum =
        cop_buf_ref(joins ? life->states[life->count - 1] : plan->empty);
    struct cop_buf *lifted;
    void *states = make_room(sim, life->states, life->count, &life->capacity,
                             sizeof(struct cop_buf *));
    if (states)
        life->states = states;
    if (!states || cop_filter_lift(state->filter, plan->empty, &packet, &lifted)) {
        cop_buf_unref(sum);
        return;
    }
    join(sim, state, &sum, lifted);
    join(sim, state, &plan->all, lifted);
    cop_buf_unref(lifted);
    life->first = life->count ? life->first : info.given;
    life->states[life->count++] = sum;
}

static void on_submit(void *of, struct cop_sim *sim, cop_id id,
                      const struct cop_request *request, int status)
{
    struct cop__watched *state = state_of(of, request->group);
    if (request->token != COP__STREAM_TOKEN || status != 0 || !state)
        return;
    if (request->kind == COP_REQUEST_STREAM_CLOSE)
        state->closed = true;
    if (request->kind == COP_REQUEST_STREAM_OPEN && !state->opened) {
        state->opened = true;
        state->opened_in = cop_view_epoch(cop_node_view(cop_sim_node(sim, id)));
    }
    if (request->kind == COP_REQUEST_STREAM_PUT)
        note_packet(state, sim, id, request);
    else if (request->kind == COP_REQUEST_STREAM_TAKEN && request->wave > state->taken)
        state->taken = request->wave;
}

/* All that a life gave up to a wave; NULL: it has not given that much. */
static struct cop_buf *given(const struct cop__plan *plan, const struct cop__life *life,
                             uint64_t wave)
{
    if (life->plan != plan || life->count == 0 || wave < life->first)
        return plan->empty;
    uint64_t at = wave - life->first;
    return at < life->count ? life->states[at] : NULL;
}

/* ---- S1 -------------------------------------------------------------------------- */

static bool is_equal(const struct cop_buf *a, const struct cop_buf *b)
{
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

/* Whether `more` has all that `less` has; of idempotent filters only. */
static bool has_all(struct cop_sim *sim, const struct cop__watched *state,
                    struct cop_buf *more, struct cop_buf *less)
{
    struct cop_buf *both = cop_buf_ref(more);
    join(sim, state, &both, less);
    bool same = is_equal(both, more);
    cop_buf_unref(both);
    return same;
}

static bool is_back_end(const struct cop_sim *sim, const struct cop__life *life,
                        const struct cop__plan *plan)
{
    return !(sim->config.stream.flags & COP_STREAM_LEAVES) ||
           (life && (life->opened == plan || !plan));
}

/* The living, each with its packets up to the wave. */
static struct cop_buf *fold_living(struct cop__watched *state, struct cop_sim *sim,
                                   const struct cop__plan *plan,
                                   const struct cop_view *view, uint64_t wave)
{
    struct cop_buf *sum = cop_buf_ref(plan->empty);
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id)) {
        const struct cop__life *life = find(state, id, cop_view_incarnation(view, id));
        struct cop_buf *gave = life ? given(plan, life, wave) : NULL;
        if (!is_back_end(sim, life, plan))
            continue;
        if (!gave) {
            cop_sim_fail(sim, "S1",
                         "wave %llu is said to be complete, and %u has not given it",
                         (unsigned long long)wave, (unsigned)id);
            break;
        }
        join(sim, state, &sum, gave);
    }
    return sum;
}

static uint32_t add_departed(struct cop__watched *state, struct cop_sim *sim,
                             cop_id root, const struct cop__plan *plan,
                             struct cop_buf **sum)
{
    const struct cop_view *view = cop_node_view(cop_sim_node(sim, root));
    const struct cop_node *node = cop_sim_node(sim, root);
    struct cop_departed gone;
    uint32_t count = 0;
    for (uint32_t i = 0; cop_node_departed(node, state->number, i, &gone) == 0; i++) {
        const struct cop__life *life = find(state, gone.leaf, gone.incarnation);
        struct cop_buf *gave = life ? given(plan, life, gone.wave) : NULL;
        if (!gave || !is_equal(gave, gone.state)) {
            cop_sim_fail(sim, "S1", "%u departed with what it had not given",
                         (unsigned)gone.leaf);
            return count;
        }
        if (cop_view_has(view, gone.leaf, gone.incarnation))
            continue;
        join(sim, state, sum, gave);
        count++;
    }
    return count;
}

/* Where and when groups were closed must not be seen: all that was given, and then all of them. */
static void close_all(const struct cop__watched *state, struct cop_sim *sim,
                      struct cop_buf **sum)
{
    struct cop_buf *closed;
    if (!cop__filter_is_levels(state->filter))
        return;
    if (cop__levels_close(*sum, NULL, NULL, &closed) != 0) {
        cop_sim_fail(sim, "sim", "the groups cannot be closed");
        return;
    }
    cop_buf_unref(*sum);
    *sum = closed;
}

static void check_output(struct cop__watched *state, struct cop_sim *sim, cop_id id,
                         const struct cop_stream_event *event)
{
    const struct cop_view *view = cop_node_view(cop_sim_node(sim, id));
    const struct cop__plan *plan = state->told[id].plan;
    struct cop_buf *said = state->told[id].state;
    struct cop_buf *sum = fold_living(state, sim, plan, view, event->wave);
    /* Of several outputs in one step only the last can be held against what is known now. */
    bool same = add_departed(state, sim, id, plan, &sum) == event->departed;
    close_all(state, sim, &sum);
    if (cop__watched_is_single(sim) && (event->departed > 0 || !event->whole))
        cop_sim_fail(sim, "S1", "single wave %llu has something of others",
                     (unsigned long long)event->wave);
    if (cop__watched_is_idempotent(state) && !cop__watched_is_single(sim)) {
        if (!has_all(sim, state, said, sum) || !has_all(sim, state, plan->all, said))
            cop_sim_fail(sim, "S1",
                         "complete wave %llu lacks something, or has too much",
                         (unsigned long long)event->wave);
    } else if (same && !is_equal(said, sum)) {
        cop_sim_fail(sim, "S1", "complete wave %llu is not what back-ends gave",
                     (unsigned long long)event->wave);
    }
    cop_buf_unref(sum);
}

static void on_output(struct cop__watched *state, struct cop_sim *sim, cop_id id,
                      const struct cop_stream_event *event)
{
    struct cop__told *told = &state->told[id];
    const struct cop__plan *plan = plan_of(state, sim, id);
    struct cop_buf *bytes = cop_buf_copy(event->bytes, event->length);
    if (!bytes) {
        cop_sim_fail(sim, "sim", "out of memory");
        return;
    }
    /* In the step that ends it, too: it is another one, or there is none, by now. */
    if (!plan || (told->plan && told->plan != plan))
        told->incarnation = 0;
    if (!plan) {
        cop_buf_unref(bytes);
        return;
    }
    told->plan = plan;
    if (!event->whole && (told->incarnation != cop__sim_incarnation(sim, id)))
        cop_sim_fail(sim, "S1", "the first output of %u is a difference", (unsigned)id);
    /* Idempotent filters join, and never drop. */
    if (event->whole && cop__watched_is_idempotent(state) &&
        !cop__watched_is_single(sim) && told->state &&
        told->incarnation == cop__sim_incarnation(sim, id) &&
        !has_all(sim, state, bytes, told->state))
        cop_sim_fail(sim, "S1", "what wave %llu had is not in wave %llu any more",
                     (unsigned long long)told->wave, (unsigned long long)event->wave);
    if (event->whole || !told->state) {
        cop_buf_unref(told->state);
        told->state = cop_buf_ref(bytes);
    } else {
        join(sim, state, &told->state, bytes);
    }
    cop_buf_unref(bytes);
    told->incarnation = cop__sim_incarnation(sim, id);
    told->wave = event->wave;
    told->complete = event->complete;
    sim->outputs++;
    sim->complete += event->complete;
    if (!event->complete)
        sim->healed = 0;
    else if (sim->healed == 0)
        sim->healed = sim->now;
    if (event->complete) {
        check_output(state, sim, id, event);
        cop__check_lost(state, sim, cop_node_view(cop_sim_node(sim, id)));
        cop__check_late(state, sim, id, plan);
        cop__note_shown(state, sim, id, event->wave);
    }
}

/* What only the first front-end and a root had is lost with both, and the next goes on behind what
 * it finds. */
static bool was_taken_over(const struct cop_sim *sim)
{
    uint32_t front = sim->config.stream.front;
    return front && (!cop_sim_is_alive(sim, front - 1) ||
                     cop__sim_incarnation(sim, front - 1) != COP__FIRST_INCARNATION);
}

static void on_down(struct cop__watched *state, struct cop_sim *sim, cop_id id,
                    const struct cop_stream_event *event)
{
    struct cop__life *life = find(state, id, cop__sim_incarnation(sim, id));
    const struct cop__plan *plan = plan_of(state, sim, id);
    uint64_t value = cop__stream_value(state->number, 0, 0, event->wave);
    if (life && plan)
        begin_anew(life, plan);
    struct cop_span sent = {(const uint8_t *)&value, sizeof value};
    bool gap = life && life->down && event->wave != life->down + 1;
    bool may_skip = state->parted || was_taken_over(sim);
    if (!life || (gap && (!may_skip || event->wave <= life->down)))
        cop_sim_fail(sim, "S2", "%u gets packet %llu after %llu", (unsigned)id,
                     (unsigned long long)event->wave,
                     (unsigned long long)(life ? life->down : 0));
    else if (plan && !cop__plan_gives(plan, &sim->config.stream, id, sent, event))
        cop_sim_fail(sim, "S2", "%u gets another packet %llu than was sent",
                     (unsigned)id, (unsigned long long)event->wave);
    else
        life->down = event->wave;
}

/* T1: who was a back-end by another plan, where leaves give, may be none by the one that stays;
 * who has no plan at all any more was. */
static void note_opened(struct cop__watched *state, struct cop_sim *sim, cop_id id,
                        bool opened)
{
    const struct cop__plan *plan = plan_of(state, sim, id);
    if (opened)
        note_life(state, sim, id);
    struct cop__life *life = find(state, id, cop__sim_incarnation(sim, id));
    if (life && (opened || plan))
        life->opened = opened ? plan : NULL;
}

static void on_stream(void *of, struct cop_sim *sim, cop_id id, uint64_t number,
                      const struct cop_stream_event *event)
{
    struct cop__watched *state = state_of(of, number);
    if (!state)
        cop_sim_fail(sim, "S2", "%u hears of a stream that nobody opened",
                     (unsigned)id);
    else if (event->kind == COP_STREAM_OPENED || event->kind == COP_STREAM_CLOSED)
        note_opened(state, sim, id, event->kind == COP_STREAM_OPENED);
    else if (event->kind == COP_STREAM_OUTPUT)
        on_output(state, sim, id, event);
    else if (event->kind == COP_STREAM_DOWN)
        on_down(state, sim, id, event);
}

/* ---- worlds that part ------------------------------------------------------------ */

static struct cop__world_side *side_of(struct cop__watched *state, struct cop_sim *sim,
                                       cop_id id, cop_epoch epoch)
{
    struct cop__world_side *side = &state->sides[id];
    cop_incarnation life = cop__sim_incarnation(sim, id);
    if (side->incarnation != life)
        *side = (struct cop__world_side){.incarnation = life, .first = epoch};
    return side;
}

static void see_view(struct cop__watched *state, struct cop_sim *sim, cop_id id,
                     const struct cop_view *view)
{
    cop_epoch epoch = cop_view_epoch(view);
    const struct cop__world_side *mine = side_of(state, sim, id, epoch);
    if (mine->excluded &&
        (epoch >= mine->excluded || !cop_view_has(view, mine->by, mine->by_life)))
        state->parted = true;
    for (cop_id other = 0; other < state->nodes; other++) {
        const struct cop_node *node = cop_sim_node(sim, other);
        if (!node || !cop_sim_is_alive(sim, other) || !cop_node_is_member(node))
            continue;
        struct cop__world_side *its =
            side_of(state, sim, other, cop_view_epoch(cop_node_view(node)));
        if (!cop_view_has(view, other, its->incarnation) && epoch > its->first &&
            (!its->excluded || epoch < its->excluded)) {
            its->excluded = epoch;
            its->by = id;
            its->by_life = mine->incarnation;
        }
    }
}

static void on_view(void *of, struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    struct all *all = of;
    /* Each looks at all others; and so large worlds are not parted by scripts. */
    for (uint32_t i = 0; i < all->count && sim->config.nodes <= PARTED_NODES_MAX; i++)
        see_view(&all->streams[i], sim, id, view);
}

/* ---- S3 -------------------------------------------------------------------------- */

/* S1: the departed are never dropped. */
static void check_memory(struct cop__watched *state, struct cop_sim *sim, cop_id id,
                         const struct cop_stream_info *info)
{
    struct cop__known *known = &state->known[id];
    cop_incarnation life = cop__sim_incarnation(sim, id);
    if (known->incarnation == life && known->key == info->key &&
        info->departed < known->count)
        cop_sim_fail(sim, "S1", "%u has forgotten who departed", (unsigned)id);
    *known = (struct cop__known){life, info->key, info->departed};
}

static void look_at(struct cop__watched *state, struct cop_sim *sim, cop_id id)
{
    const struct cop_node *node = cop_sim_node(sim, id);
    struct cop_stream_info info;
    if (!node || cop_node_stream(node, state->number, &info) != 0)
        return;
    check_memory(state, sim, id, &info);
    if (info.queued > info.window)
        cop_sim_fail(sim, "S3", "%u waves wait at %u", (unsigned)info.queued,
                     (unsigned)id);
    if (info.kept > info.window)
        cop_sim_fail(sim, "S3", "%u keeps %u packets", (unsigned)id,
                     (unsigned)info.kept);
    if (info.given > state->taken + info.window)
        cop_sim_fail(sim, "S3", "%u has given %llu packets, and %llu were taken",
                     (unsigned)id, (unsigned long long)info.given,
                     (unsigned long long)state->taken);
}

static void after_step(void *of, struct cop_sim *sim, cop_id id)
{
    struct all *all = of;
    for (uint32_t i = 0; i < all->count; i++)
        look_at(&all->streams[i], sim, id);
}

/* ---- in the end ------------------------------------------------------------------ */

/* The view that all who live have, with exactly them; NULL: there is none. */
static const struct cop_view *settled_view(const struct cop_sim *sim)
{
    const struct cop_view *one = NULL;
    uint32_t alive = 0;
    for (cop_id id = 0; id < sim->config.nodes; id++) {
        const struct cop_node *node = cop_sim_node(sim, id);
        if (!node || !cop_sim_is_alive(sim, id))
            continue;
        const struct cop_view *view = cop_node_view(node);
        struct cop_ballot mine = cop_view_ballot(view);
        struct cop_ballot other = cop_view_ballot(one ? one : view);
        if (cop_ballot_compare(&mine, &other) != 0 ||
            !cop_view_has(view, id, cop__sim_incarnation(sim, id)))
            return NULL;
        one = view;
        alive++;
    }
    return one && cop_view_size(one) == alive ? one : NULL;
}

/* S2: everybody has given all of it, and has got all that came down. */
static void check_back_end(const struct cop__watched *state, struct cop_sim *sim,
                           const struct cop__life *life, uint64_t down)
{
    struct cop_stream_info info;
    if (cop_node_stream(cop_sim_node(sim, life->id), state->number, &info) != 0)
        cop_sim_fail(sim, "S2", "%u does not know the stream any more",
                     (unsigned)life->id);
    else if (info.given < sim->config.stream.waves)
        cop_sim_fail(sim, "S2", "%u has given %llu packets of %u", (unsigned)life->id,
                     (unsigned long long)info.given,
                     (unsigned)sim->config.stream.waves);
    else if (was_taken_over(sim))
        return; /* of packets down the order counts */
    else if (life->down && life->down != info.down && !state->parted)
        cop_sim_fail(sim, "S2", "%u has packets up to %llu, and was given %llu",
                     (unsigned)life->id, (unsigned long long)info.down,
                     (unsigned long long)life->down);
    else if (info.down != down)
        cop_sim_fail(sim, "S2", "%u has packets up to %llu, and the root up to %llu",
                     (unsigned)life->id, (unsigned long long)info.down,
                     (unsigned long long)down);
}

/* S1: who is departed for somebody who lives is departed at the root, or lives. */
static void check_departed(const struct cop__watched *state, struct cop_sim *sim,
                           cop_id id, const struct cop_node *root)
{
    struct cop_departed mine, its;
    const struct cop_node *node = cop_sim_node(sim, id);
    for (uint32_t i = 0; cop_node_departed(node, state->number, i, &mine) == 0; i++) {
        bool found = cop_view_has(cop_node_view(root), mine.leaf, mine.incarnation);
        for (uint32_t j = 0;
             !found && cop_node_departed(root, state->number, j, &its) == 0; j++)
            found = its.leaf == mine.leaf && its.incarnation == mine.incarnation &&
                    its.wave >= mine.wave;
        if (!found)
            cop_sim_fail(sim, "S1", "%u knows what %u departed with, and the root not",
                         (unsigned)id, (unsigned)mine.leaf);
    }
}

/* S2: one that is closed is closed everywhere. */
static void check_closed(const struct cop__watched *state, struct cop_sim *sim,
                         const struct cop_view *view)
{
    struct cop_stream_info info;
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id))
        if (cop_node_stream(cop_sim_node(sim, id), state->number, &info) == 0)
            cop_sim_fail(sim, "S2", "stream %u is closed, and is there at %u",
                         (unsigned)state->number, (unsigned)id);
}

/* S2: a fragile one is over with its view; or before, if somebody seemed to be lost. */
static bool is_broken(const struct cop__watched *state, const struct cop_sim *sim,
                      const struct cop_view *view)
{
    struct cop_stream_info info;
    bool there = cop_node_stream(cop_sim_node(sim, cop_view_root(view)), state->number,
                                 &info) == 0;
    return sim->config.stream.flags & COP_STREAM_FRAGILE &&
           (!state->opened || cop_view_epoch(view) != state->opened_in ||
            (!there && (cop_sim_was_disturbed(sim) || cop_sim_was_lied_to(sim))));
}

static void check_end(struct cop__watched *state, struct cop_sim *sim,
                      const struct cop_view *view)
{
    struct cop_stream_info info;
    bool is_left =
        sim->config.stream.mortal &&
        !cop_view_has(view, cop_view_root(sim->view), COP__FIRST_INCARNATION);
    if (state->closed || is_left || is_broken(state, sim, view)) {
        check_closed(state, sim, view);
        return;
    }
    cop_id root = cop_view_root(view);
    const struct cop_node *node = cop_sim_node(sim, root);
    const struct cop__told *told = &state->told[root];
    if (cop_node_stream(node, state->number, &info) != 0) {
        cop_sim_fail(sim, "S2", "the root does not know the stream");
        return;
    }
    bool any = false;
    const struct cop__plan *plan = plan_of(state, sim, root);
    for (cop_id id = cop_view_next(view, COP_ID_NONE);
         id != COP_ID_NONE && !cop_sim_failure(sim); id = cop_view_next(view, id)) {
        const struct cop__life *life = find(state, id, cop_view_incarnation(view, id));
        if (!life && !(sim->config.stream.flags & COP_STREAM_LEAVES))
            cop_sim_fail(sim, "S2", "%u never heard of the stream", (unsigned)id);
        if (life && is_back_end(sim, life, plan))
            check_back_end(state, sim, life, info.down);
        const struct cop__plan *its = plan_of(state, sim, id);
        if (its && its != plan)
            cop_sim_fail(sim, "S2", "%u has another plan of the stream than the root",
                         (unsigned)id);
        any = any || life;
        check_departed(state, sim, id, node);
    }
    if (cop_sim_failure(sim))
        return;
    if (told->incarnation != cop__sim_incarnation(sim, root) || !told->complete ||
        (any && told->wave != sim->config.stream.waves))
        cop_sim_fail(sim, "S2", "the last output of %u is wave %llu of %u, %s",
                     (unsigned)root, (unsigned long long)told->wave,
                     (unsigned)sim->config.stream.waves,
                     told->complete ? "complete" : "not complete");
    else
        cop__check_lost(state, sim, view);
}

static void at_quiescence(void *of, struct cop_sim *sim)
{
    struct all *all = of;
    const struct cop_view *view = settled_view(sim);
    for (uint32_t i = 0; i < all->count && cop_sim_is_settled(sim) && view; i++)
        if (!cop_sim_failure(sim))
            check_end(&all->streams[i], sim, view);
}

static void digest_one(const struct cop__watched *state, struct cop__digest *digest)
{
    cop__digest_word(digest,
                     state->taken << 2 | (uint64_t)state->closed << 1 | state->opened);
    uint64_t lives = 0; /* in whatever order they came */
    for (uint32_t i = 0; i < state->count; i++) {
        struct cop__digest one;
        cop__digest_init(&one);
        cop__digest_word(&one, state->lives[i].id);
        cop__digest_word(&one, state->lives[i].incarnation);
        cop__digest_word(&one, state->lives[i].count);
        cop__digest_word(&one, state->lives[i].down);
        lives += cop__digest_value(&one);
    }
    cop__digest_word(digest, lives);
    cop__digest_word(digest, state->parted);
    for (uint32_t i = 0; i < state->nodes; i++)
        cop__digest_word(digest, state->sides[i].excluded);
    for (uint32_t i = 0; i < state->nodes; i++) {
        const struct cop__told *told = &state->told[i];
        cop__digest_word(digest, told->wave << 1 | told->complete);
        if (told->state)
            cop__digest_bytes(digest, told->state->data, told->state->length);
    }
}

static uint64_t digest_state(const void *of)
{
    const struct all *all = of;
    struct cop__digest digest;
    cop__digest_init(&digest);
    for (uint32_t i = 0; i < all->count; i++)
        digest_one(&all->streams[i], &digest);
    return cop__digest_value(&digest);
}

const struct cop_sim_checker *cop_sim_checker_stream(void)
{
    static const struct cop_sim_checker checker = {
        .name = "stream",
        .init = init,
        .on_submit = on_submit,
        .after_step = after_step,
        .on_stream = on_stream,
        .on_view = on_view,
        .at_quiescence = at_quiescence,
        .fini = fini,
        .digest = digest_state,
    };
    return &checker;
}
