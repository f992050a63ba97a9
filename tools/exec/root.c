/* SPDX-License-Identifier: Apache-2.0 */
/* The root's side of exec: has members run a command, for a session of the command socket. */
#include "exec/root.h"
#include "base/assert.h"
#include "base/rankset.h"
#include "term/say.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* How soon a question that was turned away is asked again. */
#define RETRY_MS 20u

/* ---- telling the command --------------------------------------------------------- */

void exec_call_tell(struct exec_call *call, const struct exec_note *note)
{
    bool more = note->kind != EXEC_END;
    struct session *session = call->session;
    if (session == NULL)
        return;
    struct cop_buf *body = exec_note_encode(note);
    if (!more || body == NULL)
        call->session = NULL;
    /* A reply that fails closes its session, and we are told. */
    session_reply(session, body ? 0 : COP_ENOMEM, body != NULL && more, body);
    cop_buf_unref(body);
}

/* ---- broadcasts ------------------------------------------------------------------ */

static void on_retry(uv_timer_t *timer);

/* Runs that are over, as far as the members are concerned. */
static uint64_t done_before(const struct exec_call *call)
{
    uint64_t done = call->run - 1;
    for (const struct exec_call *other = call->exec->calls; other; other = other->next)
        if (other->run <= done && !other->is_over)
            done = other->run - 1;
    return done;
}

static struct cop_buf *make_order(const struct exec_call *call, enum exec_kind kind)
{
    struct exec_order order = {.kind = (uint8_t)kind, .run = call->run};
    if (kind == EXEC_RUN) {
        order = call->order;
        order.run = call->run;
        order.done = done_before(call);
        order.ids = call->group ? (struct cop__list){NULL, 0} : call->order.ids;
        order.user = (struct cop__bytes){(const uint8_t *)call->user,
                                         (uint32_t)strlen(call->user)};
    }
    return exec_order_encode(&order);
}

static uint64_t *free_token(struct exec_call *call)
{
    for (uint32_t i = 0; i < EXEC_TOKENS; i++)
        if (call->tokens[i] == 0)
            return &call->tokens[i];
    return NULL;
}

static bool is_busy(const struct exec_call *call)
{
    for (uint32_t i = 0; i < EXEC_TOKENS; i++)
        if (call->tokens[i] != 0)
            return true;
    return false;
}

/* A request to the node, of which the call has to hear. */
static int submit(struct exec_call *call, struct cop_request *request)
{
    uint64_t *slot = free_token(call);
    if (slot == NULL)
        return COP_EAGAIN;
    request->token = exec_token(call->exec);
    int error = cop__tcp_submit(call->exec->tcp, request);
    if (error == 0)
        *slot = request->token;
    return error;
}

/* A question to all who are meant. */
int exec_call_ask(struct exec_call *call, enum exec_kind kind, uint32_t flags,
                  cop_time timeout_ns, uint64_t *token)
{
    bool counts = kind == EXEC_RUN || kind == EXEC_WAIT || kind == EXEC_GATHER;
    struct cop_buf *bytes = make_order(call, kind);
    if (bytes == NULL)
        return COP_ENOMEM;
    struct cop_coll coll = {.service = {.id = EXEC_SERVICE},
                            .group = call->group,
                            .flags = COP_BCAST_HEAL | flags,
                            .version = EXEC_VERSION,
                            .op = counts ? COP_OP_COUNT : COP_OP_STATUS};
    struct cop_request request = {.kind = COP_REQUEST_BCAST,
                                  .timeout_ns = timeout_ns,
                                  .bytes = bytes->data,
                                  .length = bytes->length,
                                  .coll = &coll};
    int error = submit(call, &request);
    cop_buf_unref(bytes);
    if (!error && token != NULL)
        *token = request.token;
    return error;
}

/* Where nobody can be asked whether an order is still wanted, all wait as long as it may be. */
static cop_time round_timeout(const struct exec_call *call)
{
    cop_time timeout = EXEC_WHOLE_ROUND, limit = call->order.timeout_ns;
    if (call->has_silent && !call->is_patient)
        timeout = EXEC_PATIENCE + EXEC_AGAIN;
    limit += JOB_GRACE_MS * COP_MSEC + EXEC_AFTER;
    if (call->order.timeout_ns != 0 && call->exec->has_letters && limit < timeout)
        timeout = limit;
    return timeout;
}

static int ask_round(struct exec_call *call)
{
    int error =
        exec_call_ask(call, call->round, 0, round_timeout(call), &call->round_token);
    if (!error)
        exec_peek_arm(call);
    return error;
}

static void next_round(struct exec_call *call, enum exec_kind kind)
{
    call->round = kind;
    call->round_token = 0;
    int error = ask_round(call);
    if (error == COP_EAGAIN)
        uv_timer_start(&call->timer, on_retry, RETRY_MS, 0);
    else if (error)
        exec_call_fail(call, error);
}

static void on_retry(uv_timer_t *timer)
{
    struct exec_call *call = timer->data;
    if (!call->is_over && call->round_token == 0)
        next_round(call, call->round);
    else
        exec_call_settle(call);
}

/* ---- the end --------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct exec_call *call = handle->data;
    cop_buf_unref(call->body);
    cop_buf_unref(call->result);
    cop_buf_unref(call->pending);
    free(call->is_shown);
    cop_ranks_free(&call->meant);
    cop_ranks_free(&call->thirsty);
    free(call->fates);
    free(call);
}

static void free_call(struct exec_call *call)
{
    struct exec_call **link = &call->exec->calls;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    uv_close((uv_handle_t *)&call->timer, on_closed);
}

static int end_group(struct exec_call *call)
{
    struct cop_coll coll = {.group = call->group};
    struct cop_request request = {.kind = COP_REQUEST_GROUP_END, .coll = &coll};
    return submit(call, &request);
}

/* What is left to be said to the members, one thing after the other; then it is gone. */
void exec_call_settle(struct exec_call *call)
{
    int error = 0;
    if (!call->is_over || is_busy(call))
        return;
    if (call->needs_release) {
        error = exec_call_ask(call, EXEC_RELEASE, call->group ? COP_BCAST_LAST : 0,
                              EXEC_WHOLE_ROUND, NULL);
        if (error != COP_EAGAIN)
            call->needs_release = false;
        if (error == 0)
            call->group = COP_GROUP_ALL;
    } else if (call->group != COP_GROUP_ALL) {
        error = end_group(call);
        if (error != COP_EAGAIN)
            call->group = COP_GROUP_ALL;
    }
    if (error == COP_EAGAIN)
        uv_timer_start(&call->timer, on_retry, RETRY_MS, 0);
    else if (!is_busy(call))
        free_call(call);
}

void exec_call_fail(struct exec_call *call, int status)
{
    struct session *session = call->session;
    call->session = NULL;
    call->is_over = true;
    call->needs_release |= call->round_token != 0;
    if (session != NULL)
        session_reply(session, status, false, NULL);
    uv_timer_start(&call->timer, on_retry, 0, 0);
}

/* The command is gone: whatever runs is ended, at once. */
static void abandon(struct exec_call *call)
{
    call->session = NULL;
    call->is_over = true;
    call->needs_release = true;
    if (call->exec->tcp != NULL && is_busy(call) &&
        exec_call_ask(call, EXEC_RELEASE, 0, EXEC_WHOLE_ROUND, NULL) == 0)
        call->needs_release = false;
    uv_timer_start(&call->timer, on_retry, 0, 0);
}

void exec_root_end(struct exec *exec, int status)
{
    while (exec->calls != NULL) {
        struct exec_call *call = exec->calls;
        struct session *session = call->session;
        call->session = NULL;
        free_call(call);
        if (session != NULL)
            session_reply(session, status, false, NULL);
    }
}

/* ---- who is meant ---------------------------------------------------------------- */

static const struct cop_view *view_of(const struct exec *exec)
{
    return cop_node_view(cop__tcp_node(exec->tcp));
}

struct cop_failure *exec_call_fate(const struct exec_call *call, cop_id id)
{
    uint32_t low = 0, high = call->meant.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (call->meant.items[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < call->meant.count && call->meant.items[low] == id ? &call->fates[low]
                                                                   : NULL;
}

/* Everybody but those who left with a goodbye: who was lost is to be named. */
static int find_all(struct exec_call *call, const struct cop_view *view)
{
    struct cop_member member;
    int error = 0;
    for (cop_id id = 0; id < cop_view_slots(view) && !error; id++)
        if (cop_view_member(view, id, &member) == 0 && member.presence != COP_LEFT)
            error = cop_ranks_push(&call->meant, id);
    return error;
}

/* Everybody, or those who were named. */
static int find_meant(struct exec_call *call)
{
    const struct cop_view *view = view_of(call->exec);
    struct cop__list ids = call->order.ids;
    int error = ids.count == 0 ? find_all(call, view) : 0;
    for (uint32_t i = 0; i < ids.count && !error; i++) {
        struct cop_id_range range = exec_range_at(ids, i);
        if (range.first > range.last || range.last >= cop_view_slots(view))
            return COP_EINVAL;
        for (cop_id id = range.first; id <= range.last && !error; id++)
            error = cop__rankset_put(&call->meant, id);
    }
    if (error)
        return error;
    call->fates = calloc(call->meant.count + 1, sizeof *call->fates);
    for (uint32_t i = 0; call->fates && i < call->meant.count; i++)
        call->fates[i] = (struct cop_failure){
            call->meant.items[i], call->meant.items[i], COP_ELOST, COP_PHASE_REPLY};
    return call->fates ? 0 : COP_ENOMEM;
}

/* A group of those who are meant and there, and the root; false: one is not possible. */
static bool make_group(struct exec_call *call)
{
    struct exec *exec = call->exec;
    const struct cop_view *view = view_of(exec);
    uint32_t count = 1;
    struct cop_target *targets = calloc(call->meant.count + 1, sizeof *targets);
    if (targets == NULL)
        return false;
    targets[0].node = exec->self;
    for (uint32_t i = 0; i < call->meant.count; i++)
        if (call->meant.items[i] != exec->self &&
            cop_view_rank(view, call->meant.items[i]) != COP_RANK_NONE)
            targets[count++].node = call->meant.items[i];
    struct cop_coll coll = {.service = {.id = EXEC_SERVICE},
                            .group = EXEC_GROUP_BASE | ++exec->next_group,
                            .kind = COP_GROUP_LAZY,
                            .targets = targets,
                            .target_count = count};
    struct cop_request request = {
        .kind = COP_REQUEST_GROUP, .token = exec_token(exec), .coll = &coll};
    bool is_made = cop__tcp_submit(exec->tcp, &request) == 0;
    free(targets);
    call->group = is_made ? coll.group : COP_GROUP_ALL;
    return is_made;
}

/* ---- the beginning --------------------------------------------------------------- */

/* Larger than all before it, also in an earlier life. */
static uint64_t next_run(struct exec *exec)
{
    uint64_t number = exec_clock();
    exec->last_run = number > exec->last_run ? number : exec->last_run + 1;
    return exec->last_run;
}

/* The definition of a group rides with the order, so both must fit. */
static int begin(struct exec_call *call)
{
    bool is_named = call->order.ids.count > 0;
    if (is_named && exec_call_fate(call, call->exec->self) == NULL)
        call->order.flags |= EXEC_FLAG_NOT_ROOT;
    call->order.inline_max = call->exec->has_letters ? EXEC_INLINE : EXEC_INLINE_FIXED;
    if ((call->order.flags & EXEC_FLAG_STREAM) && !call->exec->has_letters)
        return COP_ESTATE;
    call->round = EXEC_RUN;
    if (is_named && make_group(call)) {
        int error = ask_round(call);
        if (error != COP_ETOOBIG)
            return error;
        error = end_group(call);
        if (error)
            return error;
        call->group = COP_GROUP_ALL;
    }
    return ask_round(call);
}

static int create_call(struct exec *exec, struct session *session,
                       struct cop__bytes body, struct exec_call **out)
{
    struct exec_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return COP_ENOMEM;
    call->exec = exec;
    call->begun = now_ns();
    call->run = next_run(exec);
    exec_user_name(session_uid(session), call->user);
    COP_ASSERT(uv_timer_init(exec->config.loop, &call->timer) == 0);
    call->timer.data = call;
    call->next = exec->calls;
    exec->calls = call;
    call->body = cop_buf_copy(body.data, body.length);
    int error = call->body ? 0 : COP_ENOMEM;
    if (!error)
        error = exec_order_decode(
            (struct cop__bytes){call->body->data, call->body->length}, &call->order);
    if (!error && call->order.kind != EXEC_RUN)
        error = COP_EMALFORMED;
    if (!error)
        error = find_meant(call);
    if (!error)
        error = begin(call);
    /* Nobody has to know that much else is under way. */
    if (error == COP_EAGAIN)
        error = uv_timer_start(&call->timer, on_retry, RETRY_MS, 0);
    *out = call;
    return error;
}

void exec_start(struct exec *exec, struct session *session, struct cop__bytes body)
{
    struct exec_call *call = NULL;
    int error = create_call(exec, session, body, &call);
    if (call == NULL) {
        session_reply(session, error, false, NULL);
        return;
    }
    call->session = session;
    if (error) {
        exec_call_fail(call, error);
        return;
    }
    struct exec_note note = {.kind = EXEC_STARTED, .run = call->run};
    exec_call_tell(call, &note);
}

void exec_cancel(struct exec *exec, struct session *session, struct cop__bytes body)
{
    struct exec_call *call = exec->calls;
    uint64_t run;
    int error = number_decode(body, &run);
    while (call != NULL && call->run != run)
        call = call->next;
    if (!error && (call == NULL || call->is_over))
        error = COP_ENOENT;
    if (!error && !call->is_cancelled)
        error = exec_call_ask(call, EXEC_CANCEL, 0, EXEC_WHOLE_ROUND, NULL);
    if (!error)
        call->is_cancelled = true;
    session_reply(session, error, false, NULL);
}

void exec_closed(struct exec *exec, const struct session *session)
{
    for (struct exec_call *call = exec->calls; call; call = call->next)
        if (call->session == session)
            abandon(call);
}

/* ---- rounds ---------------------------------------------------------------------- */

uint32_t exec_call_running(const struct cop_bcast_result *result,
                           struct cop__list *ranges)
{
    const uint8_t *bytes;
    uint32_t at = 0, length, count, range_count, entry = 0;
    while (cop_count_next(result, &at, &bytes, &length, &count, &range_count)) {
        if (length == 1 && bytes[0] == EXEC_RUNNING) {
            *ranges = (struct cop__list){result->bytes + entry + 8, range_count};
            return count;
        }
        entry = at;
    }
    *ranges = (struct cop__list){NULL, 0};
    return 0;
}

static bool is_absent(int status)
{
    return status == COP_ELOST || status == COP_ETIMEDOUT;
}

/* What a member said when it was asked to run it stands, if it says nothing else later; of
 * whom nothing is heard the last is true, unless its end was told. Who is silent may begin yet,
 * and is to be told. True: somebody is silent who was not. */
static bool note_failures(struct exec_call *call, const struct cop_bcast_result *result)
{
    bool is_new = false;
    for (uint32_t i = 0; i < result->failure_count; i++) {
        const struct cop_failure *failure = &result->failures[i];
        struct cop_failure *fate = exec_call_fate(call, failure->node);
        bool is_silent = failure->status == COP_ETIMEDOUT;
        if (fate != NULL && fate->status != 0 &&
            (call->round == EXEC_RUN ||
             (is_absent(fate->status) && is_absent(failure->status)))) {
            is_new |= is_silent && fate->status != COP_ETIMEDOUT;
            *fate = *failure;
        }
        call->needs_release |= is_silent;
        call->has_silent |= is_silent;
    }
    return is_new;
}

void exec_call_tell_running(struct exec_call *call, uint32_t running,
                            struct cop__list ranges)
{
    struct exec_note news = {.kind = EXEC_NEWS,
                             .count = running,
                             .offset = call->meant.count,
                             .ranges = ranges};
    if (call->order.flags & EXEC_FLAG_NEWS)
        exec_call_tell(call, &news);
}

void exec_call_round(struct exec_call *call, struct cop_buf *bytes)
{
    struct cop_bcast_result result;
    struct cop__list ranges;
    int error = cop_bcast_result(bytes, &result);
    if (error) {
        exec_call_fail(call, error);
        return;
    }
    bool was_short = call->has_silent && !call->is_patient;
    bool is_new = note_failures(call, &result);
    uint32_t running = exec_call_running(&result, &ranges);
    if (running > 0) {
        call->needs_release = true;
        exec_call_tell_running(call, running, ranges);
        if (is_new)
            exec_call_tell_silent(call);
        next_round(call, EXEC_WAIT);
    } else if (call->round == EXEC_WAIT) {
        /* Who ran it, and was not heard this once, has what it says to be gathered. */
        call->is_patient |= was_short && is_new;
        next_round(call, EXEC_GATHER);
    } else if (was_short && is_new) {
        call->is_patient = true;
        next_round(call, EXEC_GATHER);
    } else {
        exec_call_show(call, bytes, true);
    }
    cop_bcast_result_free(&result);
}

/* Whose it was. */
static struct exec_call *take_token(struct exec *exec, uint64_t token)
{
    for (struct exec_call *call = exec->calls; call; call = call->next)
        for (uint32_t i = 0; i < EXEC_TOKENS; i++)
            if (call->tokens[i] == token) {
                call->tokens[i] = 0;
                return call;
            }
    return NULL;
}

bool exec_root_complete(struct exec *exec, uint64_t token, int status,
                        struct cop_buf *result)
{
    struct exec_call *call = take_token(exec, token);
    if (call == NULL)
        return false;
    /* What came of it is in the result, also when somebody was silent. */
    bool is_good = result != NULL && (status == 0 || status == COP_ETIMEDOUT);
    if (call->is_over || (token != call->round_token && token != call->peek_token))
        exec_call_settle(call);
    else if (token == call->peek_token)
        exec_peek_complete(call, is_good ? result : NULL);
    else if (!is_good)
        exec_call_fail(call, status ? status : COP_EBUG);
    else if (call->is_fetching)
        call->pending = cop_buf_ref(result);
    else
        exec_call_round(call, result);
    return true;
}
