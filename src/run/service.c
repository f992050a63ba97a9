/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services of a run: which there are, and what the node wants of them. They outlive nodes:
 * whenever this run becomes a member again the new node has them from its first step on.
 */
#include "run/parts.h"
#include "run/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- which there are ------------------------------------------------------------- */

const struct cop_handlers *cop__handlers_find(const struct cop_run *run,
                                              uint64_t service)
{
    for (uint32_t i = 0; i < run->services.count; i++)
        if (run->services.items[i].service == service)
            return &run->services.items[i];
    return NULL;
}

/* DONE and SENT always: they say that a task is over; but with HEAL nobody waits for DONE who
 * has no callback for it. Where pieces go is said at CHECK, and what they are for. */
static struct cop_service service_of(const struct cop_handlers *handlers)
{
    uint32_t wants = COP_WANTS(COP_UPCALL_RUN) | COP_WANTS(COP_UPCALL_DONE) |
                     COP_WANTS(COP_UPCALL_SENT) | COP_WANTS(COP_UPCALL_WANT);
    if (handlers->done == NULL)
        wants |= COP_WANTS_BRIEFLY;
    if (handlers->check != NULL || handlers->piece != NULL)
        wants |= COP_WANTS(COP_UPCALL_CHECK) | COP_WANTS(COP_UPCALL_PIECE);
    if (handlers->reply != NULL)
        wants |= COP_WANTS(COP_UPCALL_REPLY);
    if (handlers->resolve != NULL)
        wants |= COP_WANTS(COP_UPCALL_RESOLVE);
    return (struct cop_service){handlers->service, handlers->version, wants};
}

struct cop_service *cop__services_list(const struct cop_run *run)
{
    uint32_t count = run->services.count;
    struct cop_service *list = calloc(count + 1, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < count; i++)
        list[i] = service_of(&run->services.items[i]);
    return list;
}

static int add(struct cop_run *run, const struct cop_handlers *handlers)
{
    struct cop__services *services = &run->services;
    if (handlers->size != sizeof *handlers)
        return COP_EINVAL;
    if (cop__handlers_find(run, handlers->service) != NULL)
        return COP_EEXIST;
    if (services->count == COP_SERVICES_MAX)
        return COP_ETOOBIG;
    struct cop_handlers *grown =
        realloc(services->items, (services->count + 1) * sizeof *grown);
    if (grown == NULL)
        return COP_ENOMEM;
    services->items = grown;
    grown[services->count] = *handlers;
    if (handlers->version == 0)
        grown[services->count].version = 1;
    services->count++;
    return 0;
}

static void take_out(struct cop__services *services, uint64_t id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < services->count; i++)
        if (services->items[i].service != id)
            services->items[kept++] = services->items[i];
    services->count = kept;
}

int cop__services_take(struct cop_run *run, const struct cop_settings *settings,
                       char *message, size_t size)
{
    for (uint32_t i = 0; i < settings->service_count; i++) {
        int error = settings->services ? add(run, &settings->services[i]) : COP_EINVAL;
        if (error) {
            cop__explain(message, size, "services[%u]: %s", (unsigned)i,
                         cop_strerror(error));
            return error;
        }
    }
    return 0;
}

/* ---- coming and going ------------------------------------------------------------ */

static int do_register(struct cop_run *run, void *argument)
{
    const struct cop_handlers *handlers = argument;
    if (run->shared.state == COP_RUN_OVER)
        return COP_ESTATE;
    int error = add(run, handlers);
    if (error || run->tcp == NULL)
        return error;
    struct cop_coll coll = {.service =
                                service_of(cop__handlers_find(run, handlers->service))};
    struct cop_request request = {.kind = COP_REQUEST_SERVICE, .coll = &coll};
    error = cop__run_submit(run, &request);
    if (error)
        take_out(&run->services, handlers->service);
    return error;
}

int cop_service_register(struct cop_run *run, const struct cop_handlers *handlers)
{
    struct cop_handlers copy;
    if (run == NULL || handlers == NULL)
        return COP_EINVAL;
    copy = *handlers;
    return cop__ask_loop(run, do_register, &copy);
}

/* The node first, so that whatever the last callbacks do, nothing new comes. */
static int do_unregister(struct cop_run *run, void *argument)
{
    const uint64_t *id = argument;
    const struct cop_handlers *found = cop__handlers_find(run, *id);
    if (found == NULL)
        return COP_ENOENT;
    struct cop_handlers handlers = *found;
    struct cop_coll coll = {.service = {.id = *id}};
    struct cop_request request = {.kind = COP_REQUEST_UNSERVICE, .coll = &coll};
    take_out(&run->services, *id);
    if (run->tcp != NULL)
        cop__run_submit(run, &request);
    cop__tasks_end(run, &handlers, COP_ENOENT);
    return 0;
}

int cop_service_unregister(struct cop_run *run, uint64_t service)
{
    return run ? cop__ask_loop(run, do_unregister, &service) : COP_EINVAL;
}

/* ---- out-of-band groups ---------------------------------------------------------- */

void cop__members_fini(struct cop_members *members)
{
    for (uint32_t i = 0; i < members->count; i++)
        free((void *)(uintptr_t)members->items[i].tags);
    free(members->items);
    *members = (struct cop_members){0};
}

int cop_members_add(struct cop_members *members, cop_id node,
                    const struct cop_tag *tags, uint32_t tag_count)
{
    if (members->count == members->capacity) {
        uint32_t capacity = members->capacity ? 2 * members->capacity : 8;
        void *grown = realloc(members->items, capacity * sizeof *members->items);
        if (grown == NULL)
            return COP_ENOMEM;
        members->items = grown;
        members->capacity = capacity;
    }
    struct cop_tag *copy = NULL;
    if (tag_count > 0) {
        copy = calloc(tag_count, sizeof *copy);
        if (copy == NULL)
            return COP_ENOMEM;
        memcpy(copy, tags, tag_count * sizeof *copy);
    }
    members->items[members->count++] = (struct cop_target){node, copy, tag_count};
    return 0;
}

int cop__resolve(struct cop_run *run, const struct cop_handlers *handlers,
                 const uint8_t name[16], struct cop_members *out)
{
    *out = (struct cop_members){0};
    if (handlers == NULL || handlers->resolve == NULL)
        return COP_ENOENT;
    bool was = run->is_in_callback;
    run->is_in_callback = true;
    int error = handlers->resolve(handlers->context, run, name, out);
    run->is_in_callback = was;
    if (error > 0)
        error = COP_ENOENT;
    if (error)
        cop__members_fini(out);
    return error;
}

/* Somebody broadcasts over one of which this member knows only the name. */
COP__APART static void on_resolve(struct cop_run *run,
                                  const struct cop_handlers *handlers,
                                  const struct cop_upcall *upcall)
{
    struct cop_members members;
    struct cop_coll coll = {.handle = upcall->handle};
    struct cop_request request = {.kind = COP_REQUEST_RESOLVED, .coll = &coll};
    coll.status = cop__resolve(run, handlers, upcall->bytes, &members);
    coll.targets = members.items;
    coll.target_count = members.count;
    cop__run_submit(run, &request);
    cop__members_fini(&members);
}

/* ---- what the node wants --------------------------------------------------------- */

void cop__run_upcall(void *context, struct cop_buf *record)
{
    struct cop_run *run = context;
    struct cop_upcall upcall;
    if (cop_upcall_read(record, &upcall) != 0)
        return;
    const struct cop_handlers *found = cop__handlers_find(run, upcall.service);
    if (found == NULL)
        return; /* it went while this was on its way: the node knows */
    /* A callback may unregister it. */
    struct cop_handlers handlers = *found;
    if (upcall.kind == COP_UPCALL_RESOLVE)
        on_resolve(run, &handlers, &upcall);
    else if (upcall.kind == COP_UPCALL_WANT)
        cop__bulk_want(run, &upcall);
    else
        cop__task_upcall(run, &handlers, &upcall, record);
}

void cop__run_piece(void *context, struct cop_buf *record, struct cop_buf *beside)
{
    struct cop_run *run = context;
    struct cop_upcall upcall;
    if (cop_upcall_with(record, beside, &upcall) != 0)
        return;
    const struct cop_handlers *found = cop__handlers_find(run, upcall.service);
    if (found == NULL)
        return;
    struct cop_handlers handlers = *found;
    cop__bulk_piece(run, &handlers, &upcall, record, beside);
}

void cop__services_end(struct cop_run *run, int status)
{
    cop__rpcs_end(run, status);
    cop__tasks_end(run, NULL, status);
    cop__teams_end(run);
}

void cop__services_fini(struct cop_run *run)
{
    struct cop__services *services = &run->services;
    struct cop__map_slot *slot;
    uint32_t at = 0;
    /* Only calls that were never sent are left. */
    while ((slot = cop__map_next(&services->rpcs, &at))) {
        cop__call_free(run, slot->value);
        at = 0;
    }
    cop__map_fini(&services->rpcs);
    cop__map_fini(&services->tasks);
    free(services->spare);
    cop__map_fini(&services->teams);
    free(services->items);
}
