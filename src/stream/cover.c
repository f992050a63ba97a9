/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include <stdlib.h>

/* Sets of lives as ranges: those of a start have one incarnation, so they are few. */

void cop__lives_free(struct cop__lives *lives)
{
    free(lives->items);
    *lives = (struct cop__lives){0};
}

static uint64_t end_of(const struct cop__range *range)
{
    return (uint64_t)range->first + range->count;
}

/* Appends behind all others, melting what fits. */
static bool append(struct cop_node *node, struct cop__lives *lives,
                   struct cop__range range)
{
    struct cop__range *last = lives->count ? &lives->items[lives->count - 1] : NULL;
    if (last && end_of(last) == range.first && last->incarnation == range.incarnation) {
        last->count += range.count;
        return true;
    }
    if (lives->count == lives->capacity) {
        uint32_t capacity = lives->capacity ? 2 * lives->capacity : 4;
        void *grown = realloc(lives->items, capacity * sizeof *lives->items);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return false;
        }
        lives->items = grown;
        lives->capacity = capacity;
    }
    lives->items[lives->count++] = range;
    return true;
}

static void cut(struct cop__range *range, uint32_t count)
{
    range->first += count;
    range->count -= count;
}

/* The first stretch of the two: of one alone, or of both, where the later life counts. */
static struct cop__range take(struct cop__range *a, struct cop__range *b, bool *both)
{
    struct cop__range *low = a->count && (!b->count || a->first <= b->first) ? a : b;
    struct cop__range *high = low == a ? b : a;
    struct cop__range taken = *low;
    if (high->count && high->first == low->first) {
        *both = true;
        if (high->count < taken.count)
            taken.count = high->count;
        if (high->incarnation > taken.incarnation)
            taken.incarnation = high->incarnation;
        cut(high, taken.count);
    } else if (high->count && high->first < end_of(low)) {
        taken.count = high->first - low->first;
    }
    cut(low, taken.count);
    return taken;
}

bool cop__lives_add(struct cop_node *node, struct cop__lives *lives,
                    const struct cop__lives *more)
{
    struct cop__lives sum = {0};
    struct cop__range a = {0}, b = {0};
    uint32_t i = 0, j = 0;
    bool both = false;
    for (;;) {
        if (!a.count && i < lives->count)
            a = lives->items[i++];
        if (!b.count && j < more->count)
            b = more->items[j++];
        if ((!a.count && !b.count) || !append(node, &sum, take(&a, &b, &both)))
            break;
    }
    cop__lives_free(lives);
    *lives = sum;
    return both;
}

bool cop__lives_add_one(struct cop_node *node, struct cop__lives *lives, cop_id id,
                        cop_incarnation incarnation)
{
    struct cop__range one = {id, 1, incarnation};
    struct cop__lives set = {&one, 1, 1};
    return cop__lives_add(node, lives, &set);
}

cop_incarnation cop__lives_find(const struct cop__lives *lives, cop_id id)
{
    uint32_t low = 0, high = lives->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (end_of(&lives->items[middle]) <= id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lives->count && lives->items[low].first <= id
               ? lives->items[low].incarnation
               : 0;
}

uint32_t cop__lives_count(const struct cop__lives *lives)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < lives->count; i++)
        sum += lives->items[i].count;
    return sum;
}

size_t cop__lives_size(const struct cop__lives *lives)
{
    return (size_t)lives->count * COP__SIZE_range;
}

void cop__lives_write(struct cop__writer *writer, const struct cop__lives *lives)
{
    for (uint32_t i = 0; i < lives->count; i++) {
        cop__put_u32(writer, lives->items[i].first);
        cop__put_u32(writer, lives->items[i].count);
        cop__put_u64(writer, lives->items[i].incarnation);
    }
}

bool cop__lives_read(struct cop_node *node, struct cop__bytes bytes,
                     struct cop__lives *out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    uint64_t end = 0;
    *out = (struct cop__lives){0};
    for (uint32_t i = 0; i < bytes.length / COP__SIZE_range; i++) {
        struct cop__range range = {.first = cop__get_u32(&reader)};
        range.count = cop__get_u32(&reader);
        range.incarnation = cop__get_u64(&reader);
        bool good = range.first >= end && range.count > 0 && range.incarnation != 0 &&
                    end_of(&range) <= COP_MEMBERS_MAX;
        end = end_of(&range);
        if (!good || !append(node, out, range)) {
            cop__lives_free(out);
            return false;
        }
    }
    if (cop__reader_is_done(&reader))
        return true;
    cop__lives_free(out);
    return false;
}
