/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "talk/command.h"
#include "wire/header.h"

#include <coppice/error.h>
#include <string.h>

static struct cop__bytes bytes_of(const struct cop_buf *buf)
{
    return (struct cop__bytes){buf->data, buf->length};
}

/* Every beginning of a body, and one byte too many, must be refused. */
#define ASSERT_EXACT(buf, decode)                                                      \
    do {                                                                               \
        for (uint32_t length = 0; length < (buf)->length; length++) {                  \
            struct cop__bytes cut = {(buf)->data, length};                             \
            assert_int_equal(decode(cut), COP_EMALFORMED);                             \
        }                                                                              \
        struct cop_buf *more = cop_buf_create((buf)->length + 1u);                     \
        memcpy(more->data, (buf)->data, (buf)->length);                                \
        more->data[(buf)->length] = 0;                                                 \
        assert_int_equal(decode(bytes_of(more)), COP_EMALFORMED);                      \
        cop_buf_unref(more);                                                           \
    } while (0)

static int decode_probe_command(struct cop__bytes body)
{
    struct probe_command ignored;
    return probe_command_decode(body, &ignored);
}

static void probe_command_round_trip(void **state)
{
    (void)state;
    struct probe_command in = {.count = 7, .chunk = 3, .timeout_ns = 5}, out;
    strcpy(in.shape, "kary:3");
    struct cop_buf *buf = probe_command_encode(&in);
    assert_non_null(buf);
    assert_int_equal(probe_command_decode(bytes_of(buf), &out), 0);
    assert_int_equal(out.count, 7);
    assert_int_equal(out.chunk, 3);
    assert_int_equal(out.timeout_ns, 5);
    assert_string_equal(out.shape, "kary:3");
    ASSERT_EXACT(buf, decode_probe_command);
    cop_buf_unref(buf);
}

static int decode_inquire_command(struct cop__bytes body)
{
    struct inquire_command ignored;
    return inquire_command_decode(body, &ignored);
}

static void inquire_command_round_trip(void **state)
{
    (void)state;
    struct inquire_command in = {.member = 9, .timeout_ns = 12345}, out;
    struct cop_buf *buf = inquire_command_encode(&in);
    assert_non_null(buf);
    assert_int_equal(inquire_command_decode(bytes_of(buf), &out), 0);
    assert_int_equal(out.member, 9);
    assert_int_equal(out.timeout_ns, 12345);
    ASSERT_EXACT(buf, decode_inquire_command);
    cop_buf_unref(buf);
}

static int decode_with(uint32_t count, uint32_t chunk, struct probe_command *out)
{
    struct probe_command in = {.count = count, .chunk = chunk};
    struct cop_buf *buf = probe_command_encode(&in);
    assert_non_null(buf);
    int error = probe_command_decode(bytes_of(buf), out);
    cop_buf_unref(buf);
    return error;
}

static void probe_command_is_bounded(void **state)
{
    (void)state;
    struct probe_command out;
    assert_int_equal(decode_with(0, 1, &out), COP_EMALFORMED);
    assert_int_equal(decode_with(PROBES_MAX + 1, 1, &out), COP_EMALFORMED);
    assert_int_equal(decode_with(1, PROBE_CHUNK_MAX + 1, &out), COP_EMALFORMED);
    assert_int_equal(decode_with(PROBES_MAX, 0, &out), 0);
    assert_int_equal(out.chunk, PROBE_CHUNK_MAX);
}

static int decode_probe_reply(struct cop__bytes body)
{
    struct probe_reply ignored;
    int error = probe_reply_decode(body, &ignored);
    if (!error)
        probe_reply_free(&ignored);
    return error;
}

static void probe_reply_round_trip(void **state)
{
    (void)state;
    struct probe_sample samples[] = {{1, 2, 3, 4, 5, COP_ETIMEDOUT},
                                     {6, 7, 8, 0, 0, 0}};
    struct probe_reply in = {
        .self = 9, .members = 10, .count = 2, .samples = samples, .dead = {0}};
    struct probe_reply out;
    assert_int_equal(cop_ranks_push(&in.dead, 4), 0);
    assert_int_equal(cop_ranks_push(&in.dead, 6), 0);
    assert_int_equal(cop_ranks_push(&in.silent, 1), 0);
    struct cop_buf *buf = probe_reply_encode(&in);
    assert_non_null(buf);
    assert_int_equal(probe_reply_decode(bytes_of(buf), &out), 0);
    assert_int_equal(out.self, 9);
    assert_int_equal(out.members, 10);
    assert_int_equal(out.count, 2);
    assert_int_equal(out.samples[0].elapsed_ns, 2);
    assert_int_equal(out.samples[0].status, COP_ETIMEDOUT);
    assert_int_equal(out.samples[1].answered, 8);
    assert_int_equal(out.dead.count, 2);
    assert_int_equal(out.dead.items[1], 6);
    assert_int_equal(out.silent.items[0], 1);
    ASSERT_EXACT(buf, decode_probe_reply);
    probe_reply_free(&out);
    cop_buf_unref(buf);
    cop_ranks_free(&in.dead);
    cop_ranks_free(&in.silent);
}

static int decode_list_reply(struct cop__bytes body)
{
    struct list_reply ignored;
    int error = list_reply_decode(body, &ignored);
    if (!error)
        list_reply_free(&ignored);
    return error;
}

static void list_reply_round_trip(void **state)
{
    (void)state;
    struct member_status members[] = {
        {.pid = 11, .state = MEMBER_RUNNING, .incarnation = 5},
        {.state = MEMBER_DEAD,
         .wait_status = 9,
         .incarnation = 6,
         .id = 7,
         .name = "x1",
         .address = "unix:/x"},
    };
    struct list_reply in = {1, 2, 2, members}, out;
    struct cop_buf *buf = list_reply_encode(&in);
    assert_non_null(buf);
    assert_int_equal(list_reply_decode(bytes_of(buf), &out), 0);
    assert_int_equal(out.keeper_pid, 1);
    assert_int_equal(out.janitor_pid, 2);
    assert_int_equal(out.count, 2);
    assert_int_equal(out.members[0].pid, 11);
    assert_int_equal(out.members[1].state, MEMBER_DEAD);
    assert_int_equal(out.members[1].wait_status, 9);
    assert_int_equal(out.members[1].incarnation, 6);
    ASSERT_EXACT(buf, decode_list_reply);
    list_reply_free(&out);
    cop_buf_unref(buf);
}

static int decode_ids(struct cop__bytes body)
{
    struct cop_ranks ignored = {0};
    uint32_t number;
    int error = ids_decode(body, &number, &ignored);
    cop_ranks_free(&ignored);
    return error;
}

static void ids_round_trip(void **state)
{
    (void)state;
    const cop_id ids[] = {3, 1, 4};
    struct cop_ranks out = {0};
    uint32_t number;
    struct cop_buf *buf = ids_encode(9, ids, 3);
    assert_non_null(buf);
    assert_int_equal(ids_decode(bytes_of(buf), &number, &out), 0);
    assert_int_equal(number, 9);
    assert_int_equal(out.count, 3);
    assert_int_equal(out.items[2], 4);
    ASSERT_EXACT(buf, decode_ids);
    cop_ranks_free(&out);
    cop_buf_unref(buf);
}

static int decode_down_reply(struct cop__bytes body)
{
    struct down_reply ignored;
    int error = down_reply_decode(body, &ignored);
    if (!error)
        cop_ranks_free(&ignored.unclean);
    return error;
}

static void down_reply_round_trip(void **state)
{
    (void)state;
    struct down_reply in = {.why = "exit status 1"}, out;
    assert_int_equal(cop_ranks_push(&in.unclean, 5), 0);
    struct cop_buf *buf = down_reply_encode(&in);
    assert_non_null(buf);
    assert_int_equal(down_reply_decode(bytes_of(buf), &out), 0);
    assert_string_equal(out.why, "exit status 1");
    assert_int_equal(out.unclean.items[0], 5);
    ASSERT_EXACT(buf, decode_down_reply);
    cop_ranks_free(&in.unclean);
    cop_ranks_free(&out.unclean);
    cop_buf_unref(buf);
}

/* A list that claims more than there is must not be believed before it is measured. */
static void counts_that_lie_are_refused(void **state)
{
    (void)state;
    uint8_t body[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    struct cop__bytes bytes = {body, sizeof body};
    assert_int_equal(decode_probe_reply(bytes), COP_EMALFORMED);
    assert_int_equal(decode_list_reply(bytes), COP_EMALFORMED);
    uint8_t ids[8] = {0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    bytes = (struct cop__bytes){ids, sizeof ids};
    assert_int_equal(decode_ids(bytes), COP_EMALFORMED);
}

static void packed_messages_have_both_heads(void **state)
{
    (void)state;
    struct cop__msg_command command = {.token = 1, .verb = VERB_LIST};
    struct cop_buf *payload = cop__encode_command(&command);
    struct cop_buf *packed = cop__command_pack(COP__KIND_COMMAND, payload);
    struct cop__record record;
    struct cop_header header;
    assert_non_null(packed);
    assert_int_equal(cop__record_decode(packed->data, &record), 0);
    assert_int_equal(record.type, COP__RECORD_FRAME);
    assert_int_equal(record.length, COP__HEADER_SIZE + payload->length);
    assert_int_equal(cop__header_decode(packed->data + COP__RECORD_SIZE, &header), 0);
    assert_int_equal(header.kind, COP__KIND_COMMAND);
    assert_int_equal(header.length, payload->length);
    assert_int_equal(packed->length, COP__RECORD_SIZE + record.length);
    cop_buf_unref(payload);
    cop_buf_unref(packed);
}

static void a_status_is_never_above_zero(void **state)
{
    static const uint32_t wrong[] = {UINT32_C(1) << 31, UINT32_MAX, UINT32_MAX - 6};
    struct cop__msg_reply reply = {.status = 0};
    (void)state;
    assert_int_equal(cop__reply_status(&reply), 0);
    reply.status = (uint32_t)-COP_EEXIST;
    assert_int_equal(cop__reply_status(&reply), COP_EEXIST);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        reply.status = wrong[i];
        assert_int_equal(cop__reply_status(&reply), COP_EMALFORMED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe_command_round_trip),
        cmocka_unit_test(inquire_command_round_trip),
        cmocka_unit_test(probe_command_is_bounded),
        cmocka_unit_test(probe_reply_round_trip),
        cmocka_unit_test(list_reply_round_trip),
        cmocka_unit_test(ids_round_trip),
        cmocka_unit_test(down_reply_round_trip),
        cmocka_unit_test(counts_that_lie_are_refused),
        cmocka_unit_test(packed_messages_have_both_heads),
        cmocka_unit_test(a_status_is_never_above_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
