/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_SESSION_H
#define COP_NET_TCP_SESSION_H

#include <coppice/node.h>

/*
 * What two living incarnations have said to each other, apart from any connection. Frames
 * are counted in each direction; those sent are kept until the other side has counted them,
 * so that a new connection can go on where the old one broke. No I/O, no clock.
 *
 * The two classes of frames are two lanes: each has its own numbers and its own order, so
 * that control can overtake bulk without anybody losing count.
 *
 * Invariants, of each lane:
 *   1. The kept frames have the numbers counted + 1 .. counted + count, in order.
 *   2. The first `sent` of them were given, whole, to the connection of now.
 *   3. told <= received: nobody is told of frames that did not come.
 */
enum cop__lane_index { COP__LANE_CONTROL, COP__LANE_BULK, COP__LANES };

/* One frame on the wire, with its record. Bulk frames cut in pieces are a little longer. */
#define COP__KEPT_OVERHEAD 72u
/* A peer that lets more than this pile up is given up for lost (see cop__session_push). */
#define COP__SESSION_KEPT_MAX (UINT64_C(64) << 20)
/* Uncounted frames or bytes after which the count is sent even if nothing else is. */
#define COP__SESSION_UNTOLD_FRAMES 32u
#define COP__SESSION_UNTOLD_BYTES (UINT32_C(256) << 10)

struct cop__kept {
    struct cop_header header;
    struct cop_buf *payload; /* a reference, or NULL */
};

struct cop__lane {
    struct cop__kept *ring;
    uint32_t capacity; /* 0 or a power of two */
    uint32_t first, count;
    uint32_t sent;
    uint64_t counted;
    uint64_t offered; /* the highest number that any connection was given */
    uint64_t received, told;
};

struct cop__session {
    cop_incarnation incarnation; /* of the other side; 0 while it is not known */
    struct cop__lane lanes[COP__LANES];
    uint64_t kept_bytes, unsent_bytes;
    uint32_t untold_bytes;
    bool lost; /* frames had to be dropped: this incarnation cannot be resumed */
};

/* How many frames of each lane came: what the two sides tell each other. */
struct cop__counts {
    uint64_t lanes[COP__LANES];
};

void cop__session_init(struct cop__session *session);
void cop__session_fini(struct cop__session *session);

/* ---- sending --------------------------------------------------------------------- */

/*
 * Keeps a frame and takes a reference to its payload.
 *   COP_ENOMEM  not kept
 *   COP_ELOST   too much is kept: the frame is dropped, and `lost` set. Cut the connection
 *               and refuse this incarnation from now on; every later push says the same
 *               until another one begins.
 */
int cop__session_push(struct cop__session *session, enum cop__lane_index index,
                      const struct cop_frame *frame);
/* The oldest frame of the lane that the connection was not given yet, or NULL. Borrowed
 * until the next call that changes the session. */
const struct cop__kept *cop__session_next(const struct cop__session *session,
                                          enum cop__lane_index index);
/* The frame that cop__session_next returns has been given to the connection, whole. */
void cop__session_advance(struct cop__session *session, enum cop__lane_index index);
/* Something is kept, sent or not. */
bool cop__session_is_owing(const struct cop__session *session);

/* ---- receiving and counting ------------------------------------------------------ */

/* One more frame came, of `bytes` on the wire. */
void cop__session_received(struct cop__session *session, enum cop__lane_index index,
                           uint32_t bytes);
struct cop__counts cop__session_counts(const struct cop__session *session);
/* The counts of now were written into a record that will be sent. */
void cop__session_told(struct cop__session *session);
bool cop__session_has_untold(const struct cop__session *session);
/* So much is untold that it should be told even without a frame to go with it. */
bool cop__session_must_tell(const struct cop__session *session);
/*
 * The other side says how many frames came. COP_EMALFORMED if it cannot be (fewer than it
 * said before, or more than it was given): then nothing changed, cut the connection.
 */
int cop__session_counted(struct cop__session *session,
                         const struct cop__counts *counts);

/* ---- connections ----------------------------------------------------------------- */

/*
 * The other side lives as `incarnation`. If that is not the one of before, everything starts
 * at zero, and kept frames that were meant for an earlier life are dropped. Returns whether
 * it changed.
 */
bool cop__session_meet(struct cop__session *session, cop_incarnation incarnation);
/* The connection is gone: whatever is kept is unsent again. */
void cop__session_break(struct cop__session *session);
/*
 * A new connection, whose other side has `counts` of our frames; the rest is to be sent
 * again. *resent (may be NULL) gets how many of those an earlier connection was given
 * already. COP_EMALFORMED if the counts cannot be: then nothing changed.
 */
int cop__session_resume(struct cop__session *session, const struct cop__counts *counts,
                        uint64_t *resent);

/* NULL, or the text of the first invariant that does not hold. */
const char *cop__session_check(const struct cop__session *session);

#endif
