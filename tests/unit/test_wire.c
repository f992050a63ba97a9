/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "wire/messages.h"

#include <coppice/error.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

/*
 * Every message of the table, by the table: whatever is added there is tested here.
 */

#define ELEMENTS_MAX 5u

/* Where random bytes and lists live while a message points to them. */
struct arena {
    struct cop__random random;
    uint8_t bytes[4096];
    size_t used;
};

static const uint8_t *random_bytes(struct arena *arena, size_t length)
{
    uint8_t *start = arena->bytes + arena->used;
    assert_true(arena->used + length <= sizeof arena->bytes);
    for (size_t i = 0; i < length; i++)
        start[i] = (uint8_t)cop__random_next(&arena->random);
    arena->used += length;
    return start;
}

static uint32_t random_count(struct arena *arena)
{
    return (uint32_t)cop__random_below(&arena->random, ELEMENTS_MAX);
}

/* ---- a random message, and whether two are the same ------------------------------ */

#define FILL_8(name) message->name = (uint8_t)cop__random_next(&arena->random);
#define FILL_16(name) message->name = (uint16_t)cop__random_next(&arena->random);
#define FILL_32(name) message->name = (uint32_t)cop__random_next(&arena->random);
#define FILL_64(name) message->name = cop__random_next(&arena->random);
#define FILL_BYTES(name)                                                               \
    message->name.length = random_count(arena);                                        \
    message->name.data = random_bytes(arena, message->name.length);
#define FILL_LIST(name, element)                                                       \
    message->name.count = random_count(arena);                                         \
    message->name.data =                                                               \
        random_bytes(arena, (size_t)message->name.count * COP__SIZE_##element);

#define SAME_INT(name) assert_true(a->name == b->name);
#define SAME_BYTES(name)                                                               \
    assert_int_equal(a->name.length, b->name.length);                                  \
    assert_memory_equal(a->name.data, b->name.data, a->name.length);
#define SAME_LIST(name, element)                                                       \
    assert_int_equal(a->name.count, b->name.count);                                    \
    assert_memory_equal(a->name.data, b->name.data,                                    \
                        (size_t)a->name.count *COP__SIZE_##element);

#define DEFINE(NAME, name, number, class, most, text)                                  \
    static void fill_##name(struct arena *arena, struct cop__msg_##name *message)      \
    {                                                                                  \
        COP__FIELDS_##name(FILL_8, FILL_16, FILL_32, FILL_64, FILL_BYTES, FILL_LIST)   \
    }                                                                                  \
    static void assert_same_##name(const struct cop__msg_##name *a,                    \
                                   const struct cop__msg_##name *b)                    \
    {                                                                                  \
        COP__FIELDS_##name(SAME_INT, SAME_INT, SAME_INT, SAME_INT, SAME_BYTES,         \
                           SAME_LIST)                                                  \
    }                                                                                  \
    /* A random one; `*out` is what was encoded, if somebody wants to know. */         \
    static struct cop_buf *make_##name(struct arena *arena,                            \
                                       struct cop__msg_##name *out)                    \
    {                                                                                  \
        struct cop__msg_##name message;                                                \
        arena->used = 0;                                                               \
        fill_##name(arena, &message);                                                  \
        struct cop_buf *buf = cop__encode_##name(&message);                            \
        assert_non_null(buf);                                                          \
        if (out)                                                                       \
            *out = message;                                                            \
        return buf;                                                                    \
    }                                                                                  \
    static void round_trip_##name(struct arena *arena)                                 \
    {                                                                                  \
        struct cop__msg_##name sent, got;                                              \
        struct cop_buf *buf = make_##name(arena, &sent);                               \
        assert_int_equal(cop__decode_##name(buf->data, buf->length, &got), 0);         \
        assert_same_##name(&sent, &got);                                               \
        cop_buf_unref(buf);                                                            \
    }                                                                                  \
    static int decode_##name(const uint8_t *data, size_t length)                       \
    {                                                                                  \
        struct cop__msg_##name message;                                                \
        return cop__decode_##name(data, length, &message);                             \
    }                                                                                  \
    static struct cop_buf *any_##name(struct arena *arena)                             \
    {                                                                                  \
        return make_##name(arena, NULL);                                               \
    }
COP__MESSAGES(DEFINE)
#undef DEFINE

static const struct {
    uint16_t kind;
    void (*round_trip)(struct arena *arena);
    int (*decode)(const uint8_t *data, size_t length);
    struct cop_buf *(*any)(struct arena *arena);
} messages[] = {
#define ROW(NAME, name, number, class, most, text)                                     \
    {number, round_trip_##name, decode_##name, any_##name},
    COP__MESSAGES(ROW)
#undef ROW
};
#define MESSAGES (sizeof messages / sizeof *messages)

static struct arena arena;

static int reset(void **state)
{
    (void)state;
    cop__random_init(&arena.random, 42);
    arena.used = 0;
    return 0;
}

/* The same bytes in a block of their own, so that a sanitizer sees the first one beyond. */
static uint8_t *tight_copy(const uint8_t *data, size_t length)
{
    uint8_t *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, data, length);
    return copy;
}

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++)
        for (int round = 0; round < 200; round++)
            messages[i].round_trip(&arena);
}

static void test_every_truncation_is_malformed(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++)
        for (int round = 0; round < 20; round++) {
            struct cop_buf *buf = messages[i].any(&arena);
            for (uint32_t length = 0; length < buf->length; length++) {
                uint8_t *copy = tight_copy(buf->data, length);
                assert_int_equal(messages[i].decode(copy, length), COP_EMALFORMED);
                free(copy);
            }
            cop_buf_unref(buf);
        }
}

static void test_every_longer_one_is_malformed(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++) {
        struct cop_buf *buf = messages[i].any(&arena);
        uint8_t *copy = malloc((size_t)buf->length + 1);
        assert_non_null(copy);
        memcpy(copy, buf->data, buf->length);
        for (unsigned byte = 0; byte < 256; byte++) {
            copy[buf->length] = (uint8_t)byte;
            assert_int_equal(messages[i].decode(copy, (size_t)buf->length + 1),
                             COP_EMALFORMED);
        }
        free(copy);
        cop_buf_unref(buf);
    }
}

/* One bit at a time: whatever is accepted, nothing outside is read. */
static void test_damage_is_not_fatal(void **state)
{
    (void)state;
    char line[256];
    for (size_t i = 0; i < MESSAGES; i++) {
        struct cop_buf *buf = messages[i].any(&arena);
        uint8_t *copy = tight_copy(buf->data, buf->length);
        for (uint32_t bit = 0; bit < 8 * buf->length; bit++) {
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            int error = messages[i].decode(copy, buf->length);
            assert_true(error == 0 || error == COP_EMALFORMED);
            cop__print_message(messages[i].kind, copy, buf->length, line, sizeof line);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(copy);
        cop_buf_unref(buf);
    }
}

/* ---- lists that claim too much --------------------------------------------------- */

/* A message with all its counts and lengths set to `count`, and nothing behind them. */
#define CLAIM_8(name) cop__put_u8(&writer, 1);
#define CLAIM_16(name) cop__put_u16(&writer, 1);
#define CLAIM_32(name) cop__put_u32(&writer, 1);
#define CLAIM_64(name) cop__put_u64(&writer, 1);
#define CLAIM_BYTES(name)                                                              \
    cop__put_u32(&writer, count);                                                      \
    claims++;
#define CLAIM_LIST(name, element) CLAIM_BYTES(name)

#define DEFINE_CLAIM(NAME, name, number, class, most, text)                            \
    static void claim_##name(uint32_t count)                                           \
    {                                                                                  \
        uint8_t bytes[128];                                                            \
        unsigned claims = 0;                                                           \
        (void)count; /* not every message has something to claim */                    \
        struct cop__writer writer = cop__writer(bytes, sizeof bytes);                  \
        COP__FIELDS_##name(CLAIM_8, CLAIM_16, CLAIM_32, CLAIM_64, CLAIM_BYTES,         \
                           CLAIM_LIST) assert_false(writer.failed);                    \
        size_t length = (size_t)(writer.at - bytes);                                   \
        uint8_t *copy = tight_copy(bytes, length);                                     \
        assert_int_equal(decode_##name(copy, length), claims ? COP_EMALFORMED : 0);    \
        free(copy);                                                                    \
    }
COP__MESSAGES(DEFINE_CLAIM)
#undef DEFINE_CLAIM

static void test_lists_that_claim_too_much(void **state)
{
    (void)state;
    static const uint32_t counts[] = {
        1,          UINT32_MAX,     UINT32_MAX / 5 + 1, UINT32_MAX / 17 + 1,
        0x80000000, UINT32_MAX - 3,
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
#define CLAIM(NAME, name, number, class, most, text) claim_##name(counts[i]);
        COP__MESSAGES(CLAIM)
#undef CLAIM
    }
}

/* Counts whose length in 32 bits would be just what is there. */
static void test_list_lengths_do_not_wrap(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 5, 17, 255, 65536};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t bytes[4 + 256] = {0};
        uint32_t count = (uint32_t)((UINT64_C(1) << 32) / sizes[i] + 1);
        uint32_t wrapped = (uint32_t)((uint64_t)count * sizes[i]);
        struct cop__writer writer = cop__writer(bytes, 4);
        cop__put_u32(&writer, count);
        if (wrapped > 256) /* the whole block is not enough for the others */
            wrapped = 256;
        struct cop__reader reader = cop__reader(bytes, 4 + (size_t)wrapped);
        struct cop__list list = cop__get_list(&reader, sizes[i]);
        assert_true(reader.failed);
        assert_int_equal(list.count, 0);
    }
}

static void test_reader_stays_failed(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3, 4, 5};
    struct cop__reader reader = cop__reader(bytes, sizeof bytes);
    assert_true(cop__get_u64(&reader) == 0);
    assert_true(reader.failed);
    assert_int_equal(cop__get_u8(&reader), 0); /* though there would be enough for it */
    assert_false(cop__reader_is_done(&reader));
    assert_ptr_equal(reader.at, bytes);
}

static void test_writer_stays_inside(void **state)
{
    (void)state;
    uint8_t bytes[4] = {9, 9, 9, 9};
    struct cop__writer writer = cop__writer(bytes, 3);
    cop__put_u16(&writer, 0x0201);
    cop__put_u32(&writer, 0xffffffff);
    cop__put_u8(&writer, 0xff);
    assert_true(writer.failed);
    const uint8_t expected[4] = {1, 2, 9, 9};
    assert_memory_equal(bytes, expected, sizeof bytes);
}

/* The byte order is part of the protocol. */
static void test_little_endian(void **state)
{
    (void)state;
    const struct cop__msg_done done = {0x04030201, 0x0c0b0a0908070605, 0x14, 0x15};
    struct cop_buf *buf = cop__encode_done(&done);
    assert_non_null(buf);
    const uint8_t expected[] = {1, 2, 3, 4, 5, 6, 7,    8, 9, 10, 11, 12, 0x14, 0,
                                0, 0, 0, 0, 0, 0, 0x15, 0, 0, 0,  0,  0,  0,    0};
    assert_int_equal(buf->length, sizeof expected);
    assert_memory_equal(buf->data, expected, sizeof expected);
    cop_buf_unref(buf);
}

static void test_elements(void **state)
{
    (void)state;
    uint8_t bytes[2 * COP__SIZE_belief];
    const struct cop__belief beliefs[] = {{1, 2, 3, 1}, {7, UINT64_MAX, UINT32_MAX, 0}};
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__belief_put(&writer, &beliefs[0]);
    cop__belief_put(&writer, &beliefs[1]);
    assert_false(writer.failed);
    assert_ptr_equal(writer.at, bytes + sizeof bytes);
    for (uint32_t i = 0; i < 2; i++) {
        struct cop__belief got = cop__belief_at((struct cop__list){bytes, 2}, i);
        assert_int_equal(got.id, beliefs[i].id);
        assert_true(got.incarnation == beliefs[i].incarnation);
        assert_int_equal(got.denial, beliefs[i].denial);
        assert_int_equal(got.status, beliefs[i].status);
    }
    const struct cop__mark mark = {0x01020304, 3};
    writer = cop__writer(bytes, COP__SIZE_mark);
    cop__mark_put(&writer, &mark);
    assert_false(writer.failed);
    assert_ptr_equal(writer.at, bytes + COP__SIZE_mark);
    struct cop__mark got = cop__mark_at((struct cop__list){bytes, 1}, 0);
    assert_int_equal(got.rank, mark.rank);
    assert_int_equal(got.mode, mark.mode);
}

/* ---- printing -------------------------------------------------------------------- */

/* Every field is named; too little room cuts the line but not its length. */
#define EXPECT_FIELD(field) assert_non_null(strstr(line, " " #field "="));
#define EXPECT_LIST(field, element) EXPECT_FIELD(field)
#define PRINT(NAME, name, number, class, most, text)                                   \
    {                                                                                  \
        char line[512], cut[20];                                                       \
        struct cop_buf *buf = any_##name(&arena);                                      \
        int length =                                                                   \
            cop__print_message(number, buf->data, buf->length, line, sizeof line);     \
        assert_int_equal(length, strlen(line));                                        \
        assert_int_equal(strncmp(line, #name " ", sizeof #name), 0);                   \
        COP__FIELDS_##name(EXPECT_FIELD, EXPECT_FIELD, EXPECT_FIELD, EXPECT_FIELD,     \
                           EXPECT_FIELD, EXPECT_LIST)                                  \
            assert_int_equal(                                                          \
                cop__print_message(number, buf->data, buf->length, cut, sizeof cut),   \
                length);                                                               \
        assert_int_equal(strncmp(line, cut, sizeof cut - 1), 0);                       \
        assert_int_equal(cop__print_message(number, buf->data, buf->length, NULL, 0),  \
                         length);                                                      \
        cop__print_message(number, buf->data, (size_t)buf->length - 1, line,           \
                           sizeof line);                                               \
        assert_string_equal(line, #name " (malformed)");                               \
        cop_buf_unref(buf);                                                            \
    }

static void test_print(void **state)
{
    (void)state;
    COP__MESSAGES(PRINT)
    char line[64];
    cop__print_message(999, NULL, 12, line, sizeof line);
    assert_string_equal(line, "unknown kind 999 (12 bytes)");
}

static void test_print_values(void **state)
{
    (void)state;
    const struct cop__msg_hold hold = {.initiator = 3, .sequence = 8, .mark = 7};
    struct cop_buf *buf = cop__encode_hold(&hold);
    assert_non_null(buf);
    char line[128];
    cop__print_message(COP__KIND_HOLD, buf->data, buf->length, line, sizeof line);
    assert_string_equal(line,
                        "hold initiator=3 incarnation=0 sequence=8 mark=7 cover=0#");
    cop_buf_unref(buf);
}

/* ---- texts ----------------------------------------------------------------------- */

/* One that ends before its length says would be two: who compares sees the first of them. */
static void test_texts(void **state)
{
    static const struct {
        const char *bytes;
        uint32_t length;
        bool is_text;
    } cases[] = {{"", 0, true},          {"sum", 3, true}, {"sum\0", 4, false},
                 {"sum\0max", 7, false}, {"\0", 1, false}, {"1234567", 7, true},
                 {"12345678", 8, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[16];
        char text[8] = "?";
        struct cop__writer writer = cop__writer(bytes, sizeof bytes);
        cop__put_bytes(&writer, (struct cop__bytes){(const uint8_t *)cases[i].bytes,
                                                    cases[i].length});
        struct cop__reader reader = cop__reader(bytes, 4 + cases[i].length);
        cop__get_text(&reader, text, sizeof text);
        assert_int_equal(reader.failed, !cases[i].is_text);
        assert_string_equal(text, cases[i].is_text ? cases[i].bytes : "?");
    }
}

/* ---- the table ------------------------------------------------------------------- */

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++) {
        const struct cop__kind_info *info = cop__kind_info(messages[i].kind);
        assert_non_null(info);
        assert_int_equal(info->kind, messages[i].kind);
        assert_int_equal(cop__kind_index(info->kind), i);
        assert_ptr_equal(cop__kind_at((enum cop__kind_index)i), info);
        assert_true(info->least > 0 && info->least <= info->most);
        assert_true(info->most <= COP__FRAME_MAX);
        /* `least` is the size of the message with nothing in its bytes and lists. */
        assert_int_equal(messages[i].decode((const uint8_t[256]){0}, info->least), 0);
        assert_int_equal(messages[i].decode((const uint8_t[256]){0}, info->least - 1),
                         COP_EMALFORMED);
    }
    assert_null(cop__kind_info(0));
    assert_null(cop__kind_info(UINT16_MAX));
    assert_int_equal(cop__kind_index(999), COP__KINDS);
    assert_null(cop__kind_at(COP__KINDS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_round_trip, reset),
        cmocka_unit_test_setup(test_every_truncation_is_malformed, reset),
        cmocka_unit_test_setup(test_every_longer_one_is_malformed, reset),
        cmocka_unit_test_setup(test_damage_is_not_fatal, reset),
        cmocka_unit_test(test_lists_that_claim_too_much),
        cmocka_unit_test(test_list_lengths_do_not_wrap),
        cmocka_unit_test(test_reader_stays_failed),
        cmocka_unit_test(test_writer_stays_inside),
        cmocka_unit_test(test_little_endian),
        cmocka_unit_test(test_elements),
        cmocka_unit_test_setup(test_print, reset),
        cmocka_unit_test(test_print_values),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
