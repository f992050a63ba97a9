/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text gives a sentence or a shape; a shape prints as a text that gives the same shape;
 * and it makes a tree in which parents and children agree.
 */
#include "base/assert.h"

#include <coppice/error.h>
#include <coppice/tree.h>
#include <stdlib.h>
#include <string.h>

static void check_tree(const struct cop_shape *shape, uint32_t n, cop_rank root)
{
    struct cop_tree tree = {.shape = *shape, .n = n, .root = root};
    if (cop_tree_check(&tree) != 0)
        return; /* wants a table */
    struct cop_ranks children = {0};
    uint32_t edges = 0;
    for (cop_rank rank = 0; rank < n; rank++) {
        COP_ASSERT(cop_tree_children(&tree, rank, &children) == 0);
        COP_ASSERT(cop_tree_child_count(&tree, rank) == children.count);
        for (uint32_t i = 0; i < children.count; i++) {
            COP_ASSERT(cop_tree_parent(&tree, children.items[i]) == rank);
            COP_ASSERT(cop_tree_is_below(&tree, children.items[i], rank));
        }
        edges += children.count;
    }
    COP_ASSERT(edges == n - 1);
    COP_ASSERT(cop_tree_parent(&tree, root) == COP_RANK_NONE);
    COP_ASSERT(cop_tree_size(&tree, root) == n);
    cop_ranks_free(&children);
}

static void check_round_trip(const struct cop_shape *shape)
{
    char text[64];
    struct cop_shape again;
    int length = cop_shape_print(shape, text, sizeof text);
    COP_ASSERT(length > 0);
    if (shape->kind == COP_SHAPE_TABLE || (size_t)length >= sizeof text)
        return;
    COP_ASSERT(cop_shape_parse(text, &again, NULL, 0) == 0);
    COP_ASSERT(again.kind == shape->kind && again.k == shape->k &&
               again.inner == shape->inner);
}

/* Members of three to a host, for shapes that want to know. */
static void check_hosts(const struct cop_shape *shape, uint32_t n, cop_rank root)
{
    uint32_t host_of[64];
    struct cop_shape leaders, hosts;
    for (uint32_t i = 0; i < n; i++)
        host_of[i] = i / 3;
    if (cop_shape_make(shape->inner, shape->k, &leaders) != 0)
        return;
    COP_ASSERT(cop_shape_from_hosts(&leaders, host_of, n, &hosts) == 0);
    check_tree(&hosts, n, root);
    cop_shape_unref(&hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 80)
        return 0;
    uint32_t n = 1 + data[0] % 64u;
    cop_rank root = data[1] % n;
    char *text = malloc(size - 1), message[160] = "";
    COP_ASSERT(text != NULL);
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    struct cop_shape shape;
    int error = cop_shape_parse(text, &shape, message, sizeof message);
    if (error) {
        COP_ASSERT(error == COP_EINVAL && message[0] != '\0');
        COP_ASSERT(strchr(message, '\n') == NULL || strchr(text, '\n') != NULL);
    } else {
        check_round_trip(&shape);
        if (shape.kind == COP_SHAPE_HOSTS)
            check_hosts(&shape, n, root);
        else if (shape.kind != COP_SHAPE_TABLE)
            check_tree(&shape, n, root);
        cop_shape_unref(&shape);
    }
    free(text);
    return 0;
}
