/* SPDX-License-Identifier: Apache-2.0 */
#include "number/numbers.h"

#include <coppice/error.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where a series of numbers begins and ends, and how it gets from one to the next. */
struct range {
    uint64_t first, last;
    uint64_t factor; /* 0: one by one */
};

/* The digits at the front; *text goes on to what follows them. */
static bool take_number(const char **text, uint64_t *out)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

static bool take_range(const char **text, struct range *out)
{
    *out = (struct range){.factor = 0};
    if (!take_number(text, &out->first))
        return false;
    out->last = out->first;
    if (**text != '-')
        return true;
    ++*text;
    if (!take_number(text, &out->last))
        return false;
    if (**text != 'x')
        return true;
    ++*text;
    /* A factor of 1 would never arrive. */
    return take_number(text, &out->factor) && out->factor >= 2;
}

/* `last` fits 32 bits and the factor is cut to as much, so that nothing overflows. */
static uint64_t step(const struct range *range, uint64_t number)
{
    uint64_t factor = range->factor > UINT32_MAX ? UINT32_MAX : range->factor;
    return factor > 0 ? number * factor : number + 1;
}

int parse_numbers(const char *text, uint32_t least, uint32_t most, uint32_t limit,
                  struct numbers *out)
{
    struct numbers numbers = {.count = 0};
    for (const char *at = text;; at++) {
        struct range range;
        if (!take_range(&at, &range) || (*at != ',' && *at != '\0'))
            return COP_EINVAL;
        if (range.first < least || range.last > most || range.first > range.last)
            return COP_EINVAL;
        for (uint64_t i = range.first; i <= range.last; i = step(&range, i)) {
            if (numbers.count == limit || numbers.count == NUMBERS_MAX)
                return COP_EINVAL;
            numbers.items[numbers.count++] = (uint32_t)i;
        }
        if (*at == '\0')
            break;
    }
    memcpy(out->items, numbers.items, numbers.count * sizeof *out->items);
    out->count = numbers.count;
    return 0;
}
