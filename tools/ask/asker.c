/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/asker.h"

#include "term/say.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/*
 * A chunk may take as long as all of its probes, and a probe as long as its time-out.
 */
static cop_time chunk_timeout(const struct probe_command *command)
{
    uint64_t chunk = command->chunk ? command->chunk : PROBE_CHUNK_MAX;
    if (chunk > command->count)
        chunk = command->count;
    cop_time day = 86400 * COP_SEC;
    cop_time each = command->timeout_ns + COP_SEC;
    return each > day / chunk ? day : each * chunk + 5 * COP_SEC;
}

static int take(struct asker *asker, struct probe_reply *reply)
{
    uint64_t count = (uint64_t)asker->count + reply->count;
    if (count > PROBES_MAX)
        return COP_EMALFORMED;
    if (reply->count > 0) {
        struct probe_sample *samples =
            realloc(asker->samples, (size_t)count * sizeof *samples);
        if (samples == NULL)
            return COP_ENOMEM;
        memcpy(samples + asker->count, reply->samples, reply->count * sizeof *samples);
        asker->samples = samples;
    }
    asker->count = (uint32_t)count;
    asker->self = reply->self;
    asker->members = reply->members;
    cop_ranks_free(&asker->dead);
    cop_ranks_free(&asker->silent);
    asker->dead = reply->dead;
    asker->silent = reply->silent;
    reply->dead = reply->silent = (struct cop_ranks){0};
    return 0;
}

static int receive(struct client *client, cop_time timeout_ns, struct asker *asker,
                   bool *more)
{
    struct client_reply got;
    struct probe_reply reply = {0};
    int error = client_receive(client, timeout_ns, &got);
    if (!error)
        error = got.status;
    if (!error)
        error = probe_reply_decode(got.body, &reply);
    if (!error)
        error = take(asker, &reply);
    if (!error)
        *more = got.more;
    probe_reply_free(&reply);
    return error;
}

/* Sends the command, which it frees, and takes what comes. */
static int run(struct client *client, enum verb verb, struct cop_buf *body,
               const struct probe_command *command,
               int (*chunk)(void *context, const struct asker *asker), void *context,
               struct asker *out)
{
    struct asker asker = {0};
    if (body == NULL)
        return COP_ENOMEM;
    int error = client_send(client, verb, body);
    cop_buf_unref(body);
    for (bool more = true; more && !error;) {
        error = receive(client, chunk_timeout(command), &asker, &more);
        if (!error && chunk != NULL)
            error = chunk(context, &asker);
    }
    if (error) {
        asker_free(&asker);
        return error;
    }
    *out = asker;
    return 0;
}

int asker_run(struct client *client, const struct probe_command *command,
              int (*chunk)(void *context, const struct asker *asker), void *context,
              struct asker *out)
{
    return run(client, VERB_PROBE, probe_command_encode(command), command, chunk,
               context, out);
}

int asker_bcast(struct client *client, const struct bcast_command *command,
                struct asker *out)
{
    return run(client, VERB_BCAST, bcast_command_encode(command), &command->run, NULL,
               NULL, out);
}

void asker_free(struct asker *asker)
{
    free(asker->samples);
    cop_ranks_free(&asker->dead);
    cop_ranks_free(&asker->silent);
    *asker = (struct asker){0};
}

static int compare_times(const void *a, const void *b)
{
    cop_time x = *(const cop_time *)a, y = *(const cop_time *)b;
    return (x > y) - (x < y);
}

cop_time *asker_sorted(const struct asker *asker, uint32_t from, uint32_t to)
{
    cop_time *times = malloc((to - from + 1) * sizeof *times);
    if (times == NULL)
        return NULL;
    for (uint32_t i = from; i < to; i++)
        times[i - from] = asker->samples[i].elapsed_ns;
    qsort(times, to - from, sizeof *times, compare_times);
    return times;
}
