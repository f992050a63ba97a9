/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/state.h"

#include <string.h>

/* The bytes of a call. */

/* At once: byte by byte the two were 640 of the 15,100 instructions that a call costs a leaf. */
static void put_16(struct cop__writer *writer, const uint8_t bytes[16])
{
    if (!cop__writer_has(writer, 16))
        return;
    memcpy(writer->at, bytes, 16);
    writer->at += 16;
}

static void get_16(struct cop__reader *reader, uint8_t out[16])
{
    const uint8_t *at = reader->at;
    memset(out, 0, 16);
    if (!cop__reader_has(reader, 16))
        return;
    memcpy(out, at, 16);
    reader->at += 16;
}

#define FIXED (5 + 4 + 8 + 4 + 4 + 8 + 4 + 8 + 8 + 8 + 16 + 16)

struct cop_buf *cop__head_encode(const struct cop__head *head)
{
    size_t size = FIXED + 4 + (size_t)head->excluded.count * 4 + 4 +
                  head->definition.length + 4 + head->payload.length + 4 +
                  head->portions.length + (head->flags & COP_BCAST_BULK ? 12 : 0);
    struct cop_buf *buf = cop_buf_create(size);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u8(&writer, head->kind);
    cop__put_u8(&writer, head->flags);
    cop__put_u8(&writer, head->origin);
    cop__put_u8(&writer, head->op);
    cop__put_u8(&writer, head->shape);
    cop__put_u32(&writer, head->arity);
    cop__put_u64(&writer, head->service);
    cop__put_u32(&writer, head->version);
    cop__put_u32(&writer, head->argument);
    cop__put_u64(&writer, head->service_ns);
    cop__put_u32(&writer, head->creator);
    cop__put_u64(&writer, head->incarnation);
    cop__put_u64(&writer, head->index);
    cop__put_u64(&writer, head->epoch);
    put_16(&writer, head->oob);
    put_16(&writer, head->digest);
    cop__put_list(&writer, head->excluded, 4);
    cop__put_bytes(&writer, head->definition);
    cop__put_bytes(&writer, head->payload);
    cop__put_bytes(&writer, head->portions);
    if (head->flags & COP_BCAST_BULK) {
        cop__put_u64(&writer, head->bulk_length);
        cop__put_u32(&writer, head->bulk_chunk);
    }
    return buf;
}

static bool is_bulk_possible(const struct cop__head *head)
{
    return !(head->flags & COP_BCAST_BULK) ||
           (head->kind == CALL_RUN && head->bulk_length <= COP_BULK_MAX &&
            head->bulk_chunk > 0 && head->bulk_chunk <= COP_BULK_CHUNK_MAX &&
            head->bulk_length / head->bulk_chunk < INT32_MAX);
}

static bool is_possible(const struct cop__head *head)
{
    return head->kind < CALL_KINDS && head->origin < GROUP_KINDS &&
           head->op < COP_OPS && head->service_ns <= COP__SWEEP_TIMEOUT_MAX &&
           (head->op != COP_OP_TOP ||
            (head->argument > 0 && head->argument <= COP_TOP_MAX)) &&
           (head->kind == CALL_RUN || head->origin == GROUP_REGULAR) &&
           is_bulk_possible(head);
}

/* Its numbers: their length is known, so none of them is looked at for room. */
static void get_fixed(const uint8_t *in, struct cop__head *out)
{
    struct cop__reader reader = cop__reader(in, FIXED);
    out->kind = cop__get_u8(&reader);
    out->flags = cop__get_u8(&reader);
    out->origin = cop__get_u8(&reader);
    out->op = cop__get_u8(&reader);
    out->shape = cop__get_u8(&reader);
    out->arity = cop__get_u32(&reader);
    out->service = cop__get_u64(&reader);
    out->version = cop__get_u32(&reader);
    out->argument = cop__get_u32(&reader);
    out->service_ns = cop__get_u64(&reader);
    out->creator = cop__get_u32(&reader);
    out->incarnation = cop__get_u64(&reader);
    out->index = cop__get_u64(&reader);
    out->epoch = cop__get_u64(&reader);
    get_16(&reader, out->oob);
    get_16(&reader, out->digest);
}

int cop__head_decode(struct cop__bytes bytes, struct cop__head *out)
{
    struct cop__head head;
    if (bytes.length < FIXED)
        return COP_EMALFORMED;
    get_fixed(bytes.data, &head);
    struct cop__reader reader = cop__reader(bytes.data + FIXED, bytes.length - FIXED);
    head.excluded = cop__get_list(&reader, 4);
    head.definition = cop__get_bytes(&reader);
    head.payload = cop__get_bytes(&reader);
    head.portions = cop__get_bytes(&reader);
    bool bulk = (head.flags & COP_BCAST_BULK) != 0;
    head.bulk_length = bulk ? cop__get_u64(&reader) : 0;
    head.bulk_chunk = bulk ? cop__get_u32(&reader) : 0;
    if (!cop__reader_is_done(&reader) || !is_possible(&head))
        return COP_EMALFORMED;
    *out = head;
    return 0;
}

struct cop__bytes cop__head_payload(const struct cop__head *head, cop_id id)
{
    struct cop__reader reader = cop__reader(head->portions.data, head->portions.length);
    while (!reader.failed && reader.at < reader.end) {
        cop_id of = cop__get_u32(&reader);
        struct cop__bytes bytes = cop__get_bytes(&reader);
        if (of == id && !reader.failed)
            return bytes;
    }
    return head->payload;
}
