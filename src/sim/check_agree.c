/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include "agree/agree.h"
#include "base/digest.h"

#include <stdlib.h>
#include <string.h>

/*
 * What agreement promises, A1 to A5:
 *   A1  all who live return the same; with STRICT, and with TREE and LINEAR unless doubt is
 *       promoted, also those who died after they returned
 *   A2  the value is the sum over all members of the view in which it was decided, each once,
 *       and perhaps over some who were lost by then; and of nobody who had not called
 *   A3  when faults stop and views agree, everyone who called has returned, if all who live
 *       have called
 *   A4  nobody returns twice
 *   A5  the failed are those that the view of the decision has not; all of whom a participant
 *       knew when it called are among them, if they are dead
 * And when everyone who lives has given a group back, nobody has it; and who has returned from
 * all that it called may call the next (under A3).
 */

/* Who heals after all deadlines of a run have come does so too late for some of them. */
#define SOON COP_SEC

/* What one member did in one agreement. */
struct part {
    bool called, returned;
    bool excused; /* time was up while, or just after, somebody was out of reach */
    int status;
    uint64_t digest; /* of what it returned */
};

/* What all of them did: enough as long as all who return say the same. */
struct tally {
    uint64_t digest; /* of the first result */
    bool some, mixed;
};

struct group {
    uint64_t number;
    struct cop_life *members;
    uint32_t count;
    enum cop_algorithm algorithm;
    bool promote;
    struct part *parts; /* agreement by agreement */
    struct tally *tallies;
    bool *freed;    /* by member */
    uint8_t *known; /* by agreement, caller, member: known to be dead at the call */
    uint32_t agreements;
};

struct state {
    struct group groups[COP__AGREE_GROUPS];
    uint32_t count;
    bool went_on; /* somebody was told to go on with too few: every side may */
    struct cop_view **views; /* that somebody installed */
    uint32_t view_count, view_capacity;
};

static void fini(void *of)
{
    struct state *state = of;
    for (uint32_t i = 0; i < state->count; i++) {
        free(state->groups[i].members);
        free(state->groups[i].parts);
        free(state->groups[i].tallies);
        free(state->groups[i].freed);
        free(state->groups[i].known);
    }
    for (uint32_t i = 0; i < state->view_count; i++)
        cop_view_unref(state->views[i]);
    free(state->views);
    free(state);
}

/* ---- what there is --------------------------------------------------------------- */

static struct group *find_group(struct state *state, uint64_t number)
{
    for (uint32_t i = 0; i < state->count; i++)
        if (state->groups[i].number == number)
            return &state->groups[i];
    return NULL;
}

static uint32_t rank_in(const struct group *group, cop_id id, cop_incarnation life)
{
    uint32_t rank = cop__agree_rank(group->members, group->count, id);
    return rank != COP_RANK_NONE && group->members[rank].incarnation == life
               ? rank
               : COP_RANK_NONE;
}

/* NULL if there is none, or more than one: where every side of a split goes on, epochs do not
 * tell views apart. */
static const struct cop_view *find_view(const struct state *state, cop_epoch epoch,
                                        uint32_t *count)
{
    const struct cop_view *found = NULL;
    *count = 0;
    for (uint32_t i = 0; i < state->view_count; i++) {
        if (cop_view_epoch(state->views[i]) != epoch)
            continue;
        found = state->views[i];
        ++*count;
    }
    return *count == 1 ? found : NULL;
}

static bool has_view(const struct state *state, const struct cop_view *view)
{
    struct cop_ballot ballot = cop_view_ballot(view);
    for (uint32_t i = 0; i < state->view_count; i++) {
        struct cop_ballot other = cop_view_ballot(state->views[i]);
        if (cop_ballot_compare(&ballot, &other) == 0)
            return true;
    }
    return false;
}

static void on_view(void *of, struct cop_sim *sim, cop_id id, struct cop_view *view)
{
    struct state *state = of;
    (void)id;
    if (has_view(state, view))
        return;
    if (state->view_count == state->view_capacity) {
        uint32_t capacity = state->view_capacity ? 2 * state->view_capacity : 8;
        void *larger = realloc(state->views, capacity * sizeof(struct cop_view *));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        state->views = larger;
        state->view_capacity = capacity;
    }
    state->views[state->view_count++] = cop_view_ref(view);
}

static void *init(struct cop_sim *sim)
{
    struct state *state = calloc(1, sizeof(*state));
    if (state)
        on_view(state, sim, 0, sim->view);
    return state;
}

static struct part *part_of(const struct group *group, uint64_t number, uint32_t rank)
{
    return &group->parts[(number - 1) * group->count + rank];
}

static uint8_t *known_of(const struct group *group, uint64_t number, uint32_t rank)
{
    return &group->known[((number - 1) * group->count + rank) * group->count];
}

static bool make_room(struct cop_sim *sim, struct group *group, uint64_t number)
{
    if (number <= group->agreements)
        return true;
    uint32_t more = group->agreements ? 2 * group->agreements : 4;
    size_t n = group->count;
    bool small = !sim->config.agree.plain;
    struct part *parts = realloc(group->parts, more * n * sizeof(*parts));
    if (parts)
        group->parts = parts;
    struct tally *tallies = realloc(group->tallies, more * sizeof(*tallies));
    if (tallies)
        group->tallies = tallies;
    uint8_t *known = small ? realloc(group->known, more * n * n) : NULL;
    if (known)
        group->known = known;
    if (!parts || !tallies || (small && !known)) {
        cop_sim_fail(sim, "sim", "out of memory");
        return false;
    }
    memset(parts + group->agreements * n, 0,
           (more - group->agreements) * n * sizeof(*parts));
    memset(tallies + group->agreements, 0,
           (more - group->agreements) * sizeof(*tallies));
    if (small)
        memset(known + group->agreements * n * n, 0,
               (more - group->agreements) * n * n);
    group->agreements = more;
    return true;
}

/* ---- calls ----------------------------------------------------------------------- */

static void note_group(struct state *state, struct cop_sim *sim,
                       const struct cop_agree_group *made)
{
    if (find_group(state, made->number) || state->count == COP__AGREE_GROUPS)
        return;
    struct group *group = &state->groups[state->count];
    group->members = malloc(made->count * sizeof(*group->members));
    group->freed = calloc(made->count, sizeof(*group->freed));
    if (!group->members || !group->freed) {
        free(group->members);
        free(group->freed);
        *group = (struct group){0};
        cop_sim_fail(sim, "sim", "out of memory");
        return;
    }
    cop_id id = COP_ID_NONE;
    for (uint32_t i = 0; i < made->count; i++) {
        id = cop_view_next(sim->view, id);
        group->members[i] =
            made->members ? made->members[i]
                          : (struct cop_life){id, cop_view_incarnation(sim->view, id)};
    }
    group->number = made->number;
    group->count = made->count;
    group->algorithm = made->algorithm;
    group->promote = made->promote;
    state->count++;
}

/* A5: whom the caller knows or believes to be dead, and is. What it believes because of a lie
 * may have been denied, and come true after that. */
static void note_known(const struct cop_sim *sim, const struct group *group,
                       uint64_t number, uint32_t rank)
{
    const struct cop_node *node = cop_sim_node(sim, group->members[rank].id);
    for (uint32_t i = 0; i < group->count && node && group->known; i++) {
        cop_id id = group->members[i].id;
        cop_incarnation life = group->members[i].incarnation;
        struct cop_belief belief = cop_node_belief(node, id);
        bool lost = !cop_view_has(cop_node_view(node), id, life) ||
                    (belief.incarnation == life && belief.status == COP_SUSPECT &&
                     !cop_sim_was_lied_to(sim));
        bool dead = !cop_sim_is_alive(sim, id) || cop__sim_incarnation(sim, id) != life;
        known_of(group, number, rank)[i] = lost && dead;
    }
}

static bool is_result(int status)
{
    return status == 0 || status == COP_UNDECIDED || status == COP_UNCERTAIN ||
           status == COP_EINVAL;
}

/* What the next one builds on is decided: nothing keeps its caller waiting (G9). */
static void check_may_call(struct cop_sim *sim, const struct group *group,
                           uint32_t rank)
{
    for (uint64_t number = 1; number <= group->agreements; number++) {
        const struct part *part = part_of(group, number, rank);
        if (part->called && !(part->returned && is_result(part->status)))
            return;
    }
    cop_sim_fail(sim, "A3",
                 "%u has returned from all that it called of group %llu, and cannot "
                 "call the next",
                 (unsigned)group->members[rank].id, (unsigned long long)group->number);
}

static void on_submit(void *of, struct cop_sim *sim, cop_id id,
                      const struct cop_request *request, int status)
{
    struct state *state = of;
    if (request->kind == COP_REQUEST_GO_ON && status == 0)
        state->went_on = true;
    if (request->kind == COP_REQUEST_AGREE_GROUP && status == 0)
        note_group(state, sim, request->new_group);
    bool frees = request->kind == COP_REQUEST_AGREE_FREE;
    struct group *group = frees || request->kind == COP_REQUEST_AGREE
                              ? find_group(state, request->group)
                              : NULL;
    uint32_t rank =
        group ? rank_in(group, id, cop__sim_incarnation(sim, id)) : COP_RANK_NONE;
    if (rank == COP_RANK_NONE)
        return;
    if (!frees && status == COP_EAGAIN)
        check_may_call(sim, group, rank);
    if (frees && status == 0)
        group->freed[rank] = true;
    if (frees || status != 0)
        return;
    uint64_t number = (request->token - COP__AGREE_TOKEN) & 0xffffff;
    if (!make_room(sim, group, number))
        return;
    part_of(group, number, rank)->called = true;
    note_known(sim, group, number, rank);
}

/* ---- returns --------------------------------------------------------------------- */

static uint64_t digest_result(int status, const struct cop_agreed *agreed)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__digest_word(&digest, (uint64_t)(unsigned)status);
    cop__digest_bytes(&digest, agreed->value, agreed->length);
    for (uint32_t i = 0; i < agreed->failed.count; i++)
        cop__digest_word(&digest, agreed->failed.items[i]);
    return cop__digest_value(&digest);
}

/* Whether each of the two lives, and is in the other's view. */
static bool are_together(const struct cop_sim *sim, const struct cop_life *a,
                         const struct cop_life *b)
{
    const struct cop_node *left = cop_sim_node(sim, a->id);
    const struct cop_node *right = cop_sim_node(sim, b->id);
    return left && right && cop__sim_incarnation(sim, a->id) == a->incarnation &&
           cop__sim_incarnation(sim, b->id) == b->incarnation &&
           cop_view_has(cop_node_view(left), b->id, b->incarnation) &&
           cop_view_has(cop_node_view(right), a->id, a->incarnation);
}

/* Whether somebody may have been removed that lives: by a lie, or for its silence, where somebody
 * looks for that. */
static bool may_remove_living(const struct cop_sim *sim)
{
    const struct cop_detect *detect = &sim->config.detect;
    return cop_sim_was_lied_to(sim) ||
           (cop_sim_was_disturbed(sim) &&
            (detect->ring_period_ns || detect->gossip_period_ns));
}

/* Also who is dead by now must have returned the same. Where every side of a split goes on,
 * who was taken for dead may have gone on; HAS is such a case, when those whom it names have
 * left. */
static bool is_uniform(const struct state *state, const struct cop_sim *sim,
                       const struct group *group)
{
    if (state->went_on ||
        (sim->config.quorum != COP_QUORUM_MAJORITY && may_remove_living(sim)))
        return false;
    return group->algorithm == COP_AGREE_STRICT ||
           ((group->algorithm == COP_AGREE_TREE ||
             group->algorithm == COP_AGREE_LINEAR) &&
            !group->promote);
}

static bool lives(const struct cop_sim *sim, const struct cop_life *life)
{
    return cop_sim_is_alive(sim, life->id) &&
           cop__sim_incarnation(sim, life->id) == life->incarnation;
}

/* Dead, or left behind by a later view of the other. */
static bool is_gone(const struct cop_sim *sim, const struct cop_life *life,
                    const struct cop_life *other)
{
    if (!lives(sim, life) || !lives(sim, other))
        return !lives(sim, life);
    const struct cop_view *left = cop_node_view(cop_sim_node(sim, life->id));
    const struct cop_view *right = cop_node_view(cop_sim_node(sim, other->id));
    return !cop_view_has(right, life->id, life->incarnation) &&
           cop_view_epoch(right) > cop_view_epoch(left);
}

/* Where somebody was removed that lives, one who had the view without the coordinator alone may
 * have said UNDECIDED, and be gone; a value is never gone back on. */
static bool is_excused(const struct cop_sim *sim, const struct group *group,
                       uint64_t number, uint32_t rank, uint32_t other)
{
    return may_remove_living(sim) &&
           part_of(group, number, rank)->status == COP_UNDECIDED &&
           is_gone(sim, &group->members[rank], &group->members[other]);
}

/* G11: two who say that nothing was decided may name other failures, if one is left behind by
 * the view of the other: what went before need not have been the same for both. */
static bool differ_in_names(const struct cop_sim *sim, const struct group *group,
                            uint64_t number, uint32_t rank, uint32_t other)
{
    return part_of(group, number, rank)->status == COP_UNDECIDED &&
           part_of(group, number, other)->status == COP_UNDECIDED &&
           (is_gone(sim, &group->members[rank], &group->members[other]) ||
            is_gone(sim, &group->members[other], &group->members[rank]));
}

static void check_same(const struct state *state, struct cop_sim *sim,
                       const struct group *group, uint64_t number, uint32_t rank)
{
    const struct part *mine = part_of(group, number, rank);
    struct tally *tally = &group->tallies[number - 1];
    if (!tally->some)
        *tally = (struct tally){.digest = mine->digest, .some = true};
    tally->mixed |= tally->digest != mine->digest;
    for (uint32_t i = 0; i < group->count && tally->mixed; i++) {
        const struct part *other = part_of(group, number, i);
        if (i == rank || !other->returned || !is_result(other->status) ||
            other->digest == mine->digest)
            continue;
        bool doubt = mine->status == COP_UNCERTAIN || other->status == COP_UNCERTAIN ||
                     is_excused(sim, group, number, rank, i) ||
                     is_excused(sim, group, number, i, rank) ||
                     differ_in_names(sim, group, number, i, rank);
        if ((is_uniform(state, sim, group) && !doubt) ||
            are_together(sim, &group->members[rank], &group->members[i]))
            cop_sim_fail(sim, "A1",
                         "%u and %u return different things from agreement %llu of "
                         "group %llu (%s, %s)",
                         (unsigned)group->members[i].id,
                         (unsigned)group->members[rank].id, (unsigned long long)number,
                         (unsigned long long)group->number, cop_strerror(other->status),
                         cop_strerror(mine->status));
    }
}

static bool has_failed(const struct cop_agreed *agreed, cop_id id)
{
    for (uint32_t i = 0; i < agreed->failed.count; i++)
        if (agreed->failed.items[i] == id)
            return true;
    return false;
}

/* A2. */
static void check_value(struct cop_sim *sim, const struct group *group, uint32_t i,
                        const struct cop_view *view, const struct cop_agreed *agreed)
{
    const struct cop_life *life = &group->members[i];
    uint64_t share = cop_agreed_word(agreed, i / COP__AGREE_PER_WORD) >>
                     4 * (i % COP__AGREE_PER_WORD);
    share &= 15;
    bool inside = cop_view_has(view, life->id, life->incarnation);
    if (share > 1 || (inside && share == 0))
        cop_sim_fail(sim, "A2", "%u counts %u times in agreement %llu of group %llu",
                     (unsigned)life->id, (unsigned)share,
                     (unsigned long long)agreed->number,
                     (unsigned long long)agreed->group);
    if (share && !part_of(group, agreed->number, i)->called)
        cop_sim_fail(sim, "A2",
                     "%u counts in agreement %llu of group %llu, and did not call",
                     (unsigned)life->id, (unsigned long long)agreed->number,
                     (unsigned long long)agreed->group);
}

/* A5. */
static void check_failed(struct cop_sim *sim, const struct group *group, uint32_t i,
                         const struct cop_view *view, const struct cop_agreed *agreed,
                         uint32_t rank, bool all)
{
    const struct cop_life *life = &group->members[i];
    bool inside = cop_view_has(view, life->id, life->incarnation);
    bool failed = has_failed(agreed, life->id);
    if (failed && inside)
        cop_sim_fail(sim, "A5", "%u is said to have failed, and is in view %llu",
                     (unsigned)life->id, (unsigned long long)agreed->epoch);
    if (all && !failed && (!inside || known_of(group, agreed->number, rank)[i]))
        cop_sim_fail(sim, "A5",
                     "%u knew that %u failed, and agreement %llu of group %llu does "
                     "not say so",
                     (unsigned)group->members[rank].id, (unsigned)life->id,
                     (unsigned long long)agreed->number,
                     (unsigned long long)agreed->group);
}

static void check_result(struct state *state, struct cop_sim *sim,
                         const struct group *group, uint32_t rank, int status,
                         const struct cop_agreed *agreed)
{
    uint32_t count;
    const struct cop_view *view = find_view(state, agreed->epoch, &count);
    if (count > 1)
        return;
    if (!view) {
        cop_sim_fail(sim, "A5", "decided in view %llu, which nobody has",
                     (unsigned long long)agreed->epoch);
        return;
    }
    bool full = status == 0 && group->algorithm != COP_AGREE_ALLREDUCE;
    for (uint32_t i = 0; i < group->count && group->known; i++) {
        if (status == 0)
            check_value(sim, group, i, view, agreed);
        check_failed(sim, group, i, view, agreed, rank, full);
    }
}

static void on_complete(void *of, struct cop_sim *sim, cop_id id, uint64_t token,
                        int status, const struct cop_buf *result)
{
    struct state *state = of;
    uint64_t word = token - COP__AGREE_TOKEN;
    struct group *group = find_group(state, word >> 24);
    uint64_t number = word & 0xffffff;
    if (token < COP__AGREE_TOKEN || !group || number == 0)
        return;
    uint32_t rank = rank_in(group, id, cop__sim_incarnation(sim, id));
    struct cop_agreed agreed;
    if (rank == COP_RANK_NONE || number > group->agreements)
        return;
    struct part *part = part_of(group, number, rank);
    if (part->returned || !part->called)
        cop_sim_fail(sim, "A4", "%u returns twice from agreement %llu of group %llu",
                     (unsigned)id, (unsigned long long)number,
                     (unsigned long long)group->number);
    part->returned = true;
    part->status = status;
    if (!is_result(status)) {
        part->excused = sim->config.agree.timeout_ns != 0 || !cop__faults_over(sim) ||
                        (sim->calm && sim->now < sim->calm_at + SOON);
        return;
    }
    if (!result || cop_agreed(result, &agreed) != 0) {
        cop_sim_fail(sim, "A1", "a result that cannot be read");
        return;
    }
    part->digest = digest_result(status, &agreed);
    sim->agreements += !group->tallies[number - 1].some;
    check_same(state, sim, group, number, rank);
    check_result(state, sim, group, rank, status, &agreed);
    cop_agreed_free(&agreed);
}

/* ---- in the end ------------------------------------------------------------------ */

/* Whether all of the group who live have one view, with exactly them of the group. Where the
 * membership is blocked on purpose it is not so. */
static bool has_settled(const struct cop_sim *sim, const struct group *group)
{
    const struct cop_view *one = NULL;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct cop_node *node = cop_sim_node(sim, group->members[i].id);
        if (!lives(sim, &group->members[i]))
            continue;
        const struct cop_view *view = cop_node_view(node);
        struct cop_ballot mine = cop_view_ballot(view);
        struct cop_ballot other = cop_view_ballot(one ? one : view);
        if (cop_ballot_compare(&mine, &other) != 0)
            return false;
        one = view;
    }
    for (uint32_t i = 0; i < group->count && one; i++)
        if (cop_view_has(one, group->members[i].id, group->members[i].incarnation) !=
            lives(sim, &group->members[i]))
            return false;
    return one != NULL;
}

static void check_ended(struct cop_sim *sim, const struct group *group, uint64_t number)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (lives(sim, &group->members[i]) && !part_of(group, number, i)->called)
            return;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct part *part = part_of(group, number, i);
        if (!lives(sim, &group->members[i]) ||
            (part->returned &&
             (is_result(part->status) || part->excused || part->status == COP_ELOST)))
            continue;
        cop_sim_fail(sim, "A3", "%u does not return from agreement %llu of group %llu",
                     (unsigned)group->members[i].id, (unsigned long long)number,
                     (unsigned long long)group->number);
    }
}

static void check_freed(struct cop_sim *sim, const struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (lives(sim, &group->members[i]) && !group->freed[i])
            return;
    for (uint32_t i = 0; i < group->count; i++)
        if (lives(sim, &group->members[i]) &&
            cop__agree_has_group(cop_sim_node(sim, group->members[i].id),
                                 group->number))
            cop_sim_fail(
                sim, "A3", "%u still has group %llu, which all have given back",
                (unsigned)group->members[i].id, (unsigned long long)group->number);
}

static void at_quiescence(void *of, struct cop_sim *sim)
{
    struct state *state = of;
    if (!cop_sim_is_settled(sim))
        return;
    for (uint32_t i = 0; i < state->count; i++) {
        const struct group *group = &state->groups[i];
        if (!has_settled(sim, group))
            continue;
        for (uint64_t number = 1; number <= group->agreements; number++)
            check_ended(sim, group, number);
        check_freed(sim, group);
    }
}

static uint64_t digest_state(const void *of)
{
    const struct state *state = of;
    struct cop__digest digest;
    cop__digest_init(&digest);
    for (uint32_t i = 0; i < state->count; i++) {
        const struct group *group = &state->groups[i];
        for (uint32_t j = 0; j < group->agreements * group->count; j++) {
            const struct part *part = &group->parts[j];
            cop__digest_word(&digest, part->digest ^ (uint64_t)part->called << 1 ^
                                          (uint64_t)part->returned);
            /* What it will be held to when it returns (A5). */
            if (group->known && part->called && !part->returned)
                cop__digest_bytes(&digest, &group->known[j * group->count],
                                  group->count);
        }
        for (uint32_t j = 0; j < group->count; j++)
            cop__digest_word(&digest, group->freed[j]);
    }
    return cop__digest_value(&digest);
}

const struct cop_sim_checker *cop_sim_checker_agree(void)
{
    static const struct cop_sim_checker checker = {
        .name = "agree",
        .init = init,
        .on_submit = on_submit,
        .on_view = on_view,
        .on_complete = on_complete,
        .at_quiescence = at_quiescence,
        .fini = fini,
        .digest = digest_state,
    };
    return &checker;
}
