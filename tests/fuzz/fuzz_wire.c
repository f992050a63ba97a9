/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the payload of any message: decoded or refused, and printed; what is decoded
 * is encoded to the same bytes again, for there is only one way to write a message.
 */
#include "base/assert.h"
#include "wire/header.h"
#include "wire/messages.h"

#include <coppice/error.h>
#include <string.h>

#define RECODE(NAME, name, number, class, most, text)                                  \
    static void recode_##name(const uint8_t *data, size_t size)                        \
    {                                                                                  \
        struct cop__msg_##name message;                                                \
        int error = cop__decode_##name(data, size, &message);                          \
        COP_ASSERT(error == 0 || error == COP_EMALFORMED);                             \
        if (error)                                                                     \
            return;                                                                    \
        struct cop_buf *buf = cop__encode_##name(&message);                            \
        COP_ASSERT(buf != NULL && buf->length == size);                                \
        COP_ASSERT(memcmp(buf->data, data, size) == 0);                                \
        cop_buf_unref(buf);                                                            \
    }
COP__MESSAGES(RECODE)
#undef RECODE

static void try_message(enum cop__kind_index index, const uint8_t *data, size_t size)
{
    char line[512], cut[8];
    uint16_t kind = cop__kind_at(index)->kind;
    switch (index) {
#define CASE(NAME, name, number, class, most, text)                                    \
    case COP__INDEX_##NAME:                                                            \
        recode_##name(data, size);                                                     \
        break;
        COP__MESSAGES(CASE)
#undef CASE
    case COP__KINDS:
        break;
    }
    int length = cop__print_message(kind, data, size, line, sizeof line);
    COP_ASSERT(length > 0 && (size_t)length < sizeof line);
    COP_ASSERT(strlen(line) == (size_t)length);
    COP_ASSERT(cop__print_message(kind, data, size, cut, sizeof cut) == length);
}

/* What is accepted is written as it was, but for what is reserved. */
static void try_header(const uint8_t *data)
{
    struct cop_header header, again;
    uint8_t bytes[COP__HEADER_SIZE];
    int error = cop__header_decode(data, &header);
    if (error != 0 && error != COP_EKIND)
        return;
    COP_ASSERT(header.length <= COP__FRAME_MAX);
    cop__header_encode(&header, bytes);
    COP_ASSERT(cop__header_decode(bytes, &again) == error);
    COP_ASSERT(memcmp(bytes, data, COP__HEADER_SIZE - 4) == 0);
}

static void try_record(const uint8_t *data)
{
    struct cop__record record;
    uint8_t bytes[COP__RECORD_SIZE];
    if (cop__record_decode(data, &record) != 0)
        return;
    COP_ASSERT(record.length <= COP__FRAME_MAX_BODY);
    cop__record_encode(&record, bytes);
    COP_ASSERT(memcmp(bytes, data, COP__RECORD_SIZE) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    try_message((enum cop__kind_index)(data[0] % COP__KINDS), data + 1, size - 1);
    if (size >= COP__HEADER_SIZE)
        try_header(data);
    if (size >= COP__RECORD_SIZE)
        try_record(data);
    return 0;
}
