/* SPDX-License-Identifier: Apache-2.0 */
/* Below whom I come if my parent dies. */
#include "detect/heir.h"

#include <stdlib.h>
#include <string.h>

#include "roster/roster.h"

/* The dead and one more. 0 or COP_ENOMEM; `extra` is to be freed. */
static int add_death(const struct cop_dead *dead, cop_rank rank, struct cop_dead *out,
                     cop_rank **extra)
{
    uint32_t below = 0, count = dead ? dead->extra_count : 0;
    cop_rank *items = malloc((count + 1) * sizeof *items);
    if (!items)
        return COP_ENOMEM;
    while (below < count && dead->extra[below] < rank)
        below++;
    if (count > 0) {
        memcpy(items, dead->extra, below * sizeof *items);
        memcpy(items + below + 1, dead->extra + below, (count - below) * sizeof *items);
    }
    items[below] = rank;
    *out = (struct cop_dead){dead ? dead->base : NULL, items, count + 1};
    *extra = items;
    return 0;
}

int cop__heir(const struct cop_node *node, struct cop__heir *out)
{
    struct cop_tree tree = cop__roster_tree(node);
    struct cop_dead dead;
    cop_rank *extra;
    *out = (struct cop__heir){COP_ID_NONE, 0};
    if (cop__roster_is_suspect(node, node->self))
        return 0;
    cop_rank parent = cop_tree_parent(&tree, node->rank);
    if (parent == COP_RANK_NONE)
        return 0;
    struct cop_tree now = tree;
    int error = add_death(tree.dead, parent, &dead, &extra);
    if (error)
        return error;
    tree.dead = &dead;
    cop_rank heir = COP_RANK_NONE;
    if (cop_dead_count(&dead) < tree.n)
        heir = cop_tree_parent(&tree, node->rank);
    if (heir != COP_RANK_NONE) {
        out->id = cop_view_id(node->view, heir);
        out->crowd =
            cop_tree_child_count(&now, parent) * cop_tree_child_count(&now, heir);
    }
    free(extra);
    return 0;
}
