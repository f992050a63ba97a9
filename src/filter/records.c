/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/records.h"

#include <stdlib.h>

/* ---- one record ------------------------------------------------------------------ */

bool cop__record_next(const struct cop__records *kind, struct cop__reader *reader,
                      struct cop__record *out)
{
    struct cop__record record = {0};
    if (reader->failed || reader->at == reader->end)
        return false;
    for (uint32_t i = 0; i < kind->keys; i++)
        record.key[i] = cop__get_varint(reader);
    if (kind->name)
        record.name = cop__get_span(reader);
    for (uint32_t i = 0; i < kind->values; i++)
        record.value[i] = cop__get_varint(reader);
    if (kind->data)
        record.data = cop__get_span(reader);
    if (kind->set)
        record.set = cop__ranges_get(reader);
    if (reader->failed)
        return false;
    *out = record;
    return true;
}

/* All but the set. */
static int put_front(const struct cop__records *kind, struct cop_filter_out *out,
                     const struct cop__record *record)
{
    for (uint32_t i = 0; i < kind->keys; i++)
        cop__put_varint(out, record->key[i]);
    if (kind->name)
        cop__put_span(out, record->name);
    for (uint32_t i = 0; i < kind->values; i++)
        cop__put_varint(out, record->value[i]);
    if (kind->data)
        cop__put_span(out, record->data);
    return out->error;
}

int cop__record_put(const struct cop__records *kind, struct cop_filter_out *out,
                    const struct cop__record *record)
{
    put_front(kind, out, record);
    if (kind->set)
        cop_filter_put(out, record->set.bytes, record->set.length);
    return out->error;
}

static int compare(const struct cop__record *a, const struct cop__record *b)
{
    for (uint32_t i = 0; i < COP__RECORD_NUMBERS; i++)
        if (a->key[i] != b->key[i])
            return a->key[i] < b->key[i] ? -1 : 1;
    return cop__span_compare(a->name, b->name);
}

/* ---- states ---------------------------------------------------------------------- */

static bool head_is_good(const struct cop__records *kind,
                         const struct cop__state *state)
{
    uint32_t words = kind->words == COP__WORDS_ANY ? state->word_count : kind->words;
    return cop__state_is(state, kind->inputs, words) &&
           (!kind->head_is_good || kind->head_is_good(state));
}

/* The record with the largest key; false if there is none. */
static bool find_last(const struct cop__records *kind, struct cop__reader reader,
                      struct cop__record *out)
{
    bool any = false;
    while (cop__record_next(kind, &reader, out))
        any = true;
    return any;
}

static bool is_kept(const struct cop__records *kind, const struct cop__state *state,
                    const struct cop__record *record, uint64_t before,
                    const struct cop__record *last)
{
    return !kind->keep || kind->keep(state, record, before, last);
}

int cop__records_check(const struct cop__records *kind, struct cop_span bytes)
{
    struct cop__state state;
    struct cop__record record, before = {0}, last = {0};
    uint64_t count = 0;
    if (cop__state_read(bytes, &state) || !head_is_good(kind, &state))
        return COP_EMALFORMED;
    if (kind->keep)
        find_last(kind, state.body, &last);
    for (; cop__record_next(kind, &state.body, &record); count++) {
        if (count > 0 && compare(&before, &record) >= 0)
            return COP_EMALFORMED;
        if (kind->set && cop__ranges_are_empty(record.set))
            return COP_EMALFORMED;
        if ((kind->is_good && !kind->is_good(&state, &record)) ||
            !is_kept(kind, &state, &record, count, &last))
            return COP_EMALFORMED;
        before = record;
    }
    return state.body.failed ? COP_EMALFORMED : 0;
}

/* ---- two states ------------------------------------------------------------------ */

struct merge {
    const struct cop__records *kind;
    struct cop__state a, b;
    struct cop__record x, y;
    bool has_x, has_y;
    struct cop__record last; /* the largest key of both */
    uint64_t kept;
    struct cop_filter_out *out;
};

static void advance(struct merge *merge, bool x, bool y)
{
    if (x)
        merge->has_x = cop__record_next(merge->kind, &merge->a.body, &merge->x);
    if (y)
        merge->has_y = cop__record_next(merge->kind, &merge->b.body, &merge->y);
}

static int merge_begin(struct merge *merge, struct cop_span a, struct cop_span b)
{
    struct cop__record last;
    int error = cop__state_read_pair(a, b, &merge->a, &merge->b);
    if (error)
        return error;
    if (!head_is_good(merge->kind, &merge->a))
        return COP_EMALFORMED;
    if (merge->kind->keep) {
        find_last(merge->kind, merge->a.body, &merge->last);
        if (find_last(merge->kind, merge->b.body, &last) &&
            compare(&last, &merge->last) > 0)
            merge->last = last;
    }
    cop_filter_put(merge->out, merge->a.head.bytes, merge->a.head.length);
    advance(merge, true, true);
    return 0;
}

static int merge_end(const struct merge *merge)
{
    if (merge->a.body.failed || merge->b.body.failed)
        return COP_EMALFORMED;
    return merge->out->error;
}

static bool keep(struct merge *merge, const struct cop__record *record)
{
    if (!is_kept(merge->kind, &merge->a, record, merge->kept, &merge->last))
        return false;
    merge->kept++;
    return true;
}

static void join_two(struct merge *merge)
{
    struct cop__record both = merge->x;
    if (merge->kind->join)
        merge->kind->join(&both, &merge->y);
    put_front(merge->kind, merge->out, &both);
    if (merge->kind->set)
        cop__ranges_combine(COP__SET_UNION, merge->x.set, merge->y.set, merge->out);
}

/* -1: x is next, 1: y is, 0: both are. */
static int whose_turn(const struct merge *merge)
{
    if (!merge->has_x || !merge->has_y)
        return merge->has_x ? -1 : 1;
    return compare(&merge->x, &merge->y);
}

int cop__records_join(const struct cop__records *kind, struct cop_span a,
                      struct cop_span b, struct cop_filter_out *out)
{
    struct merge merge = {.kind = kind, .out = out};
    int error = merge_begin(&merge, a, b);
    if (error)
        return error;
    while (out->error == 0 && (merge.has_x || merge.has_y)) {
        int turn = whose_turn(&merge);
        const struct cop__record *next = turn <= 0 ? &merge.x : &merge.y;
        if (!keep(&merge, next)) {
            /* left out */
        } else if (turn == 0) {
            join_two(&merge);
        } else {
            cop__record_put(kind, out, next);
        }
        advance(&merge, turn <= 0, turn >= 0);
    }
    return merge_end(&merge);
}

static void diff_two(struct merge *merge)
{
    const struct cop__records *kind = merge->kind;
    struct cop__record rest = merge->x;
    bool any = kind->diff && kind->diff(&rest, &merge->y);
    bool more = kind->set && !cop__ranges_include(merge->y.set, merge->x.set);
    if (!any && !more)
        return;
    put_front(kind, merge->out, &rest);
    if (kind->set)
        cop__ranges_combine(COP__SET_MINUS, merge->x.set, merge->y.set, merge->out);
}

int cop__records_diff(const struct cop__records *kind, struct cop_span now,
                      struct cop_span old, struct cop_filter_out *out)
{
    struct merge merge = {.kind = kind, .out = out};
    int error = merge_begin(&merge, now, old);
    if (error)
        return error;
    while (out->error == 0 && merge.has_x) {
        int turn = whose_turn(&merge);
        if (turn == 0)
            diff_two(&merge);
        else if (turn < 0)
            cop__record_put(kind, out, &merge.x);
        advance(&merge, turn <= 0, turn >= 0);
    }
    return merge_end(&merge);
}

/* ---- from nothing ---------------------------------------------------------------- */

/* A heap, in place: a packet has many values, and the core has no qsort. */
static void sift(struct cop__record *records, uint32_t from, uint32_t count)
{
    for (uint32_t child; (child = 2 * from + 1) < count; from = child) {
        if (child + 1 < count && compare(&records[child], &records[child + 1]) < 0)
            child++;
        if (compare(&records[from], &records[child]) >= 0)
            return;
        struct cop__record swap = records[from];
        records[from] = records[child];
        records[child] = swap;
    }
}

static void sort(struct cop__record *records, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift(records, i, count);
    for (uint32_t end = count; end-- > 1;) {
        struct cop__record swap = records[0];
        records[0] = records[end];
        records[end] = swap;
        sift(records, 0, end);
    }
}

int cop__records_make(const struct cop__records *kind, const struct cop__state *empty,
                      struct cop__record *records, uint32_t count,
                      struct cop_filter_out *out)
{
    uint32_t different = 0;
    uint64_t kept = 0;
    if (!head_is_good(kind, empty))
        return COP_EMALFORMED;
    sort(records, count);
    for (uint32_t i = 0; i < count; i++) {
        bool same = different > 0 && compare(&records[different - 1], &records[i]) == 0;
        if (same && kind->join)
            kind->join(&records[different - 1], &records[i]);
        if (!same)
            records[different++] = records[i];
    }
    cop_filter_put(out, empty->head.bytes, empty->head.length);
    for (uint32_t i = 0; i < different && out->error == 0; i++) {
        if (!is_kept(kind, empty, &records[i], kept, &records[different - 1]))
            continue;
        kept++;
        cop__record_put(kind, out, &records[i]);
    }
    return out->error;
}
