/* SPDX-License-Identifier: Apache-2.0 */
#include "net/packet/pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/codec.h"
#include "wire/header.h"
#include "wire/messages.h"

_Static_assert(sizeof((struct cop__incoming *)0)->head == COP__HEADER_SIZE,
               "a header is put together in its place");

void cop__pair_init(struct cop__pair *pair) { memset(pair, 0, sizeof *pair); }

static void drop_all(struct cop__outgoing *out)
{
    for (uint32_t i = 0; i < out->count; i++)
        cop_buf_unref(out->ring[(out->first + i) & (out->capacity - 1)].payload);
    free(out->ring);
}

void cop__pair_fini(struct cop__pair *pair)
{
    for (int i = 0; i < COP__PAIR_STREAMS; i++) {
        drop_all(&pair->out[i]);
        cop_buf_unref(pair->in[i].payload);
    }
    for (uint32_t i = pair->released; i != pair->offered; i++)
        cop_buf_unref(pair->offers[i % COP__PAIR_OFFERS].payload);
    for (uint32_t i = pair->given; i != pair->seen; i++)
        cop_buf_unref(pair->fetches[i % COP__PAIR_OFFERS].payload);
    free(pair->reading);
    while (pair->early) {
        struct cop__early *next = pair->early->next;
        free(pair->early);
        pair->early = next;
    }
    cop__pair_init(pair);
}

/* ---- sending --------------------------------------------------------------------- */

static uint32_t parcel_bytes(const struct cop__parcel *parcel)
{
    return COP__HEADER_SIZE + parcel->header.length;
}

static int grow(struct cop__outgoing *out)
{
    uint32_t capacity = out->capacity ? 2 * out->capacity : 4;
    struct cop__parcel *ring = calloc(capacity, sizeof *ring);
    if (!ring)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < out->count; i++)
        ring[i] = out->ring[(out->first + i) & (out->capacity - 1)];
    free(out->ring);
    out->ring = ring;
    out->capacity = capacity;
    out->first = 0;
    return 0;
}

static struct cop__outgoing *stream_of(struct cop__pair *pair, uint16_t kind)
{
    const struct cop__kind_info *info = cop__kind_info(kind);
    return &pair->out[info && info->class == COP__CLASS_BULK];
}

int cop__pair_push(struct cop__pair *pair, const struct cop_frame *frame)
{
    struct cop__outgoing *out = stream_of(pair, frame->header.kind);
    struct cop__parcel parcel = {frame->header, frame->payload};
    uint64_t most = pair->queue_max ? pair->queue_max : COP__PAIR_QUEUE_MAX;
    if (pair->queued_bytes + parcel_bytes(&parcel) > most)
        return COP_ELOST;
    if (out->count == out->capacity && grow(out) != 0)
        return COP_ENOMEM;
    cop_buf_ref(parcel.payload);
    out->ring[(out->first + out->count++) & (out->capacity - 1)] = parcel;
    pair->queued_bytes += parcel_bytes(&parcel);
    return 0;
}

/* Whether the first bulk frame is not to be sent, but offered. */
static bool is_large(const struct cop__pair *pair)
{
    const struct cop__outgoing *out = &pair->out[1];
    return out->count > 0 && out->cut == 0 && !pair->is_plain &&
           pair->fetch_least > 0 &&
           out->ring[out->first].header.length >= pair->fetch_least;
}

bool cop__pair_has_packet(const struct cop__pair *pair)
{
    uint32_t offers = pair->offered - pair->released;
    if (pair->sent - pair->acknowledged >= COP__PAIR_WINDOW)
        return false;
    if (pair->out[0].count > 0 || pair->out[1].count == 0)
        return pair->out[0].count > 0;
    return offers == 0 || (is_large(pair) && offers < COP__PAIR_OFFERS);
}

bool cop__pair_wants_offer(const struct cop__pair *pair)
{
    return pair->out[0].count == 0 && is_large(pair) && cop__pair_has_packet(pair);
}

struct cop_buf *cop__pair_next_payload(const struct cop__pair *pair)
{
    return pair->out[1].ring[pair->out[1].first].payload;
}

static void pop(struct cop__outgoing *out)
{
    out->first = (out->first + 1) & (out->capacity - 1);
    out->count--;
    out->cut = 0;
}

/* As much of the first frame as fits; how much that was. */
static size_t cut(struct cop__outgoing *out, uint8_t *to, size_t room)
{
    struct cop__parcel *parcel = &out->ring[out->first];
    uint8_t head[COP__HEADER_SIZE];
    size_t done = 0;
    if (out->cut == 0 && room >= COP__HEADER_SIZE) {
        cop__header_encode(&parcel->header, to);
        done = out->cut = COP__HEADER_SIZE;
    } else if (out->cut < COP__HEADER_SIZE) {
        cop__header_encode(&parcel->header, head);
        done = COP__HEADER_SIZE - out->cut < room ? COP__HEADER_SIZE - out->cut : room;
        memcpy(to, head + out->cut, done);
        out->cut += (uint32_t)done;
    }
    size_t left = parcel_bytes(parcel) - out->cut;
    size_t fits = left < room - done ? left : room - done;
    if (fits > 0) {
        memcpy(to + done, parcel->payload->data + (out->cut - COP__HEADER_SIZE), fits);
        out->cut += (uint32_t)fits;
    }
    if (out->cut == parcel_bytes(parcel)) {
        cop_buf_unref(parcel->payload);
        pop(out);
    }
    return done + fits;
}

static void put_front(struct cop__pair *pair, enum cop__packet_kind kind,
                      uint32_t number, uint8_t *out)
{
    struct cop__writer writer = cop__writer(out, COP__PACKET_HEADER);
    cop__put_u32(&writer, (uint32_t)kind);
    cop__put_u32(&writer, number);
    cop__put_u32(&writer, pair->taken);
    pair->told = pair->taken;
}

size_t cop__pair_pack(struct cop__pair *pair, uint8_t *out, size_t size)
{
    bool is_bulk = pair->out[0].count == 0;
    struct cop__outgoing *from = &pair->out[is_bulk];
    size_t length = COP__PACKET_HEADER;
    COP_ASSERT(cop__pair_has_packet(pair) && !cop__pair_wants_offer(pair) &&
               size > COP__PACKET_HEADER);
    put_front(pair, is_bulk ? COP__PACKET_BULK : COP__PACKET_CONTROL, pair->sent++,
              out);
    while (from->count > 0 && length < size && !(is_bulk && is_large(pair))) {
        length += cut(from, out + length, size - length);
        if (is_bulk && from->cut == 0)
            pair->is_plain = false;
    }
    pair->queued_bytes -= length - COP__PACKET_HEADER;
    return length;
}

size_t cop__pair_pack_offer(struct cop__pair *pair, const struct cop__remote *remote,
                            void *region, uint8_t *out)
{
    struct cop__outgoing *from = &pair->out[1];
    struct cop__parcel *parcel = &from->ring[from->first];
    COP_ASSERT(cop__pair_wants_offer(pair));
    put_front(pair, COP__PACKET_OFFER, pair->sent++, out);
    cop__header_encode(&parcel->header, out + COP__PACKET_HEADER);
    struct cop__writer writer =
        cop__writer(out + COP__PACKET_HEADER + COP__HEADER_SIZE, 16);
    cop__put_u64(&writer, remote->address);
    cop__put_u64(&writer, remote->key);
    pair->offers[pair->offered++ % COP__PAIR_OFFERS] =
        (struct cop__offer){parcel->payload, region, parcel_bytes(parcel)};
    pop(from);
    return COP__PACKET_OFFER_BYTES;
}

bool cop__pair_next_released(struct cop__pair *pair, struct cop__offer *out)
{
    if (pair->released == pair->fetched)
        return false;
    *out = pair->offers[pair->released++ % COP__PAIR_OFFERS];
    pair->queued_bytes -= out->bytes;
    return true;
}

void cop__pair_withdraw(struct cop__pair *pair) { pair->fetched = pair->offered; }

bool cop__pair_must_tell(const struct cop__pair *pair)
{
    return pair->taken - pair->told >= COP__PAIR_WINDOW / 2;
}

size_t cop__pair_pack_bare(struct cop__pair *pair, enum cop__packet_kind kind,
                           cop_incarnation incarnation, uint8_t *out)
{
    put_front(pair, kind, 0, out);
    if (kind == COP__PACKET_CREDIT)
        return COP__PACKET_HEADER;
    struct cop__writer writer = cop__writer(out + COP__PACKET_HEADER, 8);
    if (kind == COP__PACKET_FETCHED) {
        cop__put_u32(&writer, pair->given);
        return COP__PACKET_HEADER + 4;
    }
    cop__put_u64(&writer, incarnation);
    return COP__PACKET_HEADER + 8;
}

void cop__pair_drop(struct cop__pair *pair)
{
    for (int i = 0; i < COP__PAIR_STREAMS; i++) {
        struct cop__outgoing *out = &pair->out[i];
        uint32_t kept = out->cut > 0;
        while (out->count > kept) {
            struct cop__parcel *last =
                &out->ring[(out->first + --out->count) & (out->capacity - 1)];
            pair->queued_bytes -= parcel_bytes(last);
            cop_buf_unref(last->payload);
        }
    }
}

/* ---- receiving ------------------------------------------------------------------- */

static void begin_reading(struct cop__pair *pair, const uint8_t *packet, size_t length)
{
    pair->stream = &pair->in[packet[0] != COP__PACKET_CONTROL];
    pair->is_offer = packet[0] == COP__PACKET_OFFER;
    pair->at = packet + COP__PACKET_HEADER;
    pair->end = packet + length;
    pair->taken++;
}

static int put_early(struct cop__pair *pair, uint32_t number, const uint8_t *packet,
                     size_t length)
{
    struct cop__early **at = &pair->early, *early;
    while (*at && (*at)->number - pair->taken < number - pair->taken)
        at = &(*at)->next;
    if (*at && (*at)->number == number)
        return COP_EMALFORMED;
    early = malloc(sizeof *early + length);
    if (!early)
        return COP_ENOMEM;
    early->next = *at;
    early->number = number;
    early->length = length;
    memcpy(early->bytes, packet, length);
    *at = early;
    return 0;
}

static int take_numbered(struct cop__pair *pair, uint32_t number, const uint8_t *packet,
                         size_t length)
{
    if (number - pair->taken >= COP__PAIR_WINDOW || length == COP__PACKET_HEADER)
        return COP_EMALFORMED;
    if (number != pair->taken)
        return put_early(pair, number, packet, length);
    begin_reading(pair, packet, length);
    return 0;
}

/* They are told of in any order: what is older is no news, what was not offered a lie. */
static int take_fetched(struct cop__pair *pair, uint32_t fetched)
{
    uint32_t news = fetched - pair->fetched;
    if (news <= pair->offered - pair->fetched)
        pair->fetched = fetched;
    else if (news < UINT32_MAX / 2)
        return COP_EMALFORMED;
    return 0;
}

int cop__pair_take(struct cop__pair *pair, const uint8_t *packet, size_t length,
                   struct cop__said *out)
{
    struct cop__reader reader = cop__reader(packet, length);
    struct cop__said said = {.kind = cop__get_u32(&reader)};
    uint32_t number = cop__get_u32(&reader), taken = cop__get_u32(&reader);
    int error = 0;
    COP_ASSERT(!pair->stream);
    if (said.kind == COP__PACKET_HELLO || said.kind == COP__PACKET_WELCOME)
        said.incarnation = cop__get_u64(&reader);
    uint32_t fetched = said.kind == COP__PACKET_FETCHED ? cop__get_u32(&reader) : 0;
    bool is_numbered = said.kind == COP__PACKET_CONTROL ||
                       said.kind == COP__PACKET_BULK || said.kind == COP__PACKET_OFFER;
    if (reader.failed || said.kind < COP__PACKET_CONTROL ||
        said.kind > COP__PACKET_OFFER ||
        (!is_numbered && !cop__reader_is_done(&reader)))
        return COP_EMALFORMED;
    /* It may be older than what is known, but not of packets that were never sent. */
    uint32_t news = taken - pair->acknowledged;
    if (news > pair->sent - pair->acknowledged && news < UINT32_MAX / 2)
        return COP_EMALFORMED;
    if (is_numbered)
        error = take_numbered(pair, number, packet, length);
    else if (said.kind == COP__PACKET_FETCHED)
        error = take_fetched(pair, fetched);
    if (error)
        return error;
    if (news <= pair->sent - pair->acknowledged)
        pair->acknowledged = taken;
    *out = said;
    return 0;
}

/* Bytes of the frame's header; whether it is whole. */
static bool read_head(struct cop__pair *pair, struct cop__incoming *in)
{
    size_t there = (size_t)(pair->end - pair->at);
    uint32_t wanted = COP__HEADER_SIZE - in->have;
    uint32_t now = there < wanted ? (uint32_t)there : wanted;
    memcpy(in->head + in->have, pair->at, now);
    pair->at += now;
    in->have += now;
    return in->have == COP__HEADER_SIZE;
}

static int open_frame(struct cop__incoming *in)
{
    /* Of another major version nothing is known, not even the length. */
    in->header = (struct cop_header){.length = UINT32_MAX};
    int error = cop__header_decode(in->head, &in->header);
    in->is_skipped = error == COP_EKIND || error == COP_EVERSION;
    if ((error && !in->is_skipped) || in->header.length > COP__FRAME_MAX)
        return COP_EMALFORMED;
    if (in->header.length > 0 && !in->is_skipped) {
        in->payload = cop_buf_create(in->header.length);
        if (!in->payload)
            return COP_ENOMEM;
    }
    return 0;
}

/* Bytes of its payload; whether the frame is whole. */
static bool read_body(struct cop__pair *pair, struct cop__incoming *in)
{
    size_t there = (size_t)(pair->end - pair->at);
    uint32_t wanted = COP__HEADER_SIZE + in->header.length - in->have;
    uint32_t now = there < wanted ? (uint32_t)there : wanted;
    if (now > 0 && in->payload)
        memcpy(in->payload->data + (in->have - COP__HEADER_SIZE), pair->at, now);
    pair->at += now;
    in->have += now;
    return now == wanted;
}

/* The packet is read: on with the one that comes after it, if it is there. */
static bool read_on(struct cop__pair *pair)
{
    struct cop__early *next = pair->early;
    free(pair->reading);
    pair->reading = NULL;
    pair->stream = NULL;
    if (!next || next->number != pair->taken)
        return false;
    pair->early = next->next;
    pair->reading = next;
    begin_reading(pair, next->bytes, next->length);
    return true;
}

static int stop_reading(struct cop__pair *pair, int error)
{
    free(pair->reading);
    pair->reading = NULL;
    pair->stream = NULL;
    return error;
}

/* An offer is a packet of its own, whole. */
static int read_offer(struct cop__pair *pair)
{
    struct cop__incoming in = {0};
    struct cop__fetch *fetch = &pair->fetches[pair->seen % COP__PAIR_OFFERS];
    if ((size_t)(pair->end - pair->at) != COP__HEADER_SIZE + 16 ||
        pair->seen - pair->given == COP__PAIR_OFFERS)
        return COP_EMALFORMED;
    memcpy(in.head, pair->at, COP__HEADER_SIZE);
    struct cop__reader reader = cop__reader(pair->at + COP__HEADER_SIZE, 16);
    int error = open_frame(&in);
    if (error)
        return error;
    if (in.header.length == 0)
        return COP_EMALFORMED;
    /* One that this version does not know need not be fetched. */
    *fetch = (struct cop__fetch){.header = in.header,
                                 .payload = in.payload,
                                 .is_skipped = in.is_skipped,
                                 .is_done = in.is_skipped};
    fetch->remote.address = cop__get_u64(&reader);
    fetch->remote.key = cop__get_u64(&reader);
    pair->seen++;
    pair->at = pair->end;
    return 0;
}

struct cop__fetch *cop__pair_next_fetch(struct cop__pair *pair)
{
    while (pair->begun != pair->seen) {
        struct cop__fetch *fetch = &pair->fetches[pair->begun % COP__PAIR_OFFERS];
        if (!fetch->is_skipped)
            return fetch;
        pair->begun++;
    }
    return NULL;
}

void cop__pair_on_fetched(struct cop__pair *pair, uint32_t number)
{
    COP_ASSERT(number - pair->given < pair->begun - pair->given);
    pair->fetches[number % COP__PAIR_OFFERS].is_done = true;
}

/* The frame of the first offer, if it was fetched. What is not to be is passed over at once: its
 * sender waits for the answer, and may have nothing more to say until then. */
static bool give_fetched(struct cop__pair *pair, struct cop_frame *out)
{
    while (pair->given != pair->seen) {
        struct cop__fetch *fetch = &pair->fetches[pair->given % COP__PAIR_OFFERS];
        if (!fetch->is_done)
            return false;
        if (pair->begun == pair->given)
            pair->begun++;
        pair->given++;
        *out = (struct cop_frame){fetch->header, fetch->payload};
        fetch->payload = NULL;
        if (!fetch->is_skipped)
            return true;
    }
    return false;
}

int cop__pair_next(struct cop__pair *pair, struct cop_frame *out)
{
    while (pair->stream) {
        struct cop__incoming *in = pair->stream;
        if (pair->at == pair->end) {
            read_on(pair);
            continue;
        }
        if (pair->is_offer) {
            int error = read_offer(pair);
            if (error)
                return stop_reading(pair, error);
            continue;
        }
        if (in->have < COP__HEADER_SIZE) {
            if (!read_head(pair, in))
                continue;
            int error = open_frame(in);
            if (error)
                return stop_reading(pair, error);
        }
        if (!read_body(pair, in))
            continue;
        *out = (struct cop_frame){in->header, in->payload};
        in->payload = NULL;
        in->have = 0;
        if (!in->is_skipped)
            return 1;
    }
    return give_fetched(pair, out);
}
