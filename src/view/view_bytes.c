/* SPDX-License-Identifier: Apache-2.0 */
#include "view/view.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* ---- differences ----------------------------------------------------------------- */

void cop__delta_free(struct cop__delta *delta)
{
    for (uint32_t i = 0; i < delta->count; i++)
        cop_buf_unref(delta->items[i].card);
    free(delta->items);
    *delta = (struct cop__delta){0};
}

static uint32_t place_of(const struct cop__delta *delta, cop_id id)
{
    uint32_t low = 0, high = delta->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (delta->items[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct cop__entry *cop__delta_find(const struct cop__delta *delta, cop_id id)
{
    uint32_t at = place_of(delta, id);
    return at < delta->count && delta->items[at].id == id ? &delta->items[at] : NULL;
}

static int make_room(struct cop__delta *delta, uint32_t at)
{
    if (delta->count == delta->capacity) {
        uint32_t capacity = delta->capacity ? 2 * delta->capacity : 4;
        void *grown = realloc(delta->items, capacity * sizeof *delta->items);
        if (!grown)
            return COP_ENOMEM;
        delta->items = grown;
        delta->capacity = capacity;
    }
    memmove(delta->items + at + 1, delta->items + at,
            (delta->count - at) * sizeof *delta->items);
    delta->count++;
    return 0;
}

int cop__delta_put(struct cop__delta *delta, const struct cop__entry *entry)
{
    uint32_t at = place_of(delta, entry->id);
    if (at < delta->count && delta->items[at].id == entry->id) {
        cop_buf_unref(delta->items[at].card);
    } else if (make_room(delta, at)) {
        cop_buf_unref(entry->card);
        return COP_ENOMEM;
    }
    delta->items[at] = *entry;
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------- */

void cop__ballot_put(struct cop__writer *writer, const struct cop_ballot *ballot)
{
    cop__put_u64(writer, ballot->epoch);
    cop__put_u32(writer, ballot->root);
    cop__put_u64(writer, ballot->incarnation);
}

struct cop_ballot cop__ballot_get(struct cop__reader *reader)
{
    struct cop_ballot ballot;
    ballot.epoch = cop__get_u64(reader);
    ballot.root = cop__get_u32(reader);
    ballot.incarnation = cop__get_u64(reader);
    return ballot;
}

/* id, role, incarnation, since, presence with flags above its two bits, bytes of the card */
#define ENTRY_FIXED (4u + 4u + 8u + 8u + 1u + 4u)

size_t cop__delta_bytes(const struct cop__delta *delta)
{
    size_t bytes = 4;
    for (uint32_t i = 0; i < delta->count; i++)
        bytes +=
            ENTRY_FIXED + (delta->items[i].card ? delta->items[i].card->length : 0);
    return bytes;
}

static void put_entry(struct cop__writer *writer, const struct cop__entry *entry)
{
    struct cop__bytes card = {NULL, 0};
    if (entry->card)
        card = (struct cop__bytes){entry->card->data, entry->card->length};
    cop__put_u32(writer, entry->id);
    cop__put_u32(writer, entry->role);
    cop__put_u64(writer, entry->incarnation);
    cop__put_u64(writer, entry->since);
    cop__put_u8(writer, (uint8_t)(entry->flags << 2 | entry->presence));
    cop__put_bytes(writer, card);
}

void cop__delta_write(struct cop__writer *writer, const struct cop__delta *delta)
{
    cop__put_u32(writer, delta->count);
    for (uint32_t i = 0; i < delta->count; i++)
        put_entry(writer, &delta->items[i]);
}

bool cop__card_is_sane(struct cop__bytes card)
{
    bool is_sane = card.length > 0 && card.data[0] < card.length &&
                   card.length - 1u - card.data[0] <= COP_ADDRESS_MAX;
    for (uint32_t i = 1; is_sane && i < card.length; i++)
        is_sane = card.data[i] >= ' ' && card.data[i] != 0x7f;
    return is_sane;
}

/* COP_EMALFORMED or COP_ENOMEM; the caller's card otherwise. */
static int get_entry(struct cop__reader *reader, struct cop__entry *out)
{
    struct cop__entry entry = {0};
    entry.id = cop__get_u32(reader);
    entry.role = cop__get_u32(reader);
    entry.incarnation = cop__get_u64(reader);
    entry.since = cop__get_u64(reader);
    uint8_t how = cop__get_u8(reader);
    entry.presence = how & 3;
    entry.flags = how >> 2;
    struct cop__bytes card = cop__get_bytes(reader);
    if (reader->failed || entry.id >= COP_MEMBERS_MAX || entry.presence > COP_LEFT ||
        entry.flags > COP__ENTRY_FLAGS || (card.length > 0 && !cop__card_is_sane(card)))
        return COP_EMALFORMED;
    if (card.length > 0) {
        entry.card = cop_buf_copy(card.data, card.length);
        if (!entry.card)
            return COP_ENOMEM;
    }
    *out = entry;
    return 0;
}

int cop__delta_read(struct cop__reader *reader, struct cop__delta *out)
{
    struct cop__delta delta = {0};
    uint32_t count = cop__get_u32(reader);
    int error = reader->failed ? COP_EMALFORMED : 0;
    for (uint32_t i = 0; i < count && !error; i++) {
        struct cop__entry entry;
        error = get_entry(reader, &entry);
        if (!error && i > 0 && entry.id <= delta.items[i - 1].id) {
            cop_buf_unref(entry.card);
            error = COP_EMALFORMED;
        } else if (!error) {
            error = cop__delta_put(&delta, &entry);
        }
    }
    if (error) {
        cop__delta_free(&delta);
        return error;
    }
    *out = delta;
    return 0;
}

/* ---- whole views ----------------------------------------------------------------- */

struct cop_buf *cop__view_encode(const struct cop_view *view)
{
    struct cop__delta all = {.count = cop_view_changes(view)};
    /* Only read: the entries stay the view's own. */
    if (all.count > 0)
        all.items = (struct cop__entry *)(uintptr_t)cop__view_change(view, 0);
    struct cop_buf *buf = cop_buf_create(COP__SIZE_ballot + cop__delta_bytes(&all));
    if (!buf)
        return NULL;
    struct cop_ballot ballot = cop_view_ballot(view);
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__ballot_put(&writer, &ballot);
    cop__delta_write(&writer, &all);
    return buf;
}

int cop__view_decode(struct cop__bytes bytes, const struct cop_view *like,
                     struct cop_view **out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct cop_ballot ballot = cop__ballot_get(&reader);
    struct cop__delta all;
    int error = cop__delta_read(&reader, &all);
    if (error)
        return error;
    if (!cop__reader_is_done(&reader) || ballot.epoch == 0)
        error = COP_EMALFORMED;
    else
        error = cop__view_from_start(like, &ballot, &all, out);
    cop__delta_free(&all);
    return error;
}
