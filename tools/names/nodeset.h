/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_NAMES_NODESET_H
#define COP_TOOLS_NAMES_NODESET_H

#include "run/name.h"

#include <coppice/types.h>

/*
 * Sets of names in ClusterShell's NodeSet syntax, as people type and read them:
 *
 *   n[0-3,7],n12       ranges, single numbers, several terms (',' or ' ' between)
 *   n[001-100]         padding is kept: n001 and n1 are two names
 *   n[0-10/5]          steps
 *   rack[1-2]n[0-3]    several brackets
 *   n[0-9],!n7         without n7; a text that begins with ! means "all but"
 *
 * A term takes its names in or out in the order written. `@group` is refused:
 * groups/groups.h replaces it before.
 */
#define NODESET_NAME_LENGTH COP__MEMBER_NAME_MAX
#define NODESET_NUMBER_DIGITS 9u /* digits of a number in brackets */
/*
 * Names in a set, and names that one text may expand to. A fuzzer that spends its time
 * on sets of 65,536 names sees few texts.
 */
#ifdef COPPICE_FUZZING
#define NODESET_NAMES_MAX 32u
#else
#define NODESET_NAMES_MAX 65536u
#endif

/* Sorted by prefix, suffix and number, without repetition. Start from {0}. */
struct nodeset {
    char **names;
    uint32_t count;
    uint32_t capacity;
};

/*
 * Reads `text`. `all` is what "!x" at the beginning takes away from; NULL if there is
 * no such set. 0, COP_EINVAL with one sentence in `message`, or COP_ENOMEM. `out` is
 * written only on success; it must not hold memory before.
 */
int nodeset_parse(const char *text, const struct nodeset *all, struct nodeset *out,
                  char *message, size_t size);

/*
 * The set as the shortest text of one bracket per group, to be freed; NULL: no memory.
 */
char *nodeset_fold(const struct nodeset *set);

/* The same for the names `prefix`ID of sorted ids, without making the names. */
char *nodeset_fold_ids(const char *prefix, const uint32_t *ids, uint32_t count);

bool nodeset_has(const struct nodeset *set, const char *name);
/*
 * Adds one name, or the digits of an id, that may be there already. COP_EINVAL if it cannot be
 * in a set.
 */
int nodeset_add(struct nodeset *set, const char *name);
void nodeset_free(struct nodeset *set);

#endif
