/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_COLL_STATE_H
#define COP_COLL_STATE_H

#include "base/cold.h"
#include "coll/coll.h"
#include "coll/verdict.h"
#include "roster/roster.h"
#include "sweep/roll.h"

/* What the files of this folder share. Nobody else includes it. */

/* ---- groups (group.c) ------------------------------------------------------------ */

/* What everybody has to know of a group, and what is agreed on by its digest. */
struct cop__group {
    uint32_t refs;
    struct cop__group *next; /* in the table; NULL at its end */
    uint64_t number;         /* here; 0 if it is not in the table */
    uint64_t service;
    cop_id creator; /* NONE: out-of-band */
    cop_incarnation incarnation;
    uint64_t index; /* of its creator's groups */
    uint8_t oob[16];
    uint8_t digest[16];
    struct cop_shape shape;
    struct cop__roll *roll;
    char *name;
    struct cop_buf *definition; /* encoded */
    struct cop_tag *tags;       /* of all, in order of ranks */
    uint32_t *tag_ends;         /* by rank */
    bool lazy;                  /* its definition rides with calls */
    bool populated;             /* everybody has the definition, as far as is known */
    bool ending;                /* by me: no more broadcasts */
    bool over;                  /* and kept for who comes back to the last one */
    uint32_t calls;             /* broadcasts of mine that are under way */
    cop_time lost_at;           /* its creator is suspect since; NEVER: it is not */
};

struct cop__group_names {
    uint64_t service;
    const char *name;
    const struct cop_shape *shape;
};
int cop__group_create(const struct cop__group_names *names,
                      const struct cop_target *targets, uint32_t count,
                      struct cop__group **out);
/* Reads a definition. COP_EMALFORMED, COP_ENOMEM. */
int cop__group_decode(struct cop__bytes bytes, struct cop__group **out);
/* Without those at these ranks (sorted). COP_EINVAL: nobody is left. */
int cop__group_without(const struct cop__group *group, const struct cop_ranks *excluded,
                       struct cop__group **out);
struct cop__group *cop__group_ref(struct cop__group *group);
void cop__group_unref(struct cop__group *group);
const struct cop_tag *cop__group_tags(const struct cop__group *group, cop_rank rank,
                                      uint32_t *count);

/* ---- calls (head.c) -------------------------------------------------------------- */

enum cop__call_kind { CALL_RUN, CALL_MAKE, CALL_END, CALL_KINDS };
enum cop__origin_kind { GROUP_VIEW, GROUP_REGULAR, GROUP_OOB, GROUP_KINDS };
/* Beside enum cop_bcast_flag. */
#define CALL_KEEP 0x80u /* keep the definition that rides with it */

/* What a call says, before its payload. Lists and bytes point into the encoded call. */
struct cop__head {
    uint8_t kind, flags, origin, op;
    uint8_t shape;
    uint32_t arity;
    uint64_t service;
    uint32_t version, argument;
    cop_time service_ns;
    cop_id creator;
    cop_incarnation incarnation;
    uint64_t index;
    cop_epoch epoch; /* GROUP_VIEW without HEAL: of the view it is about */
    uint8_t oob[16], digest[16];
    struct cop__list excluded; /* of 32-bit ranks */
    struct cop__bytes definition;
    struct cop__bytes payload;
    struct cop__bytes portions;
    uint64_t bulk_length; /* these only with COP_BCAST_BULK */
    uint32_t bulk_chunk;
};
struct cop_buf *cop__head_encode(const struct cop__head *head);
int cop__head_decode(struct cop__bytes bytes, struct cop__head *out);
/* What is for this member: its portion, or the payload of all. */
struct cop__bytes cop__head_payload(const struct cop__head *head, cop_id id);

/* ---- a call at one member (call.c) ----------------------------------------------- */

/* A child without HEAL. */
struct cop__branch {
    cop_rank rank;
    bool owed;
    cop_time asked, deadline;
};

/* What came of a child before RUN: told after it. */
struct cop__early {
    cop_id from;
    int status;
    enum cop_phase phase;
    struct cop_buf *bytes; /* may be NULL */
};

/*
 * Invariants: `checking` until CHECKED came; `running` from RUN on; DONE and SENT are promised
 * exactly then. Without a sweep the timer runs as long as the call is kept, and whoever is
 * owed is watched.
 */
struct cop__call {
    struct cop__node_timer timer;
    struct cop__call *next;
    uint64_t handle;
    struct cop__group *group; /* NULL: the view */
    struct cop_buf *bytes;    /* holds what it says */
    struct cop__head head;    /* inside bytes */
    cop_id root;
    cop_incarnation incarnation;
    uint64_t token; /* at the root */
    cop_time begun;
    cop_time service_ns;
    uint32_t lowest; /* my version, if it is too low */
    bool is_root, checking, running, done, replied, over;
    bool silent; /* the service has replied, and wants to hear nothing more */
    struct cop__early
        *early; /* lost while it was passed on; with bulk, all before RUN */
    uint32_t early_count, early_capacity;
    bool gathered; /* with bulk: DONE is due as soon as RUN was given */
    struct cop__bulk *bulk;
    /* With HEAL: */
    struct cop__sweep *sweep;
    bool strict_failed;        /* at the root: somebody's version is too low */
    struct cop_ranks refusers; /* at the root: whoever asked nobody below it */
    /* Without: */
    bool forwarded;
    uint64_t number;
    cop_id parent;
    struct cop_tree tree;
    cop_rank self;
    struct cop__branch *branches;
    uint32_t branch_count, owed;
    cop_time deadline; /* for the service here */
    struct cop__tally tally;
    struct cop_buf *reply; /* at the root: what the service said */
};

/* ---- all of it ------------------------------------------------------------------- */

/* A frame that waits until the service has said who is in an out-of-band group. */
struct cop__waiting {
    uint64_t handle;
    struct cop_frame frame;
    cop_time deadline;
    uint8_t digest[16];
    uint64_t service;
    uint8_t shape;
    uint32_t arity;
};
#define COP__WAITING_MAX 64u
#define COP__RESOLVE_TIMEOUT (UINT64_C(10) * COP_SEC)
/* Where the view is fixed no suspicion is ever final: a group goes when its creator has been
 * suspect for so long. */
#define COP__GROUP_GRACE (UINT64_C(30) * COP_SEC)
/* Definitions ride alone, in a frame of their own. */
#define COP__DEFINITION_MAX (UINT32_C(512) << 10)

/* Round trips of one link, as measured by calls. */
struct cop__trip {
    cop_id peer;
    cop_time smooth_ns, deviation_ns;
};

struct cop__colls {
    struct cop__node_timer timer; /* of those that wait, and of orphaned groups */
    struct cop_service *services; /* by id */
    uint32_t service_count, service_capacity;
    struct cop__group *groups;
    uint32_t group_count;
    uint64_t index;  /* of my latest group */
    uint64_t learnt; /* number of the latest that others made */
    struct cop__call *calls;
    struct cop__call *spare; /* memory of one that is over; NULL */
    uint32_t call_count;
    uint32_t bulk_count; /* calls with a bulk: looked at after every step */
    uint64_t handle;     /* latest */
    uint64_t number;     /* of my latest call without HEAL */
    struct cop__waiting *waiting;
    uint32_t waiting_count;
    struct cop__trip *links; /* by peer */
    uint32_t link_count, link_capacity;
    struct cop__group *found; /* by the question under way, for the call it becomes */
    struct cop__head *head;   /* of that question; made with the first */
    const uint8_t *head_of;   /* where that question is; NULL: there is none */
    struct cop__group *resolved; /* of the frame that is taken again */
    int resolve_status;
    bool resolving;
    uint32_t busy; /* calls in progress that may not see a call freed */
};

static inline struct cop__colls *cop__colls(const struct cop_node *node)
{
    return cop__layer_state(node, COP__SLOT_COLL);
}

/* The group of a call ends with it, for this member; but who may yet be asked what the group is
 * (K2) keeps it for that. */
void cop__group_forget(struct cop_node *node, const struct cop__head *head,
                       bool may_be_asked);
/* The one in the table that a call names; NULL. */
struct cop__group *cop__group_of_head(const struct cop_node *node,
                                      const struct cop__head *head);

/* group table (table.c) */
struct cop__group *cop__group_find(const struct cop_node *node, uint64_t number);
int cop__group_keep(struct cop_node *node, struct cop__group *group, uint64_t number);
void cop__group_drop(struct cop_node *node, struct cop__group *group);
/* Whom a call is about: a reference for the caller, NULL for the view. COP_EAGAIN: the frame
 * waits for the service. */
int cop__group_of_call(struct cop_node *node, const struct cop_frame *frame,
                       const struct cop__head *head, struct cop__group **out);
/* The present view as a group. */
int cop__group_of_view(const struct cop_node *node, const struct cop_shape *shape,
                       struct cop__group **out);
int cop__group_resolve(struct cop_node *node, const struct cop_request *request);
int cop__group_submit(struct cop_node *node, const struct cop_request *request);
void cop__groups_expire(struct cop_node *node);
void cop__groups_lose(struct cop_node *node, cop_id creator);

/* call.c */
struct cop__call *cop__call_find(const struct cop_node *node, uint64_t handle);
/* `owner` holds the bytes, or (NULL) they are copied. */
struct cop__call *cop__call_create(struct cop_node *node, struct cop__bytes bytes,
                                   struct cop_buf *owner);
/* Runs it here: checks, and passes on; the rest follows from what the service says. */
void cop__call_begin(struct cop_node *node, struct cop__call *call);
void cop__call_end(struct cop_node *node, struct cop__call *call, int status);
void cop__calls_enter(struct cop_node *node);
void cop__calls_leave(struct cop_node *node);
const struct cop_service *cop__service_find(const struct cop_node *node, uint64_t id);
/* DONE, if it was promised and not given. */
void cop__call_done(struct cop_node *node, struct cop__call *call, int status);
void cop__call_part(struct cop_node *node, struct cop__call *call, cop_id from,
                    int status, enum cop_phase phase, bool more,
                    struct cop__bytes bytes);
void cop__emit_upcall(struct cop_node *node, struct cop_upcall *upcall);
/* PIECE: its bytes are those of a CHUNK; takes over the reference to that. */
void cop__emit_bulk(struct cop_node *node, struct cop_upcall *upcall,
                    struct cop_buf *chunk);
struct cop_tree cop__call_tree(const struct cop_node *node,
                               const struct cop__call *call, cop_rank *self);

/* RUN; `status` not 0: of its bulk, which failed `at`, and the library replies. */
void cop__call_run(struct cop_node *node, struct cop__call *call, int status,
                   cop_rank at);
/* Acts if there is nobody to wait for. */
void cop__call_settle(struct cop_node *node, struct cop__call *call);
bool cop__call_wants(const struct cop_node *node, const struct cop__call *call,
                     enum cop_upcall_kind kind);
struct cop_upcall cop__call_upcall(const struct cop__call *call,
                                   enum cop_upcall_kind kind);

/* bulk.c, pull.c */
/* It was passed on. `serves`: the service here is to get it, too. */
void cop__bulk_begin(struct cop_node *node, struct cop__call *call, bool serves);
/* Whether RUN is promised and not given yet. */
bool cop__bulk_owes_run(const struct cop__call *call);
/* It was given, without all of the bulk. */
void cop__bulk_owe_nothing(struct cop__call *call);
/* The service here gets no more of it. */
void cop__bulk_unserve(struct cop_node *node, struct cop__call *call);
void cop__bulk_end(struct cop_node *node, struct cop__call *call);
void cop__bulk_free(struct cop__call *call);
/* Without HEAL: whether a child that has not answered in time is still busy with the bulk, or
 * waits for it. */
bool cop__bulk_excuses(const struct cop_node *node, const struct cop__call *call,
                       cop_rank rank, cop_time patience);
/* Without HEAL: somebody is lost, perhaps the one it comes from. */
void cop__bulk_lose(struct cop_node *node, struct cop__call *call, cop_id id);
/* A child has answered, or is lost: it needs nothing more from me. */
void cop__bulk_release(struct cop__call *call, cop_id child);
int cop__bulk_taken(struct cop_node *node, const struct cop_coll *coll);
int cop__bulk_give(struct cop_node *node, const struct cop_request *request);
/* At the end of each step. */
void cop__bulks_settle(struct cop_node *node);
const char *cop__bulk_check(const struct cop_node *node, const struct cop__call *call);
void cop__bulk_digest(const struct cop__call *call, struct cop__digest *digest);
size_t cop__bulk_bytes(const struct cop__call *call);

/* heal.c: the same over a sweep */
int cop__heal_start(struct cop_node *node, const struct cop_request *request,
                    struct cop__bytes bytes, struct cop__group *group);
void cop__heal_forward(struct cop_node *node, struct cop__call *call);
/* My own part; `fault` NULL: it went well. */
void cop__heal_contribute(struct cop_node *node, struct cop__call *call,
                          const struct cop__fault *fault, struct cop__bytes reply);

/* plain.c: the same without healing */
int cop__plain_start(struct cop_node *node, const struct cop_request *request,
                     struct cop__bytes bytes, struct cop__group *group);
void cop__plain_forward(struct cop_node *node, struct cop__call *call);
void cop__plain_contribute(struct cop_node *node, struct cop__call *call,
                           const struct cop__fault *fault, struct cop__bytes reply,
                           bool more);
/* Whether a child has been asked and has not answered. */
bool cop__plain_owes(const struct cop__call *call, cop_id id);
/* The service here has the bulk: from now on it has its time. */
void cop__plain_ran(struct cop_node *node, struct cop__call *call);
/* Somebody is lost. */
void cop__plain_lose(struct cop_node *node, cop_id id);
void cop__plain_settle(struct cop_node *node, struct cop__call *call);
int cop__plain_abort(struct cop_node *node, struct cop__call *call);

/* result.c: how it ended, at the root. */
struct cop__end {
    const struct cop_tree *tree;
    const struct cop__tally *tally;  /* with HEAL `tree` says nothing of those below */
    const struct cop_ranks *missing; /* with HEAL: of whom nothing was heard */
    uint32_t members;
    struct cop__bytes data;
};
/* COMPLETE. */
void cop__call_report(struct cop_node *node, struct cop__call *call, int status,
                      const struct cop__end *end);

/* An own call of which nobody is told how it ended. */
#define COP__NO_TOKEN UINT64_MAX

int cop__coll_submit(struct cop_node *node, const struct cop_request *request);
/* start.c: an own call over a group: a broadcast, or the making or ending of the group. */
int cop__coll_start(struct cop_node *node, const struct cop_request *request,
                    enum cop__call_kind kind, struct cop__group *base);

/* links.c */
void cop__trip_measure(struct cop_node *node, cop_id peer, cop_time took_ns);
cop_time cop__trip_estimate(const struct cop_node *node, cop_id peer);

#endif
