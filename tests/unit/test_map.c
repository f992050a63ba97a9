/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <coppice/error.h>

#include "base/map.h"
#include "base/random.h"
#include "failing_alloc.h"

#include <string.h>

#define KEYS 1000U

/* The naive map: keys are 0..KEYS-1, spread by `key_of`; the value or NULL for each. */
static void *model[KEYS];
static char values[KEYS * 4];

static uint64_t key_of(uint32_t i, int spread)
{
    switch (spread) {
    case 0: /* neighbours, as ids are */
        return i;
    case 1: /* high bits only */
        return (uint64_t)i << 54;
    default: /* anything */
        return cop__mix64(i + 1) * 3;
    }
}

/* Each used slot is in the model, each only once, and as many as there should be. */
static void check_iteration(const struct cop__map *map, int spread)
{
    uint32_t at = 0, seen = 0, expected = 0;
    uint8_t is_seen[KEYS] = {0};
    for (struct cop__map_slot *slot; (slot = cop__map_next(map, &at)) != NULL; seen++) {
        uint32_t i = 0;
        while (i < KEYS && key_of(i, spread) != slot->key)
            i++;
        assert_true(i < KEYS && !is_seen[i]);
        assert_ptr_equal(slot->value, model[i]);
        is_seen[i] = 1;
    }
    for (uint32_t i = 0; i < KEYS; i++)
        expected += model[i] != NULL;
    assert_int_equal(seen, expected);
    assert_int_equal(map->count, expected);
    assert_null(cop__map_next(map, &at));
}

static void check_all(const struct cop__map *map, int spread)
{
    for (uint32_t i = 0; i < KEYS; i++)
        assert_ptr_equal(cop__map_get(map, key_of(i, spread)), model[i]);
    check_iteration(map, spread);
    assert_true(map->count == 0 ? map->slots == NULL
                                : map->count <= map->capacity / 4 * 3);
}

static void put_some(struct cop__map *map, uint32_t i, int spread, void *value)
{
    void *old = &values[0];
    assert_int_equal(cop__map_put(map, key_of(i, spread), value, &old), 0);
    assert_ptr_equal(old, model[i]);
    model[i] = value;
}

static void remove_some(struct cop__map *map, uint32_t i, int spread)
{
    assert_ptr_equal(cop__map_remove(map, key_of(i, spread)), model[i]);
    model[i] = NULL;
}

/* Phases in turn mostly fill and mostly empty, so that it grows, shifts and drains. */
static void run_model(int spread, uint64_t seed)
{
    struct cop__random random;
    struct cop__map map;
    cop__random_init(&random, seed);
    cop__map_init(&map);
    memset(model, 0, sizeof(model));
    for (uint32_t round = 0; round < 100000; round++) {
        uint32_t i = (uint32_t)cop__random_below(&random, KEYS);
        uint32_t puts = round / 10000 % 2 == 0 ? 7 : 2;
        if (cop__random_chance(&random, puts, 10))
            put_some(&map, i, spread,
                     &values[cop__random_below(&random, sizeof(values))]);
        else
            remove_some(&map, i, spread);
        i = (uint32_t)cop__random_below(&random, KEYS);
        assert_ptr_equal(cop__map_get(&map, key_of(i, spread)), model[i]);
        if (round % 1000 == 0)
            check_all(&map, spread);
    }
    for (uint32_t i = 0; i < KEYS; i++)
        remove_some(&map, i, spread);
    check_all(&map, spread);
    cop__map_fini(&map);
}

static void behaves_as_the_model(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    for (int spread = 0; spread < 3; spread++)
        run_model(spread, 77 + (uint64_t)spread);
    assert_int_equal(failing_alloc_live(), live);
}

/* A map of few slots, where shifts around the end happen all the time. */
static void small_map_wraps_around(void **state)
{
    (void)state;
    struct cop__random random;
    struct cop__map map;
    cop__random_init(&random, 5);
    cop__map_init(&map);
    memset(model, 0, sizeof(model));
    for (int round = 0; round < 20000; round++) {
        uint32_t i = (uint32_t)cop__random_below(&random, KEYS);
        put_some(&map, i, 2, &values[i]);
        while (map.count == 6) {
            i = (uint32_t)cop__random_below(&random, KEYS);
            while (model[i] == NULL)
                i = (i + 1) % KEYS;
            remove_some(&map, i, 2);
        }
        assert_true(map.capacity <= 8);
        if (round % 100 == 0)
            check_all(&map, 2);
    }
    cop__map_fini(&map);
}

static void extreme_keys_are_keys(void **state)
{
    (void)state;
    struct cop__map map;
    cop__map_init(&map);
    assert_null(cop__map_get(&map, 0));
    assert_null(cop__map_remove(&map, 0));
    assert_int_equal(cop__map_put(&map, 0, &values[0], NULL), 0);
    assert_null(cop__map_get(&map, UINT64_MAX));
    assert_int_equal(cop__map_put(&map, UINT64_MAX, &values[1], NULL), 0);
    assert_ptr_equal(cop__map_get(&map, 0), &values[0]);
    assert_ptr_equal(cop__map_get(&map, UINT64_MAX), &values[1]);
    assert_ptr_equal(cop__map_remove(&map, 0), &values[0]);
    assert_null(cop__map_get(&map, 0));
    assert_ptr_equal(cop__map_get(&map, UINT64_MAX), &values[1]);
    cop__map_fini(&map);
    cop__map_fini(&map);
}

/* Slot order is part of what a simulation repeats: it must not change between machines.
 */
static void iteration_order_is_fixed(void **state)
{
    (void)state;
    const uint64_t expected[] = {0, 3, 4, 1, 7, 9, 8, 2, 5, 6};
    struct cop__map map;
    uint32_t at = 0;
    cop__map_init(&map);
    for (uint64_t key = 0; key < 10; key++)
        assert_int_equal(cop__map_put(&map, key, values, NULL), 0);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(cop__map_next(&map, &at)->key, expected[i]);
    cop__map_fini(&map);
}

static void empty_map_holds_no_memory(void **state)
{
    (void)state;
    struct cop__map map;
    size_t live = failing_alloc_live();
    cop__map_init(&map);
    for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(cop__map_put(&map, key, values, NULL), 0);
    assert_int_equal(failing_alloc_live(), live + 1);
    for (uint64_t key = 0; key < 100; key++)
        assert_non_null(cop__map_remove(&map, key));
    assert_int_equal(failing_alloc_live(), live);
}

/* Fails the allocation of every growth once, and checks that nothing has changed. */
static void no_memory_leaves_it_unchanged(void **state)
{
    (void)state;
    struct cop__map map;
    uint32_t failures = 0;
    size_t live = failing_alloc_live();
    cop__map_init(&map);
    memset(model, 0, sizeof(model));
    for (uint32_t i = 0; i < KEYS; i++) {
        void *old = &values[1];
        failing_alloc_after(0);
        int error = cop__map_put(&map, key_of(i, 0), &values[i], &old);
        failing_alloc_off();
        if (failing_alloc_hit()) {
            failures++;
            assert_int_equal(error, COP_ENOMEM);
            assert_ptr_equal(old, &values[1]);
            check_all(&map, 0);
            put_some(&map, i, 0, &values[i]);
        }
        model[i] = &values[i];
    }
    check_all(&map, 0);
    assert_true(failures >= 8);
    cop__map_fini(&map);
    assert_int_equal(failing_alloc_live(), live);
}

static void replacing_and_removing_never_allocate(void **state)
{
    (void)state;
    struct cop__map map;
    cop__map_init(&map);
    for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(cop__map_put(&map, key, &values[0], NULL), 0);
    failing_alloc_after(0);
    for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(cop__map_put(&map, key, &values[1], NULL), 0);
    for (uint64_t key = 0; key < 100; key++)
        assert_ptr_equal(cop__map_remove(&map, key), &values[1]);
    failing_alloc_off();
    assert_false(failing_alloc_hit());
    cop__map_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaves_as_the_model),
        cmocka_unit_test(small_map_wraps_around),
        cmocka_unit_test(extreme_keys_are_keys),
        cmocka_unit_test(iteration_order_is_fixed),
        cmocka_unit_test(empty_map_holds_no_memory),
        cmocka_unit_test(no_memory_leaves_it_unchanged),
        cmocka_unit_test(replacing_and_removing_never_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
