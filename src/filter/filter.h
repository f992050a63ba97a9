/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_FILTER_H
#define COP_FILTER_FILTER_H

#include <coppice/filter.h>

/* The built-in filters, in the order in which they are listed. */
#define COP__FILTERS(X)                                                                \
    X(min)                                                                             \
    X(max)                                                                             \
    X(sum)                                                                             \
    X(count)                                                                           \
    X(mean)                                                                            \
    X(variance)                                                                        \
    X(union)                                                                           \
    X(concat)                                                                          \
    X(histogram)                                                                       \
    X(top)                                                                             \
    X(quantiles)                                                                       \
    X(distinct)                                                                        \
    X(classes)                                                                         \
    X(aligned)                                                                         \
    X(skew)                                                                            \
    X(graph)                                                                           \
    X(stacks)                                                                          \
    X(hosts)                                                                           \
    X(levels)                                                                          \
    X(scatter)                                                                         \
    X(select)                                                                          \
    X(path)

#define COP__FILTER_DECLARE(name) extern const struct cop_filter cop__filter_##name;
COP__FILTERS(COP__FILTER_DECLARE)
#undef COP__FILTER_DECLARE

bool cop__filter_is_ours(const struct cop_filter *filter);

/*
 * Those of coppice/filter.h, which also say whether it is the library that has no memory: a filter
 * of somebody else says COP_ENOMEM for reasons of its own.
 */
int cop__filter_init(const struct cop_filter *filter, const char *type,
                     const char *params, bool *is_short, struct cop_buf **out);
int cop__filter_lift(const struct cop_filter *filter, const struct cop_buf *empty,
                     const struct cop_packet *packet, bool *is_short,
                     struct cop_buf **out);
int cop__filter_join(const struct cop_filter *filter, struct cop_buf *a,
                     struct cop_buf *b, bool *is_short, struct cop_buf **out);
int cop__filter_check(const struct cop_filter *filter, const struct cop_buf *empty,
                      struct cop_span state, bool *is_short);
int cop__filter_ready(const struct cop_filter *filter, const char *type,
                      const char *params, bool *is_short, struct cop_buf **out);
int cop__filter_down(const struct cop_filter *filter, const struct cop_buf *ready,
                     const struct cop_place *place, const struct cop_packet *packet,
                     bool *is_short, struct cop_buf **out);

/*
 * What cop_filter_join makes of the two, written over `state`. False: that cannot be done, for
 * others have it too or it would be of another length, and it is as it was.
 */
bool cop__filter_absorb(const struct cop_filter *filter, struct cop_buf *state,
                        struct cop_span with);
bool cop__sum_absorb(struct cop_buf *state, struct cop_span with);
/* Whether its bytes alone say that this is a state, and of the same parameters. */
bool cop__sum_is_like(const struct cop_buf *empty, struct cop_span state);

#endif
