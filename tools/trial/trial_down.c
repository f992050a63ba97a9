/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/trial_down.h"

#include <coppice/filter.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Numbers of a packet of scatter: as many as there are members. */
static uint64_t value_of(uint64_t number, uint64_t place)
{
    return number * 1000 + place;
}

static bool is(const struct trial_down *down, const char *name)
{
    return strcmp(down->filter, name) == 0;
}

bool trial_down_init(struct trial_down *down, const char *filter,
                     const struct cop_tree *tree)
{
    *down = (struct trial_down){.filter = filter, .tree = tree};
    if (filter == NULL)
        return true;
    while (cop_tree_child_count(tree, down->first) > 0)
        down->first++;
    down->middle = down->first + (tree->n - down->first) / 2;
    if (is(down, "select"))
        snprintf(down->params, sizeof down->params, "to=%" PRIu32 "-%" PRIu32,
                 down->first, down->middle);
    return is(down, "scatter") || is(down, "select") || is(down, "path");
}

void trial_down_open(const struct trial_down *down, struct cop_stream_options *options)
{
    options->down = down->filter;
    options->down_type = down->filter && is(down, "scatter") ? "u64[]" : "text";
    options->down_params = down->params;
}

static void put_u64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

uint32_t trial_down_packet(const struct trial_down *down, uint64_t number,
                           uint8_t out[TRIAL_DOWN_MAX])
{
    if (!is(down, "scatter"))
        return (uint32_t)snprintf((char *)out, TRIAL_DOWN_MAX, "%" PRIu64, number);
    for (uint32_t i = 0; i < down->tree->n; i++)
        put_u64(out + (size_t)i * 8, value_of(number, i));
    return down->tree->n * 8;
}

bool trial_down_is_for(const struct trial_down *down, cop_id id)
{
    return id >= down->first && (!is(down, "select") || id <= down->middle);
}

/* Slices have one number, or more where others have as many, one more or one less. */
static bool is_slice(const struct trial_down *down, cop_id id,
                     const struct cop_stream_event *event)
{
    uint64_t count = down->tree->n - down->first, index = id - down->first;
    uint64_t from = down->tree->n * index / count,
             to = down->tree->n * (index + 1) / count;
    const uint8_t *bytes = event->bytes;
    if (event->length != 8 * (to - from))
        return false;
    for (uint64_t i = from; i < to; i++, bytes += 8)
        if (cop_filter_get_u64(bytes) != value_of(event->wave, i))
            return false;
    return true;
}

/* The number, and with path the ids from the top. */
static bool is_text(const struct trial_down *down, cop_id id,
                    const struct cop_stream_event *event)
{
    char text[TRIAL_DOWN_MAX], *at = text;
    uint32_t depth = cop_tree_level(down->tree, id);
    at += snprintf(at, sizeof text, "%" PRIu64, event->wave);
    for (uint32_t level = 0; is(down, "path") && level <= depth; level++) {
        cop_id place = id;
        while (cop_tree_level(down->tree, place) > level)
            place = cop_tree_parent(down->tree, place);
        at += snprintf(at, (size_t)(text + sizeof text - at), "/%" PRIu32, place);
    }
    return event->length == (size_t)(at - text) &&
           memcmp(event->bytes, text, event->length) == 0;
}

bool trial_down_is_right(const struct trial_down *down, cop_id id,
                         const struct cop_stream_event *event)
{
    return event->status == 0 && trial_down_is_for(down, id) &&
           (is(down, "scatter") ? is_slice : is_text)(down, id, event);
}
