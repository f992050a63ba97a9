/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rankset.h"
#include "coll/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * Calls that heal: each is a sweep, which sees to it that everyone alive is asked once,
 * whoever dies. The gate of the sweep is the check; a part of it is a record; those whom it
 * does not cover at its end are the dead and the silent.
 */

static struct cop__call *call_of(const struct cop__sweep *sweep)
{
    return cop__sweep_user(sweep);
}

/* ---- starting -------------------------------------------------------------------- */

static void set_found(struct cop_node *node, struct cop__group *group)
{
    struct cop__colls *colls = cop__colls(node);
    cop__group_unref(colls->found);
    colls->found = group;
    colls->head_of = NULL;
}

int cop__heal_start(struct cop_node *node, const struct cop_request *request,
                    struct cop__bytes bytes, struct cop__group *group)
{
    struct cop__sweep_options options = {
        .protocol = COP__COLL_PROTOCOL,
        .shape = group ? group->shape : request->shape,
        .timeout_ns = request->timeout_ns ? request->timeout_ns : COP__COLL_TIMEOUT,
        .payload = bytes,
        .token = request->token,
        .roll = group ? group->roll : NULL,
    };
    set_found(node, cop__group_ref(group));
    int error = cop__sweep_start(node, &options);
    set_found(node, NULL);
    return error;
}

/* K1, K2. */
static int find_roll(struct cop_node *node, const struct cop_frame *frame,
                     struct cop__bytes payload, struct cop__roll **out)
{
    struct cop__colls *colls = cop__colls(node);
    struct cop__group *group = NULL;
    colls->head_of = NULL;
    if (!colls->head)
        colls->head = malloc(sizeof *colls->head);
    int error = colls->head ? cop__head_decode(payload, colls->head) : COP_ENOMEM;
    if (!error && !(colls->head->flags & COP_BCAST_HEAL))
        error = COP_EMALFORMED;
    if (!error && colls->call_count >= COP_CALLS_MAX)
        error = COP_ETOOBIG;
    if (!error)
        error = cop__group_of_call(node, frame, colls->head, &group);
    if (error)
        return error;
    *out = group ? cop__roll_ref(group->roll) : NULL;
    set_found(node, group);
    colls->head_of = payload.data;
    return 0;
}

static void on_ask(struct cop_node *node, struct cop__sweep *sweep)
{
    struct cop__colls *colls = cop__colls(node);
    struct cop__call *call = cop__call_create(node, cop__sweep_request(sweep),
                                              cop__sweep_request_buf(sweep));
    if (!call)
        return;
    call->sweep = sweep;
    call->group = colls->found;
    colls->found = NULL;
    call->root = cop__sweep_initiator(sweep, &call->incarnation);
    call->is_root = cop__sweep_is_rooted_here(node, sweep);
    call->token = cop__sweep_token(sweep);
    cop__sweep_set_user(sweep, call);
    cop__call_begin(node, call);
}

/* ---- going on -------------------------------------------------------------------- */

void cop__heal_forward(struct cop_node *node, struct cop__call *call)
{
    cop__sweep_forward(node, call->sweep);
}

/* What a service replied, as the first of what will be combined; NULL: no memory. */
static struct cop_buf *make_record(const struct cop_node *node,
                                   const struct cop__call *call,
                                   struct cop__bytes reply)
{
    static const struct cop__tally none = {0};
    const struct cop__head *head = &call->head;
    struct cop_buf *made;
    if (cop__op_is_plain(head->op, reply))
        return cop__verdict_encode(head->op, head->argument, &none, reply);
    if (cop__op_make(head->op, head->argument, node->self, reply, &made))
        return NULL;
    struct cop_buf *record = cop__verdict_encode(
        head->op, head->argument, &none, (struct cop__bytes){made->data, made->length});
    cop_buf_unref(made);
    return record;
}

static void on_strict(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__call *call = (struct cop__call *)(void *)timer;
    cop__calls_enter(node);
    if (!call->over)
        cop__sweep_abort(node, COP__COLL_PROTOCOL, call->token);
    cop__calls_leave(node);
}

/* At the root: whose sub-trees nobody asked, and whether a version ends it all. */
static void note_faults(struct cop_node *node, struct cop__call *call,
                        const struct cop__verdict *record)
{
    for (uint32_t i = 0; i < record->faults.count; i++) {
        struct cop__fault fault = cop__fault_at(record->faults, i);
        if (fault.tree && cop__rankset_put(&call->refusers, fault.first))
            cop__fail(node, COP_ENOMEM);
    }
    if (record->lowest && (call->head.flags & COP_BCAST_STRICT) &&
        !call->strict_failed) {
        call->strict_failed = true;
        cop__tally_lower(&call->tally, record->lowest);
        call->timer.fire = on_strict;
        cop__timer_set(node, &call->timer, node->now);
    }
}

void cop__heal_contribute(struct cop_node *node, struct cop__call *call,
                          const struct cop__fault *fault, struct cop__bytes reply)
{
    struct cop__sweep *sweep = call->sweep;
    const struct cop__head *head = &call->head;
    struct cop_buf *record =
        fault ? cop__verdict_fault(head->op, head->argument, call->lowest, fault)
              : make_record(node, call, reply);
    struct cop__verdict own;
    if (!record) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    /* What the root itself refuses nobody below it is asked either. */
    if (fault && call->is_root &&
        cop__verdict_decode((struct cop__bytes){record->data, record->length}, &own) ==
            0)
        note_faults(node, call, &own);
    if (fault && fault->tree)
        cop__sweep_refuse(node, sweep, record);
    else
        cop__sweep_contribute(node, sweep, record);
}

/* ---- hearing of others ----------------------------------------------------------- */

/* What a record says of the one who sent it. */
static struct cop__fault fault_of(const struct cop__verdict *record, cop_rank rank)
{
    struct cop__fault none = {0};
    for (uint32_t i = 0; i < record->faults.count; i++) {
        struct cop__fault fault = cop__fault_at(record->faults, i);
        if (fault.first <= rank && rank <= fault.last)
            return fault;
    }
    return none;
}

static void on_part(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank,
                    int status, struct cop__bytes payload)
{
    struct cop__call *call = call_of(sweep);
    struct cop__verdict record = {0};
    struct cop__fault fault = {.status = status, .phase = COP_PHASE_REPLY};
    if (!call || call->over)
        return;
    cop__bulk_release(call, cop__sweep_id(sweep, rank));
    if (status == 0) {
        if (cop__verdict_decode(payload, &record))
            return;
        fault = fault_of(&record, rank);
        if (call->is_root)
            note_faults(node, call, &record);
    }
    cop__call_part(node, call, cop__sweep_id(sweep, rank), fault.status,
                   (enum cop_phase)fault.phase, false, record.data);
}

static void on_gathered(struct cop_node *node, struct cop__sweep *sweep, int status)
{
    struct cop__call *call = call_of(sweep);
    if (call && !call->over)
        cop__call_done(node, call, status);
}

static void end_call(struct cop_node *node, struct cop__sweep *sweep, int status)
{
    struct cop__call *call = call_of(sweep);
    if (!call)
        return;
    cop__calls_enter(node);
    cop__call_end(node, call, status);
    cop__calls_leave(node);
}

static void on_answered(struct cop_node *node, struct cop__sweep *sweep)
{
    const struct cop__call *call = call_of(sweep);
    if (call)
        end_call(node, sweep, call->replied ? 0 : COP_ETIMEDOUT);
}

static void on_outcome(struct cop_node *node, struct cop__sweep *sweep, int status,
                       struct cop__bytes payload)
{
    (void)payload;
    end_call(node, sweep, status ? status : COP_EABORTED);
}

/* Nobody can refuse any more because it does not know the group: see give_definition. */
static void on_end(struct cop_node *node, struct cop__sweep *sweep)
{
    struct cop__head head;
    end_call(node, sweep, COP_ELOST);
    if (cop__colls(node)->groups &&
        cop__head_decode(cop__sweep_request(sweep), &head) == 0 &&
        (head.flags & COP_BCAST_LAST))
        cop__group_forget(node, &head, false);
}

/* ---- who cannot take part -------------------------------------------------------- */

/* The same call with the definition of its group; NULL: no memory. */
static struct cop_buf *with_definition(const struct cop__head *head,
                                       const struct cop__group *group)
{
    struct cop__head whole = *head;
    whole.flags &= (uint8_t)~CALL_KEEP; /* for this call only */
    whole.definition =
        (struct cop__bytes){group->definition->data, group->definition->length};
    return cop__head_encode(&whole);
}

/*
 * K2: a new life of a member does not know the group. Whoever asks it has the definition, also
 * when its own part of the call is long over, unless the call is about a part of the group only.
 * Each plain question that was on its way to it is refused, and answered with the definition: of two
 * refusals nobody can tell which is the later. Where there is no time for that it was silent.
 */
static bool give_definition(struct cop_node *node, struct cop__sweep *sweep,
                            const struct cop__head *head, cop_rank rank)
{
    const struct cop__call *call = call_of(sweep);
    const struct cop__group *group =
        call ? call->group : cop__group_of_head(node, head);
    if (!group || head->origin != GROUP_REGULAR || head->definition.length > 0 ||
        head->excluded.count > 0)
        return false;
    struct cop_buf *bytes = with_definition(head, group);
    if (bytes)
        cop__sweep_ask_with(node, sweep, rank,
                            (struct cop__bytes){bytes->data, bytes->length});
    else
        cop__fail(node, COP_ENOMEM);
    cop_buf_unref(bytes);
    return true;
}

static struct cop_buf *on_refused(struct cop_node *node, struct cop__sweep *sweep,
                                  cop_rank rank, int status)
{
    struct cop__head head;
    struct cop__tally none = {0};
    struct cop_buf *record;
    if (cop__head_decode(cop__sweep_request(sweep), &head))
        return NULL;
    if (status == COP_ENOENT && head.kind == CALL_RUN &&
        give_definition(node, sweep, &head, rank))
        return NULL;
    struct cop__fault fault = {
        .first = rank,
        .last = rank,
        .at = COP_RANK_NONE,
        .status = status < 0 ? status : COP_EREFUSED,
        .phase = COP_PHASE_GROUP,
        .tree = true,
    };
    if (head.kind == CALL_END && (status == COP_ENOENT || status == COP_ELOST))
        record = cop__verdict_encode(head.op, head.argument, &none,
                                     (struct cop__bytes){NULL, 0});
    else
        record = cop__verdict_fault(head.op, head.argument, 0, &fault);
    if (!record)
        cop__fail(node, COP_ENOMEM);
    return record;
}

/* K4: nobody below a refusal is asked behind its back. */
static bool is_excused(const struct cop_node *node, const struct cop__sweep *sweep,
                       cop_rank rank)
{
    const struct cop__call *call = call_of(sweep);
    (void)node;
    if (!call || call->refusers.count == 0)
        return false;
    const struct cop_tree *tree = cop__sweep_tree(sweep);
    for (rank = cop_tree_parent(tree, rank); rank != COP_RANK_NONE;
         rank = cop_tree_parent(tree, rank))
        if (cop__rankset_has(&call->refusers, rank))
            return true;
    return false;
}

/* ---- ending ---------------------------------------------------------------------- */

static void report(struct cop_node *node, struct cop__sweep *sweep,
                   struct cop__call *call, int status)
{
    struct cop__sweep_result result;
    struct cop__verdict record = {0};
    struct cop__tally tally = {0};
    if (cop__sweep_result(node, sweep, &result)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    if (result.payload &&
        (cop__verdict_decode(
             (struct cop__bytes){result.payload->data, result.payload->length},
             &record) ||
         cop__tally_take(&tally, &record)))
        cop__fail(node, COP_ENOMEM);
    struct cop__end end = {
        .tree = cop__sweep_tree(sweep),
        .tally = &tally,
        .missing = &result.missing,
        .members = call->group ? call->group->roll->count
                               : result.answered + result.missing.count,
        .data = record.data,
    };
    if (status == 0 && tally.count == 0 && result.missing.count == 0 && call->group)
        call->group->populated = true;
    cop__call_report(node, call, status, &end);
    cop__tally_fini(&tally);
    cop_buf_unref(result.payload);
    cop_ranks_free(&result.missing);
}

static void on_complete(struct cop_node *node, struct cop__sweep *sweep, int status)
{
    struct cop__call *call = call_of(sweep);
    if (!call)
        return;
    cop__calls_enter(node);
    if (status == COP_EABORTED) {
        struct cop__end none = {.tally = &call->tally};
        cop__call_done(node, call, status);
        cop__call_report(node, call, call->strict_failed ? COP_EVERSION : COP_EABORTED,
                         &none);
    } else {
        /* K3: also if all the rest is in before it could be aborted. The service here hears of it
         * before the caller does. */
        if (status)
            cop__call_done(node, call, status);
        report(node, sweep, call, call->strict_failed ? COP_EVERSION : status);
    }
    cop__call_end(node, call, status);
    cop__calls_leave(node);
}

const struct cop__protocol cop__coll_protocol = {
    .name = "coll",
    .roll = find_roll,
    .gated = true,
    .on_ask = on_ask,
    .fold = cop__verdict_fold,
    .accept = cop__verdict_accept,
    .on_complete = on_complete,
    .on_outcome = on_outcome,
    .on_part = on_part,
    .on_gathered = on_gathered,
    .on_answered = on_answered,
    .on_end = on_end,
    .on_refused = on_refused,
    .is_excused = is_excused,
};
