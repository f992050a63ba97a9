/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include "view/view.h"

#include <stdlib.h>

/*
 * Who is in a group. Members are kept as spans of ids that follow each other in lives of the
 * same number: the group of a view at the start is one span, and each change of the view adds
 * two at the most. So a group costs by what has changed, as views do, and a million nodes in
 * one process can have one each.
 */

/* The last span that begins at or before: there is one for every member. */
static const struct cop__stretch *span_of_rank(const struct cop__agree_group *group,
                                               cop_rank rank)
{
    uint32_t low = 0, high = group->span_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (group->spans[middle].rank <= rank)
            low = middle;
        else
            high = middle;
    }
    return &group->spans[low];
}

struct cop_life cop__agree_group_life(const struct cop__agree_group *group,
                                      cop_rank rank)
{
    const struct cop__stretch *span = span_of_rank(group, rank);
    return (struct cop_life){span->id + (rank - span->rank), span->incarnation};
}

const struct cop_buf *cop__agree_group_ids(const struct cop__agree_group *group,
                                           struct cop__failed *failed)
{
    if (failed->ids)
        return failed->ids;
    size_t size = 4 * (size_t)failed->count;
    failed->ids = cop_buf_create(size);
    if (!failed->ids)
        return NULL;
    struct cop__writer writer = cop__writer(failed->ids->data, size);
    for (uint32_t i = 0; i < failed->count; i++)
        cop__put_u32(&writer, cop__agree_group_life(group, failed->ranks[i]).id);
    return failed->ids;
}

static cop_rank end_of(const struct cop__agree_group *group,
                       const struct cop__stretch *span)
{
    return span == &group->spans[group->span_count - 1] ? group->count : span[1].rank;
}

cop_rank cop__agree_group_rank_of(const struct cop__agree_group *group, cop_id id)
{
    uint32_t low = 0, high = group->span_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (group->spans[middle].id <= id)
            low = middle;
        else
            high = middle;
    }
    const struct cop__stretch *span = &group->spans[low];
    return id >= span->id && id - span->id < end_of(group, span) - span->rank
               ? span->rank + (id - span->id)
               : COP_RANK_NONE;
}

cop_rank cop__agree_group_rank(const struct cop__agree_group *group, cop_id id,
                               cop_incarnation incarnation)
{
    cop_rank rank = cop__agree_group_rank_of(group, id);
    return rank != COP_RANK_NONE &&
                   span_of_rank(group, rank)->incarnation == incarnation
               ? rank
               : COP_RANK_NONE;
}

/* ---- making ---------------------------------------------------------------------- */

static int add_span(struct cop__agree_group *group, const struct cop_life *life)
{
    if ((group->span_count & (group->span_count - 1)) == 0) {
        size_t room = group->span_count ? 2 * (size_t)group->span_count : 1;
        void *larger = realloc(group->spans, room * sizeof *group->spans);
        if (!larger)
            return COP_ENOMEM;
        group->spans = larger;
    }
    group->spans[group->span_count++] =
        (struct cop__stretch){group->count, life->id, life->incarnation};
    return 0;
}

/* The next member; COP_EINVAL if it does not come after the last one. */
static int add_member(struct cop__agree_group *group, const struct cop_life *life)
{
    int error = 0;
    if (group->count > 0) {
        struct cop_life last = cop__agree_group_life(group, group->count - 1);
        if (life->id <= last.id)
            return COP_EINVAL;
        if (life->id != last.id + 1 || life->incarnation != last.incarnation)
            error = add_span(group, life);
    } else {
        error = add_span(group, life);
    }
    if (!error)
        group->count++;
    return error;
}

/* A life that the view has, or had. */
static bool is_known(const struct cop_view *view, const struct cop_life *life)
{
    struct cop_member member;
    return cop_view_member(view, life->id, &member) == 0 &&
           life->incarnation <= member.incarnation;
}

static int read_list(const struct cop_view *view, const struct cop_agree_group *options,
                     struct cop__agree_group *group)
{
    int error = 0;
    for (uint32_t i = 0; i < options->count && !error; i++)
        error = is_known(view, &options->members[i])
                    ? add_member(group, &options->members[i])
                    : COP_EINVAL;
    return error;
}

/* Before anything has changed all are of one kind, and need not be looked at. */
static int read_view(const struct cop_view *view, struct cop__agree_group *group)
{
    int error = 0;
    cop_id id = cop_view_next(view, COP_ID_NONE);
    if (cop_view_changes(view) == 0) {
        struct cop_life first = {id, cop_view_incarnation(view, id)};
        error = add_member(group, &first);
        group->count = cop_view_size(view);
        return error;
    }
    for (; id != COP_ID_NONE && !error; id = cop_view_next(view, id)) {
        struct cop_life life = {id, cop_view_incarnation(view, id)};
        error = add_member(group, &life);
    }
    return error;
}

int cop__agree_group_read(const struct cop_node *node,
                          const struct cop_agree_group *options,
                          struct cop__agree_group *group)
{
    uint32_t count = options->members ? options->count : cop_view_size(node->view);
    if (count == 0 || count > COP_MEMBERS_MAX)
        return COP_EINVAL;
    int error = options->members ? read_list(node->view, options, group)
                                 : read_view(node->view, group);
    if (error)
        return error;
    group->rank = cop__agree_group_rank(group, node->self, node->incarnation);
    return group->rank == COP_RANK_NONE ? COP_EINVAL : 0;
}

void cop__agree_group_digest(const struct cop__agree_group *group,
                             struct cop__digest *digest)
{
    cop__digest_word(digest, group->count);
    for (uint32_t i = 0; i < group->span_count; i++) {
        cop__digest_word(digest,
                         (uint64_t)group->spans[i].rank << 32 | group->spans[i].id);
        cop__digest_word(digest, group->spans[i].incarnation);
    }
}
