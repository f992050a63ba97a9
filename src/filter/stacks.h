/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_STACKS_H
#define COP_FILTER_STACKS_H

#include "filter/ranges.h"

/*
 * Call stacks of many as one prefix tree. The nodes of the tree come in the order in which one
 * walks through it, those below one node by their labels; each has the set of who was there.
 */
#define COP__STACK_DEPTH_MAX 512u
struct cop__frame {
    uint32_t depth; /* 1 for the outermost */
    struct cop_span label;
    struct cop_span set;
};

/* The nodes of a state, one after the other; begin with what cop__state_read gives as body. */
bool cop__frame_next(struct cop__reader *body, struct cop__frame *out);

/* Members of the sets: a leaf alone, or a number at a leaf (a process of a host). */
static inline uint64_t cop__stack_member(cop_id leaf, bool has_number, uint32_t number)
{
    return has_number ? ((uint64_t)leaf + 1) << 32 | number : leaf;
}
static inline cop_id cop__stack_leaf(uint64_t member)
{
    return member >> 32 ? (cop_id)((member >> 32) - 1) : (cop_id)member;
}
static inline bool cop__stack_has_number(uint64_t member) { return member >> 32; }

#endif
