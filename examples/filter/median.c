/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter of one's own, as a shared object: the median of small numbers. It needs the header
 * coppice/filter.h and nothing of the library.
 *
 *     make                              (or: make PREFIX=/where/it/is/installed)
 *     coppice filter check ./median.so
 *
 * A median cannot be made of medians. So the state is how often each value from 0 to 255 has
 * come, which adds up; the median is read off at the end. Larger values count as 255.
 */
#include <coppice/filter.h>

#define VALUES 256u

/* The state: 256 counts of 8 bytes. All states have this length, so each has one form. */
static int check(struct cop_span state)
{
    return state.length == VALUES * 8 ? 0 : COP_EMALFORMED;
}

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    (void)type;
    if (*params) /* it has none */
        return COP_EINVAL;
    for (uint32_t i = 0; i < VALUES; i++)
        cop_filter_put_u64(out, 0);
    return out->error;
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    uint64_t value = cop_filter_get_u64(packet->data.bytes);
    if (value >= VALUES)
        value = VALUES - 1;
    for (uint32_t i = 0; i < VALUES; i++)
        cop_filter_put_u64(out, cop_filter_get_u64(empty.bytes + i * 8) + (i == value));
    return out->error;
}

static int join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    if (check(a) || check(b))
        return COP_EMALFORMED;
    for (uint32_t i = 0; i < a.length; i += 8)
        cop_filter_put_u64(out, cop_filter_get_u64(a.bytes + i) +
                                    cop_filter_get_u64(b.bytes + i));
    return out->error;
}

static int diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    if (check(now) || check(old))
        return COP_EMALFORMED;
    for (uint32_t i = 0; i < now.length; i += 8)
        cop_filter_put_u64(out, cop_filter_get_u64(now.bytes + i) -
                                    cop_filter_get_u64(old.bytes + i));
    return out->error;
}

static int result(struct cop_span state, struct cop_filter_out *out)
{
    uint64_t total = 0, seen = 0;
    for (uint32_t i = 0; i < VALUES; i++)
        total += cop_filter_get_u64(state.bytes + i * 8);
    for (uint32_t i = 0; i < VALUES; i++) {
        seen += cop_filter_get_u64(state.bytes + i * 8);
        if (seen > 0 && seen >= total - seen)
            return cop_filter_put_u64(out, i);
    }
    return COP_ENOENT; /* of nothing there is no median */
}

static const struct cop_filter median = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_CUMULATIVE, /* not idempotent: what comes twice counts twice */
    .name = "median",
    .about = "the median of numbers below 256",
    .state = "median/1",
    .inputs = "u64",
    .outputs = "u64",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};

static const struct cop_filter *const filters[] = {&median};

/* The one symbol that is looked for. */
extern const struct cop_filters coppice_filters;
const struct cop_filters coppice_filters = {COP_FILTER_ABI, 1, filters};
