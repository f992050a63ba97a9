/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "failing_alloc.h"
#include "filter/filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* What the built-in filters make of packets, and what they refuse. */

struct world {
    const struct cop_filter *filter;
    const char *type;
    struct cop_buf *empty, *state;
};

static struct world begin(const char *name, const char *type, const char *params)
{
    struct world world = {cop_filter_find(name), type, NULL, NULL};
    assert_non_null(world.filter);
    assert_int_equal(cop_filter_init(world.filter, type, params, &world.empty), 0);
    world.state = cop_buf_ref(world.empty);
    return world;
}

static void end(struct world *world)
{
    cop_buf_unref(world->empty);
    cop_buf_unref(world->state);
}

static int try_bytes(struct world *world, cop_id leaf, const void *bytes,
                     uint32_t length)
{
    struct cop_packet packet = {world->type, leaf, 0, {bytes, length}};
    struct cop_buf *lifted, *joined;
    int error = cop_filter_lift(world->filter, world->empty, &packet, &lifted);
    if (error)
        return error;
    assert_int_equal(cop_filter_join(world->filter, world->state, lifted, &joined), 0);
    cop_buf_unref(lifted);
    cop_buf_unref(world->state);
    world->state = joined;
    return 0;
}

static void give(struct world *world, cop_id leaf, const uint64_t *words,
                 uint32_t count)
{
    uint8_t bytes[64 * 8];
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < 8; j++)
            bytes[i * 8 + j] = (uint8_t)(words[i] >> (8 * j));
    assert_int_equal(try_bytes(world, leaf, bytes, count * 8), 0);
}

static void give_one(struct world *world, cop_id leaf, uint64_t word)
{
    give(world, leaf, &word, 1);
}

static void give_text(struct world *world, cop_id leaf, const char *text)
{
    assert_int_equal(try_bytes(world, leaf, text, (uint32_t)strlen(text)), 0);
}

/* The result has to be these numbers. */
static void expect(struct world *world, const uint64_t *words, uint32_t count)
{
    struct cop_buf *result;
    assert_int_equal(
        cop_filter_result(world->filter, world->type, world->state, &result), 0);
    assert_int_equal(result->length, count * 8);
    for (uint32_t i = 0; i < count; i++)
        assert_true(cop_filter_get_u64(result->data + (size_t)i * 8) == words[i]);
    cop_buf_unref(result);
    end(world);
}

static uint64_t result_word(const struct world *world)
{
    struct cop_buf *result;
    assert_int_equal(
        cop_filter_result(world->filter, world->type, world->state, &result), 0);
    uint64_t word = cop_filter_get_u64(result->data);
    cop_buf_unref(result);
    return word;
}

static void expect_text(struct world *world, const char *text)
{
    struct cop_buf *result;
    assert_int_equal(
        cop_filter_result(world->filter, world->type, world->state, &result), 0);
    assert_int_equal(result->length, strlen(text));
    assert_memory_equal(result->data, text, result->length);
    cop_buf_unref(result);
    end(world);
}

#define WORDS(...)                                                                     \
    (const uint64_t[]){__VA_ARGS__},                                                   \
        (uint32_t)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#define MINUS(value) (UINT64_MAX - (value) + 1)

static uint64_t bits(double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

/* ---- numbers --------------------------------------------------------------------- */

static void test_smallest_and_largest(void **state)
{
    (void)state;
    struct world world = begin("min", "i64", "");
    struct cop_buf *result;
    assert_int_equal(cop_filter_result(world.filter, "i64", world.state, &result),
                     COP_ENOENT);
    give_one(&world, 0, 3);
    give_one(&world, 1, MINUS(7));
    expect(&world, WORDS(MINUS(7)));
    world = begin("max", "u64", "");
    give_one(&world, 0, 3);
    give_one(&world, 1, MINUS(7));
    give_one(&world, 2, 0);
    expect(&world, WORDS(MINUS(7)));
    world = begin("min", "f64", "");
    give_one(&world, 0, bits(0.0));
    give_one(&world, 1, bits(-0.0));
    give_one(&world, 2, bits(1e300));
    expect(&world, WORDS(bits(-0.0)));
    world = begin("max", "i64[]", "");
    give(&world, 0, WORDS(1, 9));
    give(&world, 1, WORDS(4, 2, MINUS(3)));
    expect(&world, WORDS(4, 9, MINUS(3)));
    world = begin("min", "f64", "");
    const uint8_t none[8] = {0, 0, 0, 0, 0, 0, 0xf8, 0x7f};
    assert_int_equal(try_bytes(&world, 0, none, 8), COP_EINVAL);
    end(&world);
}

static void test_sums(void **state)
{
    (void)state;
    struct world world = begin("sum", "u64", "");
    give_one(&world, 0, UINT64_MAX);
    give_one(&world, 1, UINT64_MAX);
    expect(&world, WORDS(UINT64_MAX - 1, 1));
    world = begin("sum", "i64", "");
    give_one(&world, 0, MINUS(5));
    give_one(&world, 1, 3);
    expect(&world, WORDS(MINUS(2), UINT64_MAX));
    world = begin("sum", "f64", "");
    give_one(&world, 0, bits(1e300));
    give_one(&world, 1, bits(1.5));
    give_one(&world, 2, bits(-1e300));
    expect(&world, WORDS(bits(1.5)));
    world = begin("sum", "u64[2]", "");
    give(&world, 0, WORDS(1, 2));
    give(&world, 1, WORDS(10, 20));
    expect(&world, WORDS(11, 0, 22, 0));
    world = begin("sum", "f64", "");
    expect(&world, WORDS(bits(0.0)));
}

static void test_count_mean_and_variance(void **state)
{
    (void)state;
    struct world world = begin("count", "text", "");
    give_text(&world, 0, "a");
    give_text(&world, 0, "a");
    expect(&world, WORDS(2));
    world = begin("mean", "i64", "");
    give_one(&world, 0, MINUS(1));
    give_one(&world, 1, 2);
    expect(&world, WORDS(bits(0.5)));
    world = begin("mean", "f64", "");
    give_one(&world, 0, bits(1e308));
    give_one(&world, 1, bits(1e308));
    give_one(&world, 2, bits(1e308));
    expect(&world, WORDS(bits(1e308)));
    /* Where floating point would lose everything: 2, 4, 6 shifted far away. */
    world = begin("variance", "u64", "");
    for (uint64_t i = 2; i <= 6; i += 2)
        give_one(&world, 0, (UINT64_C(1) << 63) + i);
    expect(&world, WORDS(bits(8.0 / 3.0)));
    world = begin("variance", "i64", "");
    give_one(&world, 0, UINT64_C(1) << 63);
    give_one(&world, 1, UINT64_MAX >> 1);
    expect(&world, WORDS(bits(0x1p126)));
}

static void test_sums_of_doubles_do_not_depend_on_the_order(void **state)
{
    (void)state;
    enum { COUNT = 64 };
    uint64_t words[COUNT];
    struct cop__random random;
    cop__random_init(&random, 7);
    for (int i = 0; i < COUNT; i++)
        words[i] = (cop__random_next(&random) & ~(UINT64_C(0x7ff) << 52)) |
                   (1023 + cop__random_below(&random, 60)) << 52;
    struct world forward = begin("sum", "f64", ""), backward = begin("sum", "f64", "");
    for (uint32_t i = 0; i < COUNT; i++) {
        give_one(&forward, i, words[i]);
        give_one(&backward, i, words[COUNT - 1 - i]);
    }
    assert_true(result_word(&forward) == result_word(&backward));
    end(&forward);
    end(&backward);
}

/* ---- sets and orders ------------------------------------------------------------- */

static void test_union(void **state)
{
    (void)state;
    struct world world = begin("union", "u64[]", "");
    give(&world, 0, WORDS(7, 1, 2, 2));
    give(&world, 1, WORDS(3, UINT64_MAX));
    /* 1-3, 7 and the last: no larger than three ranges need. */
    assert_int_equal(world.state->length, world.empty->length + 1 + 2 + 2 + 11);
    expect(&world, WORDS(1, 2, 3, 7, UINT64_MAX));
    /* All numbers there are: a state of a few bytes, and no list. */
    world = begin("union", "u64", "");
    static const uint8_t all[] = {1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1};
    struct cop_buf *full = cop_buf_create(world.empty->length + sizeof all), *result;
    memcpy(full->data, world.empty->data, world.empty->length);
    memcpy(full->data + world.empty->length, all, sizeof all);
    assert_int_equal(cop_filter_check(world.filter, world.empty,
                                      (struct cop_span){full->data, full->length}),
                     0);
    assert_int_equal(cop_filter_result(world.filter, "u64", full, &result),
                     COP_ETOOBIG);
    cop_buf_unref(full);
    end(&world);
    world = begin("union", "i64", "");
    give_one(&world, 0, 1);
    give_one(&world, 0, MINUS(1));
    expect(&world, WORDS(MINUS(1), 1));
    world = begin("union", "text", "");
    give_text(&world, 0, "b\n");
    give_text(&world, 1, "a");
    give_text(&world, 2, "a");
    expect_text(&world, "a\nb\\x0a\n");
}

static void test_concat_is_in_the_order_of_leaves(void **state)
{
    (void)state;
    struct world world = begin("concat", "bytes", "");
    give_text(&world, 300, "last");
    give_text(&world, 2, "x");
    struct cop_buf *result;
    assert_int_equal(cop_filter_result(world.filter, "bytes", world.state, &result), 0);
    assert_int_equal(result->length, 24 + 1 + 24 + 4);
    assert_int_equal(cop_filter_get_u64(result->data), 2);
    assert_int_equal(result->data[24], 'x');
    assert_int_equal(cop_filter_get_u64(result->data + 25), 300);
    assert_memory_equal(result->data + 49, "last", 4);
    cop_buf_unref(result);
    end(&world);
}

static void test_histogram_and_top(void **state)
{
    (void)state;
    struct world world = begin("histogram", "i64[]", "bounds=-5:0:10");
    give(&world, 0, WORDS(MINUS(6), MINUS(5), MINUS(1), 0, 9, 10, 11));
    expect(&world, WORDS(1, 2, 2, 2));
    world = begin("top", "i64", "k=2");
    give_one(&world, 4, MINUS(9));
    give_one(&world, 5, 3);
    give_one(&world, 6, 8);
    give_one(&world, 7, 3);
    expect(&world, WORDS(8, 6, 3, 5));
    world = begin("top", "u64", "k=1");
    give_one(&world, 4, MINUS(9));
    give_one(&world, 5, 3);
    expect(&world, WORDS(MINUS(9), 4));
}

/* ---- sketches -------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The bound that is promised: 1/256 of the value that has exactly that rank. */
static void test_quantiles_are_within_their_bound(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static uint64_t all[COUNT];
    static const uint32_t at[] = {0, 1, 10, 250, 500, 900, 990, 999, 1000};
    struct cop__random random;
    cop__random_init(&random, 11);
    for (uint32_t spread = 8; spread < 64; spread += 27) {
        struct world world =
            begin("quantiles", "u64[]", "at=0:1:10:250:500:900:990:999:1000");
        for (uint32_t i = 0; i < COUNT; i++)
            all[i] = cop__random_next(&random) >> cop__random_below(&random, spread);
        for (uint32_t i = 0; i < COUNT; i += 50)
            give(&world, i, all + i, 50);
        qsort(all, COUNT, sizeof *all, compare);
        struct cop_buf *result;
        assert_int_equal(cop_filter_result(world.filter, "u64", world.state, &result),
                         0);
        for (uint32_t i = 0; i < sizeof at / sizeof *at; i++) {
            uint32_t rank = (COUNT * at[i] + 999) / 1000;
            uint64_t exact = all[rank ? rank - 1 : 0];
            uint64_t said = cop_filter_get_u64(result->data + (size_t)i * 8);
            uint64_t off = said > exact ? said - exact : exact - said;
            assert_true(off <= exact / 256);
        }
        cop_buf_unref(result);
        end(&world);
    }
    struct world world = begin("quantiles", "i64", "at=0:500:1000");
    give_one(&world, 0, UINT64_C(1) << 63);
    give_one(&world, 0, MINUS(200));
    give_one(&world, 0, 100);
    expect(&world,
           WORDS(MINUS((UINT64_C(1) << 63) + (UINT64_C(1) << 55)), MINUS(200), 100));
}

/* Many values at once, folded pair by pair: a state grows with each. */
static void give_many(struct world *world, uint64_t first, uint64_t last)
{
    struct cop_buf **states = calloc(last - first + 1, sizeof(struct cop_buf *)),
                   *folded;
    uint32_t count = 0;
    assert_non_null(states);
    states[count++] = cop_buf_ref(world->state);
    for (uint64_t i = first; i < last; i++) {
        uint8_t bytes[8] = {(uint8_t)i, (uint8_t)(i >> 8), (uint8_t)(i >> 16)};
        struct cop_packet packet = {world->type, 1, i, {bytes, 8}};
        assert_int_equal(
            cop_filter_lift(world->filter, world->empty, &packet, &states[count++]), 0);
    }
    assert_int_equal(
        cop_filter_fold(world->filter, world->empty, states, count, &folded), 0);
    for (uint32_t i = 0; i < count; i++)
        cop_buf_unref(states[i]);
    free(states);
    cop_buf_unref(world->state);
    world->state = folded;
}

/* Five standard errors, for every size: wrong once in a million, and the seed is fixed. */
static void test_distinct_is_about_right(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 2, 10, 100, 1000, 5000, 11000, 20000};
    struct world world = begin("distinct", "u64", "");
    uint64_t given = 0;
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        give_many(&world, given, sizes[i]);
        given = sizes[i];
        if (given > 0)
            give_one(&world, 2, 0); /* again */
        uint64_t said = result_word(&world);
        uint64_t off = said > given ? said - given : given - said;
        assert_true(off <= given * 8 / 100);
        if (given <= 10)
            assert_int_equal(off, 0);
    }
    assert_true(world.state->length < 13000);
    end(&world);
}

/* ---- who and when ---------------------------------------------------------------- */

static void test_classes(void **state)
{
    (void)state;
    struct world world = begin("classes", "i64", "");
    for (cop_id leaf = 0; leaf < 5; leaf++)
        give_one(&world, leaf, leaf == 3 ? MINUS(1) : 1);
    expect_text(&world, "4\t0-2,4\t1\n1\t3\t-1\n");
}

static void test_aligned(void **state)
{
    (void)state;
    struct world world = begin("aligned", "i64[3]", "width=100,bins=3");
    give(&world, 0, WORDS(50, 100, 101)); /* half in each of two intervals */
    give(&world, 1, WORDS(0, 0, 7));
    give(&world, 2, WORDS(100, 100, MINUS(3)));
    struct cop_buf *kept = cop_buf_ref(world.state);
    expect(&world, WORDS(0, 2, 57, 100, 2, 48));
    /* The newest three stay. */
    world = begin("aligned", "i64[3]", "width=100,bins=3");
    cop_buf_unref(world.state);
    world.state = kept;
    give(&world, 3, WORDS(300, 1, 5));
    expect(&world, WORDS(100, 2, 48, 300, 1, 5));
    world = begin("aligned", "i64[3]", "");
    const uint8_t before_time[24] = {0, 0, 0, 0, 0, 0, 0, 0x80};
    assert_int_equal(try_bytes(&world, 0, before_time, 24), COP_EINVAL);
    end(&world);
}

static void test_skew(void **state)
{
    (void)state;
    struct world world = begin("skew", "i64[2]", "");
    give(&world, 1, WORDS(MINUS(40), 11));
    give(&world, 1, WORDS(9, 20));
    give(&world, 0, WORDS(5, 6));
    expect(&world, WORDS(0, 5, 3, 1, MINUS(40), 6));
}

static void test_graph(void **state)
{
    (void)state;
    struct world world = begin("graph", "text", "");
    give_text(&world, 0, "a\tb\nc");
    give_text(&world, 1, "b\tc\na\tb\n");
    expect_text(&world, "2\t0-1\ta\tb\n1\t1\tb\tc\n1\t0\tc\n");
    world = begin("graph", "text", "");
    static const char *const wrong[] = {"a\t", "\tb", "a\tb\tc", "\n", "a\n\nb"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(try_bytes(&world, 0, wrong[i], (uint32_t)strlen(wrong[i])),
                         COP_EINVAL);
    end(&world);
}

static void test_stacks(void **state)
{
    (void)state;
    struct world world = begin("stacks", "text", "");
    give_text(&world, 3, "100 main;work;read\n101 main;work;write\n");
    give_text(&world, 2, "main;wait");
    give_text(&world, 4, "main;wait\n");
    expect_text(&world, "1\t4\t2,4,3:100-3:101\tmain\n"
                        "2\t2\t2,4\twait\n"
                        "2\t2\t3:100-3:101\twork\n"
                        "3\t1\t3:100\tread\n"
                        "3\t1\t3:101\twrite\n");
    world = begin("stacks", "text", "");
    static const char *const wrong[] = {"a;;b", ";", "a;", "\n", "7 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(try_bytes(&world, 0, wrong[i], (uint32_t)strlen(wrong[i])),
                         COP_EINVAL);
    end(&world);
}

/* ---- types, parameters, containment ---------------------------------------------- */

static void test_types(void **state)
{
    (void)state;
    static const char *const good[] = {"u64",  "i64[]", "f64[3]",
                                       "i128", "text",  "bytes"};
    static const char *const bad[] = {"",        "u6",
                                      "u64[",    "u64[0]",
                                      "u64[03]", "u64[]]",
                                      "text[]",  "u64[999999999]",
                                      "u64 ",    "[]",
                                      "u64[-1]", "any",
                                      "u64][",   "u64[11111111111111111111111111111]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(cop_type_valid(good[i]), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(cop_type_valid(bad[i]), COP_EINVAL);
    const struct {
        const char *type, *bytes;
        uint32_t length;
        int error;
    } rows[] = {
        {"u64", "12345678", 8, 0},
        {"u64", "1234567", 7, COP_EINVAL},
        {"u64[]", "", 0, 0},
        {"u64[2]", "1234567812345678", 16, 0},
        {"u64[2]", "12345678", 8, COP_EINVAL},
        {"i128", "12345678", 8, COP_EINVAL},
        {"text", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\xb3", 11, 0},
        {"text", "\xc3", 1, COP_EINVAL},
        {"text", "\xc0\x80", 2, COP_EINVAL},         /* longer than needed */
        {"text", "\xed\xa0\x80", 3, COP_EINVAL},     /* half of a pair */
        {"text", "\xf4\x90\x80\x80", 4, COP_EINVAL}, /* beyond the last */
        {"text", "\xe2\x28\xa1", 3, COP_EINVAL},
        {"bytes", "\xc3", 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cop_span span = {(const uint8_t *)rows[i].bytes, rows[i].length};
        assert_int_equal(cop_type_check(rows[i].type, span), rows[i].error);
    }
}

static void test_parameters_are_judged(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {
        {"sum", "u64", "k=1"},
        {"sum", "text", ""},
        {"top", "u64", "k=0"},
        {"top", "u64", "k=1025"},
        {"top", "u64", "k="},
        {"top", "u64", "k=1,"},
        {"top", "u64", "n=1"},
        {"top", "u64", "k"},
        {"histogram", "u64", "bounds=2:1"},
        {"histogram", "u64", "bounds=-1"},
        {"histogram", "u64", "bounds=1::2"},
        {"histogram", "u64", "bounds=1,bounds=2"},
        {"quantiles", "u64", "at=1001"},
        {"quantiles", "u64", "at=1:x"},
        {"aligned", "i64[3]", "width=0"},
        {"aligned", "i64[3]", "bins=5000"},
        {"aligned", "i64[2]", ""},
        {"min", "u64", "x=1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct cop_buf *empty;
        assert_int_equal(cop_filter_init(cop_filter_find(wrong[i][0]), wrong[i][1],
                                         wrong[i][2], &empty),
                         COP_EINVAL);
    }
}

static void test_states_of_other_parameters_are_refused(void **state)
{
    (void)state;
    struct world two = begin("top", "u64", "k=2"), three = begin("top", "u64", "k=3");
    struct cop_buf *joined;
    assert_int_equal(cop_filter_join(two.filter, two.state, three.state, &joined),
                     COP_EINVAL);
    struct cop_span span = {three.state->data, three.state->length};
    assert_int_equal(cop_filter_check(two.filter, two.empty, span), COP_EINVAL);
    assert_int_equal(cop_filter_check(two.filter, three.empty, span), 0);
    span.length--;
    assert_int_equal(cop_filter_check(two.filter, two.empty, span), COP_EMALFORMED);
    struct cop_packet packet = {"i64", 0, 0, {(const uint8_t *)"12345678", 8}};
    packet.type = "text";
    assert_int_equal(cop_filter_lift(two.filter, two.empty, &packet, &joined),
                     COP_EINVAL);
    packet.type = "u64";
    packet.data.length = 4;
    assert_int_equal(cop_filter_lift(two.filter, two.empty, &packet, &joined),
                     COP_EINVAL);
    end(&two);
    end(&three);
}

/* A filter of somebody else, with a mind of its own. */
static enum { HONEST, NOT_A_STATE, ODD_CODE, ENDLESS, OTHER_TYPE, SHORT } manner;

static int own_init(const char *type, const char *params, struct cop_filter_out *out)
{
    (void)type, (void)params;
    return cop_filter_put(out, "s", 1);
}

static int own_lift(struct cop_span empty, const struct cop_packet *packet,
                    struct cop_filter_out *out)
{
    (void)packet;
    return cop_filter_put(out, empty.bytes, empty.length);
}

static int own_join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    (void)b;
    if (manner == ODD_CODE)
        return 42;
    if (manner == SHORT)
        return COP_ENOMEM;
    if (manner == NOT_A_STATE)
        return cop_filter_put(out, "x", 1);
    while (manner == ENDLESS && out->error == 0)
        cop_filter_put_u64(out, 0);
    return cop_filter_put(out, a.bytes, a.length);
}

static int own_check(struct cop_span state)
{
    return state.length == 1 && state.bytes[0] == 's' ? 0 : COP_EMALFORMED;
}

static int own_result(struct cop_span state, struct cop_filter_out *out)
{
    (void)state;
    return cop_filter_put(out, "12345678", manner == OTHER_TYPE ? 7 : 8);
}

static const struct cop_filter own_filter = {
    COP_FILTER_ABI, 0,        "own",    "mine",   "own/1",   "any",      "u64", NULL,
    own_init,       own_lift, own_join, own_join, own_check, own_result, NULL,  NULL};

static void test_a_filter_that_lies_is_contained(void **state)
{
    (void)state;
    struct cop_filter own = own_filter;
    struct cop_buf *empty, *out = NULL;
    assert_int_equal(cop_filter_valid(&own, NULL), 0);
    assert_int_equal(cop_filter_init(&own, "text", "", &empty), 0);
    assert_int_equal(cop_filter_join(&own, empty, empty, &out), 0);
    assert_ptr_equal(out, empty); /* nothing new: the same buffer */
    cop_buf_unref(out);
    manner = NOT_A_STATE;
    assert_int_equal(cop_filter_join(&own, empty, empty, &out), COP_EBUG);
    assert_int_equal(cop_filter_diff(&own, empty, empty, &out), COP_EBUG);
    manner = ODD_CODE;
    assert_int_equal(cop_filter_join(&own, empty, empty, &out), COP_EBUG);
    manner = ENDLESS;
    assert_int_equal(cop_filter_join(&own, empty, empty, &out), COP_ETOOBIG);
    manner = OTHER_TYPE;
    assert_int_equal(cop_filter_result(&own, "text", empty, &out), COP_EBUG);
    manner = HONEST;
    cop_buf_unref(empty);
}

/* Who has no memory: a filter of somebody else, which may say so for reasons of its own, or the
 * library, of which all filters in it are. `function` is one of lift, join and check. */
static int call(const struct cop_filter *filter, const struct cop_packet *packet,
                struct cop_buf *empty, struct cop_buf *of, int function, bool *is_short)
{
    struct cop_buf *out = NULL;
    int error = 0;
    if (function == 0)
        error = cop__filter_lift(filter, empty, packet, is_short, &out);
    else if (function == 1)
        error = cop__filter_join(filter, of, of, is_short, &out);
    else
        error = cop__filter_check(filter, empty,
                                  (struct cop_span){of->data, of->length}, is_short);
    cop_buf_unref(out);
    return error;
}

static void test_whose_memory_it_is(void **state)
{
    (void)state;
    static const uint64_t words[] = {1, 2, 4};
    static const struct {
        const char *name, *type, *params;
        const void *bytes;
        uint32_t length;
    } cases[] = {
        {NULL, "u64", "", words, 8},         {"sum", "u64", "", words, 8},
        {"union", "u64[]", "", words, 24},   {"quantiles", "u64[]", "", words, 24},
        {"stacks", "text", "", "a;b\nc", 5}, {"levels", "u64", "sum@1,max", words, 8}};
    bool is_short;
    manner = HONEST;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct cop_filter *filter =
            cases[i].name ? cop_filter_find(cases[i].name) : &own_filter;
        struct cop_packet packet = {
            cases[i].type, 0, 1, {cases[i].bytes, cases[i].length}};
        struct cop_buf *empty, *of;
        assert_int_equal(
            cop__filter_init(filter, cases[i].type, cases[i].params, &is_short, &empty),
            0);
        assert_int_equal(cop_filter_lift(filter, empty, &packet, &of), 0);
        for (int function = 0; function < 3; function++) {
            bool was_hit = true;
            for (size_t n = 0; was_hit; n++) {
                failing_alloc_after(n);
                int error = call(filter, &packet, empty, of, function, &is_short);
                failing_alloc_off();
                was_hit = failing_alloc_hit();
                assert_int_equal(error, was_hit ? COP_ENOMEM : 0);
                assert_int_equal(is_short, was_hit);
            }
        }
        cop_buf_unref(empty);
        cop_buf_unref(of);
    }
}

static void test_a_filter_without_memory(void **state)
{
    (void)state;
    bool is_short;
    struct cop_buf *empty;
    struct cop_packet packet = {"u64", 0, 1, {(const uint8_t *)"12345678", 8}};
    manner = HONEST;
    assert_int_equal(cop_filter_init(&own_filter, "u64", "", &empty), 0);
    manner = SHORT;
    for (int function = 1; function < 3; function++) {
        assert_int_equal(call(&own_filter, &packet, empty, empty, function, &is_short),
                         COP_ENOMEM);
        assert_false(is_short);
    }
    manner = HONEST;
    cop_buf_unref(empty);
}

static void test_tables_are_judged(void **state)
{
    (void)state;
    const struct cop_filter good = *cop_filter_find("sum");
    struct cop_filter bad = good;
    const char *why = NULL;
    assert_int_equal(cop_filter_valid(&bad, NULL), 0);
    bad.abi++;
    assert_int_equal(cop_filter_valid(&bad, &why), COP_EVERSION);
    assert_non_null(strstr(why, "version"));
#define BAD(field, value)                                                              \
    bad = good;                                                                        \
    bad.field = value;                                                                 \
    assert_int_equal(cop_filter_valid(&bad, &why), COP_EINVAL)
    BAD(name, "Sum");
    BAD(name, "");
    BAD(name, "a name with blanks");
    BAD(name, "x23456789012345678901234567890123");
    BAD(about, NULL);
    BAD(flags, COP_FILTER_DOWN); /* with functions for the way up */
    BAD(flags, COP_FILTER_FLAGS_ALL + 1);
    BAD(inputs, "u64 i64");
    BAD(inputs, "u65 i64 f64 u64[] i64[] f64[]");
    BAD(inputs, "");
    BAD(outputs, NULL);
    BAD(join, NULL);
    BAD(check, NULL);
#undef BAD
}

/* The same state with a byte more: the length of a text as 0x81 0x00. */
static void test_a_longer_way_to_write_a_number_is_refused(void **state)
{
    (void)state;
    struct world world = begin("union", "text", "");
    static const uint8_t bodies[2][3] = {{1, 'a'}, {0x81, 0, 'a'}};
    for (uint32_t i = 0; i < 2; i++) {
        struct cop_buf *made = cop_buf_create(world.empty->length + 2 + i);
        memcpy(made->data, world.empty->data, world.empty->length);
        memcpy(made->data + world.empty->length, bodies[i], 2 + i);
        assert_int_equal(cop_filter_check(world.filter, world.empty,
                                          (struct cop_span){made->data, made->length}),
                         i ? COP_EMALFORMED : 0);
        cop_buf_unref(made);
    }
    end(&world);
}

static void test_fold_of_many(void **state)
{
    (void)state;
    struct world world = begin("sum", "u64", "");
    struct cop_buf *states[9], *out;
    assert_int_equal(cop_filter_fold(world.filter, world.empty, NULL, 0, &out), 0);
    assert_ptr_equal(out, world.empty);
    cop_buf_unref(out);
    for (uint32_t i = 0; i < 9; i++) {
        struct world one = begin("sum", "u64", "");
        give_one(&one, i, UINT64_C(1) << i);
        states[i] = cop_buf_ref(one.state);
        end(&one);
    }
    for (uint32_t count = 1; count <= 9; count++) {
        assert_int_equal(
            cop_filter_fold(world.filter, world.empty, states, count, &out), 0);
        cop_buf_unref(world.state);
        world.state = out;
        assert_true(result_word(&world) == (UINT64_C(1) << count) - 1);
    }
    /* One that cannot be joined. */
    struct world other = begin("sum", "i64", "");
    cop_buf_unref(states[4]);
    states[4] = cop_buf_ref(other.state);
    assert_int_equal(cop_filter_fold(world.filter, world.empty, states, 9, &out),
                     COP_EINVAL);
    for (uint32_t i = 0; i < 9; i++)
        cop_buf_unref(states[i]);
    end(&other);
    end(&world);
}

static struct cop_buf *lift_one(const char *type, uint64_t value)
{
    const struct cop_filter *filter = cop_filter_find("sum");
    struct cop_packet packet = {.type = type,
                                .data = {(uint8_t *)&value, sizeof value}};
    struct cop_buf *empty, *state;
    assert_int_equal(cop_filter_init(filter, type, "", &empty), 0);
    assert_int_equal(cop_filter_lift(filter, empty, &packet, &state), 0);
    cop_buf_unref(empty);
    return state;
}

/* As join, or not at all. */
static void absorb(const struct cop_filter *filter, struct cop_buf *state,
                   struct cop_buf *with, bool can)
{
    struct cop_buf *was = cop_buf_copy(state->data, state->length), *sum = was;
    assert_non_null(was);
    if (can)
        assert_int_equal(cop_filter_join(filter, state, with, &sum), 0);
    struct cop_span more = {with->data, with->length};
    assert_int_equal(cop__filter_absorb(filter, state, more), can);
    assert_int_equal(state->length, sum->length);
    assert_memory_equal(state->data, sum->data, sum->length);
    cop_buf_unref(was);
    if (can)
        cop_buf_unref(sum);
}

static void test_a_sum_is_written_over(void **state)
{
    (void)state;
    const struct cop_filter *sum = cop_filter_find("sum");
    struct cop_buf *a = lift_one("u64", UINT64_MAX), *b = lift_one("u64", 7);
    struct cop_buf *c = lift_one("i64", UINT64_MAX), *d = lift_one("i64", 5);
    struct cop_buf *e = lift_one("f64", 0), *empty;
    absorb(sum, a, b, true); /* more than a word has */
    absorb(sum, d, c, true); /* 5 - 1 */
    assert_int_equal(cop_filter_init(sum, "u64", "", &empty), 0);
    absorb(sum, empty, b, false);
    absorb(sum, c, b, false);
    absorb(sum, e, e, false);
    absorb(cop_filter_find("max"), a, b, false);
    cop_buf_ref(a);
    absorb(sum, a, b, false); /* somebody else reads it */
    cop_buf_unref(a);
    cop_buf_unref(a);
    cop_buf_unref(b);
    cop_buf_unref(c);
    cop_buf_unref(d);
    cop_buf_unref(e);
    cop_buf_unref(empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_and_largest),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_count_mean_and_variance),
        cmocka_unit_test(test_sums_of_doubles_do_not_depend_on_the_order),
        cmocka_unit_test(test_union),
        cmocka_unit_test(test_concat_is_in_the_order_of_leaves),
        cmocka_unit_test(test_histogram_and_top),
        cmocka_unit_test(test_quantiles_are_within_their_bound),
        cmocka_unit_test(test_distinct_is_about_right),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_skew),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_parameters_are_judged),
        cmocka_unit_test(test_states_of_other_parameters_are_refused),
        cmocka_unit_test(test_a_filter_that_lies_is_contained),
        cmocka_unit_test(test_whose_memory_it_is),
        cmocka_unit_test(test_a_filter_without_memory),
        cmocka_unit_test(test_tables_are_judged),
        cmocka_unit_test(test_a_longer_way_to_write_a_number_is_refused),
        cmocka_unit_test(test_fold_of_many),
        cmocka_unit_test(test_a_sum_is_written_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
