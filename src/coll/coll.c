/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/coll.h"

#include "coll/state.h"

#include <stdlib.h>

/* The layer: what it is told, its invariants, and the questions that a service may ask. */

static void on_change(struct cop_node *node, const struct cop__change *change)
{
    if (change->kind == COP__CHANGE_RESTATED)
        return;
    cop__groups_lose(node, change->id);
    if (change->kind != COP__CHANGE_ALIVE)
        cop__plain_lose(node, change->id);
}

static void on_view(struct cop_node *node, const struct cop_view *old)
{
    uint64_t at = 0;
    struct cop_view_change change;
    cop__groups_lose(node, COP_ID_NONE);
    while (cop_view_compare(old, node->view, &at, &change))
        if (change.kind == COP_VIEW_LEFT || change.kind == COP_VIEW_RETURNED)
            cop__plain_lose(node, change.id);
}

static void on_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    (void)timer;
    cop__groups_expire(node);
}

static void start(struct cop_node *node)
{
    cop__colls(node)->timer.fire = on_timer;
    cop__timer_init(&cop__colls(node)->timer.timer);
}

static void fini(struct cop_node *node)
{
    struct cop__colls *colls = cop__colls(node);
    for (struct cop__call *call = colls->calls; call; call = call->next) {
        /* Nothing is said any more: only the memory goes. */
        call->over = true;
        call->sweep = NULL;
    }
    cop__calls_enter(node);
    cop__calls_leave(node);
    while (colls->groups)
        cop__group_drop(node, colls->groups);
    for (uint32_t i = 0; i < colls->waiting_count; i++)
        cop_buf_unref(colls->waiting[i].frame.payload);
    cop__group_unref(colls->found);
    free(colls->spare);
    free(colls->head);
    free(colls->waiting);
    free(colls->services);
    free(colls->links);
}

/* ---- for tests and tools --------------------------------------------------------- */

static void digest_call(const struct cop__call *call, struct cop__digest *digest)
{
    cop__digest_word(digest, call->handle);
    cop__digest_word(digest, (uint64_t)call->root << 32 | call->owed);
    cop__digest_word(digest,
                     (uint64_t)call->checking | (uint64_t)call->running << 1 |
                         (uint64_t)call->done << 2 | (uint64_t)call->replied << 3 |
                         (uint64_t)call->forwarded << 4 | (uint64_t)call->silent << 5 |
                         (uint64_t)call->refusers.count << 8);
    cop__digest_word(digest, call->tally.count);
    cop__bulk_digest(call, digest);
    for (uint32_t i = 0; i < call->branch_count; i++)
        cop__digest_word(digest, (uint64_t)call->branches[i].rank << 1 |
                                     call->branches[i].owed);
}

static void digest_state(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__colls *colls = cop__colls(node);
    cop__digest_word(digest, colls->handle);
    cop__digest_word(digest, (uint64_t)colls->group_count << 32 | colls->call_count);
    cop__digest_word(digest,
                     (uint64_t)colls->waiting_count << 32 | colls->service_count);
    for (const struct cop__group *group = colls->groups; group; group = group->next) {
        cop__digest_word(digest, group->number);
        cop__digest_bytes(digest, group->digest, sizeof group->digest);
        cop__digest_word(digest, (uint64_t)group->calls << 2 |
                                     (uint64_t)group->populated << 1 | group->ending);
    }
    for (const struct cop__call *call = colls->calls; call; call = call->next)
        digest_call(call, digest);
}

static const char *check_call(const struct cop_node *node, const struct cop__call *call)
{
    uint32_t owed = 0;
    if (call->over)
        return "coll: a call that is over is kept";
    if (call->checking && call->running)
        return "coll: runs before it was checked";
    if (call->done && !call->running)
        return "coll: done without having run";
    if (call->sweep && cop__sweep_user(call->sweep) != call)
        return "coll: a call and its sweep do not know each other";
    if (call->sweep)
        return cop__bulk_check(node, call);
    for (uint32_t i = 0; i < call->branch_count; i++) {
        if (!call->branches[i].owed)
            continue;
        owed++;
        if (!cop__is_watched(node, call->group->roll->ids[call->branches[i].rank]))
            return "coll: waits for a child without watching it";
    }
    if (owed != call->owed)
        return "coll: miscounts whom it waits for";
    if (!cop__timer_is_running(&call->timer.timer))
        return "coll: kept without a deadline";
    return cop__bulk_check(node, call);
}

static const char *check(const struct cop_node *node)
{
    const struct cop__colls *colls = cop__colls(node);
    uint32_t calls = 0, groups = 0;
    if (colls->busy)
        return "coll: a call did not return";
    for (const struct cop__call *call = colls->calls; call; call = call->next) {
        const char *wrong = check_call(node, call);
        if (wrong)
            return wrong;
        calls++;
    }
    for (const struct cop__group *group = colls->groups; group; group = group->next)
        groups += !group->over;
    if (calls != colls->call_count || groups != colls->group_count)
        return "coll: miscounts its calls or groups";
    return NULL;
}

static size_t group_bytes(const struct cop__group *group)
{
    uint32_t tags = group->tag_ends[group->roll->count - 1];
    return sizeof *group + group->roll->count * 3 * sizeof(uint32_t) +
           tags * sizeof(struct cop_tag);
}

static size_t bytes(const struct cop_node *node)
{
    const struct cop__colls *colls = cop__colls(node);
    size_t sum = colls->service_capacity * sizeof *colls->services +
                 colls->link_capacity * sizeof *colls->links +
                 (colls->waiting ? COP__WAITING_MAX * sizeof *colls->waiting : 0) +
                 (colls->spare ? sizeof *colls->spare : 0) +
                 (colls->head ? sizeof *colls->head : 0);
    for (const struct cop__group *group = colls->groups; group; group = group->next)
        sum += group_bytes(group);
    for (const struct cop__call *call = colls->calls; call; call = call->next)
        sum += sizeof *call + call->branch_count * sizeof *call->branches +
               call->tally.capacity * sizeof *call->tally.items + cop__bulk_bytes(call);
    return sum;
}

const struct cop__layer cop__coll_layer = {
    .name = "coll",
    .size = sizeof(struct cop__colls),
    .start = start,
    .fini = fini,
    .on_change = on_change,
    .on_view = on_view,
    .on_submit = cop__coll_submit,
    .settle = cop__bulks_settle,
    .settles_always = true,
    .digest = digest_state,
    .check = check,
    .bytes = bytes,
};

/* ---- questions of services ------------------------------------------------------- */

struct cop_tree cop__call_tree(const struct cop_node *node,
                               const struct cop__call *call, cop_rank *self)
{
    if (call->sweep) {
        *self = cop__sweep_self(call->sweep);
        return *cop__sweep_tree(call->sweep);
    }
    struct cop_tree tree = {.shape = call->group->shape,
                            .n = call->group->roll->count,
                            .root = cop__roll_rank(call->group->roll, call->root)};
    *self = cop__roll_rank(call->group->roll, node->self);
    return tree;
}

/* The tree of a call, or of one that would be made from here. */
static int find_tree(const struct cop_node *node, uint64_t handle, uint64_t number,
                     struct cop_tree *tree, cop_rank *self,
                     const struct cop__group **group)
{
    const struct cop__call *call = handle ? cop__call_find(node, handle) : NULL;
    *group = call ? call->group : cop__group_find(node, number);
    if (call) {
        *tree = cop__call_tree(node, call, self);
        return 0;
    }
    if (handle || (number != COP_GROUP_ALL && !*group))
        return COP_ENOENT;
    *tree = (struct cop_tree){.shape = *cop_view_shape(node->view),
                              .n = cop_view_slots(node->view),
                              .root = node->rank};
    if (*group) {
        tree->shape = (*group)->shape;
        tree->n = (*group)->roll->count;
        tree->root = cop__roll_rank((*group)->roll, node->self);
    }
    *self = tree->root;
    return 0;
}

int cop_bcast_nchildren(const struct cop_node *node, uint64_t handle, uint64_t group)
{
    struct cop_tree tree;
    cop_rank self;
    const struct cop__group *of;
    int error = find_tree(node, handle, group, &tree, &self, &of);
    return error ? error : (int)cop_tree_child_count(&tree, self);
}

/* The rank of a child; NONE. */
static cop_rank child_at(const struct cop_tree *tree, cop_rank self, uint32_t child)
{
    struct cop_ranks children = {0};
    cop_rank rank = COP_RANK_NONE;
    if (cop_tree_children(tree, self, &children) == 0 && child < children.count)
        rank = children.items[child];
    cop_ranks_free(&children);
    return rank;
}

cop_id cop_child_id(const struct cop_node *node, uint64_t handle, uint64_t group,
                    uint32_t child)
{
    struct cop_tree tree;
    cop_rank self;
    const struct cop__group *of;
    if (find_tree(node, handle, group, &tree, &self, &of))
        return COP_ID_NONE;
    cop_rank rank = child_at(&tree, self, child);
    return rank == COP_RANK_NONE || !of ? rank : of->roll->ids[rank];
}

int cop_child_nodes(const struct cop_node *node, uint64_t handle, uint64_t group,
                    uint32_t child)
{
    struct cop_tree tree;
    cop_rank self;
    const struct cop__group *of;
    int error = find_tree(node, handle, group, &tree, &self, &of);
    if (error)
        return error;
    cop_rank rank = child_at(&tree, self, child);
    return rank == COP_RANK_NONE ? COP_ENOENT : (int)cop_tree_size(&tree, rank);
}

int cop_child_entities(const struct cop_node *node, uint64_t handle, uint64_t group,
                       uint32_t child)
{
    struct cop_tree tree;
    cop_rank self;
    const struct cop__group *of;
    int error = find_tree(node, handle, group, &tree, &self, &of);
    if (error)
        return error;
    cop_rank top = child_at(&tree, self, child);
    if (top == COP_RANK_NONE)
        return COP_ENOENT;
    uint32_t sum = 0, count;
    for (cop_rank rank = 0; of && rank < tree.n; rank++) {
        if (!cop_tree_is_below(&tree, rank, top))
            continue;
        cop__group_tags(of, rank, &count);
        sum += count;
    }
    return (int)sum;
}

cop_time cop_child_patience(const struct cop_node *node, uint64_t handle,
                            uint32_t child)
{
    const struct cop__call *call = cop__call_find(node, handle);
    if (!call || call->sweep || child >= call->branch_count)
        return 0;
    const struct cop__branch *branch = &call->branches[child];
    return cop_tree_depth(&call->tree, branch->rank) *
               cop__trip_estimate(node, call->group->roll->ids[branch->rank]) +
           call->service_ns;
}
