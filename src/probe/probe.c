/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

#include "base/random.h"
#include "roster/roster.h"

#include <stdlib.h>

/* What a sub-tree says: how many they are, and the sum of their fingerprints. */
struct share {
    uint64_t count, fingerprint;
};
#define SHARE_SIZE 16u

uint64_t cop_probe_fingerprint(cop_id id) { return cop__mix64((uint64_t)id + 1); }

static struct cop_buf *encode_share(struct share share)
{
    struct cop_buf *buf = cop_buf_create(SHARE_SIZE);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, SHARE_SIZE);
    cop__put_u64(&writer, share.count);
    cop__put_u64(&writer, share.fingerprint);
    return buf;
}

static struct share decode_share(struct cop__bytes bytes)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct share share;
    share.count = cop__get_u64(&reader);
    share.fingerprint = cop__get_u64(&reader);
    return share;
}

/* ---- the protocol ---------------------------------------------------------------- */

static void on_ask(struct cop_node *node, struct cop__sweep *sweep)
{
    struct share mine = {1, cop_probe_fingerprint(node->self)};
    cop__sweep_contribute(node, sweep, encode_share(mine));
}

static struct cop_buf *fold(const struct cop__bytes *payloads, uint32_t count)
{
    struct share sum = {0, 0};
    for (uint32_t i = 0; i < count; i++) {
        struct share share = decode_share(payloads[i]);
        sum.count += share.count;
        sum.fingerprint += share.fingerprint;
    }
    return encode_share(sum);
}

static bool accept(struct cop__bytes payload) { return payload.length == SHARE_SIZE; }

/* ---- the result ------------------------------------------------------------------ */

static void put_ranks(struct cop__writer *writer, const struct cop_node *node,
                      const struct cop_ranks *missing, bool suspects)
{
    uint8_t *at = writer->at;
    uint32_t count = 0;
    cop__put_u32(writer, 0);
    for (uint32_t i = 0; i < missing->count; i++) {
        if (cop__roster_is_suspect(node, missing->items[i]) != suspects)
            continue;
        cop__put_u32(writer, missing->items[i]);
        count++;
    }
    struct cop__writer length = cop__writer(at, 4);
    cop__put_u32(&length, count);
}

/* Where views change, the one in which it was asked may be gone: then those who answered and
 * those who did not. Elsewhere no word of a peer decides it. */
static uint32_t count_asked(const struct cop_node *node, const struct share *share,
                            const struct cop__sweep_result *result)
{
    if (!cop__has_views(node))
        return cop_view_size(node->view);
    return (uint32_t)share->count + result->missing.count;
}

static struct cop_buf *encode_result(const struct cop_node *node,
                                     const struct cop__sweep *sweep,
                                     const struct cop__sweep_result *result)
{
    struct share share = {0, 0};
    if (result->payload)
        share = decode_share(
            (struct cop__bytes){result->payload->data, result->payload->length});
    size_t size = 4 + 4 + 8 + 8 + 4 + 4 + 4 * (size_t)result->missing.count;
    struct cop_buf *buf = cop_buf_create(size);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u32(&writer, count_asked(node, &share, result));
    cop__put_u32(&writer, (uint32_t)share.count);
    cop__put_u64(&writer, share.fingerprint);
    cop__put_u64(&writer, node->now - cop__sweep_started(sweep));
    put_ranks(&writer, node, &result->missing, true);
    put_ranks(&writer, node, &result->missing, false);
    return buf;
}

static int get_ranks(struct cop__reader *reader, struct cop_ranks *out)
{
    struct cop__list list = cop__get_list(reader, 4);
    struct cop__reader items = cop__reader(list.data, (size_t)list.count * 4);
    for (uint32_t i = 0; i < list.count; i++)
        if (cop_ranks_push(out, cop__get_u32(&items)))
            return COP_ENOMEM;
    return reader->failed ? COP_EMALFORMED : 0;
}

int cop_probe_result(const struct cop_buf *result, struct cop_probe_result *out)
{
    struct cop_probe_result found = {0};
    struct cop__reader reader = cop__reader(result->data, result->length);
    found.members = cop__get_u32(&reader);
    found.answered = cop__get_u32(&reader);
    found.fingerprint = cop__get_u64(&reader);
    found.elapsed_ns = cop__get_u64(&reader);
    int error = get_ranks(&reader, &found.dead);
    if (!error)
        error = get_ranks(&reader, &found.silent);
    if (!error && !cop__reader_is_done(&reader))
        error = COP_EMALFORMED;
    if (error) {
        cop_probe_result_free(&found);
        return error;
    }
    *out = found;
    return 0;
}

void cop_probe_result_free(struct cop_probe_result *result)
{
    cop_ranks_free(&result->dead);
    cop_ranks_free(&result->silent);
}

/* ---- ending ---------------------------------------------------------------------- */

static void on_complete(struct cop_node *node, struct cop__sweep *sweep, int status)
{
    struct cop__sweep_result result;
    struct cop_buf *buf = NULL;
    if (status == COP_EABORTED) {
        cop__emit_complete(node, cop__sweep_token(sweep), status, NULL);
        return;
    }
    if (cop__sweep_result(node, sweep, &result)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    buf = encode_result(node, sweep, &result);
    if (!buf) {
        cop__fail(node, COP_ENOMEM);
    } else {
        if (cop__sweep_wants_outcome(sweep))
            cop__sweep_conclude(node, sweep, status,
                                (struct cop__bytes){buf->data, buf->length});
        cop__emit_complete(node, cop__sweep_token(sweep), status, buf);
    }
    cop_buf_unref(result.payload);
    cop_ranks_free(&result.missing);
}

/* Those who hear how it ended have nothing to do with it. */
static void on_outcome(struct cop_node *node, struct cop__sweep *sweep, int status,
                       struct cop__bytes payload)
{
    (void)node;
    (void)sweep;
    (void)status;
    (void)payload;
}

static int on_submit(struct cop_node *node, const struct cop_request *request)
{
    if (request->kind == COP_REQUEST_ABORT)
        return cop__sweep_abort(node, COP__PROBE_PROTOCOL, request->target);
    if (request->kind != COP_REQUEST_PROBE)
        return COP_ENOENT;
    struct cop__sweep_options options = {
        .protocol = COP__PROBE_PROTOCOL,
        .outcome = request->outcome,
        .shape = request->shape,
        .timeout_ns = request->timeout_ns ? request->timeout_ns : COP__PROBE_TIMEOUT,
        .token = request->token,
    };
    return cop__sweep_start(node, &options);
}

const struct cop__protocol cop__probe_protocol = {
    .name = "probe",
    .on_ask = on_ask,
    .fold = fold,
    .accept = accept,
    .on_complete = on_complete,
    .on_outcome = on_outcome,
};

const struct cop__layer cop__probe_layer = {
    .name = "probe",
    .on_submit = on_submit,
};
