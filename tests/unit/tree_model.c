/* SPDX-License-Identifier: Apache-2.0 */
#include "tree_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TABLE_NAME_MAX 24

static void *need(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size);
    assert_non_null(memory);
    return memory;
}

static bool lives(const struct cop_tree *tree, cop_rank rank)
{
    for (uint32_t i = 0; i < tree->leaf_count; i++)
        if (tree->leaves[i] == rank)
            return true;
    return !cop_dead_has(tree->dead, rank);
}

cop_rank *tree_parents(const struct cop_tree *tree)
{
    cop_rank *parent = need(tree->n, sizeof(*parent));
    for (cop_rank rank = 0; rank < tree->n; rank++)
        parent[rank] = lives(tree, rank) ? cop_tree_parent(tree, rank) : COP_RANK_NONE;
    return parent;
}

/* Levels by climbing to the first known one; more steps than ranks are a cycle. */
static void measure_level(struct tree_model *model, cop_rank rank)
{
    uint32_t steps = 0;
    cop_rank at = rank;
    while (at != model->root && model->level[at] == 0) {
        at = model->parent[at];
        assert_true(at < model->n && ++steps < model->n);
    }
    uint32_t level = model->level[at] + steps;
    for (at = rank; steps-- > 0; at = model->parent[at])
        model->level[at] = level--;
}

/* From the deepest level up. */
static void measure_sizes(struct tree_model *model)
{
    uint32_t *count = need((size_t)model->n + 1, sizeof(*count));
    cop_rank *sorted = need(model->n, sizeof(*sorted));
    for (cop_rank rank = 0; rank < model->n; rank++)
        count[model->level[rank] + 1]++;
    for (uint32_t i = 0; i < model->n; i++)
        count[i + 1] += count[i];
    for (cop_rank rank = 0; rank < model->n; rank++)
        sorted[count[model->level[rank]]++] = rank;
    for (uint32_t i = model->n; i-- > 0;) {
        cop_rank rank = sorted[i];
        cop_rank parent = model->parent[rank];
        if (parent == COP_RANK_NONE)
            continue;
        model->size[parent] += model->size[rank];
        if (model->depth[parent] < model->depth[rank] + 1)
            model->depth[parent] = model->depth[rank] + 1;
    }
    free(sorted);
    free(count);
}

static struct tree_model model_of(const struct cop_tree *tree)
{
    struct tree_model model = {.n = tree->n, .root = cop_tree_root(tree)};
    model.parent = tree_parents(tree);
    model.level = need(tree->n, sizeof(uint32_t));
    model.size = need(tree->n, sizeof(uint32_t));
    model.depth = need(tree->n, sizeof(uint32_t));
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        if (!lives(tree, rank))
            continue;
        model.living++;
        model.size[rank] = model.depth[rank] = 1;
        if (rank == model.root) {
            assert_int_equal(model.parent[rank], COP_RANK_NONE);
            continue;
        }
        assert_true(model.parent[rank] < tree->n && model.parent[rank] != rank);
        assert_true(lives(tree, model.parent[rank]));
    }
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        if (lives(tree, rank))
            measure_level(&model, rank);
    }
    measure_sizes(&model);
    return model;
}

static void model_free(struct tree_model *model)
{
    free(model->parent);
    free(model->level);
    free(model->size);
    free(model->depth);
}

/* Strictly in order, so nobody is there twice. */
static uint32_t check_children(const struct cop_tree *tree,
                               const struct tree_model *model, cop_rank rank,
                               struct cop_ranks *children)
{
    assert_int_equal(cop_tree_children(tree, rank, children), 0);
    assert_int_equal(cop_tree_child_count(tree, rank), children->count);
    for (uint32_t i = 0; i < children->count; i++) {
        cop_rank child = children->items[i];
        assert_true(child < tree->n);
        assert_int_equal(model->parent[child], rank);
        if (i == 0)
            continue;
        uint32_t before = cop_tree_depth(tree, children->items[i - 1]);
        uint32_t depth = cop_tree_depth(tree, child);
        assert_true(before > depth ||
                    (before == depth && children->items[i - 1] > child));
    }
    return children->count;
}

static void check_ranks(const struct cop_tree *tree, const struct tree_model *model,
                        int depth)
{
    uint32_t edges = 0;
    struct cop_ranks children = {0};
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        if (!lives(tree, rank))
            continue;
        edges += check_children(tree, model, rank, &children);
        assert_int_equal(cop_tree_size(tree, rank), model->size[rank]);
        assert_int_equal(cop_tree_level(tree, rank), model->level[rank]);
        if (depth == TREE_DEPTH_EXACT)
            assert_int_equal(cop_tree_depth(tree, rank), model->depth[rank]);
        else
            assert_true(cop_tree_depth(tree, rank) >= model->depth[rank]);
    }
    assert_int_equal(edges, model->living - 1);
    assert_int_equal(model->size[model->root], model->living);
    cop_ranks_free(&children);
}

static bool model_is_below(const struct tree_model *model, cop_rank rank,
                           cop_rank ancestor)
{
    while (rank != ancestor && rank != COP_RANK_NONE)
        rank = model->parent[rank];
    return rank == ancestor;
}

/* One hop must go to a neighbour that is nearer; which of the two, is_below says. */
static void check_pair(const struct cop_tree *tree, const struct tree_model *model,
                       cop_rank from, cop_rank to)
{
    bool below = model_is_below(model, to, from);
    assert_int_equal(cop_tree_is_below(tree, to, from), below);
    cop_rank hop = cop_tree_next_hop(tree, from, to);
    if (from == to) {
        assert_int_equal(hop, to);
    } else if (below) {
        assert_true(hop < tree->n);
        assert_int_equal(model->parent[hop], from);
        assert_true(model_is_below(model, to, hop));
    } else {
        assert_int_equal(hop, model->parent[from]);
    }
}

static void check_route(const struct cop_tree *tree, const struct tree_model *model,
                        cop_rank from, cop_rank to)
{
    uint32_t limit = model->level[from] + model->level[to];
    for (; from != to; limit--) {
        assert_true(limit > 0);
        check_pair(tree, model, from, to);
        from = cop_tree_next_hop(tree, from, to);
    }
}

static void check_pairs(const struct cop_tree *tree, const struct tree_model *model,
                        uint32_t pairs, struct cop__random *random)
{
    if ((uint64_t)tree->n * tree->n <= pairs) {
        for (uint32_t i = 0; i < tree->n * tree->n; i++) {
            cop_rank from = i / tree->n;
            cop_rank to = i % tree->n;
            if (lives(tree, from) && lives(tree, to))
                check_pair(tree, model, from, to);
        }
        return;
    }
    for (uint32_t i = 0; i < pairs; i++) {
        cop_rank from = (cop_rank)cop__random_below(random, tree->n);
        cop_rank to = (cop_rank)cop__random_below(random, tree->n);
        if (!lives(tree, from) || !lives(tree, to))
            continue;
        check_pair(tree, model, from, to);
        if (i % 16 == 0)
            check_route(tree, model, from, to);
    }
}

void tree_check(const struct cop_tree *tree, int depth, uint32_t pairs,
                struct cop__random *random)
{
    assert_int_equal(cop_tree_check(tree), 0);
    cop_rank root = cop_tree_root(tree);
    if (root == COP_RANK_NONE) {
        assert_int_equal(cop_dead_count(tree->dead), tree->n);
        return;
    }
    assert_true(root < tree->n && !cop_dead_has(tree->dead, root));
    if (!cop_dead_has(tree->dead, tree->root))
        assert_int_equal(root, tree->root);
    struct tree_model model = model_of(tree);
    check_ranks(tree, &model, depth);
    check_pairs(tree, &model, pairs, random);
    model_free(&model);
}

/* Written as a topology file: rank 0 above all, each other below one before it. */
struct cop_shape tree_random_table(uint32_t n, struct cop__random *random)
{
    char message[256];
    struct cop_shape shape;
    uint32_t count;
    char *text = need((size_t)n + 1, 2 * TABLE_NAME_MAX);
    size_t length = 0;
    /* Small ones may be as deep as a chain. Large ones are as flat as people make them.
     *  */
    uint32_t reach =
        (1 + (uint32_t)cop__random_below(random, 8)) * (n < 40 ? 1 : n / 8);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t low = i > reach ? i - reach : 0;
        uint32_t parent = low + (uint32_t)cop__random_below(random, i - low);
        length += (size_t)snprintf(text + length, 2 * TABLE_NAME_MAX, "h:%u => h:%u;\n",
                                   parent, i);
    }
    assert_true(n > 1);
    int error =
        cop_shape_from_topology(text, length, &shape, &count, message, sizeof(message));
    assert_int_equal(error, 0);
    assert_int_equal(count, n);
    free(text);
    return shape;
}

struct cop_shape tree_random_hosts(const char *leaders, uint32_t n, uint32_t hosts,
                                   struct cop__random *random)
{
    struct cop_shape inner = tree_shape(leaders);
    struct cop_shape shape;
    uint32_t *host_of = need(n, sizeof(*host_of));
    for (uint32_t i = 0; i < n; i++)
        host_of[i] = (uint32_t)cop__random_below(random, hosts) * 1000003U;
    assert_int_equal(cop_shape_from_hosts(&inner, host_of, n, &shape), 0);
    free(host_of);
    return shape;
}

struct cop_shape tree_shape(const char *text)
{
    char message[256] = "";
    struct cop_shape shape;
    if (cop_shape_parse(text, &shape, message, sizeof(message)) != 0)
        fail_msg("%s", message);
    return shape;
}
