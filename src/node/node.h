/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NODE_NODE_H
#define COP_NODE_NODE_H

#include "base/assert.h"
#include "base/digest.h"
#include "base/timers.h"
#include "wire/messages.h"

#include <coppice/node.h>
#include <coppice/stats.h>

/*
 * The kernel of a node: dispatch, timers, effects. It knows that there are layers, and
 * nothing about them. A layer is a constant table of functions and a piece of state
 * inside the node's one block of memory; layers call down by function, and are told
 * through the table. The stack (stack/) lists the layers, and who handles which
 * message.
 */

/* Layers, lowest first: they are told in this order. */
enum cop__slot {
    COP__SLOT_ROSTER,
    COP__SLOT_DETECT,
    COP__SLOT_SWEEP,
    COP__SLOT_MEMBER,
    COP__SLOT_LETTER,
    COP__SLOT_AGREE,
    COP__SLOT_STREAM,
    COP__SLOT_PROBE,
    COP__SLOT_COLL,
    COP__SLOTS
};

/* What became of a member, as the roster now sees it. */
enum cop__change_kind {
    COP__CHANGE_SUSPECT,  /* was alive, is suspect */
    COP__CHANGE_ALIVE,    /* was suspect, is alive, in the same life */
    COP__CHANGE_REPLACED, /* a new life; the old one, whatever it was, is over */
    COP__CHANGE_RESTATED, /* a newer word of the same: to be passed on, no more */
};
struct cop__change {
    enum cop__change_kind kind;
    cop_id id;
    cop_rank rank;
};

struct cop__layer {
    const char *name;
    size_t size;    /* of its state, zeroed at the start */
    bool for_views; /* not there at all, state included, where the view is fixed */
    /* Any of these may be NULL. */
    void (*start)(struct cop_node *node);
    void (*fini)(struct cop_node *node);
    void (*on_peer_up)(struct cop_node *node, cop_id peer, cop_incarnation incarnation);
    void (*on_peer_down)(struct cop_node *node, cop_id peer,
                         cop_incarnation incarnation, enum cop_down why);
    void (*on_change)(struct cop_node *node, const struct cop__change *change);
    /* There is a way to this peer again, though not the straight one. */
    void (*on_detour)(struct cop_node *node, cop_id peer);
    /* Another view is installed; the node has the new one already. */
    void (*on_view)(struct cop_node *node, const struct cop_view *old);
    /* At the end of a step in which it has noticed something (cop__notice), or that comes when
     * it wanted to be told: acts upon that. Where the view is fixed only those that say so. */
    void (*settle)(struct cop_node *node);
    bool settles_always;
    /* COP_ENOENT: not a request of mine. */
    int (*on_submit)(struct cop_node *node, const struct cop_request *request);
    void (*digest)(const struct cop_node *node, struct cop__digest *digest);
    const char *(*check)(const struct cop_node *node);
    size_t (*bytes)(const struct cop_node *node);
};

typedef void cop__handler(struct cop_node *node, const struct cop_frame *frame);
struct cop__protocol; /* of sweep/ */

struct cop__stack {
    const struct cop__layer *layers[COP__SLOTS];
    cop__handler *handlers[COP__KINDS]; /* NULL: nobody's */
    /* Judges the sender of a frame before any handler; false to drop it (and count
     * why). */
    bool (*admit)(struct cop_node *node, const struct cop_frame *frame);
    const struct cop__protocol *const *protocols;
    uint32_t protocol_count;
};

/* A timer of a layer; embed it, and set `fire` before starting it. */
struct cop__node_timer {
    struct cop__timer timer; /* first: the queue hands this back */
    void (*fire)(struct cop_node *node, struct cop__node_timer *timer);
};

struct cop__watch {
    cop_id peer;
    uint32_t count;
};

/* A peer that I reach through another one only. */
struct cop__detour {
    cop_id peer, via;
};

/* What a node whose view can change was told at its start. */
struct cop__settings {
    struct cop_ranks quorum_ids; /* HAS: sorted */
    struct cop_buf *card;        /* my name and address, if I join */
    bool spare;
    uint32_t guard;
    struct cop_detect detect;
    const struct cop_operation *operations; /* borrowed */
    uint32_t operation_count;
    const struct cop_filter *const *filters; /* borrowed */
    uint32_t filter_count;
    struct cop_view_pool *views; /* borrowed; NULL: none */
};

struct cop_node {
    const struct cop__stack *stack;
    cop_id self;
    cop_rank rank; /* my place in the tree: the same number as my id */
    cop_incarnation incarnation;
    enum cop_quorum quorum;
    struct cop__settings *settings; /* NULL if the view is fixed */
    struct cop_view *view;
    struct cop_stats *stats;
    cop_time now;
    struct cop_effects *effects; /* of the step under way */
    struct cop__timers timers;
    struct cop__watch *watches; /* sorted by peer */
    uint32_t watch_count, watch_capacity;
    struct cop__detour *detours;
    uint32_t detour_count, detour_capacity;
    int failed; /* 0, or why the node stopped for good */
    bool started;
    bool congested;
    bool again;       /* the frame under way was kept: its sender does not speak now */
    uint16_t noticed; /* bit i: the layer in slot i has something to settle */
    cop_time settle_at;           /* from then on the detector has, too */
    uint16_t offsets[COP__SLOTS]; /* of the layers' states, from the node's start */
};

int cop__node_create(const struct cop_config *config, const struct cop__stack *stack,
                     struct cop_node **out);
void *cop__layer_state(const struct cop_node *node, enum cop__slot slot);

#define COP__COUNT(node, field)                                                        \
    do {                                                                               \
        if ((node)->stats)                                                             \
            (node)->stats->field++;                                                    \
    } while (0)

/* The node is out of memory in the middle of something: it stops for good after this
 * step. */
COP__COLD void cop__fail(struct cop_node *node, int error);

/*
 * The layer has something to settle at the end of this step; of a lower layer than the one
 * that settles, at the end of the next. Most steps concern nobody but the one who handles the
 * frame: whoever has noticed nothing is not even asked.
 */
static inline void cop__notice(struct cop_node *node, enum cop__slot slot)
{
    node->noticed |= (uint16_t)(1u << slot);
}

/* Takes a frame that was kept for later, as if it came now. */
void cop__take_frame(struct cop_node *node, const struct cop_frame *frame);
/* One that was kept for longer than its sender may be silent. */
void cop__take_again(struct cop_node *node, const struct cop_frame *frame);

/* Whether views change at all: else deaths stay suspicions for ever. */
static inline bool cop__has_views(const struct cop_node *node)
{
    return node->quorum != COP_QUORUM_FIXED;
}

/*
 * Puts another view in place, and tells every layer; takes over the reference. If it is
 * `installed` the application hears of it first, before anything that is said in it.
 */
void cop__set_view(struct cop_node *node, struct cop_view *view, bool installed);

/* Tells every layer, lowest first. */
void cop__tell_change(struct cop_node *node, const struct cop__change *change);
void cop__tell_detour(struct cop_node *node, cop_id peer);

/* A frame as if it came from `peer`: judged (N1), and handled. */
void cop__judge_frame(struct cop_node *node, cop_id peer,
                      const struct cop_frame *frame);

void cop__timer_set(struct cop_node *node, struct cop__node_timer *timer,
                    cop_time deadline);
void cop__timer_cancel(struct cop_node *node, struct cop__node_timer *timer);

/* ---- effects --------------------------------------------------------------------- */

/* Takes over the caller's reference to `payload`; a NULL payload is an allocation that
 * failed, so that emit_send(node, ..., cop__encode_x(...)) needs no check. */
void cop__emit_send(struct cop_node *node, cop_id peer, cop_incarnation incarnation,
                    enum cop__kind kind, struct cop_buf *payload);
/* Takes over the reference to `result`, which may be NULL. */
void cop__emit_complete(struct cop_node *node, uint64_t token, int status,
                        struct cop_buf *result);
/* Takes over the reference to `bytes`. */
void cop__emit_deliver(struct cop_node *node, cop_id from, cop_incarnation incarnation,
                       uint8_t channel, struct cop_buf *bytes);
/* Something for a service; takes over the reference to `record`. */
void cop__emit_service(struct cop_node *node, uint64_t handle, int status,
                       struct cop_buf *record);
/* Something of a stream for the application; takes over the reference to `event`. */
void cop__emit_stream(struct cop_node *node, uint64_t stream, struct cop_buf *event);
/* The same with bytes beside it: takes over the reference to `bytes`, too. */
void cop__emit_piece(struct cop_node *node, uint64_t handle, struct cop_buf *record,
                     struct cop_buf *bytes);
/* The view that is installed now. */
void cop__emit_view(struct cop_node *node);
/* DEGRADED or OUT. */
void cop__emit_state(struct cop_node *node, enum cop_effect_kind kind, int status);
void cop__emit_connect(struct cop_node *node, cop_id peer);
void cop__emit_close(struct cop_node *node, cop_id peer);

/* ---- detours --------------------------------------------------------------------- */

/* `via` says that it reaches `peer`, which I do not. */
void cop__detour_set(struct cop_node *node, cop_id peer, cop_id via);
/* It was heard without one. */
void cop__detour_end(struct cop_node *node, cop_id peer);
/* It is lost: no way leads to it or through it. */
void cop__detour_lose(struct cop_node *node, cop_id id);
/* The view is another one. */
void cop__detour_prune(struct cop_node *node);
/* Through whom a frame of this kind goes to `peer`; COP_ID_NONE: straight. */
cop_id cop__detour_for(const struct cop_node *node, cop_id peer, enum cop__kind kind,
                       uint32_t length);
/* The payload of a RELAY; NULL: no memory. */
struct cop_buf *cop__detour_wrap(const struct cop_frame *frame);
void cop__on_relay(struct cop_node *node, const struct cop_frame *frame);

/* ---- watching peers -------------------------------------------------------------- */

/*
 * Who waits for a peer watches it: the first watch makes the driver keep a connection,
 * the last one to go lets it close. Watches are counted.
 */
void cop__watch(struct cop_node *node, cop_id peer);
void cop__unwatch(struct cop_node *node, cop_id peer);
bool cop__is_watched(const struct cop_node *node, cop_id peer);

#endif
