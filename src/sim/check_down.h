/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_CHECK_DOWN_H
#define COP_SIM_CHECK_DOWN_H

#include <coppice/filter.h>
#include <coppice/sim.h>
#include <coppice/view.h>

/*
 * What streams were opened under one number, and what filters down must give (T21), for the checker
 * of streams. The latter is said here once more, for the three filters that simulations use, and
 * without any code of theirs.
 */

/* A definition (T1): the tree and the back-ends of when it was planned. */
struct cop__plan {
    struct cop__plan *next;
    struct cop_buf *definition;
    struct cop_buf *empty; /* the state of nothing */
    struct cop_buf *all;   /* and of all that was given, for the checker */
    uint32_t n, back_ends;
    uint32_t *parents; /* by place; that of the top is itself */
    uint32_t *index;   /* of a back-end among them; UINT32_MAX: it is none */
};

/* By what this node has the stream; it is added to the list if it is new. NULL: the node has not the
 * stream, or (COP_ENOMEM in *error) there is no memory. */
struct cop__plan *cop__plan_of(struct cop__plan **list, const struct cop_node *node,
                               uint64_t number, int *error);
void cop__plans_free(struct cop__plan *list);
/* Whether a back-end may be told this of a packet. */
bool cop__plan_gives(const struct cop__plan *plan, const struct cop_sim_stream *stream,
                     cop_id id, struct cop_span sent,
                     const struct cop_stream_event *told);

#endif
