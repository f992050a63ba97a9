/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SWEEP_SWEEP_H
#define COP_SWEEP_SWEEP_H

#include "node/node.h"

/*
 * One pass down and up a tree while nodes die: the motion that all services share.
 *
 * An initiator asks; each node asks its children, adds what they answer to its own
 * contribution, and answers its parent; if the sweep has an outcome, that goes down
 * the same way. What this layer guarantees (rules S1-S7 of docs/PROTOCOL.md), so that
 * no protocol has to think about it again: a sweep ends everywhere within its time;
 * who is lost is passed around, and whoever was below it answers, or asks, somebody
 * further up; nobody alive is missed and nobody counted twice; late and repeated
 * frames do nothing.
 */
struct cop__sweep;
struct cop__roll;
extern const struct cop__layer cop__sweep_layer;

/* How many sweeps of one initiator may be above its mark: the oldest that waits for somebody
 * slow keeps only those behind this many waiting. */
#define COP__SWEEP_WINDOW 512u
/* The longest that a sweep may take: long enough for a person, short enough that times
 * never wrap. */
#define COP__SWEEP_TIMEOUT_MAX (UINT64_C(3600) * COP_SEC)

/* What a protocol does with its sweeps. All functions are pure but for the node. */
struct cop__protocol {
    const char *name;
    /*
     * May be NULL. Reads out of a question who takes part in the sweep, if that is not the
     * view: a reference for the caller; NULL if it makes no sense, and is dropped.
     */
    struct cop_view *(*world)(struct cop_node *node, cop_id initiator,
                              cop_incarnation incarnation, struct cop__bytes payload);
    /*
     * May be NULL. Reads out of a question whom it is about, if that is not everybody in the
     * order of their ids: a reference for the caller, or NULL for everybody. COP_EAGAIN: not
     * known yet; the protocol has kept the frame, and gives it to the node again. Another
     * error: I cannot take part, and whoever asks is told why.
     */
    int (*roll)(struct cop_node *node, const struct cop_frame *frame,
                struct cop__bytes payload, struct cop__roll **out);
    /* The others are asked only when the protocol calls cop__sweep_forward. */
    bool gated;
    /* A sweep reached me (also at its initiator): call cop__sweep_contribute, now or
     * later. */
    void (*on_ask)(struct cop_node *node, struct cop__sweep *sweep);
    /*
     * One payload out of one or more, in rank order of who sent them. NULL: no memory.
     * Must be associative, and commutative but for rounding.
     */
    struct cop_buf *(*fold)(const struct cop__bytes *payloads, uint32_t count);
    /* False for a payload that fold must not be given: it is treated as malformed. */
    bool (*accept)(struct cop__bytes payload);
    /*
     * At the initiator, exactly once: all have answered, or time is up
     * (COP_ETIMEDOUT), or it was aborted. Look at it with cop__sweep_result.
     */
    void (*on_complete)(struct cop_node *node, struct cop__sweep *sweep, int status);
    /* May be NULL. At the others, once: the initiator is suspect, or lives another life.
     * Nothing has ended yet; the protocol decides, and may call cop__sweep_leave. */
    void (*on_initiator_lost)(struct cop_node *node, struct cop__sweep *sweep);
    /* At the others, at most once: the outcome that the initiator gave, or why none
     * comes. */
    void (*on_outcome)(struct cop_node *node, struct cop__sweep *sweep, int status,
                       struct cop__bytes payload);

    /* ---- for protocols that follow what happens below them; any may be NULL ---- */

    /* What came of `rank`: its payload; or that it is lost (COP_ELOST), is not in the sweep
     * any more (COP_ENOENT), or was not heard in time (COP_ETIMEDOUT). */
    void (*on_part)(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank,
                    int status, struct cop__bytes payload);
    /* Nobody below is waited for; called once, before anything is said upwards.
     * COP_ETIMEDOUT: because time is up. */
    void (*on_gathered)(struct cop_node *node, struct cop__sweep *sweep, int status);
    /* At the others, when they have answered for the first time. */
    void (*on_answered)(struct cop_node *node, struct cop__sweep *sweep);
    /* It is over here: the last word about it. */
    void (*on_end)(struct cop_node *node, struct cop__sweep *sweep);
    /*
     * Somebody whom I asked cannot take part: what to count as its answer. NULL if it was
     * asked again (cop__sweep_ask_with), or there is no memory, which has been said.
     */
    struct cop_buf *(*on_refused)(struct cop_node *node, struct cop__sweep *sweep,
                                  cop_rank rank, int status);
    /* At the initiator: whether somebody who did not answer is not to be asked by it. */
    bool (*is_excused)(const struct cop_node *node, const struct cop__sweep *sweep,
                       cop_rank rank);
};

struct cop__sweep_options {
    uint8_t protocol;       /* index in the stack's table */
    bool outcome;           /* everyone waits for cop__sweep_conclude */
    struct cop_shape shape; /* kind 0: the view's */
    cop_time timeout_ns;
    struct cop__bytes payload;
    uint64_t token;         /* the protocol's own */
    struct cop_view *world; /* who takes part; NULL: the view */
    struct cop__roll *roll; /* whom it is about; NULL: everybody. Borrowed */
};

bool cop__sweep_has_room(const struct cop_node *node);
/* Starts one, rooted here. COP_EAGAIN: too many under way. COP_EINVAL: the shape. */
int cop__sweep_start(struct cop_node *node, const struct cop__sweep_options *options);
/* What this node adds; takes over the reference. Once for each sweep. */
void cop__sweep_contribute(struct cop_node *node, struct cop__sweep *sweep,
                           struct cop_buf *payload);
/* With a gate: asks those below. Once, and before anything is contributed. */
void cop__sweep_forward(struct cop_node *node, struct cop__sweep *sweep);
/* With a gate, instead of that: nobody below is asked by me. Takes over the reference. */
void cop__sweep_refuse(struct cop_node *node, struct cop__sweep *sweep,
                       struct cop_buf *payload);
/* After one of these, outside of on_ask: acts if there is nobody to wait for. */
void cop__sweep_settle(struct cop_node *node, struct cop__sweep *sweep);
/* Asks somebody who is owed again, with another payload, if there is time for that. */
void cop__sweep_ask_with(struct cop_node *node, struct cop__sweep *sweep, cop_rank rank,
                         struct cop__bytes payload);
/* At the initiator, in or after on_complete: the outcome, for everyone. */
void cop__sweep_conclude(struct cop_node *node, struct cop__sweep *sweep, int status,
                         struct cop__bytes payload);
/* At the others: takes no further part. Whoever asks hears that it is over here. */
void cop__sweep_leave(struct cop_node *node, struct cop__sweep *sweep);
/* At the initiator: no outcome will come. The others hear of it with its next question. */
void cop__sweep_forget(struct cop_node *node, struct cop__sweep *sweep);
/* At the initiator: ends it everywhere. COP_ENOENT if no sweep has this token. */
int cop__sweep_abort(struct cop_node *node, uint8_t protocol, uint64_t token);

/* ---- looking at one -------------------------------------------------------------- */

struct cop__sweep_result {
    struct cop_buf *payload; /* folded; NULL if nobody answered. Caller's reference */
    uint32_t answered;
    struct cop_ranks missing; /* ranks that did not answer, sorted; caller frees */
};
/* At the initiator, in on_complete. COP_ENOMEM leaves nothing behind. */
int cop__sweep_result(struct cop_node *node, const struct cop__sweep *sweep,
                      struct cop__sweep_result *out);
uint64_t cop__sweep_token(const struct cop__sweep *sweep);
/* Borrowed; NULL if it runs in the view. */
struct cop_view *cop__sweep_world(const struct cop__sweep *sweep);
cop_time cop__sweep_started(const struct cop__sweep *sweep);
bool cop__sweep_wants_outcome(const struct cop__sweep *sweep);
struct cop__bytes cop__sweep_request(const struct cop__sweep *sweep);
/* What holds these bytes: borrowed. */
struct cop_buf *cop__sweep_request_buf(const struct cop__sweep *sweep);
const struct cop_tree *cop__sweep_tree(const struct cop__sweep *sweep);
bool cop__sweep_is_rooted_here(const struct cop_node *node,
                               const struct cop__sweep *sweep);
cop_id cop__sweep_initiator(const struct cop__sweep *sweep, cop_incarnation *out);
cop_rank cop__sweep_self(const struct cop__sweep *sweep);
/* Its number among those of its initiator. */
uint64_t cop__sweep_sequence(const struct cop__sweep *sweep);
/* Whom I would answer just now; COP_ID_NONE at the initiator, and for an orphan. */
cop_id cop__sweep_asker(const struct cop__sweep *sweep);
/* The i-th of all who have asked me; COP_ID_NONE: there are not so many. */
cop_id cop__sweep_asker_at(const struct cop__sweep *sweep, uint32_t i);
/* The place of a peer in its tree; COP_RANK_NONE. */
cop_rank cop__sweep_place_of(const struct cop__sweep *sweep, cop_id id);
/* Who has a place in the sweep's tree. */
cop_id cop__sweep_id(const struct cop__sweep *sweep, cop_rank rank);
/* Whether somebody is lost to it just now. */
bool cop__sweep_is_lost(const struct cop_node *node, const struct cop__sweep *sweep,
                        cop_rank rank);
/* Whether I hold anything that this one sent. */
bool cop__sweep_has_part_of(const struct cop__sweep *sweep, cop_rank source);
/* A pointer of the protocol's own. */
void cop__sweep_set_user(struct cop__sweep *sweep, void *user);
void *cop__sweep_user(const struct cop__sweep *sweep);

/* Takes what is the sweep's own off the payload of a question: what is left is the protocol's.
 * `leaves` may be NULL. 0, COP_EMALFORMED, COP_ENOMEM; the caller frees in any case. */
int cop__sweep_split(struct cop__msg_ask *message, struct cop_ranks *leaves);

cop__handler cop__on_ask, cop__on_answer, cop__on_turn, cop__on_outcome, cop__on_done,
    cop__on_hold, cop__on_refused;

#endif
