/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_WARM_H
#define COP_NET_TCP_WARM_H

#include "net/tcp/clock.h"

#include <coppice/node.h>

struct cop__peers;
struct cop__tcp_stats;

/*
 * A connection in reserve: to whoever is my parent if the one that I have dies, so that then
 * nobody waits for a handshake, neither to be asked nor to answer. It is made when the member
 * has had nothing to do for a moment, and made anew after each view. The node knows nothing
 * of it: that it cannot be had is no evidence. Only where there are handshakes.
 */
struct cop__warmth {
    struct cop__alarm alarm;
    struct cop__clock *clock;
    struct cop__peers *peers;
    const struct cop_node *node;
    const struct cop__tcp_stats *stats;
    uint64_t reads;     /* when the alarm was set */
    uint32_t postponed; /* how often, because there was something to do */
    uint32_t failures;  /* in a row */
    cop_id held;        /* COP_ID_NONE: nobody */
    bool has_begun;     /* there was a view before */
};

void cop__warmth_init(struct cop__warmth *warmth, struct cop__clock *clock,
                      struct cop__peers *peers, const struct cop_node *node,
                      const struct cop__tcp_stats *stats);
/* There may be another one to be had: a new view. */
void cop__warmth_renew(struct cop__warmth *warmth);
/* The connection was lost, or could not be made. */
void cop__warmth_cooled(struct cop__warmth *warmth);
void cop__warmth_fini(struct cop__warmth *warmth);

#endif
