/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * One call at one member: what its service is told, in which order, and what becomes of what
 * the service says. How calls get from member to member is in heal.c and plain.c.
 */

/* ---- the list -------------------------------------------------------------------- */

struct cop__call *cop__call_find(const struct cop_node *node, uint64_t handle)
{
    struct cop__call *call = cop__colls(node)->calls;
    while (call && (call->handle != handle || call->over))
        call = call->next;
    return call;
}

bool cop__coll_is_under_way(const struct cop_node *node, uint64_t handle)
{
    return cop__call_find(node, handle) != NULL;
}

/* The memory of one is kept, as that of a sweep is: one of hundreds of members on a machine
 * finds it where the last one was, and does not walk through the allocator. */
static struct cop__call *take_call(struct cop__colls *colls)
{
    struct cop__call *call = colls->spare;
    if (!call)
        return calloc(1, sizeof *call);
    colls->spare = NULL;
    *call = (struct cop__call){0};
    return call;
}

/* A question was read when it came, to find out whom it is about. */
static int read_head(struct cop__colls *colls, struct cop__call *call,
                     struct cop__bytes bytes, bool is_question)
{
    if (!is_question || colls->head_of != bytes.data)
        return cop__head_decode(bytes, &call->head);
    call->head = *colls->head;
    colls->head_of = NULL;
    return 0;
}

struct cop__call *cop__call_create(struct cop_node *node, struct cop__bytes bytes,
                                   struct cop_buf *owner)
{
    struct cop__colls *colls = cop__colls(node);
    struct cop__call *call = take_call(colls);
    if (call)
        call->bytes =
            owner ? cop_buf_ref(owner) : cop_buf_copy(bytes.data, bytes.length);
    if (call && call->bytes && !owner)
        bytes.data = call->bytes->data;
    if (!call || !call->bytes || read_head(colls, call, bytes, owner != NULL)) {
        if (call)
            cop_buf_unref(call->bytes);
        free(call);
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    call->handle = ++colls->handle;
    call->begun = node->now;
    call->service_ns = call->head.service_ns;
    call->parent = COP_ID_NONE;
    cop__timer_init(&call->timer.timer);
    struct cop__call **at = &colls->calls;
    while (*at)
        at = &(*at)->next;
    *at = call;
    colls->call_count++;
    return call;
}

static void free_call(struct cop__colls *colls, struct cop__call *call)
{
    cop__group_unref(call->group);
    cop_buf_unref(call->bytes);
    cop_buf_unref(call->reply);
    cop_ranks_free(&call->refusers);
    for (uint32_t i = 0; i < call->early_count; i++)
        cop_buf_unref(call->early[i].bytes);
    free(call->early);
    cop__bulk_free(call);
    cop__tally_fini(&call->tally);
    free(call->branches);
    if (colls->spare)
        free(call);
    else
        colls->spare = call;
}

/* Between these two no call is freed: whoever holds one may look whether it is over. */
void cop__calls_enter(struct cop_node *node) { cop__colls(node)->busy++; }

void cop__calls_leave(struct cop_node *node)
{
    struct cop__colls *colls = cop__colls(node);
    if (--colls->busy > 0)
        return;
    for (struct cop__call **at = &colls->calls; *at;) {
        struct cop__call *call = *at;
        if (!call->over) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        colls->call_count--;
        free_call(colls, call);
    }
}

/* ---- services -------------------------------------------------------------------- */

static uint32_t service_place(const struct cop__colls *colls, uint64_t id)
{
    uint32_t at = 0;
    while (at < colls->service_count && colls->services[at].id < id)
        at++;
    return at;
}

const struct cop_service *cop__service_find(const struct cop_node *node, uint64_t id)
{
    const struct cop__colls *colls = cop__colls(node);
    uint32_t at = service_place(colls, id);
    bool found = at < colls->service_count && colls->services[at].id == id;
    return found ? &colls->services[at] : NULL;
}

COP__APART int cop__coll_register(struct cop_node *node,
                                  const struct cop_service *services, uint32_t count)
{
    struct cop__colls *colls = cop__colls(node);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = service_place(colls, services[i].id);
        if (at < colls->service_count && colls->services[at].id == services[i].id) {
            colls->services[at] = services[i];
            continue;
        }
        if (colls->service_count == COP_SERVICES_MAX)
            return COP_ETOOBIG;
        if (colls->service_count == colls->service_capacity) {
            uint32_t capacity =
                colls->service_capacity ? 2 * colls->service_capacity : 2;
            void *grown = realloc(colls->services, capacity * sizeof *colls->services);
            if (!grown)
                return COP_ENOMEM;
            colls->services = grown;
            colls->service_capacity = capacity;
        }
        memmove(colls->services + at + 1, colls->services + at,
                (colls->service_count - at) * sizeof *colls->services);
        colls->services[at] = services[i];
        colls->service_count++;
    }
    return 0;
}

/* ---- telling it ------------------------------------------------------------------ */

bool cop__call_wants(const struct cop_node *node, const struct cop__call *call,
                     enum cop_upcall_kind kind)
{
    if (call->head.kind != CALL_RUN || call->silent)
        return false;
    const struct cop_service *service = cop__service_find(node, call->head.service);
    if (!service || !(service->wants & COP_WANTS(kind)))
        return false;
    return kind != COP_UPCALL_DONE || !(service->wants & COP_WANTS_BRIEFLY) ||
           !call->sweep || (call->head.flags & COP_BCAST_BULK) != 0;
}

struct cop_upcall cop__call_upcall(const struct cop__call *call,
                                   enum cop_upcall_kind kind)
{
    return (struct cop_upcall){
        .kind = kind,
        .handle = call->handle,
        .service = call->head.service,
        .group = call->group ? call->group->number : COP_GROUP_ALL,
        .root = call->root,
        .token = call->is_root ? call->token : 0,
        .flags = call->head.flags & ~CALL_KEEP,
        .version = call->head.version,
        .bulk_length = call->head.bulk_length,
        .peer = COP_ID_NONE,
    };
}

/* CHECK or RUN: with the request and the tags that are meant here. */
static void emit_request(struct cop_node *node, const struct cop__call *call,
                         enum cop_upcall_kind kind, int status)
{
    struct cop_upcall upcall = cop__call_upcall(call, kind);
    struct cop__bytes payload = cop__head_payload(&call->head, node->self);
    cop_rank self = call->group ? cop__roll_rank(call->group->roll, node->self) : 0;
    if (call->group && self != COP_RANK_NONE)
        upcall.tags = cop__group_tags(call->group, self, &upcall.tag_count);
    upcall.bytes = payload.data;
    upcall.length = payload.length;
    upcall.status = status;
    cop__emit_upcall(node, &upcall);
}

static void emit_status(struct cop_node *node, const struct cop__call *call,
                        enum cop_upcall_kind kind, int status)
{
    if (!cop__call_wants(node, call, kind))
        return;
    struct cop_upcall upcall = cop__call_upcall(call, kind);
    upcall.status = status;
    cop__emit_upcall(node, &upcall);
}

/* Keeps what came before RUN. */
COP__APART static void keep_part(struct cop_node *node, struct cop__call *call,
                                 const struct cop__early *part, struct cop__bytes bytes)
{
    if (call->early_count == call->early_capacity) {
        uint32_t capacity = call->early_capacity ? 2 * call->early_capacity : 2;
        void *grown = realloc(call->early, capacity * sizeof *call->early);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return;
        }
        call->early = grown;
        call->early_capacity = capacity;
    }
    struct cop__early *kept = &call->early[call->early_count];
    *kept = *part;
    if (bytes.length > 0)
        kept->bytes = cop_buf_copy(bytes.data, bytes.length);
    if (bytes.length > 0 && !kept->bytes)
        cop__fail(node, COP_ENOMEM);
    else
        call->early_count++;
}

/* K6: only between RUN and DONE. Losses that were found while passing it on wait for RUN. */
void cop__call_part(struct cop_node *node, struct cop__call *call, cop_id from,
                    int status, enum cop_phase phase, bool more,
                    struct cop__bytes bytes)
{
    if (!call->running && (status == COP_ELOST || cop__bulk_owes_run(call))) {
        keep_part(node, call, &(struct cop__early){from, status, phase, NULL}, bytes);
        return;
    }
    if (!call->running || call->done || !cop__call_wants(node, call, COP_UPCALL_REPLY))
        return;
    struct cop_upcall upcall = cop__call_upcall(call, COP_UPCALL_REPLY);
    upcall.peer = from;
    upcall.status = status;
    upcall.phase = phase;
    upcall.more = more;
    upcall.bytes = bytes.data;
    upcall.length = bytes.length;
    cop__emit_upcall(node, &upcall);
}

/* RUN, and what came before it. */
static void start_run(struct cop_node *node, struct cop__call *call, int status)
{
    call->running = true;
    emit_request(node, call, COP_UPCALL_RUN, status);
    for (uint32_t i = 0; i < call->early_count; i++) {
        const struct cop__early *part = &call->early[i];
        struct cop__bytes bytes = {NULL, 0};
        if (part->bytes)
            bytes = (struct cop__bytes){part->bytes->data, part->bytes->length};
        cop__call_part(node, call, part->from, part->status, part->phase, false, bytes);
    }
}

/* K12: RUN was promised, and comes, though the bulk will not. */
static void give_up_bulk(struct cop_node *node, struct cop__call *call, int status)
{
    if (!cop__bulk_owes_run(call))
        return;
    cop__bulk_owe_nothing(call);
    if (cop__call_wants(node, call, COP_UPCALL_RUN))
        start_run(node, call, status);
}

void cop__call_done(struct cop_node *node, struct cop__call *call, int status)
{
    call->gathered = true;
    if (status)
        give_up_bulk(node, call, status);
    if (!call->running || call->done)
        return;
    call->done = true;
    emit_status(node, call, COP_UPCALL_DONE, status);
}

/* K7: whoever got RUN gets DONE and SENT, and nothing after. */
void cop__call_end(struct cop_node *node, struct cop__call *call, int status)
{
    if (call->over)
        return;
    give_up_bulk(node, call, status ? status : COP_EABORTED);
    cop__call_done(node, call, status);
    if (call->running && !call->is_root)
        emit_status(node, call, COP_UPCALL_SENT, status);
    call->over = true;
    cop__bulk_end(node, call);
    cop__timer_cancel(node, &call->timer);
    for (uint32_t i = 0; i < call->branch_count; i++)
        if (call->branches[i].owed)
            cop__unwatch(node, call->group->roll->ids[call->branches[i].rank]);
    if (call->sweep)
        cop__sweep_set_user(call->sweep, NULL);
    if (call->head.kind == CALL_END || (call->head.flags & COP_BCAST_LAST))
        cop__group_forget(node, &call->head, call->sweep && !call->is_root);
}

/* ---- running it ------------------------------------------------------------------ */

/* `serves`: it is for the service here, too. */
static void forward(struct cop_node *node, struct cop__call *call, bool serves)
{
    if (call->sweep)
        cop__heal_forward(node, call);
    else
        cop__plain_forward(node, call);
    if (call->head.flags & COP_BCAST_BULK)
        cop__bulk_begin(node, call, serves);
}

static void contribute(struct cop_node *node, struct cop__call *call,
                       const struct cop__fault *fault, struct cop__bytes reply,
                       bool more)
{
    call->replied = !more;
    if (call->sweep)
        cop__heal_contribute(node, call, fault, reply);
    else
        cop__plain_contribute(node, call, fault, reply, more);
}

/* This member fails; with `tree` nobody below is asked either. */
COP__APART static void fail_at(struct cop_node *node, struct cop__call *call,
                               int status, enum cop_phase phase, bool tree, cop_rank at)
{
    cop_rank self;
    cop__call_tree(node, call, &self);
    struct cop__fault fault = {
        .first = self,
        .last = self,
        .at = at,
        .status = status,
        .phase = (uint8_t)phase,
        .tree = tree,
    };
    contribute(node, call, &fault, (struct cop__bytes){NULL, 0}, false);
}

static void fail_here(struct cop_node *node, struct cop__call *call, int status,
                      enum cop_phase phase, bool tree)
{
    fail_at(node, call, status, phase, tree, COP_RANK_NONE);
}

void cop__call_run(struct cop_node *node, struct cop__call *call, int status,
                   cop_rank at)
{
    if (cop__call_wants(node, call, COP_UPCALL_RUN))
        start_run(node, call, status);
    if (status)
        fail_at(node, call, status, COP_PHASE_BULK, false, at);
    else if (!call->running)
        contribute(node, call, NULL, (struct cop__bytes){NULL, 0}, false);
    if (call->gathered)
        cop__call_done(node, call, 0);
    if (call->bulk && !call->sweep)
        cop__plain_ran(node, call);
}

/* K5: those below first, for they need the time; then the service here. */
static void proceed(struct cop_node *node, struct cop__call *call)
{
    forward(node, call, true);
    if (!call->bulk)
        cop__call_run(node, call, 0, COP_RANK_NONE);
}

/* K3: what is wrong before the service is asked, it never hears of. With HEAL those below a
 * member that cannot run it still can. */
COP__APART static void fail_before(struct cop_node *node, struct cop__call *call,
                                   int status, enum cop_phase phase)
{
    bool stops = !call->sweep || (call->head.flags & COP_BCAST_STRICT) != 0;
    if (phase == COP_PHASE_VERSION)
        stops = (call->head.flags & COP_BCAST_STRICT) != 0;
    if (!stops)
        forward(node, call, false);
    fail_here(node, call, status, phase, stops);
}

static void begin(struct cop_node *node, struct cop__call *call)
{
    const struct cop_service *service = cop__service_find(node, call->head.service);
    if (call->head.kind != CALL_RUN) {
        proceed(node, call);
        return;
    }
    if (!service) {
        fail_before(node, call, COP_ENOENT, COP_PHASE_SERVICE);
    } else if (call->head.version > service->version) {
        call->lowest = service->version;
        fail_before(node, call, COP_EVERSION, COP_PHASE_VERSION);
    } else if (!call->is_root && cop__call_wants(node, call, COP_UPCALL_CHECK)) {
        call->checking = true;
        emit_request(node, call, COP_UPCALL_CHECK, 0);
    } else {
        proceed(node, call);
    }
}

void cop__call_begin(struct cop_node *node, struct cop__call *call)
{
    cop__calls_enter(node);
    begin(node, call);
    cop__calls_leave(node);
}

void cop__call_settle(struct cop_node *node, struct cop__call *call)
{
    if (call->over)
        return;
    if (call->sweep)
        cop__sweep_settle(node, call->sweep);
    else
        cop__plain_settle(node, call);
}

/* ---- what a service says --------------------------------------------------------- */

/* K4: a refusal is for the member and all below it. */
COP__APART static int checked(struct cop_node *node, const struct cop_coll *coll)
{
    struct cop__call *call = cop__call_find(node, coll->handle);
    if (!call)
        return COP_ENOENT;
    if (!call->checking)
        return COP_ESTATE;
    if (coll->status > 0 || coll->service_ns > COP__SWEEP_TIMEOUT_MAX)
        return COP_EINVAL;
    cop__calls_enter(node);
    call->checking = false;
    if (coll->service_ns)
        call->service_ns = coll->service_ns;
    if (coll->status)
        fail_here(node, call, coll->status, COP_PHASE_CHECK, true);
    else
        proceed(node, call);
    cop__call_settle(node, call);
    cop__calls_leave(node);
    return 0;
}

static int check_reply(const struct cop__call *call, const struct cop_request *request)
{
    const struct cop_coll *coll = request->coll;
    if (!call)
        return COP_ENOENT;
    if (!call->running || call->replied)
        return COP_ESTATE;
    if (!call->sweep && !call->done && !coll->more)
        return COP_ESTATE; /* it speaks for those below, who have not all spoken */
    if (request->length > COP_REPLY_MAX)
        return COP_ETOOBIG;
    if (coll->status > 0 || (request->length && !request->bytes) ||
        (coll->more && (call->sweep || coll->status || call->is_root)) ||
        (coll->silent && !call->sweep))
        return COP_EINVAL;
    return 0;
}

static int reply(struct cop_node *node, const struct cop_request *request)
{
    struct cop__call *call = cop__call_find(node, request->coll->handle);
    struct cop__bytes bytes = {request->bytes, request->length};
    int error = check_reply(call, request);
    if (error)
        return error;
    if (!request->coll->status && call->sweep && !cop__op_suits(call->head.op, bytes))
        return COP_EINVAL;
    cop__calls_enter(node);
    call->silent = request->coll->silent;
    if (request->coll->status)
        fail_here(node, call, request->coll->status, COP_PHASE_RUN, false);
    else
        contribute(node, call, NULL, bytes, request->coll->more);
    cop__call_settle(node, call);
    cop__calls_leave(node);
    return 0;
}

/* Its calls end here, each as a failure of this member; it is told nothing any more. */
COP__APART static int unregister(struct cop_node *node, uint64_t id)
{
    struct cop__colls *colls = cop__colls(node);
    uint32_t at = service_place(colls, id);
    if (at == colls->service_count || colls->services[at].id != id)
        return COP_ENOENT;
    colls->service_count--;
    memmove(colls->services + at, colls->services + at + 1,
            (colls->service_count - at) * sizeof *colls->services);
    cop__calls_enter(node);
    for (struct cop__call *call = colls->calls; call; call = call->next) {
        if (call->over || call->head.kind != CALL_RUN || call->head.service != id)
            continue;
        if (call->checking) {
            call->checking = false;
            fail_before(node, call, COP_ENOENT, COP_PHASE_SERVICE);
        } else if ((call->running || call->bulk) && !call->replied) {
            cop__bulk_unserve(node, call);
            fail_here(node, call, COP_ENOENT, COP_PHASE_SERVICE, false);
        }
        /* Nor is who takes its number told of what it never began. */
        call->silent = true;
        cop__call_settle(node, call);
    }
    cop__calls_leave(node);
    return 0;
}

/* ---- submissions ----------------------------------------------------------------- */

static struct cop__call *find_own(const struct cop_node *node, uint64_t token)
{
    struct cop__call *call = cop__colls(node)->calls;
    while (call && (call->over || !call->is_root || call->token != token ||
                    call->head.kind != CALL_RUN))
        call = call->next;
    return call;
}

COP__APART static int abort_call(struct cop_node *node, uint64_t token)
{
    struct cop__call *call = find_own(node, token);
    if (!call)
        return COP_ENOENT;
    cop__calls_enter(node);
    int error = call->sweep ? cop__sweep_abort(node, COP__COLL_PROTOCOL, token)
                            : cop__plain_abort(node, call);
    cop__calls_leave(node);
    return error;
}

int cop__coll_submit(struct cop_node *node, const struct cop_request *request)
{
    const struct cop_coll *coll = request->coll;
    if (request->kind == COP_REQUEST_ABORT)
        return abort_call(node, request->target);
    bool bulk = request->kind == COP_REQUEST_TAKEN || request->kind == COP_REQUEST_GIVE;
    if (!bulk &&
        (request->kind < COP_REQUEST_SERVICE || request->kind > COP_REQUEST_RESOLVED))
        return COP_ENOENT;
    if (!coll)
        return COP_EINVAL;
    switch (request->kind) {
    case COP_REQUEST_SERVICE:
        return cop__coll_register(node, &coll->service, 1);
    case COP_REQUEST_UNSERVICE:
        return unregister(node, coll->service.id);
    case COP_REQUEST_GROUP:
    case COP_REQUEST_GROUP_END:
        return cop__group_submit(node, request);
    case COP_REQUEST_BCAST:
        return cop__coll_start(node, request, CALL_RUN,
                               cop__group_find(node, coll->group));
    case COP_REQUEST_CHECKED:
        return checked(node, coll);
    case COP_REQUEST_REPLY:
        return reply(node, request);
    case COP_REQUEST_TAKEN:
        return cop__bulk_taken(node, coll);
    case COP_REQUEST_GIVE:
        return cop__bulk_give(node, request);
    default:
        return cop__group_resolve(node, request);
    }
}

uint32_t cop_node_calls(const struct cop_node *node)
{
    return cop__colls(node)->call_count;
}
