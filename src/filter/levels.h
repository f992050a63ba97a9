/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_LEVELS_H
#define COP_FILTER_LEVELS_H

#include "filter/filter.h"

#include <coppice/tree.h>

/*
 * The filter `levels`: one filter for each level of a tree, the lowest first. A *group* of a
 * stage is what hangs below one place of the *planned* tree, at the level at which the stage
 * ends; so who is in it does not depend on how a tree has mended itself meanwhile. What a stage
 * says of a group is a packet for the next, whose `leaf` is the place of the group and whose
 * wave is 0. See coppice/filter.h for how stages are written.
 *
 * A state is a list of (stage, group, state of that stage's filter), in this order. Lifting
 * makes an entry of the first stage; joining joins what has the same key. That is all that the
 * laws are about. *Closing* a group takes its entry out, and joins what it says to the next
 * stage. It may be done wherever nothing of the group can come from elsewhere, and in the end
 * is done with all: so where and when it was done cannot be seen in the result.
 */
#define COP__LEVELS_MAX 4u
#define COP__LEVELS_PARAMS 95u

struct cop__stage {
    const struct cop_filter *filter;
    char type[COP_FILTER_NAME_MAX + 1]; /* of what it is given */
    char params[COP__LEVELS_PARAMS + 1];
    uint32_t level; /* where it ends; 0: the last */
};
struct cop__levels {
    uint32_t count;
    struct cop__stage stages[COP__LEVELS_MAX];
    struct cop_tree plan; /* n is 0: there is none, and everybody is a group */
};

static inline bool cop__filter_is_levels(const struct cop_filter *filter)
{
    return filter == &cop__filter_levels;
}

/* Reads parameters, with or without a plan. COP_EINVAL; `why` gets a sentence. */
int cop__levels_parse(struct cop_span type, struct cop_span params,
                      struct cop__levels *out, const char **why);
/* The same of a state. COP_EMALFORMED. */
int cop__levels_of(const struct cop_buf *state, struct cop__levels *out);
/* `params` with a plan behind them, as text. COP_EINVAL: there is one, or it is too long. */
int cop__levels_plan(const char *params, const struct cop_shape *shape, uint32_t n,
                     char out[COP_FILTER_PARAMS_MAX + 1]);
/* The group of a place at a level: what hangs there. Who is not in the plan is one of its own. */
cop_id cop__levels_group(const struct cop__levels *levels, uint32_t level, cop_id id);

/* Whether a group of a level may be closed. */
typedef bool cop__levels_may(void *context, uint32_t level, cop_id group);
/* Closes what may be closed; NULL: all. The errors of filters: then nothing is closed. */
int cop__levels_close(const struct cop_buf *state, cop__levels_may *may, void *context,
                      struct cop_buf **out);

/* Can waves be joined in its states? `params` as of init. */
bool cop__filter_is_cumulative(const struct cop_filter *filter, const char *type,
                               const char *params);

#endif
