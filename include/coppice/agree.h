/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_AGREE_H
#define COPPICE_AGREE_H

#include <coppice/buf.h>
#include <coppice/tree.h>
#include <coppice/types.h>

/*
 * Agreement: every member of a group contributes a value, and every one that survives
 * returns the same combination of them, with the same list of members that failed.
 *
 * A group is a list of lives (id and incarnation), the same at all of them; it never changes,
 * and somebody who comes back is not in it. Each member makes it with COP_REQUEST_AGREE_GROUP, then
 * calls COP_REQUEST_AGREE: the k-th call on a group is the same agreement everywhere. An
 * agreement without a value (length 0) agrees on the failures alone; who is agreed to have
 * failed is dead in the view that the caller has by then, so this validates a group.
 *
 * Needs views (COP_QUORUM_FIXED: COP_ESTATE): a member is failed when a view says so, and
 * not before. An agreement needs a view to go on after a death; where none can be committed
 * the deadline ends the call with COP_EDEGRADED.
 */

/*
 * What a COP_REQUEST_AGREE ends with (the result is there unless it says otherwise):
 *   0                it was decided
 *   COP_UNDECIDED    TREE, LINEAR: the coordinator died before it could decide. No value
 *   COP_UNCERTAIN    TREE, LINEAR: the coordinator died, and nobody who lives knows whether it
 *                    had decided. No value. Without `promote` only
 *   COP_ELOST        ALLREDUCE: a member died. No value
 *   COP_EINVAL       it was decided that the values do not fit together: different operations,
 *                    types or lengths
 *   COP_ETIMEDOUT, COP_EDEGRADED, COP_EABORTED: no result. The caller waits no longer, but its
 *                    contribution stands, and the agreement goes on and keeps its place
 */
enum cop_algorithm {
    /* Never blocks while views can be committed; all survivors return the same. */
    COP_AGREE_EARLY = 0,
    /* The same, and also those who returned before they died had returned the same. Takes
     * four passes over the tree instead of two. */
    COP_AGREE_STRICT = 1,
    /* Two-phase commit over the tree. Ends as UNCERTAIN where EARLY goes on. */
    COP_AGREE_TREE = 2,
    /* The same with everybody below one coordinator. */
    COP_AGREE_LINEAR = 3,
    /* Not fault tolerant: what agreement is measured against. */
    COP_AGREE_ALLREDUCE = 4,
};
#define COP_ALGORITHMS 5

/* "early", "strict", "tree", "linear", "allreduce"; NULL for another number. */
const char *cop_algorithm_name(enum cop_algorithm algorithm);
/* COP_ENOENT: there is none of that name. */
int cop_algorithm_parse(const char *text, enum cop_algorithm *out);

/*
 * Words are unsigned 64-bit numbers, little-endian, one or more; each is combined with those
 * in the same place. Of byte strings AND and OR combine bit by bit, SUM adds byte
 * by byte (modulo 256), MIN and MAX choose the first and the last in dictionary order, which
 * may differ in length. Everything else needs equal lengths.
 */
enum cop_value_type { COP_VALUE_WORDS = 0, COP_VALUE_BYTES = 1 };
#define COP_VALUE_MAX (UINT32_C(1) << 16)

enum cop_agree_op {
    COP_AGREE_AND = 0,
    COP_AGREE_OR = 1,
    COP_AGREE_SUM = 2,
    COP_AGREE_MIN = 3,
    COP_AGREE_MAX = 4,
    COP_AGREE_USER = 16, /* + index in the operations of struct cop_config */
};

/*
 * An operation of the user's own: associative and commutative, and the same bytes from the
 * same bytes, always and everywhere. All members have the same list of them.
 */
struct cop_operation {
    const char *name;
    /*
     * Combines two values into `out`, which has room for left_length + right_length bytes;
     * says how many it wrote. What the left one was made of has lower ranks, but for the
     * order of sub-trees. 0, or an error that all members will return.
     */
    int (*combine)(const void *left, uint32_t left_length, const void *right,
                   uint32_t right_length, void *out, uint32_t *out_length);
};

/* One life of a member. */
struct cop_life {
    cop_id id;
    cop_incarnation incarnation;
};

/* COP_REQUEST_AGREE_GROUP. COP_EEXIST: the number is taken; COP_EINVAL: I am not in it, a member is
 * not known, or an option is not possible. COMPLETE at once. */
struct cop_agree_group {
    uint64_t number; /* the caller's own, the same at all members, never used again */
    const struct cop_life
        *members; /* by id, ascending; copied. NULL: all in the view */
    uint32_t count;
    enum cop_algorithm algorithm;
    struct cop_shape shape; /* kind 0: the view's. LINEAR is always flat */
    /*
     * How many agreements may be in flight: COP_EAGAIN beyond. The tree of one is that of
     * the members that were not agreed to have failed so many agreements before. 0: 1.
     */
    uint32_t window;
    bool keep_tree; /* it is not laid anew without those who failed, only mended */
    bool
        promote; /* UNCERTAIN becomes UNDECIDED, and then two may return different things
                       if one of them dies */
};
#define COP_AGREE_WINDOW_MAX 64u

/* What an agreement came to. Borrowed from the COMPLETE effect's buffer until freed. */
struct cop_agreed {
    uint64_t group, number; /* number of the agreement, from 1 */
    cop_epoch epoch;        /* of the view in which it was decided */
    cop_epoch round;   /* the round: the last view in which a member was lost, or 0 */
    cop_id root;       /* and who decided */
    const void *value; /* NULL if there is none */
    uint32_t length;
    struct cop_ranks failed; /* ids, ascending: all members that had failed by then */
    cop_time elapsed_ns;     /* from the call */
};
/* COP_EMALFORMED, COP_ENOMEM. */
int cop_agreed(const struct cop_buf *result, struct cop_agreed *out);
void cop_agreed_free(struct cop_agreed *agreed);
/* The i-th word of a value; 0 beyond its end. */
uint64_t cop_agreed_word(const struct cop_agreed *agreed, uint32_t i);

#endif
