/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

#include <string.h>

/* Computed with an independent implementation of the published algorithms. */
static const struct {
    uint64_t seed;
    uint64_t first[6];
} vectors[] = {
    {0,
     {UINT64_C(0x99ec5f36cb75f2b4), UINT64_C(0xbf6e1f784956452a),
      UINT64_C(0x1a5f849d4933e6e0), UINT64_C(0x6aa594f1262d2d2c),
      UINT64_C(0xbba5ad4a1f842e59), UINT64_C(0xffef8375d9ebcaca)}},
    {1,
     {UINT64_C(0xb3f2af6d0fc710c5), UINT64_C(0x853b559647364cea),
      UINT64_C(0x92f89756082a4514), UINT64_C(0x642e1c7bc266a3a7),
      UINT64_C(0xb27a48e29a233673), UINT64_C(0x24c123126ffda722)}},
    {42,
     {UINT64_C(0x15780b2e0c2ec716), UINT64_C(0x6104d9866d113a7e),
      UINT64_C(0xae17533239e499a1), UINT64_C(0xecb8ad4703b360a1),
      UINT64_C(0xfde6dc7fe2ec5e64), UINT64_C(0xc50da53101795238)}},
    {UINT64_MAX,
     {UINT64_C(0x8f5520d52a7ead08), UINT64_C(0xc476a018caa1802d),
      UINT64_C(0x81de31c0d260469e), UINT64_C(0xbf658d7e065f3c2f),
      UINT64_C(0x913593fda1bca32a), UINT64_C(0xbb535e93941ba525)}},
};

static void numbers_are_the_same_everywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        struct cop__random random;
        cop__random_init(&random, vectors[i].seed);
        for (size_t j = 0; j < 6; j++)
            assert_int_equal(cop__random_next(&random), vectors[i].first[j]);
    }
}

static void mixing_is_the_same_everywhere(void **state)
{
    (void)state;
    assert_int_equal(cop__mix64(0), 0);
    assert_int_equal(cop__mix64(1), UINT64_C(0x5692161d100b05e5));
    assert_int_equal(cop__mix64(42), UINT64_C(0xa759ea27d4727622));
    assert_int_equal(cop__mix64(UINT64_MAX), UINT64_C(0xb4d055fcf2cbbd7b));
}

static void below_is_the_same_everywhere(void **state)
{
    (void)state;
    const uint64_t expected[] = {22, 33, 33, 56, 50, 7,  61, 54,
                                 66, 77, 21, 84, 58, 89, 43, 61};
    struct cop__random random;
    cop__random_init(&random, 42);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(cop__random_below(&random, 100), expected[i]);
}

static void below_stays_below(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 3);
    for (int i = 0; i < 100000; i++) {
        uint64_t bound = cop__random_next(&random) >> cop__random_below(&random, 64);
        if (bound > 0)
            assert_true(cop__random_below(&random, bound) < bound);
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(cop__random_below(&random, 1), 0);
    /* The two greatest bounds, where a careless mask overflows. */
    for (int i = 0; i < 100; i++) {
        assert_true(cop__random_below(&random, UINT64_MAX) < UINT64_MAX);
        assert_true(cop__random_below(&random, (UINT64_C(1) << 63) + 1) <= UINT64_C(1)
                                                                               << 63);
    }
}

/* Chi-squared over `bound` cells, expected value bound - 1: ten standard deviations are
 * beyond any luck, and the seed is fixed. */
static void check_uniform(uint32_t bound, uint64_t seed)
{
    enum { PER_CELL = 2000, CELLS = 200 };
    static uint32_t cells[CELLS];
    struct cop__random random;
    uint64_t squares = 0;
    assert_true(bound <= CELLS);
    memset(cells, 0, sizeof(cells));
    cop__random_init(&random, seed);
    for (uint32_t i = 0; i < bound * PER_CELL; i++)
        cells[cop__random_below(&random, bound)]++;
    for (uint32_t i = 0; i < bound; i++) {
        int64_t off = (int64_t)cells[i] - PER_CELL;
        squares += (uint64_t)(off * off);
    }
    uint64_t deviation = squares / PER_CELL;
    assert_true(deviation < bound + 100 + bound / 2);
}

static void below_is_uniform(void **state)
{
    (void)state;
    for (uint32_t bound = 2; bound <= 200; bound += 9)
        check_uniform(bound, bound);
}

/* With the plain remainder, the lower third would be drawn twice as often as the
 * others. */
static void below_has_no_bias_for_huge_bounds(void **state)
{
    (void)state;
    const uint64_t third = UINT64_C(1) << 62;
    struct cop__random random;
    uint32_t count[3] = {0};
    cop__random_init(&random, 4);
    for (int i = 0; i < 30000; i++)
        count[cop__random_below(&random, 3 * third) / third]++;
    for (int i = 0; i < 3; i++)
        assert_in_range(count[i], 9500, 10500);
}

static void chance_is_as_often_as_told(void **state)
{
    (void)state;
    struct cop__random random;
    uint32_t hits = 0;
    cop__random_init(&random, 5);
    for (int i = 0; i < 70000; i++) {
        hits += cop__random_chance(&random, 3, 7);
        assert_false(cop__random_chance(&random, 0, 7));
        assert_true(cop__random_chance(&random, 7, 7));
        assert_true(cop__random_chance(&random, UINT32_MAX, 1));
    }
    assert_in_range(hits, 29300, 30700);
}

static uint32_t bits_of(uint64_t word)
{
    uint32_t count = 0;
    for (; word != 0; word &= word - 1)
        count++;
    return count;
}

/* Each bit of the input changes about half of the output. */
static void mixing_spreads_every_bit(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 6);
    for (int bit = 0; bit < 64; bit++) {
        uint32_t changed = 0;
        for (int i = 0; i < 1000; i++) {
            uint64_t value = cop__random_next(&random);
            changed +=
                bits_of(cop__mix64(value) ^ cop__mix64(value ^ UINT64_C(1) << bit));
        }
        assert_in_range(changed, 31000, 33000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_same_everywhere),
        cmocka_unit_test(mixing_is_the_same_everywhere),
        cmocka_unit_test(below_is_the_same_everywhere),
        cmocka_unit_test(below_stays_below),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(below_has_no_bias_for_huge_bounds),
        cmocka_unit_test(chance_is_as_often_as_told),
        cmocka_unit_test(mixing_spreads_every_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
