/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TRIAL_TRIAL_DOWN_H
#define COP_TOOLS_TRIAL_TRIAL_DOWN_H

#include <coppice/stream.h>

/*
 * The filter down of a trial of streams: packets of which it is known what each back-end must be
 * given, by its number and its planned place alone.
 */
#define TRIAL_DOWN_MAX 4096u

struct trial_down {
    const char *filter; /* NULL: there is none */
    const struct cop_tree *tree;
    cop_id first, middle; /* of the back-ends, which are the last in the order of ids */
    char params[32];
};

/* False: there is no such filter here. `tree` is borrowed. */
bool trial_down_init(struct trial_down *down, const char *filter,
                     const struct cop_tree *tree);
void trial_down_open(const struct trial_down *down, struct cop_stream_options *options);
/* Packet `number`, and how many bytes. */
uint32_t trial_down_packet(const struct trial_down *down, uint64_t number,
                           uint8_t out[TRIAL_DOWN_MAX]);
/* Whether packets are for it at all. */
bool trial_down_is_for(const struct trial_down *down, cop_id id);
/* Whether this is what it must be given. */
bool trial_down_is_right(const struct trial_down *down, cop_id id,
                         const struct cop_stream_event *event);

#endif
