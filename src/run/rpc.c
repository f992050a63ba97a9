/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a run over a group. The node takes only so many at a time; those beyond wait here,
 * in their order, and beyond COP_RPC_MAX the caller has to.
 */
#include "coll/coll.h"
#include "run/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------ */

static struct cop__call *new_call(enum cop_request_kind kind, size_t bytes,
                                  cop_call_done *done, void *context)
{
    struct cop__call *call = calloc(1, sizeof *call);
    struct cop__rpc *rpc = calloc(1, sizeof *rpc + bytes);
    if (call == NULL || rpc == NULL) {
        free(call);
        free(rpc);
        return NULL;
    }
    rpc->done = done;
    call->request.kind = kind;
    call->request.coll = &rpc->coll;
    call->rpc = rpc;
    call->context = context;
    return call;
}

struct cop__call *cop__rpc_plain(enum cop_request_kind kind, cop_call_done *done,
                                 void *context)
{
    return new_call(kind, 0, done, context);
}

/* One of COP_RPC_MAX. */
static bool count_in(struct cop_run *run)
{
    pthread_mutex_lock(&run->mutex);
    bool has_room = run->shared.rpcs < COP_RPC_MAX;
    run->shared.rpcs += has_room;
    pthread_mutex_unlock(&run->mutex);
    return has_room;
}

static void count_out(struct cop_run *run, struct cop__rpc *rpc)
{
    if (!rpc->is_counted)
        return;
    rpc->is_counted = false;
    pthread_mutex_lock(&run->mutex);
    run->shared.rpcs--;
    pthread_mutex_unlock(&run->mutex);
}

static int list(struct cop_run *run, struct cop__call *call)
{
    int error = cop__map_put(&run->services.rpcs, call->rpc->number, call, NULL);
    call->rpc->is_listed = error == 0;
    return error;
}

static void unlist(struct cop_run *run, struct cop__rpc *rpc)
{
    if (rpc->is_listed)
        cop__map_remove(&run->services.rpcs, rpc->number);
    rpc->is_listed = false;
}

void cop__rpc_free(struct cop_run *run, struct cop__rpc *rpc)
{
    if (rpc == NULL)
        return;
    unlist(run, rpc);
    count_out(run, rpc);
    cop__source_close(run, &rpc->source);
    free(rpc->buffers.items);
    free(rpc);
}

struct cop__call *cop__rpc_find(const struct cop_run *run, uint64_t number)
{
    return cop__map_get(&run->services.rpcs, number);
}

void cop__rpc_tell(const struct cop__call *call, int status,
                   const struct cop_buf *result)
{
    struct cop_bcast_result read;
    if (call->rpc->done == NULL)
        return;
    if (result == NULL) {
        call->rpc->done(call->context, status, NULL);
        return;
    }
    int error = cop_bcast_result(result, &read);
    call->rpc->done(call->context, error ? error : status, error ? NULL : &read);
    if (error == 0)
        cop_bcast_result_free(&read);
}

/* ---- what waits ------------------------------------------------------------------ */

static void push_waiting(struct cop__services *services, struct cop__call *call)
{
    call->next = NULL;
    call->link = services->backlog_end;
    *services->backlog_end = call;
    services->backlog_end = &call->next;
    call->rpc->is_waiting = true;
}

static void push_waiting_first(struct cop__services *services, struct cop__call *call)
{
    call->next = services->backlog;
    call->link = &services->backlog;
    if (call->next != NULL)
        call->next->link = &call->next;
    else
        services->backlog_end = &call->next;
    services->backlog = call;
    call->rpc->is_waiting = true;
}

static void take_waiting(struct cop__services *services, struct cop__call *call)
{
    *call->link = call->next;
    if (call->next != NULL)
        call->next->link = call->link;
    else
        services->backlog_end = call->link;
    call->rpc->is_waiting = false;
}

static bool is_member(const struct cop_run *run)
{
    return run->tcp != NULL && run->shared.state != COP_RUN_JOINING;
}

/* A call that ends a group can only be told to come again: what it waits for is not room. */
static bool may_wait(const struct cop__call *call)
{
    return call->rpc->is_counted && (call->rpc->coll.flags & COP_BCAST_LAST) == 0;
}

/* The service that says who is in a group may abort the call that it is asked for. */
static int submit(struct cop_run *run, struct cop__call *call)
{
    if (!is_member(run))
        return COP_ESTATE;
    /* Nobody is asked who is in a group before there is room for it. */
    if (may_wait(call) && !cop__coll_has_room(cop__tcp_node(run->tcp)))
        return COP_EAGAIN;
    call->rpc->is_beginning = true;
    int error = cop__team_refresh(run, call->rpc->coll.group);
    call->rpc->is_beginning = false;
    if (call->rpc->is_aborted)
        return COP_EABORTED;
    return error ? error : cop__call_submit(run, call);
}

/* Begins on the loop's thread. On failure it is still the caller's. What waits at the end of a
 * life is told so one by one, and may not be waited behind. */
static int begin(struct cop_run *run, struct cop__call *call)
{
    int error = call->rpc->is_aborted ? COP_EABORTED : COP_EAGAIN;
    if (!is_member(run))
        return COP_ESTATE;
    if (error == COP_EAGAIN && (run->services.backlog == NULL || !may_wait(call)))
        error = submit(run, call);
    if (error == COP_EAGAIN && may_wait(call)) {
        push_waiting(&run->services, call);
        error = 0;
    }
    if (error == 0)
        call->rpc->is_sent = true;
    return error;
}

/* There is always room for those that were aborted, which are the first. */
static void end_aborted(struct cop_run *run)
{
    struct cop__services *services = &run->services;
    while (services->backlog != NULL && services->backlog->rpc->is_aborted) {
        struct cop__call *call = services->backlog;
        take_waiting(services, call);
        cop__call_finish(run, call, COP_EABORTED, NULL);
    }
}

/* There is no room. What was aborted while it was tried is before it, and may abort it, too. */
static void put_back(struct cop_run *run, struct cop__call *call)
{
    call->rpc->is_beginning = true;
    end_aborted(run);
    call->rpc->is_beginning = false;
    push_waiting_first(&run->services, call);
    end_aborted(run);
}

void cop__rpc_pump(struct cop_run *run)
{
    struct cop__services *services = &run->services;
    end_aborted(run);
    while (services->backlog != NULL && run->tcp != NULL) {
        struct cop__call *call = services->backlog;
        take_waiting(services, call);
        int error = submit(run, call);
        if (error && error != COP_EAGAIN)
            cop__call_finish(run, call, error, NULL);
        if (error == COP_EAGAIN) {
            put_back(run, call);
            return;
        }
        end_aborted(run);
    }
}

void cop__rpcs_end(struct cop_run *run, int status)
{
    struct cop__services *services = &run->services;
    while (services->backlog != NULL) {
        struct cop__call *call = services->backlog;
        take_waiting(services, call);
        cop__call_finish(run, call, status, NULL);
    }
}

/* ---- the end of one -------------------------------------------------------------- */

/* Again, with the lowest version that somebody understands? */
static bool try_again(struct cop_run *run, struct cop__call *call, int status,
                      const struct cop_buf *result)
{
    struct cop__rpc *rpc = call->rpc;
    struct cop_bcast_result read;
    if (!rpc->retry || status == COP_EABORTED || result == NULL ||
        cop_bcast_result(result, &read) != 0)
        return false;
    uint32_t lowest = read.lowest_version;
    cop_bcast_result_free(&read);
    if (lowest == 0 || lowest >= rpc->coll.version)
        return false;
    cop__source_rewind(run, &rpc->source);
    rpc->coll.version = lowest;
    rpc->task = 0;
    return begin(run, call) == 0;
}

static bool on_ended(struct cop_run *run, struct cop__call *call, int status,
                     const struct cop_buf *result)
{
    struct cop__rpc *rpc = call->rpc;
    if (rpc->task != 0)
        cop__task_conclude(run, rpc->task, status);
    if ((rpc->coll.flags & COP_BCAST_LAST) != 0 && result != NULL)
        cop__team_forget(run, rpc->coll.group);
    if (try_again(run, call, status, result))
        return true;
    if (rpc->is_aborted) { /* before it began again */
        status = COP_EABORTED;
        result = NULL;
    }
    /* From `done` on there is room for another one. */
    unlist(run, rpc);
    count_out(run, rpc);
    cop__rpc_tell(call, status, result);
    return false;
}

/* ---- making one ------------------------------------------------------------------ */

static size_t bytes_of(const struct cop_call *call)
{
    size_t sum = call->length;
    for (uint32_t i = 0; i < call->portion_count && sum <= COP_BCAST_MAX; i++)
        sum += call->portions[i].length;
    return sum;
}

static int check(const struct cop_call *call)
{
    if (((call->flags & COP_BCAST_BULK) != 0 && call->bulk == NULL) ||
        (call->bytes == NULL && call->length > 0) ||
        (call->portions == NULL && call->portion_count > 0))
        return COP_EINVAL;
    for (uint32_t i = 0; i < call->portion_count; i++)
        if (call->portions[i].bytes == NULL && call->portions[i].length > 0)
            return COP_EINVAL;
    if (call->portion_count > COP_BCAST_MAX || bytes_of(call) > COP_BCAST_MAX)
        return COP_ETOOBIG;
    return 0;
}

/* The payloads behind one another, after the list of portions, which is aligned. */
static void copy_payload(struct cop__call *call, const struct cop_call *wanted)
{
    struct cop__rpc *rpc = call->rpc;
    struct cop_portion *portions = (struct cop_portion *)(void *)rpc->bytes;
    uint8_t *to = rpc->bytes + wanted->portion_count * sizeof *portions;
    if (wanted->length > 0)
        memcpy(to, wanted->bytes, wanted->length);
    call->request.bytes = to;
    call->request.length = (uint32_t)wanted->length;
    to += wanted->length;
    for (uint32_t i = 0; i < wanted->portion_count; i++) {
        portions[i] = wanted->portions[i];
        portions[i].bytes = to;
        if (portions[i].length > 0)
            memcpy(to, wanted->portions[i].bytes, portions[i].length);
        to += portions[i].length;
    }
    rpc->coll.portions = portions;
    rpc->coll.portion_count = wanted->portion_count;
}

static int take_bulk(struct cop__rpc *rpc, const struct cop_bulk *bulk)
{
    if (bulk == NULL)
        return 0;
    rpc->coll.bulk_length = bulk->length;
    rpc->coll.bulk_chunk = bulk->chunk;
    return cop__source_open(bulk, &rpc->source);
}

static int make(struct cop_run *run, const struct cop_call *wanted, uint32_t flags,
                cop_call_done *done, void *context, struct cop__call **out)
{
    int error = check(wanted);
    if (error)
        return error;
    struct cop__call *call =
        new_call(COP_REQUEST_BCAST,
                 wanted->portion_count * sizeof(struct cop_portion) + bytes_of(wanted),
                 done, context);
    if (call == NULL)
        return COP_ENOMEM;
    struct cop_coll *coll = &call->rpc->coll;
    error = take_bulk(call->rpc, wanted->bulk);
    if (error) {
        cop__call_free(run, call);
        return error;
    }
    copy_payload(call, wanted);
    coll->service.id = wanted->service;
    coll->op = wanted->op;
    coll->argument = wanted->argument;
    coll->service_ns = wanted->service_ns;
    coll->version = wanted->version;
    coll->flags = wanted->flags | flags | (wanted->bulk ? COP_BCAST_BULK : 0);
    /* Of everybody the dead are named and not asked, with HEAL. */
    if (cop__group_split(wanted->group, &coll->group) &&
        (coll->group != COP_GROUP_ALL || (coll->flags & COP_BCAST_HEAL) == 0))
        coll->flags |= COP_BCAST_ALIVE;
    call->request.timeout_ns = wanted->timeout_ns;
    call->rpc->retry = wanted->retry;
    call->rpc->user = wanted->user;
    call->rpc->number = cop__run_number(run);
    call->end = on_ended;
    *out = call;
    return 0;
}

/* ---- one call, one answer -------------------------------------------------------- */

static int begin_counted(struct cop_run *run, struct cop__call *call)
{
    int error = list(run, call);
    return error ? error : begin(run, call);
}

int cop_rpc(struct cop_run *run, const struct cop_call *call, cop_call_done *done,
            void *context)
{
    struct cop__call *made;
    if (run == NULL || call == NULL)
        return COP_EINVAL;
    int error = make(run, call, COP_BCAST_HEAL, done, context, &made);
    if (error)
        return error;
    made->rpc->is_counted = count_in(run);
    made->begin = begin_counted;
    if (!made->rpc->is_counted) {
        cop__call_free(run, made);
        return COP_EAGAIN;
    }
    /* By now: on another thread the call may have ended before this returns, and whoever is
     * told so may want the number, or have done away with the place for it. */
    uint64_t unused = 0, *number = call->number ? call->number : &unused,
             before = *number;
    *number = made->rpc->number;
    error = cop__call_make(run, made);
    if (error)
        *number = before;
    return error;
}

struct wait {
    struct cop__waiter waiter;
    struct cop_bcast_result *out;
};

static int copy_result(const struct cop_bcast_result *from,
                       struct cop_bcast_result *out)
{
    struct cop_bcast_result copy = *from;
    copy.failures = calloc(from->failure_count + 1, sizeof *copy.failures);
    uint8_t *bytes = malloc(from->length + 1);
    if (copy.failures == NULL || bytes == NULL) {
        free(copy.failures);
        free(bytes);
        return COP_ENOMEM;
    }
    if (from->failure_count > 0)
        memcpy(copy.failures, from->failures,
               from->failure_count * sizeof *copy.failures);
    if (from->length > 0)
        memcpy(bytes, from->bytes, from->length);
    copy.bytes = bytes;
    *out = copy;
    return 0;
}

static bool has_result(int status)
{
    return status == 0 || status == COP_ETIMEDOUT || status == COP_EVERSION;
}

static void on_awaited(void *context, int status, const struct cop_bcast_result *result)
{
    struct wait *wait = context;
    struct cop_bcast_result nothing = {0};
    if (has_result(status)) {
        int error = copy_result(result ? result : &nothing, wait->out);
        status = error ? error : status;
    }
    cop__waiter_done(&wait->waiter, status);
}

int cop_rpc_wait(struct cop_run *run, const struct cop_call *call,
                 struct cop_bcast_result *out)
{
    struct wait wait = {.waiter = {.run = run}, .out = out};
    if (run == NULL || out == NULL)
        return COP_EINVAL;
    if (cop__run_is_here(run))
        return COP_ESTATE;
    /* Without a result there is nothing to be freed, whatever is returned. */
    *out = (struct cop_bcast_result){0};
    int error = cop_rpc(run, call, on_awaited, &wait);
    return error ? error : cop__waiter_wait(&wait.waiter);
}

void cop_result_free(struct cop_bcast_result *result)
{
    if (result == NULL)
        return;
    free((void *)(uintptr_t)result->bytes);
    free(result->failures);
    *result = (struct cop_bcast_result){0};
}

/* ---- in steps -------------------------------------------------------------------- */

struct step {
    struct cop__call *call;
    uint64_t number;
    cop_id *lost;
};

static int do_new(struct cop_run *run, void *argument)
{
    const struct step *step = argument;
    if (run->shared.state == COP_RUN_OVER)
        return COP_ESTATE;
    return list(run, step->call);
}

int cop_bcast_new(struct cop_run *run, const struct cop_call *call, cop_call_done *done,
                  void *context, uint64_t *out)
{
    struct step step;
    if (run == NULL || call == NULL || out == NULL)
        return COP_EINVAL;
    int error = make(run, call, 0, done, context, &step.call);
    if (error)
        return error;
    step.number = step.call->rpc->number;
    error = cop__ask_loop(run, do_new, &step);
    if (error)
        cop__call_free(run, step.call);
    else
        *out = step.number;
    return error;
}

static int do_send(struct cop_run *run, void *argument)
{
    const struct step *step = argument;
    struct cop__call *call = cop__rpc_find(run, step->number);
    if (call == NULL)
        return COP_ENOENT;
    if (call->rpc->is_sent || call->rpc->is_beginning)
        return COP_ESTATE;
    call->rpc->coll.lost = step->lost;
    int error = begin(run, call);
    call->rpc->coll.lost = NULL;
    if (call->rpc->is_aborted)
        cop__call_free(run, call);
    return error;
}

int cop_bcast_send(struct cop_run *run, uint64_t number, cop_id *lost)
{
    struct step step = {.number = number, .lost = lost};
    return run ? cop__ask_loop(run, do_send, &step) : COP_EINVAL;
}

static int do_abort(struct cop_run *run, void *argument)
{
    const struct step *step = argument;
    struct cop__call *call = cop__rpc_find(run, step->number);
    bool is_here = call != NULL;
    if (!is_here)
        call = cop__call_queued(run, step->number);
    if (call == NULL || call->rpc == NULL)
        return COP_ENOENT;
    call->rpc->retry = false;
    if (!is_here || call->rpc->is_beginning) {
        call->rpc->is_aborted = true; /* whoever is about to submit it sees that */
        return 0;
    }
    if (!call->rpc->is_sent) {
        cop__call_free(run, call);
        return 0;
    }
    if (call->rpc->is_waiting) {
        /* In the next turn, for `done` is not called before this returns. */
        take_waiting(&run->services, call);
        push_waiting_first(&run->services, call);
        call->rpc->is_aborted = true;
        cop__run_stir(run);
        return 0;
    }
    struct cop_request request = {.kind = COP_REQUEST_ABORT,
                                  .target = (uint64_t)(uintptr_t)call};
    return cop__run_submit(run, &request);
}

int cop_bcast_abort(struct cop_run *run, uint64_t number)
{
    struct step step = {.number = number};
    return run ? cop__ask_loop(run, do_abort, &step) : COP_EINVAL;
}
