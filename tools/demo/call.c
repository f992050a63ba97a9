/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/call.h"

#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RUN_LENGTH 10u      /* operations of one command */
#define PAYLOAD_BYTES 1024u /* of a broadcast */

static const char *name_of(const struct demo_call *call)
{
    return call->verb == VERB_AGREE ? "agreement" : "broadcast";
}

/* ---- asking ---------------------------------------------------------------------- */

static struct cop_buf *make_command(enum verb verb)
{
    static const uint8_t payload[PAYLOAD_BYTES];
    if (verb == VERB_AGREE) {
        const struct agree_order order = {.algorithm = COP_AGREE_EARLY,
                                          .op = COP_AGREE_SUM,
                                          .value = 1,
                                          .count = RUN_LENGTH,
                                          .window = 1,
                                          .timeout_ns = DEMO_WAIT_NS};
        return agree_order_encode(&order);
    }
    const struct bcast_command command = {
        .run = {.count = RUN_LENGTH, .timeout_ns = DEMO_WAIT_NS},
        .payload = {payload, sizeof payload}};
    return bcast_command_encode(&command);
}

static int ask(struct demo_call *call)
{
    int error = client_send(&call->client, call->verb, call->command);
    call->is_running = error == 0;
    return error;
}

int demo_call_begin(const struct local *local, enum verb verb, cop_id from,
                    struct demo_call *out)
{
    struct demo_call call = {.verb = verb, .client = {.fd = -1}};
    call.command = make_command(verb);
    int error = call.command ? 0 : COP_ENOMEM;
    if (!error)
        error = local_connect(local, from, &call.client);
    if (!error)
        error = ask(&call);
    if (error) {
        demo_call_free(&call);
        return fail(EXIT_FAILED, "%ss cannot be begun: %s", name_of(&call),
                    cop_strerror(error));
    }
    *out = call;
    return 0;
}

/* ---- answers --------------------------------------------------------------------- */

static void note_fault(struct demo_call *call, const char *what, uint32_t number,
                       const char *detail)
{
    if (call->fault[0] == '\0')
        snprintf(call->fault, sizeof call->fault, "%s of number %" PRIu32 ": %s", what,
                 number, detail);
}

static int push(struct demo_call *call, cop_time at, cop_time elapsed, uint64_t members,
                int status)
{
    if (call->count == call->capacity) {
        uint32_t capacity = call->capacity * 2 + 256;
        struct demo_op *ops = realloc(call->ops, capacity * sizeof *ops);
        if (ops == NULL)
            return COP_ENOMEM;
        call->ops = ops;
        call->capacity = capacity;
    }
    call->ops[call->count++] = (struct demo_op){at, elapsed, members};
    if (status != 0)
        note_fault(call, "the result", call->count, cop_strerror(status));
    return 0;
}

static int take_bcast(struct demo_call *call, struct cop__bytes body)
{
    struct probe_reply reply = {0};
    int error = probe_reply_decode(body, &reply);
    for (uint32_t i = 0; i < reply.count && !error; i++) {
        const struct probe_sample *sample = &reply.samples[i];
        error = push(call, sample->at_ns, sample->elapsed_ns, sample->answered,
                     sample->status);
        if (sample->silent != 0)
            note_fault(call, "the answers", call->count, "somebody is silent");
    }
    probe_reply_free(&reply);
    return error;
}

static int note_failed(struct demo_call *call, const struct cop_ranks *failed)
{
    int error = 0;
    for (uint32_t i = 0; i < failed->count && !error; i++) {
        uint32_t k = 0;
        while (k < call->failed.count && call->failed.items[k] != failed->items[i])
            k++;
        if (k == call->failed.count)
            error = cop_ranks_push(&call->failed, failed->items[i]);
    }
    return error;
}

static int take_agree(struct demo_call *call, struct cop__bytes body, bool is_last)
{
    struct agree_reply reply = {0};
    int error = agree_reply_decode(body, &reply);
    for (uint32_t i = 0; i < reply.count && !error; i++) {
        const struct agree_sample *sample = &reply.samples[i];
        error = push(call, sample->at_ns, sample->elapsed_ns, sample->value,
                     sample->status);
    }
    if (!error)
        error = note_failed(call, &reply.failed);
    /* Agents compare, by one more agreement, what all who live have got. */
    if (!error && is_last && reply.verdict != AGREE_SAME)
        note_fault(call, "the result", call->count,
                   reply.verdict == AGREE_DIFFERENT
                       ? "not the same at all who live"
                       : "not known to be the same at all who live");
    agree_reply_free(&reply);
    return error;
}

int demo_call_take(struct demo_call *call, bool is_end)
{
    struct client_reply reply;
    int error = client_receive(&call->client, DEMO_WAIT_NS, &reply);
    if (!error)
        error = reply.status;
    if (!error)
        error = call->verb == VERB_AGREE ? take_agree(call, reply.body, !reply.more)
                                         : take_bcast(call, reply.body);
    if (!error && !reply.more) {
        call->runs++;
        call->is_running = false;
        if (!is_end)
            error = ask(call);
    }
    return error ? fail(EXIT_FAILED, "%s %" PRIu32 " failed: %s", name_of(call),
                        call->count + 1, cop_strerror(error))
                 : 0;
}

bool demo_call_has_since(const struct demo_call *call, cop_time at_ns)
{
    return call->count > 0 && call->ops[call->count - 1].at_ns >= at_ns;
}

/* ---- what came of it ------------------------------------------------------------- */

static cop_time end_of(const struct demo_op *op) { return op->at_ns + op->elapsed_ns; }

/*
 * Before the kill all take part. After it those who live do, and a victim may have done so
 * just before it died. Once an operation is without all victims, every later one is.
 */
static void check_members(struct demo_call *call, uint32_t n,
                          const struct demo_victims *victims, struct demo_claim *claim)
{
    uint32_t alive = n - DEMO_VICTIMS;
    for (uint32_t i = 0; i < call->count; i++) {
        const struct demo_op *op = &call->ops[i];
        bool is_before = end_of(op) < victims->killed_ns;
        uint64_t least = is_before ? n : alive;
        uint64_t most = claim->healed_ns == 0 ? n : alive;
        if (op->members < least || op->members > most) {
            char text[80];
            snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " to %" PRIu64,
                     op->members, least, most);
            note_fault(call, "who took part", i + 1, text);
        }
        if (!is_before && op->elapsed_ns > claim->slowest_ns)
            claim->slowest_ns = op->elapsed_ns;
        if (!is_before && claim->healed_ns == 0 && op->members == alive)
            claim->healed_ns = end_of(op) - victims->killed_ns;
    }
    if (claim->healed_ns == 0)
        note_fault(call, "none up to that", call->count, "is of the survivors alone");
}

static int by_time(const void *a, const void *b)
{
    cop_time x = *(const cop_time *)a, y = *(const cop_time *)b;
    return (x > y) - (x < y);
}

/* Of those that were over before the kill; 0 if there are none. */
static int median_before(const struct demo_call *call, cop_time killed_ns,
                         cop_time *out)
{
    cop_time *times = malloc((call->count + 1) * sizeof *times);
    uint32_t count = 0;
    if (times == NULL)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < call->count; i++)
        if (end_of(&call->ops[i]) < killed_ns)
            times[count++] = call->ops[i].elapsed_ns;
    qsort(times, count, sizeof *times, by_time);
    *out = count > 0 ? times[(count - 1) / 2] : 0;
    free(times);
    return 0;
}

static void check_failed(struct demo_call *call, const struct demo_victims *victims)
{
    for (uint32_t i = 0; i < call->failed.count; i++)
        if (!demo_is_victim(victims, call->failed.items[i]))
            note_fault(call, "some up to that", call->count,
                       "somebody who lives is called failed");
}

int demo_call_claim(struct demo_call *call, uint32_t n,
                    const struct demo_victims *victims, struct demo_claim *out)
{
    struct demo_claim claim = {
        .name = name_of(call), .count = call->count, .ops = call->ops};
    int error = median_before(call, victims->killed_ns, &claim.median_ns);
    if (error)
        return fail(EXIT_FAILED, "%s", cop_strerror(error));
    check_members(call, n, victims, &claim);
    check_failed(call, victims);
    claim.is_kept = call->fault[0] == '\0';
    if (!claim.is_kept)
        snprintf(claim.text, sizeof claim.text, "%s", call->fault);
    else if (call->verb == VERB_AGREE)
        snprintf(claim.text, sizeof claim.text,
                 "%" PRIu32 " times the same result at all who live", call->count);
    else
        snprintf(claim.text, sizeof claim.text,
                 "%" PRIu32 " of 1 KiB: nobody who lives was missed", call->count);
    *out = claim;
    return 0;
}

void demo_call_free(struct demo_call *call)
{
    client_close(&call->client);
    cop_buf_unref(call->command);
    free(call->ops);
    cop_ranks_free(&call->failed);
    *call = (struct demo_call){.client = {.fd = -1}};
}
