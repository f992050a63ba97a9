/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"
#include "coll/state.h"

#include <stdlib.h>
#include <string.h>

/* Calls that begin here. */

#define FLAGS                                                                          \
    (COP_BCAST_HEAL | COP_BCAST_LAST | COP_BCAST_ALIVE | COP_BCAST_STRICT |            \
     COP_BCAST_BULK)

/* Somebody here must have the bytes. */
static bool is_bulk_possible(const struct cop_node *node, const struct cop_coll *coll,
                             const struct cop__group *group)
{
    const struct cop_service *service =
        cop__service_find(node, group ? group->service : coll->service.id);
    uint64_t chunk = coll->bulk_chunk ? coll->bulk_chunk : COP_BULK_CHUNK;
    if (!(coll->flags & COP_BCAST_BULK))
        return true;
    return service && (service->wants & COP_WANTS(COP_UPCALL_WANT)) &&
           coll->bulk_length <= COP_BULK_MAX && chunk <= COP_BULK_CHUNK_MAX &&
           coll->bulk_length / chunk < INT32_MAX;
}

static int check_bcast(const struct cop_node *node, const struct cop_request *request,
                       const struct cop__group *group)
{
    const struct cop_coll *coll = request->coll;
    bool last = (coll->flags & COP_BCAST_LAST) != 0;
    if ((coll->group != COP_GROUP_ALL && !group) || (group && group->ending))
        return COP_ENOENT;
    if (coll->op >= COP_OPS || (coll->flags & ~(uint32_t)FLAGS) ||
        (request->length && !request->bytes) ||
        coll->service_ns > COP__SWEEP_TIMEOUT_MAX ||
        (coll->op == COP_OP_TOP &&
         (coll->argument == 0 || coll->argument > COP_TOP_MAX)) ||
        (last && (!group || group->creator != node->self)) ||
        !is_bulk_possible(node, coll, group))
        return COP_EINVAL;
    if (!group && (coll->flags & COP_BCAST_ALIVE) && (coll->flags & COP_BCAST_HEAL))
        return COP_EINVAL; /* the dead of the view are named, not asked, anyway */
    if (group && group->creator == node->self && !group->lazy && !group->populated)
        return COP_ESTATE; /* its making has not come to an end */
    if ((last && group->calls > 0) || cop__colls(node)->call_count >= COP_CALLS_MAX)
        return COP_EAGAIN;
    return 0;
}

/* Who of a group is known to be dead; COP_ENOMEM. */
static int find_dead(const struct cop_node *node, const struct cop__group *group,
                     struct cop_ranks *out)
{
    for (cop_rank rank = 0; rank < group->roll->count; rank++)
        if (group->roll->ids[rank] != node->self &&
            cop__roster_is_suspect(node, group->roll->ids[rank]) &&
            cop_ranks_push(out, rank))
            return COP_ENOMEM;
    return 0;
}

/* K9: without HEAL nothing is begun that cannot be finished; with ALIVE it is about the rest. */
static int leave_out(const struct cop_node *node, const struct cop_coll *coll,
                     struct cop__group **group, struct cop_ranks *excluded)
{
    bool heal = (coll->flags & COP_BCAST_HEAL) != 0;
    bool alive = (coll->flags & COP_BCAST_ALIVE) != 0;
    if (heal && !alive)
        return 0;
    int error = find_dead(node, *group, excluded);
    if (error || excluded->count == 0)
        return error;
    if (!alive) {
        if (coll->lost)
            *coll->lost = (*group)->roll->ids[excluded->items[0]];
        return COP_ELOST;
    }
    struct cop__group *rest = NULL;
    error = cop__group_without(*group, excluded, &rest);
    if (!error) {
        rest->number = (*group)->number;
        cop__group_unref(*group);
        *group = rest;
    }
    return error;
}

static uint8_t *encode_ranks(const struct cop_ranks *ranks)
{
    size_t size = (size_t)ranks->count * 4;
    uint8_t *bytes = malloc(size + 1);
    struct cop__writer writer = cop__writer(bytes, bytes ? size : 0);
    for (uint32_t i = 0; bytes && i < ranks->count; i++)
        cop__put_u32(&writer, ranks->items[i]);
    return bytes;
}

static struct cop_buf *encode_portions(const struct cop_coll *coll)
{
    size_t size = 0;
    for (uint32_t i = 0; i < coll->portion_count; i++)
        size += 8 + (size_t)coll->portions[i].length;
    struct cop_buf *buf = cop_buf_create(size);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    for (uint32_t i = 0; i < coll->portion_count; i++) {
        cop__put_u32(&writer, coll->portions[i].node);
        cop__put_bytes(&writer, (struct cop__bytes){coll->portions[i].bytes,
                                                    coll->portions[i].length});
    }
    return buf;
}

/* What every call over a group says of it. */
static void name_group(const struct cop_node *node, const struct cop__group *group,
                       struct cop__head *head)
{
    const struct cop_shape *shape = cop_view_shape(node->view);
    head->epoch = cop_view_epoch(node->view);
    head->shape = (uint8_t)(group ? group->shape.kind : shape->kind);
    head->arity = group ? group->shape.k : shape->k;
    if (!group)
        return;
    head->creator = group->creator;
    head->incarnation = group->incarnation;
    head->index = group->index;
    memcpy(head->oob, group->oob, sizeof head->oob);
    memcpy(head->digest, group->digest, sizeof head->digest);
}

static struct cop__head head_of(const struct cop_node *node,
                                const struct cop_request *request,
                                enum cop__call_kind kind, const struct cop__group *base,
                                const struct cop__group *group)
{
    const struct cop_coll *coll = request->coll;
    struct cop__head head = {
        .kind = (uint8_t)kind,
        .flags = COP_BCAST_HEAL,
        .origin = !base                          ? GROUP_VIEW
                  : base->creator == COP_ID_NONE ? GROUP_OOB
                                                 : GROUP_REGULAR,
        .creator = COP_ID_NONE,
    };
    name_group(node, group, &head);
    bool rides = base && base->creator == node->self && base->lazy && !base->populated;
    if (kind == CALL_MAKE || (kind == CALL_RUN && rides)) {
        COP_ASSERT(base != NULL);
        head.definition =
            (struct cop__bytes){base->definition->data, base->definition->length};
        head.flags |= CALL_KEEP;
    }
    if (kind != CALL_RUN)
        return head;
    head.flags = (uint8_t)((head.flags & CALL_KEEP) | coll->flags);
    head.service = base ? base->service : coll->service.id;
    head.op = (uint8_t)coll->op;
    head.version = coll->version;
    head.argument = coll->argument;
    head.service_ns = coll->service_ns;
    head.payload = (struct cop__bytes){request->bytes, request->length};
    head.bulk_length = coll->bulk_length;
    head.bulk_chunk = coll->bulk_chunk ? coll->bulk_chunk : COP_BULK_CHUNK;
    return head;
}

/* Puts it together, and starts it. `base` is what the caller named, `group` what is left. */
static int launch(struct cop_node *node, const struct cop_request *request,
                  enum cop__call_kind kind, struct cop__group *base,
                  struct cop__group *group, const struct cop_ranks *excluded)
{
    static const struct cop_coll nothing;
    struct cop__head head = head_of(node, request, kind, base, group);
    const struct cop_coll *coll =
        request->coll && kind == CALL_RUN ? request->coll : &nothing;
    uint8_t *ranks = encode_ranks(excluded);
    struct cop_buf *portions = encode_portions(coll), *buf = NULL;
    if (ranks && portions) {
        head.excluded = (struct cop__list){ranks, excluded->count};
        head.portions = (struct cop__bytes){portions->data, portions->length};
        buf = cop__head_encode(&head);
    }
    int error = buf ? 0 : COP_ENOMEM;
    /* K10: what comes unasked for is small. */
    if (buf && kind == CALL_RUN && buf->length > COP_BCAST_MAX)
        error = COP_ETOOBIG;
    if (!error) {
        struct cop__bytes bytes = {buf->data, buf->length};
        error = head.flags & COP_BCAST_HEAL
                    ? cop__heal_start(node, request, bytes, group)
                    : cop__plain_start(node, request, bytes, group);
    }
    free(ranks);
    cop_buf_unref(portions);
    cop_buf_unref(buf);
    return error;
}

bool cop__coll_has_room(const struct cop_node *node)
{
    return cop__colls(node)->call_count < COP_CALLS_MAX && cop__sweep_has_room(node);
}

COP__APART int cop__coll_start(struct cop_node *node, const struct cop_request *request,
                               enum cop__call_kind kind, struct cop__group *base)
{
    struct cop_ranks excluded = {0};
    int error = kind == CALL_RUN ? check_bcast(node, request, base) : 0;
    /* Who is not in the view yet has no place in any tree. */
    if (!error && !cop_view_has(node->view, node->self, node->incarnation))
        error = COP_ESTATE;
    if (error)
        return error;
    bool last = kind == CALL_END ||
                (kind == CALL_RUN && (request->coll->flags & COP_BCAST_LAST));
    struct cop__group *group = cop__group_ref(base);
    cop__group_ref(base);
    if (kind == CALL_RUN && !base && !(request->coll->flags & COP_BCAST_HEAL))
        error = cop__group_of_view(node, cop_view_shape(node->view), &group);
    if (!error && kind == CALL_RUN && group)
        error = leave_out(node, request->coll, &group, &excluded);
    bool counts = base && base->creator != COP_ID_NONE;
    if (counts) {
        base->calls++;
        base->ending |= last;
    }
    if (!error)
        error = launch(node, request, kind, base, group, &excluded);
    if (error && counts) {
        base->calls--;
        base->ending &= !last;
    }
    cop_ranks_free(&excluded);
    cop__group_unref(group);
    cop__group_unref(base);
    return error;
}
