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

struct cop__origin *cop__sweep_hear_mark(struct cop_node *node, cop_id initiator,
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
    struct cop__origin *origin = cop__sweep_hear_mark(
        node, initiator, incarnation, sequence, mark,
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

struct cop__sweep *cop__sweep_create(struct cop_node *node, const struct cop_tree *tree,
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

void cop__sweep_begin(struct cop_node *node, struct cop__sweep *sweep)
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
        sweep = cop__sweep_create(node, &tree, options->world, options->roll,
                                  options->timeout_ns, options->payload, NULL);
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
    cop__sweep_begin(node, sweep);
    cop__sweeps_leave(node);
    return 0;
}

void cop__sweep_settle(struct cop_node *node, struct cop__sweep *sweep)
{
    cop__sweeps_enter(node);
    cop__sweep_answer_if_complete(node, sweep);
    cop__sweeps_leave(node);
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
    .on_change = cop__sweeps_on_change,
    .on_detour = cop__sweeps_on_detour,
    .on_view = cop__sweeps_on_view,
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
