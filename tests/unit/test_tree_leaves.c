/* SPDX-License-Identifier: Apache-2.0 */
#include "brief.h"
#include "tree_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * Ranks without a place inside: every shape and repair, every set of the dead and of leaves of
 * small trees, random ones of larger.
 */
#define PAIRS 4096u

/* Each leaf where the definition says, without children; all others as if it were dead. */
static void check_leaves(const struct cop_tree *tree)
{
    struct cop_tree whole = *tree, without = *tree;
    whole.dead = NULL;
    whole.leaf_count = without.leaf_count = 0;
    cop_rank *parents = tree_parents(tree);
    for (uint32_t i = 0; i < tree->leaf_count; i++) {
        cop_rank at = tree->leaves[i];
        do
            at = cop_tree_parent(&whole, at);
        while (at != COP_RANK_NONE && cop_dead_has(tree->dead, at));
        assert_int_equal(parents[tree->leaves[i]],
                         at == COP_RANK_NONE ? cop_tree_root(tree) : at);
        assert_int_equal(cop_tree_child_count(tree, tree->leaves[i]), 0);
    }
    for (cop_rank rank = 0; rank < tree->n; rank++)
        if (!cop_dead_has(tree->dead, rank))
            assert_int_equal(parents[rank], cop_tree_parent(&without, rank));
    free(parents);
}

static void check(struct cop_tree *tree, const cop_rank *outside,
                  uint32_t outside_count, const cop_rank *leaves, uint32_t leaf_count,
                  struct cop__random *random)
{
    struct cop_dead dead = {NULL, outside, outside_count};
    tree->dead = &dead;
    tree->leaves = leaves;
    tree->leaf_count = leaf_count;
    for (int repair = COP_REPAIR_SPLICE; repair <= COP_REPAIR_REBALANCE; repair++) {
        tree->repair = (enum cop_repair)repair;
        tree_check(tree, TREE_DEPTH_BOUND, PAIRS, random);
        check_leaves(tree);
    }
}

/* All ways in which each rank lives inside, is dead, or is a leaf; somebody is inside. */
static void check_all(struct cop_shape shape, uint32_t n, struct cop__random *random)
{
    uint32_t ways = 1;
    for (uint32_t i = 0; i < n; i++)
        ways *= 3;
    for (uint32_t way = 0; way < ways; way++) {
        cop_rank outside[8], leaves[8];
        uint32_t outside_count = 0, leaf_count = 0, rest = way;
        for (cop_rank rank = 0; rank < n; rank++, rest /= 3) {
            if (rest % 3 > 0)
                outside[outside_count++] = rank;
            if (rest % 3 == 2)
                leaves[leaf_count++] = rank;
        }
        for (cop_rank root = 0; root < n && outside_count < n; root++) {
            struct cop_tree tree = {.shape = shape, .n = n, .root = root};
            check(&tree, outside, outside_count, leaves, leaf_count, random);
        }
    }
}

static void test_every_small_tree(void **state)
{
    (void)state;
    static const char *const shapes[] = {"kary:2",    "kary:3", "radix:2",
                                         "knomial:2", "flat",   "chain"};
    const uint32_t most = brief() ? 5 : 6;
    struct cop__random random;
    cop__random_init(&random, 1);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t n = 1; n <= most; n++)
            check_all(tree_shape(shapes[i]), n, &random);
    for (int i = 0; i < 6; i++) {
        struct cop_shape table = tree_random_table(most, &random);
        struct cop_shape hosts = tree_random_hosts("kary:2", most, 3, &random);
        check_all(table, most, &random);
        check_all(hosts, most, &random);
        cop_shape_unref(&table);
        cop_shape_unref(&hosts);
    }
}

static void test_larger_trees(void **state)
{
    (void)state;
    static const char *const shapes[] = {"kary:3",    "radix:4", "knomial:2",
                                         "knomial:4", "flat",    "chain"};
    struct cop__random random;
    cop__random_init(&random, 2);
    for (int round = 0; round < (brief() ? 20 : 60); round++) {
        uint32_t n = 20 + (uint32_t)cop__random_below(&random, 120);
        cop_rank outside[140], leaves[140];
        uint32_t outside_count = 0, leaf_count = 0;
        cop_rank inside = (cop_rank)cop__random_below(&random, n);
        uint64_t rarity = 2 + cop__random_below(&random, 10);
        for (cop_rank rank = 0; rank < n; rank++) {
            bool is_out = rank != inside && cop__random_below(&random, rarity) == 0;
            if (is_out)
                outside[outside_count++] = rank;
            if (is_out && cop__random_below(&random, 2) == 0)
                leaves[leaf_count++] = rank;
        }
        struct cop_tree tree = {.n = n,
                                .root = (cop_rank)cop__random_below(&random, n)};
        tree.shape = tree_shape(shapes[round % 6]);
        check(&tree, outside, outside_count, leaves, leaf_count, &random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_tree),
        cmocka_unit_test(test_larger_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
