/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_VIEW_H
#define COPPICE_VIEW_H

#include <coppice/tree.h>
#include <coppice/types.h>

/*
 * A view: who is in the cluster. Immutable and shared by reference; nobody copies it,
 * so a million nodes in one process can hold the same one. The count is not atomic.
 */
struct cop_view;

/*
 * The view of a static start: members 0 .. n-1, all of them with the same first
 * incarnation, in a tree of `shape`. No message is needed for it. Members that never
 * come up are found dead like any other. COP_EINVAL if n or the shape is not possible.
 */
int cop_view_create_static(uint32_t n, const struct cop_shape *shape,
                           cop_incarnation first, struct cop_view **out);

struct cop_view *cop_view_ref(struct cop_view *view);
void cop_view_unref(struct cop_view *view);

cop_epoch cop_view_epoch(const struct cop_view *view);
uint32_t cop_view_size(const struct cop_view *view);
const struct cop_shape *cop_view_shape(const struct cop_view *view);
cop_incarnation cop_view_incarnation(const struct cop_view *view, cop_rank rank);

/* Rank of a member and back. NONE if there is no such member. */
cop_rank cop_view_rank(const struct cop_view *view, cop_id id);
cop_id cop_view_id(const struct cop_view *view, cop_rank rank);

#endif
