/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_EXEC_ALLOW_H
#define COP_TOOLS_EXEC_ALLOW_H

#include "names/nodeset.h"

/*
 * Who may have this agent run commands: a list of members, as a node set, and of users, as
 * user:NAME, separated by commas; or `all`, or `none`. A member is the one whose agent was
 * asked; a user is who asked it, as that agent says.
 */
struct exec_allow {
    bool all;
    struct nodeset members;
    char *users; /* each ended by a comma; NULL: none */
};

/* NULL: nobody. 0, COP_EINVAL with a sentence, COP_ENOMEM. */
int exec_allow_parse(const char *text, struct exec_allow *out, char *message,
                     size_t size);
/* The same for a command line: 0, or EXIT_USAGE after one line. */
int exec_allow_check(const char *command, const char *text);
void exec_allow_free(struct exec_allow *allow);
bool exec_allow_has(const struct exec_allow *allow, const char *member,
                    const char *user);

/* The name of a user, or "#UID" if it has none. */
#define EXEC_USER_MAX 64u
void exec_user_name(unsigned uid, char out[EXEC_USER_MAX]);

#endif
