/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/ranges.h"

/* ---- reading --------------------------------------------------------------------- */

/* The next range; marks the reader as failed if it does not come after the last one. */
static void read_range(struct cop__ranges *ranges, struct cop__range *out)
{
    uint64_t gap = cop__get_varint(&ranges->reader);
    uint64_t more = cop__get_varint(&ranges->reader);
    uint64_t base = ranges->begun ? ranges->last : 0;
    if ((ranges->begun && gap < 2) || gap > UINT64_MAX - base ||
        more > UINT64_MAX - base - gap)
        ranges->reader.failed = true;
    out->first = base + gap;
    out->last = out->first + more;
    ranges->last = out->last;
    ranges->begun = true;
    ranges->left--;
}

struct cop_span cop__ranges_get(struct cop__reader *reader)
{
    struct cop_span set = {reader->at, 0};
    struct cop__range range;
    struct cop__ranges ranges = {.left = cop__get_varint(reader)};
    ranges.reader = *reader;
    while (ranges.left > 0 && !ranges.reader.failed)
        read_range(&ranges, &range);
    *reader = ranges.reader;
    set.length = (uint32_t)(reader->at - set.bytes);
    return set;
}

struct cop__ranges cop__ranges_begin(struct cop_span set)
{
    struct cop__ranges ranges = {.reader = cop__reader(set.bytes, set.length)};
    ranges.left = cop__get_varint(&ranges.reader);
    return ranges;
}

bool cop__ranges_next(struct cop__ranges *ranges, struct cop__range *out)
{
    if (ranges->left == 0 || ranges->reader.failed)
        return false;
    read_range(ranges, out);
    return !ranges->reader.failed;
}

bool cop__ranges_are_empty(struct cop_span set)
{
    return cop__ranges_begin(set).left == 0;
}

uint64_t cop__ranges_count(struct cop_span set)
{
    struct cop__ranges ranges = cop__ranges_begin(set);
    struct cop__range range;
    uint64_t count = 0;
    while (cop__ranges_next(&ranges, &range))
        count += range.last - range.first + 1;
    return count;
}

/* ---- writing --------------------------------------------------------------------- */

/* Ranges that come in order, those that touch as one. Counts first, then writes. */
struct writer {
    struct cop_filter_out *out; /* NULL: count only */
    struct cop__range held;
    bool holds, begun;
    uint64_t count, last;
};

static void flush(struct writer *writer)
{
    if (!writer->holds)
        return;
    if (writer->out) {
        uint64_t base = writer->begun ? writer->last : 0;
        cop__put_varint(writer->out, writer->held.first - base);
        cop__put_varint(writer->out, writer->held.last - writer->held.first);
    }
    writer->count++;
    writer->last = writer->held.last;
    writer->begun = true;
    writer->holds = false;
}

static void give(struct writer *writer, struct cop__range range)
{
    bool touches = writer->holds && (range.first <= writer->held.last ||
                                     range.first - writer->held.last == 1);
    if (!touches) {
        flush(writer);
        writer->held = range;
        writer->holds = true;
    } else if (range.last > writer->held.last) {
        writer->held.last = range.last;
    }
}

static void unite(struct cop__ranges a, struct cop__ranges b, struct writer *writer)
{
    struct cop__range x, y;
    bool has_x = cop__ranges_next(&a, &x), has_y = cop__ranges_next(&b, &y);
    while (has_x || has_y) {
        bool first = has_x && (!has_y || x.first <= y.first);
        give(writer, first ? x : y);
        if (first)
            has_x = cop__ranges_next(&a, &x);
        else
            has_y = cop__ranges_next(&b, &y);
    }
    flush(writer);
}

static void take_away(struct cop__ranges a, struct cop__ranges b, struct writer *writer)
{
    struct cop__range x, y;
    bool has_x = cop__ranges_next(&a, &x), has_y = cop__ranges_next(&b, &y);
    while (has_x) {
        if (!has_y || x.last < y.first) {
            give(writer, x);
            has_x = cop__ranges_next(&a, &x);
        } else if (y.last < x.first) {
            has_y = cop__ranges_next(&b, &y);
        } else {
            if (x.first < y.first)
                give(writer, (struct cop__range){x.first, y.first - 1});
            if (x.last > y.last)
                x.first = y.last + 1;
            else
                has_x = cop__ranges_next(&a, &x);
        }
    }
    flush(writer);
}

static uint64_t run(enum cop__set_op op, struct cop_span a, struct cop_span b,
                    struct cop_filter_out *out)
{
    struct writer writer = {.out = out};
    (op == COP__SET_UNION ? unite : take_away)(cop__ranges_begin(a),
                                               cop__ranges_begin(b), &writer);
    return writer.count;
}

int cop__ranges_combine(enum cop__set_op op, struct cop_span a, struct cop_span b,
                        struct cop_filter_out *out)
{
    cop__put_varint(out, run(op, a, b, NULL));
    run(op, a, b, out);
    return out->error;
}

bool cop__ranges_include(struct cop_span a, struct cop_span b)
{
    return run(COP__SET_MINUS, b, a, NULL) == 0;
}

/* A heap, in place. */
static void sift(uint64_t *numbers, uint32_t from, uint32_t count)
{
    for (uint32_t child; (child = 2 * from + 1) < count; from = child) {
        if (child + 1 < count && numbers[child] < numbers[child + 1])
            child++;
        if (numbers[from] >= numbers[child])
            return;
        uint64_t swap = numbers[from];
        numbers[from] = numbers[child];
        numbers[child] = swap;
    }
}

static uint64_t write_all(const uint64_t *numbers, uint32_t count,
                          struct cop_filter_out *out)
{
    struct writer writer = {.out = out};
    for (uint32_t i = 0; i < count; i++)
        give(&writer, (struct cop__range){numbers[i], numbers[i]});
    flush(&writer);
    return writer.count;
}

int cop__ranges_make(struct cop_filter_out *out, uint64_t *numbers, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift(numbers, i, count);
    for (uint32_t end = count; end-- > 1;) {
        uint64_t swap = numbers[0];
        numbers[0] = numbers[end];
        numbers[end] = swap;
        sift(numbers, 0, end);
    }
    cop__put_varint(out, write_all(numbers, count, NULL));
    write_all(numbers, count, out);
    return out->error;
}

int cop__ranges_put_one(struct cop_filter_out *out, uint64_t number)
{
    cop__put_varint(out, 1);
    cop__put_varint(out, number);
    return cop__put_varint(out, 0);
}

int cop__ranges_print(struct cop_filter_out *out, struct cop_span set)
{
    struct cop__ranges ranges = cop__ranges_begin(set);
    struct cop__range range;
    for (bool first = true; cop__ranges_next(&ranges, &range); first = false) {
        if (!first)
            cop__put_text(out, ",");
        cop__put_decimal(out, range.first);
        if (range.last != range.first) {
            cop__put_text(out, "-");
            cop__put_decimal(out, range.last);
        }
    }
    return out->error;
}
