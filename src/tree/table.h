/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TREE_TABLE_H
#define COP_TREE_TABLE_H

#include <coppice/tree.h>
#include <stdatomic.h>

/*
 * What a shape cannot compute: the parents that a topology file gave, or the hosts of
 * the ranks. Never written after it was made, and counted by reference, atomically: a view
 * that an application holds on another thread may be the last to have it.
 */
struct cop_shape_table {
    atomic_uint refs;
    uint32_t n;
    union {
        /*
         * TABLE. Ranks are in level order, so parent[r] < r, the children of r are the
         * ranks first[r] .. first[r+1]-1, and its descendants on each level are
         * consecutive.
         */
        struct {
            cop_rank *parent; /* NONE for rank 0 */
            cop_rank *first;  /* n + 1 */
            uint32_t *depth;  /* levels of the sub-tree */
            uint32_t *second; /* second greatest depth among the children; 0 if none */
            cop_rank
                *order; /* in first[r] .. first[r+1]-1: the children, deepest first */
            uint32_t *slot;     /* order[slot[r]] == r */
            uint32_t *label_at; /* where the name begins in `labels` */
            char *labels;
        } file;
        /* HOSTS. Hosts are numbered by their lowest ranks. */
        struct {
            uint32_t count;
            uint32_t *host_of;
            uint32_t *start;   /* count + 1: where the members of a host begin */
            cop_rank *members; /* by host, then by rank */
            uint32_t *slot;    /* members[slot[r]] == r */
            bool crowded;      /* some host has two members or more */
        } hosts;
    } as;
    uint32_t pool[]; /* the arrays above */
};

/* With room for `words` numbers, all 0, and one reference; or NULL. */
struct cop_shape_table *cop__table_create(uint32_t n, size_t words);

#endif
