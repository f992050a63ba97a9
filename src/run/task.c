/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are run here: which callback is called when, and what becomes of what a
 * service says. The node knows a task by its handle; the program by a number that no later
 * life of this run gives again: the life and the handle, and odd, for those of calls are
 * even.
 */
#include "coll/coll.h"
#include "run/parts.h"

#include <stdlib.h>
#include <string.h>

#define LIFE_SHIFT 44u

static uint64_t number_of(const struct cop_run *run, uint64_t handle)
{
    return run->services.life << LIFE_SHIFT | handle << 1 | 1;
}

struct cop__task *cop__task_find(const struct cop_run *run, uint64_t number)
{
    struct cop__task *lone = run->services.lone;
    if (lone != NULL && lone->told.number == number)
        return lone;
    return cop__map_get(&run->services.tasks, number);
}

/* ---- life ------------------------------------------------------------------------ */

static int list(struct cop__services *services, struct cop__task *task)
{
    if (services->lone != NULL)
        return cop__map_put(&services->tasks, task->told.number, task, NULL);
    services->lone = task;
    return 0;
}

/* Nobody finds it any more. */
static void drop(struct cop_run *run, struct cop__task *task)
{
    struct cop__services *services = &run->services;
    if (services->lone == task)
        services->lone = NULL;
    else if (!task->is_over)
        cop__map_remove(&services->tasks, task->told.number);
    task->is_over = true;
}

/* The memory goes when it is over and the last callback has returned; that of one is kept. */
static void reap(struct cop_run *run, struct cop__task *task)
{
    if (!task->is_over || task->callbacks > 0)
        return;
    if (task->sink != NULL)
        cop__sink_close(run, task);
    cop_buf_unref(task->record);
    free(task->buffers.items);
    if (run->services.spare != NULL)
        free(task);
    else
        run->services.spare = task;
}

static struct cop__task *take(struct cop__services *services)
{
    struct cop__task *task = services->spare;
    if (task == NULL)
        return calloc(1, sizeof *task);
    services->spare = NULL;
    *task = (struct cop__task){0};
    return task;
}

static void describe(struct cop__task *task, const struct cop_upcall *upcall)
{
    struct cop_task *told = &task->told;
    told->service = upcall->service;
    told->group = upcall->group;
    told->root = upcall->root;
    told->version = upcall->version;
    told->flags = upcall->flags;
    told->tags = upcall->tags;
    told->tag_count = upcall->tag_count;
    /* The record is a copy that nobody else reads. */
    told->bytes = (uint8_t *)(uintptr_t)upcall->bytes;
    told->length = upcall->length;
    told->bulk_length = upcall->bulk_length;
}

static struct cop__task *begin(struct cop_run *run, const struct cop_upcall *upcall,
                               struct cop_buf *record)
{
    struct cop__task *task = take(&run->services);
    if (task == NULL)
        return NULL;
    task->told.number = number_of(run, upcall->handle);
    if (list(&run->services, task) != 0) {
        free(task);
        return NULL;
    }
    task->handle = upcall->handle;
    task->verdict = COP_LATER;
    task->record = cop_buf_ref(record);
    describe(task, upcall);
    return task;
}

/* Callbacks are between these two. */
static bool enter(struct cop_run *run, struct cop__task *task)
{
    bool was = run->is_in_callback;
    run->is_in_callback = true;
    task->callbacks++;
    return was;
}

static void leave(struct cop_run *run, struct cop__task *task, bool was)
{
    run->is_in_callback = was;
    task->callbacks--;
}

/* ---- what a service says --------------------------------------------------------- */

struct saying {
    uint64_t task;
    int status;
    const void *bytes;
    size_t length;
    bool more, silent;
};

static int submit_reply(struct cop_run *run, uint64_t handle,
                        const struct saying *saying)
{
    struct cop_coll coll = {.handle = handle,
                            .status = saying->status,
                            .more = saying->more,
                            .silent = saying->silent};
    struct cop_request request = {.kind = COP_REQUEST_REPLY,
                                  .coll = &coll,
                                  .bytes = saying->bytes,
                                  .length = (uint32_t)saying->length};
    return cop__run_submit(run, &request);
}

static int do_reply(struct cop_run *run, void *argument)
{
    const struct saying *saying = argument;
    struct cop__task *task = cop__task_find(run, saying->task);
    if (task == NULL)
        return COP_ENOENT;
    int error = submit_reply(run, task->handle, saying);
    if (error == 0 && !saying->more)
        task->has_replied = true;
    return error;
}

static int say(struct cop_run *run, struct saying *saying)
{
    if (run == NULL || (saying->bytes == NULL && saying->length > 0))
        return COP_EINVAL;
    if (saying->length > COP_REPLY_MAX)
        return COP_ETOOBIG;
    return cop__ask_loop(run, do_reply, saying);
}

int cop_reply(struct cop_run *run, uint64_t task, int status, const void *bytes,
              size_t length)
{
    struct saying saying = {task, status, bytes, length, false, false};
    return say(run, &saying);
}

int cop_reply_part(struct cop_run *run, uint64_t task, const void *bytes, size_t length)
{
    struct saying saying = {task, 0, bytes, length, true, false};
    return say(run, &saying);
}

/* What `run` returned is the answer, unless there was one. `is_last`: nothing that comes after
 * it is of any use. */
static void reply_with_verdict(struct cop_run *run, struct cop__task *task,
                               bool is_last)
{
    struct saying saying = {
        .task = task->told.number, .status = task->verdict, .silent = is_last};
    if (task->verdict == COP_LATER || task->has_replied || task->is_over ||
        task->told.bulk_status != 0)
        return;
    if (saying.status > 0)
        saying.status = COP_EINVAL;
    if (do_reply(run, &saying) == 0 && is_last)
        drop(run, task);
}

/* ---- check and run --------------------------------------------------------------- */

static int submit_checked(struct cop_run *run, uint64_t handle, int status,
                          cop_time service_ns)
{
    struct cop_coll coll = {
        .handle = handle, .status = status, .service_ns = service_ns};
    struct cop_request request = {.kind = COP_REQUEST_CHECKED, .coll = &coll};
    return cop__run_submit(run, &request);
}

COP__APART static void on_check(struct cop_run *run,
                                const struct cop_handlers *handlers,
                                const struct cop_upcall *upcall, struct cop_buf *record)
{
    struct cop__task *task = begin(run, upcall, record);
    if (task == NULL) {
        submit_checked(run, upcall->handle, COP_ENOMEM, 0);
        return;
    }
    bool was = enter(run, task);
    int status = 0;
    task->is_checking = true;
    if (handlers->check != NULL)
        status = handlers->check(handlers->context, run, &task->told);
    task->is_checking = false;
    if (status > 0)
        status = COP_EREFUSED;
    /* It was refused, or it has ended by now: nothing more comes of it. */
    if (!task->is_over &&
        (submit_checked(run, task->handle, status, task->told.service_ns) != 0 ||
         status != 0))
        drop(run, task);
    leave(run, task, was);
    reap(run, task);
}

/* At the root: whose call it is. Tokens are calls, and this one has not ended, but for those
 * that ended with their bulk. */
COP__APART static void join_call(struct cop_run *run, struct cop__task *task,
                                 uint64_t token)
{
    struct cop__call *call = (struct cop__call *)(uintptr_t)token;
    if ((task->told.flags & COP_BCAST_BULK) != 0)
        call = cop__call_under_way(run, token);
    if (call == NULL || call->rpc == NULL)
        return;
    if (task->is_early) {
        task->told.bytes = (uint8_t *)(uintptr_t)call->request.bytes;
        task->told.length = call->request.length;
    }
    task->told.call = call->rpc->number;
    task->told.user = call->rpc->user;
    call->rpc->task = task->told.number;
    free(task->buffers.items);
    task->buffers = call->rpc->buffers;
    call->rpc->buffers = (struct cop__buffers){0};
}

/* Whether nobody is called any more once `run` has returned an answer. The root's task is known
 * by its call, too, for as long as that is under way. */
static bool is_brief(const struct cop_handlers *handlers, const struct cop_task *told)
{
    return handlers->reply == NULL && handlers->done == NULL &&
           handlers->sent == NULL && told->call == 0 &&
           (told->flags & COP_BCAST_BULK) == 0;
}

/* Its bulk is all here, or never will be. */
static void call_run(struct cop_run *run, const struct cop_handlers *handlers,
                     struct cop__task *task, int bulk_status)
{
    if (task->sink != NULL)
        cop__sink_close(run, task);
    task->is_running = true;
    task->told.bulk_status = bulk_status;
    bool was = enter(run, task);
    task->verdict = 0;
    if (handlers->run != NULL)
        task->verdict = handlers->run(handlers->context, run, &task->told);
    if ((task->told.flags & COP_BCAST_HEAL) != 0)
        reply_with_verdict(run, task, is_brief(handlers, &task->told));
    leave(run, task, was);
}

/* Whether it has a task by the time that it is run. */
static bool is_checked(const struct cop_handlers *handlers,
                       const struct cop_upcall *upcall)
{
    return upcall->token == 0 && (handlers->check != NULL || handlers->piece != NULL);
}

/* The task that is to run; NULL: it is not, and the node was told. */
static struct cop__task *task_to_run(struct cop_run *run, struct cop__task *task,
                                     const struct cop_upcall *upcall,
                                     struct cop_buf *record)
{
    struct saying failure = {.status = COP_ENOMEM};
    if (task == NULL)
        task = begin(run, upcall, record);
    if (task == NULL) {
        submit_reply(run, upcall->handle, &failure);
        return NULL;
    }
    if (task->is_early) {
        /* A piece does not have the request with it. */
        task->is_early = false;
        cop_buf_unref(task->record);
        task->record = cop_buf_ref(record);
        describe(task, upcall);
    }
    return task;
}

struct cop__task *cop__task_of_piece(struct cop_run *run,
                                     const struct cop_upcall *upcall,
                                     struct cop_buf *record)
{
    struct cop__task *task = cop__task_find(run, number_of(run, upcall->handle));
    /* Of what begins in the middle the first went to a service that has gone, or was lost. */
    if (task != NULL || upcall->token == 0 || upcall->offset > 0)
        return task;
    task = begin(run, upcall, record);
    if (task == NULL)
        return NULL;
    task->is_early = true;
    join_call(run, task, upcall->token);
    return task;
}

int cop__task_piece(struct cop_run *run, const struct cop_handlers *handlers,
                    struct cop__task *task, const struct cop_piece *piece)
{
    bool was = enter(run, task);
    int status = handlers->piece(handlers->context, run, &task->told, piece);
    leave(run, task, was);
    if (!task->is_over)
        return status;
    /* The callback ended it: nobody waits for what it says of the piece. */
    reap(run, task);
    return COP_LATER;
}

/* ---- answers of children --------------------------------------------------------- */

int cop__buffers_add(struct cop__buffers *buffers, const struct cop__buffer *buffer)
{
    for (uint32_t i = 0; i < buffers->count; i++)
        if (buffers->items[i].child == buffer->child)
            return COP_EEXIST;
    struct cop__buffer *grown =
        realloc(buffers->items, (buffers->count + 1) * sizeof *grown);
    if (grown == NULL)
        return COP_ENOMEM;
    grown[buffers->count++] = *buffer;
    buffers->items = grown;
    return 0;
}

static struct cop__buffer *buffer_of(const struct cop_run *run,
                                     const struct cop__task *task, cop_id peer)
{
    const struct cop_node *node = cop__tcp_node(run->tcp);
    for (uint32_t i = 0; i < task->buffers.count; i++)
        if (cop_child_id(node, task->handle, 0, task->buffers.items[i].child) == peer)
            return &task->buffers.items[i];
    return NULL;
}

static void fill(struct cop__buffer *buffer, struct cop_answer *answer)
{
    size_t room = buffer->is_open ? buffer->size - buffer->used : buffer->size;
    size_t taken = answer->length < room ? answer->length : room;
    if (!buffer->is_open)
        buffer->used = 0;
    if (taken > 0)
        memcpy(buffer->bytes + buffer->used, answer->bytes, taken);
    buffer->used += taken;
    if (taken < answer->length && answer->status == 0)
        answer->status = COP_ETOOBIG;
    buffer->is_open = answer->more;
    answer->bytes = buffer->bytes;
    answer->length = (uint32_t)buffer->used;
}

COP__APART static void on_reply(struct cop_run *run,
                                const struct cop_handlers *handlers,
                                struct cop__task *task, const struct cop_upcall *upcall)
{
    struct cop_answer answer = {.from = upcall->peer,
                                .status = upcall->status,
                                .phase = upcall->phase,
                                .more = upcall->more,
                                .bytes = upcall->bytes,
                                .length = upcall->length};
    struct cop__buffer *buffer = buffer_of(run, task, upcall->peer);
    if (buffer != NULL)
        fill(buffer, &answer);
    bool was = enter(run, task);
    handlers->reply(handlers->context, run, &task->told, &answer);
    leave(run, task, was);
}

/* ---- the end --------------------------------------------------------------------- */

static void tell_done(struct cop_run *run, const struct cop_handlers *handlers,
                      struct cop__task *task, int status)
{
    if (task->is_done || !task->is_running)
        return;
    task->is_done = true;
    task->told.status = status;
    bool was = enter(run, task);
    if (handlers->done != NULL)
        handlers->done(handlers->context, run, &task->told);
    reply_with_verdict(run, task, false);
    leave(run, task, was);
}

static void tell_sent(struct cop_run *run, const struct cop_handlers *handlers,
                      struct cop__task *task, int status)
{
    if (!task->is_running || task->is_sent || task->told.call != 0 ||
        handlers->sent == NULL)
        return;
    task->is_sent = true;
    task->told.status = status;
    bool was = enter(run, task);
    handlers->sent(handlers->context, run, &task->told);
    leave(run, task, was);
}

/* Who has been asked for bulk, and has not refused, has to hear that it will not have it. */
static void promise_run(struct cop_run *run, const struct cop_handlers *handlers,
                        struct cop__task *task, int status)
{
    if (!task->is_running && !task->is_checking &&
        (task->told.flags & COP_BCAST_BULK) != 0)
        call_run(run, handlers, task, status ? status : COP_EABORTED);
}

/* Whatever of it has not begun yet. */
static void tell_end(struct cop_run *run, const struct cop_handlers *handlers,
                     struct cop__task *task)
{
    promise_run(run, handlers, task, task->end_status);
    tell_done(run, handlers, task, task->end_status);
    tell_sent(run, handlers, task, task->end_status);
}

/* With all that was promised. Off the map first: callbacks find that it is over. One of them
 * may unregister the service, which has to find it, for the others come before that returns. */
COP__APART static void finish(struct cop_run *run, const struct cop_handlers *handlers,
                              struct cop__task *task, int status)
{
    struct cop__services *services = &run->services;
    drop(run, task);
    cop__sink_close(run, task);
    task->end_status = status;
    task->outer = services->ending;
    services->ending = task;
    if (handlers != NULL)
        tell_end(run, handlers, task);
    services->ending = task->outer;
    reap(run, task);
}

void cop__task_conclude(struct cop_run *run, uint64_t number, int status)
{
    struct cop__task *task = cop__task_find(run, number);
    if (task == NULL)
        return;
    const struct cop_handlers *found = cop__handlers_find(run, task->told.service);
    /* A copy: callbacks may register and unregister services. */
    struct cop_handlers handlers = found ? *found : (struct cop_handlers){0};
    finish(run, found ? &handlers : NULL, task, status);
}

static void mark_leaving(struct cop__task *task, uint64_t service, uint32_t leaving)
{
    if (task->told.service == service && task->leaving == 0)
        task->leaving = leaving;
}

/* Those of this service; what an earlier one of its number has left is that one's. */
static uint32_t mark_all(struct cop_run *run, uint64_t service)
{
    struct cop__services *services = &run->services;
    struct cop__map_slot *slot;
    uint32_t at = 0, leaving = ++services->leavings;
    if (services->lone != NULL)
        mark_leaving(services->lone, service, leaving);
    for (; (slot = cop__map_next(&services->tasks, &at)); at++)
        mark_leaving(slot->value, service, leaving);
    for (struct cop__task *task = services->ending; task; task = task->outer)
        mark_leaving(task, service, leaving);
    return leaving;
}

/* The first that is to end; callbacks may change the map, so it is looked for anew. */
static struct cop__task *first_of(const struct cop_run *run, uint32_t leaving)
{
    struct cop__map_slot *slot;
    struct cop__task *lone = run->services.lone;
    uint32_t at = 0;
    if (lone != NULL && (leaving == 0 || lone->leaving == leaving))
        return lone;
    for (; (slot = cop__map_next(&run->services.tasks, &at)); at++) {
        struct cop__task *task = slot->value;
        if (leaving == 0 || task->leaving == leaving)
            return task;
    }
    return NULL;
}

void cop__tasks_end(struct cop_run *run, const struct cop_handlers *only, int status)
{
    struct cop__task *task;
    uint32_t leaving = only ? mark_all(run, only->service) : 0;
    while ((task = first_of(run, leaving))) {
        const struct cop_handlers *found =
            only ? only : cop__handlers_find(run, task->told.service);
        struct cop_handlers handlers = {0};
        if (found != NULL)
            handlers = *found;
        finish(run, &handlers, task, status);
    }
    /* Those that this was called from are in no map. */
    for (task = run->services.ending; only != NULL && task != NULL; task = task->outer)
        if (task->leaving == leaving)
            tell_end(run, only, task);
}

static void on_run(struct cop_run *run, const struct cop_handlers *handlers,
                   const struct cop_upcall *upcall, struct cop_buf *record)
{
    bool has_ended = !cop__coll_is_under_way(cop__tcp_node(run->tcp), upcall->handle);
    bool has_bulk = (upcall->flags & COP_BCAST_BULK) != 0;
    struct cop__task *task = cop__task_find(run, number_of(run, upcall->handle));
    /* What ended on the way here is not run, but who has taken bulk must hear of it. What was
     * checked by a service that has gone is not for the one that has its number now. */
    if (task == NULL && ((has_ended && !has_bulk) || is_checked(handlers, upcall)))
        return;
    task = task_to_run(run, task, upcall, record);
    if (task == NULL)
        return;
    if (upcall->token != 0 && task->told.call == 0)
        join_call(run, task, upcall->token);
    if (has_ended) {
        finish(run, handlers, task, upcall->status ? upcall->status : COP_EABORTED);
        return;
    }
    call_run(run, handlers, task, upcall->status);
    reap(run, task);
}

void cop__task_upcall(struct cop_run *run, const struct cop_handlers *handlers,
                      const struct cop_upcall *upcall, struct cop_buf *record)
{
    if (upcall->kind == COP_UPCALL_CHECK) {
        on_check(run, handlers, upcall, record);
        return;
    }
    if (upcall->kind == COP_UPCALL_RUN) {
        on_run(run, handlers, upcall, record);
        return;
    }
    struct cop__task *task = cop__task_find(run, number_of(run, upcall->handle));
    if (task == NULL)
        return;
    if (upcall->kind == COP_UPCALL_SENT) {
        finish(run, handlers, task, upcall->status);
        return;
    }
    if (upcall->kind == COP_UPCALL_REPLY)
        on_reply(run, handlers, task, upcall);
    else if (upcall->kind == COP_UPCALL_DONE)
        tell_done(run, handlers, task, upcall->status);
    reap(run, task);
}
