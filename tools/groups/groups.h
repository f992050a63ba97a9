/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_GROUPS_GROUPS_H
#define COP_TOOLS_GROUPS_GROUPS_H

#include "wire/codec.h"

/*
 * Named node sets, which agents keep in memory. Whoever is told a later version of a name takes
 * it; one that was removed stays as an empty text, so that nobody brings it back. A reader asks
 * all members and merges what they have: so it does not matter who was there when a name was
 * set, as long as one of them still is.
 */
#define GROUPS_NAME_MAX 63u
/* Versions are times in ns; one beyond this (the year 2262) would leave no room for a later one. */
#define GROUPS_VERSION_MAX ((uint64_t)INT64_MAX)
#define GROUPS_TEXT_MAX 3000u /* bytes in a node set: it travels in one message */
#define GROUPS_BYTES_MAX (UINT32_C(128) << 10) /* of all of them, encoded */

struct group {
    char name[GROUPS_NAME_MAX + 1];
    char *text;       /* "": removed */
    uint64_t version; /* the larger (version, origin) holds */
    cop_id origin;
};

struct groups {
    struct group *items; /* by name */
    uint32_t count;
};

void groups_free(struct groups *groups);
/* NULL: there is none, or it was removed. */
const struct group *groups_find(const struct groups *groups, const char *name);
/* Whether a holds against b. */
bool group_is_later(const struct group *a, const struct group *b);
/* Takes it if it is later than what is there. COP_ENOMEM. */
int groups_merge(struct groups *groups, const struct group *group);

struct cop_buf *group_encode(const struct group *group);
struct cop_buf *groups_encode(const struct groups *groups);
/* 0, COP_EMALFORMED, COP_ENOMEM. The texts are the caller's. */
int group_decode(struct cop__bytes bytes, struct group *out);
int groups_decode(struct cop__bytes bytes, struct groups *out);

/* Whether it can be a name, which is: */
#define GROUPS_NAME_RULE "1 to 63 letters, digits and -_."
bool groups_is_name(const char *text);

/*
 * A node set without groups: each "@NAME" is replaced by what it stands for. To be freed; NULL
 * with a sentence if there is no such group, or no memory.
 */
char *groups_expand(const struct groups *groups, const char *text, char *message,
                    size_t size);

#endif
