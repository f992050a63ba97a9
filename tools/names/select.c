/* SPDX-License-Identifier: Apache-2.0 */
/* Members as users name them, and back: the part of cluster.h that knows node sets. */
#include "names/cluster.h"
#include "term/say.h"

#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * How a member is called in a node set: by its name. One that was let in with a name that no
 * set can have, by another version, is called by its id; false: it has none.
 */
static bool call(const struct cluster *cluster, cop_id place,
                 char out[NODESET_NAME_LENGTH + 1])
{
    cop_id id = cluster_id(cluster, place);
    cluster_name(cluster, place, out);
    if (cop__name_check(out, NULL, 0) == 0 || place < cluster->n)
        return true;
    snprintf(out, NODESET_NAME_LENGTH + 1, "%u", (unsigned)id);
    return id != COP_ID_NONE;
}

static int all_names(const struct cluster *cluster, struct nodeset *out)
{
    char name[NODESET_NAME_LENGTH + 1];
    int error = 0;
    for (cop_id id = 0; id < cluster_count(cluster) && !error; id++)
        if (call(cluster, id, name))
            error = nodeset_add(out, name);
    return error;
}

/* A name, or the digits of an id. Names go first: earlier versions let a host be called "7". */
static cop_id find(const struct cluster *cluster, const char *text)
{
    char name[NODESET_NAME_LENGTH + 1];
    uint64_t number;
    /*
     * Local clusters count their members, so the number in a name is a good first
     * guess.
     */
    const char *digits = text + strcspn(text, "0123456789");
    if (parse_number(digits, 0, cluster->n - 1, &number) == 0) {
        cluster_name(cluster, (cop_id)number, name);
        if (strcmp(name, text) == 0)
            return (cop_id)number;
    }
    for (cop_id id = 0; id < cluster_count(cluster); id++) {
        cluster_name(cluster, id, name);
        if (strcmp(name, text) == 0)
            return id;
    }
    if (parse_number(text, 0, COP_ID_NONE - 1, &number) != 0)
        return COP_ID_NONE;
    for (uint32_t i = 0; i < cluster->extra_count; i++)
        if (cluster->extras[i].id == number)
            return cluster->n + i;
    return number < cluster->n ? (cop_id)number : COP_ID_NONE;
}

static int compare_ranks(const void *a, const void *b)
{
    cop_rank x = *(const cop_rank *)a, y = *(const cop_rank *)b;
    return (x > y) - (x < y);
}

static void sort_unique(struct cop_ranks *ranks)
{
    uint32_t kept = 0;
    if (ranks->count > 0)
        qsort(ranks->items, ranks->count, sizeof *ranks->items, compare_ranks);
    for (uint32_t i = 0; i < ranks->count; i++)
        if (kept == 0 || ranks->items[kept - 1] != ranks->items[i])
            ranks->items[kept++] = ranks->items[i];
    ranks->count = kept;
}

/* Looks up every name of a set. */
static int add_set(const struct cluster *cluster, const struct nodeset *set,
                   struct cop_ranks *out, char *message, size_t size)
{
    for (uint32_t i = 0; i < set->count; i++) {
        cop_id id = find(cluster, set->names[i]);
        if (id == COP_ID_NONE) {
            snprintf(message, size, "there is no member '%s'", set->names[i]);
            return COP_EINVAL;
        }
        int error = cop_ranks_push(out, id);
        if (error)
            return error;
    }
    return 0;
}

/* The operands of a command are one node set, written in several words. */
static char *join(char *const *texts, int count)
{
    size_t length = 1;
    for (int i = 0; i < count; i++)
        length += strlen(texts[i]) + 1;
    char *joined = malloc(length);
    if (joined == NULL)
        return NULL;
    char *at = joined;
    for (int i = 0; i < count; i++)
        at += sprintf(at, "%s%s", i > 0 ? "," : "", texts[i]);
    *at = '\0';
    return joined;
}

int cluster_select(const struct cluster *cluster, char *const *texts, int count,
                   struct cop_ranks *out, char *message, size_t size)
{
    struct nodeset all = {0}, set = {0};
    struct cop_ranks ranks = {0};
    char *text = join(texts, count);
    int error = text ? 0 : COP_ENOMEM;
    if (size > 0)
        message[0] = '\0';
    if (!error && text[0] == '!')
        error = all_names(cluster, &all);
    if (!error)
        error = nodeset_parse(text, &all, &set, message, size);
    if (!error)
        error = add_set(cluster, &set, &ranks, message, size);
    if (error && size > 0 && message[0] == '\0')
        snprintf(message, size, "%s", cop_strerror(error));
    free(text);
    nodeset_free(&all);
    nodeset_free(&set);
    if (error) {
        cop_ranks_free(&ranks);
        return error;
    }
    sort_unique(&ranks);
    *out = ranks;
    return 0;
}

char *cluster_fold(const struct cluster *cluster, const cop_id *ids, uint32_t count)
{
    struct nodeset set = {0};
    char name[NODESET_NAME_LENGTH + 1];
    char *folded = NULL;
    int error = 0;
    for (uint32_t i = 0; i < count && !error; i++) {
        (void)call(cluster, ids[i], name);
        error = nodeset_add(&set, name);
    }
    if (!error)
        folded = nodeset_fold(&set);
    nodeset_free(&set);
    return folded;
}
