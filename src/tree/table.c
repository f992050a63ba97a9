/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/table.h"

#include <stdlib.h>

#include "base/assert.h"
#include "tree/shape.h"

/*
 * A tree as a topology file gave it, hung up by any of its ranks. With root R other
 * than 0 the edges on the way from R to 0 are turned round, and nothing else changes:
 *
 *   - a rank is *on the way* if R is below it or is it, in the file's tree;
 *   - a rank on the way has its file parent as a child (if it has one), and the child
 *     through which R is reached as its parent (R has none);
 *   - all others are as in the file.
 *
 * In what follows `file_` means: in the tree of the file, with root 0.
 */

struct cop_shape_table *cop__table_create(uint32_t n, size_t words)
{
    struct cop_shape_table *table;
    if (words > (SIZE_MAX - sizeof(*table)) / sizeof(uint32_t))
        return NULL;
    table = calloc(1, sizeof(*table) + words * sizeof(uint32_t));
    if (table == NULL)
        return NULL;
    atomic_init(&table->refs, 1);
    table->n = n;
    return table;
}

void cop_shape_ref(const struct cop_shape *shape)
{
    if (shape->table == NULL)
        return;
    unsigned refs =
        atomic_fetch_add_explicit(&shape->table->refs, 1, memory_order_relaxed);
    COP_ASSERT(refs > 0 && refs < UINT32_MAX);
}

void cop_shape_unref(const struct cop_shape *shape)
{
    struct cop_shape_table *table = shape->table;
    if (table == NULL)
        return;
    unsigned refs = atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel);
    COP_ASSERT(refs > 0);
    if (refs > 1)
        return;
    if (shape->kind == COP_SHAPE_TABLE)
        free(table->as.file.labels);
    free(table);
}

const char *cop_shape_label(const struct cop_shape *shape, cop_rank rank)
{
    const struct cop_shape_table *table = shape->table;
    if (shape->kind != COP_SHAPE_TABLE || table == NULL || rank >= table->n)
        return NULL;
    return table->as.file.labels + table->as.file.label_at[rank];
}

/* ---- the tree of the file -------------------------------------------------------- */

static bool file_next_span(const struct cop_shape_table *table, cop_rank rank,
                           struct cop__span *span)
{
    const cop_rank *first = table->as.file.first;
    cop_rank low = span->step == 0 ? rank : first[span->first];
    cop_rank end = span->step == 0 ? rank + 1 : first[span->last + 1];
    if (low == end)
        return false;
    span->step++;
    span->first = low;
    span->last = end - 1;
    return true;
}

static bool file_is_below(const struct cop_shape_table *table, cop_rank rank,
                          cop_rank ancestor)
{
    struct cop__span span = {0};
    while (file_next_span(table, ancestor, &span)) {
        if (rank <= span.last)
            return rank >= span.first;
    }
    return false;
}

static uint32_t file_size(const struct cop_shape_table *table, cop_rank rank)
{
    uint32_t size = 0;
    struct cop__span span = {0};
    while (file_next_span(table, rank, &span))
        size += span.last - span.first + 1;
    return size;
}

static cop_rank file_child_towards(const struct cop_shape_table *table,
                                   cop_rank ancestor, cop_rank rank)
{
    while (table->as.file.parent[rank] != ancestor)
        rank = table->as.file.parent[rank];
    return rank;
}

/* ---- hung up by the root --------------------------------------------------------- */

/* How a rank differs from the file: the child that is now its parent, and the parent
 * that is now a child; NONE where it does not. */
struct turn {
    bool on_way;
    cop_rank parent;
    cop_rank child;
};

static struct turn turn_at(const struct cop__layout *at, cop_rank rank)
{
    const struct cop_shape_table *table = at->shape->table;
    struct turn turn = {false, COP_RANK_NONE, COP_RANK_NONE};
    if (!file_is_below(table, at->root, rank))
        return turn;
    turn.on_way = true;
    turn.child = table->as.file.parent[rank];
    if (rank != at->root)
        turn.parent = file_child_towards(table, rank, at->root);
    return turn;
}

static cop_rank parent(const struct cop__layout *at, cop_rank place)
{
    struct turn turn = turn_at(at, place);
    return turn.on_way ? turn.parent : at->shape->table->as.file.parent[place];
}

static uint32_t deepest_but(const struct cop_shape_table *table, cop_rank rank,
                            cop_rank child)
{
    uint32_t deepest = table->as.file.depth[rank] - 1;
    if (child != COP_RANK_NONE && table->as.file.depth[child] == deepest)
        return table->as.file.second[rank];
    return deepest;
}

/* On the way, the deepest path goes up as far as it likes and then down another branch.
 *  */
static uint32_t depth(const struct cop__layout *at, cop_rank place)
{
    const struct cop_shape_table *table = at->shape->table;
    struct turn turn = turn_at(at, place);
    if (!turn.on_way)
        return table->as.file.depth[place];
    uint32_t deepest = 0;
    cop_rank from = turn.parent;
    for (uint32_t up = 1; place != COP_RANK_NONE; up++) {
        uint32_t here = up + deepest_but(table, place, from);
        deepest = here > deepest ? here : deepest;
        from = place;
        place = table->as.file.parent[place];
    }
    return deepest;
}

static uint32_t size(const struct cop__layout *at, cop_rank place)
{
    const struct cop_shape_table *table = at->shape->table;
    struct turn turn = turn_at(at, place);
    if (!turn.on_way)
        return file_size(table, place);
    return turn.parent == COP_RANK_NONE ? at->n : at->n - file_size(table, turn.parent);
}

/* Of two ranks the higher cannot be above the other, so it may climb. */
static uint32_t level(const struct cop__layout *at, cop_rank place)
{
    const cop_rank *parents = at->shape->table->as.file.parent;
    uint32_t steps = 0;
    for (cop_rank other = at->root; place != other; steps++) {
        if (place > other)
            place = parents[place];
        else
            other = parents[other];
    }
    return steps;
}

static bool is_below(const struct cop__layout *at, cop_rank place, cop_rank ancestor)
{
    const struct cop_shape_table *table = at->shape->table;
    struct turn turn = turn_at(at, ancestor);
    if (!turn.on_way)
        return file_is_below(table, place, ancestor);
    return turn.parent == COP_RANK_NONE || !file_is_below(table, place, turn.parent);
}

static cop_rank child_towards(const struct cop__layout *at, cop_rank ancestor,
                              cop_rank place)
{
    const struct cop_shape_table *table = at->shape->table;
    if (file_is_below(table, place, ancestor))
        return file_child_towards(table, ancestor, place);
    return table->as.file.parent[ancestor];
}

/* The next part of what lies between the spans of the sub-tree that is left out. */
static bool next_gap(const struct cop_shape_table *table, struct cop__span *span)
{
    while (span->out_first != COP_RANK_NONE) {
        cop_rank low = span->out_last + 1;
        cop_rank next = table->as.file.first[span->out_first];
        cop_rank end = table->as.file.first[span->out_last + 1];
        cop_rank high = next == end ? table->n : next;
        span->out_first = next == end ? COP_RANK_NONE : next;
        span->out_last = end - 1;
        if (low < high) {
            span->first = low;
            span->last = high - 1;
            return true;
        }
    }
    return false;
}

/* On the way, a sub-tree is all but the file's sub-tree of the rank that is its parent
 * now. That one is not 0, so the first gap is not empty. */
static bool next_span(const struct cop__layout *at, cop_rank place,
                      struct cop__span *span)
{
    const struct cop_shape_table *table = at->shape->table;
    if (span->step > 0)
        return span->by_gaps ? next_gap(table, span)
                             : file_next_span(table, place, span);
    struct turn turn = turn_at(at, place);
    if (!turn.on_way)
        return file_next_span(table, place, span);
    span->step = 1;
    span->by_gaps = true;
    span->out_first = span->out_last = turn.parent;
    span->first = 0;
    span->last = (turn.parent == COP_RANK_NONE ? at->n : turn.parent) - 1;
    return true;
}

/* ---- children -------------------------------------------------------------------- */

static uint32_t child_count(const struct cop__layout *at, cop_rank place)
{
    const cop_rank *first = at->shape->table->as.file.first;
    struct turn turn = turn_at(at, place);
    return first[place + 1] - first[place] - (turn.parent != COP_RANK_NONE) +
           (turn.child != COP_RANK_NONE);
}

static bool is_before(const struct cop__layout *at, cop_rank a, cop_rank b)
{
    uint32_t depth_a = depth(at, a);
    uint32_t depth_b = depth(at, b);
    return depth_a > depth_b || (depth_a == depth_b && a > b);
}

/* The first child in the file's order, from a slot on, that has not become the parent.
 *  */
static cop_rank file_child_from(const struct cop_shape_table *table, cop_rank rank,
                                uint32_t slot, cop_rank skip)
{
    uint32_t end = table->as.file.first[rank + 1];
    if (slot < end && table->as.file.order[slot] == skip)
        slot++;
    return slot < end ? table->as.file.order[slot] : COP_RANK_NONE;
}

/* The turned edge's child comes after those that are before it, and only once. */
static cop_rank first_child(const struct cop__layout *at, cop_rank place)
{
    const struct cop_shape_table *table = at->shape->table;
    struct turn turn = turn_at(at, place);
    cop_rank child =
        file_child_from(table, place, table->as.file.first[place], turn.parent);
    if (turn.child == COP_RANK_NONE)
        return child;
    return child != COP_RANK_NONE && is_before(at, child, turn.child) ? child
                                                                      : turn.child;
}

static cop_rank next_child(const struct cop__layout *at, cop_rank place, cop_rank child)
{
    const struct cop_shape_table *table = at->shape->table;
    struct turn turn = turn_at(at, place);
    uint32_t slot = table->as.file.first[place];
    if (child != turn.child)
        slot = table->as.file.slot[child] + 1;
    cop_rank next = file_child_from(table, place, slot, turn.parent);
    if (turn.child == COP_RANK_NONE)
        return next;
    if (child == turn.child) {
        while (next != COP_RANK_NONE && is_before(at, next, child))
            next = file_child_from(table, place, table->as.file.slot[next] + 1,
                                   turn.parent);
        return next;
    }
    bool turn_is_next = is_before(at, child, turn.child) &&
                        (next == COP_RANK_NONE || is_before(at, turn.child, next));
    return turn_is_next ? turn.child : next;
}

const struct cop__shape_ops cop__table_ops = {
    .parent = parent,
    .first_child = first_child,
    .next_child = next_child,
    .child_count = child_count,
    .size = size,
    .depth = depth,
    .level = level,
    .is_below = is_below,
    .child_towards = child_towards,
    .next_span = next_span,
};
