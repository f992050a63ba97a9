/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of shared objects: loading is I/O, so it is here and not in src/filter. */
#include <coppice/filter.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More in one object is a table that was not meant as one. */
#define FILTERS_MAX 256u

struct cop_plugin {
    void *handle;
    const struct cop_filters *table;
};

static int judge_one(const struct cop_filters *table, uint32_t i, char *why,
                     size_t size)
{
    const struct cop_filter *filter = table->filters[i];
    const char *text = "its place in the table is empty";
    int error = filter ? cop_filter_valid(filter, &text) : COP_EINVAL;
    if (error) {
        bool named = filter && filter->abi == COP_FILTER_ABI && filter->name;
        snprintf(why, size, "filter %u (%.*s): %s", (unsigned)i,
                 (int)COP_FILTER_NAME_MAX, named ? filter->name : "no name", text);
        return error;
    }
    bool taken = cop_filter_find(filter->name) != NULL;
    for (uint32_t j = 0; j < i; j++)
        taken |= strcmp(table->filters[j]->name, filter->name) == 0;
    if (taken)
        snprintf(why, size, "filter %u: there is another one with the name %s",
                 (unsigned)i, filter->name);
    return taken ? COP_EINVAL : 0;
}

static int judge(const struct cop_filters *table, char *why, size_t size)
{
    if (table->abi != COP_FILTER_ABI) {
        snprintf(why, size, "it was made for version %u of the interface, this is %u",
                 (unsigned)table->abi, COP_FILTER_ABI);
        return COP_EVERSION;
    }
    if (table->count == 0 || table->count > FILTERS_MAX || !table->filters) {
        snprintf(why, size, "its table has %u filters; 1 to %u are possible",
                 (unsigned)table->count, FILTERS_MAX);
        return COP_EINVAL;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        int error = judge_one(table, i, why, size);
        if (error)
            return error;
    }
    return 0;
}

/* A name without a slash would be looked for in the system's folders. */
static void *open_here(const char *path)
{
    char here[PATH_MAX];
    if (strchr(path, '/'))
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (snprintf(here, sizeof here, "./%s", path) >= (int)sizeof here)
        return NULL;
    return dlopen(here, RTLD_NOW | RTLD_LOCAL);
}

int cop_plugin_load(const char *path, struct cop_plugin **out, char *why, size_t size)
{
    struct cop_plugin *plugin = malloc(sizeof *plugin);
    if (!plugin) {
        snprintf(why, size, "%s", cop_strerror(COP_ENOMEM));
        return COP_ENOMEM;
    }
    int error = 0;
    plugin->handle = open_here(path);
    plugin->table = plugin->handle ? dlsym(plugin->handle, COP_FILTERS_SYMBOL) : NULL;
    if (!plugin->table) {
        const char *text = dlerror();
        snprintf(why, size, "%s", text ? text : "the name is too long");
        error = COP_ENOENT;
    } else {
        error = judge(plugin->table, why, size);
    }
    if (error) {
        cop_plugin_unload(plugin);
        return error;
    }
    *out = plugin;
    return 0;
}

const struct cop_filter *cop_plugin_at(const struct cop_plugin *plugin, uint32_t index)
{
    return index < plugin->table->count ? plugin->table->filters[index] : NULL;
}

const struct cop_filter *cop_plugin_find(const struct cop_plugin *plugin,
                                         const char *name)
{
    for (uint32_t i = 0; i < plugin->table->count; i++)
        if (strcmp(plugin->table->filters[i]->name, name) == 0)
            return plugin->table->filters[i];
    return NULL;
}

void cop_plugin_unload(struct cop_plugin *plugin)
{
    if (!plugin)
        return;
    if (plugin->handle)
        dlclose(plugin->handle);
    free(plugin);
}
