/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "sweep/cover.h"

#include <coppice/error.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

/* Every operation against a plain array of booleans, over random trees and sets. */

#define N_MAX 48u

struct naive {
    bool in[N_MAX];
};

static struct cop_tree random_tree(struct cop__random *random)
{
    static const struct {
        enum cop_shape_kind kind;
        uint32_t k;
    } shapes[] = {{COP_SHAPE_KARY, 3},    {COP_SHAPE_RADIX, 2}, {COP_SHAPE_RADIX, 4},
                  {COP_SHAPE_KNOMIAL, 2}, {COP_SHAPE_FLAT, 0},  {COP_SHAPE_CHAIN, 0}};
    struct cop_tree tree = {0};
    uint64_t pick = cop__random_below(random, sizeof shapes / sizeof *shapes);
    assert_int_equal(cop_shape_make(shapes[pick].kind, shapes[pick].k, &tree.shape), 0);
    tree.n = 1 + (uint32_t)cop__random_below(random, N_MAX);
    tree.root = (cop_rank)cop__random_below(random, tree.n);
    assert_int_equal(cop_tree_check(&tree), 0);
    return tree;
}

/* A random set: starts from a sub-tree, flips sub-trees and single ranks. */
static void random_set(struct cop__random *random, const struct cop_tree *tree,
                       struct naive *set)
{
    memset(set, 0, sizeof *set);
    uint64_t flips = cop__random_below(random, 5);
    for (uint64_t i = 0; i < flips; i++) {
        cop_rank top = (cop_rank)cop__random_below(random, tree->n);
        bool single = cop__random_chance(random, 1, 3);
        for (cop_rank r = 0; r < tree->n; r++)
            if (single ? r == top : cop_tree_is_below(tree, r, top))
                set->in[r] = !set->in[r];
    }
}

/* The marks of a set, from its definition: one at each rank that differs from above. */
static struct cop__cover write_set(const struct cop_tree *tree, const struct naive *set)
{
    struct cop__cover cover = {0};
    for (cop_rank r = 0; r < tree->n; r++) {
        cop_rank above = cop_tree_parent(tree, r);
        bool was = above != COP_RANK_NONE && set->in[above];
        if (set->in[r] != was)
            assert_int_equal(
                cop__cover_add(&cover, r, set->in[r] ? COP__TREE_IN : COP__TREE_OUT),
                0);
    }
    cop__cover_settle(&cover);
    return cover;
}

static uint32_t naive_size(const struct cop_tree *tree, const struct naive *set)
{
    uint32_t size = 0;
    for (cop_rank r = 0; r < tree->n; r++)
        size += set->in[r];
    return size;
}

static void assert_same(const struct cop_tree *tree, const struct cop__cover *cover,
                        const struct naive *set)
{
    for (cop_rank r = 0; r < tree->n; r++)
        assert_int_equal(cop__cover_has(tree, cover, r), set->in[r]);
    assert_int_equal(cop__cover_size(tree, cover), naive_size(tree, set));
}

static enum cop__relation naive_relation(const struct cop_tree *tree,
                                         const struct naive *a, const struct naive *b)
{
    uint32_t common = 0;
    for (cop_rank r = 0; r < tree->n; r++)
        common += a->in[r] && b->in[r];
    if (common == 0)
        return COP__DISJOINT;
    if (common == naive_size(tree, a))
        return COP__INSIDE;
    return common == naive_size(tree, b) ? COP__AROUND : COP__OVERLAP;
}

static void test_sets(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 1);
    for (int round = 0; round < 4000; round++) {
        struct cop_tree tree = random_tree(&random);
        struct naive a, b;
        random_set(&random, &tree, &a);
        random_set(&random, &tree, &b);
        struct cop__cover x = write_set(&tree, &a), y = write_set(&tree, &b);
        assert_same(&tree, &x, &a);
        enum cop__relation relation;
        assert_int_equal(cop__cover_compare(&tree, &x, &y, &relation), 0);
        assert_int_equal(relation, naive_relation(&tree, &a, &b));
        assert_int_equal(cop__cover_rewrite(&tree, &x), 0);
        assert_same(&tree, &x, &a);
        cop__cover_fini(&x);
        cop__cover_fini(&y);
    }
}

/* Sets that do not overlap add up, in whatever form each is written. */
static void test_union_is_sum(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 2);
    for (int round = 0; round < 4000; round++) {
        struct cop_tree tree = random_tree(&random);
        struct naive a, b, both = {0};
        random_set(&random, &tree, &a);
        random_set(&random, &tree, &b);
        for (cop_rank r = 0; r < tree.n; r++) {
            b.in[r] = b.in[r] && !a.in[r];
            both.in[r] = a.in[r] || b.in[r];
        }
        struct cop__cover x = write_set(&tree, &a), y = write_set(&tree, &b);
        assert_int_equal(cop__cover_add_all(&x, &y), 0);
        assert_int_equal(cop__cover_rewrite(&tree, &x), 0);
        assert_same(&tree, &x, &both);
        cop__cover_fini(&x);
        cop__cover_fini(&y);
    }
}

/* What is written is read again; what is not a set, or not below, is refused. */
static void test_wire(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 3);
    for (int round = 0; round < 4000; round++) {
        struct cop_tree tree = random_tree(&random);
        struct naive a;
        random_set(&random, &tree, &a);
        struct cop__cover x = write_set(&tree, &a), y;
        uint8_t bytes[2 * N_MAX * COP__SIZE_mark];
        struct cop__writer writer = cop__writer(bytes, sizeof bytes);
        cop__cover_put(&writer, &x);
        assert_int_equal(writer.at - bytes, cop__cover_bytes(&x));
        struct cop__list list = {bytes, x.count};
        assert_int_equal(cop__cover_decode(&tree, tree.root, list, &y), 0);
        assert_same(&tree, &y, &a);
        cop__cover_fini(&y);
        /* Damage: never a crash, and whatever is accepted is a set. */
        if (x.count > 0) {
            bytes[cop__random_below(&random, cop__cover_bytes(&x))] ^=
                (uint8_t)(1u << cop__random_below(&random, 8));
            if (cop__cover_decode(&tree, tree.root, list, &y) == 0) {
                assert_true(cop__cover_size(&tree, &y) <= tree.n);
                cop__cover_fini(&y);
            }
        }
        cop__cover_fini(&x);
    }
}

static int decode(const struct cop_tree *tree, cop_rank top,
                  const struct cop__mark *marks, uint32_t count)
{
    uint8_t bytes[8 * COP__SIZE_mark];
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    for (uint32_t i = 0; i < count; i++)
        cop__mark_put(&writer, &marks[i]);
    struct cop__cover cover;
    int error = cop__cover_decode(tree, top, (struct cop__list){bytes, count}, &cover);
    if (error == 0)
        cop__cover_fini(&cover);
    return error;
}

static void test_refused(void **state)
{
    (void)state;
    struct cop_tree tree = {.n = 7};
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &tree.shape), 0);
    const struct cop__mark twice[] = {{0, COP__TREE_IN}, {1, COP__TREE_IN}};
    const struct cop__mark negative[] = {{1, COP__TREE_OUT}};
    const struct cop__mark unsorted[] = {{2, COP__TREE_IN}, {1, COP__TREE_IN}};
    const struct cop__mark repeated[] = {{2, COP__ONE_IN}, {2, COP__ONE_OUT}};
    const struct cop__mark outside[] = {{9, COP__ONE_IN}};
    const struct cop__mark mode[] = {{1, 7}};
    const struct cop__mark fine[] = {{1, COP__TREE_IN}, {3, COP__ONE_OUT}};
    assert_int_equal(decode(&tree, 0, twice, 2), COP_EMALFORMED);
    assert_int_equal(decode(&tree, 0, negative, 1), COP_EMALFORMED);
    assert_int_equal(decode(&tree, 0, unsorted, 2), COP_EMALFORMED);
    assert_int_equal(decode(&tree, 0, repeated, 2), COP_EMALFORMED);
    assert_int_equal(decode(&tree, 0, outside, 1), COP_EMALFORMED);
    assert_int_equal(decode(&tree, 0, mode, 1), COP_EMALFORMED);
    assert_int_equal(decode(&tree, 0, fine, 2), 0);
    assert_int_equal(decode(&tree, 1, fine, 2), 0);
    assert_int_equal(decode(&tree, 2, fine, 2), COP_EMALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_union_is_sum),
        cmocka_unit_test(test_wire),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
