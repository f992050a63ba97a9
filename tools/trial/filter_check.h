/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TRIAL_FILTER_CHECK_H
#define COP_TOOLS_TRIAL_FILTER_CHECK_H

#include "filter/laws.h"

/*
 * Trying the laws of filters in a process of its own: a filter of somebody else may crash or
 * never return, and that is an answer, too. The process and its parent share one page of
 * results.
 */
#define FILTER_TRIALS_MAX 64u
#define FILTER_EXAMPLE_MAX 1024u

struct filter_trial {
    char filter[COP_FILTER_NAME_MAX + 1];
    char type[COP_FILTER_NAME_MAX + 1];
    char params[COP_FILTER_PARAMS_MAX + 1];
    bool done;
    struct cop__law_report report;
    char example[FILTER_EXAMPLE_MAX]; /* packets of the smallest case, one on a line */
};

struct filter_trials {
    int error;     /* of loading, or COP_ENOMEM */
    char why[512]; /* and what is to be said of it */
    volatile uint32_t law_now;
    volatile uint32_t count; /* begun; the last may not be done */
    struct filter_trial at[FILTER_TRIALS_MAX];
    bool finished; /* the process came to its end */
    int signal;    /* what ended it otherwise; 0: a filter has called exit */
};

struct filter_wishes {
    const char *what; /* a name or a path */
    const char *type; /* NULL: every type that it takes */
    const char *params;
    uint64_t seed, runs;
    uint64_t seconds; /* of CPU, for all of it */
};

/* Shared memory; filter_trials_free. NULL: errno says why. */
struct filter_trials *filter_trials_run(const struct filter_wishes *wishes);
void filter_trials_free(struct filter_trials *trials);

#endif
