/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that claim to be a state, of the filter that the first byte names. Whatever check takes
 * must join with its own empty state to itself, differ from itself by nothing that changes
 * it, and have a result; what check does not take must be refused without harm. The second
 * byte says where the rest is cut in two, for joining what may not fit together.
 */
#include "filter/filter.h"
#include "filter/state.h"
#include "fuzz_turn.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static bool is_same(const struct cop_buf *a, const struct cop_buf *b)
{
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

/* A few bytes of a set may be ranges that list 16 MiB of numbers. */
static void try_result(const struct cop_filter *filter, const char *type,
                       const struct cop_buf *state)
{
    bool is_set = strcmp(filter->name, "union") == 0;
    struct cop_buf *result;
    if ((!is_set || is_turn(32)) &&
        cop_filter_result(filter, type, state, &result) == 0)
        cop_buf_unref(result);
}

/* A head without a body is the empty state of most; those that have more in it are skipped. */
static void try_state(const struct cop_filter *filter, struct cop_buf *state)
{
    struct cop__state parts;
    struct cop_span span = {state->data, state->length};
    char type[COP_FILTER_NAME_MAX + 1];
    struct cop_buf *joined, *rest, *empty;
    if (filter->check(span) != 0)
        return;
    demand(cop__state_read(span, &parts) == 0 && parts.type_length < sizeof type);
    memcpy(type, parts.type, parts.type_length);
    type[parts.type_length] = '\0';
    if (cop_filter_diff(filter, state, state, &rest) == 0) {
        demand(filter->check((struct cop_span){rest->data, rest->length}) == 0);
        demand(cop_filter_join(filter, state, rest, &joined) == 0);
        demand(is_same(joined, state));
        cop_buf_unref(joined);
        cop_buf_unref(rest);
    }
    try_result(filter, type, state);
    empty = cop_buf_copy(parts.head.bytes, parts.head.length);
    if (empty && filter->check((struct cop_span){empty->data, empty->length}) == 0) {
        demand(cop_filter_join(filter, empty, state, &joined) == 0);
        demand(is_same(joined, state));
        cop_buf_unref(joined);
    }
    cop_buf_unref(empty);
}

/* A filter down gets what is not its own for parameters, and is in the middle of a way. */
static void try_down(const struct cop_filter *filter, const struct cop_buf *ready,
                     const struct cop_buf *bytes)
{
    struct cop_place place = {.id = 3, .leaf = 3, .level = 1, .depth = 1, .count = 5};
    struct cop_packet packet = {"bytes", 3, 1, {bytes->data, bytes->length}};
    struct cop_buf *out;
    place.index = bytes->length % 7;
    if (cop_filter_down(filter, ready, &place, &packet, &out) == 0)
        cop_buf_unref(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t count = 0;
    while (cop_filter_at(count))
        count++;
    if (size < 2)
        return 0;
    const struct cop_filter *filter = cop_filter_at(data[0] % count);
    size_t cut = 2 + data[1] % (size - 1);
    struct cop_buf *whole = cop_buf_copy(data + 2, size - 2), *joined;
    struct cop_buf *first = cop_buf_copy(data + 2, cut - 2);
    struct cop_buf *second = cop_buf_copy(data + cut, size - cut);
    if (whole && first && second && filter->flags & COP_FILTER_DOWN) {
        try_down(filter, first, second);
    } else if (whole && first && second) {
        try_state(filter, whole);
        if (cop_filter_join(filter, first, second, &joined) == 0)
            cop_buf_unref(joined);
        if (cop_filter_diff(filter, first, second, &joined) == 0)
            cop_buf_unref(joined);
        try_result(filter, "u64", whole);
    }
    cop_buf_unref(whole);
    cop_buf_unref(first);
    cop_buf_unref(second);
    return 0;
}
