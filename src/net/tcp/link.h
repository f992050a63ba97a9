/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_LINK_H
#define COP_NET_TCP_LINK_H

#include <sys/uio.h>

#include "net/tcp/session.h"
#include "wire/codec.h"
#include "wire/header.h"

/*
 * One connection as a stream of records: bytes in, records out, and the other way round.
 * Where the bytes come from and go to is not known here (see stream.h), so that something
 * that encrypts them can stand in between. No I/O, no clock.
 */

/* BULK frames are cut into pieces of this size, so that control can go in between. */
#define COP__PIECE_SIZE (UINT32_C(16) << 10)
/* Those with so much payload are not sent if the other side can read them where they lie. */
#define COP__THERE_LEAST (UINT32_C(32) << 10)

/* ---- bytes in -------------------------------------------------------------------- */

/*
 * An incremental parser. A record may come in any number of parts. Nothing is allocated for
 * a length that was not checked; what is claimed before the handshake is at most 1 KiB.
 */
struct cop__parser {
    enum {
        COP__PARSE_RECORD,
        COP__PARSE_HEADER,
        COP__PARSE_BODY,
        COP__PARSE_SKIP,
        COP__PARSE_PLACE /* SHOW, THERE: where something lies */
    } state;
    uint32_t part_length;
    uint32_t left; /* bytes of the body of the record still to come */
    uint32_t filled;
    struct cop__record record;
    struct cop_frame now; /* the frame, or in `payload` the greeting, being filled */
    /* The BULK frame of which the pieces so far have come; aside while others come. */
    struct cop_frame bulk;
    uint32_t bulk_filled;
    bool bulk_is_open, bulk_is_skipped;
    uint8_t part[COP__THERE_SIZE]; /* a record or header that is not whole yet */
};

/* What cop__link_input found. */
struct cop__item {
    uint8_t type; /* enum cop__record_type; FRAME for a whole BULK frame, too */
    bool
        skipped; /* FRAME: of an unknown kind or a newer minor version; there is none */
    struct cop__record record;
    struct cop_frame frame; /* FRAME: payload to be given back by the caller */
    struct cop_buf *body;   /* HELLO, WELCOME, REFUSE: to be given back by the caller */
    uint64_t address;       /* SHOW: of the mark; THERE: of the payload of `frame` */
    uint8_t mark[COP__MARK_SIZE]; /* SHOW */
};

/* ---- the link -------------------------------------------------------------------- */

struct cop__link {
    struct cop__session *session; /* NULL until cop__link_open */
    uint32_t bulk_offset;         /* of the next piece in the BULK frame being sent */
    bool keep;                    /* we need the connection */
    bool other_keeps;             /* the other side needs it */
    bool must_tell;               /* send the counts even without a frame */
    bool takes_commands;          /* before it is open, too: one COMMAND at a time */
    /* Where both ends are processes of one user (sight.h): what the other side must find to
     * read our memory. It lies still as long as the connection is open. NULL: not here. */
    const uint8_t *mark;
    enum { COP__NOT_SHOWN, COP__SHOWN, COP__SEEN } shown;
    bool must_see; /* we have found the other side's mark, and are to say so */
    struct cop__parser parser;
};

void cop__link_init(struct cop__link *link);
void cop__link_fini(struct cop__link *link);
/* The handshake is over: frames may go, counted by `session`. */
void cop__link_open(struct cop__link *link, struct cop__session *session);

/*
 * Takes bytes from the front of `in`. 1: *out is filled; there may be more in `in`. 0: `in`
 * is used up. COP_EMALFORMED, COP_ETOOBIG, COP_EVERSION: the other side speaks nonsense; cut
 * the connection. COP_ENOMEM: cut it as well, nothing is lost by that. Counts are taken and
 * frames counted on the way.
 */
int cop__link_input(struct cop__link *link, struct cop__bytes *in,
                    struct cop__item *out);

/* The payload of a THERE was read: it is a frame that came, and counted. */
void cop__link_fetched(struct cop__link *link, struct cop__item *item,
                       struct cop_buf *payload);

/* ---- bytes out ------------------------------------------------------------------- */

/*
 * What is to be written next: heads and small payloads are copied to `space`, large ones
 * stay where they are, so the batch holds until the session changes. The spans are those of
 * the kernel, and are only read.
 */
#define COP__BATCH_SPANS 64u
#define COP__BATCH_SPACE (UINT32_C(64) << 10) /* enough for many; 8 KiB is the least */
#define COP__BATCH_BYTES (UINT32_C(256) << 10)
struct cop__batch {
    uint8_t *space; /* given by the caller */
    size_t size, used;
    size_t bytes;
    uint32_t count;
    uint32_t frames; /* whole ones, or pieces; the rest are counts and greetings */
    struct iovec spans[COP__BATCH_SPANS];
};

void cop__batch_init(struct cop__batch *batch, uint8_t *space, size_t size);
/* Adds bytes that are copied. There must be room: for a few small records there is. */
void cop__batch_copy(struct cop__batch *batch, const void *data, size_t length);
/*
 * Adds what the link has to say, control before bulk, as far as there is room, and counts
 * it as given to the connection. Returns whether there is more: then call again when this
 * is written.
 */
bool cop__link_gather(struct cop__link *link, struct cop__batch *batch);
/* Adds a record without body (BYE). */
void cop__link_say(struct cop__link *link, struct cop__batch *batch,
                   enum cop__record_type type);

#endif
