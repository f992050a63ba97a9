/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/repair.h"

/*
 * The order of sends. Shapes list their children nearly in it, so mostly there is
 * nothing to do; the rest is a heap sort, which needs no memory and no stack.
 */

static bool is_before(const struct cop_tree *tree, cop_rank a, cop_rank b)
{
    uint32_t depth_a = cop_tree_depth(tree, a);
    uint32_t depth_b = cop_tree_depth(tree, b);
    return depth_a > depth_b || (depth_a == depth_b && a > b);
}

/* The first index whose item should be before the one to its left; `count` if none. */
static uint32_t first_out_of_order(const struct cop_tree *tree, const cop_rank *items,
                                   uint32_t count)
{
    uint32_t depth = count == 0 ? 0 : cop_tree_depth(tree, items[0]);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t next = cop_tree_depth(tree, items[i]);
        if (next > depth || (next == depth && items[i] > items[i - 1]))
            return i;
        depth = next;
    }
    return count;
}

static void swap(cop_rank *a, cop_rank *b)
{
    cop_rank held = *a;
    *a = *b;
    *b = held;
}

/*
 * Rank 0 is where the root would be, and the only one out of order as a rule. Moving it is
 * linear, and a flat tree of a million would feel the difference.
 */
static uint32_t move_right(const struct cop_tree *tree, cop_rank *items, uint32_t count,
                           uint32_t out)
{
    for (uint32_t at = out - 1;
         at + 1 < count && is_before(tree, items[at + 1], items[at]); at++)
        swap(&items[at], &items[at + 1]);
    return first_out_of_order(tree, items, count);
}

/* And who is to leave is listed after all others, whatever its rank is. */
static uint32_t move_left(const struct cop_tree *tree, cop_rank *items, uint32_t count,
                          uint32_t out)
{
    for (uint32_t at = out; at > 0 && is_before(tree, items[at], items[at - 1]); at--)
        swap(&items[at - 1], &items[at]);
    return first_out_of_order(tree, items, count);
}

/* Lets the item at `at` sink; the last in order is on top of the heap. */
static void sink(const struct cop_tree *tree, cop_rank *items, uint32_t count,
                 uint32_t at)
{
    for (uint32_t below; (below = at * 2 + 1) < count; at = below) {
        if (below + 1 < count && is_before(tree, items[below], items[below + 1]))
            below++;
        if (!is_before(tree, items[at], items[below]))
            return;
        swap(&items[at], &items[below]);
    }
}

static void heap_sort(const struct cop_tree *tree, cop_rank *items, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sink(tree, items, count, i);
    while (count > 1) {
        swap(&items[0], &items[--count]);
        sink(tree, items, count, 0);
    }
}

void cop__order_children(const struct cop_tree *tree, struct cop_ranks *ranks)
{
    uint32_t count = ranks->count;
    uint32_t out = first_out_of_order(tree, ranks->items, count);
    if (out != count)
        out = move_right(tree, ranks->items, count, out);
    if (out != count)
        out = move_left(tree, ranks->items, count, out);
    if (out != count)
        heap_sort(tree, ranks->items, count);
}
