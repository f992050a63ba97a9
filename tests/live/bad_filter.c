/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object with a filter that is wrong in the way that FAULT says; a sum otherwise. */
#include <coppice/filter.h>

#include <stdlib.h>

#define RIGHT 0
#define ABI 1
#define SYMBOL 2
#define NAME 3
#define MISSING 4
#define CRASH 5
#define ENDLESS 6
#define LAST 7
#define TWICE 8
#define SHORT 9
#define FAILS 10
#define EXITS 11
#define BOTH 12
#define DOWN 13 /* a filter down, which is right */
#define DOWN_SHORT 14
#define DOWN_REMEMBERS 15
#define DOWN_CRASH 16
#define DOWN_AND_UP 17

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    (void)type;
    return *params ? COP_EINVAL : cop_filter_put_u64(out, 0);
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    (void)empty;
    return cop_filter_put(out, packet->data.bytes, 8);
}

static int join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    uint64_t x = cop_filter_get_u64(a.bytes), y = cop_filter_get_u64(b.bytes);
    if (FAULT == CRASH && x == 3)
        abort();
    if (FAULT == EXITS && x == 3)
        exit(0);
    while (FAULT == ENDLESS && x == 3)
        x += cop_filter_get_u64(b.bytes) - y;
    if (FAULT == LAST)
        return cop_filter_put_u64(out, y ? y : x);
    return FAULT == FAILS && x > 9 ? COP_ENOENT : cop_filter_put_u64(out, x + y);
}

static int diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    return cop_filter_put_u64(out, cop_filter_get_u64(now.bytes) -
                                       cop_filter_get_u64(old.bytes));
}

static int check(struct cop_span state)
{
    return state.length == 8 ? 0 : COP_EMALFORMED;
}

static int result(struct cop_span state, struct cop_filter_out *out)
{
    return cop_filter_put(out, state.bytes, FAULT == SHORT ? 4 : 8);
}

#if FAULT >= DOWN
/* Numbers, and how deep they have come. */
static int down(struct cop_span ready, const struct cop_place *place,
                const struct cop_packet *packet, struct cop_filter_out *out)
{
    static uint64_t calls;
    uint64_t more = FAULT == DOWN_REMEMBERS ? ++calls : place->level;
    (void)ready;
    if (FAULT == DOWN_CRASH && place->level == 1)
        abort();
    if (FAULT == DOWN_SHORT)
        return cop_filter_put(out, packet->data.bytes, 7);
    return cop_filter_put_u64(out, cop_filter_get_u64(packet->data.bytes) + more);
}

static const struct cop_filter filter = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_DOWN,
    .name = "deeper",
    .about = "a number, and the levels that it has come down",
    .state = "deeper/1",
    .inputs = "u64",
    .init = init,
    .lift = FAULT == DOWN_AND_UP ? lift : NULL,
    .down = down,
};
#else
static const struct cop_filter filter = {
    .abi = COP_FILTER_ABI,
    .flags = FAULT == TWICE ? COP_FILTER_IDEMPOTENT : COP_FILTER_CUMULATIVE,
    .name = FAULT == NAME ? "sum" : "bad",
    .about = "a sum that may be wrong",
    .state = "bad/1",
    .inputs = "u64",
    .outputs = "u64",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = FAULT == MISSING ? NULL : diff,
    .check = check,
    .result = result,
};

#endif

static const struct cop_filter *const filters[] = {&filter, &filter};

#if FAULT == SYMBOL
#define coppice_filters other_name
#endif
extern const struct cop_filters coppice_filters;
const struct cop_filters coppice_filters = {COP_FILTER_ABI + (FAULT == ABI),
                                            FAULT == BOTH ? 2 : 1, filters};
