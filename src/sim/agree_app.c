/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

/*
 * What the programs around the nodes do in a simulation that agrees: each makes the groups
 * that it is in, and calls one agreement after the other in each of them. It looks on like a
 * checker, and never fails.
 */

/* One member's part in one group: at most one submission of it is under way. */
struct part {
    uint32_t slot;   /* of the action that is submitted, + 1; 0: none yet */
    uint32_t called; /* agreements */
    uint32_t tries;
    bool made;    /* the group is there */
    bool freed;   /* and given back */
    bool pending; /* a submission is under way */
};

struct group {
    struct cop_agree_group options;
    struct cop_life *members;
    struct part *parts;
    uint64_t *words; /* what each contributes, one after the other */
    uint32_t width;  /* words of each */
};

struct state {
    struct group groups[COP__AGREE_GROUPS];
    uint32_t count;
};

/* A group that is never heard of again is asked for so often, with growing pauses. */
#define TRIES_MAX 60u
#define AGAIN_NS COP_MSEC

uint64_t cop__agree_token(uint64_t group, uint64_t number)
{
    return COP__AGREE_TOKEN + (group << 24) + number;
}

uint32_t cop__agree_rank(const struct cop_life *members, uint32_t count, cop_id id)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (members[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && members[low].id == id ? low : COP_RANK_NONE;
}

/* ---- groups ---------------------------------------------------------------------- */

static struct group *add_group(struct state *state, struct cop_sim *sim,
                               const struct cop_view *view, uint64_t number)
{
    const struct cop_sim_agree *agree = &sim->config.agree;
    struct group *group = &state->groups[state->count];
    uint32_t n = cop_view_size(view), i = 0;
    group->width =
        agree->plain ? 1 : (n + COP__AGREE_PER_WORD - 1) / COP__AGREE_PER_WORD;
    group->members = calloc(n, sizeof(*group->members));
    group->parts = calloc(n, sizeof(*group->parts));
    group->words = calloc((size_t)n * group->width, sizeof(*group->words));
    if (!group->members || !group->parts || !group->words) {
        cop_sim_fail(sim, "sim", "out of memory");
        return NULL;
    }
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id), i++) {
        uint64_t *words = &group->words[(size_t)i * group->width];
        group->members[i] = (struct cop_life){id, cop_view_incarnation(view, id)};
        words[agree->plain ? 0 : i / COP__AGREE_PER_WORD] =
            agree->plain ? 1 : UINT64_C(1) << 4 * (i % COP__AGREE_PER_WORD);
    }
    /* Who makes it before anything can have changed need not list the members. */
    bool at_once = agree->plain && agree->gap_ns == 0 && view == sim->view;
    group->options =
        (struct cop_agree_group){.number = number,
                                 .members = at_once ? NULL : group->members,
                                 .count = n,
                                 .algorithm = agree->algorithm,
                                 .window = agree->window,
                                 .keep_tree = agree->keep_tree,
                                 .promote = agree->promote};
    state->count++;
    return group;
}

static uint32_t rank_in(const struct group *group, cop_id id, cop_incarnation life)
{
    uint32_t rank = cop__agree_rank(group->members, group->options.count, id);
    return rank != COP_RANK_NONE && group->members[rank].incarnation == life
               ? rank
               : COP_RANK_NONE;
}

/* ---- submitting ------------------------------------------------------------------ */

/* The next thing that a member has to say: the group, or an agreement. */
static struct cop_request next_request(const struct cop_sim *sim,
                                       const struct group *group, uint32_t rank)
{
    const struct cop_sim_agree *agree = &sim->config.agree;
    const struct part *part = &group->parts[rank];
    if (part->called == agree->count)
        return (struct cop_request){
            .kind = COP_REQUEST_AGREE_FREE,
            .token = cop__agree_token(group->options.number, COP__AGREE_FREED),
            .group = group->options.number};
    if (!part->made)
        return (struct cop_request){.kind = COP_REQUEST_AGREE_GROUP,
                                    .token = cop__agree_token(group->options.number, 0),
                                    .new_group = &group->options};
    return (struct cop_request){
        .kind = COP_REQUEST_AGREE,
        .token = cop__agree_token(group->options.number, part->called + 1),
        .timeout_ns = agree->timeout_ns ? agree->timeout_ns : COP__AGREE_FOREVER,
        .group = group->options.number,
        .op = COP_AGREE_SUM,
        .type = COP_VALUE_WORDS,
        .bytes = &group->words[(size_t)rank * group->width],
        .length = group->width * 8};
}

static void submit(struct cop_sim *sim, struct group *group, uint32_t rank,
                   cop_time delay)
{
    struct part *part = &group->parts[rank];
    cop_id id = group->members[rank].id;
    struct cop_sim_action action;
    memset(&action, 0, sizeof(action));
    action.kind = COP_SIM_AGREE;
    action.a = id;
    action.b = COP_ID_NONE;
    bool all = part->made && part->called == sim->config.agree.count;
    if (part->pending || part->freed || (all && !sim->config.agree.free))
        return;
    if (part->slot == 0) {
        if (cop__sim_keep_action(sim, &action) != 0) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        part->slot = sim->action_count;
    }
    action.request = next_request(sim, group, rank);
    sim->actions[part->slot - 1] = action;
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_SUBMIT, id, id);
    if (!event)
        return;
    event->word = part->slot - 1;
    part->pending = true;
    cop__sim_push(sim, event, sim->now + delay);
}

static cop_time draw_gap(const struct cop_sim *sim, const struct group *group,
                         uint32_t rank)
{
    const struct part *part = &group->parts[rank];
    cop_time gap = sim->config.agree.gap_ns;
    return gap ? cop_sim_draw(sim, COP__PLACE_AGREE,
                              (uint64_t)rank << 32 | part->called,
                              group->options.number, gap + 1)
               : 0;
}

/* ---- looking on ------------------------------------------------------------------ */

static void *init(struct cop_sim *sim)
{
    struct state *state = calloc(1, sizeof(*state));
    if (!state)
        return NULL;
    struct group *group = add_group(state, sim, sim->view, 1);
    for (uint32_t rank = 0; group && rank < group->options.count; rank++)
        submit(sim, group, rank, draw_gap(sim, group, rank));
    return state;
}

static void fini(void *of)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->count; i++) {
        free(state->groups[i].members);
        free(state->groups[i].parts);
        free(state->groups[i].words);
    }
    free(state);
}

static struct group *find(struct state *state, uint64_t number)
{
    for (uint32_t i = 0; i < state->count; i++)
        if (state->groups[i].options.number == number)
            return &state->groups[i];
    return NULL;
}

static void on_submit(void *of, struct cop_sim *sim, cop_id id,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    bool makes = request->kind == COP_REQUEST_AGREE_GROUP;
    bool frees = request->kind == COP_REQUEST_AGREE_FREE;
    if (!makes && !frees && request->kind != COP_REQUEST_AGREE)
        return;
    struct group *group =
        find(state, makes ? request->new_group->number : request->group);
    uint32_t rank =
        group ? rank_in(group, id, cop__sim_incarnation(sim, id)) : COP_RANK_NONE;
    if (rank == COP_RANK_NONE)
        return;
    struct part *part = &group->parts[rank];
    part->pending = false;
    if (status == 0) {
        part->tries = 0;
        part->made = true;
        part->called += !makes && !frees;
        part->freed = frees;
        if (makes || sim->config.agree.window > 1)
            submit(sim, group, rank, draw_gap(sim, group, rank));
    } else if (status == COP_EAGAIN && part->tries++ < TRIES_MAX) {
        submit(sim, group, rank, AGAIN_NS << (part->tries < 12 ? part->tries : 12));
    }
}

static void on_complete(void *of, struct cop_sim *sim, cop_id id, uint64_t token,
                        int status, const struct cop_buf *result)
{
    struct state *state = of;
    (void)status;
    (void)result;
    if (token < COP__AGREE_TOKEN || token >= COP__INVITE_TOKEN / 2)
        return;
    uint64_t word = token - COP__AGREE_TOKEN;
    struct group *group = find(state, word >> 24);
    uint32_t rank =
        group ? rank_in(group, id, cop__sim_incarnation(sim, id)) : COP_RANK_NONE;
    if (rank == COP_RANK_NONE || (word & 0xffffff) == 0 ||
        (word & 0xffffff) == COP__AGREE_FREED)
        return;
    uint32_t half = sim->config.agree.count / 2;
    if ((word & 0xffffff) == half)
        sim->agree_half = sim->now;
    if ((word & 0xffffff) == sim->config.agree.count)
        sim->agree_ns = (sim->now - sim->agree_half) / (sim->config.agree.count - half);
    submit(sim, group, rank, draw_gap(sim, group, rank));
}

/* Some later views are groups, too: all who get the view make the group. */
static void on_view(void *of, struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    struct state *state = of;
    uint64_t number = 2 + cop_view_epoch(view);
    struct group *group = find(state, number);
    if (!group) {
        if (state->count > sim->config.agree.groups ||
            cop_sim_draw(sim, COP__PLACE_AGREE, number, 0, 2) == 0)
            return;
        group = add_group(state, sim, view, number);
    }
    uint32_t rank =
        group ? rank_in(group, id, cop__sim_incarnation(sim, id)) : COP_RANK_NONE;
    if (rank != COP_RANK_NONE)
        submit(sim, group, rank, draw_gap(sim, group, rank));
}

const struct cop_sim_checker *cop__agree_app(void)
{
    static const struct cop_sim_checker app = {
        .name = "agree-app",
        .init = init,
        .on_submit = on_submit,
        .on_complete = on_complete,
        .on_view = on_view,
        .fini = fini,
    };
    return &app;
}
