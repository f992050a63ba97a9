/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/sweep.h"

#include "base/rankset.h"
#include "sweep/state.h"
#include "view/view.h"

#include <stdlib.h>

/* ---- the list -------------------------------------------------------------------- */

const struct cop__protocol *cop__sweep_protocol(const struct cop_node *node,
                                                const struct cop__sweep *sweep)
{
    return node->stack->protocols[sweep->protocol];
}

struct cop__sweep *cop__sweep_find(const struct cop_node *node, cop_id initiator,
                                   cop_incarnation incarnation, uint64_t sequence)
{
    struct cop__sweep *sweep = cop__sweeps(node)->first;
    while (sweep && (sweep->sequence != sequence || sweep->initiator != initiator ||
                     sweep->incarnation != incarnation || sweep->over))
        sweep = sweep->next;
    return sweep;
}

/* Lists longer than this are not kept with the spare. */
#define SPARE_MAX 64u

static void free_memory(struct cop__sweep *sweep)
{
    free(sweep->children);
    if (sweep->part_capacity > 1)
        free(sweep->parts);
    free(sweep);
}

/* The memory of one is kept: sweeps follow each other, and a node that finds the next one
 * where the last one was finds it in its cache. */
static void free_sweep(struct cop__sweeps *sweeps, struct cop__sweep *sweep)
{
    cop__sweep_drop_parts(sweep);
    cop__map_fini(&sweep->places);
    cop_ranks_free(&sweep->askers);
    cop_ranks_free(&sweep->strangers);
    cop_ranks_free(&sweep->leaves);
    cop_buf_unref(sweep->request);
    cop_buf_unref(sweep->outcome);
    cop_view_unref(sweep->world);
    cop_view_unref(sweep->about);
    cop__roll_unref(sweep->roll);
    if (sweeps->spare || sweep->child_capacity > SPARE_MAX ||
        sweep->part_capacity > SPARE_MAX)
        free_memory(sweep);
    else
        sweeps->spare = sweep;
}

static struct cop__sweep *take_sweep(struct cop__sweeps *sweeps)
{
    struct cop__sweep *sweep = sweeps->spare;
    if (!sweep)
        return calloc(1, sizeof *sweep);
    sweeps->spare = NULL;
    struct cop__sweep fresh = {
        .children = sweep->children,
        .child_capacity = sweep->child_capacity,
    };
    if (sweep->part_capacity > 1) {
        fresh.parts = sweep->parts;
        fresh.part_capacity = sweep->part_capacity;
    }
    *sweep = fresh;
    return sweep;
}

/* Calls that look at sweeps are bracketed by these two; what ends between them is freed
 * when the last one leaves, so that nobody holds a sweep that is gone. */
void cop__sweeps_enter(struct cop_node *node) { cop__sweeps(node)->busy++; }

void cop__sweeps_leave(struct cop_node *node)
{
    cop__sweeps(node)->busy--;
    cop__sweeps_reap(node, 0);
}

void cop__sweeps_reap(struct cop_node *node, uint32_t busy)
{
    struct cop__sweeps *sweeps = cop__sweeps(node);
    if (sweeps->busy > busy || !sweeps->reap)
        return;
    sweeps->reap = false;
    for (struct cop__sweep **at = &sweeps->first; *at;) {
        struct cop__sweep *sweep = *at;
        if (!sweep->over) {
            at = &sweep->next;
            continue;
        }
        *at = sweep->next;
        sweeps->count--;
        free_sweep(sweeps, sweep);
    }
}

/* The initiator's own mark follows its sweeps as they end, in order. */
static void advance_own_mark(struct cop__origin *origin)
{
    while (origin->ended & 1) {
        uint64_t count = 1;
        while (count < 64 && (origin->ended >> count & 1))
            count++;
        cop__origin_advance(origin, origin->mark + count);
    }
}

/* Ends it here: nothing of it is waited for any more, and it never starts again. */
void cop__sweep_end(struct cop_node *node, struct cop__sweep *sweep)
{
    if (sweep->over)
        return;
    COP_ASSERT(cop__sweeps(node)->busy > 0);
    COP__COUNT(node, sweeps_ended);
    sweep->over = true;
    cop__sweeps(node)->reap = true;
    cop__timer_cancel(node, &sweep->timer);
    for (uint32_t i = 0; i < sweep->child_count; i++)
        cop__sweep_settle_child(node, sweep, &sweep->children[i], CHILD_FAILED);
    cop__sweep_mind_parent(node, sweep);
    if (cop__sweep_protocol(node, sweep)->on_end)
        cop__sweep_protocol(node, sweep)->on_end(node, sweep);
    struct cop__origin *origin =
        cop__origin_get(node, sweep->initiator, sweep->incarnation);
    if (!origin)
        return;
    if (cop__origin_end(origin, sweep->sequence))
        cop__fail(node, COP_ENOMEM);
    if (cop__sweep_is_mine(node, sweep))
        advance_own_mark(origin);
}

/* ---- marks ----------------------------------------------------------------------- */

/* S5: what the initiator knows to be done is done. */
static void end_marked(struct cop_node *node, cop_id initiator,
                       cop_incarnation incarnation, uint64_t mark)
{
    for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
         sweep = sweep->next)
        if (!sweep->over && sweep->initiator == initiator &&
            (sweep->incarnation < incarnation ||
             (sweep->incarnation == incarnation && sweep->sequence <= mark)))
            cop__sweep_give_up(node, sweep, COP_ELOST);
}

/* Takes in a mark; NULL if that life of the initiator is over, or it is nonsense. */
static struct cop__origin *hear_mark(struct cop_node *node, cop_id initiator,
                                     cop_incarnation incarnation, uint64_t sequence,
                                     uint64_t mark, bool has_world)
{
    if (!cop__sweep_may_begin(node, initiator, incarnation, has_world) ||
        sequence == 0 || (sequence > mark && sequence - mark > COP__SWEEP_WINDOW)) {
        COP__COUNT(node, ignored_malformed);
        return NULL;
    }
    /* A sweep of a later life is news of that life; of mine nobody knows more than I. */
    struct cop__belief life = {initiator, incarnation, 0, COP_ALIVE};
    if (initiator != node->self && !cop__has_views(node))
        cop__roster_merge(node, &life);
    struct cop__origin *origin = NULL;
    if (!cop__sweep_life_is_over(node, initiator, incarnation))
        origin = cop__origin_get(node, initiator, incarnation);
    if (!origin) {
        COP__COUNT(node, ignored_sweep_over);
        return NULL;
    }
    if (mark > origin->mark && initiator != node->self) {
        end_marked(node, initiator, incarnation, mark);
        cop__origin_advance(origin, mark);
    }
    return origin;
}

struct cop__sweep *cop__sweep_hear_of(struct cop_node *node, cop_id initiator,
                                      cop_incarnation incarnation, uint64_t sequence,
                                      uint64_t mark)
{
    struct cop__origin *origin =
        hear_mark(node, initiator, incarnation, sequence, mark,
                  cop__sweep_find(node, initiator, incarnation, sequence) != NULL);
    if (!origin)
        return NULL;
    struct cop__sweep *sweep = cop__sweep_find(node, initiator, incarnation, sequence);
    if (!sweep && cop__origin_is_over(origin, sequence))
        COP__COUNT(node, ignored_sweep_over);
    else if (!sweep)
        COP__COUNT(node, ignored_sweep_unknown);
    return sweep;
}

/* S3, S5: over here, or never here. Nothing is started by being asked about. */
void cop__sweep_say_done(struct cop_node *node, cop_id to, cop_id initiator,
                         cop_incarnation incarnation, uint64_t sequence)
{
    struct cop__msg_done done = {
        .initiator = initiator,
        .incarnation = incarnation,
        .sequence = sequence,
        .mark = cop__origin_mark(node, initiator, incarnation),
    };
    /* Of a former life everything is over. */
    if (cop__sweep_life_is_over(node, initiator, incarnation))
        done.mark = sequence;
    cop__roster_send(node, to, COP__KIND_DONE, cop__encode_done(&done));
}

/* Who answered a complete sweep without waiting for an earlier outcome has that
 * outcome. */
void cop__sweep_release_below(struct cop_node *node, const struct cop__sweep *sweep)
{
    for (struct cop__sweep *other = cop__sweeps(node)->first; other;
         other = other->next)
        if (cop__sweep_is_mine(node, other) && other->has_outcome && !other->over &&
            other->sequence < sweep->sequence && other->sequence < sweep->floor)
            cop__sweep_end(node, other);
}

/* ---- beginning ------------------------------------------------------------------- */

static void on_deadline(struct cop_node *node, struct cop__node_timer *timer)
{
    struct cop__sweep *sweep = (struct cop__sweep *)(void *)timer;
    cop__sweeps_enter(node);
    if (!sweep->answered || sweep->refining)
        cop__sweep_answer_now(node, sweep);
    if (!sweep->over)
        cop__sweep_give_up(node, sweep, COP_ETIMEDOUT);
    cop__sweeps_leave(node);
}

/* The tree, with what it borrows copied. */
static int take_leaves(struct cop__sweep *sweep, const struct cop_tree *tree)
{
    sweep->tree = *tree;
    sweep->tree.dead = NULL;
    sweep->tree.leaves = NULL;
    for (uint32_t i = 0; i < tree->leaf_count; i++)
        if (cop_ranks_push(&sweep->leaves, tree->leaves[i]))
            return COP_ENOMEM;
    if (tree->leaf_count == 0)
        return 0;
    sweep->outside = (struct cop_dead){NULL, sweep->leaves.items, sweep->leaves.count};
    sweep->tree.dead = &sweep->outside;
    sweep->tree.leaves = sweep->leaves.items;
    return 0;
}

/* What is asked: `owner` holds it, or (NULL) it is copied. */
static int take_request(struct cop__sweep *sweep, struct cop__bytes payload,
                        struct cop_buf *owner)
{
    if (payload.length == 0)
        return 0;
    sweep->asked = payload;
    sweep->request =
        owner ? cop_buf_ref(owner) : cop_buf_copy(payload.data, payload.length);
    if (!sweep->request)
        return COP_ENOMEM;
    if (!owner)
        sweep->asked.data = sweep->request->data;
    return 0;
}

static struct cop__sweep *create(struct cop_node *node, const struct cop_tree *tree,
                                 struct cop_view *world, struct cop__roll *roll,
                                 cop_time left_ns, struct cop__bytes payload,
                                 struct cop_buf *owner)
{
    struct cop__sweep *sweep = take_sweep(cop__sweeps(node));
    if (!sweep)
        return NULL;
    if (take_request(sweep, payload, owner)) {
        free_memory(sweep);
        return NULL;
    }
    if (take_leaves(sweep, tree)) {
        cop_buf_unref(sweep->request);
        cop_ranks_free(&sweep->leaves);
        free_memory(sweep);
        return NULL;
    }
    sweep->world = world ? cop_view_ref(world) : NULL;
    sweep->roll = cop__roll_ref(roll);
    sweep->self = cop__sweep_rank(sweep, node->self);
    sweep->parent = COP_RANK_NONE;
    sweep->floor = UINT64_MAX;
    sweep->started = node->now;
    sweep->deadline = node->now + left_ns;
    sweep->timer.fire = on_deadline;
    cop__timer_init(&sweep->timer.timer);
    return sweep;
}

/*
 * Puts a new sweep at the end of the list and sets it in motion: first to the
 * children, for they need the time, then to the protocol here.
 */
static void begin(struct cop_node *node, struct cop__sweep *sweep)
{
    struct cop__sweeps *sweeps = cop__sweeps(node);
    struct cop__sweep **at = &sweeps->first;
    while (*at)
        at = &(*at)->next;
    *at = sweep;
    sweeps->count++;
    cop__timer_set(node, &sweep->timer, sweep->deadline);
    if (!cop__sweep_protocol(node, sweep)->gated)
        cop__sweep_ask_all(node, sweep);
    if (!node->failed)
        cop__sweep_protocol(node, sweep)->on_ask(node, sweep);
    cop__sweep_answer_if_complete(node, sweep);
    cop__sweep_mind_parent(node, sweep);
    cop__sweep_leave_suspect(node, sweep);
}

/* A share of the time for the way back: a child gives up before its parent does. */
static cop_time hop_time(const struct cop_tree *tree, cop_time timeout_ns)
{
    return timeout_ns / 2 / (cop_tree_depth(tree, tree->root) + 1);
}

/* Everyone who is drained, but for me: here I am the root. Into the scratch list. */
static int choose_leaves(struct cop_node *node, const struct cop_view *view,
                         struct cop_tree *tree, struct cop_dead *outside)
{
    struct cop_ranks *leaves = &cop__sweeps(node)->scratch;
    uint32_t count;
    const cop_id *drained = cop__view_drained(view, &count);
    leaves->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (drained[i] != node->rank && cop_ranks_push(leaves, drained[i]))
            return COP_ENOMEM;
    if (leaves->count == 0)
        return 0;
    *outside = (struct cop_dead){NULL, leaves->items, leaves->count};
    tree->dead = outside;
    tree->leaves = leaves->items;
    tree->leaf_count = leaves->count;
    return 0;
}

bool cop__sweep_has_room(const struct cop_node *node)
{
    return cop__sweeps(node)->sequence -
               cop__origin_mark(node, node->self, node->incarnation) <
           COP__SWEEP_WINDOW;
}

int cop__sweep_start(struct cop_node *node, const struct cop__sweep_options *options)
{
    struct cop__sweeps *sweeps = cop__sweeps(node);
    const struct cop_view *view = options->world ? options->world : node->view;
    struct cop_tree tree = {.n = cop_view_slots(view), .root = node->rank};
    if (options->roll) {
        tree.n = options->roll->count;
        tree.root = cop__roll_rank(options->roll, node->self);
    }
    tree.shape = options->shape.kind ? options->shape : *cop_view_shape(node->view);
    /* Only the view's own tables are known to the others. */
    if (cop_tree_check(&tree) ||
        (tree.shape.table && tree.shape.table != cop_view_shape(node->view)->table) ||
        (tree.shape.table && options->roll) || options->timeout_ns == 0 ||
        options->timeout_ns > COP__SWEEP_TIMEOUT_MAX)
        return COP_EINVAL;
    struct cop__origin *origin = cop__origin_get(node, node->self, node->incarnation);
    if (!origin)
        return COP_ENOMEM;
    if (sweeps->sequence - origin->mark >= COP__SWEEP_WINDOW)
        return COP_EAGAIN;
    struct cop_dead outside;
    struct cop__sweep *sweep = NULL;
    /* A list of its own has an order of its own, without leaves. */
    if (options->roll || choose_leaves(node, view, &tree, &outside) == 0)
        sweep = create(node, &tree, options->world, options->roll, options->timeout_ns,
                       options->payload, NULL);
    if (!sweep) {
        cop__fail(node, COP_ENOMEM);
        return COP_ENOMEM;
    }
    if (!options->world && !options->roll)
        sweep->about = cop_view_ref(node->view);
    sweep->initiator = node->self;
    sweep->incarnation = node->incarnation;
    sweep->sequence = ++sweeps->sequence;
    sweep->epoch = cop_view_epoch(node->view);
    sweep->protocol = options->protocol;
    sweep->wants_outcome = options->outcome;
    sweep->token = options->token;
    sweep->hop_ns = hop_time(&sweep->tree, options->timeout_ns);
    COP__COUNT(node, sweeps_started);
    cop__sweeps_enter(node);
    begin(node, sweep);
    cop__sweeps_leave(node);
    return 0;
}

/* ---- being asked ----------------------------------------------------------------- */

/* The tree that an ASK names; whether it is one can be checked. */
static struct cop_tree asked_tree(const struct cop_node *node,
                                  const struct cop__msg_ask *message,
                                  const struct cop__roll *roll)
{
    const struct cop_shape *own = cop_view_shape(node->view);
    struct cop_tree tree = {
        .shape = {.kind = (enum cop_shape_kind)message->shape,
                  .k = message->arity,
                  .inner = (enum cop_shape_kind)message->inner},
        .n = cop__has_views(node) ? message->members : cop_view_slots(node->view),
        .root = message->initiator,
    };
    if (roll) {
        tree.n = roll->count;
        tree.root = cop__roll_rank(roll, message->initiator);
    } else if (own->table && own->kind == tree.shape.kind) {
        tree.shape.table = own->table;
    }
    return tree;
}

/* Where somebody stands in the tree of a question. */
static cop_rank asked_rank(const struct cop_tree *tree, const struct cop__roll *roll,
                           cop_id id)
{
    if (roll)
        return cop__roll_rank(roll, id);
    return id < tree->n ? id : COP_RANK_NONE;
}

static bool brings_world(const struct cop_node *node,
                         const struct cop__msg_ask *message)
{
    return node->stack->protocols[message->protocol]->world != NULL;
}

/* True if it is not a question that I can be asked, or not by one above me. */
static bool ignore_ask(struct cop_node *node, const struct cop__msg_ask *message,
                       cop_rank sender, cop_rank self, const struct cop_tree *tree)
{
    if (message->members != tree->n || tree->n > COP_MEMBERS_MAX ||
        tree->root >= tree->n || self >= tree->n || cop_tree_check(tree) ||
        cop__sweep_is_too_large(node, tree, brings_world(node, message)) ||
        message->left_ns > COP__SWEEP_TIMEOUT_MAX ||
        message->hop_ns > COP__SWEEP_TIMEOUT_MAX) {
        COP__COUNT(node, ignored_malformed);
        return true;
    }
    if (sender == self || sender >= tree->n || !cop_tree_is_below(tree, self, sender)) {
        COP__COUNT(node, ignored_not_ancestor);
        return true;
    }
    return false;
}

/* The world that a question brings along, as its protocol reads it; the caller's
 * reference. False if it is not one in which I take part. */
static bool find_world(struct cop_node *node, const struct cop__msg_ask *message,
                       struct cop_view **out)
{
    const struct cop__protocol *protocol = node->stack->protocols[message->protocol];
    *out = NULL;
    if (!protocol->world)
        return true;
    *out = protocol->world(node, message->initiator, message->incarnation,
                           message->payload);
    if (*out && cop_view_slots(*out) == message->members)
        return true;
    COP__COUNT(node, ignored_malformed);
    cop_view_unref(*out);
    return false;
}

static void join(struct cop_node *node, const struct cop_frame *frame,
                 const struct cop__msg_ask *message, const struct cop_tree *tree,
                 struct cop__roll *roll, cop_rank parent)
{
    /* The mark of this frame has just ended the one before: its memory serves again. */
    cop__sweeps_reap(node, 1);
    struct cop_view *world;
    if (!find_world(node, message, &world))
        return;
    struct cop__sweep *sweep = create(node, tree, world, roll, message->left_ns,
                                      message->payload, frame->payload);
    cop_view_unref(world);
    if (!sweep) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    sweep->initiator = message->initiator;
    sweep->incarnation = message->incarnation;
    sweep->sequence = message->sequence;
    sweep->epoch = message->epoch;
    sweep->protocol = message->protocol;
    sweep->wants_outcome = (message->flags & ASK_OUTCOME) != 0;
    sweep->hop_ns = message->hop_ns;
    sweep->parent = parent;
    COP__COUNT(node, sweeps_joined);
    begin(node, sweep);
}

/* S2: asked again, by somebody who lost what was between us: the same answer. */
static void ask_again(struct cop_node *node, struct cop__sweep *sweep, cop_rank from)
{
    cop__rankset_drop(&sweep->strangers, from);
    cop__sweep_set_parent(node, sweep, from);
    if (sweep->answered && !sweep->refining)
        cop__sweep_answer_to(node, sweep, from);
    cop__sweep_leave_suspect(node, sweep);
}

/* Whom the question is about: as the sweep says if I am in it, else as the protocol reads it;
 * the caller's reference. */
static int find_roll(struct cop_node *node, const struct cop_frame *frame,
                     const struct cop__msg_ask *message, struct cop__roll **out)
{
    const struct cop__protocol *protocol = node->stack->protocols[message->protocol];
    const struct cop__sweep *sweep = cop__sweep_find(
        node, message->initiator, message->incarnation, message->sequence);
    *out = NULL;
    if (!protocol->roll)
        return 0;
    if (sweep) {
        *out = cop__roll_ref(sweep->roll);
        return 0;
    }
    return protocol->roll(node, frame, message->payload, out);
}

/*
 * A life that neither my view nor an earlier sweep has shown is believed if the base of what it
 * proposes has it. Otherwise anybody could end the sweeps of somebody else by a later life that
 * there never was.
 */
static bool is_real(struct cop_node *node, const struct cop__msg_ask *message)
{
    struct cop_view *world = NULL;
    if (!brings_world(node, message) ||
        cop__sweep_may_begin(node, message->initiator, message->incarnation, false) ||
        cop__origin_has(node, message->initiator, message->incarnation))
        return true;
    bool is_in_base = find_world(node, message, &world);
    cop_view_unref(world);
    return is_in_base;
}

static void take_question(struct cop_node *node, const struct cop_frame *frame,
                          const struct cop__msg_ask *message,
                          const struct cop_dead *outside, struct cop__roll *roll,
                          int refused, bool is_heard)
{
    cop_id asker = frame->header.sender;
    struct cop_tree tree = asked_tree(node, message, roll);
    if (outside->extra_count > 0 && !roll) {
        tree.dead = outside;
        tree.leaves = outside->extra;
        tree.leaf_count = outside->extra_count;
    }
    cop_rank sender = asked_rank(&tree, roll, asker);
    if (!refused &&
        ignore_ask(node, message, sender, asked_rank(&tree, roll, node->self), &tree))
        return;
    if (!is_real(node, message))
        return;
    struct cop__origin *origin =
        is_heard
            ? cop__origin_get(node, message->initiator, message->incarnation)
            : hear_mark(node, message->initiator, message->incarnation,
                        message->sequence, message->mark, brings_world(node, message));
    if (!origin)
        return;
    struct cop__sweep *sweep = cop__sweep_find(node, message->initiator,
                                               message->incarnation, message->sequence);
    if (sweep) {
        ask_again(node, sweep, sender);
    } else if (cop__origin_is_over(origin, message->sequence) ||
               message->left_ns == 0) {
        COP__COUNT(node, ignored_sweep_over);
        cop__sweep_say_done(node, asker, message->initiator, message->incarnation,
                            message->sequence);
    } else if (refused) {
        cop__sweep_say_refused(node, asker, message, refused);
    } else {
        join(node, frame, message, &tree, roll, sender);
    }
}

static bool are_leaves(const struct cop__msg_ask *message,
                       const struct cop_ranks *leaves)
{
    for (uint32_t i = 0; i < leaves->count; i++)
        if (leaves->items[i] >= message->members ||
            leaves->items[i] == message->initiator ||
            (i > 0 && leaves->items[i] <= leaves->items[i - 1]))
            return false;
    return leaves->count > 0;
}

int cop__sweep_split(struct cop__msg_ask *message, struct cop_ranks *leaves)
{
    if (!(message->flags & ASK_LEAVES))
        return 0;
    struct cop__reader reader =
        cop__reader(message->payload.data, message->payload.length);
    struct cop__list list = cop__get_list(&reader, 4);
    struct cop__reader each = cop__reader(list.data, (size_t)list.count * 4);
    if (reader.failed)
        return COP_EMALFORMED;
    message->payload.data += 4 + 4 * list.count;
    message->payload.length -= 4 + 4 * list.count;
    if (!leaves)
        return 0;
    for (uint32_t i = 0; i < list.count; i++)
        if (cop_ranks_push(leaves, cop__get_u32(&each)))
            return COP_ENOMEM;
    return are_leaves(message, leaves) ? 0 : COP_EMALFORMED;
}

/* Whoever has to find out whom a question is about does not do so for one that is over. */
static bool is_over(struct cop_node *node, const struct cop_frame *frame,
                    const struct cop__msg_ask *message)
{
    const struct cop__origin *origin =
        hear_mark(node, message->initiator, message->incarnation, message->sequence,
                  message->mark, brings_world(node, message));
    if (!origin)
        return true;
    if (!cop__origin_is_over(origin, message->sequence) && message->left_ns > 0)
        return false;
    if (cop__sweep_find(node, message->initiator, message->incarnation,
                        message->sequence))
        return false;
    COP__COUNT(node, ignored_sweep_over);
    cop__sweep_say_done(node, frame->header.sender, message->initiator,
                        message->incarnation, message->sequence);
    return true;
}

static void take_ask(struct cop_node *node, const struct cop_frame *frame,
                     const struct cop__msg_ask *message, const struct cop_dead *outside)
{
    struct cop__roll *roll = NULL;
    if (message->protocol >= node->stack->protocol_count) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    bool has_roll = node->stack->protocols[message->protocol]->roll != NULL;
    if (has_roll && is_over(node, frame, message))
        return;
    int status = find_roll(node, frame, message, &roll);
    if (status == COP_EMALFORMED)
        COP__COUNT(node, ignored_malformed);
    else if (status == COP_ENOMEM)
        cop__fail(node, COP_ENOMEM);
    else if (status != COP_EAGAIN)
        take_question(node, frame, message, outside, roll, status, has_roll);
    cop__roll_unref(roll);
}

/* S1, S2, S5, S7. */
void cop__on_ask(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_ask message;
    if (cop__decode_ask(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop_ranks leaves = {0};
    int error = cop__sweep_split(&message, &leaves);
    struct cop_dead outside = {NULL, leaves.items, leaves.count};
    cop__sweeps_enter(node);
    if (error == COP_ENOMEM)
        cop__fail(node, error);
    else if (error)
        COP__COUNT(node, ignored_malformed);
    else
        take_ask(node, frame, &message, &outside);
    cop__sweeps_leave(node);
    cop_ranks_free(&leaves);
}

/* ---- losses and returns ---------------------------------------------------------- */

/*
 * Somebody below me is lost. An answer of it that I hold stays; but if an outcome is
 * to come, those below it have to get it from me.
 */
static void lose_below(struct cop_node *node, struct cop__sweep *sweep,
                       struct cop__child *child)
{
    bool waits = child->state == CHILD_OWED;
    bool owes_outcome = child->state == CHILD_ANSWERED && sweep->wants_outcome;
    if ((waits || owes_outcome) && !sweep->has_outcome)
        cop__sweep_lose_child(node, sweep, child);
}

static void lose(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank)
{
    struct cop__child *child = cop__sweep_child(sweep, rank);
    sweep->tangled = true;
    if (child)
        lose_below(node, sweep, child);
    if (rank == sweep->parent)
        cop__sweep_turn(node, sweep);
}

/* Passed around by mistake, or returned: it has to answer, or to hear how it ended. */
static void regain_child(struct cop_node *node, struct cop__sweep *sweep,
                         struct cop__child *child)
{
    if (sweep->has_outcome)
        cop__sweep_send_outcome(node, sweep, child->rank);
    else if (cop__sweep_holds(sweep, child->rank))
        cop__sweep_settle_child(node, sweep, child, CHILD_ANSWERED);
    else
        cop__sweep_ask_one(node, sweep, child->rank);
}

/*
 * Somebody lives after all, or again: if nothing of it is held it is asked (once
 * more); if it had asked me it has not got my answer; and if nobody is left above me
 * it may be the one.
 */
static void regain(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank)
{
    if (sweep->answered && !sweep->refining &&
        (rank == sweep->parent || cop__rankset_has(&sweep->askers, rank)))
        cop__sweep_answer_to(node, sweep, rank);
    struct cop__child *child = cop__sweep_child(sweep, rank);
    if (child && child->state == CHILD_LOST)
        regain_child(node, sweep, child);
    if (sweep->parent == COP_RANK_NONE && !cop__sweep_is_mine(node, sweep))
        cop__sweep_turn(node, sweep);
}

/* S4: the protocol is told once, and decides; a new life ends all sweeps of the old one.
 * True if nothing is left to do. */
static bool lose_initiator(struct cop_node *node, struct cop__sweep *sweep,
                           const struct cop__change *change)
{
    bool replaced = change->kind == COP__CHANGE_REPLACED;
    /* The sweep may be of the new life: its frames can overtake the news. */
    if (replaced && sweep->incarnation >= cop__roster_get(node, change->id).incarnation)
        return true;
    const struct cop__protocol *protocol = cop__sweep_protocol(node, sweep);
    if ((replaced || change->kind == COP__CHANGE_SUSPECT) && !sweep->told) {
        sweep->told = true;
        if (protocol->on_initiator_lost)
            protocol->on_initiator_lost(node, sweep);
    }
    if (replaced && !sweep->over)
        cop__sweep_give_up(node, sweep, COP_ELOST);
    return sweep->over;
}

/* S2, S3, S4, S6: the same whether I lost the connection or was told. */
static void change_one(struct cop_node *node, struct cop__sweep *sweep,
                       const struct cop__change *change)
{
    bool replaced = change->kind == COP__CHANGE_REPLACED;
    if (change->id == sweep->initiator && lose_initiator(node, sweep, change))
        return;
    cop_rank rank = cop__sweep_rank(sweep, change->id);
    if (rank == COP_RANK_NONE)
        return;
    /* A new life of somebody above me knows nothing of this sweep. */
    if (replaced && !sweep->world &&
        cop_tree_is_below(&sweep->tree, sweep->self, rank) &&
        cop__rankset_put(&sweep->strangers, rank))
        cop__fail(node, COP_ENOMEM);
    /* That a new life is known is no loss where the new one takes part. */
    bool lost = cop__sweep_is_lost(node, sweep, rank);
    if (change->kind == COP__CHANGE_SUSPECT || (replaced && (lost || !sweep->world)))
        lose(node, sweep, rank);
    if ((replaced || change->kind == COP__CHANGE_ALIVE) &&
        !cop__sweep_is_lost(node, sweep, rank))
        regain(node, sweep, rank);
    cop__sweep_answer_if_complete(node, sweep);
}

static void on_change(struct cop_node *node, const struct cop__change *change)
{
    if (change->kind == COP__CHANGE_RESTATED || change->id == node->self)
        return;
    cop__sweeps_enter(node);
    for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
         sweep = sweep->next)
        if (!sweep->over && !node->failed)
            change_one(node, sweep, change);
    cop__sweeps_leave(node);
}

/* Somebody of this sweep is not in the new view, or not in the life that it had. */
static void lose_by_view(struct cop_node *node, struct cop__sweep *sweep, cop_id id)
{
    if (id == sweep->initiator && id != node->self &&
        cop__sweep_life_is_over(node, id, sweep->incarnation)) {
        const struct cop__protocol *protocol = cop__sweep_protocol(node, sweep);
        if (!sweep->told && protocol->on_initiator_lost)
            protocol->on_initiator_lost(node, sweep);
        sweep->told = true;
        if (!sweep->over)
            cop__sweep_give_up(node, sweep, COP_ELOST);
        return;
    }
    cop_rank rank = cop__sweep_rank(sweep, id);
    if (rank != COP_RANK_NONE && cop__sweep_is_lost(node, sweep, rank))
        lose(node, sweep, rank);
    cop__sweep_answer_if_complete(node, sweep);
}

/* Whoever is lost by now, for whatever reason, is not waited for. */
static void lose_all_lost(struct cop_node *node, struct cop__sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->child_count && !node->failed; i++)
        if (sweep->children[i].state == CHILD_OWED &&
            cop__sweep_is_lost(node, sweep, sweep->children[i].rank))
            lose(node, sweep, sweep->children[i].rank);
    if (!sweep->over)
        cop__sweep_leave_suspect(node, sweep);
    cop__sweep_answer_if_complete(node, sweep);
}

static void on_view(struct cop_node *node, const struct cop_view *old)
{
    uint64_t at = 0;
    struct cop_view_change change;
    cop__sweeps_enter(node);
    while (cop_view_compare(old, node->view, &at, &change)) {
        if (change.kind != COP_VIEW_LEFT && change.kind != COP_VIEW_RETURNED)
            continue;
        for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
             sweep = sweep->next)
            if (!sweep->over && !node->failed)
                lose_by_view(node, sweep, change.id);
    }
    for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
         sweep = sweep->next)
        if (!sweep->over && !node->failed)
            lose_all_lost(node, sweep);
    cop__sweeps_leave(node);
}

void cop__sweep_settle(struct cop_node *node, struct cop__sweep *sweep)
{
    cop__sweeps_enter(node);
    cop__sweep_answer_if_complete(node, sweep);
    cop__sweeps_leave(node);
}

/* D14: what I asked it straight has not come there. */
static void on_detour(struct cop_node *node, cop_id peer)
{
    for (struct cop__sweep *sweep = cop__sweeps(node)->first; sweep;
         sweep = sweep->next)
        if (!sweep->over && cop__sweep_rank(sweep, peer) != COP_RANK_NONE)
            cop__sweep_ask_again(node, sweep, cop__sweep_rank(sweep, peer));
}

/* ---- the layer ------------------------------------------------------------------- */

static void fini(struct cop_node *node)
{
    struct cop__sweeps *sweeps = cop__sweeps(node);
    while (sweeps->first) {
        struct cop__sweep *sweep = sweeps->first;
        sweeps->first = sweep->next;
        free_sweep(sweeps, sweep);
    }
    if (sweeps->spare)
        free_memory(sweeps->spare);
    cop_ranks_free(&sweeps->scratch);
    for (uint32_t i = 0; i < sweeps->origin_count; i++)
        free(sweeps->origins[i].beyond);
    free(sweeps->origins);
}

const struct cop__layer cop__sweep_layer = {
    .name = "sweep",
    .size = sizeof(struct cop__sweeps),
    .fini = fini,
    .on_change = on_change,
    .on_detour = on_detour,
    .on_view = on_view,
    .digest = cop__sweeps_digest,
    .check = cop__sweeps_check,
    .bytes = cop__sweeps_bytes,
};

/* ---- looking --------------------------------------------------------------------- */

uint64_t cop__sweep_token(const struct cop__sweep *sweep) { return sweep->token; }

cop_time cop__sweep_started(const struct cop__sweep *sweep) { return sweep->started; }

bool cop__sweep_wants_outcome(const struct cop__sweep *sweep)
{
    return sweep->wants_outcome;
}

const struct cop_tree *cop__sweep_tree(const struct cop__sweep *sweep)
{
    return &sweep->tree;
}

bool cop__sweep_is_rooted_here(const struct cop_node *node,
                               const struct cop__sweep *sweep)
{
    return cop__sweep_is_mine(node, sweep);
}

cop_id cop__sweep_initiator(const struct cop__sweep *sweep, cop_incarnation *out)
{
    *out = sweep->incarnation;
    return sweep->initiator;
}

cop_rank cop__sweep_self(const struct cop__sweep *sweep) { return sweep->self; }

uint64_t cop__sweep_sequence(const struct cop__sweep *sweep) { return sweep->sequence; }

cop_id cop__sweep_asker(const struct cop__sweep *sweep)
{
    return sweep->parent == COP_RANK_NONE ? COP_ID_NONE
                                          : cop__sweep_id(sweep, sweep->parent);
}

cop_id cop__sweep_asker_at(const struct cop__sweep *sweep, uint32_t i)
{
    return i < sweep->askers.count ? cop__sweep_id(sweep, sweep->askers.items[i])
                                   : COP_ID_NONE;
}

cop_rank cop__sweep_place_of(const struct cop__sweep *sweep, cop_id id)
{
    return cop__sweep_rank(sweep, id);
}

void cop__sweep_set_user(struct cop__sweep *sweep, void *user) { sweep->user = user; }

void *cop__sweep_user(const struct cop__sweep *sweep) { return sweep->user; }

struct cop__bytes cop__sweep_request(const struct cop__sweep *sweep)
{
    return sweep->asked;
}

struct cop_buf *cop__sweep_request_buf(const struct cop__sweep *sweep)
{
    return sweep->request;
}

int cop__sweep_result(struct cop_node *node, const struct cop__sweep *sweep,
                      struct cop__sweep_result *out)
{
    struct cop__sweep_result result = {0};
    struct cop__cover held = {0};
    int error = cop__sweep_held(sweep, &held);
    if (error)
        return error;
    result.answered = cop__cover_size(&sweep->tree, &held);
    if (sweep->part_count > 0) {
        result.payload = cop__sweep_fold(node, sweep);
        error = result.payload ? 0 : COP_ENOMEM;
    }
    cop__cover_fini(&held);
    if (!error && result.answered < sweep->tree.n)
        error = cop__sweep_missing(sweep, &result.missing);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < result.missing.count; i++)
        if (cop__sweep_concerns(node, sweep, result.missing.items[i]))
            result.missing.items[kept++] = result.missing.items[i];
    result.missing.count = kept;
    if (error) {
        cop_buf_unref(result.payload);
        return error;
    }
    *out = result;
    return 0;
}

uint32_t cop_node_sweeps(const struct cop_node *node)
{
    return cop__sweeps(node)->count;
}
