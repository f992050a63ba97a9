/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <coppice/error.h>
#include <coppice/tree.h>

#include "base/bitmap.h"
#include "base/random.h"
#include "failing_alloc.h"

#include <string.h>

static void ranks_come_back_in_order(void **state)
{
    (void)state;
    struct cop_ranks ranks = {0};
    size_t live = failing_alloc_live();
    for (uint32_t i = 0; i < 100000; i++)
        assert_int_equal(cop_ranks_push(&ranks, i * 3), 0);
    assert_int_equal(ranks.count, 100000);
    assert_true(ranks.capacity >= ranks.count);
    for (uint32_t i = 0; i < ranks.count; i++)
        assert_int_equal(ranks.items[i], i * 3);
    cop_ranks_free(&ranks);
    assert_null(ranks.items);
    assert_int_equal(ranks.count, 0);
    assert_int_equal(ranks.capacity, 0);
    cop_ranks_free(&ranks);
    assert_int_equal(failing_alloc_live(), live);
}

/* The owner empties it by setting the count: what was allocated serves again. */
static void emptied_ranks_are_reused(void **state)
{
    (void)state;
    struct cop_ranks ranks = {0};
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(cop_ranks_push(&ranks, i), 0);
    ranks.count = 0;
    failing_alloc_after(0);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(cop_ranks_push(&ranks, i), 0);
    failing_alloc_off();
    assert_false(failing_alloc_hit());
    cop_ranks_free(&ranks);
}

static void no_memory_leaves_ranks_unchanged(void **state)
{
    (void)state;
    struct cop_ranks ranks = {0};
    uint32_t failures = 0;
    size_t live = failing_alloc_live();
    for (uint32_t i = 0; i < 1000; i++) {
        struct cop_ranks before = ranks;
        failing_alloc_after(0);
        int error = cop_ranks_push(&ranks, i);
        failing_alloc_off();
        if (!failing_alloc_hit())
            continue;
        failures++;
        assert_int_equal(error, COP_ENOMEM);
        assert_memory_equal(&ranks, &before, sizeof(ranks));
        assert_int_equal(cop_ranks_push(&ranks, i), 0);
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(ranks.items[i], i);
    assert_true(failures >= 8);
    cop_ranks_free(&ranks);
    assert_int_equal(failing_alloc_live(), live);
}

static void check_dead(const struct cop_dead *dead, const uint8_t *is_dead, uint32_t n)
{
    uint32_t below = 0;
    for (cop_rank rank = 0; rank < n; rank++) {
        assert_int_equal(cop_dead_has(dead, rank), is_dead[rank]);
        assert_int_equal(cop_dead_below(dead, rank), below);
        below += is_dead[rank];
    }
    assert_int_equal(cop_dead_below(dead, n), below);
    assert_int_equal(cop_dead_count(dead), below);
    assert_false(cop_dead_has(dead, COP_RANK_NONE));
}

/*
 * Each rank lives, or is dead in the bitmap or among the differences. The bitmap may
 * end before n, as that of a smaller, older view does.
 */
static void check_random(struct cop__random *random, uint32_t n, uint32_t base_n)
{
    uint8_t is_dead[700] = {0};
    struct cop_ranks base = {0}, extra = {0};
    for (cop_rank rank = 0; rank < n; rank++) {
        uint64_t kind = cop__random_below(random, 5);
        if (kind > 1 || (kind == 0 && rank >= base_n))
            continue;
        is_dead[rank] = 1;
        assert_int_equal(cop_ranks_push(kind == 0 ? &base : &extra, rank), 0);
    }
    struct cop_bitmap *map = cop__bitmap_create(base_n, base.items, base.count);
    struct cop_dead dead = {map, extra.items, extra.count};
    check_dead(&dead, is_dead, n);
    cop__bitmap_unref(map);
    cop_ranks_free(&base);
    cop_ranks_free(&extra);
}

static void dead_are_as_the_model(void **state)
{
    (void)state;
    struct cop__random random;
    size_t live = failing_alloc_live();
    cop__random_init(&random, 11);
    for (uint32_t n = 0; n < 700; n++) {
        check_random(&random, n, n);
        check_random(&random, n, (uint32_t)cop__random_below(&random, n + 1));
    }
    assert_int_equal(failing_alloc_live(), live);
}

static void either_part_may_be_absent(void **state)
{
    (void)state;
    const cop_rank ranks[] = {2, 5, 6};
    const uint8_t is_dead[10] = {0, 0, 1, 0, 0, 1, 1, 0, 0, 0};
    const uint8_t nobody[10] = {0};
    struct cop_bitmap *map = cop__bitmap_create(10, ranks, 3);
    check_dead(&(struct cop_dead){map, NULL, 0}, is_dead, 10);
    check_dead(&(struct cop_dead){NULL, ranks, 3}, is_dead, 10);
    check_dead(&(struct cop_dead){NULL, NULL, 0}, nobody, 10);
    check_dead(NULL, nobody, 10);
    cop__bitmap_unref(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_come_back_in_order),
        cmocka_unit_test(emptied_ranks_are_reused),
        cmocka_unit_test(no_memory_leaves_ranks_unchanged),
        cmocka_unit_test(dead_are_as_the_model),
        cmocka_unit_test(either_part_may_be_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
