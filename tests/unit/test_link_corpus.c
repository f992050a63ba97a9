/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inputs from which the fuzzer of the link starts (tests/fuzz/corpus/link/seed_*). They
 * are made here, from the code that writes records, and compared with the files, so that
 * they follow the layouts; UPDATE=1 writes them anew. Other files there were found by the
 * fuzzer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tcp/handshake.h"
#include "wire/messages.h"

#ifndef COPPICE_TESTS_DIR
#define COPPICE_TESTS_DIR "tests"
#endif

struct input {
    uint8_t bytes[1 << 17];
    size_t length;
};

static void put(struct input *input, const void *bytes, size_t length)
{
    assert_true(input->length + length <= sizeof input->bytes);
    memcpy(input->bytes + input->length, bytes, length);
    input->length += length;
}

/* Before or after the handshake, and in parts of what size: see fuzz_link.c. */
static void begin(struct input *input, bool is_open, uint8_t step)
{
    input->bytes[0] = (uint8_t)(step << 1 | is_open);
    input->length = 1;
}

static void put_greetings(struct input *input)
{
    uint8_t bytes[COP__GREETING_MAX];
    struct cop__identity one = {{1, 2, 3}, 4, 1, 11, NULL, false};
    struct cop__acquaintance friend;
    cop__acquaintance_init(&friend);
    cop__session_meet(&friend.session, 10);
    put(input, bytes, cop__hello_write(&one, 2, &friend, true, bytes));
    put(input, bytes, cop__welcome_write(&one, &friend, false, bytes));
    put(input, bytes, cop__refuse_write(COP__REFUSE_VERSION, 0, bytes));
    cop__acquaintance_fini(&friend);
}

static void push(struct cop__session *session, uint16_t kind, uint32_t length)
{
    struct cop_frame frame = {.header = {.kind = kind,
                                         .sender = 1,
                                         .receiver = 2,
                                         .sender_incarnation = 11,
                                         .receiver_incarnation = 10,
                                         .epoch = 1,
                                         .length = length},
                              .payload = cop_buf_create(length)};
    enum cop__lane_index lane = COP__LANE_CONTROL;
    if (kind == COP__KIND_DATA)
        lane = COP__LANE_BULK;
    assert_non_null(frame.payload);
    memset(frame.payload->data, 0, length);
    assert_int_equal(cop__session_push(session, lane, &frame), 0);
    cop_buf_unref(frame.payload);
}

/* Frames of the given lengths, counts that the fuzzer's session takes, and the end. */
static void put_frames(struct input *input, const uint32_t *lengths, size_t count)
{
    static uint8_t space[COP__BATCH_SPACE];
    struct cop__session session;
    struct cop__link link;
    struct cop__batch batch;
    cop__session_init(&session);
    cop__link_init(&link);
    cop__link_open(&link, &session);
    for (size_t i = 0; i < count; i++) {
        cop__session_received(&session, i % 2 ? COP__LANE_BULK : COP__LANE_CONTROL, 40);
        push(&session, i % 2 ? COP__KIND_DATA : COP__KIND_NEWS, lengths[i]);
    }
    bool has_more;
    do {
        cop__batch_init(&batch, space, sizeof space);
        has_more = cop__link_gather(&link, &batch);
        for (uint32_t i = 0; i < batch.count; i++)
            put(input, batch.spans[i].iov_base, batch.spans[i].iov_len);
    } while (has_more);
    cop__batch_init(&batch, space, sizeof space);
    cop__link_say(&link, &batch, COP__RECORD_ACK);
    cop__link_say(&link, &batch, COP__RECORD_BYE);
    put(input, batch.spans[0].iov_base, batch.bytes);
    cop__link_fini(&link);
    cop__session_fini(&session);
}

static void put_record(struct input *input, uint8_t type, uint32_t length,
                       uint64_t count)
{
    uint8_t bytes[COP__RECORD_SIZE];
    struct cop__record record = {.type = type, .length = length, .count = count};
    cop__record_encode(&record, bytes);
    put(input, bytes, sizeof bytes);
}

static void make(struct input *input, int which)
{
    static const uint32_t small[] = {4, 12, 100, 60}, large[] = {300, 16500, 20, 12};
    switch (which) {
    case 0:
        begin(input, false, 0);
        put_greetings(input);
        break;
    case 1:
        begin(input, false, 7);
        put_greetings(input);
        break;
    case 2:
        begin(input, true, 0);
        put_frames(input, small, 4);
        break;
    case 3:
        begin(input, true, 13);
        put_frames(input, large, 4);
        break;
    case 4: /* claims 4 GiB */
        begin(input, true, 0);
        put_record(input, COP__RECORD_FRAME, UINT32_MAX, 0);
        break;
    case 5: /* counts what it was not given */
        begin(input, true, 0);
        put_record(input, COP__RECORD_ACK, 0, 1);
        put_record(input, COP__RECORD_ACK, 0, UINT64_MAX);
        break;
    case 6: /* a kind that nobody knows, then one that everybody does */
        begin(input, true, 5);
        put_frames(input, small, 1);
        input->bytes[1 + COP__RECORD_SIZE + 4] = 0xee;
        put_frames(input, small, 1);
        break;
    }
}
#define INPUTS 7

static void corpus_is_what_the_code_writes(void **state)
{
    (void)state;
    struct input *input = malloc(sizeof *input), *file = malloc(sizeof *file);
    assert_non_null(input);
    assert_non_null(file);
    for (int i = 0; i < INPUTS; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/fuzz/corpus/link/seed_%d", COPPICE_TESTS_DIR,
                 i);
        make(input, i);
        FILE *stream = fopen(path, getenv("UPDATE") ? "wb+" : "rb");
        if (!stream)
            fail_msg("cannot open %s", path);
        if (getenv("UPDATE")) {
            assert_int_equal(fwrite(input->bytes, 1, input->length, stream),
                             input->length);
            rewind(stream);
        }
        file->length = fread(file->bytes, 1, sizeof file->bytes, stream);
        fclose(stream);
        assert_int_equal(file->length, input->length);
        assert_memory_equal(file->bytes, input->bytes, input->length);
    }
    free(input);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corpus_is_what_the_code_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
