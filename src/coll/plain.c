/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/bulk.h"
#include "coll/state.h"
#include "member/member.h"

#include <stdlib.h>

/*
 * Calls without healing: down the tree of the group by CALL, up by RETURNED. Each member waits
 * for each child as long as the child's depth allows; a child that is lost or late fails with
 * its whole sub-tree. The service combines what comes up.
 */

/* So often it is looked at whether one who is late has bulk to blame. */
#define BULK_LOOK COP_SEC

/* RETURNED: more of my replies follow; this is the last; I did not take part. */
enum { RETURN_LAST = 0, RETURN_MORE = 1, RETURN_REFUSED = 2 };

static cop_id id_of(const struct cop__call *call, cop_rank rank)
{
    return call->group->roll->ids[rank];
}

static struct cop__call *find(const struct cop_node *node, cop_id root,
                              cop_incarnation incarnation, uint64_t number)
{
    struct cop__call *call = cop__colls(node)->calls;
    while (call && (call->over || call->sweep || call->root != root ||
                    call->incarnation != incarnation || call->number != number))
        call = call->next;
    return call;
}

static struct cop__branch *branch_of(struct cop__call *call, cop_id id)
{
    for (uint32_t i = 0; i < call->branch_count; i++)
        if (call->branches[i].owed && id_of(call, call->branches[i].rank) == id)
            return &call->branches[i];
    return NULL;
}

bool cop__plain_owes(const struct cop__call *call, cop_id id)
{
    for (uint32_t i = 0; i < call->branch_count; i++)
        if (call->branches[i].owed && id_of(call, call->branches[i].rank) == id)
            return true;
    return false;
}

/* ---- time ------------------------------------------------------------------------ */

/* K8: a round trip for each level below, and the service's time once. With bulk (K12) those beside
 * the child wait as well, and not for ever, however slow it once was. */
static cop_time patience(const struct cop_node *node, const struct cop__call *call,
                         cop_rank child)
{
    cop_time trip = cop__trip_estimate(node, id_of(call, child));
    if ((call->head.flags & COP_BCAST_BULK) && trip > COP__BULK_STALL)
        trip = COP__BULK_STALL;
    return cop_tree_depth(&call->tree, child) * trip + call->service_ns;
}

/* For the service here: as long as for those below, and half a round trip, which is before
 * the parent gives up. */
static void set_own_deadline(const struct cop_node *node, struct cop__call *call)
{
    cop_time longest = call->service_ns, trip;
    for (uint32_t i = 0; i < call->branch_count; i++) {
        cop_time wait = patience(node, call, call->branches[i].rank);
        longest = wait > longest ? wait : longest;
    }
    trip = cop__trip_estimate(node, call->is_root ? node->self : call->parent);
    call->deadline = node->now + longest + trip / 2;
}

static void arm(struct cop_node *node, struct cop__call *call)
{
    cop_time next = call->deadline;
    for (uint32_t i = 0; i < call->branch_count; i++)
        if (call->branches[i].owed && call->branches[i].deadline < next)
            next = call->branches[i].deadline;
    if (!call->over)
        cop__timer_set(node, &call->timer, next);
}

COP__APART void cop__plain_ran(struct cop_node *node, struct cop__call *call)
{
    set_own_deadline(node, call);
    arm(node, call);
}

/* ---- going up -------------------------------------------------------------------- */

static void send_return(struct cop_node *node, const struct cop__call *call,
                        struct cop_buf *record, uint8_t more)
{
    if (!record) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop__msg_returned returned = {
        .root = call->root,
        .incarnation = call->incarnation,
        .number = call->number,
        .more = more,
        .spent_ns = node->now - call->begun,
        .record = {record->data, record->length},
    };
    cop__roster_send(node, call->parent, COP__KIND_RETURNED,
                     cop__encode_returned(&returned));
    cop_buf_unref(record);
}

static struct cop__bytes reply_of(const struct cop__call *call)
{
    if (!call->reply)
        return (struct cop__bytes){NULL, 0};
    return (struct cop__bytes){call->reply->data, call->reply->length};
}

static void finish(struct cop_node *node, struct cop__call *call)
{
    if (cop__tally_settle(&call->tally))
        cop__fail(node, COP_ENOMEM);
    if (call->is_root) {
        int status = 0;
        for (uint32_t i = 0; i < call->tally.count; i++)
            if (call->tally.items[i].status == COP_ETIMEDOUT)
                status = COP_ETIMEDOUT;
        if (call->tally.lowest && (call->head.flags & COP_BCAST_STRICT))
            status = COP_EVERSION;
        struct cop__end end = {
            .tree = &call->tree,
            .tally = &call->tally,
            .members = call->tree.n,
            .data = reply_of(call),
        };
        cop__call_report(node, call, status, &end);
    } else {
        send_return(node, call,
                    cop__verdict_encode((uint8_t)COP_OP_STATUS, 0, &call->tally,
                                        reply_of(call)),
                    RETURN_LAST);
    }
    cop__call_end(node, call, 0);
}

/* Acts if there is nobody to wait for: DONE, and the answer once the service has given it. */
void cop__plain_settle(struct cop_node *node, struct cop__call *call)
{
    if (call->over || call->checking || call->owed > 0)
        return;
    if (call->forwarded)
        cop__call_done(node, call, 0);
    if (call->replied)
        finish(node, call);
}

COP__APART void cop__plain_contribute(struct cop_node *node, struct cop__call *call,
                                      const struct cop__fault *fault,
                                      struct cop__bytes reply, bool more)
{
    struct cop__tally none = {0};
    cop__tally_lower(&call->tally, call->lowest);
    if (fault && cop__tally_add(&call->tally, fault))
        cop__fail(node, COP_ENOMEM);
    if (more) {
        send_return(node, call,
                    cop__verdict_encode((uint8_t)COP_OP_STATUS, 0, &none, reply),
                    RETURN_MORE);
        return;
    }
    if (reply.length > 0) {
        call->reply = cop_buf_copy(reply.data, reply.length);
        if (!call->reply)
            cop__fail(node, COP_ENOMEM);
    }
}

/* ---- who fails ------------------------------------------------------------------- */

static void fail_branch(struct cop_node *node, struct cop__call *call,
                        struct cop__branch *branch, int status, enum cop_phase phase)
{
    struct cop__fault fault = {
        .first = branch->rank,
        .last = branch->rank,
        .at = COP_RANK_NONE,
        .status = status,
        .phase = (uint8_t)phase,
        .tree = true,
    };
    if (branch->owed) {
        branch->owed = false;
        call->owed--;
        cop__unwatch(node, id_of(call, branch->rank));
        cop__bulk_release(call, id_of(call, branch->rank));
    }
    if (cop__tally_add(&call->tally, &fault))
        cop__fail(node, COP_ENOMEM);
    cop__call_part(node, call, id_of(call, branch->rank), status, phase, false,
                   (struct cop__bytes){NULL, 0});
}

/* K8: one reply for each that is late. */
static void expire_branch(struct cop_node *node, struct cop__call *call,
                          struct cop__branch *branch)
{
    cop_time wait = patience(node, call, branch->rank);
    if (!branch->owed || branch->deadline > node->now)
        return;
    if (cop__bulk_excuses(node, call, branch->rank, wait))
        branch->deadline = node->now + BULK_LOOK;
    else
        fail_branch(node, call, branch, COP_ETIMEDOUT, COP_PHASE_REPLY);
}

/* What came goes up. */
static void expire(struct cop_node *node, struct cop__call *call)
{
    for (uint32_t i = 0; i < call->branch_count; i++)
        expire_branch(node, call, &call->branches[i]);
    /* Bulk has judges of its own, and who was excused is waited for. */
    if (call->deadline <= node->now && (cop__bulk_owes_run(call) || call->owed > 0))
        set_own_deadline(node, call);
    if (call->deadline <= node->now && !call->replied && call->owed == 0) {
        struct cop__fault fault = {
            .first = call->self,
            .last = call->self,
            .at = COP_RANK_NONE,
            .status = COP_ETIMEDOUT,
            .phase = call->checking ? COP_PHASE_CHECK : COP_PHASE_RUN,
            .tree = call->checking,
        };
        call->checking = false;
        call->replied = true;
        cop__call_done(node, call, COP_ETIMEDOUT);
        cop__plain_contribute(node, call, &fault, (struct cop__bytes){NULL, 0}, false);
    }
    cop__plain_settle(node, call);
}

static void on_timer(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__call *call = (struct cop__call *)(void *)timer;
    cop__calls_enter(node);
    expire(node, call);
    if (!call->over)
        arm(node, call);
    cop__calls_leave(node);
}

void cop__plain_lose(struct cop_node *node, cop_id id)
{
    cop__calls_enter(node);
    for (struct cop__call *call = cop__colls(node)->calls; call; call = call->next) {
        if (call->over || call->sweep)
            continue;
        cop__bulk_lose(node, call, id);
        struct cop__branch *branch = call->over ? NULL : branch_of(call, id);
        if (!branch)
            continue;
        fail_branch(node, call, branch, COP_ELOST, COP_PHASE_REPLY);
        cop__plain_settle(node, call);
    }
    cop__calls_leave(node);
}

/* ---- going down ------------------------------------------------------------------ */

static int make_branches(struct cop__call *call)
{
    struct cop_ranks children = {0};
    int error = cop_tree_children(&call->tree, call->self, &children);
    if (!error && children.count > 0) {
        call->branches = calloc(children.count, sizeof *call->branches);
        error = call->branches ? 0 : COP_ENOMEM;
    }
    for (uint32_t i = 0; !error && i < children.count; i++)
        call->branches[i].rank = children.items[i];
    call->branch_count = error ? 0 : children.count;
    cop_ranks_free(&children);
    return error;
}

COP__APART void cop__plain_forward(struct cop_node *node, struct cop__call *call)
{
    call->forwarded = true;
    if (make_branches(call)) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    struct cop__msg_call message = {
        .root = call->root,
        .incarnation = call->incarnation,
        .number = call->number,
        .call = {call->bytes->data, call->bytes->length},
    };
    struct cop_buf *frame = call->branch_count ? cop__encode_call(&message) : NULL;
    for (uint32_t i = 0; i < call->branch_count; i++) {
        struct cop__branch *branch = &call->branches[i];
        cop_id id = id_of(call, branch->rank);
        if (cop__roster_is_suspect(node, id)) {
            fail_branch(node, call, branch, COP_ELOST, COP_PHASE_REPLY);
            continue;
        }
        branch->owed = true;
        branch->asked = node->now;
        branch->deadline = node->now + patience(node, call, branch->rank);
        call->owed++;
        cop__watch(node, id);
        cop__roster_send(node, id, COP__KIND_CALL, cop_buf_ref(frame));
    }
    cop_buf_unref(frame);
    set_own_deadline(node, call);
    arm(node, call);
}

static void start(struct cop_node *node, struct cop__call *call)
{
    call->timer.fire = on_timer;
    call->tree = cop__call_tree(node, call, &call->self);
    cop__calls_enter(node);
    set_own_deadline(node, call);
    arm(node, call);
    cop__call_begin(node, call);
    cop__plain_settle(node, call);
    cop__calls_leave(node);
}

int cop__plain_start(struct cop_node *node, const struct cop_request *request,
                     struct cop__bytes bytes, struct cop__group *group)
{
    struct cop__call *call = cop__call_create(node, bytes, NULL);
    if (!call)
        return COP_ENOMEM;
    call->group = cop__group_ref(group);
    call->root = node->self;
    call->incarnation = node->incarnation;
    call->is_root = true;
    call->token = request->token;
    call->number = ++cop__colls(node)->number;
    start(node, call);
    return 0;
}

/* Not even the group is known: the one who sent it knows who I am. */
static void refuse(struct cop_node *node, const struct cop__msg_call *message,
                   cop_id sender, int status)
{
    struct cop__fault fault = {
        .at = COP_RANK_NONE,
        .status = status < 0 ? status : COP_EREFUSED,
        .phase = COP_PHASE_GROUP,
        .tree = true,
    };
    struct cop__call none = {
        .root = message->root,
        .incarnation = message->incarnation,
        .number = message->number,
        .parent = sender,
        .begun = node->now,
    };
    send_return(node, &none, cop__verdict_fault((uint8_t)COP_OP_STATUS, 0, 0, &fault),
                RETURN_REFUSED);
}

static void take_call(struct cop_node *node, const struct cop__msg_call *message,
                      struct cop__group *group, cop_id sender)
{
    struct cop_tree tree = {.shape = group->shape, .n = group->roll->count};
    cop_rank self = cop__roll_rank(group->roll, node->self);
    tree.root = cop__roll_rank(group->roll, message->root);
    if (tree.root == COP_RANK_NONE || self == COP_RANK_NONE || self == tree.root ||
        group->roll->ids[cop_tree_parent(&tree, self)] != sender) {
        COP__COUNT(node, ignored_not_ancestor);
        return;
    }
    struct cop__call *call = cop__call_create(node, message->call, NULL);
    if (!call)
        return;
    call->group = cop__group_ref(group);
    call->root = message->root;
    call->incarnation = message->incarnation;
    call->number = message->number;
    call->parent = sender;
    start(node, call);
}

/* K2: who calls may have a view that I have yet to get; what I do not know may be in it. False:
 * it has none, or was waited for. */
COP__COLD static bool hold_early(struct cop_node *node, const struct cop_frame *frame)
{
    return cop__has_views(node) && frame->header.epoch > cop_view_epoch(node->view) &&
           cop__member_hold(node, frame);
}

void cop__on_call(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_call message;
    struct cop__head head;
    struct cop__group *group = NULL;
    cop_id sender = frame->header.sender;
    if (cop__decode_call(frame->payload->data, frame->payload->length, &message) ||
        cop__head_decode(message.call, &head) || head.kind != CALL_RUN ||
        (head.flags & COP_BCAST_HEAL)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (find(node, message.root, message.incarnation, message.number)) {
        COP__COUNT(node, ignored_repeated);
        return;
    }
    int error = cop__colls(node)->call_count >= COP_CALLS_MAX
                    ? COP_ETOOBIG
                    : cop__group_of_call(node, frame, &head, &group);
    if (error == COP_ENOMEM)
        cop__fail(node, error);
    else if (error == COP_EMALFORMED)
        COP__COUNT(node, ignored_malformed);
    else if ((error == COP_ESTATE || error == COP_ELOST) && hold_early(node, frame))
        error = COP_EAGAIN;
    else if (error && error != COP_EAGAIN)
        refuse(node, &message, sender, error);
    else if (!error)
        take_call(node, &message, group, sender);
    cop__group_unref(group);
}

/* ---- hearing of others ----------------------------------------------------------- */

static void take_last(struct cop_node *node, struct cop__call *call,
                      struct cop__branch *branch, const struct cop__verdict *record,
                      cop_time spent_ns)
{
    struct cop__fault own = {0};
    cop_id id = id_of(call, branch->rank);
    cop_time took = node->now - branch->asked;
    branch->owed = false;
    call->owed--;
    cop__unwatch(node, id);
    cop__bulk_release(call, id);
    /* An answer that is taken too late, and was not given up, shows that I was stopped. */
    if (branch->deadline > node->now)
        cop__trip_measure(node, id, took > spent_ns ? took - spent_ns : 0);
    for (uint32_t i = 0; i < record->faults.count; i++) {
        struct cop__fault fault = cop__fault_at(record->faults, i);
        if (fault.first <= branch->rank && branch->rank <= fault.last)
            own = fault;
    }
    if (cop__tally_take(&call->tally, record))
        cop__fail(node, COP_ENOMEM);
    cop__call_part(node, call, id, own.status, (enum cop_phase)own.phase, false,
                   record->data);
}

static void take_return(struct cop_node *node, struct cop__call *call,
                        struct cop__branch *branch,
                        const struct cop__msg_returned *message,
                        const struct cop__verdict *record)
{
    if (message->more == RETURN_MORE) {
        cop__call_part(node, call, id_of(call, branch->rank), 0, COP_PHASE_NONE, true,
                       record->data);
    } else if (message->more == RETURN_REFUSED && record->faults.count > 0) {
        struct cop__fault fault = cop__fault_at(record->faults, 0);
        fail_branch(node, call, branch, fault.status, (enum cop_phase)fault.phase);
    } else {
        take_last(node, call, branch, record, message->spent_ns);
    }
    cop__plain_settle(node, call);
}

/* Faults of a sub-tree name places in it. */
static bool is_sane(const struct cop__call *call, const struct cop__branch *branch,
                    const struct cop__verdict *record, bool refused)
{
    for (uint32_t i = 0; i < record->faults.count && !refused; i++) {
        struct cop__fault fault = cop__fault_at(record->faults, i);
        if (fault.last >= call->tree.n ||
            !cop_tree_is_below(&call->tree, fault.first, branch->rank) ||
            !cop_tree_is_below(&call->tree, fault.last, branch->rank))
            return false;
    }
    return true;
}

void cop__on_returned(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_returned message;
    struct cop__verdict record;
    const struct cop_buf *bytes = frame->payload;
    if (cop__decode_returned(bytes->data, bytes->length, &message) ||
        cop__verdict_decode(message.record, &record)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__call *call =
        find(node, message.root, message.incarnation, message.number);
    struct cop__branch *branch = call ? branch_of(call, frame->header.sender) : NULL;
    if (!branch) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    if (!is_sane(call, branch, &record, message.more == RETURN_REFUSED)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__calls_enter(node);
    take_return(node, call, branch, &message, &record);
    cop__calls_leave(node);
}

/* ---- aborting -------------------------------------------------------------------- */

static void cancel_below(struct cop_node *node, const struct cop__call *call)
{
    struct cop__msg_cancel cancel = {
        .root = call->root,
        .incarnation = call->incarnation,
        .number = call->number,
    };
    for (uint32_t i = 0; i < call->branch_count; i++)
        if (call->branches[i].owed)
            cop__roster_send(node, id_of(call, call->branches[i].rank),
                             COP__KIND_CANCEL, cop__encode_cancel(&cancel));
}

int cop__plain_abort(struct cop_node *node, struct cop__call *call)
{
    struct cop__end none = {.tally = &call->tally, .tree = NULL};
    cancel_below(node, call);
    cop__call_done(node, call, COP_EABORTED);
    call->tally.count = 0;
    cop__call_report(node, call, COP_EABORTED, &none);
    cop__call_end(node, call, COP_EABORTED);
    return 0;
}

void cop__on_cancel(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_cancel message;
    const struct cop_buf *bytes = frame->payload;
    if (cop__decode_cancel(bytes->data, bytes->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__call *call =
        find(node, message.root, message.incarnation, message.number);
    if (!call && hold_early(node, frame))
        return; /* so may be the call itself */
    if (!call || call->parent != frame->header.sender) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    cop__calls_enter(node);
    cancel_below(node, call);
    cop__call_end(node, call, COP_EABORTED);
    cop__calls_leave(node);
}
