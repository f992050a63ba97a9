/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_FILTER_RECORDS_H
#define COP_FILTER_RECORDS_H

#include "filter/ranges.h"

/*
 * Most states are records in the order of their keys, each key once: joining is merging,
 * and a difference is what one side has and the other has not. A filter of this kind says
 * what a record is made of and what becomes of two with the same key; the rest is here.
 */
#define COP__RECORD_NUMBERS 3u
struct cop__record {
    uint64_t key[COP__RECORD_NUMBERS];
    struct cop_span name; /* comes after the numbers in the order */
    uint64_t value[COP__RECORD_NUMBERS];
    struct cop_span data;
    struct cop_span set;
};

#define COP__WORDS_ANY UINT8_MAX
struct cop__records {
    const char *inputs;
    uint8_t words;  /* of the head; COP__WORDS_ANY: head_is_good decides */
    uint8_t keys;   /* numbers in the key */
    bool name;      /* bytes in the key */
    uint8_t values; /* numbers in the value */
    bool data;      /* bytes in the value */
    bool set;       /* a set of numbers, which joins by itself */
    /* Are the words of the head what init would write? NULL: always. */
    bool (*head_is_good)(const struct cop__state *state);
    /* Could lift and join have made this record? NULL: all. */
    bool (*is_good)(const struct cop__state *state, const struct cop__record *record);
    /* a becomes the value of both. NULL: they are equal, or only sets. */
    void (*join)(struct cop__record *a, const struct cop__record *b);
    /* a becomes what b lacks; false: nothing. NULL: only sets, and without them nothing. */
    bool (*diff)(struct cop__record *a, const struct cop__record *b);
    /* Has it a place when `before` others were kept and `last` has the largest key of all?
     * NULL: always. */
    bool (*keep)(const struct cop__state *state, const struct cop__record *record,
                 uint64_t before, const struct cop__record *last);
};

/* The next record; false at the end, and when there is none (the reader has failed). */
bool cop__record_next(const struct cop__records *kind, struct cop__reader *reader,
                      struct cop__record *out);
int cop__record_put(const struct cop__records *kind, struct cop_filter_out *out,
                    const struct cop__record *record);

int cop__records_check(const struct cop__records *kind, struct cop_span bytes);
int cop__records_join(const struct cop__records *kind, struct cop_span a,
                      struct cop_span b, struct cop_filter_out *out);
int cop__records_diff(const struct cop__records *kind, struct cop_span now,
                      struct cop_span old, struct cop_filter_out *out);
/* Records in any order, the same more than once, as a state: for lift. */
int cop__records_make(const struct cop__records *kind, const struct cop__state *empty,
                      struct cop__record *records, uint32_t count,
                      struct cop_filter_out *out);

/* The functions of a table that are the same for all kinds. */
#define COP__RECORDS_FUNCTIONS(kind)                                                   \
    static int check(struct cop_span bytes)                                            \
    {                                                                                  \
        return cop__records_check(&kind, bytes);                                       \
    }                                                                                  \
    static int join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)  \
    {                                                                                  \
        return cop__records_join(&kind, a, b, out);                                    \
    }                                                                                  \
    static int diff(struct cop_span now, struct cop_span old,                          \
                    struct cop_filter_out *out)                                        \
    {                                                                                  \
        return cop__records_diff(&kind, now, old, out);                                \
    }

#endif
