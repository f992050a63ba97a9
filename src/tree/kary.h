/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TREE_KARY_H
#define COP_TREE_KARY_H

#include "tree/shape.h"

/* What kary and radix, two ways to number the same tree, have in common. */
cop_rank cop__kary_first_child(const struct cop__layout *at, cop_rank place);
cop_rank cop__kary_next_child(const struct cop__layout *at, cop_rank place,
                              cop_rank child);
uint32_t cop__kary_child_count(const struct cop__layout *at, cop_rank place);
uint32_t cop__kary_size(const struct cop__layout *at, cop_rank place);
uint32_t cop__kary_depth(const struct cop__layout *at, cop_rank place);
bool cop__kary_next_span(const struct cop__layout *at, cop_rank place,
                         struct cop__span *span);

#endif
