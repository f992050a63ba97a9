/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"

#include <string.h>

static const struct cop_filter *const table[] = {
#define COP__FILTER_ROW(name) &cop__filter_##name,
    COP__FILTERS(COP__FILTER_ROW)
#undef COP__FILTER_ROW
};
#define TABLE_COUNT (sizeof table / sizeof(struct cop_filter *))

const struct cop_filter *cop_filter_at(uint32_t index)
{
    return index < TABLE_COUNT ? table[index] : NULL;
}

const struct cop_filter *cop_filter_find(const char *name)
{
    for (uint32_t i = 0; i < TABLE_COUNT; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

bool cop__filter_is_ours(const struct cop_filter *filter)
{
    for (uint32_t i = 0; i < TABLE_COUNT; i++)
        if (table[i] == filter)
            return true;
    return false;
}
