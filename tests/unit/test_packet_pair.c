/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in packets: whatever order the network hands packets over in, frames come whole,
 * once and in their order, and nobody has more than the window under way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "failing_alloc.h"
#include "net/packet/pair.h"
#include "wire/codec.h"
#include "wire/header.h"
#include "wire/messages.h"

#define LIMIT 256u

struct flying {
    uint8_t bytes[LIMIT];
    size_t length;
};

/* One side, and what is on its way to it. */
struct side {
    struct cop__pair pair;
    struct flying flying[4 * COP__PAIR_WINDOW];
    uint32_t count;
    uint64_t pushed[2], came[2]; /* frames: control, bulk */
    struct {
        uint32_t number;
        struct cop__fetch fetch;
    } fetching[COP__PAIR_OFFERS];
    uint32_t fetching_count, said; /* how many are known to be fetched */
    uint32_t offers;
};

static struct cop_frame make_frame(bool is_bulk, uint64_t number, uint32_t length)
{
    struct cop_frame frame = {
        .header = {.kind = is_bulk ? COP__KIND_DATA : COP__KIND_NEWS,
                   .sender = 1,
                   .receiver = 2,
                   .epoch = number,
                   .length = length},
        .payload = cop_buf_create(length)};
    for (uint32_t i = 0; i < length; i++)
        frame.payload->data[i] = (uint8_t)(number * 31 + i);
    return frame;
}

static void push(struct side *from, bool is_bulk, uint32_t length)
{
    struct cop_frame frame = make_frame(is_bulk, from->pushed[is_bulk]++, length);
    assert_int_equal(cop__pair_push(&from->pair, &frame), 0);
    cop_buf_unref(frame.payload);
}

/* The other side "reads" what the address points to. */
static size_t fly_offer(struct side *from, uint8_t *out)
{
    struct cop_buf *payload = cop__pair_next_payload(&from->pair);
    struct cop__remote remote = {(uintptr_t)payload->data, 99};
    from->offers++;
    return cop__pair_pack_offer(&from->pair, &remote, payload, out);
}

static void fly(struct side *from, struct side *to)
{
    struct flying *flying = &to->flying[to->count];
    if (to->count == sizeof to->flying / sizeof *to->flying)
        return;
    if (from->said != from->pair.given) {
        flying->length =
            cop__pair_pack_bare(&from->pair, COP__PACKET_FETCHED, 0, flying->bytes);
        from->said = from->pair.given;
    } else if (cop__pair_wants_offer(&from->pair))
        flying->length = fly_offer(from, flying->bytes);
    else if (cop__pair_has_packet(&from->pair))
        flying->length = cop__pair_pack(&from->pair, flying->bytes, LIMIT);
    else if (cop__pair_must_tell(&from->pair))
        flying->length =
            cop__pair_pack_bare(&from->pair, COP__PACKET_CREDIT, 0, flying->bytes);
    else
        return;
    to->count++;
    assert_true(from->pair.sent - from->pair.acknowledged <= COP__PAIR_WINDOW);
}

static void check_frame(struct side *side, struct side *from, struct cop_frame *frame)
{
    bool is_bulk = frame->header.kind == COP__KIND_DATA;
    uint64_t number = side->came[is_bulk]++;
    assert_int_equal(frame->header.epoch, number);
    assert_true(number < from->pushed[is_bulk]);
    struct cop_frame same = make_frame(is_bulk, number, frame->header.length);
    assert_memory_equal(frame->payload->data, same.payload->data, frame->header.length);
    cop_buf_unref(same.payload);
    cop_buf_unref(frame->payload);
}

static void give(struct side *side, struct side *from)
{
    struct cop_frame frame;
    struct cop__offer offer;
    int more;
    while ((more = cop__pair_next(&side->pair, &frame)) == 1)
        check_frame(side, from, &frame);
    assert_int_equal(more, 0);
    while (cop__pair_next_released(&side->pair, &offer)) {
        assert_ptr_equal(offer.region, offer.payload);
        cop_buf_unref(offer.payload);
    }
}

static void land(struct side *side, struct side *from, uint32_t which)
{
    struct cop__said said;
    struct flying flying = side->flying[which];
    memmove(&side->flying[which], &side->flying[which + 1],
            (--side->count - which) * sizeof flying);
    assert_int_equal(cop__pair_take(&side->pair, flying.bytes, flying.length, &said),
                     0);
    give(side, from);
}

static void begin_fetches(struct side *side)
{
    struct cop__fetch *fetch;
    while ((fetch = cop__pair_next_fetch(&side->pair)) != NULL) {
        side->fetching[side->fetching_count].number = side->pair.begun++;
        side->fetching[side->fetching_count++].fetch = *fetch;
    }
}

static void end_fetch(struct side *side, struct side *from, uint32_t which)
{
    struct cop__fetch *fetch = &side->fetching[which].fetch;
    assert_int_equal(fetch->remote.key, 99);
    const void *there = (const void *)(uintptr_t)fetch->remote.address;
    memcpy(fetch->payload->data, there, fetch->header.length);
    cop__pair_on_fetched(&side->pair, side->fetching[which].number);
    side->fetching[which] = side->fetching[--side->fetching_count];
    give(side, from);
}

static void run_seed(uint64_t seed)
{
    static struct side sides[2];
    struct cop__random random;
    memset(sides, 0, sizeof sides);
    cop__random_init(&random, seed);
    for (int i = 0; i < 2; i++) {
        cop__pair_init(&sides[i].pair);
        sides[i].pair.fetch_least = seed % 2 == 0 ? 0 : 500;
    }
    /* Numbers wrap. */
    sides[0].pair.sent = sides[0].pair.acknowledged = UINT32_MAX - 5;
    sides[1].pair.taken = sides[1].pair.told = UINT32_MAX - 5;
    for (int turn = 0; turn < 2000; turn++) {
        struct side *side = &sides[cop__random_below(&random, 2)];
        struct side *other = side == sides ? &sides[1] : sides;
        uint64_t what = cop__random_below(&random, 10);
        if (what < 2 && turn < 1000)
            push(side, cop__random_below(&random, 3) == 0,
                 12 + (uint32_t)cop__random_below(&random, 1000));
        else if (what < 6)
            fly(side, other);
        else if (what < 7)
            begin_fetches(side);
        else if (what < 8 && side->fetching_count > 0)
            end_fetch(side, other,
                      (uint32_t)cop__random_below(&random, side->fetching_count));
        else if (side->count > 0)
            land(side, other, (uint32_t)cop__random_below(&random, side->count));
    }
    for (int turn = 0; turn < 20000; turn++) {
        struct side *side = &sides[turn % 2], *other = &sides[1 - turn % 2];
        fly(side, other);
        if (side->count > 0)
            land(side, other, side->count - 1);
        begin_fetches(side);
        if (side->fetching_count > 0)
            end_fetch(side, other, side->fetching_count - 1);
    }
    assert_true(sides[0].offers + sides[1].offers > 0 || seed % 2 == 0);
    for (int i = 0; i < 2; i++) {
        assert_true(cop__pair_is_empty(&sides[i].pair));
        assert_int_equal(sides[i].count, 0);
        assert_int_equal(sides[i].pair.queued_bytes, 0);
        assert_memory_equal(sides[i].came, sides[1 - i].pushed, sizeof sides[i].came);
        cop__pair_fini(&sides[i].pair);
    }
}

static void any_order(void **state)
{
    size_t live = failing_alloc_live();
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++)
        run_seed(seed);
    assert_int_equal(failing_alloc_live(), live);
}

static void window_holds(void **state)
{
    static struct side a, b;
    uint32_t packets = 0;
    uint8_t bytes[LIMIT];
    (void)state;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    push(&a, true, 100000);
    for (; cop__pair_has_packet(&a.pair); packets++)
        cop__pair_pack(&a.pair, bytes, LIMIT);
    assert_int_equal(packets, COP__PAIR_WINDOW);
    /* What is behind it may go in part: the rest of a frame that was begun stays. */
    push(&a, true, 12);
    cop__pair_drop(&a.pair);
    assert_int_equal(a.pair.out[1].count, 1);
    assert_true(a.pair.queued_bytes > 0);
    cop__pair_fini(&a.pair);
}

static void control_overtakes(void **state)
{
    static struct side a, b;
    (void)state;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    push(&a, true, 3000);
    fly(&a, &b);
    push(&a, false, 20);
    fly(&a, &b);
    while (b.count > 0)
        land(&b, &a, 0);
    assert_int_equal(b.came[0], 1);
    assert_int_equal(b.came[1], 0);
    while (!cop__pair_is_empty(&a.pair))
        fly(&a, &b);
    while (b.count > 0)
        land(&b, &a, 0);
    assert_int_equal(b.came[1], 1);
    cop__pair_fini(&a.pair);
    cop__pair_fini(&b.pair);
}

static void refuse(const uint8_t *packet, size_t length)
{
    struct cop__pair pair;
    struct cop__said said;
    cop__pair_init(&pair);
    assert_int_equal(cop__pair_take(&pair, packet, length, &said), COP_EMALFORMED);
    cop__pair_fini(&pair);
}

static size_t front(uint8_t *out, uint32_t kind, uint32_t number, uint32_t taken)
{
    struct cop__writer writer = cop__writer(out, COP__PACKET_HEADER);
    cop__put_u32(&writer, kind);
    cop__put_u32(&writer, number);
    cop__put_u32(&writer, taken);
    return COP__PACKET_HEADER;
}

static void garbage(void **state)
{
    uint8_t packet[200] = {0};
    struct cop__pair pair;
    struct cop__said said;
    struct cop_frame frame;
    (void)state;
    refuse(packet, 3);
    refuse(packet, front(packet, 0, 0, 0));
    refuse(packet, front(packet, COP__PACKET_OFFER + 1, 0, 0) + 8);
    refuse(packet, front(packet, COP__PACKET_FETCHED, 0, 0) + 3);
    refuse(packet, front(packet, 0x100 + COP__PACKET_CREDIT, 0, 0));
    refuse(packet, front(packet, COP__PACKET_CREDIT, 0, 0) + 1);
    refuse(packet, front(packet, COP__PACKET_CREDIT, 0, 1)); /* never sent */
    refuse(packet, front(packet, COP__PACKET_HELLO, 0, 0) + 7);
    refuse(packet, front(packet, COP__PACKET_CONTROL, 0, 0)); /* empty */
    refuse(packet, front(packet, COP__PACKET_BULK, COP__PAIR_WINDOW, 0) + 1);
    refuse(packet, front(packet, COP__PACKET_BULK, UINT32_MAX, 0) + 1);

    /* The same number twice, before its turn. */
    cop__pair_init(&pair);
    size_t length = front(packet, COP__PACKET_BULK, 1, 0) + 5;
    assert_int_equal(cop__pair_take(&pair, packet, length, &said), 0);
    assert_int_equal(cop__pair_next(&pair, &frame), 0);
    assert_int_equal(cop__pair_take(&pair, packet, length, &said), COP_EMALFORMED);
    /* What is inside is no frame. */
    length = front(packet, COP__PACKET_CONTROL, 0, 0) + 60;
    assert_int_equal(cop__pair_take(&pair, packet, length, &said), 0);
    assert_int_equal(cop__pair_next(&pair, &frame), COP_EMALFORMED);
    cop__pair_fini(&pair);
}

static int offer(struct cop__pair *pair, uint16_t kind, uint32_t number,
                 uint32_t length, size_t bytes)
{
    uint8_t packet[COP__PACKET_OFFER_BYTES + 1] = {0};
    struct cop_header header = {
        .kind = kind, .sender = 1, .receiver = 2, .length = length};
    struct cop__said said;
    struct cop_frame frame;
    front(packet, COP__PACKET_OFFER, number, 0);
    cop__header_encode(&header, packet + COP__PACKET_HEADER);
    assert_int_equal(cop__pair_take(pair, packet, bytes, &said), 0);
    return cop__pair_next(pair, &frame);
}

/* Offers that cannot be; and one of a kind that is not known, which is not fetched. */
static void odd_offers(void **state)
{
    uint8_t packet[COP__PACKET_HEADER + 4];
    struct cop__pair pair;
    struct cop__said said;
    struct cop_frame frame;
    (void)state;
    cop__pair_init(&pair);
    assert_int_equal(offer(&pair, COP__KIND_DATA, 0, 0, COP__PACKET_OFFER_BYTES),
                     COP_EMALFORMED);
    assert_int_equal(offer(&pair, COP__KIND_DATA, 1, 12, COP__PACKET_OFFER_BYTES + 1),
                     COP_EMALFORMED);
    /* Whose it is hears at once that it is done with: nothing more may come that would say so. */
    assert_int_equal(offer(&pair, 9999, 2, 9, COP__PACKET_OFFER_BYTES), 0);
    assert_int_equal(pair.given, 1);
    assert_null(cop__pair_next_fetch(&pair));
    assert_int_equal(cop__pair_next(&pair, &frame), 0);
    assert_int_equal(pair.given, 1);
    for (uint32_t i = 0; i < COP__PAIR_OFFERS; i++)
        assert_int_equal(
            offer(&pair, COP__KIND_DATA, 3 + i, 12, COP__PACKET_OFFER_BYTES), 0);
    assert_int_equal(
        offer(&pair, COP__KIND_DATA, 3 + COP__PAIR_OFFERS, 12, COP__PACKET_OFFER_BYTES),
        COP_EMALFORMED);
    assert_non_null(cop__pair_next_fetch(&pair));
    /* Nothing was offered that could have been fetched. */
    struct cop__writer writer = cop__writer(packet + COP__PACKET_HEADER, 4);
    front(packet, COP__PACKET_FETCHED, 0, 0);
    cop__put_u32(&writer, 1);
    assert_int_equal(cop__pair_take(&pair, packet, sizeof packet, &said),
                     COP_EMALFORMED);
    cop__pair_fini(&pair);
}

/* A kind that is not known yet is passed over; what follows it is read. */
static void unknown_kind(void **state)
{
    static struct side a, b;
    struct cop_frame odd = make_frame(false, 0, 300), frame;
    struct cop__said said;
    uint8_t packet[1024];
    (void)state;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    odd.header.kind = 9999;
    assert_int_equal(cop__pair_push(&a.pair, &odd), 0);
    push(&a, false, 30);
    size_t length = cop__pair_pack(&a.pair, packet, sizeof packet);
    assert_int_equal(cop__pair_take(&b.pair, packet, length, &said), 0);
    assert_int_equal(cop__pair_next(&b.pair, &frame), 1);
    check_frame(&b, &a, &frame);
    assert_int_equal(cop__pair_next(&b.pair, &frame), 0);
    cop_buf_unref(odd.payload);
    cop__pair_fini(&a.pair);
    cop__pair_fini(&b.pair);
}

static void too_much(void **state)
{
    struct cop__pair pair;
    struct cop_frame frame = make_frame(true, 0, COP__FRAME_MAX);
    uint32_t taken = 0;
    (void)state;
    cop__pair_init(&pair);
    while (cop__pair_push(&pair, &frame) == 0)
        taken++;
    assert_int_equal(cop__pair_push(&pair, &frame), COP_ELOST);
    assert_int_equal(taken, COP__PAIR_QUEUE_MAX / COP__FRAME_MAX - 1);
    cop_buf_unref(frame.payload);
    cop__pair_fini(&pair);
}

static void no_memory(void **state)
{
    struct cop_frame frame = make_frame(false, 0, 100), out;
    uint8_t first[LIMIT], second[LIMIT];
    size_t live = failing_alloc_live();
    (void)state;
    for (size_t n = 0;; n++) {
        struct cop__pair a, b;
        struct cop__said said;
        int error;
        cop__pair_init(&a);
        cop__pair_init(&b);
        failing_alloc_after(n);
        error = cop__pair_push(&a, &frame);
        if (error == 0) {
            size_t one = cop__pair_pack(&a, first, 100);
            size_t two = cop__pair_pack(&a, second, LIMIT);
            error = cop__pair_take(&b, second, two, &said);
            if (error == 0)
                error = cop__pair_take(&b, first, one, &said);
            if (error == 0)
                error = cop__pair_next(&b, &out) == 1 ? 0 : COP_ENOMEM;
            if (error == 0)
                cop_buf_unref(out.payload);
        }
        failing_alloc_off();
        cop__pair_fini(&a);
        cop__pair_fini(&b);
        assert_int_equal(failing_alloc_live(), live);
        if (!failing_alloc_hit())
            break;
        assert_int_equal(error, COP_ENOMEM);
    }
    cop_buf_unref(frame.payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order),         cmocka_unit_test(window_holds),
        cmocka_unit_test(control_overtakes), cmocka_unit_test(garbage),
        cmocka_unit_test(unknown_kind),      cmocka_unit_test(too_much),
        cmocka_unit_test(odd_offers),        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
