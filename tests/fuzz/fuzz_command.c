/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of commands and replies: any bytes are refused or decoded, and what was
 * decoded encodes to the same bytes again. The first byte says which of them it is.
 */
#include "base/assert.h"
#include "talk/command.h"

#include <coppice/error.h>
#include <string.h>

static void check_same(struct cop_buf *again, struct cop__bytes body)
{
    COP_ASSERT(again != NULL && again->length == body.length);
    COP_ASSERT(memcmp(again->data, body.data, body.length) == 0);
    cop_buf_unref(again);
}

static void try_probe_command(struct cop__bytes body)
{
    struct probe_command command;
    if (probe_command_decode(body, &command) == 0)
        COP_ASSERT(command.count >= 1 && command.chunk >= 1 &&
                   command.chunk <= PROBE_CHUNK_MAX && strlen(command.shape) < 64);
}

static void try_probe_reply(struct cop__bytes body)
{
    struct probe_reply reply;
    if (probe_reply_decode(body, &reply) != 0)
        return;
    check_same(probe_reply_encode(&reply), body);
    probe_reply_free(&reply);
}

static void try_list_reply(struct cop__bytes body)
{
    struct list_reply reply;
    if (list_reply_decode(body, &reply) != 0)
        return;
    for (uint32_t i = 0; i < reply.count; i++)
        COP_ASSERT(reply.members[i].state <= MEMBER_DEAD);
    list_reply_free(&reply);
}

static void try_ids(struct cop__bytes body)
{
    struct cop_ranks ids = {0};
    uint32_t number;
    if (ids_decode(body, &number, &ids) == 0)
        check_same(ids_encode(number, ids.items, ids.count), body);
    cop_ranks_free(&ids);
}

static void try_down_reply(struct cop__bytes body)
{
    struct down_reply reply;
    if (down_reply_decode(body, &reply) != 0)
        return;
    check_same(down_reply_encode(&reply), body);
    cop_ranks_free(&reply.unclean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(struct cop__bytes) = {
        try_probe_command, try_probe_reply, try_list_reply, try_ids, try_down_reply};
    if (size < 1 || size > 65536)
        return 0;
    struct cop__bytes body = {data + 1, (uint32_t)(size - 1)};
    tries[data[0] % (sizeof tries / sizeof *tries)](body);
    return 0;
}
