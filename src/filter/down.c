/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/state.h"

/*
 * Filters down: scatter, select and path. What init writes is a head (filter/state.h): the type
 * of packets, and words of the parameters.
 */

static int pass_on(const struct cop_packet *packet, struct cop_filter_out *out)
{
    return cop_filter_put(out, packet->data.bytes, packet->data.length);
}

static bool is_last(const struct cop_place *place)
{
    return place->level == place->depth;
}

/* ---- scatter --------------------------------------------------------------------- */

static uint32_t size_of_item(const char *type, uint32_t length)
{
    struct cop__type parsed;
    if (cop__type_parse(type, length, &parsed) || parsed.base == COP__TYPE_BYTES)
        return 1;
    return parsed.base == COP__TYPE_I128 ? 16 : 8;
}

/* A slice of a packet of three numbers is not of that type any more. */
static int scatter_init(const char *type, const char *params,
                        struct cop_filter_out *out)
{
    struct cop__type parsed;
    uint32_t length = (uint32_t)strlen(type);
    if (*params || cop__type_parse(type, length, &parsed) || parsed.count != 0)
        return COP_EINVAL;
    uint64_t size = size_of_item(type, length);
    return cop__head_put(out, type, &size, 1);
}

/* Only at the last place, for those below one place need not be neighbours in the order of ids.
 * Slices differ by one item at most, and whoever came later has none. */
static int scatter_down(struct cop_span ready, const struct cop_place *place,
                        const struct cop_packet *packet, struct cop_filter_out *out)
{
    struct cop__state state;
    uint64_t size = 0;
    if (cop__state_read(ready, &state) == 0 && state.word_count == 1)
        size = cop__state_word(&state, 0);
    if (size == 0)
        return COP_EMALFORMED;
    if (!is_last(place))
        return pass_on(packet, out);
    if (place->index >= place->count)
        return COP_ENOENT;
    uint64_t items = packet->data.length / size;
    uint64_t from = items * place->index / place->count;
    uint64_t to = items * (place->index + UINT64_C(1)) / place->count;
    return cop_filter_put(out, packet->data.bytes + from * size,
                          (uint32_t)((to - from) * size));
}

const struct cop_filter cop__filter_scatter = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_DOWN,
    .name = "scatter",
    .about = "down: its slice of an array to each back-end",
    .state = "scatter/1",
    .inputs = "u64[] i64[] f64[] i128[] bytes",
    .init = scatter_init,
    .down = scatter_down,
};

/* ---- select ---------------------------------------------------------------------- */

static bool read_id(struct cop_span *text, uint64_t *out)
{
    uint32_t id = COP_ID_NONE;
    bool good = cop__read_number(text, &id) && id != COP_ID_NONE;
    *out = id;
    return good;
}

/* "to=0-3+7": ids and ranges of them; without it everybody. */
static int select_init(const char *type, const char *params, struct cop_filter_out *out)
{
    uint64_t words[COP__HEAD_WORDS_MAX] = {0, COP_ID_NONE};
    struct cop__param param;
    uint32_t at = 0, count = 0;
    if (*params == '\0')
        return cop__head_put(out, type, words, 2);
    if (cop__param_next(params, &at, &param) || params[at] != '\0' ||
        !cop__param_is(&param, "to"))
        return COP_EINVAL;
    do {
        if (count == COP__HEAD_WORDS_MAX || !read_id(&param.value, &words[count]))
            return COP_EINVAL;
        words[count + 1] = words[count];
        if (cop__read_byte(&param.value, '-') &&
            !read_id(&param.value, &words[count + 1]))
            return COP_EINVAL;
        if (words[count + 1] < words[count])
            return COP_EINVAL;
        count += 2;
    } while (cop__read_byte(&param.value, '+'));
    return param.value.length ? COP_EINVAL : cop__head_put(out, type, words, count);
}

static int select_down(struct cop_span ready, const struct cop_place *place,
                       const struct cop_packet *packet, struct cop_filter_out *out)
{
    struct cop__state state;
    if (cop__state_read(ready, &state))
        return COP_EMALFORMED;
    for (uint32_t i = 0; i + 1 < state.word_count; i += 2)
        if (place->leaf >= cop__state_word(&state, i) &&
            place->leaf <= cop__state_word(&state, i + 1))
            return pass_on(packet, out);
    return COP_ENOENT;
}

const struct cop_filter cop__filter_select = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_DOWN,
    .name = "select",
    .about = "down: only to some back-ends, as to=0-3+7",
    .state = "select/1",
    .inputs = "any",
    .params = "to=0-3+7",
    .init = select_init,
    .down = select_down,
};

/* ---- path ------------------------------------------------------------------------ */

static int path_init(const char *type, const char *params, struct cop_filter_out *out)
{
    return *params ? COP_EINVAL : cop__head_put(out, type, NULL, 0);
}

static int path_down(struct cop_span ready, const struct cop_place *place,
                     const struct cop_packet *packet, struct cop_filter_out *out)
{
    (void)ready;
    pass_on(packet, out);
    cop__put_text(out, "/");
    return cop__put_decimal(out, place->id);
}

const struct cop_filter cop__filter_path = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_DOWN,
    .name = "path",
    .about = "down: with the ids on its way behind it, as /0/1/4",
    .state = "path/1",
    .inputs = "text bytes",
    .init = path_init,
    .down = path_down,
};
