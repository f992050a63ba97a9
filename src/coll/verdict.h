/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_COLL_VERDICT_H
#define COP_COLL_VERDICT_H

#include "wire/codec.h"

#include <coppice/coll.h>

/* What a sub-tree says of a call: who failed, and the combined replies of the others. */

/* Why some did not run it, or did not reply. */
struct cop__fault {
    cop_rank first, last; /* places in the group */
    cop_rank at;          /* where; NONE: each of them itself */
    int32_t status;
    uint8_t phase;
    uint8_t tree; /* and nobody below was asked */
};
#define COP__SIZE_fault 18u

struct cop__tally {
    struct cop__fault *items;
    uint32_t count, capacity;
    uint32_t lowest; /* version of those that failed by it; 0: nobody did */
};

int cop__tally_add(struct cop__tally *tally, const struct cop__fault *fault);
/* Sorts by place, and writes equal neighbours as one. COP_ENOMEM: unsorted. */
int cop__tally_settle(struct cop__tally *tally);
void cop__tally_fini(struct cop__tally *tally);
void cop__tally_lower(struct cop__tally *tally, uint32_t version);

struct cop__verdict {
    uint32_t lowest;
    uint8_t op;
    uint32_t argument;
    struct cop__list faults;
    struct cop__bytes data;
};

struct cop__fault cop__fault_at(struct cop__list list, uint32_t i);
void cop__fault_put(struct cop__writer *writer, const struct cop__fault *fault);
/* Adds all faults and the version of a record. */
int cop__tally_take(struct cop__tally *tally, const struct cop__verdict *record);

/* NULL: no memory. */
struct cop_buf *cop__verdict_encode(uint8_t op, uint32_t argument,
                                    const struct cop__tally *tally,
                                    struct cop__bytes data);
/* One record for one failure. */
struct cop_buf *cop__verdict_fault(uint8_t op, uint32_t argument, uint32_t version,
                                   const struct cop__fault *fault);
int cop__verdict_decode(struct cop__bytes bytes, struct cop__verdict *out);
/* For the sweep: what may be folded, and folding. */
bool cop__verdict_accept(struct cop__bytes bytes);
struct cop_buf *cop__verdict_fold(const struct cop__bytes *payloads, uint32_t count);

/* ---- operations (ops.c) ---------------------------------------------------------- */

/* Whether a reply can be combined by it at all. */
bool cop__op_suits(uint8_t op, struct cop__bytes reply);
/* Whether a reply that suits it is combined as it is. */
bool cop__op_is_plain(uint8_t op, struct cop__bytes reply);
/* A reply in the form in which it is combined. COP_EINVAL: it does not suit the operation. */
int cop__op_make(uint8_t op, uint32_t argument, cop_id id, struct cop__bytes reply,
                 struct cop_buf **out);
/* Whether bytes of a peer are in that form. */
bool cop__op_check(uint8_t op, uint32_t argument, struct cop__bytes data);
/* NULL: no memory. Empty ones are left out. */
struct cop_buf *cop__op_fold(uint8_t op, uint32_t argument,
                             const struct cop__bytes *datas, uint32_t count);

/* Stable merge sort of `count` things of `size` bytes; `spare` has as much room. */
void cop__sort(void *items, void *spare, uint32_t count, size_t size,
               int (*compare)(const void *a, const void *b));

#endif
