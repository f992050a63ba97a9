/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SWEEP_COVER_H
#define COP_SWEEP_COVER_H

#include "wire/codec.h"

#include <coppice/tree.h>

/*
 * A set of ranks, written as differences along a tree: "the sub-tree of 4, but for 9".
 * It says whom an answer covers in bytes that grow with the exceptions, not with n.
 *
 * A mark adds or takes away 1 at a rank: for its whole sub-tree, or for it alone. The
 * value of a rank is the sum of the sub-tree marks on it and above it, plus its own
 * single mark. In a set every value is 0 or 1. Because values add, the union of sets
 * that do not overlap is the sum of their marks, and marks that cancel vanish.
 *
 * The tree is always the one without deaths: all who take part know it.
 */
enum cop__mark_mode {
    COP__TREE_IN = 0,  /* +1 for the sub-tree */
    COP__TREE_OUT = 1, /* -1 for the sub-tree */
    COP__ONE_IN = 2,   /* +1 for the rank */
    COP__ONE_OUT = 3,  /* -1 for the rank */
};

/* Up to this many marks need no memory of their own: the whole sub-tree, or one rank, of
 * a healthy sweep. */
#define COP__COVER_INLINE 2u

struct cop__cover {
    uint32_t count, capacity; /* capacity 0: the marks are in `few` */
    union {
        struct cop__mark few[COP__COVER_INLINE];
        struct cop__mark *many;
    } marks;
};

/* The marks: sorted by rank, sub-tree marks before single ones. */
static inline const struct cop__mark *cop__cover_marks(const struct cop__cover *cover)
{
    return cover->capacity ? cover->marks.many : cover->marks.few;
}

void cop__cover_fini(struct cop__cover *cover);

/* Appends a mark without sorting; call settle when all are there. */
int cop__cover_add(struct cop__cover *cover, cop_rank rank, enum cop__mark_mode mode);
/* Appends all marks of another. */
int cop__cover_add_all(struct cop__cover *cover, const struct cop__cover *other);
/* Sorts, and removes what cancels. Enough where each sub-tree is described by one
 * part. */
void cop__cover_settle(struct cop__cover *cover);
/*
 * Settles, and writes the same set anew. Where several parts describe one sub-tree, as
 * after a false suspicion, their sum may give a sub-tree 2 and take 1 from its top:
 * right as a set, but not in the form that others accept.
 */
int cop__cover_rewrite(const struct cop_tree *tree, struct cop__cover *cover);

/* Turns in into out and the other way round; add the whole tree for the complement. */
void cop__cover_negate(struct cop__cover *cover);

bool cop__cover_has(const struct cop_tree *tree, const struct cop__cover *cover,
                    cop_rank rank);
uint32_t cop__cover_size(const struct cop_tree *tree, const struct cop__cover *cover);

/* How two sets lie to each other. */
enum cop__relation {
    COP__DISJOINT, /* nothing in common (also if one is empty) */
    COP__INSIDE,   /* a is contained in b, or equal */
    COP__AROUND,   /* a contains b and more */
    COP__OVERLAP,  /* something in common, and something of each outside the other */
};
/* How many ranks are in both. */
int cop__cover_common(const struct cop_tree *tree, const struct cop__cover *a,
                      const struct cop__cover *b, uint32_t *out);
int cop__cover_compare(const struct cop_tree *tree, const struct cop__cover *a,
                       const struct cop__cover *b, enum cop__relation *out);

/* All ranks in the set, sorted. */
int cop__cover_collect(const struct cop_tree *tree, const struct cop__cover *cover,
                       struct cop_ranks *out);

/*
 * Reads marks off the wire. COP_EMALFORMED if they are not sorted, name a rank that is
 * not below `top`, or give a value other than 0 and 1 anywhere. COP_ENOMEM.
 */
int cop__cover_decode(const struct cop_tree *tree, cop_rank top, struct cop__list list,
                      struct cop__cover *out);
/* Bytes of the marks, and writing them one after the other. */
size_t cop__cover_bytes(const struct cop__cover *cover);
void cop__cover_put(struct cop__writer *writer, const struct cop__cover *cover);

#endif
