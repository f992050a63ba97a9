/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bcast.h"

#include <coppice/error.h>
#include <stdlib.h>

static void note_leaf(struct model_bcast *out, uint32_t level, cop_time at)
{
    if (at > out->last_ns || (at == out->last_ns && level > out->last_level)) {
        out->last_ns = at;
        out->last_level = level;
    }
    if (at < out->first_ns)
        out->first_ns = at;
    if (level + 1 == out->levels && at > out->deepest_ns)
        out->deepest_ns = at;
}

/* From the root down: `reached` has whom nobody has looked at yet, in any order. */
static int walk(const struct cop_tree *tree, cop_time o_ns, cop_time l_ns,
                cop_time *times, cop_rank *reached, struct model_bcast *out)
{
    struct cop_ranks children = {0};
    uint32_t count = 1;
    int error = 0;
    times[tree->root] = 0;
    reached[0] = tree->root;
    for (uint32_t i = 0; i < count && !error; i++) {
        cop_rank rank = reached[i];
        error = cop_tree_children(tree, rank, &children);
        if (!error && children.count == 0)
            note_leaf(out, cop_tree_level(tree, rank), times[rank]);
        if (children.count > out->most_children)
            out->most_children = children.count;
        for (uint32_t j = 0; j < children.count && !error; j++) {
            times[children.items[j]] = times[rank] + j * o_ns + l_ns;
            reached[count++] = children.items[j];
        }
    }
    cop_ranks_free(&children);
    return error;
}

int model_bcast(const struct cop_shape *shape, uint32_t n, cop_time o_ns, cop_time l_ns,
                struct model_bcast *out)
{
    struct cop_tree tree = {.shape = *shape, .n = n};
    struct model_bcast got = {.first_ns = COP_TIME_NEVER};
    if (n == 0 || cop_tree_check(&tree) != 0)
        return COP_EINVAL;
    cop_time *times = calloc(n, sizeof *times);
    cop_rank *reached = calloc(n, sizeof *reached);
    got.levels = cop_tree_depth(&tree, 0);
    int error =
        times && reached ? walk(&tree, o_ns, l_ns, times, reached, &got) : COP_ENOMEM;
    free(times);
    free(reached);
    if (!error)
        *out = got;
    return error;
}

/* The sends of all who have it, as a heap of times at which the next one arrives. */
static void sift_down(cop_time *heap, uint32_t count)
{
    for (uint32_t at = 0, next; (next = 2 * at + 1) < count; at = next) {
        if (next + 1 < count && heap[next + 1] < heap[next])
            next++;
        if (heap[at] <= heap[next])
            return;
        cop_time swapped = heap[at];
        heap[at] = heap[next];
        heap[next] = swapped;
    }
}

static void push_up(cop_time *heap, uint32_t count, cop_time time)
{
    uint32_t at = count;
    for (; at > 0 && heap[(at - 1) / 2] > time; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = time;
}

cop_time model_bcast_bound(uint32_t n, cop_time o_ns, cop_time l_ns)
{
    cop_time *heap = malloc((size_t)n * sizeof *heap), last = 0;
    if (heap == NULL)
        return 0;
    heap[0] = l_ns;
    for (uint32_t has = 1; has < n; has++) {
        last = heap[0]; /* somebody has it now, and its sender sends again */
        heap[0] = last + o_ns;
        sift_down(heap, has);
        push_up(heap, has, last + l_ns);
    }
    free(heap);
    return last;
}
