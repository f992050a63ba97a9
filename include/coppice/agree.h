/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_AGREE_H
#define COPPICE_AGREE_H

#include <coppice/buf.h>
#include <coppice/tree.h>
#include <coppice/types.h>
#include <coppice/view.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* What an agreement came to. What cop_agreed reads is borrowed from the COMPLETE effect's
 * buffer. */
struct cop_agreed {
    uint64_t group, number; /* number of the agreement, from 1 */
    cop_epoch epoch;        /* of the view in which it was decided */
    cop_epoch round;   /* the round: the last view in which a member was lost, or 0 */
    cop_id root;       /* and who decided */
    const void *value; /* NULL if there is none */
    uint32_t length;
    struct cop_ranks failed; /* ids, ascending: all members that had failed by then */
    cop_time elapsed_ns;     /* from the call */
    struct cop_buf *kept;    /* what the value is in, where it is the caller's */
};
/* COP_EMALFORMED, COP_ENOMEM. */
int cop_agreed(const struct cop_buf *result, struct cop_agreed *out);
/* Frees the list, and the value where it is the caller's. */
void cop_agreed_free(struct cop_agreed *agreed);
/* The i-th word of a value; 0 beyond its end. */
uint64_t cop_agreed_word(const struct cop_agreed *agreed, uint32_t i);

/* ---- programs that are members ---------------------------------------------------- */

/*
 * The same for a program that is a member by coppice/run.h, with its rules for threads and
 * callbacks. Every member makes the group, and then calls the same agreements in the same
 * order:
 *
 *   static void on_view(void *context, struct cop_run *run, struct cop_view *old,
 *                       struct cop_view *now)
 *   {
 *       struct cop_agree_group group = {.number = cop_view_epoch(now)};
 *       cop_agree_group_create(run, now, &group);
 *       ...
 *   }
 *
 *   uint64_t free_bytes = ...;
 *   struct cop_agree_call call = {.group = epoch, .op = COP_AGREE_MIN,
 *                                 .value = &free_bytes, .length = 8};
 *   struct cop_agreed agreed;
 *   if (cop_agree_wait(run, &call, &agreed) == 0)
 *       the least that any of us has is cop_agreed_word(&agreed, 0);
 *
 * A run that ends completes its calls with COP_ESTATE, or COP_EREMOVED; its groups are gone.
 */
struct cop_run;

/*
 * Makes a group of all members of `view`, or, if that is NULL, of those that the options
 * have. All members must name the same: a view that on_view was told is the same at
 * all of them, and cop_view_current need not be. 0; the errors of struct cop_agree_group;
 * COP_ESTATE if this is no member. Waits for the library's thread, if this is another one.
 */
int cop_agree_group_create(struct cop_run *run, const struct cop_view *view,
                           const struct cop_agree_group *options);
/*
 * This member calls nothing more in the group. What is under way goes on; the memory is given
 * back when all members that live have said so. COP_EINVAL: there is no such group.
 */
int cop_agree_group_free(struct cop_run *run, uint64_t group);

/* One call. */
struct cop_agree_call {
    uint64_t group;
    uint32_t op;              /* enum cop_agree_op */
    enum cop_value_type type; /* 0: words, little-endian */
    const void *value;        /* copied */
    uint32_t length;          /* in bytes; 0: an agreement on failures alone */
    cop_time timeout_ns;      /* 0: 30 s */
};

/*
 * The next agreement of the group. `done` is called once, with the status that is explained
 * above, and what was agreed, borrowed, or NULL where there is nothing. `ticket`, if it is not
 * NULL, gets a number by which it can be cancelled.
 *   COP_EINVAL   no such group, or a value or operation that cannot be
 *   COP_EAGAIN   as many as the group's window are under way
 *   COP_ESTATE   it is no member
 * With a thread the first two may also come by `done`.
 */
int cop_iagree(struct cop_run *run, const struct cop_agree_call *call,
               void (*done)(void *context, int status, const struct cop_agreed *agreed),
               void *context, uint64_t *ticket);
/* Waits; the status. On 0, COP_EINVAL, COP_UNDECIDED and COP_UNCERTAIN *out may have
 * something, and is to be freed with cop_agreed_free. Otherwise it is all zero. */
int cop_agree_wait(struct cop_run *run, const struct cop_agree_call *call,
                   struct cop_agreed *out);
/*
 * Waits no longer: the call ends with COP_EABORTED. What it contributed stands, and the
 * agreement keeps its place. COP_ENOENT: it has ended.
 */
int cop_agree_cancel(struct cop_run *run, uint64_t ticket);

/*
 * Agrees on who has failed, and on nothing else: the next call of the group, at all members.
 * Whoever is agreed to have failed is in no view that the caller has from then on, and has no
 * place in the trees of the group's later agreements.
 */
int cop_validate(struct cop_run *run, uint64_t group, cop_time timeout_ns,
                 void (*done)(void *context, int status,
                              const struct cop_agreed *agreed),
                 void *context, uint64_t *ticket);
/* Waits; as cop_agree_wait. */
int cop_validate_wait(struct cop_run *run, uint64_t group, cop_time timeout_ns,
                      struct cop_agreed *out);

#ifdef __cplusplus
}
#endif

#endif
