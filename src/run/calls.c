/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the program. On the loop's thread they go to the node at once; from another
 * thread they wait in a queue until the loop has been woken up. Those that wait for an
 * answer sleep on one condition for all: there are few of them.
 */
#include "net/tls/tls.h"
#include "run/parts.h"
#include "run/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of the queue between threads. The node has limits of its own. */
#define QUEUE_MAX 4096u
#define QUEUE_BYTES_MAX (8u << 20)

bool cop__run_is_here(const struct cop_run *run)
{
    return !run->has_thread || pthread_equal(pthread_self(), run->thread);
}

void cop__run_wake(struct cop_run *run)
{
    if (!run->shared.is_deaf)
        uv_async_send(&run->wake);
}

/* ---- calls under way ------------------------------------------------------------- */

static void link_call(struct cop__call **list, struct cop__call *call)
{
    call->next = *list;
    call->link = list;
    if (*list != NULL)
        (*list)->link = &call->next;
    *list = call;
}

static void unlink_call(struct cop__call *call)
{
    *call->link = call->next;
    if (call->next != NULL)
        call->next->link = call->link;
}

static void call_probed(const struct cop__call *call, int status,
                        const struct cop_buf *result)
{
    struct cop_probe_result found;
    if (result == NULL || cop_probe_result(result, &found) != 0) {
        call->probed(call->context, result && status == 0 ? COP_ENOMEM : status, NULL);
        return;
    }
    call->probed(call->context, status, &found);
    cop_probe_result_free(&found);
}

void cop__call_free(struct cop_run *run, struct cop__call *call)
{
    if (call != NULL)
        cop__rpc_free(run, call->rpc);
    free(call);
}

void cop__call_finish(struct cop_run *run, struct cop__call *call, int status,
                      const struct cop_buf *result)
{
    bool was = run->is_in_callback, goes_on = false;
    run->is_in_callback = true;
    if (call->end != NULL) {
        goes_on = call->end(run, call, status, result);
    } else if (call->guest != 0) {
        cop__door_invited(run, call, status, result);
    } else if (call->probed != NULL) {
        call_probed(call, status, result);
    } else if (call->done != NULL) {
        if (call->result != NULL && result != NULL &&
            cop_probe_result(result, call->result) != 0)
            status = COP_ENOMEM;
        call->done(call->context, status);
    }
    run->is_in_callback = was;
    if (!goes_on)
        cop__call_free(run, call);
}

struct cop__call *cop__call_under_way(const struct cop_run *run, uint64_t token)
{
    struct cop__call *call = run->calls;
    while (call != NULL && (uint64_t)(uintptr_t)call != token)
        call = call->next;
    return call;
}

int cop__call_submit(struct cop_run *run, struct cop__call *call)
{
    if (run->tcp == NULL || run->shared.state == COP_RUN_JOINING ||
        run->shared.state == COP_RUN_OVER)
        return COP_ESTATE;
    /* The node gives tokens back and does nothing else with them. */
    call->request.token = (uint64_t)(uintptr_t)call;
    link_call(&run->calls, call);
    int error = cop__tcp_submit(run->tcp, &call->request);
    if (error)
        unlink_call(call);
    return error;
}

void cop__call_complete(void *context, uint64_t token, int status,
                        struct cop_buf *result)
{
    struct cop_run *run = context;
    struct cop__call *call = (struct cop__call *)(uintptr_t)token;
    if (token & COP__DESK_TOKEN) {
        cop__desk_complete(&run->streams.desk, token);
        return;
    }
    if (call == NULL)
        return;
    unlink_call(call);
    cop__call_finish(run, call, status, result);
    cop__rpc_pump(run);
}

/* ---- the queue ------------------------------------------------------------------- */

static struct cop__call *take_next(struct cop_run *run)
{
    struct cop__shared *shared = &run->shared;
    pthread_mutex_lock(&run->mutex);
    struct cop__call *call = shared->queue;
    if (call != NULL) {
        shared->queue = call->next;
        if (shared->queue == NULL)
            shared->queue_end = &shared->queue;
        shared->queued--;
        shared->queued_bytes -= call->request.length;
    }
    pthread_mutex_unlock(&run->mutex);
    return call;
}

struct cop__call *cop__call_queued(struct cop_run *run, uint64_t number)
{
    pthread_mutex_lock(&run->mutex);
    struct cop__call *call = run->shared.queue;
    while (call != NULL && (call->rpc ? call->rpc->number : call->ticket) != number)
        call = call->next;
    pthread_mutex_unlock(&run->mutex);
    return call;
}

static int begin(struct cop_run *run, struct cop__call *call)
{
    return call->begin ? call->begin(run, call) : cop__call_submit(run, call);
}

static void run_ask(struct cop_run *run, struct cop__call *call)
{
    int status = call->ask(run, call->argument);
    cop__call_finish(run, call, status, NULL);
}

void cop__calls_take_queue(struct cop_run *run)
{
    struct cop__call *call;
    while ((call = take_next(run))) {
        if (call->ask != NULL) {
            run_ask(run, call);
            continue;
        }
        uint64_t cancelled = call->is_cancelled ? call->ticket : 0;
        int error = begin(run, call);
        if (error)
            cop__call_finish(run, call, error, NULL);
        else if (cancelled != 0)
            cop__agree_give_up(run, cancelled);
    }
}

void cop__calls_end(struct cop_run *run, int status)
{
    while (run->calls != NULL) {
        struct cop__call *call = run->calls;
        run->calls = call->next;
        if (call->next != NULL)
            call->next->link = &run->calls;
        cop__call_finish(run, call, status, NULL);
    }
    cop__streams_end(run, status);
    cop__services_end(run, status);
}

static int enqueue(struct cop_run *run, struct cop__call *call)
{
    struct cop__shared *shared = &run->shared;
    int error = 0;
    pthread_mutex_lock(&run->mutex);
    if (shared->state == COP_RUN_OVER ||
        (shared->state == COP_RUN_JOINING && call->ask == NULL)) {
        error = COP_ESTATE;
    } else if (call->ask == NULL &&
               (shared->queued >= QUEUE_MAX ||
                shared->queued_bytes + call->request.length > QUEUE_BYTES_MAX)) {
        error = COP_EAGAIN;
    } else {
        call->next = NULL;
        *shared->queue_end = call;
        shared->queue_end = &call->next;
        shared->queued++;
        shared->queued_bytes += call->request.length;
        cop__run_wake(run);
    }
    pthread_mutex_unlock(&run->mutex);
    return error;
}

/* libuv may have descriptors that its epoll does not know yet. */
static void wake_if_need_be(struct cop_run *run)
{
    /* From a callback the loop goes on anyway, and asks libuv before it waits; unless it is the
     * program that made us call it, from outside the loop. */
    if (run->is_in_callback && (run->has_thread || run->is_dispatching))
        return;
    pthread_mutex_lock(&run->mutex);
    if (uv_backend_timeout(&run->loop) != -1 || uv_version() < COP__RUNNER_UV_VERSION)
        cop__run_wake(run);
    pthread_mutex_unlock(&run->mutex);
}

void cop__run_stir(struct cop_run *run)
{
    pthread_mutex_lock(&run->mutex);
    cop__run_wake(run);
    pthread_mutex_unlock(&run->mutex);
}

int cop__run_submit(struct cop_run *run, const struct cop_request *request)
{
    if (run->tcp == NULL)
        return COP_ESTATE;
    int error = cop__tcp_submit(run->tcp, request);
    wake_if_need_be(run);
    return error;
}

int cop__call_make(struct cop_run *run, struct cop__call *call)
{
    int error;
    if (cop__run_is_here(run)) {
        error = begin(run, call);
        wake_if_need_be(run);
    } else {
        error = enqueue(run, call);
    }
    if (error)
        cop__call_free(run, call);
    return error;
}

uint64_t cop__run_number(struct cop_run *run)
{
    pthread_mutex_lock(&run->mutex);
    uint64_t number = run->shared.number += 2;
    pthread_mutex_unlock(&run->mutex);
    return number;
}

static struct cop__call *new_call(enum cop_request_kind kind, size_t bytes)
{
    struct cop__call *call = calloc(1, sizeof *call + bytes);
    if (call != NULL)
        call->request.kind = kind;
    return call;
}

/* ---- waiting --------------------------------------------------------------------- */

void cop__waiter_done(void *context, int status)
{
    struct cop__waiter *waiter = context;
    /* The waiter is gone as soon as it is seen to be done. */
    struct cop_run *run = waiter->run;
    pthread_mutex_lock(&run->mutex);
    waiter->is_done = true;
    waiter->status = status;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->mutex);
}

int cop__waiter_wait(struct cop__waiter *waiter)
{
    struct cop_run *run = waiter->run;
    pthread_mutex_lock(&run->mutex);
    while (!waiter->is_done)
        pthread_cond_wait(&run->changed, &run->mutex);
    pthread_mutex_unlock(&run->mutex);
    return waiter->status;
}

bool cop__wait_until(struct cop_run *run, cop_time deadline)
{
    if (deadline == COP_TIME_NEVER)
        return pthread_cond_wait(&run->changed, &run->mutex) == 0;
    struct timespec when = {.tv_sec = (time_t)(deadline / COP_SEC),
                            .tv_nsec = (long)(deadline % COP_SEC)};
    return pthread_cond_timedwait(&run->changed, &run->mutex, &when) == 0;
}

cop_time cop__deadline_after(cop_time timeout_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    cop_time at = (cop_time)now.tv_sec * COP_SEC + (cop_time)now.tv_nsec;
    return timeout_ns > COP_TIME_NEVER - at ? COP_TIME_NEVER : at + timeout_ns;
}

/* Makes a call and waits until it is done. */
static int make_and_wait(struct cop_run *run, struct cop__call *call)
{
    struct cop__waiter waiter = {.run = run};
    if (cop__run_is_here(run)) {
        cop__call_free(run, call);
        return COP_ESTATE;
    }
    if (call == NULL)
        return COP_ENOMEM;
    call->done = cop__waiter_done;
    call->context = &waiter;
    int error = cop__call_make(run, call);
    return error ? error : cop__waiter_wait(&waiter);
}

int cop__ask_loop(struct cop_run *run, int (*ask)(struct cop_run *, void *),
                  void *argument)
{
    if (cop__run_is_here(run)) {
        int error = ask(run, argument);
        wake_if_need_be(run);
        return error;
    }
    struct cop__call *call = new_call(COP_REQUEST_PROBE, 0);
    if (call != NULL) {
        call->ask = ask;
        call->argument = argument;
    }
    return make_and_wait(run, call);
}

/* ---- requests -------------------------------------------------------------------- */

static int make_send(struct cop_run *run, cop_id to, const void *bytes, size_t length,
                     struct cop__call **out)
{
    if (run == NULL || (bytes == NULL && length > 0))
        return COP_EINVAL;
    if (length > COP_MESSAGE_MAX)
        return COP_ETOOBIG;
    struct cop__call *call = new_call(COP_REQUEST_SEND, length);
    if (call == NULL)
        return COP_ENOMEM;
    if (length > 0)
        memcpy(call->bytes, bytes, length);
    call->request.bytes = call->bytes;
    call->request.length = (uint32_t)length;
    call->request.member = to;
    *out = call;
    return 0;
}

int cop_send(struct cop_run *run, cop_id to, const void *bytes, size_t length,
             void (*done)(void *context, int status), void *context)
{
    struct cop__call *call;
    int error = make_send(run, to, bytes, length, &call);
    if (error)
        return error;
    call->done = done;
    call->context = context;
    return cop__call_make(run, call);
}

int cop_send_wait(struct cop_run *run, cop_id to, const void *bytes, size_t length)
{
    struct cop__call *call;
    int error = make_send(run, to, bytes, length, &call);
    return error ? error : make_and_wait(run, call);
}

int cop_report(struct cop_run *run, cop_id member, cop_incarnation incarnation,
               void (*done)(void *context, int status), void *context)
{
    if (run == NULL)
        return COP_EINVAL;
    struct cop__call *call = new_call(COP_REQUEST_REPORT, 0);
    if (call == NULL)
        return COP_ENOMEM;
    call->request.member = member;
    call->request.incarnation = incarnation;
    call->done = done;
    call->context = context;
    return cop__call_make(run, call);
}

int cop_go_on(struct cop_run *run, cop_epoch epoch,
              void (*done)(void *context, int status), void *context)
{
    if (run == NULL)
        return COP_EINVAL;
    struct cop__call *call = new_call(COP_REQUEST_GO_ON, 0);
    if (call == NULL)
        return COP_ENOMEM;
    call->request.target = epoch;
    call->done = done;
    call->context = context;
    return cop__call_make(run, call);
}

static struct cop__call *new_inquiry(cop_id member, cop_time timeout_ns)
{
    struct cop__call *call = new_call(COP_REQUEST_INQUIRE, 0);
    if (call != NULL) {
        call->request.member = member;
        call->request.timeout_ns = timeout_ns;
    }
    return call;
}

int cop_inquire(struct cop_run *run, cop_id member, cop_time timeout_ns,
                void (*done)(void *context, int status), void *context)
{
    if (run == NULL)
        return COP_EINVAL;
    struct cop__call *call = new_inquiry(member, timeout_ns);
    if (call == NULL)
        return COP_ENOMEM;
    call->done = done;
    call->context = context;
    return cop__call_make(run, call);
}

int cop_inquire_wait(struct cop_run *run, cop_id member, cop_time timeout_ns)
{
    return run ? make_and_wait(run, new_inquiry(member, timeout_ns)) : COP_EINVAL;
}

int cop_probe(struct cop_run *run, cop_time timeout_ns,
              void (*done)(void *context, int status,
                           const struct cop_probe_result *result),
              void *context)
{
    if (run == NULL)
        return COP_EINVAL;
    struct cop__call *call = new_call(COP_REQUEST_PROBE, 0);
    if (call == NULL)
        return COP_ENOMEM;
    call->request.timeout_ns = timeout_ns;
    call->probed = done;
    call->context = context;
    return cop__call_make(run, call);
}

int cop_probe_wait(struct cop_run *run, cop_time timeout_ns,
                   struct cop_probe_result *out)
{
    if (run == NULL || out == NULL)
        return COP_EINVAL;
    struct cop__call *call = new_call(COP_REQUEST_PROBE, 0);
    if (call != NULL) {
        call->request.timeout_ns = timeout_ns;
        call->result = out;
    }
    return make_and_wait(run, call);
}

/* ---- questions that wait --------------------------------------------------------- */

int cop_view_wait(struct cop_run *run, cop_epoch after, cop_time timeout_ns,
                  struct cop_view **out)
{
    if (run == NULL || out == NULL)
        return COP_EINVAL;
    if (cop__run_is_here(run))
        return COP_ESTATE;
    cop_time deadline = cop__deadline_after(timeout_ns);
    const struct cop__shared *shared = &run->shared;
    bool is_in_time = true;
    int error = COP_ETIMEDOUT;
    pthread_mutex_lock(&run->mutex);
    for (;;) {
        if (shared->view != NULL && cop_view_epoch(shared->view) > after) {
            *out = cop_view_ref(shared->view);
            error = 0;
        } else if (shared->state == COP_RUN_OVER) {
            error = COP_ESTATE;
        } else if (is_in_time) {
            is_in_time = cop__wait_until(run, deadline);
            continue;
        }
        break;
    }
    pthread_mutex_unlock(&run->mutex);
    return error;
}

int cop_leave_wait(struct cop_run *run, cop_time timeout_ns)
{
    if (run == NULL)
        return COP_EINVAL;
    if (cop__run_is_here(run))
        return COP_ESTATE;
    int error = cop_leave(run);
    if (error)
        return error;
    cop_time deadline = cop__deadline_after(timeout_ns);
    bool is_in_time = true;
    pthread_mutex_lock(&run->mutex);
    while (run->shared.state != COP_RUN_OVER && is_in_time)
        is_in_time = cop__wait_until(run, deadline);
    error = run->shared.state == COP_RUN_OVER ? run->shared.why : COP_ETIMEDOUT;
    pthread_mutex_unlock(&run->mutex);
    return error;
}

static int copy_counters(struct cop_run *run, void *argument)
{
    memcpy(argument, &run->stats, sizeof run->stats);
    return 0;
}

int cop_counters(struct cop_run *run, struct cop_stats *out, size_t size)
{
    struct cop_stats stats;
    if (run == NULL || out == NULL)
        return COP_EINVAL;
    int error = cop__ask_loop(run, copy_counters, &stats);
    if (error)
        return error;
    /* A program that knows fewer counters gets those; one that knows more gets zeros. */
    memset(out, 0, size);
    memcpy(out, &stats, size < sizeof stats ? size : sizeof stats);
    return 0;
}

static int copy_changes(struct cop_run *run, void *argument)
{
    struct cop_change_times *times = argument;
    if (run->tcp == NULL)
        return COP_ESTATE;
    *times = cop_node_change_times(cop__tcp_node(run->tcp));
    return 0;
}

int cop_changes(struct cop_run *run, struct cop_change_times *out)
{
    return run && out ? cop__ask_loop(run, copy_changes, out) : COP_EINVAL;
}

struct rekeying {
    char *message;
    size_t size;
};

static int rekey(struct cop_run *run, void *argument)
{
    const struct rekeying *rekeying = argument;
    if (run->tls == NULL)
        return cop__explain(rekeying->message, rekeying->size, "there is no key");
    int error = cop__tls_reload(run->tls, rekeying->message, rekeying->size);
    if (error == 0 && run->tcp != NULL)
        cop__tcp_rekeyed(run->tcp);
    return error;
}

int cop_rekey(struct cop_run *run, char *message, size_t size)
{
    char ignored[1];
    struct rekeying rekeying = {message ? message : ignored,
                                message ? size : sizeof ignored};
    return run ? cop__ask_loop(run, rekey, &rekeying) : COP_EINVAL;
}

struct suspicions {
    uint64_t from;
    struct cop_suspicion *out;
    uint32_t max, count;
};

static int copy_suspicions(struct cop_run *run, void *argument)
{
    struct suspicions *wanted = argument;
    if (run->tcp == NULL)
        return COP_ESTATE;
    wanted->count = cop_node_events(cop__tcp_node(run->tcp), wanted->from, wanted->out,
                                    wanted->max);
    return 0;
}

int cop_suspicions(struct cop_run *run, uint64_t from, struct cop_suspicion *out,
                   uint32_t max, uint32_t *count)
{
    struct suspicions wanted = {.from = from, .out = out, .max = max};
    if (run == NULL || count == NULL || (out == NULL && max > 0))
        return COP_EINVAL;
    int error = cop__ask_loop(run, copy_suspicions, &wanted);
    if (error == 0)
        *count = wanted.count;
    return error;
}
