/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_COLL_H
#define COPPICE_COLL_H

#include <coppice/node.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Collectives: run a request at every member of a group, and get one answer.
 *
 * A *service* is what runs requests; it has a number that all members agree on. A *group* is
 * an ordered list of (member, tags); tags are 128-bit names of things at a member, and mean
 * something to the service only. Any member of a group can broadcast over it. The request
 * goes down a tree of the group's members with the sender as its root, and the answers come
 * up and are combined on the way.
 *
 * The node is pure: it calls nobody. What a service is to do comes out as UPCALL effects, and
 * what it says goes in as requests, each with the handle of the upcall:
 *
 *   CHECK    may this be run here?      answered by COP_REQUEST_CHECKED
 *   RUN      run it                     answered by COP_REQUEST_REPLY
 *   REPLY    this came from a child     not answered
 *   DONE     nothing more comes from any child
 *   SENT     my answer has gone up: the handle is void
 *   RESOLVE  whom does this out-of-band group consist of?  COP_REQUEST_RESOLVED
 *   PIECE    a piece of the bulk        answered by COP_REQUEST_TAKEN
 *   WANT     at the root: a piece of the bulk, please      COP_REQUEST_GIVE
 *
 * For one handle at one member, in this order: CHECK at most once (not at the root), RUN at
 * most once and only if the check was passed, any number of REPLY, then DONE, then SENT (at
 * the root: the COMPLETE of the request). Whoever got RUN gets DONE exactly once and SENT
 * exactly once, whatever happens: also after an abort, a time-out or the death of the root.
 * A service gets only the upcalls that it wants; with HEAL its reply may say that it wants no
 * more of this handle (`silent`), which is void for it from then on.
 *
 * With COP_BCAST_HEAL whoever is below a member that dies is asked by somebody else, so that
 * every living member runs the request exactly once, and the answer names the others. Answers
 * must then be combined by one of the operations below, because after a false suspicion they
 * have to be taken apart again. Without it the service combines: it gets every reply of a
 * child, and its own reply after DONE is for its whole sub-tree; a member that dies takes its
 * sub-tree with it.
 */

/* ---- names ----------------------------------------------------------------------- */

struct cop_tag {
    uint8_t bytes[16];
};
/* All that is meant at one member. */
struct cop_target {
    cop_id node;
    const struct cop_tag *tags;
    uint32_t tag_count;
};

/* The whole view as a group: always there, without tags. */
#define COP_GROUP_ALL UINT64_C(0)
/* Numbers of groups that other members made begin here; those of one's own are below. */
#define COP_GROUP_LEARNT (UINT64_C(1) << 63)

/* Most bytes of a request that is sent unasked for, with all that rides on it. */
#define COP_BCAST_MAX 4096u
/* Most bytes of one reply of one member; without HEAL it may send several. */
#define COP_REPLY_MAX (UINT32_C(256) << 10)
/* Most calls of other members, and of one's own, that a member keeps. */
#define COP_CALLS_MAX 4096u
#define COP_SERVICES_MAX 256u
#define COP_GROUPS_MAX 4096u

/* ---- services -------------------------------------------------------------------- */

enum cop_upcall_kind {
    COP_UPCALL_CHECK,
    COP_UPCALL_RUN,
    COP_UPCALL_REPLY,
    COP_UPCALL_DONE,
    COP_UPCALL_SENT,
    COP_UPCALL_RESOLVE,
    COP_UPCALL_PIECE,
    COP_UPCALL_WANT,
};
#define COP_WANTS(kind) (1u << (kind))
#define COP_WANTS_ALL 0xffu
/* Beside these: with HEAL, and without bulk, no DONE. */
#define COP_WANTS_BRIEFLY 0x100u

struct cop_service {
    uint64_t id;
    uint32_t version; /* the highest of its requests that it understands, from 1 on */
    uint32_t wants; /* COP_WANTS(COP_UPCALL_...); without RUN it replies with nothing */
};

/* ---- groups ---------------------------------------------------------------------- */

enum cop_group_kind {
    /* Made known to every member before COMPLETE. Fails if somebody cannot be told. */
    COP_GROUP_NOW,
    /* Known here at once; rides with the first broadcasts, until one has reached everybody.
     * COP_ETOOBIG at a broadcast with which it does not fit into COP_BCAST_MAX. */
    COP_GROUP_LAZY,
    /*
     * Everybody knows it by other means, under a name of 16 bytes. Messages carry a digest of
     * the members; one who knows other members refuses. Known here at once; the same number
     * may be given again, with other members.
     */
    COP_GROUP_OOB,
};

/* ---- combining ------------------------------------------------------------------- */

/*
 * What becomes of replies. All of them are associative and do not depend on the order.
 *   STATUS     nothing but who failed and why
 *   SUM MIN MAX  of 64-bit integers (little-endian, signed), element by element
 *   CONCAT     every reply with its member: cop_concat_next
 *   COUNT      every different reply, and who gave it: cop_count_next
 *   HISTOGRAM  how many integers have which highest bit: cop_histogram
 *   TOP        the `argument` largest integers, and whose they are: cop_top_next
 */
enum cop_op {
    COP_OP_STATUS,
    COP_OP_SUM,
    COP_OP_MIN,
    COP_OP_MAX,
    COP_OP_CONCAT,
    COP_OP_COUNT,
    COP_OP_HISTOGRAM,
    COP_OP_TOP,
    COP_OPS
};
#define COP_TOP_MAX 1024u

/* ---- requests -------------------------------------------------------------------- */

enum cop_bcast_flag {
    COP_BCAST_HEAL = 1, /* see above */
    COP_BCAST_LAST =
        2, /* the group ends with it. COP_EAGAIN while others are under way */
    COP_BCAST_ALIVE = 4, /* only to those of the group that are not known to be dead */
    COP_BCAST_STRICT =
        8, /* a member with a lower version refuses, and that ends it all */
    COP_BCAST_BULK = 16, /* with bulk, see below */
};

/*
 * Bulk: any number of bytes that go with a broadcast, in chunks, down the same tree. Nobody
 * has them in memory at once: the service at the root is asked for pieces (WANT) as they are
 * needed, and each member's service is given them in order (PIECE) and says when it has put
 * them away (TAKEN). A member passes a chunk on while it waits for the next, and keeps at
 * most COP_BULK_WINDOW of them: whoever takes its time, service or child, makes it ask for
 * fewer. RUN comes when the bulk is here and its digest is right. If it cannot be had, or the
 * service cannot take it, RUN comes with that `status`: the service does not reply, the
 * library does, with COP_PHASE_BULK. Whoever passed the check, and wants RUN, gets it exactly
 * once, also if the call ends before (COP_EABORTED, COP_ETIMEDOUT, COP_ELOST): then what was
 * taken is to be thrown away.
 *
 * With HEAL a piece may be wanted again until COMPLETE: for a member that lost the one above it,
 * and has missed what the next one above no longer has. So the root's bytes must stay the same.
 * Without HEAL whoever loses the one above it gets RUN with COP_ELOST, as do those below; and there
 * being no time for all of it, a service that neither takes nor gives for 10 s and its service
 * time fails with COP_ETIMEDOUT.
 */
#define COP_BULK_WINDOW 16u
#define COP_BULK_CHUNK (UINT32_C(128) << 10)
#define COP_BULK_CHUNK_MAX (UINT32_C(256) << 10)
#define COP_BULK_MAX (UINT64_C(1) << 40)

/* One payload for one member (scatter); the others get that of the request. */
struct cop_portion {
    cop_id node;
    const void *bytes;
    uint32_t length;
};

/*
 * The rest of a cop_request (its `coll`). COMPLETE comes for those that have a token:
 *
 * COP_REQUEST_SERVICE    service. Replaces one of the same number.
 * COP_REQUEST_UNSERVICE  service.id. Its calls end here, each as a failure of this member.
 * COP_REQUEST_GROUP      group, kind, service.id, name, targets, shape (kind 0: the view's), oob.
 *                        COMPLETE: at once, or for NOW when all know it; cop_bcast_result says
 *                        who does not.
 * COP_REQUEST_GROUP_END  group. COMPLETE when all have heard of it, or cannot.
 * COP_REQUEST_BCAST      group, service.id, flags, version, op, argument, service_ns, portions;
 *                        and of cop_request: bytes, length, timeout_ns (HEAL: of it all, 0 for
 *                        10 s), shape (for COP_GROUP_ALL). COMPLETE: cop_bcast_result.
 *                        COP_ELOST: without HEAL, a member is known to be dead (`lost`).
 * COP_REQUEST_CHECKED    handle, status (not 0: refused), service_ns (0: that of the request).
 * COP_REQUEST_REPLY      handle, status, `more`, `silent`; bytes and length of cop_request.
 * COP_REQUEST_RESOLVED   handle, status, targets.
 * COP_REQUEST_TAKEN      handle, status: the next piece in order is put away, or cannot be (not
 *                        0): then no more come.
 * COP_REQUEST_GIVE       handle, offset, status; bytes and length of cop_request: as long as was
 *                        wanted. Not 0: the bytes cannot be had, and the bulk fails everywhere.
 * COP_REQUEST_ABORT      target: the token of a broadcast. COMPLETE of that one: COP_EABORTED.
 *
 * CHECKED, REPLY and RESOLVED for a handle that is void get COP_ENOENT, a second one COP_ESTATE,
 * and nothing happens. Without HEAL only a reply with `more` may come before DONE (COP_ESTATE).
 */
struct cop_coll {
    struct cop_service service;
    uint64_t group;
    enum cop_group_kind kind;
    const char *name; /* at most COP_NAME_MAX bytes; may be NULL */
    const struct cop_target *targets;
    uint32_t target_count;
    struct cop_shape shape;
    uint8_t oob[16];

    uint32_t flags; /* enum cop_bcast_flag */
    uint32_t version;
    enum cop_op op;
    uint32_t argument;
    cop_time service_ns; /* how long a member may need to run it; without HEAL */
    const struct cop_portion *portions;
    uint32_t portion_count;
    uint64_t bulk_length; /* BULK: COP_BULK_MAX at most */
    uint32_t bulk_chunk;  /* 0: COP_BULK_CHUNK */

    uint64_t handle;
    int status;
    bool more;
    bool silent;     /* REPLY, with HEAL: I want to hear nothing more of this handle */
    uint64_t offset; /* GIVE */
    cop_id *lost;    /* may be NULL: who made BCAST fail with COP_ELOST */
};

/* ---- upcalls --------------------------------------------------------------------- */

/* Where something went wrong. */
enum cop_phase {
    COP_PHASE_NONE,
    COP_PHASE_GROUP,   /* the group is not known there, or has other members */
    COP_PHASE_SERVICE, /* no such service there, or it is gone */
    COP_PHASE_VERSION, /* it understands only a lower version */
    COP_PHASE_CHECK,   /* refused by the service */
    COP_PHASE_RUN,     /* the service replied with an error, or did not reply */
    COP_PHASE_REPLY,   /* nothing was heard: lost, or silent */
    COP_PHASE_BULK,
};
/* Its name, e.g. "check". */
const char *cop_phase_name(enum cop_phase phase);

/* Tags as they are in an upcall, one after the other. */
struct cop_upcall {
    enum cop_upcall_kind kind;
    uint64_t handle;
    uint64_t service;
    uint64_t group;             /* number here; COP_GROUP_ALL */
    cop_id root;                /* who broadcasts */
    uint64_t token;             /* at the root: that of the request; elsewhere 0 */
    uint32_t flags;             /* enum cop_bcast_flag; not for RESOLVE */
    uint32_t version;           /* CHECK, RUN */
    cop_id peer;                /* REPLY: whose */
    int status;                 /* REPLY, DONE, SENT; RUN: of the bulk */
    enum cop_phase phase;       /* REPLY */
    bool more;                  /* REPLY, without HEAL: another one of it follows */
    const struct cop_tag *tags; /* CHECK, RUN */
    uint32_t tag_count;
    const uint8_t
        *bytes;      /* CHECK, RUN: the request; REPLY; RESOLVE: the 16 bytes; PIECE */
    uint32_t length; /* WANT: how many, though there are no bytes */
    uint64_t offset; /* PIECE, WANT */
    uint64_t bulk_length; /* with BULK */
};
/* Reads an UPCALL effect; borrowed from it. COP_EMALFORMED: it is none. */
int cop_upcall(const struct cop_effect *effect, struct cop_upcall *out);
/* The same from the record in it; but the bytes of a PIECE are beside it (`frame.payload` of
 * the effect), and NULL here. */
int cop_upcall_read(const struct cop_buf *record, struct cop_upcall *out);
/* The same with what is beside it; NULL: nothing is. */
int cop_upcall_with(const struct cop_buf *record, const struct cop_buf *beside,
                    struct cop_upcall *out);

/*
 * The tree of a call, seen from this member: its children, and for each how many members and
 * tags are below it and itself. A call is named by its handle; one that is still to be made
 * from here by its group (`handle` 0). COP_ENOENT.
 */
int cop_bcast_nchildren(const struct cop_node *node, uint64_t handle, uint64_t group);
/* Who a child is; COP_ID_NONE if there is no such child. */
cop_id cop_child_id(const struct cop_node *node, uint64_t handle, uint64_t group,
                    uint32_t child);
/* Members in the sub-tree of a child, itself included. */
int cop_child_nodes(const struct cop_node *node, uint64_t handle, uint64_t group,
                    uint32_t child);
/* Tags of all of them. */
int cop_child_entities(const struct cop_node *node, uint64_t handle, uint64_t group,
                       uint32_t child);
/* How long a child is waited for without HEAL: depth x round trip + service time; 0 if there
 * is no such child. */
cop_time cop_child_patience(const struct cop_node *node, uint64_t handle,
                            uint32_t child);

/* The name that a group was given; "" if it has none; NULL if there is no such group. */
const char *cop_group_name(const struct cop_node *node, uint64_t group);
/* What a group is called on the wire: 16 bytes of a cryptographic digest over its service and
 * its ordered members and tags. COP_ENOENT. */
int cop_group_digest(const struct cop_node *node, uint64_t group, uint8_t out[16]);
/* How many groups this node knows; not one whose last broadcast it has answered. */
uint32_t cop_node_groups(const struct cop_node *node);
/* How many calls: nothing may stay for ever. */
uint32_t cop_node_calls(const struct cop_node *node);

/* ---- results --------------------------------------------------------------------- */

struct cop_failure {
    cop_id node;
    cop_id at; /* where: the member itself, or the one above it that is to blame */
    int status;
    enum cop_phase phase;
};

/* Every member of the group is among the answered, or has one failure. */
struct cop_bcast_result {
    uint32_t members, answered;
    struct cop_failure *failures; /* by place in the group */
    uint32_t failure_count;
    uint32_t lowest_version; /* of those that failed by it; 0: nobody did */
    cop_time elapsed_ns;
    enum cop_op op;
    const uint8_t *bytes; /* combined; without HEAL what the service here replied */
    uint32_t length;
};
/* Reads the result of a COMPLETE; `bytes` is borrowed from it. */
int cop_bcast_result(const struct cop_buf *buf, struct cop_bcast_result *out);
/* Frees the failures. */
void cop_bcast_result_free(struct cop_bcast_result *result);

/* SUM, MIN, MAX: how many integers there are. */
uint32_t cop_values(const struct cop_bcast_result *result);
/* The i-th of them. */
int64_t cop_value(const struct cop_bcast_result *result, uint32_t i);
/* Walks through CONCAT by id, as the others below: start with *at = 0; false at the end. */
bool cop_concat_next(const struct cop_bcast_result *result, uint32_t *at, cop_id *node,
                     const uint8_t **bytes, uint32_t *length);
struct cop_id_range {
    cop_id first, last;
};
/* Walks through COUNT: a value, how many gave it, and in how many ranges of ids. */
bool cop_count_next(const struct cop_bcast_result *result, uint32_t *at,
                    const uint8_t **bytes, uint32_t *length, uint32_t *count,
                    uint32_t *range_count);
/* The i-th range of ids of the value that cop_count_next gave with this *at before it. */
struct cop_id_range cop_count_range(const struct cop_bcast_result *result, uint32_t at,
                                    uint32_t i);
/* Walks through TOP. */
bool cop_top_next(const struct cop_bcast_result *result, uint32_t *at, int64_t *value,
                  cop_id *node);
/* How many values v have 2^bit <= v < 2^(bit+1); bit 0 also has 0, bit 63 the negative. */
uint64_t cop_histogram(const struct cop_bcast_result *result, uint32_t bit);

#ifdef __cplusplus
}
#endif

#endif
