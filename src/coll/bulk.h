/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_COLL_BULK_H
#define COP_COLL_BULK_H

#include "coll/state.h"

/*
 * The bulk of one call at one member: a window of chunks that slides over it. Chunks come in
 * order, from whoever is above (pull.c), or at the root from the service; they go to the
 * service here and to those below, and leave the window when all of these have them. The
 * last chunk of all is the digest of the others.
 *
 * Invariants: base <= taken <= shown <= have <= base + COP_BULK_WINDOW; the window has a
 * chunk exactly from base up to have; nobody was promised room (granted) beyond the window.
 */

#define COP__CHUNK_NONE UINT32_MAX
/* Nothing came for so long: one asks again. */
#define COP__BULK_RETRY COP_SEC
/* Nothing was taken for so long, for each level of those who take: they are not waited for. */
#define COP__BULK_STALL (10 * COP_SEC)

/* Somebody who pulls from me, or will. */
struct cop__taker {
    cop_id id;
    cop_incarnation incarnation; /* 0: not heard of yet */
    uint32_t next;               /* it has all before this one */
    uint32_t sent;               /* all before this one are on their way */
    uint32_t limit;              /* it has room for those before this one */
    cop_time moved;              /* when it last got on */
    bool holds;                  /* the window waits for it */
};

struct cop__bulk {
    struct cop__node_timer timer;
    struct cop__call *call;
    uint32_t count; /* of chunks, with the digest */
    uint32_t base, taken, shown, have;
    cop_time
        took; /* when the service here last took something, or had nothing to take */
    struct cop_buf *window[COP_BULK_WINDOW]; /* payloads of CHUNK, by index */
    struct cop__digest digest;               /* of what came */
    bool serves;                             /* the service here is to run it */
    bool sinks;                              /* and gets the pieces */
    int status;                              /* it failed for good, below, too */
    cop_rank blamed;                         /* at whom */
    bool moves; /* something changed: the end of the step looks after it */

    struct cop__taker *takers;
    uint32_t taker_count, taker_capacity;

    /* As one who pulls: */
    cop_id parent;  /* in the sweep, when it was last looked at */
    cop_id source;  /* from whom: the parent, or the root to catch up; NONE */
    uint32_t until; /* the parent has what follows from here; NONE */
    uint32_t told, granted;
    cop_time moved;
    uint32_t unanswered; /* questions since then */
    bool watches;

    /* At the root: */
    uint32_t asked; /* of the service; NONE */
    bool repeated;  /* that was for somebody who missed it */
};

/* bulk.c */
bool cop__bulk_is_root(const struct cop__bulk *bulk);
/* The next chunk, in a payload of CHUNK; takes over the reference. */
void cop__bulk_append(struct cop_node *node, struct cop__bulk *bulk,
                      struct cop_buf *payload, struct cop__bytes data);
/* It will not be had: somebody at this place is to blame. */
void cop__bulk_fail(struct cop_node *node, struct cop__bulk *bulk, int status,
                    cop_rank at);
/* Lets the window slide, and passes on what there is. */
void cop__bulk_go_on(struct cop_node *node, struct cop__bulk *bulk);
uint32_t cop__bulk_length_of(const struct cop__bulk *bulk, uint32_t index);

/* reach.c: where a call goes, whether it heals or not. */
const struct cop_tree *cop__bulk_tree(const struct cop__bulk *bulk);
cop_rank cop__bulk_self(const struct cop__bulk *bulk);
/* NONE: it is not of the call. */
cop_rank cop__bulk_place_of(const struct cop__bulk *bulk, cop_id id);
cop_id cop__bulk_id(const struct cop__bulk *bulk, cop_rank rank);
bool cop__bulk_is_lost(const struct cop_node *node, const struct cop__bulk *bulk,
                       cop_rank rank);
/* Who asked me, and has the bulk; NONE at the root. */
cop_id cop__bulk_asker(const struct cop__bulk *bulk);
/* What a call is called in PULL and CHUNK. */
uint64_t cop__bulk_number(const struct cop__call *call);

/* pull.c */
enum cop__chunk_what { CHUNK_DATA, CHUNK_GONE, CHUNK_FAILED };
struct cop_buf *cop__chunk_make(const struct cop__call *call, uint32_t index,
                                struct cop__bytes data);
struct cop__taker *cop__bulk_taker(struct cop_node *node, struct cop__bulk *bulk,
                                   cop_id id);
void cop__bulk_serve(struct cop_node *node, struct cop__bulk *bulk);
void cop__bulk_say_failed(struct cop_node *node, const struct cop__bulk *bulk,
                          const struct cop__taker *taker);
/* Asks for more if there is room for enough. */
void cop__bulk_pull(struct cop_node *node, struct cop__bulk *bulk);
void cop__bulk_leave_source(struct cop_node *node, struct cop__bulk *bulk);
void cop__bulk_mind_parent(struct cop_node *node, struct cop__bulk *bulk);
void cop__bulk_retry(struct cop_node *node, struct cop__bulk *bulk);
/* How long somebody who takes may stand still. */
cop_time cop__bulk_stall(const struct cop__bulk *bulk, cop_rank rank);

#endif
