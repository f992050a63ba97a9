/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_ASK_ASKER_H
#define COP_TOOLS_ASK_ASKER_H

#include "talk/client.h"

/* A run of probes, asked of one agent: for `probe`, `bench` and `demo`. */
struct asker {
    cop_id self;
    uint32_t members;
    uint32_t count;                /* samples so far */
    struct probe_sample *samples;  /* in the order of the probes */
    struct cop_ranks dead, silent; /* of the last probe */
};

/*
 * Runs the probes and collects the samples. After every chunk `chunk` is called, if it
 * is not NULL, while the run goes on; another value than 0 ends it. 0; the error of the
 * agent, of the connection, or COP_ENOMEM.
 */
int asker_run(struct client *client, const struct probe_command *command,
              int (*chunk)(void *context, const struct asker *asker), void *context,
              struct asker *out);
/* The same for broadcasts. */
int asker_bcast(struct client *client, const struct bcast_command *command,
                struct asker *out);
void asker_free(struct asker *asker);

/* The elapsed times of samples [from, to), sorted, to be freed; NULL: no memory. */
cop_time *asker_sorted(const struct asker *asker, uint32_t from, uint32_t to);

#endif
