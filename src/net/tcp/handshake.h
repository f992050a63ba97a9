/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_HANDSHAKE_H
#define COP_NET_TCP_HANDSHAKE_H

#include "net/tcp/link.h"

/*
 * Who may talk to whom. The side that connects says HELLO; the other answers WELCOME, and
 * from then on both send frames, or REFUSE, and closes. No I/O, no clock: the same code
 * decides in the driver and in the model that its tests run.
 *
 * Two members may connect to each other at the same moment. Then the connection of the one
 * with the lower id stays: it refuses the other's (CROSSED), and the other drops its own
 * when it accepts. A HELLO that was overtaken like this, or by a later attempt, may still
 * be read when the winning connection is open; it must not replace that one. So each side
 * numbers its attempts, and says its latest number in HELLO and WELCOME: a HELLO with a
 * number that was heard of before is STALE.
 */

/* X(NAME, number on the wire, what the refused one is told) */
#define COP__REFUSALS(X)                                                               \
    X(GARBAGE, 1, "your greeting makes no sense")                                      \
    X(VERSION, 2, "your protocol version is not spoken here")                          \
    X(CLUSTER, 3, "this is another cluster, or another start of it")                   \
    X(STRANGER, 4, "you are not a member of this cluster")                             \
    X(SELF, 5, "you have my own id")                                                   \
    X(RECEIVER, 6, "you are looking for somebody else")                                \
    X(INCARNATION, 7, "a later life of you is known here")                             \
    X(LOST, 8, "frames for you were dropped while you were out of reach; start anew")  \
    X(CROSSED, 9, "my connection to you is on its way")                                \
    X(STALE, 10, "a later connection of yours is here already")                        \
    X(NAME, 11, "your certificate is another member's")

enum cop__refusal {
    COP__REFUSE_NONE = 0,
#define COP__REFUSAL_ENUM(name, number, text) COP__REFUSE_##name = number,
    COP__REFUSALS(COP__REFUSAL_ENUM)
#undef COP__REFUSAL_ENUM
        COP__REFUSAL_COUNT
};
const char *cop__refusal_text(enum cop__refusal refusal);

/* Who we are, to everybody. */
struct cop__identity {
    uint8_t cluster[16];
    uint64_t instance;
    cop_id self;
    cop_incarnation incarnation;
    const struct cop_view *view;
    bool
        is_open; /* views change: the node judges who is a member, and not the handshake */
};

/* What HELLO or WELCOME said, already checked against our identity. */
struct cop__greeting {
    cop_id sender;
    cop_incarnation incarnation;
    uint64_t attempt;
    struct cop__counts counts; /* zero if they are about an earlier life of ours */
};

/* How far our own attempt to connect to the same member has come. */
enum cop__attempt { COP__ATTEMPT_NONE, COP__ATTEMPT_CONNECTING, COP__ATTEMPT_GREETED };

/* Our side of one acquaintance. */
struct cop__acquaintance {
    struct cop__session session;
    uint64_t attempts;       /* how often we tried to connect */
    uint64_t attempts_heard; /* the other side's latest number that we heard of */
};

void cop__acquaintance_init(struct cop__acquaintance *acquaintance);
void cop__acquaintance_fini(struct cop__acquaintance *acquaintance);

/* ---- saying ---------------------------------------------------------------------- */

#define COP__GREETING_MAX 256u

/*
 * Write a whole record; return its length, or 0 if there is no memory. HELLO and WELCOME
 * tell the counts of the session. HELLO is a new attempt, and gets a new number.
 */
size_t cop__hello_write(const struct cop__identity *identity, cop_id receiver,
                        struct cop__acquaintance *acquaintance, bool keep,
                        uint8_t out[COP__GREETING_MAX]);
size_t cop__welcome_write(const struct cop__identity *identity,
                          struct cop__acquaintance *acquaintance, bool keep,
                          uint8_t out[COP__GREETING_MAX]);
/* `later`: the life that is known (INCARNATION), 0 otherwise. */
size_t cop__refuse_write(enum cop__refusal refusal, cop_incarnation later,
                         uint8_t out[COP__GREETING_MAX]);

/* ---- judging --------------------------------------------------------------------- */

/* Decodes a HELLO and judges its sender by what we are, not by what was before. */
enum cop__refusal cop__hello_judge(const struct cop__identity *identity,
                                   const struct cop__item *item,
                                   struct cop__greeting *out);
/* The same for the WELCOME of a member that we connected to. */
enum cop__refusal cop__welcome_judge(const struct cop__identity *identity,
                                     cop_id expected, const struct cop__item *item,
                                     struct cop__greeting *out);
/*
 * Judges a HELLO by what was before. `known` is the latest incarnation that we have heard
 * of, from whomever. NONE: welcome it; an own attempt, if there is one, is to be dropped.
 */
enum cop__refusal cop__hello_admit(const struct cop__identity *identity,
                                   const struct cop__acquaintance *acquaintance,
                                   cop_incarnation known, enum cop__attempt attempt,
                                   const struct cop__greeting *greeting);
/*
 * Takes the greeting of an admitted HELLO or of a WELCOME: the session starts anew or is
 * resumed. GARBAGE if the counts cannot be, LOST if it cannot be resumed, INCARNATION if
 * it is an earlier life: then nothing changed.
 */
enum cop__refusal cop__greeting_accept(struct cop__acquaintance *acquaintance,
                                       const struct cop__greeting *greeting,
                                       uint64_t *resent);

/* What a REFUSE says: its reason, or GARBAGE for one that cannot be read; its text, without
 * anything that a terminal would act on, cut to `size`. */
enum cop__refusal cop__refuse_read(const struct cop__item *item, char *text,
                                   size_t size);

#endif
