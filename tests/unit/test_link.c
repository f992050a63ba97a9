/* SPDX-License-Identifier: Apache-2.0 */
/* Records and greetings: what is cut, what is skipped, and what overtakes what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "failing_alloc.h"
#include "net/tcp/handshake.h"
#include "net/tcp/notice.h"
#include "wire/messages.h"

/* ---- two ends -------------------------------------------------------------------- */

struct ends {
    struct cop__session near, far; /* near sends, far receives */
    struct cop__link out, in;
    uint8_t space[COP__BATCH_SPACE];
    uint8_t bytes[4 << 20];
    uint32_t length;
};

static struct ends *ends_create(void)
{
    struct ends *ends = calloc(1, sizeof *ends);
    assert_non_null(ends);
    cop__session_init(&ends->near);
    cop__session_init(&ends->far);
    cop__link_init(&ends->out);
    cop__link_init(&ends->in);
    cop__session_meet(&ends->near, 2);
    cop__session_meet(&ends->far, 1);
    cop__link_open(&ends->out, &ends->near);
    cop__link_open(&ends->in, &ends->far);
    return ends;
}

static void ends_destroy(struct ends *ends)
{
    cop__link_fini(&ends->out);
    cop__link_fini(&ends->in);
    cop__session_fini(&ends->near);
    cop__session_fini(&ends->far);
    free(ends);
}

static void push(struct ends *ends, uint16_t kind, uint32_t length)
{
    struct cop_frame frame = {
        .header = {.kind = kind, .sender = 1, .receiver = 2, .length = length},
        .payload = length ? cop_buf_create(length) : NULL,
    };
    for (uint32_t i = 0; i < length; i++)
        frame.payload->data[i] = (uint8_t)(i * 7 + length);
    bool is_bulk = kind == COP__KIND_DATA;
    assert_int_equal(cop__session_push(&ends->near,
                                       is_bulk ? COP__LANE_BULK : COP__LANE_CONTROL,
                                       &frame),
                     0);
    cop_buf_unref(frame.payload);
}

/* One batch, appended to the bytes under way. Whether there is more. */
static bool gather(struct ends *ends)
{
    struct cop__batch batch;
    cop__batch_init(&batch, ends->space, sizeof ends->space);
    bool has_more = cop__link_gather(&ends->out, &batch);
    for (uint32_t i = 0; i < batch.count; i++) {
        assert_true(ends->length + batch.spans[i].iov_len <= sizeof ends->bytes);
        memcpy(ends->bytes + ends->length, batch.spans[i].iov_base,
               batch.spans[i].iov_len);
        ends->length += (uint32_t)batch.spans[i].iov_len;
    }
    return has_more;
}

/* Reads the bytes in parts of `step`; writes the lengths of the frames that come. */
static int deliver(struct ends *ends, uint32_t step, uint32_t *lengths, uint32_t *count)
{
    *count = 0;
    for (uint32_t at = 0; at < ends->length; at += step) {
        uint32_t rest = ends->length - at;
        struct cop__bytes in = {ends->bytes + at, rest < step ? rest : step};
        struct cop__item item;
        int found;
        while ((found = cop__link_input(&ends->in, &in, &item)) > 0) {
            assert_int_equal(item.type, COP__RECORD_FRAME);
            uint32_t length = item.frame.header.length;
            for (uint32_t i = 0; !item.skipped && i < length; i++)
                assert_int_equal(item.frame.payload->data[i],
                                 (uint8_t)(i * 7 + length));
            lengths[(*count)++] = length;
            cop_buf_unref(item.frame.payload);
        }
        if (found < 0)
            return found;
        assert_int_equal(in.length, 0);
    }
    ends->length = 0;
    return 0;
}

/* ---- cases ----------------------------------------------------------------------- */

static void frames_come_whole_in_any_parts(void **state)
{
    (void)state;
    static const uint32_t steps[] = {1, 2, 3, 7, 23, 24, 25, 71, 72, 73, 1000, 1 << 20};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct ends *ends = ends_create();
        uint32_t lengths[16], count;
        push(ends, COP__KIND_NEWS, 4);
        push(ends, COP__KIND_DATA, 12);
        push(ends, COP__KIND_NEWS, 5000);
        push(ends, COP__KIND_DATA, 40000);
        push(ends, COP__KIND_DATA, COP__PIECE_SIZE);
        gather(ends);
        assert_int_equal(deliver(ends, steps[i], lengths, &count), 0);
        assert_int_equal(count, 5);
        static const uint32_t expected[] = {4, 5000, 12, 40000, COP__PIECE_SIZE};
        assert_memory_equal(lengths, expected, sizeof expected);
        ends_destroy(ends);
    }
}

/* A control frame that comes while a bulk frame is half out goes before its other half. */
static void control_overtakes_bulk(void **state)
{
    (void)state;
    struct ends *ends = ends_create();
    uint32_t lengths[16], count;
    push(ends, COP__KIND_DATA, 1 << 20);
    assert_true(gather(ends));
    push(ends, COP__KIND_NEWS, 100);
    while (gather(ends))
        ;
    assert_int_equal(deliver(ends, 5000, lengths, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(lengths[0], 100);
    assert_int_equal(lengths[1], 1 << 20);
    ends_destroy(ends);
}

/* Until the mark is seen all is sent; then it is said where it lies. The other end is given
 * the bytes in parts, reads for itself, and counts. */
static void payloads_stay_where_they_lie(void **state)
{
    (void)state;
    static const uint32_t steps[] = {1, 23, 24, 25, 48, 79, 80, 81, 5000};
    static const uint8_t mark[COP__MARK_SIZE] = "nothing like it";
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct ends *ends = ends_create();
        uint32_t marks = 0, places = 0, frames = 0;
        ends->out.mark = mark;
        push(ends, COP__KIND_DATA, 40000);
        gather(ends);
        ends->out.shown = COP__SEEN;
        push(ends, COP__KIND_DATA, COP__THERE_LEAST);
        push(ends, COP__KIND_NEWS, 40000);
        push(ends, COP__KIND_DATA, COP__THERE_LEAST - 1);
        gather(ends);
        for (uint32_t at = 0; at < ends->length; at += steps[i]) {
            uint32_t rest = ends->length - at;
            struct cop__bytes in = {ends->bytes + at,
                                    rest < steps[i] ? rest : steps[i]};
            struct cop__item item;
            int found;
            while ((found = cop__link_input(&ends->in, &in, &item)) > 0) {
                if (item.type == COP__RECORD_SHOW) {
                    marks++;
                    assert_true(item.address == (uintptr_t)mark);
                    assert_memory_equal(item.mark, mark, sizeof mark);
                    continue;
                }
                if (item.type == COP__RECORD_THERE) {
                    places++;
                    assert_int_equal(item.frame.header.length, COP__THERE_LEAST);
                    struct cop_buf *read = cop_buf_create(COP__THERE_LEAST);
                    memcpy(read->data, (const void *)(uintptr_t)item.address,
                           read->length);
                    cop__link_fetched(&ends->in, &item, read);
                }
                assert_int_equal(item.type, COP__RECORD_FRAME);
                uint32_t length = item.frame.header.length;
                for (uint32_t j = 0; j < length; j++)
                    assert_int_equal(item.frame.payload->data[j],
                                     (uint8_t)(j * 7 + length));
                frames++;
                cop_buf_unref(item.frame.payload);
            }
            assert_int_equal(found, 0);
        }
        assert_true(marks == 1 && places == 1 && frames == 4);
        struct cop__counts counts = cop__session_counts(&ends->far);
        assert_int_equal(counts.lanes[COP__LANE_BULK], 3);
        ends_destroy(ends);
    }
}

static void counts_come_back_with_frames(void **state)
{
    (void)state;
    struct ends *ends = ends_create();
    uint32_t lengths[64], count;
    for (uint32_t i = 0; i < 40; i++)
        push(ends, i % 2 ? COP__KIND_NEWS : COP__KIND_DATA, 20);
    gather(ends);
    assert_int_equal(deliver(ends, 999, lengths, &count), 0);
    assert_int_equal(count, 40);
    assert_true(cop__session_must_tell(&ends->far));
    ends->in.must_tell = true;
    struct cop__batch batch;
    cop__batch_init(&batch, ends->space, sizeof ends->space);
    cop__link_gather(&ends->in, &batch);
    assert_int_equal(batch.bytes, COP__RECORD_SIZE);
    struct cop__bytes in = {batch.spans[0].iov_base, (uint32_t)batch.bytes};
    struct cop__item item;
    assert_int_equal(cop__link_input(&ends->out, &in, &item), 0);
    assert_false(cop__session_is_owing(&ends->near));
    assert_false(cop__session_has_untold(&ends->far));
    ends_destroy(ends);
}

static void put_record(struct ends *ends, uint8_t type, uint8_t flags, uint32_t length)
{
    struct cop__record record = {.type = type, .flags = flags, .length = length};
    cop__record_encode(&record, ends->bytes + ends->length);
    ends->length += COP__RECORD_SIZE;
}

static void put_header(struct ends *ends, uint16_t kind, uint32_t length)
{
    struct cop_header header = {.kind = kind, .length = length};
    cop__header_encode(&header, ends->bytes + ends->length);
    ends->length += COP__HEADER_SIZE;
}

static int try_bytes(struct ends *ends)
{
    uint32_t lengths[16], count;
    int error = deliver(ends, 1 << 20, lengths, &count);
    ends_destroy(ends);
    return error;
}

static void nonsense_is_cut(void **state)
{
    (void)state;
    struct ends *ends = ends_create();
    memset(ends->bytes, 0xff, ends->length = 100);
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);

    /* It claims 4 GiB: nothing is kept for it. */
    ends = ends_create();
    put_record(ends, COP__RECORD_FRAME, 0, UINT32_MAX);
    assert_int_equal(try_bytes(ends), COP_ETOOBIG);
    ends = ends_create();
    put_record(ends, COP__RECORD_FRAME, 0, COP__FRAME_MAX_BODY);
    put_header(ends, COP__KIND_NEWS, UINT32_MAX);
    assert_int_equal(try_bytes(ends), COP_ETOOBIG);
    ends = ends_create();
    put_record(ends, COP__RECORD_ACK, 0, 1);
    assert_int_equal(try_bytes(ends), COP_ETOOBIG);

    /* Record and header do not agree. */
    ends = ends_create();
    put_record(ends, COP__RECORD_FRAME, 0, COP__HEADER_SIZE + 10);
    put_header(ends, COP__KIND_NEWS, 11);
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);
    ends = ends_create();
    put_record(ends, COP__RECORD_FRAME, 0, COP__HEADER_SIZE - 1);
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);

    /* A greeting when the handshake is over. */
    ends = ends_create();
    put_record(ends, COP__RECORD_HELLO, 0, 10);
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);
    ends = ends_create();
    put_record(ends, COP__RECORD_REFUSE, 0, 10);
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);

    /* Counted more than it was given. */
    ends = ends_create();
    struct cop__record record = {.type = COP__RECORD_ACK, .count = 1};
    cop__record_encode(&record, ends->bytes);
    ends->length = COP__RECORD_SIZE;
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);

    /* Another major version. */
    ends = ends_create();
    put_record(ends, COP__RECORD_FRAME, 0, COP__HEADER_SIZE + 10);
    put_header(ends, COP__KIND_NEWS, 10);
    ends->bytes[COP__RECORD_SIZE + 2]++;
    assert_int_equal(try_bytes(ends), COP_EVERSION);
}

static void pieces_that_do_not_fit_are_cut(void **state)
{
    (void)state;
    /* Of another major version nobody knows how long it is. */
    struct ends *odd = ends_create();
    put_record(odd, COP__RECORD_PIECE, 0, COP__HEADER_SIZE + 20);
    put_header(odd, COP__KIND_DATA, 40);
    odd->bytes[COP__RECORD_SIZE + 2]++;
    assert_int_equal(try_bytes(odd), COP_EVERSION);
    /* The last one leaves something missing. */
    struct ends *ends = ends_create();
    put_record(ends, COP__RECORD_PIECE, COP__RECORD_LAST, COP__HEADER_SIZE + 20);
    put_header(ends, COP__KIND_DATA, 21);
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);
    /* All of it, but not said to be the last. */
    ends = ends_create();
    put_record(ends, COP__RECORD_PIECE, 0, COP__HEADER_SIZE + 20);
    put_header(ends, COP__KIND_DATA, 20);
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);
    /* The second is too long, or empty, or the last but too short. */
    static const struct {
        uint8_t flags;
        uint32_t length;
    } second[] = {{COP__RECORD_LAST, 21}, {0, 0}, {COP__RECORD_LAST, 19}, {0, 20}};
    for (size_t i = 0; i < sizeof second / sizeof second[0]; i++) {
        ends = ends_create();
        put_record(ends, COP__RECORD_PIECE, 0, COP__HEADER_SIZE + 20);
        put_header(ends, COP__KIND_DATA, 40);
        ends->length += 20;
        put_record(ends, COP__RECORD_PIECE, second[i].flags, second[i].length);
        assert_int_equal(try_bytes(ends), COP_EMALFORMED);
    }
}

static void places_that_cannot_be_are_cut(void **state)
{
    (void)state;
    static const uint8_t types[] = {COP__RECORD_SHOW, COP__RECORD_THERE};
    for (size_t i = 0; i < sizeof types; i++) {
        uint32_t size = types[i] == COP__RECORD_SHOW ? COP__SHOW_SIZE : COP__THERE_SIZE;
        struct ends *ends = ends_create();
        put_record(ends, types[i], 0, size - 1);
        assert_int_equal(try_bytes(ends), COP_EMALFORMED);
        ends = ends_create();
        put_record(ends, types[i], 0, size + 1);
        assert_int_equal(try_bytes(ends), COP_ETOOBIG);
    }
    struct ends *ends = ends_create();
    put_record(ends, COP__RECORD_SEES, 0, 1);
    assert_int_equal(try_bytes(ends), COP_ETOOBIG);
    /* Too long, or of nothing. */
    ends = ends_create();
    put_record(ends, COP__RECORD_THERE, 0, COP__THERE_SIZE);
    put_header(ends, COP__KIND_DATA, UINT32_MAX);
    ends->length += 8;
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);
    ends = ends_create();
    put_record(ends, COP__RECORD_THERE, 0, COP__THERE_SIZE);
    put_header(ends, COP__KIND_DATA, 0);
    ends->length += 8;
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);
    /* While the one before it is not whole. */
    ends = ends_create();
    put_record(ends, COP__RECORD_PIECE, 0, COP__HEADER_SIZE + 20);
    put_header(ends, COP__KIND_DATA, 40);
    ends->length += 20;
    put_record(ends, COP__RECORD_THERE, 0, COP__THERE_SIZE);
    put_header(ends, COP__KIND_DATA, 40);
    ends->length += 8;
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);
    /* Counted more than it was given. */
    ends = ends_create();
    struct cop__record record = {
        .type = COP__RECORD_SHOW, .length = COP__SHOW_SIZE, .bulk = 1};
    cop__record_encode(&record, ends->bytes);
    ends->length = COP__RECORD_SIZE + COP__SHOW_SIZE;
    assert_int_equal(try_bytes(ends), COP_EMALFORMED);
}

/* Frames of a later version are counted, or they would be sent again for ever. */
static void what_is_new_is_skipped_and_counted(void **state)
{
    (void)state;
    struct ends *ends = ends_create();
    put_record(ends, COP__RECORD_FRAME, 0, COP__HEADER_SIZE + 100);
    put_header(ends, 9999, 100);
    ends->length += 100;
    put_record(ends, COP__RECORD_FRAME, 0, COP__HEADER_SIZE + 3);
    put_header(ends, COP__KIND_NEWS, 3);
    ends->bytes[ends->length - COP__HEADER_SIZE + 3] = COP__PROTOCOL_MINOR + 1;
    ends->length += 3;
    put_record(ends, COP__RECORD_PIECE, 0, COP__HEADER_SIZE + 10);
    put_header(ends, 9998, 15);
    ends->length += 10;
    put_record(ends, COP__RECORD_PIECE, COP__RECORD_LAST, 5);
    ends->length += 5;
    put_record(ends, COP__RECORD_THERE, 0, COP__THERE_SIZE);
    put_header(ends, 9998, 15);
    ends->length += 8;
    for (uint32_t i = 0; i < ends->length; i += 13) {
        struct cop__bytes in = {ends->bytes + i,
                                ends->length - i < 13 ? ends->length - i : 13};
        struct cop__item item;
        int found;
        while ((found = cop__link_input(&ends->in, &in, &item)) > 0) {
            assert_int_equal(item.type, COP__RECORD_FRAME);
            assert_true(item.skipped);
            assert_null(item.frame.payload);
        }
        assert_int_equal(found, 0);
    }
    struct cop__counts counts = cop__session_counts(&ends->far);
    assert_int_equal(counts.lanes[COP__LANE_CONTROL], 2);
    assert_int_equal(counts.lanes[COP__LANE_BULK], 2);
    ends_destroy(ends);
}

static void wishes_travel_with_every_record(void **state)
{
    (void)state;
    struct ends *ends = ends_create();
    uint32_t lengths[16], count;
    ends->out.keep = true;
    push(ends, COP__KIND_NEWS, 100);
    gather(ends);
    assert_int_equal(deliver(ends, 1000, lengths, &count), 0);
    assert_true(ends->in.other_keeps);
    ends->out.keep = false;
    ends->out.must_tell = true;
    gather(ends);
    assert_int_equal(ends->length, COP__RECORD_SIZE);
    assert_int_equal(deliver(ends, 1000, lengths, &count), 0);
    assert_false(ends->in.other_keeps);
    ends_destroy(ends);
}

/* ---- greetings ------------------------------------------------------------------- */

static struct cop_view *view;

static int make_view(void **state)
{
    (void)state;
    struct cop_shape shape;
    return cop_shape_make(COP_SHAPE_KARY, 2, &shape) != 0 ||
           cop_view_create_static(8, &shape, 1, &view) != 0;
}

static int drop_view(void **state)
{
    (void)state;
    cop_view_unref(view);
    return 0;
}

static struct cop__identity who(cop_id self)
{
    return (struct cop__identity){{1, 2, 3}, 4, self, 10 + self, view, false};
}

/* What `judge` says of bytes that hold one greeting. */
static enum cop__refusal judge(const struct cop__identity *identity,
                               const uint8_t *bytes, size_t length,
                               struct cop__greeting *greeting)
{
    struct cop__link link;
    struct cop__item item;
    struct cop__bytes in = {bytes, (uint32_t)length};
    cop__link_init(&link);
    assert_int_equal(cop__link_input(&link, &in, &item), 1);
    enum cop__refusal refusal = cop__hello_judge(identity, &item, greeting);
    cop_buf_unref(item.body);
    cop__link_fini(&link);
    return refusal;
}

static enum cop__refusal hello(const struct cop__identity *from, cop_id receiver,
                               const struct cop__identity *to)
{
    struct cop__acquaintance acquaintance;
    struct cop__greeting greeting;
    uint8_t bytes[COP__GREETING_MAX];
    cop__acquaintance_init(&acquaintance);
    size_t length = cop__hello_write(from, receiver, &acquaintance, false, bytes);
    assert_true(length > 0);
    return judge(to, bytes, length, &greeting);
}

static void only_members_are_admitted(void **state)
{
    (void)state;
    struct cop__identity a = who(1), b = who(2), other;
    assert_int_equal(hello(&a, 2, &b), COP__REFUSE_NONE);
    assert_int_equal(hello(&a, 3, &b), COP__REFUSE_RECEIVER);
    assert_int_equal(hello(&b, 2, &b), COP__REFUSE_SELF);
    other = who(8);
    assert_int_equal(hello(&other, 2, &b), COP__REFUSE_STRANGER);
    other = a;
    other.cluster[15]++;
    assert_int_equal(hello(&other, 2, &b), COP__REFUSE_CLUSTER);
    other = a;
    other.instance++;
    assert_int_equal(hello(&other, 2, &b), COP__REFUSE_CLUSTER);
    other = a;
    other.incarnation = 0;
    assert_int_equal(hello(&other, 2, &b), COP__REFUSE_GARBAGE);
    /* Whoever gets the id next could not have a later one. */
    other.incarnation = UINT64_MAX - 1;
    assert_int_equal(hello(&other, 2, &b), COP__REFUSE_GARBAGE);
}

static void other_versions_are_told_so(void **state)
{
    (void)state;
    struct cop__identity a = who(1), b = who(2);
    struct cop__acquaintance acquaintance;
    struct cop__greeting greeting;
    uint8_t bytes[COP__GREETING_MAX];
    cop__acquaintance_init(&acquaintance);
    size_t length = cop__hello_write(&a, 2, &acquaintance, false, bytes);
    bytes[COP__RECORD_SIZE]++;
    assert_int_equal(judge(&b, bytes, length, &greeting), COP__REFUSE_VERSION);
    /* The same version, but too short. */
    bytes[COP__RECORD_SIZE]--;
    struct cop__record record = {.type = COP__RECORD_HELLO,
                                 .length = (uint32_t)(length - COP__RECORD_SIZE - 1)};
    cop__record_encode(&record, bytes);
    assert_int_equal(judge(&b, bytes, length - 1, &greeting), COP__REFUSE_GARBAGE);
}

static void refusals_can_be_read_and_printed(void **state)
{
    (void)state;
    uint8_t bytes[COP__GREETING_MAX];
    char text[64];
    struct cop__link link;
    struct cop__item item;
    size_t length = cop__refuse_write(COP__REFUSE_CLUSTER, 0, bytes);
    bytes[length - 1] = '\033';
    struct cop__bytes in = {bytes, (uint32_t)length};
    cop__link_init(&link);
    assert_int_equal(cop__link_input(&link, &in, &item), 1);
    assert_int_equal(item.type, COP__RECORD_REFUSE);
    assert_int_equal(cop__refuse_read(&item, text, sizeof text), COP__REFUSE_CLUSTER);
    assert_string_equal(text, "this is another cluster, or another start of i?");
    assert_int_equal(cop__refuse_read(&item, text, 5), COP__REFUSE_CLUSTER);
    assert_string_equal(text, "this");
    cop_buf_unref(item.body);
    cop__link_fini(&link);
}

static void earlier_lives_and_attempts_are_refused(void **state)
{
    (void)state;
    struct cop__identity low = who(1), high = who(3);
    struct cop__acquaintance friend;
    struct cop__greeting greeting = {.sender = 2, .incarnation = 5, .attempt = 1};
    uint64_t resent;
    cop__acquaintance_init(&friend);
    assert_int_equal(cop__hello_admit(&low, &friend, 6, COP__ATTEMPT_NONE, &greeting),
                     COP__REFUSE_INCARNATION);
    assert_int_equal(cop__hello_admit(&low, &friend, 5, COP__ATTEMPT_NONE, &greeting),
                     COP__REFUSE_NONE);
    /* Both at once: the lower id's connection stays, once its HELLO is out. */
    assert_int_equal(
        cop__hello_admit(&low, &friend, 5, COP__ATTEMPT_CONNECTING, &greeting),
        COP__REFUSE_NONE);
    assert_int_equal(
        cop__hello_admit(&low, &friend, 5, COP__ATTEMPT_GREETED, &greeting),
        COP__REFUSE_CROSSED);
    assert_int_equal(
        cop__hello_admit(&high, &friend, 5, COP__ATTEMPT_GREETED, &greeting),
        COP__REFUSE_NONE);
    assert_int_equal(cop__greeting_accept(&friend, &greeting, &resent),
                     COP__REFUSE_NONE);
    assert_int_equal(cop__hello_admit(&low, &friend, 0, COP__ATTEMPT_NONE, &greeting),
                     COP__REFUSE_STALE);
    greeting.attempt = 2;
    assert_int_equal(cop__hello_admit(&low, &friend, 0, COP__ATTEMPT_NONE, &greeting),
                     COP__REFUSE_NONE);
    greeting.counts.lanes[0] = 1;
    assert_int_equal(cop__greeting_accept(&friend, &greeting, &resent),
                     COP__REFUSE_GARBAGE);
    friend.session.lost = true;
    assert_int_equal(cop__hello_admit(&low, &friend, 0, COP__ATTEMPT_NONE, &greeting),
                     COP__REFUSE_LOST);
    greeting = (struct cop__greeting){.sender = 2, .incarnation = 4, .attempt = 9};
    assert_int_equal(cop__hello_admit(&low, &friend, 0, COP__ATTEMPT_NONE, &greeting),
                     COP__REFUSE_INCARNATION);
    assert_int_equal(cop__greeting_accept(&friend, &greeting, &resent),
                     COP__REFUSE_INCARNATION);
    cop__acquaintance_fini(&friend);
}

/* Without memory a connection may break, but no frame is lost: it comes with the next one. */
static void no_memory_loses_nothing(void **state)
{
    (void)state;
    for (size_t n = 0;; n++) {
        struct ends *ends = ends_create();
        uint32_t lengths[16], count;
        struct cop__counts counts;
        for (uint32_t i = 0; i < 6; i++)
            push(ends, i % 2 ? COP__KIND_NEWS : COP__KIND_DATA, 20 + i);
        gather(ends);
        failing_alloc_after(n);
        int error = deliver(ends, 11, lengths, &count);
        failing_alloc_off();
        bool is_hit = failing_alloc_hit();
        assert_int_equal(error, is_hit ? COP_ENOMEM : 0);
        cop__link_fini(&ends->in);
        cop__link_init(&ends->in);
        cop__link_open(&ends->in, &ends->far);
        cop__link_fini(&ends->out);
        cop__link_init(&ends->out);
        cop__link_open(&ends->out, &ends->near);
        counts = cop__session_counts(&ends->far);
        assert_int_equal(cop__session_resume(&ends->near, &counts, NULL), 0);
        uint32_t before = count;
        ends->length = 0;
        gather(ends);
        assert_int_equal(deliver(ends, 1000, lengths, &count), 0);
        assert_int_equal(before + count, 6);
        ends_destroy(ends);
        if (!is_hit)
            break;
    }
}

static void no_memory_keeps_nothing(void **state)
{
    (void)state;
    struct cop__session session;
    struct cop_frame frame = {.header = {.kind = COP__KIND_DONE}};
    uint8_t bytes[COP__GREETING_MAX];
    cop__session_init(&session);
    failing_alloc_after(0);
    int error = cop__session_push(&session, COP__LANE_CONTROL, &frame);
    size_t written = cop__refuse_write(COP__REFUSE_SELF, 0, bytes);
    failing_alloc_off();
    assert_int_equal(error, COP_ENOMEM);
    assert_int_equal(written, 0);
    assert_false(cop__session_is_owing(&session));
    assert_null(cop__session_check(&session));
    cop__session_fini(&session);
}

static void notices_are_one_a_minute(void **state)
{
    (void)state;
    struct cop__notice notice = {0};
    uint64_t held = 99;
    assert_true(cop__notice_is_due(&notice, 1000, &held));
    assert_int_equal(held, 0);
    for (int i = 0; i < 5; i++)
        assert_false(cop__notice_is_due(&notice, 1000 + COP__NOTICE_EVERY - 1, &held));
    assert_true(cop__notice_is_due(&notice, 1000 + COP__NOTICE_EVERY, &held));
    assert_int_equal(held, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_whole_in_any_parts),
        cmocka_unit_test(control_overtakes_bulk),
        cmocka_unit_test(payloads_stay_where_they_lie),
        cmocka_unit_test(counts_come_back_with_frames),
        cmocka_unit_test(nonsense_is_cut),
        cmocka_unit_test(pieces_that_do_not_fit_are_cut),
        cmocka_unit_test(places_that_cannot_be_are_cut),
        cmocka_unit_test(what_is_new_is_skipped_and_counted),
        cmocka_unit_test(wishes_travel_with_every_record),
        cmocka_unit_test(only_members_are_admitted),
        cmocka_unit_test(other_versions_are_told_so),
        cmocka_unit_test(refusals_can_be_read_and_printed),
        cmocka_unit_test(earlier_lives_and_attempts_are_refused),
        cmocka_unit_test(no_memory_loses_nothing),
        cmocka_unit_test(no_memory_keeps_nothing),
        cmocka_unit_test(notices_are_one_a_minute),
    };
    return cmocka_run_group_tests(tests, make_view, drop_view);
}
