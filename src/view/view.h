/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_VIEW_VIEW_H
#define COP_VIEW_VIEW_H

#include "wire/codec.h"

#include <coppice/view.h>

/*
 * One view out of another, and views as bytes. A difference is a list of members as they
 * are to be: applying it twice is applying it once.
 */

/* A member with its name and address kept alive. */
struct cop__entry {
    cop_id id;
    uint32_t role;
    cop_incarnation incarnation;
    cop_epoch since;
    struct cop_buf *card; /* name and address; NULL: by the rule of the start */
    uint8_t presence;
    uint8_t flags; /* COP__ENTRY_... */
};
/* REMOVED: on more than a suspicion, see cop__roster_is_certain. LEFT: it was drained, and is
 * gone; nobody asks it whether it agrees. */
#define COP__ENTRY_CERTAIN 1u
/* PRESENT: it has no place inside the tree, and nobody watches it. */
#define COP__ENTRY_DRAINED 2u
#define COP__ENTRY_FLAGS 3u

/* Whether somebody went without a word: it may live, and not know that it is out. */
static inline bool cop__entry_is_missed(const struct cop__entry *entry)
{
    return entry->presence == COP_REMOVED ||
           (entry->presence == COP_LEFT && entry->flags & COP__ENTRY_CERTAIN);
}

/* Whether somebody takes part in the change that makes `view`, because it leaves with it. */
static inline bool cop__entry_leaves_with(const struct cop__entry *entry,
                                          const struct cop_view *view)
{
    return entry->presence == COP_LEFT && !(entry->flags & COP__ENTRY_CERTAIN) &&
           entry->since == cop_view_epoch(view);
}

struct cop__delta {
    struct cop__entry *items; /* sorted by id, without repetition */
    uint32_t count, capacity;
};

/* Bytes of a card: name length 8 bits, name, address. NULL: too long, or no memory. */
struct cop_buf *cop__card(const char *name, size_t name_length, const char *address,
                          size_t address_length);
/* What others say is one: whole, and nothing in it that a terminal would act on, or that would end
 * a name before its end. */
bool cop__card_is_sane(struct cop__bytes card);

void cop__delta_free(struct cop__delta *delta);
/* Puts or replaces; takes over the reference to the card, also when it fails. */
int cop__delta_put(struct cop__delta *delta, const struct cop__entry *entry);
const struct cop__entry *cop__delta_find(const struct cop__delta *delta, cop_id id);

/* What a view says of an id, with a reference to the card borrowed. False: nothing. */
bool cop__view_entry(const struct cop_view *view, cop_id id, struct cop__entry *out);
/* The i-th of cop_view_changes, by id; borrowed. */
const struct cop__entry *cop__view_change(const struct cop_view *view, uint32_t i);

/* Ids from here on were not there at the start: each is among the changes, or was promised
 * and never given to anybody. */
cop_id cop__view_first_later(const struct cop_view *view);

/* So many ids may have been promised since the start, or the base, without being taken. */
#define COP__HOLES_MAX 65536u
/* Those without a place inside the tree, by id; borrowed, NULL for none. */
const cop_id *cop__view_drained(const struct cop_view *view, uint32_t *count);
bool cop__view_is_drained(const struct cop_view *view, cop_id id);

/* `base` with `delta` applied. COP_EINVAL: an id too large; COP_ENOMEM. */
int cop__view_derive(const struct cop_view *base, const struct cop_ballot *ballot,
                     const struct cop__delta *delta, struct cop_view **out);
/* The same on the static start that `like` came from. */
int cop__view_from_start(const struct cop_view *like, const struct cop_ballot *ballot,
                         const struct cop__delta *delta, struct cop_view **out);
/*
 * A view that shares nothing with this one that is not counted atomically: to be handed to
 * another thread. Costs by the changes. COP_ENOMEM.
 */
int cop__view_copy(const struct cop_view *view, struct cop_view **out);
/* What makes `view` out of `base`; the caller frees. */
int cop__view_difference(const struct cop_view *base, const struct cop_view *view,
                         struct cop__delta *out);

/* How many of `of` (by id and incarnation) are in `in`. */
uint32_t cop__view_common(const struct cop_view *of, const struct cop_view *in);

/* The same members with the same cards in every respect, decided by the same ballot. */
bool cop__view_equal(const struct cop_view *a, const struct cop_view *b);
/* `view`, or one that is equal to it and in the pool already; takes the reference over. */
struct cop_view *cop__view_share(struct cop_view_pool *pool, struct cop_view *view);

/* ---- bytes ----------------------------------------------------------------------- */

#define COP__SIZE_ballot 20u
void cop__ballot_put(struct cop__writer *writer, const struct cop_ballot *ballot);
struct cop_ballot cop__ballot_get(struct cop__reader *reader);

size_t cop__delta_bytes(const struct cop__delta *delta);
void cop__delta_write(struct cop__writer *writer, const struct cop__delta *delta);
/* COP_EMALFORMED or COP_ENOMEM leave `out` empty. */
int cop__delta_read(struct cop__reader *reader, struct cop__delta *out);

/* The whole of a view, relative to its static start. NULL: no memory. */
struct cop_buf *cop__view_encode(const struct cop_view *view);
/* `like` gives the static start, which both sides know. */
int cop__view_decode(struct cop__bytes bytes, const struct cop_view *like,
                     struct cop_view **out);

#endif
