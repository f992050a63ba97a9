/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/verdict.h"

#include "base/cold.h"

#include <stdlib.h>
#include <string.h>

/* ---- sorting --------------------------------------------------------------------- */

void cop__sort(void *items, void *spare, uint32_t count, size_t size,
               int (*compare)(const void *a, const void *b))
{
    uint8_t *from = items, *to = spare;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t low = 0; low < count; low += 2 * width) {
            uint32_t middle = low + width < count ? low + width : count;
            uint32_t high = low + 2 * width < count ? low + 2 * width : count;
            uint32_t a = low, b = middle;
            for (uint32_t at = low; at < high; at++) {
                bool left = a < middle && (b == high || compare(from + a * size,
                                                                from + b * size) <= 0);
                memcpy(to + at * size, from + (left ? a++ : b++) * size, size);
            }
        }
        uint8_t *other = from;
        from = to;
        to = other;
    }
    if (from != items && count > 0)
        memcpy(items, from, count * size);
}

/* ---- failures -------------------------------------------------------------------- */

void cop__tally_fini(struct cop__tally *tally)
{
    free(tally->items);
    *tally = (struct cop__tally){0};
}

int cop__tally_add(struct cop__tally *tally, const struct cop__fault *fault)
{
    if (tally->count == tally->capacity) {
        uint32_t capacity = tally->capacity ? 2 * tally->capacity : 4;
        void *grown = realloc(tally->items, capacity * sizeof *tally->items);
        if (!grown)
            return COP_ENOMEM;
        tally->items = grown;
        tally->capacity = capacity;
    }
    tally->items[tally->count++] = *fault;
    return 0;
}

void cop__tally_lower(struct cop__tally *tally, uint32_t version)
{
    if (version && (!tally->lowest || version < tally->lowest))
        tally->lowest = version;
}

static int compare_faults(const void *a, const void *b)
{
    const struct cop__fault *left = a, *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

static bool continues(const struct cop__fault *a, const struct cop__fault *b)
{
    return a->last + 1 == b->first && a->at == b->at && a->status == b->status &&
           a->phase == b->phase && !a->tree && !b->tree;
}

int cop__tally_settle(struct cop__tally *tally)
{
    if (tally->count < 2)
        return 0;
    struct cop__fault *spare = malloc(tally->count * sizeof *spare);
    if (!spare)
        return COP_ENOMEM;
    cop__sort(tally->items, spare, tally->count, sizeof *spare, compare_faults);
    free(spare);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < tally->count; i++) {
        if (continues(&tally->items[kept - 1], &tally->items[i]))
            tally->items[kept - 1].last = tally->items[i].last;
        else
            tally->items[kept++] = tally->items[i];
    }
    tally->count = kept;
    return 0;
}

void cop__fault_put(struct cop__writer *writer, const struct cop__fault *fault)
{
    cop__put_u32(writer, fault->first);
    cop__put_u32(writer, fault->last);
    cop__put_u32(writer, fault->at);
    cop__put_u32(writer, (uint32_t)fault->status);
    cop__put_u8(writer, fault->phase);
    cop__put_u8(writer, fault->tree);
}

struct cop__fault cop__fault_at(struct cop__list list, uint32_t i)
{
    struct cop__reader reader =
        cop__reader(list.data + (size_t)i * COP__SIZE_fault, COP__SIZE_fault);
    struct cop__fault fault;
    fault.first = cop__get_u32(&reader);
    fault.last = cop__get_u32(&reader);
    fault.at = cop__get_u32(&reader);
    fault.status = (int32_t)cop__get_u32(&reader);
    fault.phase = cop__get_u8(&reader);
    fault.tree = cop__get_u8(&reader);
    return fault;
}

int cop__tally_take(struct cop__tally *tally, const struct cop__verdict *record)
{
    cop__tally_lower(tally, record->lowest);
    for (uint32_t i = 0; i < record->faults.count; i++) {
        struct cop__fault fault = cop__fault_at(record->faults, i);
        if (cop__tally_add(tally, &fault))
            return COP_ENOMEM;
    }
    return 0;
}

/* ---- records --------------------------------------------------------------------- */

struct cop_buf *cop__verdict_encode(uint8_t op, uint32_t argument,
                                    const struct cop__tally *tally,
                                    struct cop__bytes data)
{
    size_t size =
        4 + 1 + 4 + 4 + (size_t)tally->count * COP__SIZE_fault + 4 + data.length;
    struct cop_buf *buf = cop_buf_create(size);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u32(&writer, tally->lowest);
    cop__put_u8(&writer, op);
    cop__put_u32(&writer, argument);
    cop__put_u32(&writer, tally->count);
    for (uint32_t i = 0; i < tally->count; i++)
        cop__fault_put(&writer, &tally->items[i]);
    cop__put_bytes(&writer, data);
    return buf;
}

COP__APART struct cop_buf *cop__verdict_fault(uint8_t op, uint32_t argument,
                                              uint32_t version,
                                              const struct cop__fault *fault)
{
    struct cop__fault one = *fault;
    struct cop__tally tally = {.items = &one, .count = 1, .lowest = version};
    return cop__verdict_encode(op, argument, &tally, (struct cop__bytes){NULL, 0});
}

/* A record without faults: what nearly all of them are. */
#define PLAIN 17u

static bool decode_plain(struct cop__bytes bytes, struct cop__verdict *out)
{
    if (bytes.length < PLAIN)
        return false;
    struct cop__reader reader = cop__reader(bytes.data, PLAIN);
    uint32_t lowest = cop__get_u32(&reader);
    uint8_t op = cop__get_u8(&reader);
    uint32_t argument = cop__get_u32(&reader);
    uint32_t faults = cop__get_u32(&reader);
    uint32_t length = cop__get_u32(&reader);
    if (faults != 0 || length != bytes.length - PLAIN || op >= COP_OPS)
        return false;
    *out = (struct cop__verdict){.lowest = lowest,
                                 .op = op,
                                 .argument = argument,
                                 .data = {bytes.data + PLAIN, length}};
    return true;
}

int cop__verdict_decode(struct cop__bytes bytes, struct cop__verdict *out)
{
    if (decode_plain(bytes, out))
        return 0;
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct cop__verdict record;
    record.lowest = cop__get_u32(&reader);
    record.op = cop__get_u8(&reader);
    record.argument = cop__get_u32(&reader);
    record.faults = cop__get_list(&reader, COP__SIZE_fault);
    record.data = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || record.op >= COP_OPS)
        return COP_EMALFORMED;
    for (uint32_t i = 0; i < record.faults.count; i++) {
        struct cop__fault fault = cop__fault_at(record.faults, i);
        if (fault.first > fault.last || fault.last >= COP_MEMBERS_MAX ||
            fault.phase > COP_PHASE_BULK || fault.status >= 0)
            return COP_EMALFORMED;
    }
    *out = record;
    return 0;
}

bool cop__verdict_accept(struct cop__bytes bytes)
{
    struct cop__verdict record;
    return cop__verdict_decode(bytes, &record) == 0 &&
           cop__op_check(record.op, record.argument, record.data);
}

/* All records are of one call; one of a peer that says otherwise is left out. */
static struct cop_buf *fold(const struct cop__bytes *payloads, uint32_t count,
                            struct cop__bytes *datas, struct cop__tally *tally)
{
    static const struct cop__bytes nothing;
    struct cop__verdict first, record;
    uint32_t used = 0;
    if (cop__verdict_decode(payloads[0], &first))
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (cop__verdict_decode(payloads[i], &record) || record.op != first.op ||
            record.argument != first.argument)
            continue;
        if (cop__tally_take(tally, &record))
            return NULL;
        datas[used++] = record.data;
    }
    if (cop__tally_settle(tally))
        return NULL;
    if (first.op == COP_OP_STATUS)
        return cop__verdict_encode(first.op, first.argument, tally, nothing);
    struct cop_buf *data = cop__op_fold(first.op, first.argument, datas, used);
    if (!data)
        return NULL;
    struct cop_buf *buf = cop__verdict_encode(
        first.op, first.argument, tally, (struct cop__bytes){data->data, data->length});
    cop_buf_unref(data);
    return buf;
}

/* As many as most have children, and one more. */
#define FEW 16u

struct cop_buf *cop__verdict_fold(const struct cop__bytes *payloads, uint32_t count)
{
    struct cop__tally tally = {0};
    struct cop__bytes few[FEW], *datas = few;
    if (count > FEW)
        datas = malloc(count * sizeof *datas);
    struct cop_buf *buf = datas ? fold(payloads, count, datas, &tally) : NULL;
    if (datas != few)
        free(datas);
    cop__tally_fini(&tally);
    return buf;
}
