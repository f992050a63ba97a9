/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/script.h"

#include "sim/world.h"

#include <stdio.h>
#include <string.h>

/* The lines that say what happens: reading and printing. */

/* ---- reading --------------------------------------------------------------------- */

/* "3" or "3-7", in one word. */
static bool parse_range(const char *text, struct cop_sim_range *out)
{
    unsigned first;
    unsigned last;
    char rest;
    int got = sscanf(text, "%9u-%9u%c", &first, &last, &rest);
    if (got == 1 && sscanf(text, "%9u%c", &first, &rest) == 1)
        last = first;
    else if (got != 2 || last < first)
        return false;
    out->first = first;
    out->last = last;
    return true;
}

/* "1-4,6": a list of ranges in one word. */
bool cop__parse_set(struct cop__words *words, struct cop_sim_set *out)
{
    const char *word = cop__word_next(words);
    if (!word)
        return cop__words_wrong(words, "a list such as 1-4,6 is missing");
    out->count = 0;
    for (const char *at = word; *at;) {
        char text[24];
        size_t length = strcspn(at, ",");
        snprintf(text, sizeof(text), "%.*s", length < 23 ? (int)length : 23, at);
        if (out->count == COP_SIM_RANGES ||
            !parse_range(text, &out->ranges[out->count]))
            return cop__words_wrong(words,
                                    "'%s' is not a list of up to %d ranges like 1-4,6",
                                    word, COP_SIM_RANGES);
        out->count++;
        at += length + (at[length] == ',');
    }
    return true;
}

static bool parse_probe(struct cop__words *words, struct cop_sim_action *action)
{
    struct cop_request *request = &action->request;
    action->kind = COP_SIM_PROBE;
    request->kind = COP_REQUEST_PROBE;
    if (!cop__word_id(words, "the node", &action->a))
        return false;
    while (words->at < words->count) {
        char message[200];
        if (cop__word_is(words, "outcome")) {
            request->outcome = true;
        } else if (cop__word_is(words, "timeout")) {
            if (!cop__word_time(words, "timeout", &request->timeout_ns))
                return false;
        } else if (cop__word_is(words, "token")) {
            if (!cop__word_number(words, "token", UINT64_MAX, &request->token))
                return false;
        } else if (cop__word_is(words, "shape")) {
            const char *shape = cop__word_next(words);
            if (cop_shape_parse(shape ? shape : "", &request->shape, message,
                                sizeof(message)) != 0)
                return cop__words_wrong(words, "%s", message);
        } else {
            break;
        }
    }
    return true;
}

static bool parse_abort(struct cop__words *words, struct cop_sim_action *action)
{
    action->kind = COP_SIM_ABORT;
    action->request.kind = COP_REQUEST_ABORT;
    return cop__word_id(words, "the node", &action->a) &&
           cop__word_number(words, "the token", UINT64_MAX, &action->request.target);
}

static bool parse_crash(struct cop__words *words, struct cop_sim_action *action)
{
    struct cop_sim_range range;
    const char *word = cop__word_next(words);
    action->kind = COP_SIM_CRASH;
    if (!word || !parse_range(word, &range))
        return cop__words_wrong(words, "crash needs a node, or a range like 4-7");
    action->a = range.first;
    action->b = range.last > range.first ? range.last : COP_ID_NONE;
    return true;
}

static bool parse_slow(struct cop__words *words, struct cop_sim_action *action)
{
    action->kind = COP_SIM_SLOW;
    if (!cop__word_id(words, "the node", &action->a))
        return false;
    if (cop__word_is(words, ">")) {
        action->kind = COP_SIM_SLOW_LINK;
        if (!cop__word_id(words, "the receiver", &action->b))
            return false;
    }
    return cop__word_time(words, "the delay", &action->amount_ns);
}

static bool parse_partition(struct cop__words *words, struct cop_sim_action *action)
{
    action->kind = COP_SIM_PARTITION;
    if (!cop__parse_set(words, &action->left))
        return false;
    action->one_way = cop__word_is(words, ">");
    if (!action->one_way && !cop__word_is(words, "|"))
        return cop__words_wrong(words,
                                "partition needs '|', or '>' for one way, between "
                                "its lists");
    return cop__parse_set(words, &action->right);
}

static bool parse_pair(struct cop__words *words, struct cop_sim_action *action)
{
    if (!cop__word_id(words, "the node", &action->a))
        return false;
    if (action->kind == COP_SIM_LIE && !cop__word_is(words, "about"))
        return cop__words_wrong(words, "lie needs 'about'");
    return cop__word_id(words, "the other node", &action->b);
}

static bool parse_join(struct cop__words *words, struct cop_sim_action *action)
{
    action->spare = cop__word_is(words, "spare");
    return true;
}

static bool parse_leave(struct cop__words *words, struct cop_sim_action *action)
{
    action->request.kind = COP_REQUEST_LEAVE;
    return cop__word_id(words, "the node", &action->a);
}

static bool parse_send(struct cop__words *words, struct cop_sim_action *action)
{
    action->request.kind = COP_REQUEST_SEND;
    if (!cop__word_id(words, "the node", &action->a))
        return false;
    if (!cop__word_is(words, ">"))
        return cop__words_wrong(words, "send needs '>'");
    if (!cop__word_id(words, "the receiver", &action->b))
        return false;
    action->request.member = action->b;
    return cop__word_is(words, "token")
               ? cop__word_number(words, "token", UINT64_MAX, &action->request.token)
               : cop__words_wrong(words, "send needs 'token K'");
}

static bool parse_report(struct cop__words *words, struct cop_sim_action *action)
{
    action->request.kind = COP_REQUEST_REPORT;
    if (!cop__word_id(words, "the node", &action->a))
        return false;
    if (!cop__word_is(words, "about"))
        return cop__words_wrong(words, "the word 'about' is missing");
    if (!cop__word_id(words, "the other node", &action->b))
        return false;
    action->request.member = action->b;
    return true;
}

static bool parse_inquire(struct cop__words *words, struct cop_sim_action *action)
{
    bool good = parse_report(words, action);
    action->request.kind = COP_REQUEST_INQUIRE;
    if (good && cop__word_is(words, "timeout"))
        good = cop__word_time(words, "timeout", &action->request.timeout_ns);
    return good;
}

static bool parse_drain(struct cop__words *words, struct cop_sim_action *action)
{
    bool good = parse_report(words, action);
    action->request.kind = COP_REQUEST_DRAIN;
    action->request.token = COP__DRAIN_TOKEN;
    action->request.undo = good && cop__word_is(words, "undo");
    return good;
}

static bool parse_go_on(struct cop__words *words, struct cop_sim_action *action)
{
    action->request.kind = COP_REQUEST_GO_ON;
    action->request.token = COP__GO_ON_TOKEN;
    return cop__word_id(words, "the node", &action->a);
}

static bool parse_jump(struct cop__words *words, struct cop_sim_action *action)
{
    return cop__word_id(words, "the node", &action->a) &&
           cop__word_time(words, "how far", &action->amount_ns);
}

static bool parse_one(struct cop__words *words, struct cop_sim_action *action)
{
    return cop__word_id(words, "the node", &action->a);
}

static bool parse_none(struct cop__words *words, struct cop_sim_action *action)
{
    (void)words;
    (void)action;
    return true;
}

static const struct {
    const char *verb;
    enum cop_sim_action_kind kind;
    bool (*parse)(struct cop__words *words, struct cop_sim_action *action);
} verbs[] = {
    {"probe", COP_SIM_PROBE, parse_probe},
    {"abort", COP_SIM_ABORT, parse_abort},
    {"crash", COP_SIM_CRASH, parse_crash},
    {"restart", COP_SIM_RESTART, parse_one},
    {"pause", COP_SIM_PAUSE, parse_one},
    {"resume", COP_SIM_RESUME, parse_one},
    {"slow", COP_SIM_SLOW, parse_slow},
    {"partition", COP_SIM_PARTITION, parse_partition},
    {"heal", COP_SIM_HEAL, parse_none},
    {"break", COP_SIM_BREAK, parse_pair},
    {"jump", COP_SIM_JUMP, parse_jump},
    {"lie", COP_SIM_LIE, parse_pair},
    {"join", COP_SIM_JOIN, parse_join},
    {"leave", COP_SIM_LEAVE, parse_leave},
    {"report", COP_SIM_REPORT, parse_report},
    {"send", COP_SIM_SEND, parse_send},
    {"inquire", COP_SIM_INQUIRE, parse_inquire},
    {"drain", COP_SIM_DRAIN, parse_drain},
    {"go-on", COP_SIM_GO_ON, parse_go_on},
    {"group", COP_SIM_GROUP, cop__parse_group},
    {"endgroup", COP_SIM_GROUP_END, cop__parse_endgroup},
    {"bcast", COP_SIM_BCAST, cop__parse_bcast},
    {"service", COP_SIM_SERVICE, cop__parse_service},
    {"unservice", COP_SIM_UNSERVICE, cop__parse_unservice},
};

static bool parse_verb(struct cop__words *words, struct cop_sim_action *action)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (cop__word_is(words, verbs[i].verb)) {
            action->kind = verbs[i].kind;
            return verbs[i].parse(words, action);
        }
    }
    return cop__words_wrong(words, "unknown: '%s'",
                            words->at < words->count ? words->items[words->at] : "");
}

/* "after-send J" and "before-recv J" behind a crash without a time. */
static bool parse_boundary(struct cop__words *words, struct cop_sim_action *action)
{
    if (cop__word_is(words, "after-send"))
        action->when = COP_SIM_AFTER_SEND;
    else if (cop__word_is(words, "before-recv"))
        action->when = COP_SIM_BEFORE_RECV;
    else
        return cop__words_wrong(words,
                                "needs 'at TIME' in front, or for a crash 'after-send "
                                "J' or 'before-recv J' behind");
    if (!cop__word_number(words, "the count", UINT32_MAX, &action->count))
        return false;
    return action->count > 0 || cop__words_wrong(words, "the count begins with 1");
}

bool cop__parse_action(struct cop__words *words, struct cop_sim_script *script)
{
    struct cop_sim_action action;
    memset(&action, 0, sizeof(action));
    action.b = COP_ID_NONE;
    bool timed = cop__word_is(words, "at");
    if (timed && !cop__word_time(words, "the time", &action.at))
        return false;
    if (!parse_verb(words, &action))
        return false;
    if (!timed && !(action.kind == COP_SIM_CRASH
                        ? parse_boundary(words, &action)
                        : cop__words_wrong(words, "needs 'at TIME' in front")))
        return false;
    if (!cop__words_end(words))
        return false;
    return cop_sim_script_add(script, &action) == 0 ||
           cop__words_wrong(words, "out of memory");
}

/* ---- printing -------------------------------------------------------------------- */

void cop__print_set(const struct cop_sim_set *set, char *out, size_t size)
{
    size_t used = 0;
    for (uint32_t i = 0; i < set->count && used < size; i++) {
        const struct cop_sim_range *range = &set->ranges[i];
        int n = snprintf(out + used, size - used,
                         range->first == range->last ? "%s%u" : "%s%u-%u", i ? "," : "",
                         (unsigned)range->first, (unsigned)range->last);
        used += n > 0 ? (size_t)n : 0;
    }
}

static void print_probe(const struct cop_sim_action *action, char *out, size_t size)
{
    char token[40] = "";
    char timeout[48] = "";
    char shape[80] = "";
    char text[64];
    char time[32];
    const struct cop_request *request = &action->request;
    if (request->token)
        snprintf(token, sizeof(token), " token %llu",
                 (unsigned long long)request->token);
    if (request->timeout_ns) {
        cop__print_time(request->timeout_ns, time);
        snprintf(timeout, sizeof(timeout), " timeout %s", time);
    }
    if (request->shape.kind) {
        cop_shape_print(&request->shape, text, sizeof(text));
        snprintf(shape, sizeof(shape), " shape %s", text);
    }
    snprintf(out, size, "probe %u%s%s%s%s", (unsigned)action->a, token, timeout, shape,
             request->outcome ? " outcome" : "");
}

static void print_partition(const struct cop_sim_action *action, char *out, size_t size)
{
    char left[200];
    char right[200];
    cop__print_set(&action->left, left, sizeof(left));
    cop__print_set(&action->right, right, sizeof(right));
    snprintf(out, size, "partition %s %s %s", left, action->one_way ? ">" : "|", right);
}

static void print_send(const struct cop_sim_action *action, char *out, size_t size)
{
    snprintf(out, size, "send %u > %u token %llu", (unsigned)action->a,
             (unsigned)action->b, (unsigned long long)action->request.token);
}

static void print_drain(const struct cop_sim_action *action, char *out, size_t size)
{
    snprintf(out, size, "drain %u about %u%s", (unsigned)action->a, (unsigned)action->b,
             action->request.undo ? " undo" : "");
}

static void print_inquire(const struct cop_sim_action *action, char *out, size_t size)
{
    char time[32];
    cop__print_time(action->request.timeout_ns, time);
    snprintf(out, size, "inquire %u about %u%s%s", (unsigned)action->a,
             (unsigned)action->b, action->request.timeout_ns ? " timeout " : "",
             action->request.timeout_ns ? time : "");
}

/* Of those that are about one node and nothing else. */
static const char *word_of(enum cop_sim_action_kind kind)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (verbs[i].kind == kind)
            return verbs[i].verb;
    }
    /* Made by the lines of these names. */
    return kind == COP_SIM_STREAM ? "stream" : "agree";
}

static void print_verb(const struct cop_sim_action *action, char *out, size_t size)
{
    unsigned a = (unsigned)action->a;
    unsigned b = (unsigned)action->b;
    char time[32];
    cop__print_time(action->amount_ns, time);
    switch (action->kind) {
    case COP_SIM_PROBE:
        print_probe(action, out, size);
        return;
    case COP_SIM_ABORT:
        snprintf(out, size, "abort %u %llu", a,
                 (unsigned long long)action->request.target);
        return;
    case COP_SIM_CRASH:
        snprintf(out, size, action->b == COP_ID_NONE ? "crash %u" : "crash %u-%u", a,
                 b);
        return;
    case COP_SIM_RESTART:
    case COP_SIM_PAUSE:
    case COP_SIM_RESUME:
    case COP_SIM_LEAVE:
    case COP_SIM_GO_ON:
    case COP_SIM_AGREE:
    case COP_SIM_STREAM:
        snprintf(out, size, "%s %u", word_of(action->kind), a);
        return;
    case COP_SIM_SLOW:
        snprintf(out, size, "slow %u %s", a, time);
        return;
    case COP_SIM_SLOW_LINK:
        snprintf(out, size, "slow %u > %u %s", a, b, time);
        return;
    case COP_SIM_PARTITION:
        print_partition(action, out, size);
        return;
    case COP_SIM_HEAL:
        snprintf(out, size, "heal");
        return;
    case COP_SIM_BREAK:
        snprintf(out, size, "break %u %u", a, b);
        return;
    case COP_SIM_JUMP:
        snprintf(out, size, "jump %u %s", a, time);
        return;
    case COP_SIM_LIE:
        snprintf(out, size, "lie %u about %u", a, b);
        return;
    case COP_SIM_JOIN:
        snprintf(out, size, action->spare ? "join spare" : "join");
        return;
    case COP_SIM_REPORT:
        snprintf(out, size, "report %u about %u", a, b);
        return;
    case COP_SIM_SEND:
        print_send(action, out, size);
        return;
    case COP_SIM_DRAIN:
        print_drain(action, out, size);
        return;
    case COP_SIM_INQUIRE:
        print_inquire(action, out, size);
        return;
    default:
        cop__print_coll(action, out, size);
    }
}

void cop__print_action(const struct cop_sim_action *action, char *out, size_t size)
{
    char verb[480];
    char time[32];
    print_verb(action, verb, sizeof(verb));
    cop__print_time(action->at, time);
    if (action->when == COP_SIM_AT)
        snprintf(out, size, "at %s %s", time, verb);
    else
        snprintf(out, size, "%s %s %llu", verb,
                 action->when == COP_SIM_AFTER_SEND ? "after-send" : "before-recv",
                 (unsigned long long)action->count);
}
