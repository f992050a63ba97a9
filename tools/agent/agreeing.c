/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agreeing.h"

#include "base/assert.h"
#include "base/digest.h"
#include "base/random.h"
#include "talk/tokens.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Tokens: this bit, which agreeing, and the number of the agreement; 0: something whose end
 * is of no interest. */
#define NUMBER_BITS 24

struct agreeing {
    struct agreeing *next;
    struct agreeings *all;
    struct session *session; /* NULL: another agent was asked, or it is gone */
    struct agree_order order;
    uint64_t group;
    uint32_t index; /* in tokens */
    uint32_t members;
    uint32_t called, ended; /* with the last one, on the results */
    uint64_t random;
    uv_timer_t *pause; /* with skew; closed, and freed, by itself */
    struct cop__digest digest;
    bool is_unsure;               /* one ended without a result */
    int broken;                   /* why it calls nothing more; 0: it goes on */
    cop_time *called_ns;          /* by number, modulo the window */
    struct agree_sample *samples; /* where somebody wants to know */
    uint32_t sent;
    struct agree_reply reply; /* what is sent with the last samples */
};

void agreeings_init(struct agreeings *agreeings, uv_loop_t *loop,
                    const struct cop_log *log)
{
    *agreeings = (struct agreeings){.loop = loop, .log = log};
}

void agreeings_begin(struct agreeings *agreeings, struct cop__tcp *tcp, cop_id self,
                     cop_incarnation incarnation)
{
    agreeings->tcp = tcp;
    agreeings->self = self;
    agreeings->incarnation = incarnation;
}

/* How many it calls if all goes well: before those that count, those, and the one on the
 * results. */
static uint32_t total(const struct agreeing *agreeing)
{
    return agreeing->order.warm_up + agreeing->order.count + 1;
}

/* ---- the end --------------------------------------------------------------------- */

static void free_timer(uv_handle_t *handle) { free(handle); }

static void drop(struct agreeing *agreeing)
{
    struct agreeing **link = &agreeing->all->first;
    while (*link != agreeing)
        link = &(*link)->next;
    *link = agreeing->next;
    agreeing->all->count--;
    if (agreeing->pause != NULL)
        uv_close((uv_handle_t *)agreeing->pause, free_timer);
    if (agreeing->all->tcp != NULL) /* this, and what is said of its end */
        cop__tcp_used_loop(agreeing->all->tcp);
    free(agreeing->called_ns);
    free(agreeing->samples);
    cop_ranks_free(&agreeing->reply.failed);
    free(agreeing);
}

/* A reply that fails closes its session, which looks for it here: so it goes first. */
static void fail_one(struct agreeing *agreeing, int status)
{
    struct session *session = agreeing->session;
    drop(agreeing);
    if (session != NULL)
        session_reply(session, status, false, NULL);
}

void agreeings_end(struct agreeings *agreeings, int why)
{
    while (agreeings->first != NULL)
        fail_one(agreeings->first, why);
    agreeings->tcp = NULL;
}

/* How many samples there are: fewer than were ordered if it broke off. */
static uint32_t told(const struct agreeing *agreeing)
{
    const struct agree_order *order = &agreeing->order;
    uint32_t called =
        agreeing->called > order->warm_up ? agreeing->called - order->warm_up : 0;
    return called < order->count ? called : order->count;
}

/* The next samples; with the last of them it is over. */
static void send_samples(struct agreeing *agreeing)
{
    struct agree_reply reply = {.self = agreeing->all->self,
                                .members = agreeing->members,
                                .samples = agreeing->samples + agreeing->sent};
    uint32_t left = told(agreeing) - agreeing->sent;
    bool more = left > AGREE_CHUNK_MAX;
    reply.count = more ? AGREE_CHUNK_MAX : left;
    if (!more) {
        reply.epoch = agreeing->reply.epoch;
        reply.root = agreeing->reply.root;
        reply.verdict = agreeing->reply.verdict;
        reply.failed = agreeing->reply.failed;
    }
    agreeing->sent += reply.count;
    struct cop_buf *body = agree_reply_encode(&reply);
    struct session *session = agreeing->session;
    if (body == NULL) {
        fail_one(agreeing, COP_ENOMEM);
        return;
    }
    if (!more)
        drop(agreeing);
    else
        cop__tcp_used_loop(agreeing->all->tcp);
    session_reply(session, 0, more, body);
    cop_buf_unref(body);
}

/* ---- calls ----------------------------------------------------------------------- */

static int submit(const struct agreeing *agreeing, struct cop_request *request,
                  uint32_t number)
{
    request->token = AGREE_TOKEN | (uint64_t)agreeing->index << NUMBER_BITS | number;
    return cop__tcp_submit(agreeing->all->tcp, request);
}

/* What all results were, twice: the least of the one, and of its complement, is the same
 * number only if it was the same at all. Who is unsure says nothing. */
static void sum_up(const struct agreeing *agreeing, uint64_t out[2])
{
    uint64_t digest = cop__digest_value(&agreeing->digest) >> 1;
    out[0] = agreeing->is_unsure ? UINT64_MAX : digest;
    out[1] = agreeing->is_unsure ? UINT64_MAX : ~digest;
}

static int call(struct agreeing *agreeing)
{
    const struct agree_order *order = &agreeing->order;
    uint32_t number = agreeing->called + 1;
    uint64_t words[2] = {order->source == AGREE_ID ? agreeing->all->self
                                                   : order->value};
    struct cop_request request = {.kind = COP_REQUEST_AGREE,
                                  .group = agreeing->group,
                                  .op = order->op,
                                  .timeout_ns = order->timeout_ns,
                                  .bytes = words,
                                  .length = 8};
    if (number == total(agreeing)) {
        sum_up(agreeing, words);
        request.op = COP_AGREE_MIN;
        request.length = 16;
    }
    agreeing->called_ns[number % order->window] = now_ns();
    int error = submit(agreeing, &request, number);
    agreeing->called += error == 0;
    return error;
}

static void go_on(struct agreeing *agreeing);

static void on_pause(uv_timer_t *timer)
{
    struct agreeing *agreeing = timer->data;
    if (!agreeing->broken && call(agreeing) == 0)
        go_on(agreeing);
}

/* Calls as many as may be under way; the last one when all others have ended. */
static void go_on(struct agreeing *agreeing)
{
    const struct agree_order *order = &agreeing->order;
    while (!agreeing->broken && agreeing->called < total(agreeing) &&
           agreeing->called < agreeing->ended + order->window &&
           (agreeing->called + 1 < total(agreeing) ||
            agreeing->ended == agreeing->called)) {
        if (agreeing->pause != NULL) {
            agreeing->random = cop__mix64(agreeing->random);
            cop__tcp_used_loop(agreeing->all->tcp);
            uv_update_time(agreeing->all->loop); /* on the short way nobody does */
            if (!uv_is_active((uv_handle_t *)agreeing->pause))
                uv_timer_start(agreeing->pause, on_pause,
                               agreeing->random % (order->skew_ms + 1), 0);
            return;
        }
        if (call(agreeing) != 0)
            return; /* COP_EAGAIN: again when one has ended */
    }
}

/* ---- results --------------------------------------------------------------------- */

static bool is_same(const struct cop_ranks *a, const struct cop_ranks *b)
{
    return a->count == b->count &&
           (a->count == 0 ||
            memcmp(a->items, b->items, a->count * sizeof *a->items) == 0);
}

/* There may be many who have failed, and they are the same nearly always: then that is all that is
 * digested of them. Takes them over. */
static void note_result(struct agreeing *agreeing, int status,
                        struct cop_agreed *agreed)
{
    struct cop_ranks *failed = &agreeing->reply.failed, before = *failed;
    bool same = is_same(failed, &agreed->failed);
    *failed = agreed->failed;
    agreed->failed = before;
    cop__digest_word(&agreeing->digest, (uint64_t)(uint32_t)status);
    cop__digest_word(&agreeing->digest, agreed->number);
    cop__digest_bytes(&agreeing->digest, agreed->value, agreed->length);
    cop__digest_word(&agreeing->digest, same ? UINT64_MAX : failed->count);
    for (uint32_t i = 0; !same && i < failed->count; i++)
        cop__digest_word(&agreeing->digest, failed->items[i]);
}

static void note_sample(struct agreeing *agreeing, uint32_t number, int status,
                        const struct cop_agreed *agreed)
{
    const struct agree_order *order = &agreeing->order;
    cop_time at = agreeing->called_ns[number % order->window];
    if (agreeing->samples == NULL)
        return;
    agreeing->reply.epoch = agreed->epoch;
    agreeing->reply.root = agreed->root;
    if (number > order->warm_up && number < total(agreeing))
        agreeing->samples[number - order->warm_up - 1] =
            (struct agree_sample){.at_ns = at,
                                  .elapsed_ns = now_ns() - at,
                                  .value = cop_agreed_word(agreed, 0),
                                  .round = agreed->round,
                                  .status = status,
                                  .failed = agreeing->reply.failed.count};
}

/* These, too, are what others can make us say. */
static void say_differed(const struct agreeing *agreeing)
{
    uint64_t held;
    if (cop__notice_is_due(&agreeing->all->differed, now_ns(), &held))
        cop__log(agreeing->all->log, COP_LOG_ERROR,
                 "members have had different results of agreements of group %" PRIu64
                 " (%" PRIu64 " more like this)",
                 agreeing->group, held);
}

static void say_error(const struct agreeings *agreeings, struct cop__notice *notice,
                      const char *what, int error)
{
    uint64_t held;
    if (cop__notice_is_due(notice, now_ns(), &held))
        cop__log(agreeings->log, COP_LOG_WARN, "%s: %s (%" PRIu64 " more like this)",
                 what, cop_strerror(error), held);
}

static void note_verdict(struct agreeing *agreeing, int status,
                         const struct cop_agreed *agreed)
{
    uint64_t least = cop_agreed_word(agreed, 0), greatest = ~cop_agreed_word(agreed, 1);
    bool is_known = status == 0 && least != UINT64_MAX && !agreeing->is_unsure;
    if (is_known)
        agreeing->reply.verdict = least == greatest ? AGREE_SAME : AGREE_DIFFERENT;
    if (is_known && least != greatest)
        say_differed(agreeing);
}

static void free_group(const struct agreeing *agreeing)
{
    struct cop_request request = {.kind = COP_REQUEST_AGREE_FREE,
                                  .group = agreeing->group};
    int error = submit(agreeing, &request, 0);
    if (error)
        say_error(agreeing->all, &agreeing->all->not_freed,
                  "a group of agreements cannot be given back", error);
}

static void finish(struct agreeing *agreeing)
{
    free_group(agreeing);
    if (agreeing->session == NULL)
        drop(agreeing);
    else if (told(agreeing) == 0)
        fail_one(agreeing, agreeing->broken);
    else
        send_samples(agreeing);
}

/*
 * An agreement that nobody waits for any more keeps its place, and the next one may have to
 * wait for it without end: so who gives one up calls nothing more. At those who did not
 * give up, what they call next does not fit what it says then, that it is done.
 */
static bool ends_all(int status)
{
    return status == COP_ETIMEDOUT || status == COP_EDEGRADED || status == COP_EINVAL;
}

static struct agreeing *find(const struct agreeings *agreeings, uint64_t token)
{
    uint32_t index = (uint32_t)((token & (AGREE_TOKEN - 1)) >> NUMBER_BITS);
    struct agreeing *agreeing = agreeings->first;
    while (agreeing != NULL && agreeing->index != index)
        agreeing = agreeing->next;
    return agreeing;
}

bool agreeings_complete(struct agreeings *agreeings, uint64_t token, int status,
                        const struct cop_buf *result)
{
    uint32_t number = (uint32_t)(token & ((1u << NUMBER_BITS) - 1));
    if (!(token & AGREE_TOKEN))
        return false;
    struct agreeing *agreeing = find(agreeings, token);
    if (agreeing == NULL || number == 0)
        return true;
    struct cop_agreed agreed = {0};
    int error = result ? cop_agreed(result, &agreed) : 0;
    bool is_last = number == total(agreeing);
    if (error || result == NULL || status == COP_ELOST)
        agreeing->is_unsure = true;
    if (is_last)
        note_verdict(agreeing, status, &agreed);
    else if (result != NULL && !error)
        note_result(agreeing, status, &agreed);
    note_sample(agreeing, number, error ? error : status, &agreed);
    cop_agreed_free(&agreed);
    agreeing->ended++;
    if (ends_all(status) && !agreeing->broken)
        agreeing->broken = status;
    if (is_last || (agreeing->broken && agreeing->ended == agreeing->called))
        finish(agreeing);
    else
        go_on(agreeing);
    return true;
}

/* ---- the beginning --------------------------------------------------------------- */

static int create(struct agreeings *agreeings, const struct agree_start *start,
                  struct agreeing **out)
{
    if (agreeings->count == AGREEINGS_MAX)
        return COP_EAGAIN;
    struct agreeing *agreeing = calloc(1, sizeof *agreeing);
    if (agreeing == NULL)
        return COP_ENOMEM;
    agreeings->count++;
    agreeing->all = agreeings;
    agreeing->order = start->order;
    agreeing->group = start->group;
    agreeing->members = start->count;
    agreeing->index = ++agreeings->next;
    agreeing->random = cop__mix64(start->group ^ agreeings->self);
    cop__digest_init(&agreeing->digest);
    agreeing->next = agreeings->first;
    agreeings->first = agreeing;
    agreeing->called_ns = calloc(start->order.window, sizeof(cop_time));
    if (start->order.skew_ms > 0) {
        agreeing->pause = calloc(1, sizeof *agreeing->pause);
        if (agreeing->pause != NULL) {
            COP_ASSERT(uv_timer_init(agreeings->loop, agreeing->pause) == 0);
            agreeing->pause->data = agreeing;
        }
    }
    if (agreeing->called_ns == NULL ||
        (start->order.skew_ms > 0 && agreeing->pause == NULL)) {
        drop(agreeing);
        return COP_ENOMEM;
    }
    *out = agreeing;
    return 0;
}

static int make_group(const struct agreeing *agreeing, const struct agree_start *start)
{
    struct cop_agree_group group = {.number = start->group,
                                    .members = start->members,
                                    .count = start->count,
                                    .algorithm = start->order.algorithm,
                                    .window = start->order.window,
                                    .keep_tree = start->order.keep_tree};
    struct cop_request request = {.kind = COP_REQUEST_AGREE_GROUP, .new_group = &group};
    int error = 0;
    if (start->order.shape[0] != '\0')
        error = cop_shape_parse(start->order.shape, &group.shape, NULL, 0);
    if (!error &&
        (group.shape.kind == COP_SHAPE_TABLE || group.shape.kind == COP_SHAPE_HOSTS))
        error = COP_EINVAL;
    if (!error)
        error = submit(agreeing, &request, 0);
    return error;
}

bool agreeings_deliver(struct agreeings *agreeings, const struct cop_buf *bytes)
{
    struct agree_start start;
    struct agreeing *agreeing;
    int error =
        agree_start_decode((struct cop__bytes){bytes->data, bytes->length}, &start);
    if (error == COP_EMALFORMED)
        return false;
    if (!error)
        error = create(agreeings, &start, &agreeing);
    if (!error) {
        error = make_group(agreeing, &start);
        if (error)
            drop(agreeing);
        else
            go_on(agreeing);
    }
    if (error)
        say_error(agreeings, &agreeings->not_taken, "cannot take part in an agreement",
                  error);
    agree_start_free(&start);
    return true;
}

/* Everyone in the view; and, if that is wanted, whoever was there before, in the last life
 * that the view knows of. */
static int list_members(const struct cop_view *view, bool with_dead, cop_id most,
                        struct agree_start *start)
{
    start->members = calloc((size_t)most + 1, sizeof *start->members);
    if (start->members == NULL)
        return COP_ENOMEM;
    for (cop_id id = 0; id <= most; id++) {
        struct cop_member member;
        if (cop_view_member(view, id, &member) == 0 &&
            (with_dead || cop_view_has(view, id, member.incarnation)))
            start->members[start->count++] = (struct cop_life){id, member.incarnation};
    }
    return 0;
}

/* The largest id that the view has, or had. */
static cop_id most_of(const struct cop_view *view)
{
    struct cop_member member;
    cop_id most = 0;
    for (cop_id id = cop_view_next(view, COP_ID_NONE); id != COP_ID_NONE;
         id = cop_view_next(view, id))
        most = id;
    while (cop_view_member(view, most + 1, &member) == 0)
        most++;
    return most;
}

static int tell_others(const struct agreeing *agreeing, const struct agree_start *start)
{
    const struct cop_view *view = cop_node_view(cop__tcp_node(agreeing->all->tcp));
    struct cop_buf *bytes = agree_start_encode(start);
    int error = bytes ? 0 : COP_ENOMEM;
    for (uint32_t i = 0; i < start->count && !error; i++) {
        const struct cop_life *life = &start->members[i];
        if (life->id == agreeing->all->self ||
            !cop_view_has(view, life->id, life->incarnation))
            continue;
        struct cop_request request = {.kind = COP_REQUEST_SEND,
                                      .member = life->id,
                                      .bytes = bytes->data,
                                      .length = bytes->length};
        error = submit(agreeing, &request, 0);
        view = cop_node_view(cop__tcp_node(agreeing->all->tcp));
    }
    cop_buf_unref(bytes);
    return error;
}

static int begin(struct agreeings *agreeings, const struct agree_start *start,
                 struct agreeing **out)
{
    struct agreeing *agreeing;
    int error = create(agreeings, start, &agreeing);
    if (error)
        return error;
    agreeing->samples = calloc(start->order.count, sizeof *agreeing->samples);
    error = agreeing->samples ? make_group(agreeing, start) : COP_ENOMEM;
    if (!error) {
        error = tell_others(agreeing, start);
        if (error) /* those who were told have the group, and wait for this member */
            free_group(agreeing);
    }
    if (error)
        drop(agreeing);
    else
        *out = agreeing;
    return error;
}

void agreeings_order(struct agreeings *agreeings, struct session *session,
                     struct cop__bytes body)
{
    const struct cop_view *view = cop_node_view(cop__tcp_node(agreeings->tcp));
    struct agree_start start = {0};
    struct agreeing *agreeing = NULL;
    int error = agree_order_decode(body, &start.order);
    if (!error)
        error = list_members(view, start.order.with_dead, most_of(view), &start);
    /* One after the other, from a beginning that no other life has. */
    start.group = cop__mix64(agreeings->incarnation ^ (uint64_t)agreeings->self << 40) +
                  ++agreeings->begun;
    if (!error)
        error = begin(agreeings, &start, &agreeing);
    agree_start_free(&start);
    if (error) {
        session_reply(session, error, false, NULL);
        return;
    }
    agreeing->session = session;
    go_on(agreeing);
}

/* ---- sessions -------------------------------------------------------------------- */

static struct agreeing *of_session(const struct agreeings *agreeings,
                                   const struct session *session)
{
    struct agreeing *agreeing = agreeings->first;
    while (agreeing != NULL && agreeing->session != session)
        agreeing = agreeing->next;
    return agreeing;
}

void agreeings_written(struct agreeings *agreeings, const struct session *session)
{
    struct agreeing *agreeing = of_session(agreeings, session);
    if (agreeing != NULL && agreeing->sent > 0)
        send_samples(agreeing);
}

void agreeings_closed(struct agreeings *agreeings, const struct session *session)
{
    struct agreeing *agreeing = of_session(agreeings, session);
    if (agreeing == NULL)
        return;
    agreeing->session = NULL;
    if (agreeing->sent > 0)
        drop(agreeing);
}
