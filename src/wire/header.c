/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/header.h"

#include "wire/messages.h"

#define MAGIC 0x7043u /* "Cp" in memory */

/*
 * A frame says which version is needed to understand it, not which one its sender has: so
 * members of different minor versions understand each other in all that the older one knows.
 * A kind that a later version brings gets a case here (docs/compatibility.md).
 */
static uint8_t since(uint16_t kind)
{
    (void)kind;
    return 0;
}

void cop__header_encode(const struct cop_header *header, uint8_t out[COP__HEADER_SIZE])
{
    struct cop__writer writer = cop__writer(out, COP__HEADER_SIZE);
    cop__put_u16(&writer, MAGIC);
    cop__put_u8(&writer, COP__PROTOCOL_MAJOR);
    cop__put_u8(&writer, since(header->kind));
    cop__put_u16(&writer, header->kind);
    cop__put_u16(&writer, header->flags);
    cop__put_u32(&writer, header->sender);
    cop__put_u32(&writer, header->receiver);
    cop__put_u64(&writer, header->sender_incarnation);
    cop__put_u64(&writer, header->receiver_incarnation);
    cop__put_u64(&writer, header->epoch);
    cop__put_u32(&writer, header->length);
    cop__put_u32(&writer, 0);
}

int cop__header_decode(const uint8_t in[COP__HEADER_SIZE], struct cop_header *out)
{
    struct cop__reader reader = cop__reader(in, COP__HEADER_SIZE);
    struct cop_header header;
    uint16_t magic = cop__get_u16(&reader);
    uint8_t major = cop__get_u8(&reader);
    uint8_t minor = cop__get_u8(&reader);
    if (magic != MAGIC)
        return COP_EMALFORMED;
    if (major != COP__PROTOCOL_MAJOR)
        return COP_EVERSION;
    header.kind = cop__get_u16(&reader);
    header.flags = cop__get_u16(&reader);
    header.sender = cop__get_u32(&reader);
    header.receiver = cop__get_u32(&reader);
    header.sender_incarnation = cop__get_u64(&reader);
    header.receiver_incarnation = cop__get_u64(&reader);
    header.epoch = cop__get_u64(&reader);
    header.length = cop__get_u32(&reader);
    if (header.length > COP__FRAME_MAX)
        return COP_ETOOBIG;
    const struct cop__kind_info *info = cop__kind_info(header.kind);
    if (minor <= COP__PROTOCOL_MINOR && info) {
        if (header.length > info->most)
            return COP_ETOOBIG;
        if (header.length < info->least || header.flags != 0)
            return COP_EMALFORMED;
    }
    *out = header;
    if (minor > COP__PROTOCOL_MINOR)
        return COP_EVERSION;
    return info ? 0 : COP_EKIND;
}

void cop__record_encode(const struct cop__record *record, uint8_t out[COP__RECORD_SIZE])
{
    struct cop__writer writer = cop__writer(out, COP__RECORD_SIZE);
    cop__put_u8(&writer, record->type);
    cop__put_u8(&writer, record->flags);
    cop__put_u16(&writer, 0);
    cop__put_u32(&writer, record->length);
    cop__put_u64(&writer, record->count);
    cop__put_u64(&writer, record->bulk);
}

/* The longest body that a record of this type may have; UINT32_MAX for an unknown
 * type. */
static uint32_t record_limit(uint8_t type)
{
    switch (type) {
    case COP__RECORD_HELLO:
    case COP__RECORD_WELCOME:
    case COP__RECORD_REFUSE:
        return 1024;
    case COP__RECORD_FRAME:
    case COP__RECORD_PIECE:
        return COP__FRAME_MAX_BODY;
    case COP__RECORD_SHOW:
        return COP__SHOW_SIZE;
    case COP__RECORD_THERE:
        return COP__THERE_SIZE;
    case COP__RECORD_ACK:
    case COP__RECORD_BYE:
    case COP__RECORD_SEES:
        return 0;
    default:
        return UINT32_MAX;
    }
}

int cop__record_decode(const uint8_t in[COP__RECORD_SIZE], struct cop__record *out)
{
    struct cop__reader reader = cop__reader(in, COP__RECORD_SIZE);
    struct cop__record record;
    record.type = cop__get_u8(&reader);
    record.flags = cop__get_u8(&reader);
    uint16_t reserved = cop__get_u16(&reader);
    record.length = cop__get_u32(&reader);
    record.count = cop__get_u64(&reader);
    record.bulk = cop__get_u64(&reader);
    uint32_t limit = record_limit(record.type);
    unsigned allowed = COP__RECORD_KEEP;
    if (record.type == COP__RECORD_PIECE)
        allowed |= COP__RECORD_LAST;
    if (limit == UINT32_MAX || reserved != 0 || (record.flags & ~allowed) != 0)
        return COP_EMALFORMED;
    if (record.length > limit)
        return COP_ETOOBIG;
    *out = record;
    return 0;
}
