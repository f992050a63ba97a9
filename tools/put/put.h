/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_PUT_PUT_H
#define COP_TOOLS_PUT_PUT_H

#include "wire/codec.h"

#include <coppice/coll.h>

/*
 * What `coppice put` says to its agent, and the agent to the members. The file is the bulk of a
 * broadcast. A member writes it to a file without a name (or with a hidden one, where that is
 * not possible) in the folder where it is to be, and gives it its name when it has all of it.
 * It replies with nothing, or with a sentence that says what went wrong: equal ones are counted
 * in the tree. A member that cannot write still passes everything on.
 */
#define PUT_SERVICE UINT64_C(0x707574)
#define PUT_VERSION 1u
#define PUT_WANTS                                                                      \
    (COP_WANTS(COP_UPCALL_CHECK) | COP_WANTS(COP_UPCALL_RUN) |                         \
     COP_WANTS(COP_UPCALL_SENT) | COP_WANTS(COP_UPCALL_PIECE) |                        \
     COP_WANTS(COP_UPCALL_WANT))
#define PUT_PATH_MAX 1024u
#define PUT_TEXT_MAX 256u /* of what went wrong */
/* What a member replies that may not write for whoever asks. */
#define PUT_REFUSED "refused: the agent was not started with --allow-exec for this"

enum put_flag {
    PUT_NOT_ROOT = 1, /* the root only reads */
};

/* The command to the agent: all of it. The agent to the members: no file, no ids, no time. */
struct put_order {
    uint8_t flags;
    uint32_t mode;
    cop_time timeout_ns;
    struct cop__bytes file, dest, user, shape; /* not ended by 0 */
    struct cop__list ids; /* who is meant, as ranges of 8 bytes; none: everybody */
};
/* NULL: no memory. */
struct cop_buf *put_order_encode(const struct put_order *order);
/* 0 or COP_EMALFORMED; all is borrowed. */
int put_order_decode(struct cop__bytes bytes, struct put_order *out);

/* A reply with `more` is how far it is: bytes read, and all. The last one is the result of the
 * broadcast. */
struct cop_buf *put_news_encode(uint64_t done, uint64_t all);
int put_news_decode(struct cop__bytes bytes, uint64_t *done, uint64_t *all);

/* The name at a member: "%m" is the member's own name, "%%" a percent sign. Ended by 0.
 * COP_EINVAL: not a path from the root on, or another "%"; COP_ETOOBIG. */
int put_expand(struct cop__bytes dest, const char *member, char out[PUT_PATH_MAX]);

#endif
