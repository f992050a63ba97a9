/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/records.h"

#include <string.h>

/*
 * classes: every different value, and who sent it, as a folded set of leaves. Records: the
 * value, the set. Result, a line for each: how many leaves, which, the value.
 */

static const struct cop__records kind = {.inputs = "any", .name = true, .set = true};
COP__RECORDS_FUNCTIONS(kind)

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    return *params ? COP_EINVAL : cop__head_put(out, type, NULL, 0);
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    if (cop__state_read(empty, &state))
        return COP_EMALFORMED;
    cop_filter_put(out, state.head.bytes, state.head.length);
    cop__put_span(out, packet->data);
    return cop__ranges_put_one(out, packet->leaf);
}

static void put_value(const struct cop__type *type, struct cop_span value,
                      struct cop_filter_out *out)
{
    bool number = (type->base == COP__TYPE_U64 || type->base == COP__TYPE_I64) &&
                  !type->array && value.length == 8;
    if (!number)
        cop__put_escaped(out, value);
    else if (type->base == COP__TYPE_U64)
        cop__put_decimal(out, cop_filter_get_u64(value.bytes));
    else
        cop__put_signed(out, cop_filter_get_u64(value.bytes));
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record record;
    struct cop__type type;
    if (cop__state_read(bytes, &state) ||
        cop__type_parse(state.type, state.type_length, &type))
        return COP_EMALFORMED;
    while (cop__record_next(&kind, &state.body, &record)) {
        cop__put_decimal(out, cop__ranges_count(record.set));
        cop__put_text(out, "\t");
        cop__ranges_print(out, record.set);
        cop__put_text(out, "\t");
        put_value(&type, record.name, out);
        cop__put_text(out, "\n");
    }
    return state.body.failed ? COP_EMALFORMED : out->error;
}

const struct cop_filter cop__filter_classes = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_IDEMPOTENT | COP_FILTER_CUMULATIVE,
    .name = "classes",
    .about = "every different value, and the leaves that sent it",
    .state = "classes/1",
    .inputs = "any",
    .outputs = "text",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
