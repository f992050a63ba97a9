/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_ASK_AGREER_H
#define COP_TOOLS_ASK_AGREER_H

#include "talk/agree_body.h"
#include "talk/client.h"

/* Agreements, asked of one agent: for `agree` and `bench agree`. */
struct agreer {
    cop_id self;
    uint32_t members; /* of the group */
    uint32_t count;   /* fewer than were ordered if one did not end in time */
    struct agree_sample *samples;
    cop_epoch epoch; /* these four of the last agreement */
    cop_id root;
    struct cop_ranks failed;
    enum agree_verdict verdict;
};

/* 0; the error of the agent, of the connection, or COP_ENOMEM. */
int agreer_run(struct client *client, const struct agree_order *order,
               struct agreer *out);
void agreer_free(struct agreer *agreer);

/* The elapsed times, sorted, to be freed; NULL: no memory. */
cop_time *agreer_sorted(const struct agreer *agreer);

#endif
