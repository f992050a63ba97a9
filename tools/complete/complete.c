/* SPDX-License-Identifier: Apache-2.0 */
#include "complete/complete.h"

#include "cluster/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values that the name of an option does not tell. */
static const struct {
    const char *option;
    const char *values; /* by '|' */
} known[] = {
    {"shape", "radix:2|radix:4|kary:2|knomial:2|binomial|flat|chain"},
    {"quorum", "majority|none|fixed|has:"},
    {"detector", "connection|ring:100ms|ring:100ms,witnesses:2"},
    {"signal", "KILL|STOP|CONT"},
    {"algorithm", "early|strict|tree|linear|allreduce"},
    {"op", "and|or|sum|min|max"},
    {"protocol", "probe|member|agree|coll|stream"},
    {"repair", "splice|promote|rebalance"},
    {"trigger", "connection|inquiry|ring"},
};

bool complete_is_asked(int argc, char **argv)
{
    return argc > 2 && strcmp(argv[argc - 1], COMPLETE_MARK) == 0;
}

void complete_offer(const char *candidate, size_t length, const char *start)
{
    size_t typed = strlen(start);
    if (length >= typed && memcmp(candidate, start, typed) == 0)
        printf("%.*s\n", (int)length, candidate);
}

/* ---- kinds of words -------------------------------------------------------------- */

/* "a|b|c" */
static void offer_each(const char *texts, const char *start)
{
    for (const char *at = texts; *at != '\0';) {
        size_t length = strcspn(at, "|");
        complete_offer(at, length, start);
        at += length + (at[length] == '|');
    }
}

/* Of the cluster that the line names, or of the usual one; of none, if there is none. */
static void offer_members(const char *cluster, const char *start)
{
    struct settings settings;
    struct local local;
    if (local_settings(&settings, cluster) != 0 ||
        local_open(settings_name(&settings), &local) != 0)
        return;
    for (cop_id i = 0; i < cluster_count(&local.cluster); i++) {
        char name[NODESET_NAME_LENGTH + 1];
        cluster_name(&local.cluster, i, name);
        complete_offer(name, strlen(name), start);
    }
    local_close(&local);
}

/* By what the help calls it: MEMBER, NODESET, FILE, SOCKET, SHAPE. */
static void offer_names(const char *kind, const char *cluster, const char *start)
{
    if (strstr(kind, "MEMBER") != NULL || strstr(kind, "NODESET") != NULL)
        offer_members(cluster, start);
    else if (strstr(kind, "FILE") != NULL || strstr(kind, "SOCKET") != NULL ||
             strstr(kind, "DEST") != NULL)
        puts(COMPLETE_FILES);
    else if (strstr(kind, "SHAPE") != NULL)
        offer_each(known[0].values, start);
}

static void offer_value(const struct args_option *option, const char *cluster,
                        const char *start)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].option, option->name) == 0) {
            offer_each(known[i].values, start);
            return;
        }
    if (strchr(option->value, '|') != NULL)
        offer_each(option->value, start);
    else
        offer_names(option->value, cluster, start);
}

/* ---- options --------------------------------------------------------------------- */

static void offer_options(const struct args *args, const char *start)
{
    char text[64];
    for (const struct args_option *o = args->options; o->name; o++) {
        int length = snprintf(text, sizeof text, "--%s", o->name);
        complete_offer(text, (size_t)length, start);
    }
    complete_offer("--help", 6, start);
}

/* The option that waits for the word after it; NULL. */
static const struct args_option *option_before(const struct args *args,
                                               const char *word)
{
    for (const struct args_option *o = args->options; o->name && word[0] == '-'; o++) {
        bool is_long = word[1] == '-' && strcmp(word + 2, o->name) == 0;
        bool is_short = o->letter && word[1] == o->letter && word[2] == '\0';
        if (o->kind != ARGS_FLAG && (is_long || is_short))
            return o;
    }
    return NULL;
}

/* ---- operands -------------------------------------------------------------------- */

/*
 * What the first operand may be, by the usage: "set GROUP | list [GROUP...]" has set and list,
 * "new|show [options] FILE" has new and show. False: it is no word of ours.
 */
static bool offer_verbs(const char *usage, const char *start)
{
    bool is_first = true, has_any = false; /* of an alternative; options do not count */
    size_t length;
    for (const char *at = usage; *at != '\0'; at += length + (at[length] == ' ')) {
        length = strcspn(at, " ");
        if (length == 1 && *at == '|') {
            is_first = true;
        } else if (*at != '[' && is_first) {
            char token[128];
            snprintf(token, sizeof token, "%.*s", (int)length, at);
            is_first = false;
            if (*at < 'a' || *at > 'z')
                continue;
            offer_each(token, start);
            has_any = true;
        }
    }
    return has_any;
}

void complete_print(const struct args *args, char *const *words, int count)
{
    const char *start = words[count - 1], *cluster = NULL;
    bool is_over = false, has_operand = false;
    for (int i = 0; i + 1 < count; i++) {
        const struct args_option *option = option_before(args, words[i]);
        if (strcmp(words[i], "--") == 0)
            is_over = true;
        else if (words[i][0] != '-')
            has_operand = true;
        if (option == NULL)
            continue;
        if (i + 2 == count) {
            offer_value(option, cluster, start);
            return;
        }
        i++;
        if (strcmp(option->name, "name") == 0)
            cluster = words[i];
    }
    if (is_over) {
        puts(COMPLETE_FILES);
        return;
    }
    if (start[0] == '-') {
        offer_options(args, start);
        return;
    }
    if (has_operand || !offer_verbs(args->usage, start))
        offer_names(args->usage, cluster, start);
}
