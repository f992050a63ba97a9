/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/agreer.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* Samples come when all is over, which may take nearly as long as all time-outs together. The
 * agent keeps them; what comes on top is for a machine that has much to do. */
static cop_time timeout_of(const struct agree_order *order)
{
    cop_time day = 86400 * COP_SEC,
             each = order->timeout_ns + order->skew_ms * COP_MSEC;
    uint64_t count = (uint64_t)order->count + order->warm_up + 1;
    return each > day / count ? day : each * count + 5 * COP_SEC;
}

static int take(struct agreer *agreer, struct agree_reply *reply)
{
    uint64_t count = (uint64_t)agreer->count + reply->count;
    if (count > AGREEMENTS_MAX)
        return COP_EMALFORMED;
    struct agree_sample *samples =
        realloc(agreer->samples, ((size_t)count + 1) * sizeof *samples);
    if (samples == NULL)
        return COP_ENOMEM;
    memcpy(samples + agreer->count, reply->samples, reply->count * sizeof *samples);
    agreer->samples = samples;
    agreer->count = (uint32_t)count;
    agreer->self = reply->self;
    agreer->members = reply->members;
    agreer->epoch = reply->epoch;
    agreer->root = reply->root;
    agreer->verdict = reply->verdict;
    cop_ranks_free(&agreer->failed);
    agreer->failed = reply->failed;
    reply->failed = (struct cop_ranks){0};
    return 0;
}

static int receive(struct client *client, cop_time timeout_ns, struct agreer *agreer,
                   bool *more)
{
    struct client_reply got;
    struct agree_reply reply = {0};
    int error = client_receive(client, timeout_ns, &got);
    if (!error)
        error = got.status;
    if (!error)
        error = agree_reply_decode(got.body, &reply);
    if (!error)
        error = take(agreer, &reply);
    if (!error)
        *more = got.more;
    agree_reply_free(&reply);
    return error;
}

int agreer_run(struct client *client, const struct agree_order *order,
               struct agreer *out)
{
    struct agreer agreer = {0};
    struct cop_buf *body = agree_order_encode(order);
    if (body == NULL)
        return COP_ENOMEM;
    int error = client_send(client, VERB_AGREE, body);
    cop_buf_unref(body);
    for (bool more = true; more && !error;)
        error = receive(client, timeout_of(order), &agreer, &more);
    if (!error && (agreer.count == 0 || agreer.count > order->count))
        error = COP_EMALFORMED;
    if (error)
        agreer_free(&agreer);
    else
        *out = agreer;
    return error;
}

void agreer_free(struct agreer *agreer)
{
    free(agreer->samples);
    cop_ranks_free(&agreer->failed);
    *agreer = (struct agreer){0};
}

static int compare_times(const void *a, const void *b)
{
    cop_time x = *(const cop_time *)a, y = *(const cop_time *)b;
    return (x > y) - (x < y);
}

cop_time *agreer_sorted(const struct agreer *agreer)
{
    cop_time *times = malloc(((size_t)agreer->count + 1) * sizeof *times);
    if (times == NULL)
        return NULL;
    for (uint32_t i = 0; i < agreer->count; i++)
        times[i] = agreer->samples[i].elapsed_ns;
    qsort(times, agreer->count, sizeof *times, compare_times);
    return times;
}
