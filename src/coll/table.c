/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * The groups that this member knows, and finding the one that a call is about. A group stays
 * until its creator ends it, dies or is replaced by a later life, and no longer.
 */

struct cop__group *cop__group_find(const struct cop_node *node, uint64_t number)
{
    struct cop__group *group = cop__colls(node)->groups;
    while (group && (group->number != number || group->over))
        group = group->next;
    return group;
}

/* A reference of the table's own. `number` 0: the next one for those that others made. */
int cop__group_keep(struct cop_node *node, struct cop__group *group, uint64_t number)
{
    struct cop__colls *colls = cop__colls(node);
    if (colls->group_count == COP_GROUPS_MAX)
        return COP_ETOOBIG;
    group->number = number ? number : COP_GROUP_LEARNT + ++colls->learnt;
    group->lost_at = COP_TIME_NEVER;
    struct cop__group **at = &colls->groups;
    while (*at)
        at = &(*at)->next;
    *at = cop__group_ref(group);
    colls->group_count++;
    return 0;
}

void cop__group_drop(struct cop_node *node, struct cop__group *group)
{
    struct cop__colls *colls = cop__colls(node);
    struct cop__group **at = &colls->groups;
    while (*at && *at != group)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = group->next;
    group->next = NULL;
    group->number = 0;
    colls->group_count -= !group->over;
    cop__group_unref(group);
}

/* ---- whose creator is gone ------------------------------------------------------- */

static bool creator_is_gone(const struct cop_node *node, cop_id id,
                            cop_incarnation incarnation)
{
    if (id == COP_ID_NONE || id == node->self)
        return id == node->self && incarnation != node->incarnation;
    if (cop__has_views(node))
        return !cop_view_has(node->view, id, incarnation);
    return cop__roster_get(node, id).incarnation > incarnation;
}

/* Something became of `creator`: its groups go, or wait whether it is final. */
void cop__groups_lose(struct cop_node *node, cop_id creator)
{
    struct cop__colls *colls = cop__colls(node);
    for (struct cop__group *group = colls->groups, *next; group; group = next) {
        next = group->next;
        if (group->creator != creator && creator != COP_ID_NONE)
            continue;
        if (creator_is_gone(node, group->creator, group->incarnation)) {
            cop__group_drop(node, group);
            continue;
        }
        bool suspect = !cop__has_views(node) && group->creator != COP_ID_NONE &&
                       group->creator != node->self &&
                       cop__roster_is_suspect(node, group->creator);
        if (!suspect)
            group->lost_at = COP_TIME_NEVER;
        else if (group->lost_at == COP_TIME_NEVER)
            group->lost_at = node->now;
    }
    cop__groups_expire(node);
}

/* ---- waiting for a service ------------------------------------------------------- */

static void remove_waiting(struct cop__colls *colls, uint32_t i)
{
    cop_buf_unref(colls->waiting[i].frame.payload);
    colls->waiting_count--;
    memmove(colls->waiting + i, colls->waiting + i + 1,
            (colls->waiting_count - i) * sizeof *colls->waiting);
}

/* Ends what waited long enough, and sets the timer for the rest. */
void cop__groups_expire(struct cop_node *node)
{
    struct cop__colls *colls = cop__colls(node);
    cop_time next = COP_TIME_NEVER;
    for (uint32_t i = colls->waiting_count; i > 0; i--)
        if (colls->waiting[i - 1].deadline <= node->now)
            remove_waiting(colls, i - 1);
    for (uint32_t i = 0; i < colls->waiting_count; i++)
        if (colls->waiting[i].deadline < next)
            next = colls->waiting[i].deadline;
    for (struct cop__group *group = colls->groups, *after; group; group = after) {
        after = group->next;
        if (group->lost_at == COP_TIME_NEVER)
            continue;
        if (group->lost_at + COP__GROUP_GRACE <= node->now)
            cop__group_drop(node, group);
        else if (group->lost_at + COP__GROUP_GRACE < next)
            next = group->lost_at + COP__GROUP_GRACE;
    }
    if (next != COP_TIME_NEVER)
        cop__timer_set(node, &colls->timer, next);
    else
        cop__timer_cancel(node, &colls->timer);
}

static void emit_resolve(struct cop_node *node, const struct cop__waiting *waiting,
                         const struct cop__head *head)
{
    struct cop_upcall upcall = {
        .kind = COP_UPCALL_RESOLVE,
        .handle = waiting->handle,
        .service = head->service,
        .root = waiting->frame.header.sender,
        .peer = COP_ID_NONE,
        .bytes = head->oob,
        .length = sizeof head->oob,
    };
    cop__emit_upcall(node, &upcall);
}

/* Asks the service who is in it; the frame comes again when it has said so. */
static int wait_for_service(struct cop_node *node, const struct cop_frame *frame,
                            const struct cop__head *head)
{
    struct cop__colls *colls = cop__colls(node);
    const struct cop_service *service = cop__service_find(node, head->service);
    if (!service || !(service->wants & COP_WANTS(COP_UPCALL_RESOLVE)) ||
        colls->waiting_count == COP__WAITING_MAX)
        return COP_ENOENT;
    if (!colls->waiting)
        colls->waiting = calloc(COP__WAITING_MAX, sizeof *colls->waiting);
    if (!colls->waiting)
        return COP_ENOMEM;
    struct cop__waiting *waiting = &colls->waiting[colls->waiting_count++];
    *waiting = (struct cop__waiting){
        .handle = ++colls->handle,
        .frame = {frame->header, cop_buf_ref(frame->payload)},
        .deadline = node->now + COP__RESOLVE_TIMEOUT,
        .service = head->service,
        .shape = head->shape,
        .arity = head->arity,
    };
    emit_resolve(node, waiting, head);
    cop__groups_expire(node);
    return COP_EAGAIN;
}

COP__APART int cop__group_resolve(struct cop_node *node,
                                  const struct cop_request *request)
{
    struct cop__colls *colls = cop__colls(node);
    const struct cop_coll *coll = request->coll;
    uint32_t i = 0;
    while (i < colls->waiting_count && colls->waiting[i].handle != coll->handle)
        i++;
    if (i == colls->waiting_count)
        return COP_ENOENT;
    struct cop_shape shape = {.kind = (enum cop_shape_kind)colls->waiting[i].shape,
                              .k = colls->waiting[i].arity};
    struct cop__group_names names = {colls->waiting[i].service, "", &shape};
    struct cop__group *group = NULL;
    int status = coll->status;
    if (status == 0)
        status = cop__group_create(&names, coll->targets, coll->target_count, &group);
    if (status == COP_ENOMEM)
        return status;
    /* It is the service here that is wrong, and not the frame: that is said to who sent it. */
    if (status == COP_EMALFORMED)
        status = COP_EINVAL;
    struct cop_frame frame = colls->waiting[i].frame;
    cop_buf_ref(frame.payload);
    remove_waiting(colls, i);
    cop__groups_expire(node);
    colls->resolving = true;
    colls->resolved = group;
    colls->resolve_status = status;
    cop__take_again(node, &frame);
    colls->resolving = false;
    colls->resolved = NULL;
    cop__group_unref(group);
    cop_buf_unref(frame.payload);
    return 0;
}

/* ---- whom a call is about -------------------------------------------------------- */

COP__APART int cop__group_of_view(const struct cop_node *node,
                                  const struct cop_shape *shape,
                                  struct cop__group **out)
{
    uint32_t count = 0;
    struct cop_target *targets = calloc(cop_view_size(node->view) + 1, sizeof *targets);
    if (!targets)
        return COP_ENOMEM;
    for (cop_id id = cop_view_next(node->view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(node->view, id))
        targets[count++].node = id;
    struct cop__group_names names = {0, "", shape};
    int error = cop__group_create(&names, targets, count, out);
    free(targets);
    return error;
}

struct cop__group *cop__group_of_head(const struct cop_node *node,
                                      const struct cop__head *head)
{
    struct cop__group *group = cop__colls(node)->groups;
    while (group &&
           (group->creator != head->creator ||
            group->incarnation != head->incarnation || group->index != head->index))
        group = group->next;
    return group;
}

COP__APART void cop__group_forget(struct cop_node *node, const struct cop__head *head,
                                  bool may_be_asked)
{
    struct cop__group *group =
        head->origin == GROUP_REGULAR ? cop__group_of_head(node, head) : NULL;
    if (!group || (group->over && may_be_asked))
        return;
    if (may_be_asked && head->kind != CALL_END) {
        group->over = true;
        cop__colls(node)->group_count--;
    } else {
        cop__group_drop(node, group);
    }
}

COP__APART static int regular(struct cop_node *node, const struct cop__head *head,
                              struct cop__group **out)
{
    struct cop__group *group = cop__group_of_head(node, head);
    if (group) {
        *out = cop__group_ref(group);
        return 0;
    }
    /* Only who was not told says that it knows of none: it is told then (K2). */
    if (head->definition.length == 0)
        return COP_ENOENT;
    if (creator_is_gone(node, head->creator, head->incarnation))
        return COP_ELOST;
    int error = cop__group_decode(head->definition, &group);
    if (error)
        return error;
    group->creator = head->creator;
    group->incarnation = head->incarnation;
    group->index = head->index;
    if ((head->flags & CALL_KEEP) && head->kind != CALL_END)
        error = cop__group_keep(node, group, 0);
    if (error)
        cop__group_unref(group);
    else
        *out = group;
    return error;
}

COP__APART static int out_of_band(struct cop_node *node, const struct cop_frame *frame,
                                  const struct cop__head *head, struct cop__group **out)
{
    struct cop__colls *colls = cop__colls(node);
    if (!colls->resolving)
        return wait_for_service(node, frame, head);
    if (colls->resolve_status)
        return colls->resolve_status == COP_EAGAIN ? COP_EREFUSED
                                                   : colls->resolve_status;
    *out = cop__group_ref(colls->resolved);
    return 0;
}

/* Cuts out those whom the call leaves out; takes over the reference in *group. */
COP__APART static int cut(const struct cop__head *head, struct cop__group **group)
{
    if (head->excluded.count == 0)
        return 0;
    struct cop_ranks excluded = {0};
    struct cop__group *rest = NULL;
    struct cop__reader reader =
        cop__reader(head->excluded.data, (size_t)head->excluded.count * 4);
    int error = 0;
    for (uint32_t i = 0; i < head->excluded.count && !error; i++)
        error = cop_ranks_push(&excluded, cop__get_u32(&reader));
    if (!error)
        error = cop__group_without(*group, &excluded, &rest);
    cop_ranks_free(&excluded);
    if (error == COP_EINVAL)
        error = COP_EMALFORMED;
    if (!error) {
        rest->number = (*group)->number;
        cop__group_unref(*group);
        *group = rest;
    }
    return error;
}

int cop__group_of_call(struct cop_node *node, const struct cop_frame *frame,
                       const struct cop__head *head, struct cop__group **out)
{
    struct cop__group *group = NULL;
    struct cop_shape shape = {.kind = (enum cop_shape_kind)head->shape,
                              .k = head->arity};
    int error;
    *out = NULL;
    if (head->origin == GROUP_VIEW && (head->flags & COP_BCAST_HEAL))
        return 0;
    if (head->origin == GROUP_VIEW)
        error = head->epoch == cop_view_epoch(node->view)
                    ? cop__group_of_view(node, &shape, &group)
                    : COP_ESTATE;
    else if (head->origin == GROUP_REGULAR)
        error = regular(node, head, &group);
    else
        error = out_of_band(node, frame, head, &group);
    if (!error)
        error = cut(head, &group);
    /* The one guard against two memberships under one name. */
    if (!error && memcmp(group->digest, head->digest, sizeof group->digest) != 0)
        error = COP_ESTATE;
    if (error)
        cop__group_unref(group);
    else
        *out = group;
    return error;
}

/* ---- making and ending ----------------------------------------------------------- */

static bool is_possible(const struct cop_node *node, const struct cop_coll *coll)
{
    bool self = false;
    for (uint32_t i = 0; i < coll->target_count; i++) {
        self |= coll->targets[i].node == node->self;
        if (cop_view_rank(node->view, coll->targets[i].node) == COP_RANK_NONE ||
            (coll->targets[i].tag_count && !coll->targets[i].tags))
            return false;
    }
    return self && coll->group != COP_GROUP_ALL && coll->group < COP_GROUP_LEARNT &&
           coll->kind <= COP_GROUP_OOB &&
           (!coll->name || strlen(coll->name) <= COP_NAME_MAX);
}

static int make(struct cop_node *node, const struct cop_coll *coll,
                struct cop__group **out)
{
    const struct cop_shape *shape =
        coll->shape.kind ? &coll->shape : cop_view_shape(node->view);
    struct cop__group_names names = {coll->service.id, coll->name, shape};
    int error = cop__group_create(&names, coll->targets, coll->target_count, out);
    if (error)
        return error == COP_EMALFORMED ? COP_EINVAL : error;
    if ((*out)->definition->length > COP__DEFINITION_MAX) {
        cop__group_unref(*out);
        return COP_ETOOBIG;
    }
    if (coll->kind == COP_GROUP_OOB) {
        memcpy((*out)->oob, coll->oob, sizeof coll->oob);
    } else {
        (*out)->creator = node->self;
        (*out)->incarnation = node->incarnation;
        (*out)->index = ++cop__colls(node)->index;
        (*out)->lazy = coll->kind == COP_GROUP_LAZY;
    }
    return 0;
}

static int create(struct cop_node *node, const struct cop_request *request)
{
    const struct cop_coll *coll = request->coll;
    struct cop__group *old = cop__group_find(node, coll->group), *group = NULL;
    if (!is_possible(node, coll))
        return COP_EINVAL;
    if (old && (coll->kind != COP_GROUP_OOB || old->creator != COP_ID_NONE))
        return COP_EEXIST;
    int error = make(node, coll, &group);
    if (error)
        return error;
    if (old)
        cop__group_drop(node, old);
    error = cop__group_keep(node, group, coll->group);
    if (!error && coll->kind == COP_GROUP_NOW) {
        error = cop__coll_start(node, request, CALL_MAKE, group);
        if (error)
            cop__group_drop(node, group);
    } else if (!error) {
        cop__emit_complete(node, request->token, 0, NULL);
    }
    cop__group_unref(group);
    return error;
}

static int end(struct cop_node *node, const struct cop_request *request)
{
    struct cop__group *group = cop__group_find(node, request->coll->group);
    if (!group || request->coll->group == COP_GROUP_ALL || group->ending)
        return COP_ENOENT;
    if (group->creator != COP_ID_NONE && group->creator != node->self)
        return COP_EINVAL;
    if (group->calls > 0)
        return COP_EAGAIN;
    if (group->creator == COP_ID_NONE) {
        cop__group_drop(node, group);
        cop__emit_complete(node, request->token, 0, NULL);
        return 0;
    }
    return cop__coll_start(node, request, CALL_END, group);
}

COP__APART int cop__group_submit(struct cop_node *node,
                                 const struct cop_request *request)
{
    return request->kind == COP_REQUEST_GROUP ? create(node, request)
                                              : end(node, request);
}

/* ---- looking --------------------------------------------------------------------- */

const char *cop_group_name(const struct cop_node *node, uint64_t group)
{
    const struct cop__group *found = cop__group_find(node, group);
    if (!found || group == COP_GROUP_ALL)
        return group == COP_GROUP_ALL ? "" : NULL;
    return found->name;
}

int cop_group_digest(const struct cop_node *node, uint64_t group, uint8_t out[16])
{
    const struct cop__group *found = cop__group_find(node, group);
    if (!found || group == COP_GROUP_ALL)
        return COP_ENOENT;
    memcpy(out, found->digest, sizeof found->digest);
    return 0;
}

uint32_t cop_node_groups(const struct cop_node *node)
{
    return cop__colls(node)->group_count;
}
