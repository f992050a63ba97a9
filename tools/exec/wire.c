/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#include "exec/exec.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_SIZE 8u

/* ---- ranges and failures --------------------------------------------------------- */

struct cop_id_range exec_range_at(struct cop__list ranges, uint32_t i)
{
    struct cop__reader reader =
        cop__reader(ranges.data + (size_t)i * RANGE_SIZE, RANGE_SIZE);
    struct cop_id_range range = {.first = cop__get_u32(&reader)};
    range.last = cop__get_u32(&reader);
    return range;
}

void exec_range_put(struct cop__writer *writer, struct cop_id_range range)
{
    cop__put_u32(writer, range.first);
    cop__put_u32(writer, range.last);
}

bool exec_ranges_have(struct cop__list ranges, cop_id id)
{
    for (uint32_t i = 0; i < ranges.count; i++) {
        struct cop_id_range range = exec_range_at(ranges, i);
        if (range.first <= id && id <= range.last)
            return true;
    }
    return false;
}

void exec_failure_put(struct cop__writer *writer, const struct cop_failure *failure)
{
    cop__put_u32(writer, failure->node);
    cop__put_u32(writer, failure->at);
    cop__put_u32(writer, (uint32_t)failure->status);
    cop__put_u8(writer, (uint8_t)failure->phase);
}

struct cop_failure exec_failure_at(struct cop__bytes bytes, uint32_t i)
{
    struct cop__reader reader =
        cop__reader(bytes.data + (size_t)i * EXEC_FAILURE_SIZE, EXEC_FAILURE_SIZE);
    struct cop_failure failure = {.node = cop__get_u32(&reader)};
    failure.at = cop__get_u32(&reader);
    failure.status = (int)cop__get_u32(&reader);
    failure.phase = (enum cop_phase)cop__get_u8(&reader);
    return failure;
}

/* ---- orders ---------------------------------------------------------------------- */

static bool are_words(struct cop__bytes words)
{
    return words.length > 0 && words.data[words.length - 1] == 0;
}

struct cop_buf *exec_order_encode(const struct exec_order *order)
{
    size_t size = 1 + 1 + 8 + 8 + 8 + 4 + 4 + 4 +
                  (size_t)order->ids.count * RANGE_SIZE + 4 + order->user.length + 4 +
                  order->words.length + 4 + order->input.length;
    struct cop_buf *buf = cop_buf_create(size);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u8(&writer, order->kind);
    cop__put_u8(&writer, order->flags);
    cop__put_u64(&writer, order->run);
    cop__put_u64(&writer, order->done);
    cop__put_u64(&writer, order->timeout_ns);
    cop__put_u32(&writer, order->limit);
    cop__put_u32(&writer, order->inline_max);
    cop__put_list(&writer, order->ids, RANGE_SIZE);
    cop__put_bytes(&writer, order->user);
    cop__put_bytes(&writer, order->words);
    cop__put_bytes(&writer, order->input);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int exec_order_decode(struct cop__bytes bytes, struct exec_order *out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct exec_order order = {.kind = cop__get_u8(&reader)};
    order.flags = cop__get_u8(&reader);
    order.run = cop__get_u64(&reader);
    order.done = cop__get_u64(&reader);
    order.timeout_ns = cop__get_u64(&reader);
    order.limit = cop__get_u32(&reader);
    order.inline_max = cop__get_u32(&reader);
    order.ids = cop__get_list(&reader, RANGE_SIZE);
    order.user = cop__get_bytes(&reader);
    order.words = cop__get_bytes(&reader);
    order.input = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || order.kind < EXEC_RUN ||
        order.kind > EXEC_RELEASE || order.timeout_ns > EXEC_TIMEOUT_MAX ||
        order.limit > EXEC_LIMIT_MAX || order.inline_max > EXEC_INLINE_FIXED)
        return COP_EMALFORMED;
    if (order.kind == EXEC_RUN && (!are_words(order.words) || order.limit == 0))
        return COP_EMALFORMED;
    *out = order;
    return 0;
}

char **exec_words(struct cop__bytes words)
{
    size_t count = 0;
    for (uint32_t i = 0; i < words.length; i++)
        count += words.data[i] == 0;
    char **out = malloc((count + 1) * sizeof *out);
    if (out == NULL)
        return NULL;
    char *at = (char *)(uintptr_t)words.data;
    for (size_t i = 0; i < count; i++) {
        out[i] = at;
        at += strlen(at) + 1;
    }
    out[count] = NULL;
    return out;
}

/* ---- records --------------------------------------------------------------------- */

struct cop_buf *exec_record_encode(const struct exec_record *record)
{
    size_t size = 1 + 1 + 4 + 2 * (8 + 4 + 4) + record->text[0].length +
                  record->text[1].length + 4 + record->digest.length;
    struct cop_buf *buf = cop_buf_create(size);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u8(&writer, record->end);
    cop__put_u8(&writer, record->flags);
    cop__put_u32(&writer, record->code);
    for (int which = 0; which < 2; which++) {
        cop__put_u64(&writer, record->total[which]);
        cop__put_u32(&writer, record->kept[which]);
        cop__put_bytes(&writer, record->text[which]);
    }
    cop__put_bytes(&writer, record->digest);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int exec_record_decode(struct cop__bytes bytes, struct exec_record *out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct exec_record record = {.end = cop__get_u8(&reader)};
    record.flags = cop__get_u8(&reader);
    record.code = cop__get_u32(&reader);
    for (int which = 0; which < 2; which++) {
        record.total[which] = cop__get_u64(&reader);
        record.kept[which] = cop__get_u32(&reader);
        record.text[which] = cop__get_bytes(&reader);
    }
    record.digest = cop__get_bytes(&reader);
    bool is_apart = (record.flags & EXEC_APART) != 0;
    if (!cop__reader_is_done(&reader) ||
        record.digest.length != (is_apart ? EXEC_DIGEST : 0))
        return COP_EMALFORMED;
    for (int which = 0; which < 2; which++)
        if (record.text[which].length != (is_apart ? 0 : record.kept[which]) ||
            record.kept[which] > record.total[which] ||
            record.kept[which] > EXEC_LIMIT_MAX)
            return COP_EMALFORMED;
    *out = record;
    return 0;
}

/* ---- notes ----------------------------------------------------------------------- */

struct cop_buf *exec_note_encode(const struct exec_note *note)
{
    size_t size = 1 + 1 + 1 + 8 + 8 + 4 + 4 + 4 +
                  (size_t)note->ranges.count * RANGE_SIZE + 4 + note->bytes.length;
    struct cop_buf *buf = cop_buf_create(size);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u8(&writer, EXEC_LETTER);
    cop__put_u8(&writer, note->kind);
    cop__put_u8(&writer, note->which);
    cop__put_u64(&writer, note->run);
    cop__put_u64(&writer, note->offset);
    cop__put_u32(&writer, note->count);
    cop__put_u32(&writer, note->member);
    cop__put_list(&writer, note->ranges, RANGE_SIZE);
    cop__put_bytes(&writer, note->bytes);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int exec_note_decode(struct cop__bytes bytes, struct exec_note *out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    uint8_t letter = cop__get_u8(&reader);
    struct exec_note note = {.kind = cop__get_u8(&reader)};
    note.which = cop__get_u8(&reader);
    note.run = cop__get_u64(&reader);
    note.offset = cop__get_u64(&reader);
    note.count = cop__get_u32(&reader);
    note.member = cop__get_u32(&reader);
    note.ranges = cop__get_list(&reader, RANGE_SIZE);
    note.bytes = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || letter != EXEC_LETTER || note.which > 1)
        return COP_EMALFORMED;
    if (note.kind == EXEC_FAILURES && note.bytes.length % EXEC_FAILURE_SIZE != 0)
        return COP_EMALFORMED;
    if (note.kind == EXEC_OUT && note.count > note.bytes.length)
        return COP_EMALFORMED;
    *out = note;
    return 0;
}
