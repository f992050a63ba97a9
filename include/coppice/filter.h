/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_FILTER_H
#define COPPICE_FILTER_H

#include <coppice/buf.h>
#include <coppice/error.h>
#include <coppice/types.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Filters: how the values of many leaves become one on their way up a tree.
 *
 * A filter is a constant table of pure functions over *states*. A state is bytes, and the
 * bytes are canonical: two states that mean the same are equal byte by byte. So a state is
 * its own encoding; it can be sent, kept, shared (struct cop_buf) and compared as it is.
 *
 *   init    the empty state for a type of packets and parameters, which the state carries
 *   lift    the state that one packet makes
 *   join    of two states; the empty state changes nothing
 *   diff    what has to be joined with `old` to get `now`, where now is old joined with more; a
 *           stream asks for it where the filter is idempotent
 *   check   is this a state? What comes from elsewhere is asked before it is used
 *   result  what a person or a program wants to know of a state
 *
 * For all states of one empty state these hold (coppice filter check tries them):
 *
 *   join(a, b) = join(b, a)                 order does not matter
 *   join(join(a, b), c) = join(a, join(b, c))    nor does grouping
 *   join(a, a) = a                          nor repetition, if it says IDEMPOTENT
 *   join(a, diff(join(a, b), a)) = join(a, b)
 *   join(empty, a) = a, and check takes exactly those bytes for which this is so
 *
 * A *filter down* (COP_FILTER_DOWN) has only init and this, for packets of the front-end:
 *
 *   down    what becomes of a packet at one place of its way to a back-end
 *
 * It is called for each place from the top to the back-end itself, each time with what came out
 * above it, and what comes out last is what the back-end is given.
 *
 * Functions keep nothing between calls, ask neither clock nor chance, and give the same
 * bytes on every machine. They write to `out` with cop_filter_put, and return 0 or a code:
 * COP_EINVAL (a packet or parameter that is not for it, states of different parameters),
 * COP_EMALFORMED (not a state), COP_ETOOBIG, COP_ENOMEM. What a stream does then: docs/streams.md.
 */

/* Grows when a table of today could be misread by a library of tomorrow, or the reverse. */
#define COP_FILTER_ABI 1u
/* Most bytes of a packet, of a state and of a result, and of a name or a type. */
#define COP_PACKET_MAX (UINT32_C(1) << 20)
#define COP_FILTER_STATE_MAX (UINT32_C(1) << 24)
#define COP_FILTER_NAME_MAX 31u
#define COP_FILTER_PARAMS_MAX 1023u

/* Bytes that somebody else keeps. */
struct cop_span {
    const uint8_t *bytes;
    uint32_t length;
};

/*
 * What a leaf sends. Types are words: u64, i64, f64, i128 (little-endian; 8 or 16 bytes),
 * text (UTF-8), bytes; with [] any number of such a number, with [3] that many.
 */
struct cop_packet {
    const char *type;
    cop_id leaf;
    uint64_t wave; /* the leaf's own numbering */
    struct cop_span data;
};

/* Where a filter writes to; it is the library's. */
struct cop_filter_out {
    uint8_t *bytes;
    uint32_t length;
    uint32_t room;
    int error; /* the first failure; nothing is written after it */
    int (*grow)(struct cop_filter_out *out, uint32_t more);
};

enum cop_filter_flag {
    /* join(a, a) = a: a packet may be counted twice without harm. */
    COP_FILTER_IDEMPOTENT = 1,
    /* A state grows with how much is different in it, not with how many waves were joined, so
     * that all of them can be kept in one. A filter without it is for the packets of one
     * wave. */
    COP_FILTER_CUMULATIVE = 2,
    /* A filter down: it has `init` and `down`, and none of the other functions. Only then is
     * `down` looked at, so that tables without it, as they were before, can still be used. */
    COP_FILTER_DOWN = 4,
};
#define COP_FILTER_FLAGS_ALL 7u

/*
 * Where a packet of the front-end is on its way down. The way is that of the tree that was planned
 * when the stream was opened, whoever carries the packet by now; who came later is taken to hang
 * below the top. The library may know more of it tomorrow, behind what is here.
 */
struct cop_place {
    cop_id id;      /* who is at this place */
    cop_id leaf;    /* the back-end for which it is */
    uint32_t level; /* steps below the top */
    uint32_t depth; /* the level of the back-end: there it is the last place */
    /* Which of the planned back-ends it is, in the order of their ids, and how many there are.
     * One that came later has `count` or more; places of those who were dead then count, too. */
    uint32_t index, count;
};

struct cop_filter {
    uint32_t abi;      /* COP_FILTER_ABI */
    uint32_t flags;    /* enum cop_filter_flag */
    const char *name;  /* a-z, 0-9 and '-', beginning with a letter */
    const char *about; /* one line for a list */
    const char
        *state; /* what its states are, e.g. "sum/1": changes when their bytes do */
    const char *inputs; /* types that it takes, blanks between; "any": all */
    const char
        *outputs; /* type of the result for each of these; of filters down: NULL */
    const char *params; /* an example of parameters that do, for checks; may be NULL */

    /* `params` is "name=value,name=value"; "" takes the defaults. */
    int (*init)(const char *type, const char *params, struct cop_filter_out *out);
    int (*lift)(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out);
    int (*join)(struct cop_span a, struct cop_span b, struct cop_filter_out *out);
    int (*diff)(struct cop_span now, struct cop_span old, struct cop_filter_out *out);
    int (*check)(struct cop_span state);
    int (*result)(struct cop_span state, struct cop_filter_out *out);
    /* May be NULL: makes a packet of `type` out of random words, for a filter that does not
     * take every value of its type. The same words make the same packet; zeros a small one. */
    int (*sample)(const char *type, const uint64_t *words, uint32_t count,
                  struct cop_filter_out *out);
    /* With COP_FILTER_DOWN only; `ready` is what init has written. What it writes is of the type
     * of the packet, whose `wave` is its number. COP_ENOENT: it goes no further, and the back-end is
     * not given it. */
    int (*down)(struct cop_span ready, const struct cop_place *place,
                const struct cop_packet *packet, struct cop_filter_out *out);
};

/*
 * A shared object exports one symbol, COP_FILTERS_SYMBOL, which is such a table. It needs
 * nothing of the library but this header.
 */
struct cop_filters {
    uint32_t abi; /* COP_FILTER_ABI: asked before anything else is read */
    uint32_t count;
    const struct cop_filter *const *filters;
};
#define COP_FILTERS_SYMBOL "coppice_filters"

/* Appends bytes to what a filter writes. 0, or the code that is in `out` from now on. */
static inline int cop_filter_put(struct cop_filter_out *out, const void *bytes,
                                 uint32_t length)
{
    if (out->error == 0 && out->room - out->length < length)
        out->error = out->grow(out, length);
    if (out->error == 0 && length > 0) {
        memcpy(out->bytes + out->length, bytes, length);
        out->length += length;
    }
    return out->error;
}

/* Appends a number, the lowest byte first. */
static inline int cop_filter_put_u64(struct cop_filter_out *out, uint64_t value)
{
    /* Without a loop, so that compilers see that it is one store. */
    const uint8_t bytes[8] = {
        (uint8_t)value,         (uint8_t)(value >> 8),  (uint8_t)(value >> 16),
        (uint8_t)(value >> 24), (uint8_t)(value >> 32), (uint8_t)(value >> 40),
        (uint8_t)(value >> 48), (uint8_t)(value >> 56),
    };
    return cop_filter_put(out, bytes, sizeof bytes);
}

/* Reads a number as it is in packets and states. */
static inline uint64_t cop_filter_get_u64(const uint8_t *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 |
           (uint64_t)at[3] << 24 | (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 |
           (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
}

/* ---- types ----------------------------------------------------------------------- */

/* Is it the name of a type? COP_EINVAL. */
int cop_type_valid(const char *type);
/* Are these bytes of that type? COP_EINVAL. */
int cop_type_check(const char *type, struct cop_span data);

/* ---- filters --------------------------------------------------------------------- */

/* A built-in filter by its name; NULL. */
const struct cop_filter *cop_filter_find(const char *name);
/* All of them, from 0 on; NULL after the last. */
const struct cop_filter *cop_filter_at(uint32_t index);

/*
 * Can this table be used? 0; COP_EVERSION: made for another library; COP_EINVAL. `why` gets
 * a sentence for a person; it may be NULL.
 */
int cop_filter_valid(const struct cop_filter *filter, const char **why);
/* The type of results for a type of packets, of filters down the same; NULL if the filter does
 * not take these. */
const char *cop_filter_output(const struct cop_filter *filter, const char *type,
                              char room[COP_FILTER_NAME_MAX + 1]);

/*
 * The functions of a table, contained: what goes in is of the declared type, what comes out
 * is a state by the filter's own check (a result: of the declared type) and within bounds.
 * COP_EBUG: the filter broke its word, so the caller should do without it, and say its name.
 * Every `*out` is new, and has one reference; nothing is written on failure.
 */
int cop_filter_init(const struct cop_filter *filter, const char *type,
                    const char *params, struct cop_buf **out);
/* The state of one packet; `empty` is what init has given. */
int cop_filter_lift(const struct cop_filter *filter, const struct cop_buf *empty,
                    const struct cop_packet *packet, struct cop_buf **out);
/* Two states as one. If one of them already is that, it is given, with one more reference. */
int cop_filter_join(const struct cop_filter *filter, struct cop_buf *a,
                    struct cop_buf *b, struct cop_buf **out);
/* Any number of states as one; none: a reference to `empty`. */
int cop_filter_fold(const struct cop_filter *filter, struct cop_buf *empty,
                    struct cop_buf *const *states, uint32_t count,
                    struct cop_buf **out);
/* What must be joined with `old` to get `now`. */
int cop_filter_diff(const struct cop_filter *filter, const struct cop_buf *now,
                    const struct cop_buf *old, struct cop_buf **out);
/* Is it a state, and one of the same type and parameters as `empty`? COP_EMALFORMED, COP_EINVAL,
 * COP_ETOOBIG: it is not. COP_EBUG, COP_ENOMEM: the filter could not say. */
int cop_filter_check(const struct cop_filter *filter, const struct cop_buf *empty,
                     struct cop_span state);
/* What a state says, of the type that cop_filter_output names. */
int cop_filter_result(const struct cop_filter *filter, const char *type,
                      const struct cop_buf *state, struct cop_buf **out);
/* Of a filter down, for which all of the above are COP_EINVAL: what it makes of parameters. */
int cop_filter_ready(const struct cop_filter *filter, const char *type,
                     const char *params, struct cop_buf **out);
/* What becomes of a packet at a place. COP_ENOENT: it goes no further. */
int cop_filter_down(const struct cop_filter *filter, const struct cop_buf *ready,
                    const struct cop_place *place, const struct cop_packet *packet,
                    struct cop_buf **out);

/*
 * Are these parameters of the filter `levels`, for packets of that type? COP_EINVAL; `why` gets a
 * sentence for a person, and may be NULL. They are stages, the lowest first, with commas between:
 * a filter of the library, its parameters in brackets, and for all but the last the level of the
 * tree at which it ends, as steps below the root. With "sum@1,max" what hangs below each child of
 * the root is added up, and the largest of these sums comes out; "max@2,top(k=3)" has the three
 * largest of the largest values two steps below it, and where. Each stage takes what the one before
 * it gives (cop_filter_output); the result is that of the last one. Levels go down: "a@3,b@1,c".
 *
 * Only streams know a tree (coppice/stream.h), and it is the one that was planned when the stream
 * was opened; without it every leaf is a group.
 */
int cop_levels_valid(const char *type, const char *params, const char **why);

/* ---- shared objects -------------------------------------------------------------- */

/* Filters of a shared object, for as long as it is loaded. */
struct cop_plugin;
/*
 * Loads one. COP_ENOENT: no such file, or the symbol is not in it; COP_EVERSION: made for
 * another library; COP_EINVAL: a table in it cannot be used, or has the name of another
 * filter; COP_ENOMEM. `why` gets a sentence, cut to `size`.
 */
int cop_plugin_load(const char *path, struct cop_plugin **out, char *why, size_t size);
/* A filter of it by name; NULL. */
const struct cop_filter *cop_plugin_find(const struct cop_plugin *plugin,
                                         const char *name);
/* All of them, from 0 on; NULL after the last. */
const struct cop_filter *cop_plugin_at(const struct cop_plugin *plugin, uint32_t index);
/* No filter of it may be used any more. NULL is ignored. */
void cop_plugin_unload(struct cop_plugin *plugin);

#ifdef __cplusplus
}
#endif

#endif
