/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>
#include <coppice/tree.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "tree_model.h"

/* Trees in which nobody is dead. What is done to the dead is in test_tree_repair.c. */

static const char *const plain_shapes[] = {
    "kary:2",    "kary:3",    "kary:7",    "radix:2",    "radix:4", "radix:16",
    "knomial:2", "knomial:3", "knomial:4", "knomial:10", "flat",    "chain",
};
#define PLAIN_COUNT (sizeof(plain_shapes) / sizeof(plain_shapes[0]))

#define N_MAX 300
#define EVERY_ROOT_UP_TO                                                               \
    28 /* above, three roots of each n: all would be quadratic twice */
#define ALL_PAIRS_UP_TO (24 * 24)

static struct cop_tree tree_of(const char *shape, uint32_t n, cop_rank root)
{
    struct cop_tree tree = {.shape = tree_shape(shape), .n = n, .root = root};
    return tree;
}

static uint32_t roots_of(uint32_t n) { return n <= EVERY_ROOT_UP_TO ? n : 3; }

static cop_rank root_of(uint32_t n, uint32_t i, struct cop__random *random)
{
    if (n <= EVERY_ROOT_UP_TO || i == 0)
        return i;
    return i == 1 ? n - 1 : (cop_rank)cop__random_below(random, n);
}

/* ---- the properties -------------------------------------------------------------- */

static void every_plain_shape_is_a_tree(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 1);
    for (size_t s = 0; s < PLAIN_COUNT; s++) {
        for (uint32_t n = 1; n <= N_MAX; n++) {
            for (uint32_t i = 0; i < roots_of(n); i++) {
                cop_rank root = root_of(n, i, &random);
                struct cop_tree tree = tree_of(plain_shapes[s], n, root);
                tree_check(&tree, TREE_DEPTH_EXACT, ALL_PAIRS_UP_TO, &random);
            }
        }
    }
}

static void every_table_can_be_hung_up_by_any_rank(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 2);
    for (uint32_t n = 2; n <= N_MAX; n += n < 40 ? 1 : 7) {
        struct cop_tree tree = {.shape = tree_random_table(n, &random), .n = n};
        for (uint32_t i = 0; i < roots_of(n); i++) {
            tree.root = root_of(n, i, &random);
            tree_check(&tree, TREE_DEPTH_EXACT, ALL_PAIRS_UP_TO, &random);
        }
        cop_shape_unref(&tree.shape);
    }
}

static void every_assignment_to_hosts_is_a_tree(void **state)
{
    static const char *const leaders[] = {"radix:4", "binomial", "kary:3", "chain",
                                          "flat"};
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 3);
    for (uint32_t n = 1; n <= N_MAX; n += n < 40 ? 1 : 7) {
        uint32_t hosts = 1 + (uint32_t)cop__random_below(&random, n);
        struct cop_tree tree = {
            .shape = tree_random_hosts(leaders[n % 5], n, hosts, &random), .n = n};
        for (uint32_t i = 0; i < roots_of(n); i++) {
            tree.root = root_of(n, i, &random);
            tree_check(&tree, TREE_DEPTH_BOUND, ALL_PAIRS_UP_TO, &random);
        }
        cop_shape_unref(&tree.shape);
    }
}

/* What can be asked of one rank among a million without asking all. */
static void check_neighbourhood(const struct cop_tree *tree, cop_rank rank,
                                struct cop_ranks *children)
{
    uint32_t size = 1;
    uint32_t deepest = 0;
    assert_int_equal(cop_tree_children(tree, rank, children), 0);
    for (uint32_t i = 0; i < children->count; i++) {
        cop_rank child = children->items[i];
        uint32_t depth = cop_tree_depth(tree, child);
        assert_int_equal(cop_tree_parent(tree, child), rank);
        assert_int_equal(cop_tree_level(tree, child), cop_tree_level(tree, rank) + 1);
        assert_true(i == 0 || depth <= cop_tree_depth(tree, children->items[i - 1]));
        deepest = depth > deepest ? depth : deepest;
        size += cop_tree_size(tree, child);
    }
    assert_int_equal(cop_tree_size(tree, rank), size);
    assert_int_equal(cop_tree_depth(tree, rank), deepest + 1);
    assert_int_equal(cop_tree_child_count(tree, rank), children->count);
}

static void check_far_hop(const struct cop_tree *tree, cop_rank from, cop_rank to)
{
    uint32_t limit = cop_tree_level(tree, from) + cop_tree_level(tree, to);
    for (; from != to; limit--) {
        assert_true(limit > 0);
        from = cop_tree_next_hop(tree, from, to);
    }
}

static void large_trees_agree_with_themselves(void **state)
{
    (void)state;
    struct cop__random random;
    struct cop_ranks children = {0};
    cop__random_init(&random, 4);
    for (uint32_t round = 0; round < 400; round++) {
        const char *shape = plain_shapes[round % PLAIN_COUNT];
        uint32_t n = 301 + (uint32_t)cop__random_below(&random, COP_MEMBERS_MAX - 301);
        cop_rank root = (cop_rank)cop__random_below(&random, n);
        struct cop_tree tree = tree_of(shape, n, root);
        bool walks = tree.shape.kind != COP_SHAPE_CHAIN;
        assert_int_equal(cop_tree_size(&tree, root), n);
        if (tree.shape.kind != COP_SHAPE_FLAT)
            check_neighbourhood(&tree, root, &children);
        for (uint32_t i = 0; i < 20; i++) {
            cop_rank a = (cop_rank)cop__random_below(&random, n);
            cop_rank b = (cop_rank)cop__random_below(&random, n);
            if (a != root)
                check_neighbourhood(&tree, a, &children);
            if (walks)
                check_far_hop(&tree, a, b);
        }
    }
    cop_ranks_free(&children);
}

/* Shift and mask give what division gives. */
static void radix_is_kary(void **state)
{
    (void)state;
    struct cop_ranks a = {0};
    struct cop_ranks b = {0};
    struct cop_tree radix = tree_of("radix:8", 1000, 17);
    struct cop_tree kary = tree_of("kary:8", 1000, 17);
    for (cop_rank rank = 0; rank < 1000; rank++) {
        cop_rank to = (rank * 37 + 5) % 1000;
        assert_int_equal(cop_tree_parent(&radix, rank), cop_tree_parent(&kary, rank));
        assert_int_equal(cop_tree_level(&radix, rank), cop_tree_level(&kary, rank));
        assert_int_equal(cop_tree_next_hop(&radix, rank, to),
                         cop_tree_next_hop(&kary, rank, to));
        assert_int_equal(cop_tree_children(&radix, rank, &a), 0);
        assert_int_equal(cop_tree_children(&kary, rank, &b), 0);
        assert_int_equal(a.count, b.count);
        if (a.count > 0)
            assert_memory_equal(a.items, b.items, a.count * sizeof(*a.items));
    }
    cop_ranks_free(&a);
    cop_ranks_free(&b);
}

/* ---- the figures of the DAOS server collectives design --------------------------- */

struct family {
    cop_rank parent;
    cop_rank children[8]; /* in the order of sends, ended by NONE */
};
#define NO COP_RANK_NONE

static void check_figure(const char *shape, uint32_t n, const struct family *figure,
                         uint32_t count)
{
    struct cop_tree tree = tree_of(shape, n, 0);
    struct cop_ranks children = {0};
    uint32_t with_children = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(cop_tree_children(&tree, figure[i].parent, &children), 0);
        uint32_t expected = 0;
        for (; figure[i].children[expected] != NO; expected++) {
            assert_true(expected < children.count);
            assert_int_equal(children.items[expected], figure[i].children[expected]);
        }
        assert_int_equal(children.count, expected);
    }
    for (cop_rank rank = 0; rank < n; rank++)
        with_children += cop_tree_child_count(&tree, rank) > 0;
    assert_int_equal(with_children, count);
    cop_ranks_free(&children);
}

static void binomial_of_16_is_as_drawn(void **state)
{
    static const struct family figure[] = {
        {0, {8, 4, 2, 1, NO}}, {8, {12, 10, 9, NO}}, {4, {6, 5, NO}},
        {12, {14, 13, NO}},    {2, {3, NO}},         {6, {7, NO}},
        {10, {11, NO}},        {14, {15, NO}},
    };
    (void)state;
    check_figure("binomial", 16, figure, 8);
}

static void partial_binomial_of_14_is_as_drawn(void **state)
{
    /* 12 has 13 only, so it is no deeper than 10, and comes first by its rank. */
    static const struct family figure[] = {
        {0, {8, 4, 2, 1, NO}}, {8, {12, 10, 9, NO}}, {4, {6, 5, NO}}, {12, {13, NO}},
        {2, {3, NO}},          {6, {7, NO}},         {10, {11, NO}},
    };
    (void)state;
    check_figure("binomial", 14, figure, 7);
}

static void quadnomial_of_16_is_as_drawn(void **state)
{
    static const struct family figure[] = {
        {0, {12, 8, 4, 3, 2, 1, NO}},
        {12, {15, 14, 13, NO}},
        {8, {11, 10, 9, NO}},
        {4, {7, 6, 5, NO}},
    };
    (void)state;
    check_figure("knomial:4", 16, figure, 4);
}

static void complete_3ary_of_12_is_as_drawn(void **state)
{
    static const struct family figure[] = {
        {0, {3, 2, 1, NO}}, {1, {6, 5, 4, NO}}, {2, {9, 8, 7, NO}}, {3, {11, 10, NO}}};
    (void)state;
    check_figure("kary:3", 12, figure, 4);
}

/* A higher rank is not always deeper. */
static void depth_comes_before_rank(void **state)
{
    static const struct family kary[] = {{0, {1, 3, 2, NO}}, {1, {4, NO}}};
    static const struct family binomial[] = {
        {0, {4, 2, 8, 1, NO}}, {4, {6, 5, NO}}, {2, {3, NO}}, {6, {7, NO}}};
    (void)state;
    check_figure("kary:3", 5, kary, 2);
    check_figure("binomial", 9, binomial, 4);
}

/* ---- what the order is for ------------------------------------------------------- */

/* When the last rank has the message, if a send takes one step and arrives with it. */
static uint32_t makespan(const struct cop_tree *tree, bool backwards)
{
    uint32_t *got_at = calloc(tree->n, sizeof(*got_at));
    cop_rank *queue = calloc(tree->n, sizeof(*queue));
    struct cop_ranks children = {0};
    uint32_t last = 0;
    uint32_t known = 1;
    assert_true(got_at != NULL && queue != NULL);
    queue[0] = cop_tree_root(tree);
    for (uint32_t i = 0; i < known; i++) {
        assert_int_equal(cop_tree_children(tree, queue[i], &children), 0);
        for (uint32_t sent = 0; sent < children.count; sent++) {
            cop_rank child =
                children.items[backwards ? children.count - 1 - sent : sent];
            got_at[child] = got_at[queue[i]] + sent + 1;
            last = got_at[child] > last ? got_at[child] : last;
            queue[known++] = child;
        }
    }
    assert_int_equal(known, tree->n);
    cop_ranks_free(&children);
    free(queue);
    free(got_at);
    return last;
}

static void binomial_broadcast_to_1000_takes_10_steps(void **state)
{
    (void)state;
    struct cop_tree tree = tree_of("binomial", 1000, 0);
    assert_int_equal(makespan(&tree, false), 10);
    assert_true(makespan(&tree, true) > 10);
    tree.root = 777;
    assert_int_equal(makespan(&tree, false), 10);
    struct cop_tree full = tree_of("binomial", 1024, 0);
    assert_int_equal(makespan(&full, false), 10);
}

/* ---- hosts ----------------------------------------------------------------------- */

static struct cop_tree eight_on_three_hosts(cop_rank root)
{
    static const uint32_t host_of[] = {7, 7, 7, 4, 4, 9, 9, 9};
    struct cop_shape leaders = tree_shape("binomial");
    struct cop_tree tree = {.n = 8, .root = root};
    assert_int_equal(cop_shape_from_hosts(&leaders, host_of, 8, &tree.shape), 0);
    return tree;
}

static void lowest_rank_leads_its_host(void **state)
{
    (void)state;
    struct cop_tree tree = eight_on_three_hosts(0);
    static const cop_rank parents[] = {NO, 0, 0, 0, 3, 0, 5, 5};
    for (cop_rank rank = 0; rank < 8; rank++)
        assert_int_equal(cop_tree_parent(&tree, rank), parents[rank]);
    cop_shape_unref(&tree.shape);
}

static void root_leads_its_own_host(void **state)
{
    (void)state;
    struct cop_tree tree = eight_on_three_hosts(4);
    /* Its host comes first, then that of 5, then that of 0. */
    static const cop_rank parents[] = {4, 0, 0, 4, NO, 4, 5, 5};
    for (cop_rank rank = 0; rank < 8; rank++)
        assert_int_equal(cop_tree_parent(&tree, rank), parents[rank]);
    cop_shape_unref(&tree.shape);
}

/* ---- limits ---------------------------------------------------------------------- */

static void check_refuses_what_is_no_tree(void **state)
{
    (void)state;
    struct cop_tree tree = tree_of("kary:2", 3, 0);
    assert_int_equal(cop_tree_check(&tree), 0);
    tree.root = 3;
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
    tree = tree_of("kary:2", 0, 0);
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
    tree = tree_of("kary:2", COP_MEMBERS_MAX, 0);
    assert_int_equal(cop_tree_check(&tree), 0);
    tree.n++;
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
    tree = tree_of("radix:4", 3, 0);
    tree.shape.k = 6;
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
    tree = tree_of("flat", 3, 0);
    tree.shape.kind = (enum cop_shape_kind)99;
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
    tree = tree_of("flat", 3, 0);
    tree.repair = (enum cop_repair)7;
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
}

static void check_refuses_a_table_that_does_not_fit(void **state)
{
    (void)state;
    struct cop_tree tree = eight_on_three_hosts(0);
    assert_int_equal(cop_tree_check(&tree), 0);
    tree.n = 7;
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
    tree.n = 8;
    tree.shape.inner = COP_SHAPE_TABLE;
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
    tree.shape.inner = COP_SHAPE_KNOMIAL;
    cop_shape_unref(&tree.shape);
    tree.shape = tree_shape("hosts:flat");
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
    tree.shape = tree_shape("file:here");
    assert_int_equal(cop_tree_check(&tree), COP_EINVAL);
}

static void children_without_memory_are_none(void **state)
{
    (void)state;
    static const cop_rank first_dead[] = {2};
    struct cop_dead dead = {NULL, first_dead, 1};
    struct cop_tree tree = tree_of("kary:40", 100, 0);
    size_t live = failing_alloc_live();
    for (int repair = -1; repair <= COP_REPAIR_REBALANCE; repair++) {
        tree.dead = repair < 0 ? NULL : &dead;
        tree.repair = repair < 0 ? COP_REPAIR_SPLICE : (enum cop_repair)repair;
        for (size_t n = 0;; n++) {
            struct cop_ranks children = {0};
            failing_alloc_after(n);
            int error = cop_tree_children(&tree, 0, &children);
            failing_alloc_off();
            uint32_t count = children.count;
            cop_ranks_free(&children);
            if (!failing_alloc_hit())
                break;
            assert_int_equal(error, COP_ENOMEM);
            assert_int_equal(count, 0);
        }
    }
    assert_int_equal(failing_alloc_live(), live);
}

static void hosts_without_memory_are_refused(void **state)
{
    (void)state;
    uint32_t host_of[64];
    size_t live = failing_alloc_live();
    struct cop_shape leaders = tree_shape("flat");
    for (uint32_t i = 0; i < 64; i++)
        host_of[i] = i;
    for (size_t n = 0;; n++) {
        struct cop_shape shape = {0};
        failing_alloc_after(n);
        int error = cop_shape_from_hosts(&leaders, host_of, 64, &shape);
        failing_alloc_off();
        cop_shape_unref(&shape);
        if (!failing_alloc_hit())
            break;
        assert_int_equal(error, COP_ENOMEM);
        assert_null(shape.table);
    }
    assert_int_equal(failing_alloc_live(), live);
    assert_int_equal(cop_shape_from_hosts(&leaders, host_of, 0, &leaders), COP_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plain_shape_is_a_tree),
        cmocka_unit_test(every_table_can_be_hung_up_by_any_rank),
        cmocka_unit_test(every_assignment_to_hosts_is_a_tree),
        cmocka_unit_test(large_trees_agree_with_themselves),
        cmocka_unit_test(radix_is_kary),
        cmocka_unit_test(binomial_of_16_is_as_drawn),
        cmocka_unit_test(partial_binomial_of_14_is_as_drawn),
        cmocka_unit_test(quadnomial_of_16_is_as_drawn),
        cmocka_unit_test(complete_3ary_of_12_is_as_drawn),
        cmocka_unit_test(depth_comes_before_rank),
        cmocka_unit_test(binomial_broadcast_to_1000_takes_10_steps),
        cmocka_unit_test(lowest_rank_leads_its_host),
        cmocka_unit_test(root_leads_its_own_host),
        cmocka_unit_test(check_refuses_what_is_no_tree),
        cmocka_unit_test(check_refuses_a_table_that_does_not_fit),
        cmocka_unit_test(children_without_memory_are_none),
        cmocka_unit_test(hosts_without_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
