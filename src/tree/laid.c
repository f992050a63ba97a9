/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/laid.h"

#include "tree/living.h"

static struct cop__laid lay(const struct cop_tree *tree)
{
    const struct cop__shape_row *row = cop__shape_row(tree->shape.kind);
    struct cop__laid laid = {
        .layout = {.n = tree->n, .k = tree->shape.k, .shape = &tree->shape},
        .ops = row->ops,
    };
    return laid;
}

static bool has_table(const struct cop_tree *tree)
{
    return cop__shape_row(tree->shape.kind)->has_table;
}

struct cop__laid cop__lay_all(const struct cop_tree *tree)
{
    struct cop__laid laid = lay(tree);
    if (has_table(tree))
        laid.layout.root = tree->root;
    else
        laid.origin = tree->root;
    return laid;
}

struct cop__laid cop__lay_living(const struct cop_tree *tree)
{
    if (cop_dead_count(tree->dead) == 0)
        return cop__lay_all(tree);
    struct cop__laid laid = lay(tree);
    cop_rank root = cop__stand_in(tree);
    if (has_table(tree)) {
        laid.layout.root = root;
        laid.layout.dead = tree->dead;
    } else {
        laid.layout.n = cop__living_count(tree->dead, tree->n);
        laid.origin = root - cop_dead_below(tree->dead, root);
        laid.unnumbered = tree->dead;
    }
    return laid;
}

/* The root and number 0 change places; everybody else is where its number says. */
static uint32_t swap(const struct cop__laid *laid, uint32_t number)
{
    if (number == laid->origin)
        return 0;
    return number == 0 ? laid->origin : number;
}

cop_rank cop__place_of(const struct cop__laid *laid, cop_rank rank)
{
    return swap(laid, rank - cop_dead_below(laid->unnumbered, rank));
}

cop_rank cop__rank_at(const struct cop__laid *laid, cop_rank place)
{
    if (place == COP_RANK_NONE)
        return COP_RANK_NONE;
    return cop__living_select(laid->unnumbered, swap(laid, place));
}

cop_rank cop__stand_in(const struct cop_tree *tree)
{
    if (!cop_dead_has(tree->dead, tree->root))
        return tree->root;
    if (cop__living_count(tree->dead, tree->n) == 0)
        return COP_RANK_NONE;
    return cop__living_select(tree->dead, 0);
}

static bool is_in(const struct cop__span *span, cop_rank place)
{
    return span->first <= place && place <= span->last;
}

/* The dead among the ranks at consecutive places: those of the same numbers, but where only
 * one of the two that changed places is among them. */
static uint32_t dead_in(const struct cop__laid *laid, const struct cop_dead *dead,
                        const struct cop__span *span)
{
    uint32_t count =
        cop_dead_below(dead, span->last + 1) - cop_dead_below(dead, span->first);
    bool has_top = is_in(span, 0), has_other = is_in(span, laid->origin);
    if (has_top == has_other)
        return count;
    cop_rank in = has_top ? laid->origin : 0, out = has_top ? 0 : laid->origin;
    return count + cop_dead_has(dead, in) - cop_dead_has(dead, out);
}

static uint32_t dead_below_one_by_one(const struct cop__laid *laid,
                                      const struct cop_dead *dead, cop_rank place)
{
    uint32_t count = 0;
    struct cop__dead_walk walk = {dead, 0, 0};
    cop_rank rank;
    while ((rank = cop__dead_next(&walk)) < laid->layout.n)
        count += laid->ops->is_below(&laid->layout, cop__place_of(laid, rank), place);
    return count;
}

uint32_t cop__living_below(const struct cop__laid *laid, const struct cop_dead *dead,
                           cop_rank place)
{
    uint32_t size = laid->ops->size(&laid->layout, place);
    uint32_t count = 0;
    struct cop__span span = {0};
    if (size == 1)
        return cop_dead_has(dead, cop__rank_at(laid, place)) ? 0 : 1;
    if (laid->ops->next_span == NULL)
        return size - dead_below_one_by_one(laid, dead, place);
    while (laid->ops->next_span(&laid->layout, place, &span))
        count += dead_in(laid, dead, &span);
    return size - count;
}
