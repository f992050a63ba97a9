/* SPDX-License-Identifier: Apache-2.0 */
#include "view/view.h"

#include <stdlib.h>

/* A view is derived by all within one change; of changes few are under way at a time. */
#define KEPT 8u

struct cop_view_pool {
    struct cop_view *kept[KEPT]; /* a ring */
    uint32_t next;
};

struct cop_view_pool *cop_view_pool_create(void)
{
    return calloc(1, sizeof(struct cop_view_pool));
}

void cop_view_pool_free(struct cop_view_pool *pool)
{
    for (uint32_t i = 0; pool && i < KEPT; i++)
        cop_view_unref(pool->kept[i]);
    free(pool);
}

struct cop_view *cop__view_share(struct cop_view_pool *pool, struct cop_view *view)
{
    if (!pool)
        return view;
    for (uint32_t i = 0; i < KEPT; i++) {
        struct cop_view *kept = pool->kept[i];
        if (!kept || !cop__view_equal(kept, view))
            continue;
        cop_view_unref(view);
        return cop_view_ref(kept);
    }
    cop_view_unref(pool->kept[pool->next]);
    pool->kept[pool->next] = cop_view_ref(view);
    pool->next = (pool->next + 1) % KEPT;
    return view;
}
