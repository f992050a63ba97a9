/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/script.h"

#include "sim/world.h"

#include <stdio.h>
#include <string.h>

/* The lines of a script that are about collectives: reading and printing. */

static bool parse_token(struct cop__words *words, struct cop_request *request)
{
    return cop__word_number(words, "token", UINT64_MAX, &request->token);
}

static bool parse_shape(struct cop__words *words, struct cop_shape *out)
{
    char message[200];
    const char *shape = cop__word_next(words);
    if (cop_shape_parse(shape ? shape : "", out, message, sizeof(message)) != 0)
        return cop__words_wrong(words, "%s", message);
    return true;
}

static bool parse_number(struct cop__words *words, uint64_t *out)
{
    return cop__word_number(words, "the number of the group", COP_GROUP_LEARNT - 1,
                            out);
}

bool cop__parse_group(struct cop__words *words, struct cop_sim_action *action)
{
    action->request.kind = COP_REQUEST_GROUP;
    if (!cop__word_id(words, "the node", &action->a) ||
        !parse_number(words, &action->coll.group))
        return false;
    if (cop__word_is(words, "lazy"))
        action->coll.kind = COP_GROUP_LAZY;
    else if (cop__word_is(words, "oob"))
        action->coll.kind = COP_GROUP_OOB;
    else if (!cop__word_is(words, "now"))
        return cop__words_wrong(words, "group needs 'now', 'lazy' or 'oob'");
    if (!cop__parse_set(words, &action->left))
        return false;
    while (words->at < words->count) {
        if (cop__word_is(words, "shape")) {
            if (!parse_shape(words, &action->coll.shape))
                return false;
        } else if (!cop__word_is(words, "token") ||
                   !parse_token(words, &action->request)) {
            return false;
        }
    }
    return true;
}

bool cop__parse_endgroup(struct cop__words *words, struct cop_sim_action *action)
{
    action->request.kind = COP_REQUEST_GROUP_END;
    if (!cop__word_id(words, "the node", &action->a) ||
        !parse_number(words, &action->coll.group))
        return false;
    return !cop__word_is(words, "token") || parse_token(words, &action->request);
}

static bool parse_version(struct cop__words *words, struct cop_coll *coll)
{
    uint64_t version;
    if (!cop__word_number(words, "the version", UINT32_MAX, &version))
        return false;
    coll->version = (uint32_t)version;
    return true;
}

bool cop__parse_service(struct cop__words *words, struct cop_sim_action *action)
{
    action->request.kind = COP_REQUEST_SERVICE;
    if (!cop__word_id(words, "the node", &action->a))
        return false;
    return !cop__word_is(words, "version") || parse_version(words, &action->coll);
}

bool cop__parse_unservice(struct cop__words *words, struct cop_sim_action *action)
{
    action->request.kind = COP_REQUEST_UNSERVICE;
    return cop__word_id(words, "the node", &action->a);
}

static const struct {
    const char *word;
    uint32_t flag;
} flags[] = {
    {"last", COP_BCAST_LAST},
    {"alive", COP_BCAST_ALIVE},
    {"strict", COP_BCAST_STRICT},
};

/* One of the words that set a flag. */
static bool parse_flag(struct cop__words *words, struct cop_coll *coll)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (cop__word_is(words, flags[i].word)) {
            coll->flags |= flags[i].flag;
            return true;
        }
    }
    if (!cop__word_is(words, "plain"))
        return false;
    coll->flags &= ~(uint32_t)COP_BCAST_HEAL;
    return true;
}

static bool parse_bulk(struct cop__words *words, struct cop_coll *coll)
{
    uint64_t chunk;
    if (!cop__word_number(words, "the length of the bulk", COP_BULK_MAX,
                          &coll->bulk_length) ||
        !cop__word_number(words, "the length of a chunk", COP__SIM_CHUNK_MAX, &chunk))
        return false;
    if (chunk == 0)
        return cop__words_wrong(words, "a chunk has at least one byte");
    coll->bulk_chunk = (uint32_t)chunk;
    coll->flags |= COP_BCAST_BULK;
    return true;
}

/* An option with a value; *good is false if the value is wrong. */
static bool parse_option(struct cop__words *words, struct cop_sim_action *action,
                         bool *good)
{
    uint64_t mischief;
    if (cop__word_is(words, "token")) {
        *good = parse_token(words, &action->request);
    } else if (cop__word_is(words, "group")) {
        *good = parse_number(words, &action->coll.group);
    } else if (cop__word_is(words, "timeout")) {
        *good = cop__word_time(words, "timeout", &action->request.timeout_ns);
    } else if (cop__word_is(words, "service-time")) {
        *good = cop__word_time(words, "service-time", &action->coll.service_ns);
    } else if (cop__word_is(words, "shape")) {
        *good = parse_shape(words, &action->request.shape);
    } else if (cop__word_is(words, "mischief")) {
        *good = cop__word_number(words, "mischief", COP_SIM_MISCHIEF_ALL, &mischief);
        action->mischief |= *good ? (uint32_t)mischief : 0;
    } else if (cop__word_is(words, "prompt")) {
        action->mischief |= COP_SIM_PROMPT;
    } else if (cop__word_is(words, "version")) {
        *good = parse_version(words, &action->coll);
    } else if (cop__word_is(words, "bulk")) {
        *good = parse_bulk(words, &action->coll);
    } else {
        return false;
    }
    return true;
}

bool cop__parse_bcast(struct cop__words *words, struct cop_sim_action *action)
{
    bool good = true;
    action->request.kind = COP_REQUEST_BCAST;
    action->coll.flags = COP_BCAST_HEAL;
    if (!cop__word_id(words, "the node", &action->a))
        return false;
    while (good && words->at < words->count)
        if (!parse_flag(words, &action->coll) && !parse_option(words, action, &good))
            break;
    return good;
}

/* ---- printing -------------------------------------------------------------------- */

static size_t put_time(char *out, size_t size, size_t used, const char *word,
                       cop_time time)
{
    char text[32];
    cop__print_time(time, text);
    int n = time && used < size
                ? snprintf(out + used, size - used, " %s %s", word, text)
                : 0;
    return used + (n > 0 ? (size_t)n : 0);
}

static size_t put_number(char *out, size_t size, size_t used, const char *word,
                         uint64_t number)
{
    int n = number && used < size ? snprintf(out + used, size - used, " %s %llu", word,
                                             (unsigned long long)number)
                                  : 0;
    return used + (n > 0 ? (size_t)n : 0);
}

static size_t put_shape(char *out, size_t size, size_t used,
                        const struct cop_shape *shape)
{
    char text[64];
    if (!shape->kind || used >= size)
        return used;
    cop_shape_print(shape, text, sizeof(text));
    int n = snprintf(out + used, size - used, " shape %s", text);
    return used + (n > 0 ? (size_t)n : 0);
}

static void print_bcast(const struct cop_sim_action *action, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "bcast %u", (unsigned)action->a);
    used = put_number(out, size, used, "group", action->coll.group);
    used = put_number(out, size, used, "token", action->request.token);
    used = put_time(out, size, used, "timeout", action->request.timeout_ns);
    used = put_time(out, size, used, "service-time", action->coll.service_ns);
    used = put_shape(out, size, used, &action->request.shape);
    used = put_number(out, size, used, "version", action->coll.version);
    used = put_number(out, size, used, "mischief",
                      action->mischief & COP_SIM_MISCHIEF_ALL);
    if ((action->mischief & COP_SIM_PROMPT) && used < size)
        used += (size_t)snprintf(out + used, size - used, " prompt");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if ((action->coll.flags & flags[i].flag) && used < size)
            used += (size_t)snprintf(out + used, size - used, " %s", flags[i].word);
    if ((action->coll.flags & COP_BCAST_BULK) && used < size)
        used += (size_t)snprintf(out + used, size - used, " bulk %llu %u",
                                 (unsigned long long)action->coll.bulk_length,
                                 (unsigned)action->coll.bulk_chunk);
    if (!(action->coll.flags & COP_BCAST_HEAL) && used < size)
        snprintf(out + used, size - used, " plain");
}

void cop__print_coll(const struct cop_sim_action *action, char *out, size_t size)
{
    static const char *const kinds[] = {
        [COP_GROUP_NOW] = "now", [COP_GROUP_LAZY] = "lazy", [COP_GROUP_OOB] = "oob"};
    char members[200];
    size_t used;
    if (action->kind == COP_SIM_BCAST) {
        print_bcast(action, out, size);
        return;
    }
    if (action->kind == COP_SIM_SERVICE || action->kind == COP_SIM_UNSERVICE) {
        used =
            (size_t)snprintf(out, size, "%s %u",
                             action->kind == COP_SIM_SERVICE ? "service" : "unservice",
                             (unsigned)action->a);
        put_number(out, size, used, "version", action->coll.version);
        return;
    }
    cop__print_set(&action->left, members, sizeof(members));
    if (action->kind == COP_SIM_GROUP)
        used = (size_t)snprintf(out, size, "group %u %llu %s %s", (unsigned)action->a,
                                (unsigned long long)action->coll.group,
                                kinds[action->coll.kind], members);
    else
        used = (size_t)snprintf(out, size, "endgroup %u %llu", (unsigned)action->a,
                                (unsigned long long)action->coll.group);
    used = put_shape(out, size, used, &action->coll.shape);
    put_number(out, size, used, "token", action->request.token);
}
