/* SPDX-License-Identifier: Apache-2.0 */
#include "talk/agree_body.h"

#include "base/assert.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[] = {"and", "or", "sum", "min", "max"};

const char *agree_op_name(uint32_t op)
{
    return op < sizeof op_names / sizeof *op_names ? op_names[op] : NULL;
}

int agree_op_parse(const char *text, uint32_t *out)
{
    for (uint32_t op = 0; agree_op_name(op) != NULL; op++) {
        if (strcmp(text, op_names[op]) == 0) {
            *out = op;
            return 0;
        }
    }
    return COP_ENOENT;
}

/* ---- orders ---------------------------------------------------------------------- */

#define ORDER_SIZE (4u + 4 + 4 + 8 + 4 + 4 + 4 + 4 + 4 + 4 + 8 + 4)

static void put_order(struct cop__writer *writer, const struct agree_order *order)
{
    cop__put_u32(writer, (uint32_t)order->algorithm);
    cop__put_u32(writer, order->op);
    cop__put_u32(writer, (uint32_t)order->source);
    cop__put_u64(writer, order->value);
    cop__put_u32(writer, order->count);
    cop__put_u32(writer, order->warm_up);
    cop__put_u32(writer, order->window);
    cop__put_u32(writer, order->skew_ms);
    cop__put_u32(writer, order->keep_tree);
    cop__put_u32(writer, order->with_dead);
    cop__put_u64(writer, order->timeout_ns);
    cop__put_bytes(writer, (struct cop__bytes){(const uint8_t *)order->shape,
                                               (uint32_t)strlen(order->shape)});
}

static bool is_possible(const struct agree_order *order)
{
    return (unsigned)order->algorithm < COP_ALGORITHMS && agree_op_name(order->op) &&
           (unsigned)order->source <= AGREE_ID && order->count >= 1 &&
           order->count <= AGREEMENTS_MAX && order->warm_up <= AGREE_WARM_UP_MAX &&
           order->window >= 1 && order->window <= COP_AGREE_WINDOW_MAX &&
           order->skew_ms <= 60000;
}

static int get_order(struct cop__reader *reader, struct agree_order *out)
{
    struct agree_order order = {0};
    order.algorithm = (enum cop_algorithm)cop__get_u32(reader);
    order.op = cop__get_u32(reader);
    order.source = (enum agree_source)cop__get_u32(reader);
    order.value = cop__get_u64(reader);
    order.count = cop__get_u32(reader);
    order.warm_up = cop__get_u32(reader);
    order.window = cop__get_u32(reader);
    order.skew_ms = cop__get_u32(reader);
    order.keep_tree = cop__get_u32(reader) != 0;
    order.with_dead = cop__get_u32(reader) != 0;
    order.timeout_ns = cop__get_u64(reader);
    struct cop__bytes shape = cop__get_bytes(reader);
    if (reader->failed || shape.length >= sizeof order.shape || !is_possible(&order))
        return COP_EMALFORMED;
    if (shape.length > 0)
        memcpy(order.shape, shape.data, shape.length);
    *out = order;
    return 0;
}

struct cop_buf *agree_order_encode(const struct agree_order *order)
{
    struct cop_buf *buf = cop_buf_create(ORDER_SIZE + strlen(order->shape));
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    put_order(&writer, order);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int agree_order_decode(struct cop__bytes body, struct agree_order *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    int error = get_order(&reader, out);
    return error == 0 && !cop__reader_is_done(&reader) ? COP_EMALFORMED : error;
}

/* ---- from agent to agent --------------------------------------------------------- */

/* So that no other message of an agent is taken for one of these. */
#define START_MARK UINT32_C(0x41475231)
#define LIFE_SIZE 12u

struct cop_buf *agree_start_encode(const struct agree_start *start)
{
    size_t length = 4 + ORDER_SIZE + strlen(start->order.shape) + 8 + 4 +
                    (size_t)start->count * LIFE_SIZE;
    struct cop_buf *buf = cop_buf_create(length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, START_MARK);
    put_order(&writer, &start->order);
    cop__put_u64(&writer, start->group);
    cop__put_u32(&writer, start->count);
    for (uint32_t i = 0; i < start->count; i++) {
        cop__put_u32(&writer, start->members[i].id);
        cop__put_u64(&writer, start->members[i].incarnation);
    }
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int agree_start_decode(struct cop__bytes body, struct agree_start *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct agree_start start = {0};
    if (cop__get_u32(&reader) != START_MARK || get_order(&reader, &start.order) != 0)
        return COP_EMALFORMED;
    start.group = cop__get_u64(&reader);
    struct cop__list list = cop__get_list(&reader, LIFE_SIZE);
    if (!cop__reader_is_done(&reader) || list.count == 0)
        return COP_EMALFORMED;
    struct cop__reader each = cop__reader(list.data, (size_t)list.count * LIFE_SIZE);
    start.count = list.count;
    start.members = calloc(list.count, sizeof *start.members);
    if (start.members == NULL)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < list.count; i++) {
        start.members[i].id = cop__get_u32(&each);
        start.members[i].incarnation = cop__get_u64(&each);
    }
    *out = start;
    return 0;
}

void agree_start_free(struct agree_start *start)
{
    free(start->members);
    *start = (struct agree_start){0};
}

/* ---- replies --------------------------------------------------------------------- */

#define SAMPLE_SIZE (8u + 8 + 8 + 8 + 4 + 4)

struct cop_buf *agree_reply_encode(const struct agree_reply *reply)
{
    size_t length = 4 + 4 + 4 + (size_t)reply->count * SAMPLE_SIZE + 8 + 4 + 4 + 4 +
                    4 * (size_t)reply->failed.count;
    struct cop_buf *buf = cop_buf_create(length);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, reply->self);
    cop__put_u32(&writer, reply->members);
    cop__put_u32(&writer, reply->count);
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct agree_sample *sample = &reply->samples[i];
        cop__put_u64(&writer, sample->at_ns);
        cop__put_u64(&writer, sample->elapsed_ns);
        cop__put_u64(&writer, sample->value);
        cop__put_u64(&writer, sample->round);
        cop__put_u32(&writer, (uint32_t)sample->status);
        cop__put_u32(&writer, sample->failed);
    }
    cop__put_u64(&writer, reply->epoch);
    cop__put_u32(&writer, reply->root);
    cop__put_u32(&writer, (uint32_t)reply->verdict);
    cop__put_u32(&writer, reply->failed.count);
    for (uint32_t i = 0; i < reply->failed.count; i++)
        cop__put_u32(&writer, reply->failed.items[i]);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

static int get_samples(struct cop__reader *reader, struct agree_reply *reply)
{
    struct cop__list list = cop__get_list(reader, SAMPLE_SIZE);
    struct cop__reader each = cop__reader(list.data, (size_t)list.count * SAMPLE_SIZE);
    if (reader->failed || list.count > AGREE_CHUNK_MAX)
        return COP_EMALFORMED;
    reply->count = list.count;
    reply->samples = calloc(list.count ? list.count : 1, sizeof *reply->samples);
    if (reply->samples == NULL)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < list.count; i++) {
        struct agree_sample *sample = &reply->samples[i];
        sample->at_ns = cop__get_u64(&each);
        sample->elapsed_ns = cop__get_u64(&each);
        sample->value = cop__get_u64(&each);
        sample->round = cop__get_u64(&each);
        sample->status = (int32_t)cop__get_u32(&each);
        sample->failed = cop__get_u32(&each);
    }
    return 0;
}

int agree_reply_decode(struct cop__bytes body, struct agree_reply *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct agree_reply reply = {0};
    reply.self = cop__get_u32(&reader);
    reply.members = cop__get_u32(&reader);
    int error = get_samples(&reader, &reply);
    reply.epoch = cop__get_u64(&reader);
    reply.root = cop__get_u32(&reader);
    reply.verdict = (enum agree_verdict)cop__get_u32(&reader);
    struct cop__list list = cop__get_list(&reader, 4);
    struct cop__reader each = cop__reader(list.data, (size_t)list.count * 4);
    if (!error && (!cop__reader_is_done(&reader) || reply.verdict > AGREE_DIFFERENT))
        error = COP_EMALFORMED;
    for (uint32_t i = 0; i < list.count && !error; i++)
        error = cop_ranks_push(&reply.failed, cop__get_u32(&each));
    if (error)
        agree_reply_free(&reply);
    else
        *out = reply;
    return error;
}

void agree_reply_free(struct agree_reply *reply)
{
    free(reply->samples);
    cop_ranks_free(&reply->failed);
    *reply = (struct agree_reply){0};
}
