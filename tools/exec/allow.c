/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/allow.h"

#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USER "user:"

/* Length of the term at the beginning: up to a comma that is not in brackets. */
static size_t term_length(const char *text)
{
    size_t length = 0;
    for (int depth = 0; text[length] != '\0'; length++) {
        if (text[length] == '[')
            depth++;
        else if (text[length] == ']')
            depth--;
        else if (text[length] == ',' && depth <= 0)
            break;
    }
    return length;
}

static int add_user(struct exec_allow *allow, const char *name, char *message,
                    size_t size)
{
    char *users = NULL;
    if (*name == '\0' || strlen(name) >= EXEC_USER_MAX) {
        snprintf(message, size, "'%s' cannot be the name of a user", name);
        return COP_EINVAL;
    }
    if (asprintf(&users, "%s%s,", allow->users ? allow->users : "", name) < 0)
        return COP_ENOMEM;
    free(allow->users);
    allow->users = users;
    return 0;
}

static bool has_user(const struct exec_allow *allow, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = allow->users; at != NULL && *at != '\0';
         at = strchr(at, ',') + 1)
        if (strncmp(at, name, length) == 0 && at[length] == ',')
            return true;
    return false;
}

static int add_members(struct exec_allow *allow, const char *text, char *message,
                       size_t size)
{
    struct nodeset set = {0};
    int error = nodeset_parse(text, NULL, &set, message, size);
    for (uint32_t i = 0; i < set.count && !error; i++)
        error = nodeset_add(&allow->members, set.names[i]);
    nodeset_free(&set);
    return error;
}

static int add_term(struct exec_allow *allow, const char *term, char *message,
                    size_t size)
{
    if (strcmp(term, "none") == 0)
        return 0;
    if (strcmp(term, "all") == 0) {
        allow->all = true;
        return 0;
    }
    if (strncmp(term, USER, strlen(USER)) == 0)
        return add_user(allow, term + strlen(USER), message, size);
    return add_members(allow, term, message, size);
}

int exec_allow_parse(const char *text, struct exec_allow *out, char *message,
                     size_t size)
{
    struct exec_allow allow = {0};
    int error = 0;
    while (text != NULL && *text != '\0' && !error) {
        size_t length = term_length(text);
        char *term = strndup(text, length);
        error = term ? add_term(&allow, term, message, size) : COP_ENOMEM;
        free(term);
        text += length + (text[length] == ',');
    }
    if (error == COP_ENOMEM)
        snprintf(message, size, "%s", cop_strerror(error));
    if (error)
        exec_allow_free(&allow);
    else
        *out = allow;
    return error;
}

int exec_allow_check(const char *command, const char *text)
{
    struct exec_allow allow = {0};
    char message[200];
    if (exec_allow_parse(text, &allow, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "%s: --allow-exec: %s", command, message);
    exec_allow_free(&allow);
    return 0;
}

void exec_allow_free(struct exec_allow *allow)
{
    nodeset_free(&allow->members);
    free(allow->users);
    *allow = (struct exec_allow){0};
}

bool exec_allow_has(const struct exec_allow *allow, const char *member,
                    const char *user)
{
    return allow->all || nodeset_has(&allow->members, member) || has_user(allow, user);
}

void exec_user_name(unsigned uid, char out[EXEC_USER_MAX])
{
    const struct passwd *entry = getpwuid((uid_t)uid);
    if (entry != NULL && strlen(entry->pw_name) < EXEC_USER_MAX)
        snprintf(out, EXEC_USER_MAX, "%s", entry->pw_name);
    else
        snprintf(out, EXEC_USER_MAX, "#%u", uid);
}
