/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>
#include <coppice/view.h>
#include <stdlib.h>

/*
 * In the view of a static start ids and ranks are the same numbers, so nothing per
 * member is stored. Callers still translate with cop_view_rank and cop_view_id: after
 * the first change they differ.
 */
struct cop_view {
    uint32_t refs;
    uint32_t n;
    cop_epoch epoch;
    cop_incarnation first;
    struct cop_shape shape;
};

int cop_view_create_static(uint32_t n, const struct cop_shape *shape,
                           cop_incarnation first, struct cop_view **out)
{
    struct cop_tree tree = {.shape = *shape, .n = n};
    if (n == 0 || n > COP_MEMBERS_MAX || first == 0 || cop_tree_check(&tree) != 0)
        return COP_EINVAL;
    struct cop_view *view = malloc(sizeof *view);
    if (!view)
        return COP_ENOMEM;
    *view = (struct cop_view){
        .refs = 1, .n = n, .epoch = 1, .first = first, .shape = *shape};
    cop_shape_ref(&view->shape);
    *out = view;
    return 0;
}

struct cop_view *cop_view_ref(struct cop_view *view)
{
    view->refs++;
    return view;
}

void cop_view_unref(struct cop_view *view)
{
    if (!view || --view->refs > 0)
        return;
    cop_shape_unref(&view->shape);
    free(view);
}

cop_epoch cop_view_epoch(const struct cop_view *view) { return view->epoch; }

uint32_t cop_view_size(const struct cop_view *view) { return view->n; }

const struct cop_shape *cop_view_shape(const struct cop_view *view)
{
    return &view->shape;
}

cop_incarnation cop_view_incarnation(const struct cop_view *view, cop_rank rank)
{
    return rank < view->n ? view->first : 0;
}

cop_rank cop_view_rank(const struct cop_view *view, cop_id id)
{
    return id < view->n ? id : COP_RANK_NONE;
}

cop_id cop_view_id(const struct cop_view *view, cop_rank rank)
{
    return rank < view->n ? rank : COP_ID_NONE;
}
