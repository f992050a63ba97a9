/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bitmap.h"
#include "base/random.h"
#include "failing_alloc.h"

#include <stdlib.h>
#include <string.h>

/* The naive set: a byte for each rank. */
struct model {
    uint32_t n;
    uint8_t *is_set;
    struct cop_ranks ranks; /* what the bitmap was made from, shuffled and repeated */
};

static void model_fini(struct model *model)
{
    free(model->is_set);
    cop_ranks_free(&model->ranks);
}

static void model_add(struct model *model, cop_rank rank)
{
    model->is_set[rank] = 1;
    assert_int_equal(cop_ranks_push(&model->ranks, rank), 0);
}

/* Each rank is in with the given chance of 1000, some of them given twice. */
static struct model model_make(uint32_t n, uint32_t permille,
                               struct cop__random *random)
{
    struct model model = {.n = n, .is_set = calloc(n + 1, 1)};
    assert_non_null(model.is_set);
    for (cop_rank rank = 0; rank < n; rank++) {
        if (!cop__random_chance(random, permille, 1000))
            continue;
        model_add(&model, rank);
        if (cop__random_chance(random, 1, 10))
            model_add(&model, rank);
    }
    for (uint32_t i = model.ranks.count; i > 1; i--) {
        uint32_t j = (uint32_t)cop__random_below(random, i);
        cop_rank swap = model.ranks.items[i - 1];
        model.ranks.items[i - 1] = model.ranks.items[j];
        model.ranks.items[j] = swap;
    }
    return model;
}

/* Every question, for every rank. */
static void check_all(const struct cop_bitmap *map, const struct model *model)
{
    uint32_t set = 0, clear = 0;
    assert_int_equal(cop__bitmap_size(map), model->n);
    for (cop_rank rank = 0; rank < model->n; rank++) {
        assert_int_equal(cop__bitmap_has(map, rank), model->is_set[rank]);
        assert_int_equal(cop__bitmap_below(map, rank), set);
        if (model->is_set[rank])
            assert_int_equal(cop__bitmap_select(map, set++), rank);
        else
            assert_int_equal(cop__bitmap_select_clear(map, clear++), rank);
    }
    assert_int_equal(cop__bitmap_count(map), set);
    assert_int_equal(cop__bitmap_below(map, model->n), set);
    assert_int_equal(cop__bitmap_select(map, set), COP_RANK_NONE);
    assert_int_equal(cop__bitmap_select(map, UINT32_MAX), COP_RANK_NONE);
    assert_int_equal(cop__bitmap_select_clear(map, clear), COP_RANK_NONE);
    assert_int_equal(cop__bitmap_select_clear(map, UINT32_MAX), COP_RANK_NONE);
    assert_false(cop__bitmap_has(map, model->n));
    assert_false(cop__bitmap_has(map, COP_RANK_NONE));
}

static void check_random(uint32_t n, uint32_t permille, struct cop__random *random)
{
    struct model model = model_make(n, permille, random);
    struct cop_bitmap *map =
        cop__bitmap_create(n, model.ranks.items, model.ranks.count);
    assert_non_null(map);
    check_all(map, &model);
    cop__bitmap_unref(map);
    model_fini(&model);
}

static const uint32_t densities[] = {0, 1, 20, 500, 980, 999, 1000};
#define DENSITIES (sizeof(densities) / sizeof(densities[0]))

static void small_sets_are_as_the_model(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 600);
    size_t live = failing_alloc_live();
    for (uint32_t n = 0; n <= 600; n++)
        for (size_t i = 0; i < DENSITIES; i++)
            check_random(n, densities[i], &random);
    assert_int_equal(failing_alloc_live(), live);
}

static void large_sets_are_as_the_model(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 601);
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < DENSITIES; i++) {
            uint32_t n = 601 + (uint32_t)cop__random_below(&random, 60000);
            check_random(n, densities[i], &random);
        }
    }
}

/* One crowd and nobody else, so that samples lie far apart and blocks are full or
 * empty. */
static void crowded_sets_are_as_the_model(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 602);
    for (int round = 0; round < 20; round++) {
        uint32_t n = 5000 + (uint32_t)cop__random_below(&random, 50000);
        struct model model = {.n = n, .is_set = calloc(n, 1)};
        cop_rank from = (cop_rank)cop__random_below(&random, n - 4000);
        cop_rank to = from + (cop_rank)cop__random_below(&random, 4000);
        model_add(&model, 0);
        model_add(&model, n - 1);
        for (cop_rank rank = from; rank < to; rank++)
            model_add(&model, rank);
        struct cop_bitmap *map =
            cop__bitmap_create(n, model.ranks.items, model.ranks.count);
        check_all(map, &model);
        cop__bitmap_unref(map);
        model_fini(&model);
    }
}

static void check_inverse(const struct cop_bitmap *map, uint32_t i)
{
    cop_rank set = cop__bitmap_select(map, i % cop__bitmap_count(map));
    assert_true(cop__bitmap_has(map, set));
    assert_int_equal(cop__bitmap_below(map, set), i % cop__bitmap_count(map));

    i %= cop__bitmap_size(map) - cop__bitmap_count(map);
    cop_rank clear = cop__bitmap_select_clear(map, i);
    assert_false(cop__bitmap_has(map, clear));
    assert_int_equal(clear - cop__bitmap_below(map, clear), i);
}

/* At the full size of a cluster select is the inverse of below, and space is kept. */
static void select_inverts_below_at_a_million(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 1048576);
    const uint32_t permille[] = {1, 100, 500, 999};
    for (size_t i = 0; i < sizeof(permille) / sizeof(permille[0]); i++) {
        struct model model = model_make(1048576, permille[i], &random);
        struct cop_bitmap *map =
            cop__bitmap_create(model.n, model.ranks.items, model.ranks.count);
        for (int round = 0; round < 50000; round++)
            check_inverse(map, (uint32_t)cop__random_next(&random));
        assert_true(cop__bitmap_bytes(map) * 8 * 100 <= (size_t)model.n * 115);
        cop__bitmap_unref(map);
        model_fini(&model);
    }
}

static void largest_cluster_fits(void **state)
{
    (void)state;
    const cop_rank ranks[] = {COP_MEMBERS_MAX - 1, 0, 12345678};
    struct cop_bitmap *map = cop__bitmap_create(COP_MEMBERS_MAX, ranks, 3);
    assert_int_equal(cop__bitmap_count(map), 3);
    assert_int_equal(cop__bitmap_select(map, 1), 12345678);
    assert_int_equal(cop__bitmap_select(map, 2), COP_MEMBERS_MAX - 1);
    assert_int_equal(cop__bitmap_select_clear(map, COP_MEMBERS_MAX - 4),
                     COP_MEMBERS_MAX - 2);
    cop__bitmap_unref(map);
}

static void references_share_one_map(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    struct cop_bitmap *map = cop__bitmap_create(10, NULL, 0);
    assert_ptr_equal(cop__bitmap_ref(map), map);
    cop__bitmap_unref(map);
    assert_int_equal(cop__bitmap_size(map), 10);
    assert_int_equal(failing_alloc_live(), live + 1);
    cop__bitmap_unref(map);
    assert_int_equal(failing_alloc_live(), live);
    assert_null(cop__bitmap_ref(NULL));
    cop__bitmap_unref(NULL);
}

static void no_memory_gives_null(void **state)
{
    (void)state;
    const cop_rank ranks[] = {1, 2};
    size_t live = failing_alloc_live();
    for (size_t n = 0;; n++) {
        failing_alloc_after(n);
        struct cop_bitmap *map = cop__bitmap_create(1000, ranks, 2);
        failing_alloc_off();
        if (!failing_alloc_hit()) {
            cop__bitmap_unref(map);
            break;
        }
        assert_null(map);
        assert_int_equal(failing_alloc_live(), live);
    }
    assert_int_equal(failing_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_sets_are_as_the_model),
        cmocka_unit_test(large_sets_are_as_the_model),
        cmocka_unit_test(crowded_sets_are_as_the_model),
        cmocka_unit_test(select_inverts_below_at_a_million),
        cmocka_unit_test(largest_cluster_fits),
        cmocka_unit_test(references_share_one_map),
        cmocka_unit_test(no_memory_gives_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
