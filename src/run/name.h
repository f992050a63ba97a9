/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_NAME_H
#define COP_RUN_NAME_H

#include <coppice/types.h>

/*
 * What can be the name of a member: the one rule of the library and of the command. A name
 * is typed in node sets and sent in lines, so nothing in it may mean anything there; and one of
 * digits alone would be taken for an id.
 */
#define COP__MEMBER_NAME_MAX 63u /* bytes */
#define COP__MEMBER_NAME_RULE "1 to 63 letters, digits and -_.: and not only digits"

/* Whether a name may have this byte. */
bool cop__name_has(char c);
/* 0, or COP_EINVAL with one sentence: what it is, and what can be a name. */
int cop__name_check(const char *name, char *message, size_t size);

#endif
