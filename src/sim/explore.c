/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/explore.h"

#include <coppice/filter.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Breadth first over all that can happen, by deterministic replay from the start: a state
 * is stored as its key and the move that first led to it, and made again by following those
 * moves. A state that was seen is not expanded again.
 *
 * Reduction by sleep sets. Two moves at different nodes commute: each changes its node,
 * takes from ways towards it and appends to ways from it. Having tried t and then u at a
 * state, the order u, t leads where t, u led; so t sleeps in the state behind u, until a move
 * at the same node wakes it. Calls of agreements are such moves, too. Submissions, ticks, crashes
 * and lies change what all share (time, budgets, who can be reached): they sleep nowhere and wake
 * everybody. So do steps that have to do with the front-end of a stream.
 *
 * Together with stored states, sleep sets are only sound under this rule: a state keeps the
 * set with which it was expanded; when it is reached again with a smaller set, the moves in
 * the difference are tried after all, and the intersection is kept (Godefroid, 1996, section
 * 5.3). Sleep sets save moves, never states: the number of states is the same without them,
 * and a test holds us to that.
 */

/* Moves of a state that are to be tried. */
struct job {
    uint32_t state;
    bool all;                /* first visit: everything that does not sleep */
    struct cop__moves only;  /* later visit: these */
    struct cop__moves sleep; /* as it was when the job was made */
};

struct search {
    const struct cop_sim_explore *config;
    struct cop__states states;
    struct job *jobs;
    uint64_t job_first, job_count, job_capacity;
    struct cop__move *path; /* from the start to the state in hand */
    uint32_t path_length, path_capacity;
    struct cop__world *ready; /* a world in that state, for the first who needs one */
    struct cop_sim_explored *out;
    bool stopped, bounded;
    bool touched; /* by the last move: what all share */
    int error;
};

/* ---- jobs ------------------------------------------------------------------------ */

static void add_job(struct search *search, const struct job *job)
{
    if (search->job_first + search->job_count == search->job_capacity) {
        uint64_t capacity = search->job_capacity;
        if (search->job_first > capacity / 2) {
            memmove(search->jobs, search->jobs + search->job_first,
                    search->job_count * sizeof(*search->jobs));
            search->job_first = 0;
        } else {
            capacity = capacity ? 2 * capacity : 1024;
            struct job *jobs = realloc(search->jobs, capacity * sizeof(*jobs));
            if (!jobs) {
                search->error = COP_ENOMEM;
                return;
            }
            search->jobs = jobs;
            search->job_capacity = capacity;
        }
    }
    search->jobs[search->job_first + search->job_count++] = *job;
}

static uint64_t memory(const struct search *search)
{
    return cop__states_bytes(&search->states) +
           search->job_capacity * sizeof(*search->jobs);
}

/* ---- replay ---------------------------------------------------------------------- */

static bool find_path(struct search *search, uint32_t state)
{
    uint32_t length = search->states.items[state].depth;
    if (length + 1 > search->path_capacity) {
        struct cop__move *path =
            realloc(search->path, 2 * (length + 1) * sizeof(*path));
        if (!path) {
            search->error = COP_ENOMEM;
            return false;
        }
        search->path = path;
        search->path_capacity = 2 * (length + 1);
    }
    search->path_length = length;
    while (length > 0) {
        search->path[--length] = search->states.items[state].move;
        state = search->states.items[state].parent;
    }
    return true;
}

/* A world in the state that search->path leads to. All on the way there was judged when it
 * was first tried. */
static struct cop__world *replay(struct search *search)
{
    struct cop__world *world = search->ready;
    search->ready = NULL;
    if (world)
        return world;
    search->error = cop__world_create(search->config, &world);
    if (search->error)
        return NULL;
    world->sim.again = true;
    for (uint32_t i = 0; i < search->path_length; i++)
        cop__world_apply(world, search->path[i]);
    world->sim.again = false;
    return world;
}

static void leave(struct search *search, struct cop__world *world)
{
    if (!world)
        return;
    search->out->steps += world->steps;
    cop__world_destroy(world);
}

/* ---- failing --------------------------------------------------------------------- */

/* Writes down the schedule: the path, and `last` if there is one. */
static void describe(struct search *search, const struct cop__move *last)
{
    size_t length = 0;
    struct cop__world *world;
    FILE *out = open_memstream(&search->out->schedule, &length);
    if (!out || cop__world_create(search->config, &world) != 0) {
        search->error = COP_ENOMEM;
        if (out)
            fclose(out);
        return;
    }
    for (uint32_t i = 0; i < search->path_length + (last ? 1 : 0); i++) {
        char line[512];
        struct cop__move move = i < search->path_length ? search->path[i] : *last;
        cop__world_print_move(world, move, line, sizeof(line));
        fprintf(out, "%3u. %s\n", (unsigned)i + 1, line);
        cop__world_apply(world, move);
    }
    cop__world_destroy(world);
    if (fclose(out) != 0)
        search->error = COP_ENOMEM;
}

static void found(struct search *search, const struct cop__world *world,
                  const struct cop__move *last)
{
    snprintf(search->out->failure, sizeof(search->out->failure), "%s",
             world->sim.failure);
    describe(search, last);
    search->stopped = true;
}

/* ---- expanding ------------------------------------------------------------------- */

static bool can_sleep(struct cop__move move)
{
    return (move.kind == COP__MOVE_RECV || move.kind == COP__MOVE_CLOSED ||
            move.kind == COP__MOVE_AGREE) &&
           move.cut == COP__MOVE_WHOLE;
}

static void visit(struct search *search, const struct cop__world *world,
                  uint32_t parent, struct cop__move move, struct cop__moves sleep)
{
    uint64_t key[2];
    bool fresh;
    cop__world_digest(world, key);
    uint32_t index = cop__states_get(&search->states, key, &fresh);
    if (index == COP__NO_STATE) {
        search->error = COP_ENOMEM;
        return;
    }
    struct cop__state *state = &search->states.items[index];
    if (fresh) {
        state->parent = parent;
        state->move = move;
        state->sleep = sleep;
        state->depth = search->states.items[parent].depth + 1;
        if (state->depth > search->out->depth)
            search->out->depth = state->depth;
        add_job(search, &(struct job){index, true, {{0, 0}}, sleep});
        return;
    }
    struct cop__moves missed = {
        {state->sleep.bits[0] & ~sleep.bits[0], state->sleep.bits[1] & ~sleep.bits[1]}};
    if ((missed.bits[0] | missed.bits[1]) == 0)
        return;
    state->sleep.bits[0] &= sleep.bits[0];
    state->sleep.bits[1] &= sleep.bits[1];
    add_job(search, &(struct job){index, false, missed, state->sleep});
}

/* Tries one move. Returns how many frames its step sent. */
static uint32_t try_move(struct search *search, uint32_t state, struct cop__move move,
                         struct cop__moves sleep)
{
    struct cop__world *world = replay(search);
    if (!world)
        return 0;
    struct cop__moves behind = {{0, 0}};
    if (can_sleep(move))
        behind = cop__moves_elsewhere(&sleep, search->config->nodes, move.a);
    cop__world_apply(world, move);
    search->out->transitions++;
    uint32_t sends = world->sends;
    search->touched = world->touched;
    if (world->touched)
        behind = (struct cop__moves){{0, 0}};
    if (world->sim.failure[0])
        found(search, world, &move);
    else
        visit(search, world, state, move, behind);
    leave(search, world);
    return sends;
}

/* The crash of a node in the middle of this step, after each of its sends but the last:
 * after the last is the same as a crash behind the step, before the first as one before. */
static void try_cuts(struct search *search, uint32_t state, struct cop__move move,
                     uint32_t sends)
{
    for (uint8_t cut = 1; cut < sends && !search->stopped && !search->error; cut++) {
        move.cut = cut;
        try_move(search, state, move, (struct cop__moves){{0, 0}});
    }
}

/* What can happen in the state in hand; also judges states in which nothing can. */
static uint32_t list_moves(struct search *search,
                           struct cop__move moves[COP__MOVES_MAX], bool *crashes)
{
    struct cop__world *world = replay(search);
    if (!world)
        return 0;
    uint32_t count = cop__world_moves(world, moves);
    uint32_t faults = 0;
    for (uint32_t i = 0; i < count; i++)
        faults += moves[i].kind == COP__MOVE_CRASH || moves[i].kind == COP__MOVE_LIE;
    *crashes = world->crashes > 0;
    if (count == faults) {
        search->out->terminals++;
        cop_sim_quiescence(&world->sim);
        if (world->sim.failure[0])
            found(search, world, NULL);
        leave(search, world); /* the checkers have closed their books */
    } else {
        search->ready = world;
    }
    return count;
}

static void expand(struct search *search, const struct job *job)
{
    struct cop__move moves[COP__MOVES_MAX];
    struct cop__moves sleep = job->sleep;
    uint32_t n = search->config->nodes;
    bool crashes = false;
    if (!find_path(search, job->state))
        return;
    uint32_t count = list_moves(search, moves, &crashes);
    for (uint32_t i = 0; i < count && !search->stopped && !search->error; i++) {
        bool sleeper = can_sleep(moves[i]);
        if (!job->all && (!sleeper || !cop__moves_has(&job->only, n, moves[i])))
            continue;
        if (job->all && sleeper && cop__moves_has(&sleep, n, moves[i]))
            continue;
        uint32_t sends = try_move(search, job->state, moves[i], sleep);
        sleeper = sleeper && !search->touched;
        if (crashes)
            try_cuts(search, job->state, moves[i], sends);
        if (sleeper && search->config->reduce)
            cop__moves_add(&sleep, n, moves[i]);
    }
    leave(search, search->ready);
    search->ready = NULL;
}

/* ---- the search ------------------------------------------------------------------ */

static void begin(struct search *search)
{
    uint64_t key[2];
    bool fresh;
    struct cop__world *world = replay(search);
    if (!world)
        return;
    cop__world_digest(world, key);
    uint32_t index = cop__states_get(&search->states, key, &fresh);
    if (index == COP__NO_STATE)
        search->error = COP_ENOMEM;
    else
        add_job(search, &(struct job){index, true, {{0, 0}}, {{0, 0}}});
    leave(search, world);
}

static bool within_bounds(struct search *search, const struct job *job)
{
    uint32_t depth = search->states.items[job->state].depth;
    uint64_t most =
        search->config->memory_max ? search->config->memory_max : UINT64_C(4) << 30;
    if (memory(search) > most) {
        search->bounded = true;
        search->stopped = true;
    }
    if (search->config->depth_max && depth >= search->config->depth_max) {
        search->bounded = true;
        return false;
    }
    return !search->stopped;
}

static void run(struct search *search)
{
    uint64_t turns = 0;
    begin(search);
    while (search->job_count > 0 && !search->stopped && !search->error) {
        struct job job = search->jobs[search->job_first++];
        search->job_count--;
        if (within_bounds(search, &job))
            expand(search, &job);
        if (search->config->progress && ++turns % 256 == 0 &&
            !search->config->progress(search->config->context, search->states.count,
                                      search->out->depth)) {
            search->bounded = true;
            search->stopped = true;
        }
    }
}

int cop_sim_explore(const struct cop_sim_explore *config, struct cop_sim_explored *out)
{
    struct cop_sim_explored explored;
    memset(&explored, 0, sizeof(explored));
    if (config->nodes == 0 || config->nodes > COP_SIM_EXPLORE_NODES ||
        config->root >= config->nodes ||
        (config->stream.waves && (config->quorum == COP_QUORUM_FIXED ||
                                  !cop_filter_find(config->stream.filter))))
        return COP_EINVAL;
    struct search search = {.config = config, .out = &explored};
    run(&search);
    explored.states = search.states.count;
    explored.memory_bytes = memory(&search);
    explored.exhausted = !search.bounded && !search.stopped && !search.error;
    cop__states_fini(&search.states);
    free(search.jobs);
    free(search.path);
    if (search.error) {
        free(explored.schedule);
        return search.error;
    }
    *out = explored;
    return 0;
}
