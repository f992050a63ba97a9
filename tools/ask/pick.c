/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/pick.h"

#include "base/rankset.h"
#include "term/commands.h"
#include "term/say.h"
#include "wire/codec.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

static int pick_local(const char *command, const struct local *local, const char *text,
                      struct cop_ranks *out)
{
    struct cop_ranks slots = {0};
    char *texts[] = {(char *)(uintptr_t)text};
    int code = local_select(local, command, texts, 1, &slots);
    for (uint32_t i = 0; i < slots.count && code == 0; i++) {
        cop_id id = cluster_id(&local->cluster, slots.items[i]);
        if (id != COP_ID_NONE && cop__rankset_put(out, id) != 0)
            code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    cop_ranks_free(&slots);
    return code;
}

/* All who are in the view, for "!x". */
static int all_names(const struct roll *roll, struct nodeset *out)
{
    struct cop_ranks ids = {0};
    char name[COP_NAME_MAX + 1];
    int error = roll_select(roll, roll_is_present, &ids);
    for (uint32_t i = 0; i < ids.count && !error; i++) {
        roll_name(roll, NULL, ids.items[i], name);
        error = nodeset_add(out, name);
    }
    cop_ranks_free(&ids);
    return error;
}

static int pick_roll(const char *command, const struct roll *roll, const char *text,
                     struct cop_ranks *out)
{
    struct nodeset all = {0}, set = {0};
    char message[300] = "out of memory";
    int code = 0;
    int error = text[0] == '!' ? all_names(roll, &all) : 0;
    if (!error)
        error = nodeset_parse(text, &all, &set, message, sizeof message);
    if (error)
        code = fail(EXIT_USAGE, "%s: %s", command, message);
    for (uint32_t i = 0; i < set.count && code == 0; i++) {
        cop_id id = roll_find(roll, NULL, set.names[i]);
        if (id == COP_ID_NONE)
            code =
                fail(EXIT_USAGE, "%s: there is no member '%s'", command, set.names[i]);
        else if (cop__rankset_put(out, id) != 0)
            code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    nodeset_free(&all);
    nodeset_free(&set);
    return code;
}

int pick_ids(struct follow *follow, const struct roll *roll, const char *text,
             struct cop_ranks *out)
{
    char *expanded = NULL;
    if (follow->local != NULL)
        return pick_local(follow->command, follow->local, text, out);
    char *texts[] = {(char *)(uintptr_t)text};
    int code =
        strchr(text, '@') != NULL
            ? client_expand(&follow->client, NULL, follow->command, texts, 1, &expanded)
            : 0;
    if (code == 0)
        code = pick_roll(follow->command, roll, expanded ? expanded : text, out);
    free(expanded);
    return code;
}

uint8_t *pick_ranges(const struct cop_ranks *ids, uint32_t *count)
{
    size_t size = (size_t)ids->count * 8;
    uint8_t *out = malloc(size + 1);
    struct cop__writer writer = cop__writer(out, out ? size : 0);
    *count = 0;
    for (uint32_t i = 0, last; i < ids->count && out; i = last + 1, ++*count) {
        last = i;
        while (last + 1 < ids->count && ids->items[last + 1] == ids->items[last] + 1)
            last++;
        cop__put_u32(&writer, ids->items[i]);
        cop__put_u32(&writer, ids->items[last]);
    }
    return out;
}
