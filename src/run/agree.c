/* SPDX-License-Identifier: Apache-2.0 */
/* Agreements of the program: a layer of callbacks over the requests of agree/. */
#include "run/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- groups ---------------------------------------------------------------------- */

static int submit(struct cop_run *run, void *argument)
{
    /* Its COMPLETE is nobody's: what it says is known by then. */
    return cop__run_submit(run, argument);
}

static int list_members(const struct cop_view *view, struct cop_agree_group *group)
{
    uint32_t count = cop_view_size(view);
    struct cop_life *members = calloc(count ? count : 1, sizeof *members);
    cop_id id = COP_ID_NONE;
    if (members == NULL)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        id = cop_view_next(view, id);
        members[i] = (struct cop_life){id, cop_view_incarnation(view, id)};
    }
    group->members = members;
    group->count = count;
    return 0;
}

int cop_agree_group_create(struct cop_run *run, const struct cop_view *view,
                           const struct cop_agree_group *options)
{
    if (run == NULL || options == NULL || (view == NULL && options->members == NULL))
        return COP_EINVAL;
    struct cop_agree_group group = *options;
    struct cop_request request = {.kind = COP_REQUEST_AGREE_GROUP, .new_group = &group};
    int error = view ? list_members(view, &group) : 0;
    if (error)
        return error;
    error = cop__ask_loop(run, submit, &request);
    if (view != NULL)
        free((void *)(uintptr_t)group.members);
    return error;
}

int cop_agree_group_free(struct cop_run *run, uint64_t group)
{
    struct cop_request request = {.kind = COP_REQUEST_AGREE_FREE, .group = group};
    return run ? cop__ask_loop(run, submit, &request) : COP_EINVAL;
}

/* ---- calls ----------------------------------------------------------------------- */

/* For one who waits, on another thread: references to buffers are counted by the loop's
 * thread alone, so it gets a copy. */
static int keep(const struct cop_buf *result, struct cop_agreed *out)
{
    struct cop_buf *copy = cop_buf_copy(result->data, result->length);
    if (copy == NULL)
        return COP_ENOMEM;
    int error = cop_agreed(copy, out);
    if (error)
        cop_buf_unref(copy);
    else
        out->kept = copy;
    return error;
}

static bool end_awaited(struct cop_run *run, struct cop__call *call, int status,
                        const struct cop_buf *result)
{
    int error = result ? keep(result, call->agreement) : 0;
    (void)run;
    call->done(call->context, error ? error : status);
    return false;
}

static bool end_told(struct cop_run *run, struct cop__call *call, int status,
                     const struct cop_buf *result)
{
    struct cop_agreed agreed;
    int error = result ? cop_agreed(result, &agreed) : 0;
    (void)run;
    if (call->agreed == NULL) {
        ;
    } else if (result == NULL || error) {
        call->agreed(call->context, error ? error : status, NULL);
    } else {
        call->agreed(call->context, status, &agreed);
    }
    if (result != NULL && error == 0)
        cop_agreed_free(&agreed);
    return false;
}

static int make(struct cop_run *run, const struct cop_agree_call *what,
                struct cop__call **out)
{
    if (run == NULL || what == NULL || (what->value == NULL && what->length > 0))
        return COP_EINVAL;
    if (what->length > COP_VALUE_MAX)
        return COP_ETOOBIG;
    struct cop__call *call = calloc(1, sizeof *call + what->length);
    if (call == NULL)
        return COP_ENOMEM;
    if (what->length > 0)
        memcpy(call->bytes, what->value, what->length);
    call->request = (struct cop_request){.kind = COP_REQUEST_AGREE,
                                         .group = what->group,
                                         .op = what->op,
                                         .type = what->type,
                                         .timeout_ns = what->timeout_ns,
                                         .bytes = call->bytes,
                                         .length = what->length};
    call->ticket = cop__run_number(run);
    *out = call;
    return 0;
}

int cop_iagree(struct cop_run *run, const struct cop_agree_call *call,
               void (*done)(void *context, int status, const struct cop_agreed *agreed),
               void *context, uint64_t *ticket)
{
    struct cop__call *made;
    int error = make(run, call, &made);
    if (error)
        return error;
    made->end = end_told;
    made->agreed = done;
    made->context = context;
    /* By now, as in cop_rpc: `done` may come before this returns. */
    uint64_t unused = 0, *number = ticket ? ticket : &unused, before = *number;
    *number = made->ticket;
    error = cop__call_make(run, made);
    if (error)
        *number = before;
    return error;
}

int cop_agree_wait(struct cop_run *run, const struct cop_agree_call *call,
                   struct cop_agreed *out)
{
    struct cop__call *made;
    struct cop__waiter waiter = {.run = run};
    if (out == NULL)
        return COP_EINVAL;
    if (run != NULL && cop__run_is_here(run))
        return COP_ESTATE;
    int error = make(run, call, &made);
    if (error)
        return error;
    *out = (struct cop_agreed){0};
    made->end = end_awaited;
    made->agreement = out;
    made->done = cop__waiter_done;
    made->context = &waiter;
    error = cop__call_make(run, made);
    return error ? error : cop__waiter_wait(&waiter);
}

int cop__agree_give_up(struct cop_run *run, uint64_t ticket)
{
    const struct cop__call *call = run->calls;
    while (call != NULL && call->ticket != ticket)
        call = call->next;
    if (call == NULL)
        return COP_ENOENT;
    struct cop_request request = {.kind = COP_REQUEST_ABORT,
                                  .target = call->request.token};
    return cop__run_submit(run, &request);
}

/* One that has not begun votes first: the others wait for that. */
static int cancel(struct cop_run *run, void *argument)
{
    const uint64_t *ticket = argument;
    struct cop__call *call = cop__call_queued(run, *ticket);
    if (call == NULL || call->rpc != NULL)
        return cop__agree_give_up(run, *ticket);
    call->is_cancelled = true;
    return 0;
}

int cop_agree_cancel(struct cop_run *run, uint64_t ticket)
{
    return run && ticket ? cop__ask_loop(run, cancel, &ticket) : COP_EINVAL;
}

/* ---- failures alone -------------------------------------------------------------- */

int cop_validate(struct cop_run *run, uint64_t group, cop_time timeout_ns,
                 void (*done)(void *context, int status,
                              const struct cop_agreed *agreed),
                 void *context, uint64_t *ticket)
{
    struct cop_agree_call call = {.group = group, .timeout_ns = timeout_ns};
    return cop_iagree(run, &call, done, context, ticket);
}

int cop_validate_wait(struct cop_run *run, uint64_t group, cop_time timeout_ns,
                      struct cop_agreed *out)
{
    struct cop_agree_call call = {.group = group, .timeout_ns = timeout_ns};
    return cop_agree_wait(run, &call, out);
}
