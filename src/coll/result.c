/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "coll/state.h"

#include <stdlib.h>
#include <string.h>

/* What comes out: upcalls and results as bytes, and reading them. */

#define SIZE_failure 13u

/* ---- upcalls --------------------------------------------------------------------- */

/* PIECE and WANT say how many bytes there are, or should be, and have none themselves. */
static bool has_bytes(const struct cop_upcall *upcall)
{
    return upcall->kind != COP_UPCALL_PIECE && upcall->kind != COP_UPCALL_WANT;
}

/* The numbers before its lists, and those behind them: what has a length that is known needs no
 * looking whether there is room. */
#define UPCALL_BEFORE (1u + 4 * 8 + 5 * 4 + 2)
#define UPCALL_AFTER (2u * 8 + 4)

static void put_before(const struct cop_upcall *upcall, uint8_t *out)
{
    struct cop__writer writer = cop__writer(out, UPCALL_BEFORE);
    cop__put_u8(&writer, (uint8_t)upcall->kind);
    cop__put_u64(&writer, upcall->handle);
    cop__put_u64(&writer, upcall->service);
    cop__put_u64(&writer, upcall->group);
    cop__put_u32(&writer, upcall->root);
    cop__put_u64(&writer, upcall->token);
    cop__put_u32(&writer, upcall->flags);
    cop__put_u32(&writer, upcall->version);
    cop__put_u32(&writer, upcall->peer);
    cop__put_u32(&writer, (uint32_t)upcall->status);
    cop__put_u8(&writer, (uint8_t)upcall->phase);
    cop__put_u8(&writer, upcall->more);
}

static void put_after(const struct cop_upcall *upcall, uint8_t *out)
{
    struct cop__writer writer = cop__writer(out, UPCALL_AFTER);
    cop__put_u64(&writer, upcall->offset);
    cop__put_u64(&writer, upcall->bulk_length);
    cop__put_u32(&writer, upcall->length);
}

static struct cop_buf *encode_upcall(const struct cop_upcall *upcall)
{
    size_t tags = (size_t)upcall->tag_count * sizeof(struct cop_tag);
    uint32_t length = has_bytes(upcall) ? upcall->length : 0;
    size_t lists = 4 + tags + 4 + length;
    struct cop_buf *buf = cop_buf_create(UPCALL_BEFORE + lists + UPCALL_AFTER);
    if (!buf)
        return NULL;
    put_before(upcall, buf->data);
    struct cop__writer writer = cop__writer(buf->data + UPCALL_BEFORE, lists);
    cop__put_list(&writer,
                  (struct cop__list){(const uint8_t *)upcall->tags, upcall->tag_count},
                  sizeof(struct cop_tag));
    cop__put_bytes(&writer, (struct cop__bytes){upcall->bytes, length});
    put_after(upcall, buf->data + UPCALL_BEFORE + lists);
    return buf;
}

void cop__emit_upcall(struct cop_node *node, struct cop_upcall *upcall)
{
    struct cop_buf *buf = encode_upcall(upcall);
    if (buf)
        cop__emit_service(node, upcall->handle, upcall->status, buf);
    else
        cop__fail(node, COP_ENOMEM);
}

void cop__emit_bulk(struct cop_node *node, struct cop_upcall *upcall,
                    struct cop_buf *chunk)
{
    struct cop_buf *buf = encode_upcall(upcall);
    if (buf) {
        cop__emit_piece(node, upcall->handle, buf, chunk);
    } else {
        cop_buf_unref(chunk);
        cop__fail(node, COP_ENOMEM);
    }
}

int cop_upcall(const struct cop_effect *effect, struct cop_upcall *out)
{
    if (effect->kind != COP_EFFECT_UPCALL || !effect->result)
        return COP_EMALFORMED;
    return cop_upcall_with(effect->result, effect->frame.payload, out);
}

int cop_upcall_with(const struct cop_buf *record, const struct cop_buf *beside,
                    struct cop_upcall *out)
{
    struct cop_upcall upcall;
    struct cop__msg_chunk chunk;
    int error = cop_upcall_read(record, &upcall);
    if (error)
        return error;
    if (upcall.kind == COP_UPCALL_PIECE) {
        if (!beside || cop__decode_chunk(beside->data, beside->length, &chunk) ||
            chunk.data.length != upcall.length)
            return COP_EMALFORMED;
        upcall.bytes = chunk.data.data;
    }
    *out = upcall;
    return 0;
}

static void get_before(const uint8_t *in, struct cop_upcall *out)
{
    struct cop__reader reader = cop__reader(in, UPCALL_BEFORE);
    out->kind = (enum cop_upcall_kind)cop__get_u8(&reader);
    out->handle = cop__get_u64(&reader);
    out->service = cop__get_u64(&reader);
    out->group = cop__get_u64(&reader);
    out->root = cop__get_u32(&reader);
    out->token = cop__get_u64(&reader);
    out->flags = cop__get_u32(&reader);
    out->version = cop__get_u32(&reader);
    out->peer = cop__get_u32(&reader);
    out->status = (int)cop__get_u32(&reader);
    out->phase = (enum cop_phase)cop__get_u8(&reader);
    out->more = cop__get_u8(&reader) != 0;
}

static void get_after(const uint8_t *in, struct cop_upcall *out)
{
    struct cop__reader reader = cop__reader(in, UPCALL_AFTER);
    out->offset = cop__get_u64(&reader);
    out->bulk_length = cop__get_u64(&reader);
    out->length = cop__get_u32(&reader);
}

int cop_upcall_read(const struct cop_buf *record, struct cop_upcall *out)
{
    if (record->length < UPCALL_BEFORE + UPCALL_AFTER)
        return COP_EMALFORMED;
    size_t lists = record->length - UPCALL_BEFORE - UPCALL_AFTER;
    struct cop__reader reader = cop__reader(record->data + UPCALL_BEFORE, lists);
    struct cop__list tags = cop__get_list(&reader, sizeof(struct cop_tag));
    struct cop__bytes bytes = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    get_before(record->data, out);
    get_after(record->data + UPCALL_BEFORE + lists, out);
    out->tags = (const struct cop_tag *)(const void *)tags.data;
    out->tag_count = tags.count;
    out->bytes = has_bytes(out) ? bytes.data : NULL;
    return 0;
}

const char *cop_phase_name(enum cop_phase phase)
{
    static const char *const names[] = {
        [COP_PHASE_NONE] = "none",       [COP_PHASE_GROUP] = "group",
        [COP_PHASE_SERVICE] = "service", [COP_PHASE_VERSION] = "version",
        [COP_PHASE_CHECK] = "check",     [COP_PHASE_RUN] = "run",
        [COP_PHASE_REPLY] = "reply",     [COP_PHASE_BULK] = "bulk",
    };
    return (size_t)phase < sizeof names / sizeof names[0] ? names[phase] : "unknown";
}

/* ---- results --------------------------------------------------------------------- */

static cop_id id_at(const struct cop__call *call, cop_rank rank)
{
    return call->group ? call->group->roll->ids[rank] : rank;
}

/* By rank, `status` 0 for those that answered. */
static void mark_faults(const struct cop__call *call, const struct cop__end *end,
                        struct cop_failure *marks)
{
    for (uint32_t i = 0; i < end->tally->count; i++) {
        const struct cop__fault *fault = &end->tally->items[i];
        bool below = fault->tree && !call->sweep;
        for (cop_rank rank = 0; rank < end->tree->n; rank++) {
            bool own = rank >= fault->first && rank <= fault->last;
            if (!own && !(below && cop_tree_is_below(end->tree, rank, fault->first)))
                continue;
            cop_rank at =
                own ? (fault->at == COP_RANK_NONE ? rank : fault->at) : fault->first;
            marks[rank] =
                (struct cop_failure){id_at(call, rank), id_at(call, at), fault->status,
                                     (enum cop_phase)fault->phase};
        }
    }
}

/* The nearest above that asked nobody; NONE if there is none. */
static cop_rank refuser_of(const struct cop__end *end, const struct cop__call *call,
                           cop_rank rank)
{
    do
        rank = cop_tree_parent(end->tree, rank);
    while (rank != COP_RANK_NONE && !cop__rankset_has(&call->refusers, rank));
    return rank;
}

static void mark_missing(const struct cop_node *node, const struct cop__call *call,
                         const struct cop__end *end, struct cop_failure *marks)
{
    for (uint32_t i = 0; end->missing && i < end->missing->count; i++) {
        cop_rank rank = end->missing->items[i];
        cop_rank refuser = refuser_of(end, call, rank);
        bool lost = cop__sweep_is_lost(node, call->sweep, rank);
        struct cop_failure *mark = &marks[rank];
        *mark = (struct cop_failure){id_at(call, rank), id_at(call, rank),
                                     lost ? COP_ELOST : COP_ETIMEDOUT, COP_PHASE_REPLY};
        if (refuser != COP_RANK_NONE && !lost)
            *mark = (struct cop_failure){id_at(call, rank), id_at(call, refuser),
                                         COP_EREFUSED, marks[refuser].phase};
    }
}

static struct cop_buf *encode_result(const struct cop_node *node,
                                     const struct cop__call *call,
                                     const struct cop__end *end,
                                     const struct cop_failure *marks, uint32_t failed)
{
    size_t size =
        4 + 4 + 4 + 8 + 1 + 4 + (size_t)failed * SIZE_failure + 4 + end->data.length;
    struct cop_buf *buf = cop_buf_create(size);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u32(&writer, end->members);
    cop__put_u32(&writer, end->members - failed);
    cop__put_u32(&writer, end->tally->lowest);
    cop__put_u64(&writer, node->now - call->begun);
    cop__put_u8(&writer, call->sweep ? call->head.op : (uint8_t)COP_OP_STATUS);
    cop__put_u32(&writer, failed);
    for (cop_rank rank = 0; failed > 0 && rank < end->tree->n; rank++) {
        if (marks[rank].status == 0)
            continue;
        cop__put_u32(&writer, marks[rank].node);
        cop__put_u32(&writer, marks[rank].at);
        cop__put_u32(&writer, (uint32_t)marks[rank].status);
        cop__put_u8(&writer, (uint8_t)marks[rank].phase);
    }
    cop__put_bytes(&writer, end->data);
    return buf;
}

/* What a group's own calls mean for it. */
static void conclude_group(struct cop_node *node, struct cop__call *call, bool good)
{
    struct cop__group *group = call->head.origin == GROUP_REGULAR
                                   ? cop__group_of_head(node, &call->head)
                                   : NULL;
    if (group && group->calls > 0)
        group->calls--;
    if (group && call->head.kind == CALL_MAKE && !good) {
        /* Those who have it are told; nobody waits for that. */
        struct cop_request request = {.kind = COP_REQUEST_GROUP_END,
                                      .token = COP__NO_TOKEN};
        if (cop__coll_start(node, &request, CALL_END, group))
            cop__group_drop(node, group);
    }
}

void cop__call_report(struct cop_node *node, struct cop__call *call, int status,
                      const struct cop__end *end)
{
    bool any = end->tally->count > 0 || (end->missing && end->missing->count > 0);
    struct cop_failure *marks = NULL;
    uint32_t failed = 0;
    if (any && end->tree) {
        marks = calloc(end->tree->n, sizeof *marks);
        if (!marks) {
            cop__fail(node, COP_ENOMEM);
            return;
        }
        mark_faults(call, end, marks);
        mark_missing(node, call, end, marks);
        for (cop_rank rank = 0; rank < end->tree->n; rank++)
            failed += marks[rank].status != 0;
    }
    if (call->head.kind == CALL_MAKE && status == 0 && failed > 0)
        status = COP_ELOST;
    struct cop_buf *result = encode_result(node, call, end, marks, failed);
    free(marks);
    if (!result)
        cop__fail(node, COP_ENOMEM);
    else if (call->token == COP__NO_TOKEN)
        cop_buf_unref(result);
    else
        cop__emit_complete(node, call->token, status, result);
    conclude_group(node, call, status == 0);
}

int cop_bcast_result(const struct cop_buf *buf, struct cop_bcast_result *out)
{
    struct cop_bcast_result result = {0};
    struct cop__reader reader = cop__reader(buf->data, buf->length);
    result.members = cop__get_u32(&reader);
    result.answered = cop__get_u32(&reader);
    result.lowest_version = cop__get_u32(&reader);
    result.elapsed_ns = cop__get_u64(&reader);
    result.op = (enum cop_op)cop__get_u8(&reader);
    struct cop__list list = cop__get_list(&reader, SIZE_failure);
    struct cop__bytes bytes = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader))
        return COP_EMALFORMED;
    if (list.count > 0) {
        result.failures = calloc(list.count, sizeof *result.failures);
        if (!result.failures)
            return COP_ENOMEM;
    }
    struct cop__reader items =
        cop__reader(list.data, (size_t)list.count * SIZE_failure);
    for (uint32_t i = 0; i < list.count; i++) {
        result.failures[i].node = cop__get_u32(&items);
        result.failures[i].at = cop__get_u32(&items);
        result.failures[i].status = (int)cop__get_u32(&items);
        result.failures[i].phase = (enum cop_phase)cop__get_u8(&items);
    }
    result.failure_count = list.count;
    result.bytes = bytes.data;
    result.length = bytes.length;
    *out = result;
    return 0;
}

void cop_bcast_result_free(struct cop_bcast_result *result)
{
    free(result->failures);
    result->failures = NULL;
    result->failure_count = 0;
}
