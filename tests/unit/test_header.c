/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"
#include "wire/header.h"
#include "wire/messages.h"

#include <coppice/error.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* Where the fields are: part of the protocol, so written down a second time here. */
enum {
    AT_MAGIC = 0,
    AT_MAJOR = 2,
    AT_MINOR = 3,
    AT_RESERVED = 44,
};

static const struct cop_header ask = {
    .kind = COP__KIND_ASK,
    .sender = 0x01020304,
    .receiver = 5,
    .sender_incarnation = 0x1112131415161718,
    .receiver_incarnation = 7,
    .epoch = 9,
    .length = 1000,
};

static void assert_same(const struct cop_header *a, const struct cop_header *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->sender, b->sender);
    assert_int_equal(a->receiver, b->receiver);
    assert_true(a->sender_incarnation == b->sender_incarnation);
    assert_true(a->receiver_incarnation == b->receiver_incarnation);
    assert_true(a->epoch == b->epoch);
    assert_int_equal(a->length, b->length);
}

static void encode_with_length(uint16_t kind, uint32_t length,
                               uint8_t out[COP__HEADER_SIZE])
{
    struct cop_header header = ask;
    header.kind = kind;
    header.length = length;
    cop__header_encode(&header, out);
}

static int decode_with_length(uint16_t kind, uint32_t length)
{
    uint8_t bytes[COP__HEADER_SIZE];
    struct cop_header got;
    encode_with_length(kind, length, bytes);
    return cop__header_decode(bytes, &got);
}

/* ---- frame headers --------------------------------------------------------------- */

static void test_header_round_trip(void **state)
{
    (void)state;
    struct cop__random random;
    cop__random_init(&random, 7);
    for (int round = 0; round < 1000; round++) {
        const struct cop__kind_info *info =
            cop__kind_at((enum cop__kind_index)cop__random_below(&random, COP__KINDS));
        struct cop_header sent = {
            .kind = info->kind,
            .sender = (cop_id)cop__random_next(&random),
            .receiver = (cop_id)cop__random_next(&random),
            .sender_incarnation = cop__random_next(&random),
            .receiver_incarnation = cop__random_next(&random),
            .epoch = cop__random_next(&random),
            .length = info->least + (uint32_t)cop__random_below(
                                        &random, info->most - info->least + 1),
        };
        uint8_t bytes[COP__HEADER_SIZE];
        struct cop_header got;
        cop__header_encode(&sent, bytes);
        assert_int_equal(cop__header_decode(bytes, &got), 0);
        assert_same(&sent, &got);
    }
}

static void test_header_layout(void **state)
{
    (void)state;
    uint8_t bytes[COP__HEADER_SIZE];
    cop__header_encode(&ask, bytes);
    const uint8_t expected[COP__HEADER_SIZE] = {
        'C',
        'p',
        COP__PROTOCOL_MAJOR,
        COP__PROTOCOL_MINOR,
        32,
        0,
        0,
        0,
        4,
        3,
        2,
        1,
        5,
        0,
        0,
        0,
        0x18,
        0x17,
        0x16,
        0x15,
        0x14,
        0x13,
        0x12,
        0x11,
        7,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        9,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0xe8,
        3,
        0,
        0,
        0,
        0,
        0,
        0,
    };
    assert_memory_equal(bytes, expected, sizeof expected);
}

/* Every other first or second byte: not ours. */
static void test_bad_magic(void **state)
{
    (void)state;
    uint8_t bytes[COP__HEADER_SIZE];
    struct cop_header got = {.length = 77};
    for (int at = AT_MAGIC; at < AT_MAJOR; at++)
        for (unsigned flip = 1; flip < 256; flip++) {
            cop__header_encode(&ask, bytes);
            bytes[at] ^= (uint8_t)flip;
            assert_int_equal(cop__header_decode(bytes, &got), COP_EMALFORMED);
        }
    assert_int_equal(got.length, 77); /* written only on success */
}

static void test_other_major(void **state)
{
    (void)state;
    uint8_t bytes[COP__HEADER_SIZE];
    struct cop_header got = {.length = 77};
    for (unsigned flip = 1; flip < 256; flip++) {
        cop__header_encode(&ask, bytes);
        bytes[AT_MAJOR] ^= (uint8_t)flip;
        assert_int_equal(cop__header_decode(bytes, &got), COP_EVERSION);
    }
    /* Nothing of it can be trusted, so it cannot be skipped either. */
    assert_int_equal(got.length, 77);
}

/* A newer minor version may have kinds, flags and sizes that I do not know: skip it. */
static void test_newer_minor_is_skipped_politely(void **state)
{
    (void)state;
    uint8_t bytes[COP__HEADER_SIZE];
    static const uint16_t kinds[] = {COP__KIND_ASK, COP__KIND_DONE, 999};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct cop_header got = {0}, sent = ask;
        sent.kind = kinds[i];
        sent.flags = 0x8001;
        cop__header_encode(&sent, bytes);
        bytes[AT_MINOR]++;
        assert_int_equal(cop__header_decode(bytes, &got), COP_EVERSION);
        assert_same(&sent, &got);
    }
}

/* But not without a limit. */
static void test_newer_minor_that_claims_4_gib(void **state)
{
    (void)state;
    uint8_t bytes[COP__HEADER_SIZE];
    struct cop_header got = {.length = 77};
    encode_with_length(COP__KIND_ASK, UINT32_MAX, bytes);
    bytes[AT_MINOR]++;
    assert_int_equal(cop__header_decode(bytes, &got), COP_ETOOBIG);
    assert_int_equal(got.length, 77);
}

static void test_unknown_kind_is_skipped_politely(void **state)
{
    (void)state;
    uint8_t bytes[COP__HEADER_SIZE];
    for (unsigned kind = 0; kind <= UINT16_MAX; kind++) {
        if (cop__kind_info((uint16_t)kind))
            continue;
        struct cop_header got = {0};
        encode_with_length((uint16_t)kind, 1000, bytes);
        assert_int_equal(cop__header_decode(bytes, &got), COP_EKIND);
        assert_int_equal(got.kind, kind);
        assert_int_equal(got.length, 1000);
    }
}

static void test_length_is_bounded_by_kind(void **state)
{
    (void)state;
    for (int i = 0; i < COP__KINDS; i++) {
        const struct cop__kind_info *info = cop__kind_at((enum cop__kind_index)i);
        assert_int_equal(decode_with_length(info->kind, info->least), 0);
        assert_int_equal(decode_with_length(info->kind, info->most), 0);
        assert_int_equal(decode_with_length(info->kind, info->least - 1),
                         COP_EMALFORMED);
        assert_int_equal(decode_with_length(info->kind, 0), COP_EMALFORMED);
        assert_int_equal(decode_with_length(info->kind, info->most + 1), COP_ETOOBIG);
        assert_int_equal(decode_with_length(info->kind, UINT32_MAX), COP_ETOOBIG);
    }
    assert_int_equal(decode_with_length(999, COP__FRAME_MAX + 1), COP_ETOOBIG);
    assert_int_equal(decode_with_length(999, COP__FRAME_MAX), COP_EKIND);
}

static void test_flags_must_be_clear(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 16; bit++) {
        struct cop_header sent = ask, got;
        uint8_t bytes[COP__HEADER_SIZE];
        sent.flags = (uint16_t)(1u << bit);
        cop__header_encode(&sent, bytes);
        assert_int_equal(cop__header_decode(bytes, &got), COP_EMALFORMED);
    }
}

static void test_reserved_is_ignored_when_read(void **state)
{
    (void)state;
    uint8_t bytes[COP__HEADER_SIZE];
    struct cop_header got;
    cop__header_encode(&ask, bytes);
    memset(bytes + AT_RESERVED, 0xff, COP__HEADER_SIZE - AT_RESERVED);
    assert_int_equal(cop__header_decode(bytes, &got), 0);
    assert_same(&ask, &got);
}

/* ---- link records ---------------------------------------------------------------- */

static const uint8_t types[] = {
    COP__RECORD_HELLO, COP__RECORD_WELCOME, COP__RECORD_REFUSE, COP__RECORD_FRAME,
    COP__RECORD_PIECE, COP__RECORD_ACK,     COP__RECORD_BYE,    COP__RECORD_SHOW,
    COP__RECORD_SEES,  COP__RECORD_THERE,
};
#define TYPES (sizeof types / sizeof *types)

static int recode(const struct cop__record *sent, struct cop__record *got)
{
    uint8_t bytes[COP__RECORD_SIZE];
    cop__record_encode(sent, bytes);
    return cop__record_decode(bytes, got);
}

static bool has_body(uint8_t type)
{
    return type != COP__RECORD_ACK && type != COP__RECORD_BYE &&
           type != COP__RECORD_SEES;
}

static void test_record_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPES; i++) {
        struct cop__record sent = {
            .type = types[i],
            .flags = COP__RECORD_KEEP,
            .length = has_body(types[i]) ? COP__SHOW_SIZE : 0,
            .count = 0x0102030405060708,
            .bulk = UINT64_MAX,
        };
        struct cop__record got;
        assert_int_equal(recode(&sent, &got), 0);
        assert_int_equal(got.type, sent.type);
        assert_int_equal(got.flags, sent.flags);
        assert_int_equal(got.length, sent.length);
        assert_true(got.count == sent.count);
        assert_true(got.bulk == sent.bulk);
    }
}

static void test_record_unknown_type(void **state)
{
    (void)state;
    struct cop__record got = {.length = 77};
    for (unsigned type = 0; type < 256; type++) {
        struct cop__record sent = {.type = (uint8_t)type};
        bool known = memchr(types, (int)type, TYPES) != NULL;
        assert_int_equal(recode(&sent, &got), known ? 0 : COP_EMALFORMED);
    }
}

static void test_record_length(void **state)
{
    (void)state;
    struct cop__record got;
    for (size_t i = 0; i < TYPES; i++) {
        struct cop__record sent = {.type = types[i], .length = UINT32_MAX};
        assert_int_equal(recode(&sent, &got), COP_ETOOBIG);
        sent.length = COP__FRAME_MAX_BODY + 1;
        assert_int_equal(recode(&sent, &got), COP_ETOOBIG);
        sent.length = 0;
        assert_int_equal(recode(&sent, &got), 0);
        sent.length = 1;
        assert_int_equal(recode(&sent, &got), has_body(types[i]) ? 0 : COP_ETOOBIG);
    }
    struct cop__record frame = {.type = COP__RECORD_FRAME,
                                .length = COP__FRAME_MAX_BODY};
    assert_int_equal(recode(&frame, &got), 0);
    struct cop__record hello = {.type = COP__RECORD_HELLO, .length = 1025};
    assert_int_equal(recode(&hello, &got), COP_ETOOBIG);
}

static void test_record_flags(void **state)
{
    (void)state;
    struct cop__record got;
    for (size_t i = 0; i < TYPES; i++)
        for (unsigned flags = 0; flags < 256; flags++) {
            struct cop__record sent = {.type = types[i], .flags = (uint8_t)flags};
            unsigned allowed = COP__RECORD_KEEP;
            if (types[i] == COP__RECORD_PIECE)
                allowed |= COP__RECORD_LAST;
            assert_int_equal(recode(&sent, &got),
                             (flags & ~allowed) == 0 ? 0 : COP_EMALFORMED);
        }
}

static void test_record_reserved(void **state)
{
    (void)state;
    struct cop__record sent = {.type = COP__RECORD_ACK}, got;
    for (int at = 2; at < 4; at++) {
        uint8_t bytes[COP__RECORD_SIZE];
        cop__record_encode(&sent, bytes);
        bytes[at] = 1;
        assert_int_equal(cop__record_decode(bytes, &got), COP_EMALFORMED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_round_trip),
        cmocka_unit_test(test_header_layout),
        cmocka_unit_test(test_bad_magic),
        cmocka_unit_test(test_other_major),
        cmocka_unit_test(test_newer_minor_is_skipped_politely),
        cmocka_unit_test(test_newer_minor_that_claims_4_gib),
        cmocka_unit_test(test_unknown_kind_is_skipped_politely),
        cmocka_unit_test(test_length_is_bounded_by_kind),
        cmocka_unit_test(test_flags_must_be_clear),
        cmocka_unit_test(test_reserved_is_ignored_when_read),
        cmocka_unit_test(test_record_round_trip),
        cmocka_unit_test(test_record_unknown_type),
        cmocka_unit_test(test_record_length),
        cmocka_unit_test(test_record_flags),
        cmocka_unit_test(test_record_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
