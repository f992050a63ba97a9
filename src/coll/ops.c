/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#include "coll/verdict.h"

#include <stdlib.h>
#include <string.h>

/*
 * The operations by which replies are combined. All but the integer ones keep a sorted list of
 * entries, so that combining is merging, and does not depend on the order:
 *
 *   CONCAT     id, length, bytes              by id
 *   COUNT      ranges, length, (first, last)..., bytes   by length, then bytes
 *   HISTOGRAM  bit, count                     by bit
 *   TOP        value, id                      the largest first, then by id
 */
#define SIZE_histogram 9u
#define SIZE_top 12u

static bool is_integer_op(uint8_t op)
{
    return op == COP_OP_SUM || op == COP_OP_MIN || op == COP_OP_MAX;
}

/* ---- integers -------------------------------------------------------------------- */

static uint64_t get_u64_at(const uint8_t *at)
{
    struct cop__reader reader = cop__reader(at, 8);
    return cop__get_u64(&reader);
}

/* Order of signed integers in unsigned ones: no conversion can go wrong. */
static uint64_t ordered(uint64_t value) { return value ^ (UINT64_C(1) << 63); }

static uint64_t combine(uint8_t op, uint64_t a, uint64_t b)
{
    if (op == COP_OP_SUM)
        return a + b;
    bool first = op == COP_OP_MIN ? ordered(a) <= ordered(b) : ordered(a) >= ordered(b);
    return first ? a : b;
}

/* Element by element; where one is shorter the longer one stands. */
static struct cop_buf *fold_integers(uint8_t op, const struct cop__bytes *datas,
                                     uint32_t count)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < count; i++)
        length = datas[i].length > length ? datas[i].length : length;
    struct cop_buf *buf = cop_buf_create(length);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, length);
    for (uint32_t at = 0; at < length; at += 8) {
        bool any = false;
        uint64_t value = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (at >= datas[i].length)
                continue;
            uint64_t next = get_u64_at(datas[i].data + at);
            value = any ? combine(op, value, next) : next;
            any = true;
        }
        cop__put_u64(&writer, value);
    }
    return buf;
}

/* ---- entries --------------------------------------------------------------------- */

struct entry {
    const uint8_t *at;
    uint32_t size;
    uint32_t ranges;         /* COUNT */
    struct cop__bytes bytes; /* CONCAT, COUNT */
    uint64_t key;            /* id; bit; value, the largest first */
    uint32_t second;         /* TOP: id */
};

static void read_count(struct cop__reader *reader, struct entry *out)
{
    out->ranges = cop__get_u32(reader);
    uint32_t length = cop__get_u32(reader);
    uint64_t left = (uint64_t)(reader->end - reader->at);
    if (reader->failed || out->ranges == 0 ||
        (uint64_t)out->ranges * 8 + length > left) {
        reader->failed = true;
        return;
    }
    reader->at += (size_t)out->ranges * 8;
    out->bytes = (struct cop__bytes){reader->at, length};
    reader->at += length;
}

/* The next entry; false at the end, or if there is none (then reader->failed). */
static bool next(uint8_t op, struct cop__reader *reader, struct entry *out)
{
    if (reader->failed || reader->at == reader->end)
        return false;
    *out = (struct entry){.at = reader->at};
    if (op == COP_OP_CONCAT) {
        out->key = cop__get_u32(reader);
        out->bytes = cop__get_bytes(reader);
    } else if (op == COP_OP_COUNT) {
        read_count(reader, out);
    } else if (op == COP_OP_HISTOGRAM) {
        out->key = cop__get_u8(reader);
        cop__get_u64(reader);
        reader->failed |= out->key > 63;
    } else {
        out->key = ~ordered(cop__get_u64(reader));
        out->second = cop__get_u32(reader);
    }
    out->size = (uint32_t)(reader->at - out->at);
    return !reader->failed;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    if (left->ranges) {
        if (left->bytes.length != right->bytes.length)
            return left->bytes.length < right->bytes.length ? -1 : 1;
        return left->bytes.length
                   ? memcmp(left->bytes.data, right->bytes.data, left->bytes.length)
                   : 0;
    }
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->second < right->second ? -1 : left->second > right->second;
}

static struct cop_id_range range_at(const struct entry *entry, uint32_t i)
{
    struct cop__reader reader = cop__reader(entry->at + 8 + (size_t)i * 8, 8);
    struct cop_id_range range;
    range.first = cop__get_u32(&reader);
    range.last = cop__get_u32(&reader);
    return range;
}

static bool check_entry(uint8_t op, const struct entry *entry)
{
    if (op != COP_OP_COUNT)
        return true;
    for (uint32_t i = 0; i < entry->ranges; i++)
        if (range_at(entry, i).first > range_at(entry, i).last)
            return false;
    return true;
}

/* Sorted and without repetition, as everybody writes it: what is not is not of ours. */
bool cop__op_check(uint8_t op, uint32_t argument, struct cop__bytes data)
{
    if (op == COP_OP_STATUS)
        return data.length == 0;
    if (is_integer_op(op))
        return data.length % 8 == 0;
    struct cop__reader reader = cop__reader(data.data, data.length);
    struct entry last = {0}, entry;
    uint32_t count = 0;
    for (; next(op, &reader, &entry); count++) {
        int order = count > 0 ? compare_entries(&last, &entry) : -1;
        /* One member may have given the same number twice. */
        if (order > 0 || (order == 0 && op != COP_OP_TOP) || !check_entry(op, &entry))
            return false;
        last = entry;
    }
    return !reader.failed && (op != COP_OP_TOP || count <= argument);
}

/* ---- merging --------------------------------------------------------------------- */

static int compare_ranges(const void *a, const void *b)
{
    const struct cop_id_range *left = a, *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* One entry for `count` equal values: the union of their ids. */
static int put_value(struct cop__writer *writer, const struct entry *entries,
                     uint32_t count)
{
    uint32_t total = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++)
        total += entries[i].ranges;
    COP_ASSERT(total > 0);
    struct cop_id_range *ranges = malloc(2 * (size_t)total * sizeof *ranges);
    if (!ranges)
        return COP_ENOMEM;
    for (uint32_t i = 0, at = 0; i < count; i++)
        for (uint32_t j = 0; j < entries[i].ranges; j++)
            ranges[at++] = range_at(&entries[i], j);
    cop__sort(ranges, ranges + total, total, sizeof *ranges, compare_ranges);
    for (uint32_t i = 1; i < total; i++) {
        if (ranges[i].first <= ranges[kept].last ||
            ranges[i].first == ranges[kept].last + 1)
            ranges[kept].last =
                ranges[i].last > ranges[kept].last ? ranges[i].last : ranges[kept].last;
        else
            ranges[++kept] = ranges[i];
    }
    cop__put_u32(writer, kept + 1);
    cop__put_u32(writer, entries->bytes.length);
    for (uint32_t i = 0; i <= kept; i++) {
        cop__put_u32(writer, ranges[i].first);
        cop__put_u32(writer, ranges[i].last);
    }
    for (uint32_t i = 0; i < entries->bytes.length; i++)
        cop__put_u8(writer, entries->bytes.data[i]);
    free(ranges);
    return 0;
}

static void put_bit(struct cop__writer *writer, const struct entry *entries,
                    uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += get_u64_at(entries[i].at + 1);
    cop__put_u8(writer, (uint8_t)entries->key);
    cop__put_u64(writer, sum);
}

/* Writes sorted entries, equal ones as one. COP_ENOMEM. */
static int put_entries(uint8_t op, uint32_t argument, const struct entry *entries,
                       uint32_t count, struct cop__writer *writer)
{
    uint32_t written = 0;
    for (uint32_t i = 0, same; i < count; i += same, written++) {
        for (same = 1; i + same < count && op != COP_OP_TOP &&
                       compare_entries(&entries[i], &entries[i + same]) == 0;)
            same++;
        if (op == COP_OP_TOP && written == argument)
            break;
        if (op == COP_OP_COUNT && put_value(writer, entries + i, same))
            return COP_ENOMEM;
        if (op == COP_OP_HISTOGRAM)
            put_bit(writer, entries + i, same);
        if (op == COP_OP_CONCAT || op == COP_OP_TOP)
            for (uint32_t j = 0; j < entries[i].size; j++)
                cop__put_u8(writer, entries[i].at[j]);
    }
    return 0;
}

/* All entries of all, sorted; to be freed. NULL: no memory. */
static struct entry *gather(uint8_t op, const struct cop__bytes *datas, uint32_t count,
                            uint32_t *out)
{
    struct entry entry;
    uint32_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct cop__reader reader = cop__reader(datas[i].data, datas[i].length);
        while (next(op, &reader, &entry))
            total++;
    }
    struct entry *entries = malloc((2 * (size_t)total + 1) * sizeof *entries);
    if (!entries)
        return NULL;
    for (uint32_t i = 0, at = 0; i < count; i++) {
        struct cop__reader reader = cop__reader(datas[i].data, datas[i].length);
        while (next(op, &reader, &entries[at]))
            at++;
    }
    cop__sort(entries, entries + total, total, sizeof *entries, compare_entries);
    *out = total;
    return entries;
}

struct cop_buf *cop__op_fold(uint8_t op, uint32_t argument,
                             const struct cop__bytes *datas, uint32_t count)
{
    if (op == COP_OP_STATUS)
        return cop_buf_create(0);
    if (is_integer_op(op))
        return fold_integers(op, datas, count);
    uint32_t total = 0;
    size_t size = 0;
    struct entry *entries = gather(op, datas, count, &total);
    if (!entries)
        return NULL;
    for (uint32_t i = 0; i < total; i++)
        size += entries[i].size;
    uint8_t *bytes = malloc(size + 1);
    struct cop__writer writer = cop__writer(bytes, bytes ? size : 0);
    struct cop_buf *buf = NULL;
    if (bytes && put_entries(op, argument, entries, total, &writer) == 0)
        buf = cop_buf_copy(bytes, (size_t)(writer.at - bytes));
    free(bytes);
    free(entries);
    return buf;
}

/* ---- one reply ------------------------------------------------------------------- */

static uint8_t highest_bit(uint64_t value)
{
    uint8_t bit = 0;
    while (value >>= 1)
        bit++;
    return bit;
}

/* One entry for each integer; combining puts them in order. */
static struct cop_buf *make_integers(uint8_t op, uint32_t argument, cop_id id,
                                     struct cop__bytes reply)
{
    uint32_t count = reply.length / 8;
    size_t one = op == COP_OP_TOP ? SIZE_top : SIZE_histogram;
    uint8_t *bytes = malloc(count * one + 1);
    if (!bytes)
        return NULL;
    struct cop__writer writer = cop__writer(bytes, count * one);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value = get_u64_at(reply.data + (size_t)i * 8);
        if (op == COP_OP_TOP) {
            cop__put_u64(&writer, value);
            cop__put_u32(&writer, id);
        } else {
            cop__put_u8(&writer, highest_bit(value));
            cop__put_u64(&writer, 1);
        }
    }
    struct cop__bytes made = {bytes, (uint32_t)(count * one)};
    struct cop_buf *buf = cop__op_fold(op, argument, &made, 1);
    free(bytes);
    return buf;
}

static struct cop_buf *make_entry(uint8_t op, cop_id id, struct cop__bytes reply)
{
    size_t size = (op == COP_OP_CONCAT ? 8 : 16) + (size_t)reply.length;
    struct cop_buf *buf = cop_buf_create(size);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    if (op == COP_OP_CONCAT) {
        cop__put_u32(&writer, id);
        cop__put_bytes(&writer, reply);
        return buf;
    }
    cop__put_u32(&writer, 1);
    cop__put_u32(&writer, reply.length);
    cop__put_u32(&writer, id);
    cop__put_u32(&writer, id);
    if (reply.length)
        memcpy(writer.at, reply.data, reply.length);
    return buf;
}

bool cop__op_suits(uint8_t op, struct cop__bytes reply)
{
    bool integers = is_integer_op(op) || op == COP_OP_HISTOGRAM || op == COP_OP_TOP;
    return !integers || reply.length % 8 == 0;
}

bool cop__op_is_plain(uint8_t op, struct cop__bytes reply)
{
    return op == COP_OP_STATUS ? reply.length == 0 : is_integer_op(op);
}

COP__APART int cop__op_make(uint8_t op, uint32_t argument, cop_id id,
                            struct cop__bytes reply, struct cop_buf **out)
{
    if (!cop__op_suits(op, reply))
        return COP_EINVAL;
    if (op == COP_OP_STATUS)
        *out = cop_buf_create(0);
    else if (is_integer_op(op))
        *out = cop_buf_copy(reply.data, reply.length);
    else if (op == COP_OP_HISTOGRAM || op == COP_OP_TOP)
        *out = make_integers(op, argument, id, reply);
    else
        *out = make_entry(op, id, reply);
    return *out ? 0 : COP_ENOMEM;
}

/* ---- reading results ------------------------------------------------------------- */

uint32_t cop_values(const struct cop_bcast_result *result)
{
    return is_integer_op((uint8_t)result->op) ? result->length / 8 : 0;
}

int64_t cop_value(const struct cop_bcast_result *result, uint32_t i)
{
    uint64_t word = get_u64_at(result->bytes + (size_t)i * 8);
    int64_t value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static bool next_of(const struct cop_bcast_result *result, uint32_t *at,
                    struct entry *out)
{
    if (*at >= result->length)
        return false;
    struct cop__reader reader = cop__reader(result->bytes + *at, result->length - *at);
    if (!next((uint8_t)result->op, &reader, out))
        return false;
    *at += out->size;
    return true;
}

bool cop_concat_next(const struct cop_bcast_result *result, uint32_t *at, cop_id *node,
                     const uint8_t **bytes, uint32_t *length)
{
    struct entry entry;
    if (result->op != COP_OP_CONCAT || !next_of(result, at, &entry))
        return false;
    *node = (cop_id)entry.key;
    *bytes = entry.bytes.data;
    *length = entry.bytes.length;
    return true;
}

bool cop_count_next(const struct cop_bcast_result *result, uint32_t *at,
                    const uint8_t **bytes, uint32_t *length, uint32_t *count,
                    uint32_t *range_count)
{
    struct entry entry;
    if (result->op != COP_OP_COUNT || !next_of(result, at, &entry))
        return false;
    *bytes = entry.bytes.data;
    *length = entry.bytes.length;
    *range_count = entry.ranges;
    *count = 0;
    for (uint32_t i = 0; i < entry.ranges; i++) {
        struct cop_id_range range = range_at(&entry, i);
        *count += range.last - range.first + 1;
    }
    return true;
}

struct cop_id_range cop_count_range(const struct cop_bcast_result *result, uint32_t at,
                                    uint32_t i)
{
    struct entry entry = {.at = result->bytes + at};
    return range_at(&entry, i);
}

bool cop_top_next(const struct cop_bcast_result *result, uint32_t *at, int64_t *value,
                  cop_id *node)
{
    struct entry entry;
    if (result->op != COP_OP_TOP || !next_of(result, at, &entry))
        return false;
    uint64_t word = get_u64_at(entry.at);
    memcpy(value, &word, sizeof *value);
    *node = entry.second;
    return true;
}

uint64_t cop_histogram(const struct cop_bcast_result *result, uint32_t bit)
{
    struct entry entry;
    uint32_t at = 0;
    while (result->op == COP_OP_HISTOGRAM && next_of(result, &at, &entry))
        if (entry.key == bit)
            return get_u64_at(entry.at + 1);
    return 0;
}
