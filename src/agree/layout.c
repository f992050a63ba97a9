/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include "tree/living.h"

#include <stdlib.h>

/*
 * The tree of an agreement. It is laid over those who were not agreed to have failed, and does
 * not change while the agreement runs; around whom the view has lost since, it is mended
 * (splice). So parent and children are functions of the agreement and of the view alone: all
 * who have the same view have the same tree, and a suspicion moves nothing (G2).
 */

static struct cop_dead base_of(const struct cop__agreement *agreement)
{
    const struct cop__failed *base = agreement->base;
    struct cop_dead dead = {0};
    if (base) {
        dead.extra = base->ranks;
        dead.extra_count = base->count;
    }
    return dead;
}

cop_rank cop__agreement_rank(const struct cop__agreement *agreement, cop_rank place)
{
    struct cop_dead dead = base_of(agreement);
    return agreement->dense ? cop__living_select(&dead, place) : place;
}

cop_rank cop__agreement_place(const struct cop__agreement *agreement, cop_rank rank)
{
    struct cop_dead dead = base_of(agreement);
    if (cop_dead_has(&dead, rank))
        return COP_RANK_NONE;
    return agreement->dense ? rank - cop_dead_below(&dead, rank) : rank;
}

struct cop_life cop__agreement_life(const struct cop__agreement *agreement,
                                    cop_rank place)
{
    return cop__agree_group_life(agreement->group,
                                 cop__agreement_rank(agreement, place));
}

/*
 * The tree as it was laid: its sub-trees are what votes speak for. Where it is not laid anew
 * the places of those who failed are empty, and it is mended around them to begin with.
 */
struct laid {
    struct cop_tree tree;
    struct cop_dead dead;
};

static const struct cop_tree *lay(const struct cop__agreement *agreement,
                                  struct laid *laid)
{
    laid->dead = base_of(agreement);
    laid->tree = (struct cop_tree){.shape = agreement->group->shape,
                                   .n = agreement->group->count};
    if (agreement->dense)
        laid->tree.n -= laid->dead.extra_count;
    else if (laid->dead.extra_count > 0)
        laid->tree.dead = &laid->dead;
    return &laid->tree;
}

static bool is_below(const struct cop__agreement *agreement, cop_rank place,
                     cop_rank above)
{
    struct laid laid;
    return cop_tree_is_below(lay(agreement, &laid), place, above);
}

cop_rank cop__agreement_coordinator(const struct cop__agreement *agreement)
{
    struct laid laid;
    return cop_tree_root(lay(agreement, &laid));
}

/* And mended around those whom the view has lost since. */
static const struct cop_tree *mend(const struct cop__agreement *agreement,
                                   struct laid *laid)
{
    lay(agreement, laid);
    laid->dead =
        (struct cop_dead){NULL, agreement->empty_places, agreement->empty_count};
    laid->tree.dead = &laid->dead;
    return &laid->tree;
}

/*
 * In two-phase commit any loss touches every vote (G10). Had the coordinator decided in a view
 * that not all of its members have, the next view may be without the coordinator and
 * with one whom that view had lost, and whose vote it did not need.
 */
cop_epoch cop__agreement_touched(const struct cop__agreement *agreement, cop_rank place)
{
    cop_epoch last = 0;
    if (cop__agree_group_is_two_phase(agreement->group))
        return agreement->round;
    for (uint32_t i = 0; i < agreement->lost_count; i++) {
        const struct cop__gone *lost = &agreement->lost[i];
        if (lost->epoch > last && is_below(agreement, lost->at, place))
            last = lost->epoch;
    }
    return last;
}

struct cop__child *cop__agreement_child(const struct cop__agreement *agreement,
                                        cop_rank place)
{
    uint32_t low = 0, high = agreement->child_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (agreement->children[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low < agreement->child_count && agreement->children[low].place == place
               ? &agreement->children[low]
               : NULL;
}

/* ---- who is lost ----------------------------------------------------------------- */

/* All places without anybody, for tree/: those who failed before, if they have places, and
 * those who are lost. */
static void find_empty(struct cop__agreement *agreement)
{
    struct cop_dead base = base_of(agreement);
    uint32_t i = 0, j = agreement->dense ? base.extra_count : 0, count = 0;
    while (i < agreement->lost_count || j < base.extra_count) {
        cop_rank lost =
            i < agreement->lost_count ? agreement->lost[i].at : COP_RANK_NONE;
        cop_rank failed = j < base.extra_count ? base.extra[j] : COP_RANK_NONE;
        agreement->empty_places[count++] = lost < failed ? lost : failed;
        i += lost < failed;
        j += failed < lost;
    }
    agreement->empty_count = count;
}

/* Who is gone and was not agreed to have failed; both lists are sorted. `out` NULL: counts. */
static uint32_t list_lost(const struct cop__agreement *agreement, struct cop__gone *out)
{
    const struct cop__agree_group *group = agreement->group;
    struct cop_dead base = base_of(agreement);
    uint32_t count = 0, below = 0;
    for (uint32_t i = 0; i < group->gone_count; i++) {
        cop_rank rank = group->gone[i].at;
        while (below < base.extra_count && base.extra[below] < rank)
            below++;
        if (below < base.extra_count && base.extra[below] == rank)
            continue;
        if (out)
            out[count] = (struct cop__gone){agreement->dense ? rank - below : rank,
                                            group->gone[i].epoch};
        count++;
    }
    return count;
}

/* The same from one agreement to the next, as long as nobody dies: it is not counted again. */
static uint32_t count_lost(const struct cop__agreement *agreement)
{
    struct cop__failed *base = agreement->base;
    uint64_t survey = agreement->group->surveys;
    if (base && base->covers == survey)
        return 0;
    uint32_t lost = list_lost(agreement, NULL);
    if (base && lost == 0)
        base->covers = survey;
    return lost;
}

static int find_lost(struct cop__agreement *agreement)
{
    uint32_t lost = count_lost(agreement);
    size_t room = lost + (agreement->base ? agreement->base->count : 0);
    free(agreement->lost);
    free(agreement->empty_places);
    agreement->lost = NULL;
    agreement->empty_places = NULL;
    agreement->lost_count = agreement->empty_count = 0;
    agreement->round = 0;
    if (lost == 0 && (agreement->dense || room == 0))
        return 0;
    agreement->lost = malloc((lost ? lost : 1) * sizeof *agreement->lost);
    agreement->empty_places = malloc(room * sizeof(cop_rank));
    if (!agreement->lost || !agreement->empty_places)
        return COP_ENOMEM;
    agreement->lost_count = lost ? list_lost(agreement, agreement->lost) : 0;
    for (uint32_t i = 0; i < lost; i++)
        if (agreement->lost[i].epoch > agreement->round)
            agreement->round = agreement->lost[i].epoch;
    find_empty(agreement);
    return 0;
}

static bool is_lost(const struct cop__agreement *agreement, cop_rank place)
{
    for (uint32_t i = 0; i < agreement->lost_count; i++)
        if (agreement->lost[i].at == place)
            return true;
    return false;
}

/* ---- who is above and below ------------------------------------------------------ */

/* With the coordinator gone nobody stands in for it: who is below whom as it was laid, and
 * the others are on their own. */
static bool is_cut(const struct cop__agreement *agreement, cop_rank place,
                   cop_rank above)
{
    return cop__agree_group_is_two_phase(agreement->group) &&
           agreement->coordinator_lost && !is_below(agreement, place, above);
}

static int find_neighbours(struct cop__agreement *agreement,
                           const struct cop_tree *tree)
{
    cop_rank parent = cop_tree_parent(tree, agreement->place);
    if (parent != COP_RANK_NONE && is_cut(agreement, agreement->place, parent))
        parent = COP_RANK_NONE;
    if (parent != agreement->parent)
        agreement->cast = agreement->kept = false;
    agreement->parent = parent;
    struct cop_ranks *order = &agreement->order;
    if (cop_tree_children(tree, agreement->place, order))
        return COP_ENOMEM;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < order->count; i++)
        if (!is_cut(agreement, order->items[i], agreement->place))
            order->items[kept++] = order->items[i];
    order->count = kept;
    return 0;
}

int cop__agreement_tops(const struct cop__agreement *agreement, struct cop_ranks *out)
{
    struct laid laid;
    const struct cop_tree *tree = mend(agreement, &laid);
    cop_rank first = cop_tree_root(tree);
    int error = cop_tree_children(tree, first, out);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->count; i++)
        if (is_cut(agreement, out->items[i], first))
            out->items[kept++] = out->items[i];
    out->count = kept;
    return error ? error : cop_ranks_push(out, first);
}

/* ---- votes that still hold ------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct cop__child *left = a, *right = b;
    return left->place < right->place ? -1 : left->place > right->place;
}

static void drop_child(struct cop__child *child)
{
    cop__share_free(&child->share);
    cop_buf_unref(child->lock);
}

/* Insertion from the back: what comes is sorted but for the order of depths. */
static void sort(struct cop__child *children, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct cop__child child = children[i];
        uint32_t at = i;
        for (; at > 0 && compare(&children[at - 1], &child) > 0; at--)
            children[at] = children[at - 1];
        children[at] = child;
    }
}

/*
 * G5: a vote holds as long as nobody below its sender, and not it itself, is lost. Then
 * everyone below still waits for whom it waited for, and can hear of no decision but through
 * the sender; otherwise the sender votes again, with what those below say now.
 */
static void carry_over(struct cop__agreement *agreement, struct cop__child *old,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct cop__child *child = cop__agreement_child(agreement, old[i].place);
        if (child && old[i].voted &&
            old[i].round >= cop__agreement_touched(agreement, old[i].place))
            *child = old[i];
        else
            drop_child(&old[i]);
    }
    free(old);
}

static int place_children(struct cop__agreement *agreement)
{
    struct cop__child *old = agreement->children;
    uint32_t count = agreement->child_count;
    struct cop__child *children =
        calloc(agreement->order.count ? agreement->order.count : 1, sizeof *children);
    if (!children)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < agreement->order.count; i++)
        children[i].place = agreement->order.items[i];
    sort(children, agreement->order.count);
    agreement->children = children;
    agreement->child_count = agreement->order.count;
    agreement->first_open = 0;
    carry_over(agreement, old, count);
    return 0;
}

static void watch_neighbours(struct cop_node *node, struct cop__agreement *agreement)
{
    struct cop__agree_group *group = agreement->group;
    if (agreement->parent != COP_RANK_NONE)
        cop__agree_group_watch(node, group,
                               cop__agreement_rank(agreement, agreement->parent));
    for (uint32_t i = 0; i < agreement->child_count; i++)
        cop__agree_group_watch(
            node, group, cop__agreement_rank(agreement, agreement->children[i].place));
}

/* ---- from one agreement to the next ---------------------------------------------- */

/* Whether the tree is as it was laid, with nobody missing. */
static bool is_whole(const struct cop__agreement *agreement)
{
    return agreement->lost_count == 0 && agreement->empty_count == 0 &&
           (agreement->dense || !agreement->base || agreement->base->count == 0);
}

void cop__spare_free(struct cop__spare *spare)
{
    cop__failed_unref(spare->base);
    free(spare->children);
    cop_ranks_free(&spare->order);
    *spare = (struct cop__spare){0};
}

void cop__agreement_leave_layout(struct cop__agreement *agreement)
{
    struct cop__spare *spare = &agreement->group->spare;
    if (!agreement->laid || !agreement->children || !is_whole(agreement))
        return;
    for (uint32_t i = 0; i < agreement->child_count; i++) {
        drop_child(&agreement->children[i]);
        agreement->children[i] =
            (struct cop__child){.place = agreement->children[i].place};
    }
    cop__spare_free(spare);
    *spare = (struct cop__spare){cop__failed_ref(agreement->base), agreement->children,
                                 agreement->child_count, agreement->order,
                                 agreement->parent};
    agreement->children = NULL;
    agreement->child_count = 0;
    agreement->order = (struct cop_ranks){0};
}

/* Those who are in it are watched already. */
static bool take_spare(struct cop__agreement *agreement)
{
    struct cop__spare *spare = &agreement->group->spare;
    if (!spare->children || spare->base != agreement->base || agreement->children ||
        !is_whole(agreement))
        return false;
    if (spare->parent != agreement->parent)
        agreement->cast = agreement->kept = false;
    agreement->parent = spare->parent;
    agreement->children = spare->children;
    agreement->child_count = spare->child_count;
    agreement->first_open = 0;
    cop_ranks_free(&agreement->order);
    agreement->order = spare->order;
    spare->children = NULL;
    spare->order = (struct cop_ranks){0};
    cop__spare_free(spare);
    return true;
}

static int lay_anew(struct cop_node *node, struct cop__agreement *agreement)
{
    struct laid laid;
    int error = find_neighbours(agreement, mend(agreement, &laid));
    if (!error)
        error = place_children(agreement);
    if (!error)
        watch_neighbours(node, agreement);
    return error;
}

void cop__agreement_lay(struct cop_node *node, struct cop__agreement *agreement)
{
    cop_epoch before = agreement->round;
    agreement->place = cop__agreement_place(agreement, agreement->group->rank);
    int error = find_lost(agreement);
    agreement->coordinator_lost =
        agreement->lost_count > 0 &&
        is_lost(agreement, cop__agreement_coordinator(agreement));
    if (!error && !take_spare(agreement))
        error = lay_anew(node, agreement);
    if (error) {
        cop__fail(node, error);
        return;
    }
    agreement->laid = true;
    if (agreement->cast &&
        agreement->cast_round < cop__agreement_touched(agreement, agreement->place))
        agreement->cast = false;
    if (agreement->round != before) {
        agreement->kept = false;
        for (uint32_t i = 0; i < agreement->child_count; i++)
            agreement->children[i].locked = false;
    }
}
