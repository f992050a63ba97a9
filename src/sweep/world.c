/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/state.h"

#include "view/view.h"

/*
 * Who takes part in a sweep. Most run in the view that their initiator had installed: whoever
 * came later is not in them, whoever left since is lost. A sweep may also bring a world of its
 * own, a view that nobody has installed yet; then it alone says who takes part, in which life,
 * and those who leave with it still do.
 */

static bool takes_part_in(const struct cop_view *world, cop_id id,
                          struct cop__entry *entry)
{
    if (!cop__view_entry(world, id, entry))
        return false;
    return entry->presence == COP_PRESENT || cop__entry_leaves_with(entry, world);
}

/* Nobody need say so of a life that my view knows a later one of. */
static bool is_outlived(const struct cop_node *node, cop_id id,
                        cop_incarnation incarnation)
{
    struct cop__entry entry;
    return cop__view_entry(node->view, id, &entry) && entry.incarnation > incarnation;
}

bool cop__sweep_is_lost(const struct cop_node *node, const struct cop__sweep *sweep,
                        cop_rank rank)
{
    struct cop__entry entry;
    cop_id id = cop__sweep_id(sweep, rank);
    if (sweep->world)
        return !takes_part_in(sweep->world, id, &entry) ||
               cop__roster_has_lost(node, id, entry.incarnation) ||
               is_outlived(node, id, entry.incarnation);
    if (cop__roster_is_suspect(node, id))
        return true;
    return cop_view_changes(node->view) > 0 &&
           cop__view_entry(node->view, id, &entry) && entry.since > sweep->epoch;
}

/* Whether it was asked for when the sweep began. Who left later was. */
bool cop__sweep_concerns(const struct cop_node *node, const struct cop__sweep *sweep,
                         cop_rank rank)
{
    struct cop__entry entry;
    if (sweep->world)
        return takes_part_in(sweep->world, rank, &entry);
    if (sweep->roll)
        return true; /* whoever is on the list was asked for */
    /* Of one who left and came back, or came and left, the view of today does not say it. */
    if (sweep->about)
        return cop__view_entry(sweep->about, rank, &entry) &&
               entry.presence == COP_PRESENT;
    if (!cop__view_entry(node->view, rank, &entry))
        return false;
    return (entry.presence == COP_PRESENT) == (entry.since <= sweep->epoch);
}

void cop__sweep_send(struct cop_node *node, const struct cop__sweep *sweep, cop_rank to,
                     enum cop__kind kind, struct cop_buf *payload)
{
    cop_id id = cop__sweep_id(sweep, to);
    if (sweep->world)
        cop__emit_send(node, id, cop_view_incarnation(sweep->world, id), kind, payload);
    else
        cop__roster_send(node, id, kind, payload);
}

cop_id cop__sweep_id(const struct cop__sweep *sweep, cop_rank rank)
{
    return sweep->roll && rank < sweep->roll->count ? sweep->roll->ids[rank] : rank;
}

/* Whether all sweeps of this life of an initiator are over. */
bool cop__sweep_life_is_over(const struct cop_node *node, cop_id initiator,
                             cop_incarnation incarnation)
{
    if (initiator == node->self)
        return incarnation != node->incarnation;
    if (!cop__has_views(node))
        return incarnation < cop__roster_get(node, initiator).incarnation;
    struct cop__entry entry;
    if (!cop__view_entry(node->view, initiator, &entry))
        return false;
    return incarnation < entry.incarnation ||
           (incarnation == entry.incarnation && entry.presence != COP_PRESENT);
}

struct cop_view *cop__sweep_world(const struct cop__sweep *sweep)
{
    return sweep->world;
}

/* ---- what somebody says of its own ------------------------------------------------ */

/*
 * Where views change a life begins sweeps here if it is in my view, for what is of a later one waits
 * until I have that; or if it brings a world, of which whoever reads it looks whether the life is in its
 * base. Anybody else could have as many sweeps, and lives, as it likes.
 */
bool cop__sweep_may_begin(const struct cop_node *node, cop_id initiator,
                          cop_incarnation incarnation, bool has_world)
{
    if (!cop__has_views(node))
        return cop_view_rank(node->view, initiator) != COP_RANK_NONE;
    return initiator < COP_MEMBERS_MAX &&
           (has_world || initiator == node->self ||
            cop_view_has(node->view, initiator, incarnation) ||
            cop__sweep_life_is_over(node, initiator, incarnation));
}

/*
 * Places are never taken back, so nobody whose view I know has more than I. Whoever proposes a world
 * uses the shape of all (V4), and how many places it has is compared with the proposal. Otherwise a few
 * bytes would make me walk 2^24 places.
 */
bool cop__sweep_is_too_large(const struct cop_node *node, const struct cop_tree *tree,
                             bool has_world)
{
    const struct cop_shape *own = cop_view_shape(node->view);
    if (!cop__has_views(node))
        return false;
    if (!has_world)
        return tree->n > cop_view_slots(node->view);
    return tree->shape.kind != own->kind || tree->shape.k != own->k ||
           tree->shape.inner != own->inner ||
           tree->n > (uint64_t)cop_view_slots(node->view) + 2 * COP__HOLES_MAX;
}
