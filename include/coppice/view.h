/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_VIEW_H
#define COPPICE_VIEW_H

#include <coppice/buf.h>
#include <coppice/tree.h>
#include <coppice/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A view: who is in the cluster. Immutable and shared by reference; nobody copies it,
 * so a million nodes in one process can hold the same one. The count is atomic. Names and
 * addresses in it are not: a view that came out of a node (coppice/node.h) stays with the
 * node's thread; one that came out of a run (coppice/run.h) may go to any.
 *
 * A view is the one of the static start and what has changed since, so its memory grows
 * with the changes and not with the members. A member keeps its id, and its place in
 * the tree, for as long as the cluster lives: places of those who left stay empty, and
 * the tree is repaired around them, so that a death moves few connections.
 */
struct cop_view;

/* Who proposed it, and when: no two views have the same. Ordered by epoch first. */
struct cop_ballot {
    cop_epoch epoch;
    cop_id root;
    cop_incarnation incarnation;
};

/* Negative, zero or positive, as a comes before, with or after b. */
int cop_ballot_compare(const struct cop_ballot *a, const struct cop_ballot *b);

/*
 * What a member works as: a rank that it took over or brought, or none (a spare). Ranks
 * of work are handed on (a spare takes the rank of one who died); places in the tree
 * are not. They begin as the same numbers.
 */
#define COP_SPARE UINT32_MAX

enum cop_presence {
    COP_PRESENT = 0,
    COP_REMOVED = 1, /* by a view, without a goodbye */
    COP_LEFT = 2,    /* on purpose */
};

struct cop_member {
    cop_id id;
    cop_incarnation incarnation; /* of its present, or last, life */
    uint32_t role;               /* rank of work, or COP_SPARE */
    enum cop_presence presence;
    /* REMOVED: a later life of it, or somebody outside, said that it is gone. LEFT: it was
     * drained, and went without a word. */
    bool certain;
    bool drained;    /* PRESENT, but without a place inside the tree, and not watched */
    cop_epoch since; /* of the view in which this life came, or the last one went */
    /* Borrowed from the view, not ended by 0; length 0: by the rule of the start. */
    const char *name, *address;
    uint32_t name_length, address_length;
};

/* Longest name and address. */
#define COP_NAME_MAX 255u
#define COP_ADDRESS_MAX 255u

/*
 * The view of a static start: members 0 .. n-1, all of them with the same first
 * incarnation, in a tree of `shape`. No message is needed for it. Members that never
 * come up are found dead like any other. COP_EINVAL if n or the shape is not possible.
 */
int cop_view_create_static(uint32_t n, const struct cop_shape *shape,
                           cop_incarnation first, struct cop_view **out);

/* Takes one more reference and returns `view`. */
struct cop_view *cop_view_ref(struct cop_view *view);
/* Gives one back; the last one frees. NULL is ignored. */
void cop_view_unref(struct cop_view *view);

/* Its number: grows from view to view, with gaps. */
cop_epoch cop_view_epoch(const struct cop_view *view);
/* Its epoch, and who proposed it. */
struct cop_ballot cop_view_ballot(const struct cop_view *view);
/* The same for every two views with the same members and roles. */
uint64_t cop_view_digest(const struct cop_view *view);
/* Of its tree; borrowed. */
const struct cop_shape *cop_view_shape(const struct cop_view *view);
/* Who proposes changes: the lowest id that works; a spare only if nobody works, one that is
 * drained only if nobody else is there. */
cop_id cop_view_root(const struct cop_view *view);

/* How many members it has. */
uint32_t cop_view_size(const struct cop_view *view);
/* How many places its tree has: ids are below it. Not all need be taken. */
uint32_t cop_view_slots(const struct cop_view *view);
/* How many places are not what the static start made them. */
uint32_t cop_view_changes(const struct cop_view *view);

/* The next member after `id`; COP_ID_NONE for none. Begin with COP_ID_NONE. */
cop_id cop_view_next(const struct cop_view *view, cop_id id);
/* What is known of an id, also of one who left. COP_ENOENT if it never was. */
int cop_view_member(const struct cop_view *view, cop_id id, struct cop_member *out);
/* Whether this life of this id is in it. */
bool cop_view_has(const struct cop_view *view, cop_id id, cop_incarnation incarnation);
/* The id that a name has or had; COP_ID_NONE. Names of the start are n0, n1, ... */
cop_id cop_view_find(const struct cop_view *view, const char *name, size_t length);
/* The name of an id as text; at most `size` bytes with the 0. As snprintf. */
int cop_view_name(const struct cop_view *view, cop_id id, char *out, size_t size);
/* Who works as `role`; COP_ID_NONE if nobody does just now. */
cop_id cop_view_worker(const struct cop_view *view, uint32_t role);

/* The place of a member in the tree and back. NONE if there is no such member. */
cop_rank cop_view_rank(const struct cop_view *view, cop_id id);
/* Who has, or had, that place. */
cop_id cop_view_id(const struct cop_view *view, cop_rank rank);
/* Of the present or last life at a place; 0 if there never was one. */
cop_incarnation cop_view_incarnation(const struct cop_view *view, cop_rank rank);

/* ---- many nodes in one process ------------------------------------------------------ */

/*
 * Nodes that live in one thread, a simulator's for example, install views that are equal, and
 * need not each have one of its own: a pool that is given to all of them (cop_config.views) keeps the
 * last few, and a node that derived one which is there already drops its own for it.
 */
struct cop_view_pool;
/* NULL: no memory. */
struct cop_view_pool *cop_view_pool_create(void);
/* After the nodes that use it. NULL is ignored. */
void cop_view_pool_free(struct cop_view_pool *pool);

/* ---- what changed ---------------------------------------------------------------- */

enum cop_view_change_kind {
    COP_VIEW_JOINED,    /* `id` came */
    COP_VIEW_LEFT,      /* `id` went: its presence says how */
    COP_VIEW_RETURNED,  /* the same id, another life */
    COP_VIEW_REPLACED,  /* `role` is done by another id now */
    COP_VIEW_DRAINED,   /* `id` has no place inside the tree any more */
    COP_VIEW_UNDRAINED, /* it has one again */
};
struct cop_view_change {
    enum cop_view_change_kind kind;
    cop_id id;     /* JOINED, LEFT, RETURNED */
    uint32_t role; /* REPLACED */
    cop_id old_worker, new_worker;
};
/*
 * Walks through what is different in `now`, by id, then the roles that were handed on. Start
 * with *at = 0; false at the end. The two must be of the same cluster.
 */
bool cop_view_compare(const struct cop_view *old, const struct cop_view *now,
                      uint64_t *at, struct cop_view_change *out);

#ifdef __cplusplus
}
#endif

#endif
