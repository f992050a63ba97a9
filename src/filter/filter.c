/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"

#include "filter/state.h"

#include <stdlib.h>
#include <string.h>

static struct cop_span span_of(const struct cop_buf *buf)
{
    return (struct cop_span){buf->data, buf->length};
}

static bool goes_down(const struct cop_filter *filter)
{
    return filter->flags & COP_FILTER_DOWN;
}

/* ---- tables ---------------------------------------------------------------------- */

static bool name_is_good(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > COP_FILTER_NAME_MAX || name[0] < 'a' || name[0] > 'z')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/* Every word is a type (or the only one is "any"), and each input has its output. */
static bool types_are_good(const struct cop_filter *filter)
{
    for (uint32_t i = 0;; i++) {
        struct cop_span in = cop__type_at(filter->inputs, i);
        struct cop_span out = goes_down(filter) ? in : cop__type_at(filter->outputs, i);
        struct cop__type type;
        if (in.length == 0 || out.length == 0)
            return i > 0 && in.length == out.length;
        bool any = in.length == 3 && memcmp(in.bytes, "any", 3) == 0;
        if (!any && cop__type_parse((const char *)in.bytes, in.length, &type))
            return false;
        if (!goes_down(filter) &&
            cop__type_parse((const char *)out.bytes, out.length, &type))
            return false;
    }
}

static bool has_its_functions(const struct cop_filter *filter)
{
    bool goes_up =
        filter->lift || filter->join || filter->diff || filter->check || filter->result;
    if (goes_down(filter))
        return filter->init && filter->down && !goes_up;
    return filter->init && filter->lift && filter->join && filter->diff &&
           filter->check && filter->result;
}

int cop_filter_valid(const struct cop_filter *filter, const char **why)
{
    const char *sink;
    why = why ? why : &sink;
    *why = "it was made for another version of the library";
    if (filter->abi != COP_FILTER_ABI)
        return COP_EVERSION;
    *why = "it has no name, no line about itself, or no name of its states";
    if (!filter->name || !filter->about || !filter->state ||
        !name_is_good(filter->name))
        return COP_EINVAL;
    *why = "it has flags that are not known";
    if (filter->flags & ~COP_FILTER_FLAGS_ALL)
        return COP_EINVAL;
    *why = "its inputs and outputs are not two lists of types, of the same length";
    if (!filter->inputs || (!filter->outputs && !goes_down(filter)) ||
        !types_are_good(filter))
        return COP_EINVAL;
    *why = goes_down(filter) ? "a filter down has init and down, and no others"
                             : "one of its functions is missing";
    if (!has_its_functions(filter))
        return COP_EINVAL;
    *why = "";
    return 0;
}

/* The place of a type in the list of inputs; UINT32_MAX: it does not take that. */
static uint32_t place_of(const struct cop_filter *filter, const char *type)
{
    return cop_type_valid(type)
               ? UINT32_MAX
               : cop__type_place(filter->inputs, type, (uint32_t)strlen(type));
}

static bool takes(const struct cop_filter *filter, const char *type)
{
    return place_of(filter, type) != UINT32_MAX;
}

const char *cop_filter_output(const struct cop_filter *filter, const char *type,
                              char room[COP_FILTER_NAME_MAX + 1])
{
    uint32_t place = place_of(filter, type);
    if (place == UINT32_MAX)
        return NULL;
    struct cop_span word = {(const uint8_t *)type, (uint32_t)strlen(type)};
    if (!goes_down(filter))
        word = cop__type_at(filter->outputs, place);
    if (word.length > COP_FILTER_NAME_MAX)
        return NULL;
    memcpy(room, word.bytes, word.length);
    room[word.length] = '\0';
    return room;
}

/* ---- calls, contained ------------------------------------------------------------ */

/* A code that a filter may return; another one is a broken word too. */
static int judged(int error)
{
    bool known = error == 0 || error == COP_EINVAL || error == COP_EMALFORMED ||
                 error == COP_ETOOBIG || error == COP_ENOMEM || error == COP_ENOENT;
    return known ? error : COP_EBUG;
}

/* Of what went wrong: whether it is the library that has no memory. Its own filters have none of
 * their own. */
static bool is_ours_to_bear(const struct cop_filter *filter,
                            const struct cop__sink *sink, int error)
{
    return sink->is_short || (error == COP_ENOMEM && cop__filter_is_ours(filter));
}

/* Ours have tests in place of the check. */
static int take_state(const struct cop_filter *filter, struct cop__sink *sink,
                      int error, bool *is_short, struct cop_buf **out)
{
    struct cop_buf *buf;
    error = cop__sink_take(sink, judged(error), &buf);
    *is_short = is_ours_to_bear(filter, sink, error);
    if (error)
        return error;
    if (!cop__filter_is_ours(filter) && filter->check)
        error = filter->check(span_of(buf));
    if (error) {
        cop_buf_unref(buf);
        return error == COP_ENOMEM ? error : COP_EBUG;
    }
    *out = buf;
    return 0;
}

static int init(const struct cop_filter *filter, const char *type, const char *params,
                bool *is_short, struct cop_buf **out)
{
    char room[COP_FILTER_NAME_MAX + 1];
    struct cop__sink sink;
    *is_short = false;
    if (cop_filter_output(filter, type, room) == NULL ||
        strlen(params) > COP_FILTER_PARAMS_MAX)
        return COP_EINVAL;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = filter->init(type, params, &sink.out);
    return take_state(filter, &sink, error, is_short, out);
}

int cop__filter_init(const struct cop_filter *filter, const char *type,
                     const char *params, bool *is_short, struct cop_buf **out)
{
    *is_short = false;
    return goes_down(filter) ? COP_EINVAL : init(filter, type, params, is_short, out);
}

int cop_filter_init(const struct cop_filter *filter, const char *type,
                    const char *params, struct cop_buf **out)
{
    bool is_short;
    return cop__filter_init(filter, type, params, &is_short, out);
}

int cop__filter_lift(const struct cop_filter *filter, const struct cop_buf *empty,
                     const struct cop_packet *packet, bool *is_short,
                     struct cop_buf **out)
{
    struct cop__sink sink;
    *is_short = false;
    if (packet->data.length > COP_PACKET_MAX)
        return COP_ETOOBIG;
    if (goes_down(filter) || !takes(filter, packet->type) ||
        cop_type_check(packet->type, packet->data))
        return COP_EINVAL;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = filter->lift(span_of(empty), packet, &sink.out);
    return take_state(filter, &sink, error, is_short, out);
}

int cop_filter_lift(const struct cop_filter *filter, const struct cop_buf *empty,
                    const struct cop_packet *packet, struct cop_buf **out)
{
    bool is_short;
    return cop__filter_lift(filter, empty, packet, &is_short, out);
}

static bool is_same(const struct cop_buf *a, const struct cop_buf *b)
{
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

int cop__filter_join(const struct cop_filter *filter, struct cop_buf *a,
                     struct cop_buf *b, bool *is_short, struct cop_buf **out)
{
    struct cop__sink sink;
    struct cop_buf *joined;
    *is_short = false;
    if (goes_down(filter))
        return COP_EINVAL;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = filter->join(span_of(a), span_of(b), &sink.out);
    error = take_state(filter, &sink, error, is_short, &joined);
    if (error)
        return error;
    struct cop_buf *same = is_same(joined, a) ? a : is_same(joined, b) ? b : NULL;
    if (same) {
        cop_buf_unref(joined);
        joined = cop_buf_ref(same);
    }
    *out = joined;
    return 0;
}

int cop_filter_join(const struct cop_filter *filter, struct cop_buf *a,
                    struct cop_buf *b, struct cop_buf **out)
{
    bool is_short;
    return cop__filter_join(filter, a, b, &is_short, out);
}

bool cop__filter_absorb(const struct cop_filter *filter, struct cop_buf *state,
                        struct cop_span with)
{
    return state->refs == 1 && filter == &cop__filter_sum &&
           cop__sum_absorb(state, with);
}

/* Neighbours first: a large state is copied log(count) times instead of count times. */
static int fold_level(const struct cop_filter *filter, struct cop_buf **states,
                      uint32_t *count)
{
    uint32_t kept = 0;
    int error = 0;
    for (uint32_t i = 0; i < *count; i += 2) {
        struct cop_buf *joined = NULL;
        if (error == 0 && i + 1 < *count)
            error = cop_filter_join(filter, states[i], states[i + 1], &joined);
        else if (error == 0)
            joined = cop_buf_ref(states[i]);
        cop_buf_unref(states[i]);
        if (i + 1 < *count)
            cop_buf_unref(states[i + 1]);
        if (joined)
            states[kept++] = joined;
    }
    *count = kept;
    return error;
}

int cop_filter_fold(const struct cop_filter *filter, struct cop_buf *empty,
                    struct cop_buf *const *states, uint32_t count, struct cop_buf **out)
{
    int error = 0;
    if (count == 0) {
        *out = cop_buf_ref(empty);
        return 0;
    }
    struct cop_buf **kept = malloc(count * sizeof(struct cop_buf *));
    if (!kept)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        kept[i] = cop_buf_ref(states[i]);
    while (error == 0 && count > 1)
        error = fold_level(filter, kept, &count);
    if (error == 0)
        *out = kept[0];
    else
        for (uint32_t i = 0; i < count; i++)
            cop_buf_unref(kept[i]);
    free(kept);
    return error;
}

int cop_filter_diff(const struct cop_filter *filter, const struct cop_buf *now,
                    const struct cop_buf *old, struct cop_buf **out)
{
    struct cop__sink sink;
    bool is_short;
    if (goes_down(filter))
        return COP_EINVAL;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = filter->diff(span_of(now), span_of(old), &sink.out);
    return take_state(filter, &sink, error, &is_short, out);
}

int cop__filter_check(const struct cop_filter *filter, const struct cop_buf *empty,
                      struct cop_span state, bool *is_short)
{
    struct cop__sink sink;
    *is_short = false;
    if (goes_down(filter))
        return COP_EINVAL;
    if (state.length > COP_FILTER_STATE_MAX)
        return COP_ETOOBIG;
    if (filter == &cop__filter_sum && cop__sum_is_like(empty, state))
        return 0;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = filter->check(state);
    if (error)
        error = error == COP_ENOMEM ? error : COP_EMALFORMED;
    else /* only the filter knows where its parameters are; joining compares them */
        error = judged(filter->join(span_of(empty), state, &sink.out));
    *is_short = is_ours_to_bear(filter, &sink, error);
    cop__sink_drop(&sink);
    return *is_short ? COP_ENOMEM : error;
}

int cop_filter_check(const struct cop_filter *filter, const struct cop_buf *empty,
                     struct cop_span state)
{
    bool is_short;
    return cop__filter_check(filter, empty, state, &is_short);
}

int cop_filter_result(const struct cop_filter *filter, const char *type,
                      const struct cop_buf *state, struct cop_buf **out)
{
    char room[COP_FILTER_NAME_MAX + 1];
    struct cop__sink sink;
    struct cop_buf *buf;
    const char *output = cop_filter_output(filter, type, room);
    if (output == NULL || goes_down(filter))
        return COP_EINVAL;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = filter->result(span_of(state), &sink.out);
    error = cop__sink_take(&sink, judged(error), &buf);
    if (error)
        return error;
    if (cop_type_check(output, span_of(buf))) {
        cop_buf_unref(buf);
        return COP_EBUG;
    }
    *out = buf;
    return 0;
}

/* ---- down ------------------------------------------------------------------------ */

int cop__filter_ready(const struct cop_filter *filter, const char *type,
                      const char *params, bool *is_short, struct cop_buf **out)
{
    *is_short = false;
    return goes_down(filter) ? init(filter, type, params, is_short, out) : COP_EINVAL;
}

int cop_filter_ready(const struct cop_filter *filter, const char *type,
                     const char *params, struct cop_buf **out)
{
    bool is_short;
    return cop__filter_ready(filter, type, params, &is_short, out);
}

int cop__filter_down(const struct cop_filter *filter, const struct cop_buf *ready,
                     const struct cop_place *place, const struct cop_packet *packet,
                     bool *is_short, struct cop_buf **out)
{
    struct cop__sink sink;
    struct cop_buf *buf;
    *is_short = false;
    if (packet->data.length > COP_PACKET_MAX)
        return COP_ETOOBIG;
    if (!goes_down(filter) || !takes(filter, packet->type) ||
        cop_type_check(packet->type, packet->data))
        return COP_EINVAL;
    cop__sink_init(&sink, COP_PACKET_MAX);
    int error = filter->down(span_of(ready), place, packet, &sink.out);
    error = cop__sink_take(&sink, judged(error), &buf);
    *is_short = sink.is_short;
    if (error)
        return error;
    if (cop_type_check(packet->type, span_of(buf))) {
        cop_buf_unref(buf);
        return COP_EBUG;
    }
    *out = buf;
    return 0;
}

int cop_filter_down(const struct cop_filter *filter, const struct cop_buf *ready,
                    const struct cop_place *place, const struct cop_packet *packet,
                    struct cop_buf **out)
{
    bool is_short;
    return cop__filter_down(filter, ready, place, packet, &is_short, out);
}
