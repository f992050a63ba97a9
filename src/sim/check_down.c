/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/check_down.h"

#include "stream/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_plan(struct cop__plan *plan)
{
    cop_buf_unref(plan->definition);
    cop_buf_unref(plan->empty);
    cop_buf_unref(plan->all);
    free(plan->parents);
    free(plan->index);
    free(plan);
}

void cop__plans_free(struct cop__plan *list)
{
    while (list) {
        struct cop__plan *next = list->next;
        free_plan(list);
        list = next;
    }
}

static struct cop__plan *make_plan(const struct cop_view *view,
                                   const struct cop__stream *stream)
{
    struct cop_tree tree = {.shape = *cop_view_shape(view),
                            .n = stream->slots_at_start};
    struct cop__plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->n = tree.n;
    plan->definition =
        cop_buf_copy(stream->definition->data, stream->definition->length);
    plan->empty = cop_buf_copy(stream->empty->data, stream->empty->length);
    plan->parents = calloc(tree.n, sizeof *plan->parents);
    plan->index = calloc(tree.n, sizeof *plan->index);
    if (!plan->definition || !plan->empty || !plan->parents || !plan->index) {
        free_plan(plan);
        return NULL;
    }
    plan->all = cop_buf_ref(plan->empty);
    for (cop_id id = 0; id < tree.n; id++) {
        bool gives = cop__lives_find(&stream->back_ends, id) != 0;
        plan->parents[id] = id == 0 ? 0 : cop_tree_parent(&tree, id);
        plan->index[id] = gives ? plan->back_ends++ : UINT32_MAX;
    }
    return plan;
}

struct cop__plan *cop__plan_of(struct cop__plan **list, const struct cop_node *node,
                               uint64_t number, int *error)
{
    const struct cop__stream *stream = node ? cop__stream_find(node, number) : NULL;
    *error = 0;
    if (!stream)
        return NULL;
    const struct cop_buf *definition = stream->definition;
    for (struct cop__plan *plan = *list; plan; plan = plan->next)
        if (plan->definition->length == definition->length &&
            memcmp(plan->definition->data, definition->data, definition->length) == 0)
            return plan;
    struct cop__plan *plan = make_plan(cop_node_view(node), stream);
    if (!plan) {
        *error = COP_ENOMEM;
        return NULL;
    }
    plan->next = *list;
    *list = plan;
    return plan;
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
