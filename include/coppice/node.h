/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_NODE_H
#define COPPICE_NODE_H

#include <coppice/agree.h>
#include <coppice/buf.h>
#include <coppice/error.h>
#include <coppice/types.h>
#include <coppice/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One node, without I/O.
 *
 * A node is a deterministic state machine. A driver (TCP, the simulator, ...) puts
 * events in, each with the time, and carries out the effects that come out, in their
 * order. There is no clock, no random source, no socket, no thread and no callback
 * inside.
 *
 *   1. Events are borrowed for the call. Effects belong to the caller until the next
 *      step that is given the same `struct cop_effects`.
 *   2. Only cop_buf is shared, by reference count. An effect holds a reference that
 *      cop_effects_clear gives back; who keeps a buffer longer takes one of its own.
 *   3. One node is used by one thread at a time.
 *
 * What a driver promises:
 *   4. Frames between two living incarnations arrive in order, once, and none is lost,
 *      also over a connection that breaks and is made again.
 *   5. A SEND to a peer without connection makes one. If that is refused,
 *      PEER_DOWN(REFUSED).
 *   6. CONNECT(p) means: keep a connection to p, and tell me when it ends. If p cannot
 *      be reached that is PEER_DOWN with the reason; the driver does not try again by
 *      itself. CLOSE(p) ends that wish; the driver may age the connection out.
 *   7. PEER_UP(p, incarnation) for every connection made and for every changed
 *      incarnation, before the first frame of that incarnation.
 *   8. PEER_DOWN is evidence with its reason, never a verdict.
 */
struct cop_node;
struct cop_stats;

/* ---- frames ---------------------------------------------------------------------- */

/* What every message says about its world. Encoded by wire/, 48 bytes. */
struct cop_header {
    uint16_t kind;  /* enum cop__kind of wire/messages.h */
    uint16_t flags; /* none defined; must be 0 */
    cop_id sender;
    cop_id receiver;
    cop_incarnation sender_incarnation;
    cop_incarnation receiver_incarnation;
    cop_epoch epoch;
    uint32_t length; /* of the payload */
};

struct cop_frame {
    struct cop_header header;
    struct cop_buf *payload; /* NULL if length is 0 */
};

/* ---- events ---------------------------------------------------------------------- */

enum cop_event_kind {
    COP_EVENT_RECV, /* `frame` came from `peer` */
    COP_EVENT_TICK, /* the time of cop_deadline has come (also the very first event) */
    COP_EVENT_PEER_UP,   /* connected to `peer`, which lives as `incarnation` */
    COP_EVENT_PEER_DOWN, /* connection to `peer` ended or could not be made: `why` */
    COP_EVENT_SUBMIT,    /* a request of the application */
    COP_EVENT_SENT,      /* bytes that the driver could not yet send: `backlog_bytes` */
};

enum cop_down {
    COP_DOWN_CLOSED,  /* the connection was closed or reset */
    COP_DOWN_REFUSED, /* nobody listens at its address */
    COP_DOWN_SILENT,  /* no answer in time */
};

enum cop_request_kind {
    COP_REQUEST_PROBE, /* ask everyone in a tree, count who answers */
    COP_REQUEST_ABORT, /* end the request whose token is `target` */
    /* Somebody who is called `name` wants to join, in the life `incarnation`: which id
     * would it have, and in what view? COMPLETE, to be read with cop_invitation. */
    COP_REQUEST_INVITE,
    /* This member goes, with a goodbye; COMPLETE, then OUT. COP_ETIMEDOUT: it could not by then,
     * but will when it can. */
    COP_REQUEST_LEAVE,
    COP_REQUEST_REPORT, /* `member` is dead: somebody outside knows. COMPLETE at once */
    /* How are you, `member`? COMPLETE: 0 it answered; COP_ETIMEDOUT it did not, and is
     * accused of it; COP_ELOST nobody listens there, or it is no member any more. */
    COP_REQUEST_INQUIRE,
    /*
     * `length` bytes to `member`: in order, once, and delivered in the view in which they were
     * sent. COMPLETE: 0 it was delivered; COP_ELOST the member left the view, and may or may
     * not have got it; COP_ETIMEDOUT nothing was heard, though it may still be delivered.
     * COP_EAGAIN: 64 to that member are under way.
     */
    COP_REQUEST_SEND,
    /*
     * `member` is about to go for a while, or, with `undo`, is not: it has no place inside the
     * tree, is root only where nobody else is left, and is not watched; if it goes, that is a
     * goodbye (V18). A later life of it is not drained. COMPLETE: 0 this node's view says so;
     * COP_ELOST it is no member any more; COP_ETIMEDOUT no view has come of it.
     */
    COP_REQUEST_DRAIN,
    /*
     * Those who are here go on with a next view though they are too few (V19). Only while this
     * node is degraded (COP_ESTATE otherwise), and in the view with the epoch `target`, if that
     * is not 0 (COP_EINVAL). Whoever asks for it has to know that the others do not go on: it
     * gives up what a quorum is for. It counts at the member whose turn it is to propose, the
     * lowest that is left. COMPLETE: 0 there is another view; COP_ETIMEDOUT there is none.
     */
    COP_REQUEST_GO_ON,
    /* Collectives: see coppice/coll.h, which has their arguments. */
    COP_REQUEST_SERVICE,
    COP_REQUEST_UNSERVICE,
    COP_REQUEST_GROUP,
    COP_REQUEST_GROUP_END,
    COP_REQUEST_BCAST,
    COP_REQUEST_CHECKED,
    COP_REQUEST_REPLY,
    COP_REQUEST_RESOLVED,
    COP_REQUEST_AGREE_GROUP, /* makes `new_group` (coppice/agree.h) */
    /*
     * The next agreement of `group`: contributes `length` bytes of `type`, to be combined by
     * `op`. COMPLETE: what it came to, to be read with cop_agreed. COP_EAGAIN: as many as
     * the group's window are in flight.
     */
    COP_REQUEST_AGREE,
    /*
     * This member is done with `group`: it calls nothing more. COMPLETE at once. What is under
     * way goes on; the group is given back when all members that live have said so.
     */
    COP_REQUEST_AGREE_FREE,
    /*
     * Streams (coppice/stream.h), each named by `group`. OPEN opens `stream` at the root, or attaches
     * to it again; `wave` is the last that the front-end has. PUT gives a packet of the
     * back-end here to the stream that has `key`: COP_EAGAIN as long as it is too far ahead, until
     * COP_STREAM_ROOM; COP_ESTATE if there is none of that key (any more, or yet). TAKEN: the
     * front-end has waves up to `wave`. SEND: packet number `wave` to all back-ends; numbers
     * follow each other from 1 on, one that is there already is ignored. DETACH: the front-end
     * goes, and the stream with it unless it is KEEP. OPEN, CLOSE and DETACH have a COMPLETE.
     */
    COP_REQUEST_STREAM_OPEN,
    COP_REQUEST_STREAM_PUT,
    COP_REQUEST_STREAM_TAKEN,
    COP_REQUEST_STREAM_SEND,
    COP_REQUEST_STREAM_CLOSE,
    COP_REQUEST_STREAM_DETACH,
    COP_REQUEST_TAKEN, /* bulk of collectives: coppice/coll.h */
    COP_REQUEST_GIVE,
};
struct cop_coll;
struct cop_stream_options;

struct cop_request {
    enum cop_request_kind kind;
    uint64_t token;         /* the caller's own, unique; comes back with COMPLETE */
    cop_time timeout_ns;    /* PROBE, SEND, INQUIRE, LEAVE, DRAIN, GO_ON, AGREE: 0:
                               the default */
    struct cop_shape shape; /* PROBE: tree to use; kind 0 for the view's own */
    bool outcome;           /* PROBE: tell everyone the result, too */
    uint64_t target;        /* ABORT; GO_ON: the epoch, or 0 */
    cop_id member;          /* REPORT, SEND, INQUIRE, DRAIN; STREAM_OPEN: whose it is */
    bool undo;              /* DRAIN */
    const void *bytes;      /* SEND, AGREE: copied */
    uint32_t length;        /* SEND: below 1 MiB; AGREE: COP_VALUE_MAX at most */
    const char *name;       /* INVITE */
    cop_incarnation incarnation; /* INVITE, STREAM_OPEN; REPORT: 0 for the present */
    const struct cop_coll *coll; /* collectives */
    const struct cop_agree_group *new_group; /* AGREE_GROUP */
    uint64_t group;           /* AGREE, AGREE_FREE; of streams: its number */
    uint32_t op;              /* AGREE: enum cop_agree_op; SEND: a channel, 0 to 255,
                                 that comes with the bytes */
    enum cop_value_type type; /* AGREE */
    const struct cop_stream_options *stream; /* STREAM_OPEN */
    uint64_t wave;                           /* STREAM_OPEN, TAKEN, SEND */
    uint64_t key; /* STREAM_PUT: what OPENED said; 0: of whichever has the number */
    uint64_t
        reached; /* STREAM_OPEN: the last packet down that was said to have come to all */
};

struct cop_event {
    enum cop_event_kind kind;
    cop_time now;
    cop_id peer;                       /* RECV, PEER_UP, PEER_DOWN */
    cop_incarnation incarnation;       /* PEER_UP; PEER_DOWN: of whom, 0 if not known */
    enum cop_down why;                 /* PEER_DOWN */
    const struct cop_frame *frame;     /* RECV */
    const struct cop_request *request; /* SUBMIT */
    uint64_t backlog_bytes;            /* SENT: over all peers; above COP_BACKLOG_MAX
                                          submissions get COP_EAGAIN until it falls again */
};

#define COP_BACKLOG_MAX (UINT64_C(4) << 20)

/* ---- effects --------------------------------------------------------------------- */

enum cop_effect_kind {
    COP_EFFECT_SEND,     /* `frame` to `peer` */
    COP_EFFECT_CONNECT,  /* keep a connection to `peer` */
    COP_EFFECT_CLOSE,    /* the connection to `peer` is no longer needed */
    COP_EFFECT_COMPLETE, /* request `token` ended with `status`; `result` may be NULL */
    COP_EFFECT_VIEW,     /* `view` is installed; compare it with the one before */
    COP_EFFECT_DELIVER, /* `result` from `peer`, in the view that is installed now; `status`
                            is the channel that it was sent on */
    COP_EFFECT_DEGRADED, /* `status` 1: too few are reachable to change the view, and what
                            needs a view is refused; 0: no longer */
    COP_EFFECT_OUT, /* this life is over: 0 it left; COP_EREMOVED it was removed; COP_ELOST
                       it found nobody to let it in, and needs another invitation.
                       Nothing comes of the node any more; a new life may join */
    COP_EFFECT_UPCALL, /* a service is to do something: read with cop_upcall (coppice/coll.h) */
    COP_EFFECT_HELD, /* others than before are suspect, and not removed because of the guard:
                        `status` is how many; see cop_node_held */
    COP_EFFECT_SUSPICION, /* cop_node_events has a record that is new, or has an outcome
                             now; once a step at most */
    COP_EFFECT_STREAM, /* of the stream `token`: read with cop_stream_event (coppice/stream.h) */
};

struct cop_effect {
    enum cop_effect_kind kind;
    cop_id peer;
    struct cop_frame frame;
    uint64_t
        token; /* COMPLETE; DELIVER: the sender's incarnation; UPCALL: the handle */
    int status;
    struct cop_buf *result; /* decode with cop_probe_result, cop_agreed, ... */
    struct cop_view *view;  /* VIEW; a reference of the effect's own */
};

struct cop_effects {
    struct cop_effect *items;
    uint32_t count;
    uint32_t capacity;
};

/* Gives the references back and empties the list, keeping its memory. */
void cop_effects_clear(struct cop_effects *effects);
/* The same, and frees the memory. */
void cop_effects_free(struct cop_effects *effects);

/* ---- the node -------------------------------------------------------------------- */

/* Which side of a split goes on. */
enum cop_quorum {
    COP_QUORUM_FIXED = 0, /* no side: the view never changes, deaths stay suspicions */
    COP_QUORUM_MAJORITY,  /* the one with more than half of the last view */
    COP_QUORUM_HAS,       /* the one with all of `quorum_ids` that are in the view; the
                           * majority once all of them have left */
    COP_QUORUM_NONE,      /* every side */
};

/*
 * How those who died without a word are found, where views change (D5 to D13 of
 * docs/PROTOCOL.md). All zero: only by connections that are refused. The same at all
 * members. Any may be combined.
 */
struct cop_detect {
    /*
     * Every member asks its neighbour in a ring of the living how it is, so often, and
     * accuses one that does not answer by a deadline that follows the measured round trips.
     * A member that stopped is accused within two periods. 0: no ring.
     */
    cop_time ring_period_ns;
    /*
     * So many others must have found a suspect out of reach before it is suspected; at most
     * COP_WITNESSES_MAX, fewer where there are fewer. 0: whoever accuses is believed.
     */
    uint32_t witnesses;
    /*
     * Heartbeats go from everyone to a random one so often; who has not been heard of for a
     * number of periods that grows with the logarithm of the members is accused. Costs bytes
     * that grow with the members, and needs no neighbours. 0: no gossip.
     */
    cop_time gossip_period_ns;
    /*
     * With gossip: this life remembers nothing of a former one. It listens, but says nothing
     * until the others must have found the former one dead.
     */
    bool stealth;
    /*
     * Members that start one after the other: so long after its start, who has not answered
     * yet is not accused of its silence (D15). Of refused connections the driver knows. 0:
     * all start at once.
     */
    cop_time patience_ns;
};
#define COP_WITNESSES_MAX 16u

struct cop_service; /* of coppice/coll.h */
struct cop_filter;  /* of coppice/filter.h */

struct cop_config {
    cop_id self;
    cop_incarnation incarnation; /* of this life; larger than every earlier one */
    struct cop_view *view;       /* the node takes its own reference */
    struct cop_stats *stats; /* counters to write to; may be shared; NULL for none */
    cop_time now;

    enum cop_quorum quorum;   /* the same at all members */
    const cop_id *quorum_ids; /* HAS: sorted, copied */
    uint32_t quorum_count;
    /*
     * A member that joins: its id and view are those of its invitation, in which it is
     * not yet, or only as an earlier life. It asks until a view has it.
     */
    const char *name;    /* NULL: the one that its id has in the view */
    const char *address; /* where it listens; NULL: by the rule of the start */
    bool spare;
    const struct cop_service *services; /* there from the first step on; copied */
    uint32_t service_count;
    struct cop_detect detect; /* not looked at where the view is fixed */
    /*
     * Not more than so many are removed from the view within a minute by suspicion alone (V17):
     * if more seem to be dead, nothing is changed until fewer do, the minute is over, or a
     * COP_REQUEST_REPORT says of the others that they are. 0: no limit. The same at all members.
     */
    uint32_t guard;
    /* Of COP_AGREE_USER; the same at all members, and there as long as the node is. */
    const struct cop_operation *operations;
    uint32_t operation_count;
    /* Filters for streams beside those of the library; the same. */
    const struct cop_filter *const *filters;
    uint32_t filter_count;
    /* Equal views once for all nodes of one thread; NULL: each has its own. */
    struct cop_view_pool *views;
};

/* COP_EINVAL if `self` is not in the view (with a fixed one), or a name or address is too
 * long; COP_ENOMEM. */
int cop_node_create(const struct cop_config *config, struct cop_node **out);
/* NULL is ignored. */
void cop_node_destroy(struct cop_node *node);

/*
 * Takes one event and appends what is to be done to `effects` after clearing it.
 *   0            done
 *   COP_EAGAIN   SUBMIT only: too much in flight; nothing happened, try after a COMPLETE
 *   COP_EINVAL   SUBMIT only: the request is not possible
 *   COP_ENOMEM   out of memory in the middle of a step: the node has stopped for good.
 *                Destroy it; to its peers this is a crash. Later steps say the same.
 */
int cop_step(struct cop_node *node, const struct cop_event *event,
             struct cop_effects *effects);

/* When the next TICK is due; COP_TIME_NEVER if none. May be in the past: then at once. */
cop_time cop_deadline(const struct cop_node *node);

/* Who it is. */
cop_id cop_node_id(const struct cop_node *node);
/* In which life. */
cop_incarnation cop_node_incarnation(const struct cop_node *node);
/* The view that it has installed; borrowed until the next step. */
const struct cop_view *cop_node_view(const struct cop_node *node);

/*
 * What is known of an id, also if it is only about to join: where a driver looks for the
 * address of a peer. Borrowed until the next step. COP_ENOENT.
 */
int cop_node_member(const struct cop_node *node, cop_id id, struct cop_member *out);
/* Whether the view has this node in this life. */
bool cop_node_is_member(const struct cop_node *node);
/* Whether too few are reachable to change the view. */
bool cop_node_is_degraded(const struct cop_node *node);

/*
 * Whom this node would remove from the view, as its proposer, and may not because of the guard:
 * at most `max` ids, in order, and how many there are. 0: nobody, or it is not the proposer.
 */
uint32_t cop_node_held(const struct cop_node *node, cop_id *out, uint32_t max);

/*
 * When the last change of the view that this node led went through its stages, in the time
 * of its events. All 0 if it has led none.
 */
struct cop_change_times {
    cop_epoch epoch;    /* of the view that came of it */
    cop_time heard;     /* the first news since the view before */
    cop_time proposed;  /* for the first time; it may have been made again */
    cop_time stable;    /* everybody has acknowledged */
    cop_time committed; /* and it is installed here */
};
/* See above. */
struct cop_change_times cop_node_change_times(const struct cop_node *node);

/* What this node believes of a member just now. */
enum cop_status {
    COP_ALIVE,
    COP_LEAVING,
    COP_SUSPECT,
    COP_REPORTED, /* suspect, and somebody outside says so */
};
struct cop_belief {
    cop_incarnation incarnation;
    uint32_t denial;
    enum cop_status status;
};
/* Of an id that it has never heard of: alive, as the view has it. */
struct cop_belief cop_node_belief(const struct cop_node *node, cop_id id);

/*
 * How often this node saw a peer go from alive to dead: by suspicion, by a view without it,
 * or by a new life. A number of this node's own, the same at no two; an owner of state that
 * finds it changed knows that this is not the peer with whom it was made.
 */
uint32_t cop_node_aliveness(const struct cop_node *node, cop_id id);

/* Why somebody was accused, and what came of it. */
enum cop_reason {
    COP_REASON_REFUSED, /* nobody listens there */
    COP_REASON_SILENT,  /* it did not answer, or was not heard of, in time */
    COP_REASON_INQUIRY, /* it did not answer a COP_REQUEST_INQUIRE */
    COP_REASON_OUTSIDE, /* a COP_REQUEST_REPORT */
    COP_REASON_HEARSAY, /* another member says so */
};
enum cop_outcome {
    COP_OUTCOME_PENDING,
    COP_OUTCOME_DENIED,        /* it says that it lives */
    COP_OUTCOME_NOT_CONFIRMED, /* a witness reached it */
    COP_OUTCOME_REMOVED,       /* by the view `epoch` */
};
struct cop_suspicion {
    uint64_t number; /* of this node's, from 0 */
    cop_time at;
    cop_id accuser; /* COP_ID_NONE: hearsay, and nobody knows from whom */
    cop_id accused;
    cop_incarnation incarnation; /* of the accused */
    enum cop_reason reason;
    enum cop_outcome outcome;
    cop_epoch epoch; /* REMOVED */
};
/*
 * The accusations that this node made or (where views change) heard of, from number `from`
 * on, oldest first: at most `max` of them, and how many. The last COP_SUSPICIONS_MAX are
 * kept; the next question begins after the last number given.
 */
uint32_t cop_node_events(const struct cop_node *node, uint64_t from,
                         struct cop_suspicion *out, uint32_t max);
#define COP_SUSPICIONS_MAX 64u

/* A number that two nodes share if and (but for chance) only if their states are
 * equal. */
uint64_t cop_node_digest(const struct cop_node *node);
/* How many sweeps the node keeps anything of (tests: nothing may stay for ever). */
uint32_t cop_node_sweeps(const struct cop_node *node);
/* Checks the invariants of all layers; NULL, or the text of the first that fails. */
const char *cop_node_check(const struct cop_node *node);
/* Bytes of private memory that the node holds now (without shared buffers and view). */
size_t cop_node_bytes(const struct cop_node *node);

/* ---- results --------------------------------------------------------------------- */

/* What a probe found. Borrowed from the COMPLETE effect's buffer until freed. */
struct cop_probe_result {
    uint32_t members;        /* asked: n of the view */
    uint32_t answered;       /* exactly once each */
    uint64_t fingerprint;    /* sum over the answered of cop_probe_fingerprint(id) */
    struct cop_ranks dead;   /* not answered, and known to be lost */
    struct cop_ranks silent; /* not answered in time, though not known to be lost */
    cop_time elapsed_ns;
};
/* Reads the result of a COMPLETE. COP_EMALFORMED, COP_ENOMEM. */
int cop_probe_result(const struct cop_buf *result, struct cop_probe_result *out);
/* Gives the lists back. */
void cop_probe_result_free(struct cop_probe_result *result);
/* What an invitation says. */
struct cop_invitation {
    cop_id id;
    cop_incarnation exceed; /* the life that joins must be larger than this */
    struct cop_view *view;  /* the caller's reference */
};
/* `like` is any view of the same static start. COP_EMALFORMED, COP_ENOMEM. */
int cop_invitation(const struct cop_buf *result, const struct cop_view *like,
                   struct cop_invitation *out);
/* The share of one member in `fingerprint`: a check that nobody was counted twice. */
uint64_t cop_probe_fingerprint(cop_id id);

#ifdef __cplusplus
}
#endif

#endif
