/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_CHECK_DOWN_H
#define COP_SIM_CHECK_DOWN_H

#include <coppice/filter.h>
#include <coppice/sim.h>
#include <coppice/view.h>

/*
 * What filters down must give (T21), for the checker of streams. It is said here once more, for
 * the three filters that simulations use, and without any code of theirs.
 */

/* The tree and the back-ends of when a stream was opened. */
struct cop__plan {
    uint32_t n, back_ends;
    uint32_t *parents; /* by place; that of the top is itself */
    uint32_t *index;   /* of a back-end among them; UINT32_MAX: it is none */
};

/* COP_ENOMEM. */
int cop__plan_make(const struct cop_view *view, uint32_t flags, struct cop__plan *out);
void cop__plan_free(struct cop__plan *plan);
/* Whether a back-end may be told this of a packet. */
bool cop__plan_gives(const struct cop__plan *plan, const struct cop_sim_stream *stream,
                     cop_id id, struct cop_span sent,
                     const struct cop_stream_event *told);

#endif
