/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_SWARM_H
#define COP_SIM_SWARM_H

#include <coppice/sim.h>

#include "base/random.h"

#include <string.h>

/* A script that is being drawn. */
struct cop__draw {
    struct cop__random random;
    struct cop__random own; /* of swarm_member.c */
    struct cop_sim_script *script;
    uint32_t n;
    cop_time span;   /* requests and faults come within it */
    cop_time beat;   /* what a message takes, about */
    cop_time period; /* of detectors; 0: there are none */
    uint32_t flags;
    uint32_t joins; /* places for those who come */
    uint32_t letters;
    bool plots; /* see plots.c */
    int error;
};

static inline uint64_t cop__below(struct cop__draw *draw, uint64_t bound)
{
    return cop__random_below(&draw->random, bound);
}

static inline uint64_t cop__between(struct cop__draw *draw, uint64_t first,
                                    uint64_t last)
{
    return first + cop__below(draw, last - first + 1);
}

static inline bool cop__chance(struct cop__draw *draw, uint32_t percent)
{
    return cop__random_chance(&draw->random, percent, 100);
}

static inline struct cop_sim_action cop__draw_action(enum cop_sim_action_kind kind,
                                                     cop_time at, cop_id a, cop_id b)
{
    struct cop_sim_action made;
    memset(&made, 0, sizeof(made)); /* what is between the fields, too */
    made.kind = kind;
    made.at = at;
    made.a = a;
    made.b = b;
    return made;
}

static inline void cop__draw_add(struct cop__draw *draw,
                                 const struct cop_sim_action *action)
{
    if (draw->error == 0)
        draw->error = cop_sim_script_add(draw->script, action);
}

/* plots.c: some actions that belong together, where views change. */
void cop__draw_plots(struct cop__draw *draw);
/* swarm_member.c: detectors, and how far apart all else is; what they may not tell from deaths;
 * long histories. */
void cop__swarm_detectors(struct cop__draw *draw, bool always);
/* Whether a seed of what is built on views has detectors. */
bool cop__swarm_looks_for_silence(uint64_t seed);
void cop__swarm_silence(struct cop__draw *draw);
void cop__swarm_history(struct cop__draw *draw);
/* Makes broadcasts out of the probes of a script, and groups for them, by its seed. */
int cop__swarm_collectives(struct cop_sim_script *script);
/* Whether the broadcasts of a seed are made where views change. */
bool cop__swarm_calls_change_views(uint64_t seed);

#endif
