/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/check_down.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cop__plan_make(const struct cop_view *view, uint32_t flags, struct cop__plan *out)
{
    struct cop_tree tree = {.shape = *cop_view_shape(view), .n = cop_view_slots(view)};
    struct cop_tree rooted = tree; /* as it is now, which says who is a leaf */
    rooted.root = cop_view_root(view);
    out->n = tree.n;
    out->parents = calloc(tree.n, sizeof *out->parents);
    out->index = calloc(tree.n, sizeof *out->index);
    if (!out->parents || !out->index)
        return COP_ENOMEM;
    for (cop_id id = 0; id < tree.n; id++) {
        bool gives =
            !(flags & COP_STREAM_LEAVES) || cop_tree_child_count(&rooted, id) == 0;
        out->parents[id] = id == 0 ? 0 : cop_tree_parent(&tree, id);
        out->index[id] = gives ? out->back_ends++ : UINT32_MAX;
    }
    return 0;
}

void cop__plan_free(struct cop__plan *plan)
{
    free(plan->parents);
    free(plan->index);
}

static bool is_told(const struct cop_stream_event *told, const void *bytes,
                    size_t length)
{
    return told->status == 0 && told->length == length &&
           (length == 0 || memcmp(told->bytes, bytes, length) == 0);
}

static bool gives_slice(const struct cop__plan *plan, cop_id id, struct cop_span sent,
                        const struct cop_stream_event *told)
{
    uint8_t mine[64];
    size_t count = 0;
    if (id >= plan->n)
        return false; /* who came later is given none */
    for (uint32_t i = 0; i < sent.length; i++)
        for (uint32_t j = 0; j < plan->back_ends; j++) {
            bool in_slice = i >= (uint64_t)sent.length * j / plan->back_ends &&
                            i < (uint64_t)sent.length * (j + 1) / plan->back_ends;
            if (in_slice && plan->index[id] == j && count < sizeof mine)
                mine[count++] = sent.bytes[i];
        }
    return is_told(told, mine, count);
}

/* From the back-end up, each in front of what there is. */
static bool gives_path(const struct cop__plan *plan, cop_id id, struct cop_span sent,
                       const struct cop_stream_event *told)
{
    size_t room = told->length + 1, length = sent.length;
    uint8_t *text = malloc(room);
    char word[16];
    size_t end = told->length;
    bool good = text && told->length > length;
    for (cop_id at = id; good; at = at < plan->n ? plan->parents[at] : 0) {
        size_t size = (size_t)snprintf(word, sizeof word, "/%u", (unsigned)at);
        good = end >= length + size;
        if (good)
            memcpy(text + (end -= size), word, size);
        if (at == 0)
            break;
    }
    good = good && end == length;
    if (good)
        memcpy(text, sent.bytes, length);
    good = good && is_told(told, text, told->length);
    free(text);
    return good;
}

/* Of "to=1-3+6". */
static bool is_selected(const char *params, cop_id id)
{
    const char *at = *params ? params + strlen("to=") : params;
    while (*at) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (id >= first && id <= last)
            return true;
        at = *end ? end + 1 : end;
    }
    return params[0] == '\0';
}

bool cop__plan_gives(const struct cop__plan *plan, const struct cop_sim_stream *stream,
                     cop_id id, struct cop_span sent,
                     const struct cop_stream_event *told)
{
    if (strcmp(stream->down, "scatter") == 0)
        return gives_slice(plan, id, sent, told);
    if (strcmp(stream->down, "path") == 0)
        return gives_path(plan, id, sent, told);
    if (strcmp(stream->down, "select") == 0 && !is_selected(stream->down_params, id))
        return false;
    return is_told(told, sent.bytes, sent.length);
}
