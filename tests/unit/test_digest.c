/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

static uint64_t digest_of_words(const uint64_t *words, size_t count)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    for (size_t i = 0; i < count; i++)
        cop__digest_word(&digest, words[i]);
    return cop__digest_value(&digest);
}

static uint64_t digest_of_bytes(const void *data, size_t length)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__digest_bytes(&digest, data, length);
    return cop__digest_value(&digest);
}

/* Recorded traces carry these values: they are the same on every machine and for ever.
 */
static void values_are_the_same_everywhere(void **state)
{
    (void)state;
    const uint64_t words[] = {1, 2, UINT64_MAX};
    assert_int_equal(digest_of_words(words, 0), UINT64_C(0x6159c6d69ff390f3));
    assert_int_equal(digest_of_words(words, 3), UINT64_C(0xe353c4d21664877f));
    assert_int_equal(digest_of_bytes("", 0), UINT64_C(0x8133422f844ad873));
    assert_int_equal(digest_of_bytes("coppice", 7), UINT64_C(0x15042afd8ad8ed1e));
    assert_int_equal(digest_of_bytes("cut it back, it regrows", 23),
                     UINT64_C(0xde9440ca63ddadc1));
}

static uint64_t digest_of_block(const void *data, size_t length)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__digest_block(&digest, data, length);
    return cop__digest_value(&digest);
}

static int compare_values(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void check_distinct(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), compare_values);
    for (size_t i = 1; i < count; i++)
        assert_int_not_equal(values[i - 1], values[i]);
}

/* A block, of any length, and all of it with one bit changed. */
static void blocks_are_told_apart(void **state)
{
    uint8_t block[200] = {0};
    uint64_t values[201], changed[1 + 8 * 100];
    (void)state;
    for (size_t length = 0; length <= sizeof block; length++)
        values[length] = digest_of_block(block, length);
    check_distinct(values, 201);
    changed[0] = digest_of_block(block, 100);
    for (size_t bit = 0; bit < 8 * 100; bit++) {
        block[bit / 8] ^= (uint8_t)(1u << bit % 8);
        changed[1 + bit] = digest_of_block(block, 100);
        block[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    check_distinct(changed, 1 + 8 * 100);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (uint8_t)i;
    /* Words that change their places, also from one of the streams to another. */
    values[0] = digest_of_block(block, 128);
    for (size_t i = 1; i < 16; i++) {
        uint8_t turned[128];
        memcpy(turned, block + 8 * i, 128 - 8 * i);
        memcpy(turned + 128 - 8 * i, block, 8 * i);
        values[i] = digest_of_block(turned, 128);
    }
    check_distinct(values, 16);
    /* Members of all kinds must come to the same. */
    assert_int_equal(digest_of_block(block, 200), UINT64_C(0x15faf5f62b46649c));
}

/* What traces are made of: small numbers, in every order, zeros in any number. */
static void small_streams_are_told_apart(void **state)
{
    (void)state;
    enum { SMALL = 40, COUNT = SMALL * SMALL * SMALL };
    uint64_t *values = malloc((COUNT + 1000) * sizeof(*values));
    size_t count = 0;
    assert_non_null(values);
    for (uint64_t i = 0; i < COUNT; i++) {
        const uint64_t words[] = {i % SMALL, i / SMALL % SMALL, i / SMALL / SMALL};
        values[count++] = digest_of_words(words, 3);
    }
    struct cop__digest zeros;
    cop__digest_init(&zeros);
    for (int i = 0; i < 1000; i++) {
        if (i != 3) /* three zeros are among the others */
            values[count++] = cop__digest_value(&zeros);
        cop__digest_word(&zeros, 0);
    }
    check_distinct(values, count);
    free(values);
}

/* One changed bit, in any of three words, changes about half of the value. */
static void every_bit_counts(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 8);
    for (uint32_t bit = 0; bit < 192; bit++) {
        uint32_t changed = 0;
        for (int i = 0; i < 300; i++) {
            uint64_t words[3];
            for (int j = 0; j < 3; j++)
                words[j] = cop__random_next(&random);
            uint64_t before = digest_of_words(words, 3);
            words[bit / 64] ^= UINT64_C(1) << bit % 64;
            uint64_t difference = before ^ digest_of_words(words, 3);
            for (; difference != 0; difference &= difference - 1)
                changed++;
        }
        assert_in_range(changed, 300 * 30, 300 * 34);
    }
}

static void every_byte_and_the_length_count(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    uint64_t values[65 + 64 * 255];
    size_t count = 0;
    for (size_t length = 0; length <= 64; length++)
        values[count++] = digest_of_bytes(bytes, length);
    for (size_t i = 0; i < 64; i++) {
        for (int value = 1; value < 256; value++) {
            bytes[i] = (uint8_t)value;
            values[count++] = digest_of_bytes(bytes, 64);
        }
        bytes[i] = 0;
    }
    check_distinct(values, count);
}

static void pieces_are_not_glued_together(void **state)
{
    (void)state;
    struct cop__digest left, right;
    cop__digest_init(&left);
    cop__digest_bytes(&left, "ab", 2);
    cop__digest_bytes(&left, "c", 1);
    cop__digest_init(&right);
    cop__digest_bytes(&right, "a", 1);
    cop__digest_bytes(&right, "bc", 2);
    assert_int_not_equal(cop__digest_value(&left), cop__digest_value(&right));
}

/* Bytes at any address give what the words that they spell, low byte first, give. */
static void bytes_are_words_low_byte_first(void **state)
{
    (void)state;
    uint8_t room[64];
    const uint64_t words[] = {13, UINT64_C(0x0706050403020100), UINT64_C(0x0c0b0a0908)};
    for (size_t offset = 0; offset < 16; offset++) {
        for (size_t i = 0; i < 13; i++)
            room[offset + i] = (uint8_t)i;
        assert_int_equal(digest_of_bytes(room + offset, 13), digest_of_words(words, 3));
    }
}

static void asking_does_not_change_it(void **state)
{
    (void)state;
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__digest_word(&digest, 5);
    assert_int_equal(cop__digest_value(&digest), cop__digest_value(&digest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_same_everywhere),
        cmocka_unit_test(small_streams_are_told_apart),
        cmocka_unit_test(blocks_are_told_apart),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(every_byte_and_the_length_count),
        cmocka_unit_test(pieces_are_not_glued_together),
        cmocka_unit_test(bytes_are_words_low_byte_first),
        cmocka_unit_test(asking_does_not_change_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
