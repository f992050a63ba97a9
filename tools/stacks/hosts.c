/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of many hosts: marked, read, and joined into one tree. */
#include "stacks/stacks.h"

#include <coppice/error.h>
#include <coppice/filter.h>
#include <stdlib.h>
#include <string.h>

#define MARK "coppice-stack-1 "

void stacks_mark(FILE *out, const char *name, const char *key, const char *lines)
{
    for (const char *at = lines; *at;) {
        size_t length = strcspn(at, "\n");
        fprintf(out, MARK "%s %s %.*s\n", name, key, (int)length, at);
        at += length + (at[length] ? 1 : 0);
    }
}

static struct stack_host *host_of(struct stack_hosts *hosts, const char *name,
                                  const char *key)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        if (strcmp(hosts->at[i].key, key) == 0)
            return &hosts->at[i];
    struct stack_host *larger =
        realloc(hosts->at, (hosts->count + 1) * sizeof *hosts->at);
    if (larger == NULL)
        return NULL;
    hosts->at = larger;
    struct stack_host *host = &hosts->at[hosts->count++];
    *host = (struct stack_host){0};
    snprintf(host->name, sizeof host->name, "%s", name);
    snprintf(host->key, sizeof host->key, "%s", key);
    return host;
}

static int add_line(struct stack_host *host, const char *line)
{
    size_t length = strcspn(line, "\r\n");
    char *larger = realloc(host->lines, host->length + length + 2);
    if (larger == NULL)
        return COP_ENOMEM;
    host->lines = larger;
    memcpy(larger + host->length, line, length);
    host->length += length;
    larger[host->length++] = '\n';
    larger[host->length] = '\0';
    return 0;
}

static int take_line(struct stack_hosts *hosts, const char *line)
{
    char name[64], key[96];
    int rest = 0;
    const char *at = strstr(line, MARK);
    if (at == NULL ||
        sscanf(at + strlen(MARK), "%63s %95s %n", name, key, &rest) != 2 || rest == 0)
        return 0;
    struct stack_host *host = host_of(hosts, name, key);
    return host ? add_line(host, at + strlen(MARK) + rest) : COP_ENOMEM;
}

int stacks_read(FILE *in, struct stack_hosts *out)
{
    struct stack_hosts hosts = {0};
    char *line = NULL;
    size_t room = 0;
    int error = 0;
    while (!error && getline(&line, &room, in) >= 0)
        error = take_line(&hosts, line);
    free(line);
    if (error)
        stacks_hosts_fini(&hosts);
    else
        *out = hosts;
    return error;
}

void stacks_hosts_fini(struct stack_hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        free(hosts->at[i].lines);
    free(hosts->at);
    *hosts = (struct stack_hosts){0};
}

int stacks_join(const struct stack_hosts *hosts, struct cop_buf **out)
{
    const struct cop_filter *filter = cop_filter_find("stacks");
    struct cop_buf *empty = NULL,
                   **trees = calloc(hosts->count + 1, sizeof(struct cop_buf *));
    uint32_t count = 0;
    int error = trees ? cop_filter_init(filter, "text", "", &empty) : COP_ENOMEM;
    for (; !error && count < hosts->count; count += !error)
        error = stacks_tree(count, hosts->at[count].lines, &trees[count]);
    if (!error)
        error = cop_filter_fold(filter, empty, trees, count, out);
    for (uint32_t i = 0; i < count; i++)
        cop_buf_unref(trees[i]);
    cop_buf_unref(empty);
    free(trees);
    return error;
}
