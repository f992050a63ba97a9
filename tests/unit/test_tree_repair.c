/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/tree.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bitmap.h"
#include "brief.h"
#include "tree_model.h"

/* Trees in which some, most or all are dead, against slow and simple definitions. */

static const char *const plain_shapes[] = {
    "kary:2",    "kary:3",    "radix:4", "radix:16", "knomial:2",
    "knomial:3", "knomial:4", "flat",    "chain",
};
#define PLAIN_COUNT (sizeof(plain_shapes) / sizeof(plain_shapes[0]))
#define N_MAX 300
#define PAIRS (20 * 20)
#define NO COP_RANK_NONE

static const enum cop_repair repairs[] = {COP_REPAIR_SPLICE, COP_REPAIR_PROMOTE,
                                          COP_REPAIR_REBALANCE};

/* ---- sets of dead ---------------------------------------------------------------- */

struct dead_set {
    struct cop_dead dead;
    struct cop_bitmap *base;
    cop_rank *extra;
    bool *is_dead;
    uint32_t n;
};

/* Lays the set down as a bitmap and a list of differences, divided at random. */
static void dead_divide(struct dead_set *set, uint32_t percent_extra,
                        struct cop__random *random)
{
    cop_rank *base = calloc(set->n, sizeof(*base));
    uint32_t base_count = 0;
    set->extra = calloc(set->n, sizeof(*set->extra));
    assert_true(base != NULL && set->extra != NULL);
    for (cop_rank rank = 0; rank < set->n; rank++) {
        if (!set->is_dead[rank])
            continue;
        if (cop__random_chance(random, percent_extra, 100))
            set->extra[set->dead.extra_count++] = rank;
        else
            base[base_count++] = rank;
    }
    /* Sometimes the bitmap is of a smaller world. */
    uint32_t size = set->n;
    if (base_count > 0 && cop__random_chance(random, 1, 2))
        size = base[base_count - 1] + 1;
    if (base_count > 0)
        set->base = cop__bitmap_create(size, base, base_count);
    set->dead.base = set->base;
    set->dead.extra = set->extra;
    free(base);
}

static struct dead_set dead_random(uint32_t n, uint32_t percent,
                                   struct cop__random *random)
{
    struct dead_set set = {.n = n, .is_dead = calloc(n, sizeof(bool))};
    assert_non_null(set.is_dead);
    for (cop_rank rank = 0; rank < n; rank++)
        set.is_dead[rank] = cop__random_chance(random, percent, 100);
    dead_divide(&set, 30, random);
    return set;
}

static void dead_free(struct dead_set *set)
{
    cop__bitmap_unref(set->base);
    free(set->extra);
    free(set->is_dead);
}

static uint32_t some_percent(struct cop__random *random)
{
    static const uint32_t percents[] = {1, 10, 30, 50, 80, 95, 100};
    return percents[cop__random_below(random, 7)];
}

/* ---- definitions, the slow way --------------------------------------------------- */

static cop_rank lowest_living(const struct dead_set *set)
{
    cop_rank rank = 0;
    while (rank < set->n && set->is_dead[rank])
        rank++;
    return rank;
}

static cop_rank *slow_splice(const struct cop_tree *tree, const struct dead_set *set)
{
    struct cop_tree whole = *tree;
    whole.dead = NULL;
    cop_rank *parent = tree_parents(&whole);
    cop_rank *repaired = calloc(tree->n, sizeof(*repaired));
    cop_rank stand_in = set->is_dead[tree->root] ? lowest_living(set) : NO;
    assert_non_null(repaired);
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        cop_rank at = parent[rank];
        while (at != NO && set->is_dead[at])
            at = parent[at];
        repaired[rank] = at == NO ? stand_in : at;
        if (set->is_dead[rank] || rank == stand_in)
            repaired[rank] = NO;
    }
    free(parent);
    return repaired;
}

/* The first child with an occupant: deepest in the tree without deaths, then the higher
 * place (the root and rank 0 change places, but not in a tree from a file). */
static cop_rank heir_of(const struct cop_tree *whole, const cop_rank *parent,
                        const cop_rank *occupant, cop_rank at)
{
    cop_rank best = NO;
    uint64_t best_key = 0;
    cop_rank top = whole->shape.kind == COP_SHAPE_TABLE ? 0 : whole->root;
    for (cop_rank rank = 0; rank < whole->n; rank++) {
        if (parent[rank] != at || occupant[rank] == NO)
            continue;
        uint64_t place = rank == top ? 0 : rank == 0 ? top : rank;
        uint64_t key = ((uint64_t)cop_tree_depth(whole, rank) << 32) + place + 1;
        if (key > best_key) {
            best_key = key;
            best = rank;
        }
    }
    return best;
}

/* Buries the dead from the lowest level up; each leaves a hole that sinks. */
static cop_rank *slow_promote(const struct cop_tree *tree, const struct dead_set *set)
{
    struct cop_tree whole = *tree;
    whole.dead = NULL;
    cop_rank *parent = tree_parents(&whole);
    cop_rank *occupant = calloc(tree->n, sizeof(*occupant));
    cop_rank *repaired = calloc(tree->n, sizeof(*repaired));
    assert_true(occupant != NULL && repaired != NULL);
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        occupant[rank] = rank;
        repaired[rank] = NO;
    }
    for (uint32_t level = tree->n; level-- > 0;) {
        for (cop_rank rank = 0; rank < tree->n; rank++) {
            if (!set->is_dead[rank] || cop_tree_level(&whole, rank) != level)
                continue;
            cop_rank hole = rank;
            cop_rank heir;
            while ((heir = heir_of(&whole, parent, occupant, hole)) != NO) {
                occupant[hole] = occupant[heir];
                hole = heir;
            }
            occupant[hole] = NO;
        }
    }
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        if (occupant[rank] != NO && parent[rank] != NO)
            repaired[occupant[rank]] = occupant[parent[rank]];
    }
    free(parent);
    free(occupant);
    return repaired;
}

/* The shape over a smaller world, and back. */
static cop_rank *slow_rebalance(const struct cop_tree *tree, const struct dead_set *set)
{
    cop_rank *living = calloc(tree->n, sizeof(*living));
    cop_rank *repaired = calloc(tree->n, sizeof(*repaired));
    cop_rank root = set->is_dead[tree->root] ? lowest_living(set) : tree->root;
    struct cop_tree dense = {.shape = tree->shape};
    assert_true(living != NULL && repaired != NULL);
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        repaired[rank] = NO;
        if (rank == root)
            dense.root = dense.n;
        if (!set->is_dead[rank])
            living[dense.n++] = rank;
    }
    for (cop_rank i = 0; i < dense.n; i++) {
        cop_rank parent = cop_tree_parent(&dense, i);
        repaired[living[i]] = parent == NO ? NO : living[parent];
    }
    free(living);
    return repaired;
}

static void check_against(const struct cop_tree *tree, const struct dead_set *set,
                          cop_rank *expected)
{
    cop_rank *parents = tree_parents(tree);
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        if (!set->is_dead[rank])
            assert_int_equal(parents[rank], expected[rank]);
    }
    free(parents);
    free(expected);
}

/* ---- properties ------------------------------------------------------------------ */

static int depth_is(enum cop_repair repair, const struct cop_shape *shape)
{
    return repair == COP_REPAIR_REBALANCE && shape->kind != COP_SHAPE_TABLE &&
                   shape->kind != COP_SHAPE_HOSTS
               ? TREE_DEPTH_EXACT
               : TREE_DEPTH_BOUND;
}

static void check_all_repairs(struct cop_tree *tree, struct cop__random *random)
{
    for (size_t i = 0; i < 3; i++) {
        tree->repair = repairs[i];
        tree_check(tree, depth_is(repairs[i], &tree->shape), PAIRS, random);
    }
}

static void repaired_plain_trees_are_trees_of_the_living(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 11);
    for (size_t s = 0; s < PLAIN_COUNT; s++) {
        uint32_t step = strcmp(plain_shapes[s], "chain") == 0 ? 29 : brief() ? 7 : 1;
        for (uint32_t n = 1; n <= N_MAX; n += n < 24 ? 1 : step) {
            struct dead_set set = dead_random(n, some_percent(&random), &random);
            struct cop_tree tree = {
                .shape = tree_shape(plain_shapes[s]), .n = n, .dead = &set.dead};
            for (uint32_t i = 0; i < (n <= 12 ? n : 1); i++) {
                tree.root = n <= 12 ? i : (cop_rank)cop__random_below(&random, n);
                check_all_repairs(&tree, &random);
            }
            dead_free(&set);
        }
    }
}

static void repaired_tables_are_trees_of_the_living(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 12);
    for (uint32_t n = 2; n <= N_MAX; n += n < 40 ? 1 : 11) {
        struct dead_set set = dead_random(n, some_percent(&random), &random);
        struct cop_tree tree = {
            .shape = tree_random_table(n, &random), .n = n, .dead = &set.dead};
        for (uint32_t i = 0; i < (n <= 12 ? n : 2); i++) {
            tree.root = n <= 12 ? i : (cop_rank)cop__random_below(&random, n);
            check_all_repairs(&tree, &random);
        }
        cop_shape_unref(&tree.shape);
        dead_free(&set);
    }
}

static void repaired_hosts_are_trees_of_the_living(void **state)
{
    static const char *const leaders[] = {"radix:4", "binomial", "chain", "flat"};
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 13);
    for (uint32_t n = 1; n <= N_MAX; n += n < 40 ? 1 : 23) {
        struct dead_set set = dead_random(n, some_percent(&random), &random);
        uint32_t hosts = 1 + (uint32_t)cop__random_below(&random, n);
        struct cop_tree tree = {
            .shape = tree_random_hosts(leaders[n % 4], n, hosts, &random),
            .n = n,
            .dead = &set.dead};
        for (uint32_t i = 0; i < (n <= 12 ? n : 2); i++) {
            tree.root = n <= 12 ? i : (cop_rank)cop__random_below(&random, n);
            check_all_repairs(&tree, &random);
        }
        cop_shape_unref(&tree.shape);
        dead_free(&set);
    }
}

static void repairs_are_as_defined(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 14);
    for (uint32_t round = 0; round < 600; round++) {
        uint32_t n = 1 + (uint32_t)cop__random_below(&random, 60);
        bool table = round % 7 == 0 && n > 1;
        struct dead_set set = dead_random(n, some_percent(&random), &random);
        struct cop_tree tree = {
            .n = n,
            .root = (cop_rank)cop__random_below(&random, n),
            .dead = &set.dead,
            .shape = table ? tree_random_table(n, &random)
                           : tree_shape(plain_shapes[round % PLAIN_COUNT]),
        };
        if (cop_tree_root(&tree) != NO) {
            check_against(&tree, &set, slow_splice(&tree, &set));
            tree.repair = COP_REPAIR_PROMOTE;
            check_against(&tree, &set, slow_promote(&tree, &set));
            tree.repair = COP_REPAIR_REBALANCE;
            check_against(&tree, &set,
                          table ? slow_splice(&tree, &set)
                                : slow_rebalance(&tree, &set));
        }
        cop_shape_unref(&tree.shape);
        dead_free(&set);
    }
}

/*
 * In which order the dead became known shows only in how they are divided between the
 * bitmap and the differences. Two nodes with one set hold one tree, of every policy.
 */
static void repair_does_not_depend_on_the_order_of_deaths(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 15);
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t n = 2 + (uint32_t)cop__random_below(&random, 200);
        struct dead_set one = dead_random(n, 1 + round % 90, &random);
        struct dead_set other = {.n = n, .is_dead = one.is_dead};
        dead_divide(&other, round % 3 * 50, &random);
        struct cop_tree tree = {.shape = tree_shape(plain_shapes[round % PLAIN_COUNT]),
                                .n = n,
                                .root = (cop_rank)cop__random_below(&random, n),
                                .repair = repairs[round % 3]};
        tree.dead = &one.dead;
        if (cop_tree_root(&tree) != NO) {
            cop_rank *parents = tree_parents(&tree);
            tree.dead = &other.dead;
            cop_rank *again = tree_parents(&tree);
            assert_memory_equal(parents, again, n * sizeof(*parents));
            free(parents);
            free(again);
        }
        other.is_dead = NULL;
        dead_free(&other);
        dead_free(&one);
    }
}

/* In whatever order they die, one by one, the last tree is the same, and each one
 * between is a tree: what one death changes never depends on how the tree came about.
 *  */
static void deaths_one_by_one_end_in_the_same_tree(void **state)
{
    (void)state;
    static const cop_rank first[] = {0, 8, 12, 4, 3};
    static const cop_rank sorted[] = {0, 3, 4, 8, 12};
    struct cop__random random;
    cop__random_init(&random, 16);
    for (size_t i = 0; i < 3; i++) {
        struct cop_dead dead = {NULL, NULL, 0};
        struct cop_tree tree = {.shape = tree_shape("binomial"),
                                .n = 16,
                                .repair = repairs[i],
                                .dead = &dead};
        for (uint32_t count = 1; count <= 5; count++) {
            cop_rank so_far[5];
            uint32_t filled = 0;
            for (uint32_t s = 0; s < 5; s++) {
                for (uint32_t f = 0; f < count; f++) {
                    if (first[f] == sorted[s])
                        so_far[filled++] = sorted[s];
                }
            }
            dead = (struct cop_dead){NULL, so_far, filled};
            tree_check(&tree, depth_is(repairs[i], &tree.shape), PAIRS, &random);
        }
    }
}

/* ---- by example ------------------------------------------------------------------ */

static struct cop_tree binomial_of_16(enum cop_repair repair,
                                      const struct cop_dead *dead)
{
    struct cop_tree tree = {
        .shape = tree_shape("binomial"), .n = 16, .repair = repair, .dead = dead};
    return tree;
}

static void check_children_are(const struct cop_tree *tree, cop_rank rank,
                               const cop_rank *expected, uint32_t count)
{
    struct cop_ranks children = {0};
    assert_int_equal(cop_tree_children(tree, rank, &children), 0);
    assert_int_equal(children.count, count);
    assert_memory_equal(children.items, expected, count * sizeof(*expected));
    cop_ranks_free(&children);
}

static void splice_gives_children_to_the_grandparent(void **state)
{
    (void)state;
    static const cop_rank dead_ranks[] = {8, 12};
    static const cop_rank expected[] = {4, 14, 10, 2, 13, 9, 1};
    struct cop_dead dead = {NULL, dead_ranks, 2};
    struct cop_tree tree = binomial_of_16(COP_REPAIR_SPLICE, &dead);
    check_children_are(&tree, 0, expected, 7);
    assert_int_equal(cop_tree_parent(&tree, 15), 14);
    assert_int_equal(cop_tree_next_hop(&tree, 0, 15), 14);
    assert_int_equal(cop_tree_size(&tree, 0), 14);
}

static void splice_puts_the_lowest_rank_in_place_of_the_root(void **state)
{
    (void)state;
    static const cop_rank dead_ranks[] = {0};
    static const cop_rank expected[] = {8, 4, 2};
    struct cop_dead dead = {NULL, dead_ranks, 1};
    struct cop_tree tree = binomial_of_16(COP_REPAIR_SPLICE, &dead);
    assert_int_equal(cop_tree_root(&tree), 1);
    check_children_are(&tree, 1, expected, 3);
}

/* In the chain 2 -> 3 -> 0 -> 1 without its root, 0 stands in: above 3, and still above
 * 1. */
static void stand_in_takes_its_own_children_along(void **state)
{
    (void)state;
    static const cop_rank dead_ranks[] = {2};
    static const cop_rank expected[] = {1, 3};
    struct cop_dead dead = {NULL, dead_ranks, 1};
    /* Without deaths 2, 1, 0, 3. */
    struct cop_tree tree = {
        .shape = tree_shape("chain"), .n = 4, .root = 2, .dead = &dead};
    check_children_are(&tree, 0, expected, 2);
    assert_int_equal(cop_tree_child_count(&tree, 1), 0);
    assert_int_equal(cop_tree_size(&tree, 1), 1);
    assert_false(cop_tree_is_below(&tree, 3, 1));
    assert_int_equal(cop_tree_next_hop(&tree, 1, 3), 0);
}

static void promote_moves_the_deepest_child_up(void **state)
{
    (void)state;
    static const cop_rank dead_ranks[] = {8};
    static const cop_rank of_root[] = {12, 4, 2, 1};
    static const cop_rank of_12[] = {14, 10, 9};
    static const cop_rank of_14[] = {15, 13};
    struct cop_dead dead = {NULL, dead_ranks, 1};
    struct cop_tree tree = binomial_of_16(COP_REPAIR_PROMOTE, &dead);
    check_children_are(&tree, 0, of_root, 4);
    check_children_are(&tree, 12, of_12, 3);
    check_children_are(&tree, 14, of_14, 2);
    assert_int_equal(cop_tree_child_count(&tree, 15), 0);
}

/* A dead leader's place goes to a member of its own host. */
static void promote_keeps_to_the_host(void **state)
{
    (void)state;
    static const uint32_t host_of[] = {0, 0, 1, 1, 1, 2, 2};
    static const cop_rank dead_ranks[] = {2};
    struct cop_dead dead = {NULL, dead_ranks, 1};
    struct cop_shape leaders = tree_shape("chain");
    struct cop_tree tree = {.n = 7, .dead = &dead, .repair = COP_REPAIR_PROMOTE};
    assert_int_equal(cop_shape_from_hosts(&leaders, host_of, 7, &tree.shape), 0);
    assert_int_equal(cop_tree_parent(&tree, 3), 0);
    assert_int_equal(cop_tree_parent(&tree, 4), 3);
    assert_int_equal(cop_tree_parent(&tree, 5), 3);
    cop_shape_unref(&tree.shape);
}

/* Leaders are elected anew, and a host with nobody left has no place. */
static void rebalance_elects_leaders(void **state)
{
    (void)state;
    static const uint32_t host_of[] = {0, 0, 1, 1, 2, 2, 3, 3};
    static const cop_rank dead_ranks[] = {2, 3, 4};
    static const cop_rank parents[] = {NO, 0, NO, NO, NO, 0, 5, 6};
    struct cop_dead dead = {NULL, dead_ranks, 3};
    struct cop_shape leaders = tree_shape("chain");
    struct cop_tree tree = {.n = 8, .dead = &dead, .repair = COP_REPAIR_REBALANCE};
    assert_int_equal(cop_shape_from_hosts(&leaders, host_of, 8, &tree.shape), 0);
    for (cop_rank rank = 0; rank < 8; rank++) {
        if (!cop_dead_has(&dead, rank))
            assert_int_equal(cop_tree_parent(&tree, rank), parents[rank]);
    }
    cop_shape_unref(&tree.shape);
}

static void nobody_living_has_no_root(void **state)
{
    (void)state;
    static const cop_rank all[] = {0, 1, 2};
    struct cop_dead dead = {NULL, all, 3};
    for (size_t i = 0; i < 3; i++) {
        struct cop_tree tree = {
            .shape = tree_shape("flat"), .n = 3, .repair = repairs[i], .dead = &dead};
        assert_int_equal(cop_tree_root(&tree), COP_RANK_NONE);
    }
}

/* Deep and nearly empty: what recursed here would run out of stack. */
static void a_chain_of_the_dead_is_walked_without_a_stack(void **state)
{
    (void)state;
    const uint32_t n = UINT32_C(1) << 20;
    cop_rank *ranks = calloc(n, sizeof(*ranks));
    struct cop_ranks children = {0};
    assert_non_null(ranks);
    for (uint32_t i = 0; i + 2 < n; i++)
        ranks[i] = i + 1;
    struct cop_bitmap *base = cop__bitmap_create(n, ranks, n - 2);
    struct cop_dead dead = {base, NULL, 0};
    struct cop_tree tree = {.shape = tree_shape("chain"), .n = n, .dead = &dead};
    for (size_t i = 0; i < 3; i++) {
        tree.repair = repairs[i];
        assert_int_equal(cop_tree_children(&tree, 0, &children), 0);
        assert_int_equal(children.count, 1);
        assert_int_equal(children.items[0], n - 1);
        assert_int_equal(cop_tree_parent(&tree, n - 1), 0);
        assert_int_equal(cop_tree_next_hop(&tree, 0, n - 1), n - 1);
        assert_int_equal(cop_tree_size(&tree, 0), 2);
        assert_int_equal(cop_tree_level(&tree, n - 1), 1);
    }
    cop_ranks_free(&children);
    cop__bitmap_unref(base);
    free(ranks);
}

static void check_one_of_many(const struct cop_tree *tree, cop_rank rank,
                              struct cop_ranks *children)
{
    uint32_t size = 1;
    assert_int_equal(cop_tree_children(tree, rank, children), 0);
    assert_int_equal(cop_tree_child_count(tree, rank), children->count);
    for (uint32_t i = 0; i < children->count; i++) {
        assert_int_equal(cop_tree_parent(tree, children->items[i]), rank);
        size += cop_tree_size(tree, children->items[i]);
    }
    assert_int_equal(cop_tree_size(tree, rank), size);
}

static void large_repaired_trees_agree_with_themselves(void **state)
{
    (void)state;
    struct cop__random random;
    struct cop_ranks children = {0};
    cop__random_init(&random, 17);
    for (uint32_t round = 0; round < 24; round++) {
        uint32_t n = 301 + (uint32_t)cop__random_below(&random, 100000);
        struct dead_set set = dead_random(n, some_percent(&random), &random);
        struct cop_tree tree = {.shape = tree_shape(plain_shapes[round % 7]),
                                .n = n,
                                .root = (cop_rank)cop__random_below(&random, n),
                                .repair = repairs[round % 3],
                                .dead = &set.dead};
        cop_rank root = cop_tree_root(&tree);
        for (uint32_t i = 0; root != NO && i < 200; i++) {
            cop_rank rank = (cop_rank)cop__random_below(&random, n);
            if (set.is_dead[rank])
                continue;
            check_one_of_many(&tree, rank, &children);
            cop_rank at = root;
            for (uint32_t steps = 0; at != rank; steps++) {
                assert_true(steps < 64);
                assert_true(cop_tree_is_below(&tree, rank, at));
                at = cop_tree_next_hop(&tree, at, rank);
            }
        }
        dead_free(&set);
    }
    cop_ranks_free(&children);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repaired_plain_trees_are_trees_of_the_living),
        cmocka_unit_test(repaired_tables_are_trees_of_the_living),
        cmocka_unit_test(repaired_hosts_are_trees_of_the_living),
        cmocka_unit_test(repairs_are_as_defined),
        cmocka_unit_test(repair_does_not_depend_on_the_order_of_deaths),
        cmocka_unit_test(deaths_one_by_one_end_in_the_same_tree),
        cmocka_unit_test(splice_gives_children_to_the_grandparent),
        cmocka_unit_test(splice_puts_the_lowest_rank_in_place_of_the_root),
        cmocka_unit_test(stand_in_takes_its_own_children_along),
        cmocka_unit_test(promote_moves_the_deepest_child_up),
        cmocka_unit_test(promote_keeps_to_the_host),
        cmocka_unit_test(rebalance_elects_leaders),
        cmocka_unit_test(nobody_living_has_no_root),
        cmocka_unit_test(a_chain_of_the_dead_is_walked_without_a_stack),
        cmocka_unit_test(large_repaired_trees_agree_with_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
