/* SPDX-License-Identifier: Apache-2.0 */
/* Any text gives a sentence with a line number, or a tree with a name for everyone in it. */
#include "base/assert.h"

#include <coppice/error.h>
#include <coppice/tree.h>
#include <stdlib.h>
#include <string.h>

static void check_tree(const struct cop_shape *shape, uint32_t n)
{
    struct cop_tree tree = {.shape = *shape, .n = n};
    struct cop_ranks children = {0};
    uint32_t edges = 0;
    COP_ASSERT(cop_tree_check(&tree) == 0);
    COP_ASSERT(cop_tree_parent(&tree, 0) == COP_RANK_NONE);
    COP_ASSERT(cop_tree_size(&tree, 0) == n);
    for (cop_rank rank = 0; rank < n; rank++) {
        const char *label = cop_shape_label(shape, rank);
        COP_ASSERT(label != NULL && label[0] != '\0');
        COP_ASSERT(cop_tree_children(&tree, rank, &children) == 0);
        for (uint32_t i = 0; i < children.count; i++) {
            COP_ASSERT(cop_tree_parent(&tree, children.items[i]) == rank);
            COP_ASSERT(children.items[i] > rank); /* level order */
        }
        edges += children.count;
    }
    COP_ASSERT(edges == n - 1);
    COP_ASSERT(cop_shape_label(shape, n) == NULL);
    cop_ranks_free(&children);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cop_shape shape;
    uint32_t n = 0;
    char message[160] = "";
    if (size > 2048)
        return 0;
    int error = cop_shape_from_topology((const char *)data, size, &shape, &n, message,
                                        sizeof message);
    if (error) {
        COP_ASSERT(error == COP_EINVAL && message[0] != '\0');
        return 0;
    }
    COP_ASSERT(n >= 1 && n <= size);
    check_tree(&shape, n);
    cop_shape_unref(&shape);
    return 0;
}
