/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include "base/random.h"
#include "wire/codec.h"

#include <stdlib.h>
#include <string.h>

/*
 * The service that simulated nodes have. A request carries what is to be done with it; a reply
 * is the fingerprint of the member's id, so that a sum shows who is in it. Some members reply
 * at once, some when they hear that nothing more comes from below, as the request draws. What
 * they do wrong is drawn too. A request that is about nothing but time asks them to be prompt.
 */
#define SERVICE 1u
#define JOB_BYTES 20u
#define SPREAD_NS (200 * COP_USEC)
#define LATE_NS (20 * COP_SEC)
/* Above this all reply at once: nothing has to be remembered. */
#define REMEMBERED_NODES 4096u

/* What a service has in hand. */
struct cop__work {
    cop_id node;
    uint16_t life;
    uint64_t handle;
    struct cop__job job;
    uint64_t sum; /* of the replies from below, without HEAL */
    bool replies; /* when nothing more comes from below */
};

const struct cop_service *cop__sim_services(const struct cop_sim *sim, uint32_t *count)
{
    static const struct cop_service standard = {SERVICE, 1, COP_WANTS_ALL};
    *count = sim->config.services ? sim->config.service_count : 1;
    return sim->config.services ? sim->config.services : &standard;
}

bool cop__sim_is_collective(enum cop_sim_action_kind kind)
{
    return kind == COP_SIM_GROUP || kind == COP_SIM_GROUP_END ||
           kind == COP_SIM_BCAST || kind == COP_SIM_SERVICE ||
           kind == COP_SIM_UNSERVICE;
}

bool cop__coll_token(const struct cop_sim *sim, cop_id id, uint64_t token)
{
    for (uint32_t i = 0; i < sim->action_count; i++)
        if (cop__sim_is_collective(sim->actions[i].kind) && sim->actions[i].a == id &&
            sim->actions[i].request.token == token &&
            sim->actions[i].kind != COP_SIM_SERVICE &&
            sim->actions[i].kind != COP_SIM_UNSERVICE)
            return true;
    return false;
}

/* ---- jobs ------------------------------------------------------------------------ */

bool cop__service_job(const uint8_t *bytes, uint32_t length, struct cop__job *out)
{
    struct cop__reader reader = cop__reader(bytes, length);
    out->token = cop__get_u64(&reader);
    out->root = cop__get_u32(&reader);
    out->mischief = cop__get_u32(&reader);
    out->heal = cop__get_u32(&reader) != 0;
    return cop__reader_is_done(&reader);
}

static void put_job(uint8_t *bytes, const struct cop__job *job)
{
    struct cop__writer writer = cop__writer(bytes, JOB_BYTES);
    cop__put_u64(&writer, job->token);
    cop__put_u32(&writer, job->root);
    cop__put_u32(&writer, job->mischief);
    cop__put_u32(&writer, job->heal);
}

static uint64_t draw(const struct cop_sim *sim, const struct cop__job *job, cop_id id,
                     uint32_t what, uint64_t bound)
{
    return cop_sim_draw(sim, COP__PLACE_SERVICE, job->token * 65536 + job->root,
                        (uint64_t)id << 8 | what, bound);
}

/* How long a service takes: less than `bound`. */
static cop_time draw_time(const struct cop_sim *sim, const struct cop__job *job,
                          cop_id id, uint32_t what, cop_time bound)
{
    return job->mischief & COP_SIM_PROMPT ? 0 : draw(sim, job, id, what, bound);
}

bool cop__service_errs(const struct cop_sim *sim, const struct cop__job *job, cop_id id,
                       enum cop_sim_mischief how)
{
    return (job->mischief & how) && draw(sim, job, id, how, 4) == 0;
}

/* ---- requests -------------------------------------------------------------------- */

static uint32_t fill_targets(struct cop_sim *sim, const struct cop_sim_set *set)
{
    uint32_t count = 0;
    if (!sim->ask.targets)
        sim->ask.targets = calloc(sim->config.nodes, sizeof(*sim->ask.targets));
    if (!sim->ask.targets) {
        cop_sim_fail(sim, "sim", "out of memory");
        return 0;
    }
    for (uint32_t i = 0; i < set->count; i++)
        for (cop_id id = set->ranges[i].first;
             id <= set->ranges[i].last && count < sim->config.nodes; id++)
            sim->ask.targets[count++].node = id;
    return count;
}

/* The name of an out-of-band group: who made it, and its number there. */
static void put_name(uint8_t *out, const struct cop_sim_action *action)
{
    struct cop__writer writer = cop__writer(out, 16);
    cop__put_u64(&writer, action->a);
    cop__put_u64(&writer, action->coll.group);
}

const struct cop_request *cop__service_prepare(struct cop_sim *sim,
                                               const struct cop_sim_action *action)
{
    struct cop__ask *ask = &sim->ask;
    ask->request = action->request;
    ask->coll = action->coll;
    ask->request.coll = &ask->coll;
    ask->coll.service.id = SERVICE;
    if (action->kind == COP_SIM_GROUP) {
        ask->coll.target_count = fill_targets(sim, &action->left);
        ask->coll.targets = ask->targets;
        if (ask->coll.kind == COP_GROUP_OOB)
            put_name(ask->coll.oob, action);
    }
    if (action->kind == COP_SIM_SERVICE)
        ask->coll.service = (struct cop_service){
            SERVICE, action->coll.version ? action->coll.version : 1, COP_WANTS_ALL};
    if (action->kind == COP_SIM_BCAST) {
        struct cop__job job = {action->request.token, action->a, action->mischief,
                               (action->coll.flags & COP_BCAST_HEAL) != 0};
        put_job(ask->bytes, &job);
        ask->coll.op = COP_OP_SUM;
        ask->coll.version = action->coll.version ? action->coll.version : 1;
        ask->request.bytes = ask->bytes;
        ask->request.length = JOB_BYTES;
    }
    return &ask->request;
}

/* kind, handle, status, more, silent, service, its time, offset, targets, bytes. */
int cop_sim_answer(struct cop_sim *sim, cop_id node, const struct cop_request *request,
                   cop_time delay_ns)
{
    const struct cop_coll *coll = request->coll;
    struct cop__sim_event *event = cop__sim_event(sim, COP__SIM_ANSWER, node, node);
    size_t size = 4 + 8 + 4 + 2 + 8 + 8 + 8 + 4 + (size_t)coll->target_count * 4 + 4 +
                  request->length;
    struct cop_buf *buf = event ? cop_buf_create(size) : NULL;
    if (!buf) {
        if (event) {
            event->payload = NULL;
            cop__sim_drop(sim, event);
        }
        return COP_ENOMEM;
    }
    struct cop__writer writer = cop__writer(buf->data, size);
    cop__put_u32(&writer, (uint32_t)request->kind);
    cop__put_u64(&writer, coll->handle);
    cop__put_u32(&writer, (uint32_t)coll->status);
    cop__put_u8(&writer, coll->more);
    cop__put_u8(&writer, coll->silent);
    cop__put_u64(&writer, coll->service.id);
    cop__put_u64(&writer, coll->service_ns);
    cop__put_u64(&writer, coll->offset);
    cop__put_u32(&writer, coll->target_count);
    for (uint32_t i = 0; i < coll->target_count; i++)
        cop__put_u32(&writer, coll->targets[i].node);
    cop__put_bytes(&writer, (struct cop__bytes){request->bytes, request->length});
    event->payload = buf;
    cop__sim_push(sim, event, sim->now + delay_ns);
    return 0;
}

const struct cop_request *cop__service_decode(struct cop_sim *sim,
                                              const struct cop_buf *payload)
{
    struct cop__ask *ask = &sim->ask;
    struct cop__reader reader = cop__reader(payload->data, payload->length);
    memset(&ask->request, 0, sizeof(ask->request));
    memset(&ask->coll, 0, sizeof(ask->coll));
    ask->request.coll = &ask->coll;
    ask->request.kind = (enum cop_request_kind)cop__get_u32(&reader);
    ask->coll.handle = cop__get_u64(&reader);
    ask->coll.status = (int)cop__get_u32(&reader);
    ask->coll.more = cop__get_u8(&reader) != 0;
    ask->coll.silent = cop__get_u8(&reader) != 0;
    ask->coll.service.id = cop__get_u64(&reader);
    ask->coll.service_ns = cop__get_u64(&reader);
    ask->coll.offset = cop__get_u64(&reader);
    uint32_t targets = cop__get_u32(&reader);
    if (targets > 0) {
        struct cop_sim_set none = {.count = 0};
        fill_targets(sim, &none);
        ask->coll.targets = ask->targets;
    }
    for (uint32_t i = 0; i < targets && ask->targets; i++)
        ask->targets[ask->coll.target_count++].node = cop__get_u32(&reader);
    struct cop__bytes bytes = cop__get_bytes(&reader);
    ask->request.bytes = bytes.data;
    ask->request.length = bytes.length;
    return &ask->request;
}

/* ---- what it says ---------------------------------------------------------------- */

static struct cop__work *find_work(struct cop_sim *sim, cop_id id, uint64_t handle)
{
    for (uint32_t i = 0; i < sim->work_count; i++) {
        struct cop__work *work = &sim->works[i];
        if (work->node == id && work->handle == handle &&
            work->life == sim->nodes[id].life)
            return work;
    }
    return NULL;
}

static void add_work(struct cop_sim *sim, const struct cop__work *work)
{
    if (sim->work_count == sim->work_capacity) {
        uint32_t capacity = sim->work_capacity ? 2 * sim->work_capacity : 16;
        struct cop__work *larger = realloc(sim->works, capacity * sizeof(*larger));
        if (!larger) {
            cop_sim_fail(sim, "sim", "out of memory");
            return;
        }
        sim->works = larger;
        sim->work_capacity = capacity;
    }
    sim->works[sim->work_count++] = *work;
}

/* Its reply, or what it does instead. */
static uint32_t replies(struct cop_sim *sim, cop_id id, uint64_t handle,
                        const struct cop__job *job, uint64_t value,
                        struct cop__answer out[COP__ANSWERS_MAX])
{
    struct cop__answer answer = {.kind = COP_REQUEST_REPLY, .handle = handle};
    answer.value = value;
    answer.delay_ns = draw_time(sim, job, id, 101, SPREAD_NS);
    if (cop__service_errs(sim, job, id, COP_SIM_REPLIES_LATE))
        answer.delay_ns = draw(sim, job, id, 102, LATE_NS);
    if (cop__service_errs(sim, job, id, COP_SIM_NEVER_REPLIES))
        return 0;
    if (cop__service_errs(sim, job, id, COP_SIM_UNREGISTERS))
        answer.kind = COP_REQUEST_UNSERVICE;
    else if (cop__service_errs(sim, job, id, COP_SIM_REPLIES_ERROR))
        answer.status = COP_EIO;
    out[0] = out[1] = answer;
    out[1].delay_ns += draw(sim, job, id, 103, SPREAD_NS);
    return cop__service_errs(sim, job, id, COP_SIM_REPLIES_TWICE) ? 2 : 1;
}

static void remember(struct cop_sim *sim, cop_id id, const struct cop_upcall *upcall,
                     const struct cop__job *job)
{
    struct cop__work work = {.node = id,
                             .life = sim->nodes[id].life,
                             .handle = upcall->handle,
                             .job = *job,
                             .sum = cop_probe_fingerprint(id)};
    if (!find_work(sim, id, upcall->handle))
        add_work(sim, &work);
}

static uint32_t on_run(struct cop_sim *sim, cop_id id, const struct cop_upcall *upcall,
                       const struct cop__job *job,
                       struct cop__answer out[COP__ANSWERS_MAX])
{
    bool at_once = job->heal && (sim->config.nodes > REMEMBERED_NODES ||
                                 (job->mischief & COP_SIM_PROMPT) ||
                                 draw(sim, job, id, 104, 2) == 0);
    if (at_once) {
        uint32_t count =
            replies(sim, id, upcall->handle, job, cop_probe_fingerprint(id), out);
        /* With bulk there is something to forget at the end. */
        bool silent =
            !(upcall->flags & COP_BCAST_BULK) && draw(sim, job, id, 109, 2) == 0;
        for (uint32_t i = 0; i < count; i++)
            out[i].silent = silent && out[i].kind == COP_REQUEST_REPLY;
        return count;
    }
    remember(sim, id, upcall, job);
    struct cop__work *work = find_work(sim, id, upcall->handle);
    if (work)
        work->replies = true;
    return 0;
}

/* ---- bulk ------------------------------------------------------------------------ */

uint8_t cop__bulk_byte(cop_id root, uint64_t token, uint64_t offset)
{
    return (uint8_t)cop__mix64(token * 65536 + root + (offset << 40));
}

/*
 * Pieces are put away after a while that a service draws once for all of them, so that they
 * are in order. What the mischief of a request is only who got CHECK or broadcasts knows.
 */
static uint32_t on_bulk(struct cop_sim *sim, cop_id id, const struct cop_upcall *upcall,
                        const struct cop__job *job,
                        struct cop__answer out[COP__ANSWERS_MAX])
{
    bool at_root = upcall->kind == COP_UPCALL_WANT;
    uint64_t fails_at = draw(sim, job, id, 106, upcall->bulk_length + 1);
    bool late = upcall->offset + upcall->length > fails_at;
    out[0] = (struct cop__answer){
        .kind = at_root ? COP_REQUEST_GIVE : COP_REQUEST_TAKEN,
        .handle = upcall->handle,
        .value = job->token,
        .offset = upcall->offset,
        .length = upcall->length,
        .delay_ns =
            draw(sim, job, id, 107, 3) ? 0 : draw_time(sim, job, id, 108, SPREAD_NS),
    };
    if (at_root && late && cop__service_errs(sim, job, id, COP_SIM_SOURCE_FAILS))
        out[0].status = COP_EIO;
    if (!at_root && late && cop__service_errs(sim, job, id, COP_SIM_SINK_FAILS))
        out[0].status = COP_EIO;
    return !at_root && late && cop__service_errs(sim, job, id, COP_SIM_SINK_STOPS) ? 0
                                                                                   : 1;
}

/* What a broadcast of this node was told to do wrong. */
static struct cop__job own_job(const struct cop_sim *sim, cop_id id, uint64_t token)
{
    struct cop__job job = {token, id, 0, true};
    for (uint32_t i = 0; i < sim->action_count; i++)
        if (sim->actions[i].kind == COP_SIM_BCAST && sim->actions[i].a == id &&
            sim->actions[i].request.token == token)
            job.mischief = sim->actions[i].mischief;
    return job;
}

uint32_t cop__service_answers(struct cop_sim *sim, cop_id id,
                              const struct cop_upcall *upcall,
                              struct cop__answer out[COP__ANSWERS_MAX])
{
    struct cop__job job;
    struct cop__work *work = find_work(sim, id, upcall->handle);
    if (upcall->kind == COP_UPCALL_PIECE || upcall->kind == COP_UPCALL_WANT) {
        job =
            upcall->root == id ? own_job(sim, id, upcall->token) : (struct cop__job){0};
        if (work)
            job = work->job;
        return on_bulk(sim, id, upcall, &job, out);
    }
    if ((upcall->kind == COP_UPCALL_CHECK || upcall->kind == COP_UPCALL_RUN) &&
        !cop__service_job(upcall->bytes, upcall->length, &job)) {
        cop_sim_fail(sim, "sim", "node %u was given a request that nobody made",
                     (unsigned)id);
        return 0;
    }
    if (upcall->kind == COP_UPCALL_CHECK) {
        out[0] =
            (struct cop__answer){.kind = COP_REQUEST_CHECKED, .handle = upcall->handle};
        if (!(job.mischief & COP_SIM_PROMPT) && draw(sim, &job, id, 105, 4) == 0)
            out[0].delay_ns = SPREAD_NS;
        if (cop__service_errs(sim, &job, id, COP_SIM_REFUSES))
            out[0].status = COP_EREFUSED;
        else if (upcall->flags & COP_BCAST_BULK)
            remember(sim, id, upcall, &job);
        return 1;
    }
    if (upcall->kind == COP_UPCALL_RUN && upcall->status != 0)
        return 0; /* the library replies */
    if (upcall->kind == COP_UPCALL_RUN)
        return on_run(sim, id, upcall, &job, out);
    if (!work)
        return 0;
    if (upcall->kind == COP_UPCALL_REPLY && upcall->length == 8 && !work->job.heal) {
        struct cop__reader reader = cop__reader(upcall->bytes, 8);
        work->sum += cop__get_u64(&reader);
    }
    if (upcall->kind == COP_UPCALL_DONE && work->replies)
        return replies(sim, id, upcall->handle, &work->job, work->sum, out);
    if (upcall->kind == COP_UPCALL_SENT)
        *work = sim->works[--sim->work_count];
    return 0;
}

static void give(struct cop_sim *sim, cop_id id, const struct cop__answer *answer)
{
    struct cop__ask *ask = &sim->ask;
    for (uint32_t i = 0; i < answer->length; i++)
        ask->bytes[i] = cop__bulk_byte(id, answer->value, answer->offset + i);
    ask->request.bytes = ask->bytes;
    ask->request.length = answer->length;
}

void cop__service_request(struct cop_sim *sim, cop_id id,
                          const struct cop__answer *answer)
{
    struct cop__ask *ask = &sim->ask;
    struct cop__writer writer = cop__writer(ask->bytes, 8);
    memset(&ask->request, 0, sizeof(ask->request));
    memset(&ask->coll, 0, sizeof(ask->coll));
    cop__put_u64(&writer, answer->value);
    ask->request.kind = answer->kind;
    ask->request.coll = &ask->coll;
    ask->coll.handle = answer->handle;
    ask->coll.status = answer->status;
    ask->coll.offset = answer->offset;
    ask->coll.silent = answer->silent;
    ask->coll.service.id = SERVICE;
    if (answer->kind == COP_REQUEST_REPLY && answer->status == 0) {
        ask->request.bytes = ask->bytes;
        ask->request.length = 8;
    }
    if (answer->kind == COP_REQUEST_GIVE && answer->status == 0)
        give(sim, id, answer);
}

/* ---- groups that everybody knows by other means ----------------------------------- */

static const struct cop_sim_action *find_action(const struct cop_sim *sim,
                                                enum cop_sim_action_kind kind,
                                                uint64_t node, uint64_t group)
{
    for (uint32_t i = 0; i < sim->action_count; i++)
        if (sim->actions[i].kind == kind && sim->actions[i].a == node &&
            sim->actions[i].coll.group == group)
            return &sim->actions[i];
    return NULL;
}

/* What it says instead of the truth: false if nothing at all. */
static bool resolve_wrong(struct cop_sim *sim, cop_id id, const struct cop__job *job)
{
    struct cop_coll *coll = &sim->ask.coll;
    uint64_t how = draw(sim, job, id, 110, 3);
    if (how == 0)
        coll->status = COP_EREFUSED;
    if (how < 2)
        coll->target_count =
            how == 1 && coll->target_count > 0 ? coll->target_count - 1 : 0;
    return how < 2;
}

/* Who is in it: as the action says that made it. */
static void resolve(struct cop_sim *sim, cop_id id, const struct cop_upcall *upcall)
{
    struct cop__reader reader = cop__reader(upcall->bytes, upcall->length);
    uint64_t node = cop__get_u64(&reader), number = cop__get_u64(&reader);
    const struct cop_sim_action *group = find_action(sim, COP_SIM_GROUP, node, number);
    const struct cop_sim_action *bcast = find_action(sim, COP_SIM_BCAST, node, number);
    struct cop__ask *ask = &sim->ask;
    struct cop__job job = {0};
    if (!cop__reader_is_done(&reader) || !group) {
        cop_sim_fail(sim, "sim", "node %u is to resolve a name that nobody gave",
                     (unsigned)id);
        return;
    }
    if (bcast)
        job = (struct cop__job){bcast->request.token, bcast->a, bcast->mischief, true};
    memset(&ask->request, 0, sizeof(ask->request));
    memset(&ask->coll, 0, sizeof(ask->coll));
    ask->request.kind = COP_REQUEST_RESOLVED;
    ask->request.coll = &ask->coll;
    ask->coll.handle = upcall->handle;
    ask->coll.target_count = fill_targets(sim, &group->left);
    ask->coll.targets = ask->targets;
    if (cop__service_errs(sim, &job, id, COP_SIM_RESOLVES_WRONG) &&
        !resolve_wrong(sim, id, &job))
        return;
    cop_time delay =
        draw(sim, &job, id, 111, 3) ? 0 : draw_time(sim, &job, id, 112, SPREAD_NS);
    if (cop_sim_answer(sim, id, &ask->request, delay) != 0)
        cop_sim_fail(sim, "sim", "out of memory");
}

void cop__service_upcall(struct cop_sim *sim, cop_id id,
                         const struct cop_effect *effect)
{
    struct cop_upcall upcall;
    struct cop__answer answers[COP__ANSWERS_MAX];
    if (cop_upcall(effect, &upcall) != 0) {
        cop_sim_fail(sim, "sim", "node %u has an upcall that cannot be read",
                     (unsigned)id);
        return;
    }
    cop__sim_after_upcall(sim, id, &upcall);
    if (upcall.kind == COP_UPCALL_RUN)
        sim->told = sim->now;
    if (sim->config.upcall) {
        sim->config.upcall(sim->config.context, sim, id, &upcall);
        return;
    }
    if (upcall.kind == COP_UPCALL_RESOLVE) {
        resolve(sim, id, &upcall);
        return;
    }
    uint32_t count = cop__service_answers(sim, id, &upcall, answers);
    for (uint32_t i = 0; i < count; i++) {
        cop__service_request(sim, id, &answers[i]);
        if (cop_sim_answer(sim, id, &sim->ask.request, answers[i].delay_ns) != 0)
            cop_sim_fail(sim, "sim", "out of memory");
    }
}

void cop__service_fini(struct cop_sim *sim)
{
    free(sim->ask.targets);
    free(sim->works);
}
