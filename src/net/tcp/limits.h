/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_LIMITS_H
#define COP_NET_TCP_LIMITS_H

#include <coppice/types.h>
#include <sys/socket.h>

/*
 * How often an address may fail. Each address has a purse that fills with time, and pays
 * for every connection that came to nothing; while it is empty its connections are closed
 * when they come, before anything is kept or computed for them. An address from which
 * somebody has proved to be a member pays a sixteenth: a neighbour's nonsense must not keep
 * a member out for long.
 *
 * A little is paid when a connection comes, and given back when it was good for something:
 * or as many as one likes could come at the same moment, while none has failed yet.
 *
 * A fixed number of addresses is remembered. Where there is no room, the one with the
 * fullest purse, which has the least to be forgotten, goes. No I/O, no clock.
 */
#define COP__LIMITS_SETS 64u
#define COP__LIMITS_WAYS 4u

#define COP__PURSE_FULL 1024    /* 64 faults of a stranger */
#define COP__PURSE_EACH_SEC 128 /* 8 of them a second */
#define COP__PRICE_FAULT 16     /* it spoke nonsense, or nothing, or has no key */
#define COP__PRICE_END 1        /* it went away before it had proved anything */
#define COP__PRICE_MEMBER 1     /* any of these, where members are */

/* An address without its port; of IPv6 the half that names a network. 0: it has none. */
typedef uint64_t cop__origin;
cop__origin cop__origin_of(const struct sockaddr *address);
/* For people. */
const char *cop__origin_text(cop__origin origin, char *out, size_t size);

struct cop__purse {
    cop__origin origin;
    cop_time filled; /* when `units` was true */
    int32_t units;
    uint32_t members; /* connections of members from there */
};

struct cop__limits {
    struct cop__purse purses[COP__LIMITS_SETS][COP__LIMITS_WAYS];
};

/* Whether a connection from there is looked at; if so, it has paid COP__PRICE_END. */
bool cop__limits_admit(struct cop__limits *limits, cop__origin origin, cop_time now);
/* It came to nothing, by its own fault: it pays the rest of COP__PRICE_FAULT. */
void cop__limits_charge(struct cop__limits *limits, cop__origin origin, cop_time now);
/* It was good for something: what it has paid is given back. */
void cop__limits_refund(struct cop__limits *limits, cop__origin origin, cop_time now);
/* A connection from there is a member's; it no longer is. */
void cop__limits_enter(struct cop__limits *limits, cop__origin origin, cop_time now);
void cop__limits_leave(struct cop__limits *limits, cop__origin origin);

#endif
