/* SPDX-License-Identifier: Apache-2.0 */
#include "talk/roll.h"

#include "base/assert.h"
#include "term/say.h"
#include "view/view.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_SIZE (4u + 8 + 1 + 1 + 8 + 8 + 5 * 8 + 4 + 8 + 8 + 4 + 8)
#define EVENT_SIZE (8u + 8 + 1 + 1 + 4 + 4 + 4 + 4)

/* ---- bytes ----------------------------------------------------------------------- */

static void put_text(struct cop__writer *writer, const char *text)
{
    cop__put_bytes(writer,
                   (struct cop__bytes){(const uint8_t *)text, (uint32_t)strlen(text)});
}

static void put_event(struct cop__writer *writer, const struct roll_event *event)
{
    cop__put_u64(writer, event->epoch);
    cop__put_u64(writer, event->at_ns);
    cop__put_u8(writer, (uint8_t)event->change.kind);
    cop__put_u8(writer, (uint8_t)event->presence);
    cop__put_u32(writer, event->change.id);
    cop__put_u32(writer, event->change.role);
    cop__put_u32(writer, event->change.old_worker);
    cop__put_u32(writer, event->change.new_worker);
}

static void get_event(struct cop__reader *reader, struct roll_event *event)
{
    event->epoch = cop__get_u64(reader);
    event->at_ns = cop__get_u64(reader);
    event->change.kind = (enum cop_view_change_kind)cop__get_u8(reader);
    event->presence = (enum cop_presence)cop__get_u8(reader);
    event->change.id = cop__get_u32(reader);
    event->change.role = cop__get_u32(reader);
    event->change.old_worker = cop__get_u32(reader);
    event->change.new_worker = cop__get_u32(reader);
    if (event->change.kind > COP_VIEW_UNDRAINED || event->presence > COP_LEFT)
        reader->failed = true;
}

static void put_fixed(struct cop__writer *writer, const struct roll *roll)
{
    cop__put_u32(writer, roll->self);
    cop__put_u64(writer, roll->incarnation);
    cop__put_u8(writer, roll->is_member);
    cop__put_u8(writer, roll->is_degraded);
    cop__put_u64(writer, roll->serial);
    cop__put_u64(writer, roll->installed_ns);
    cop__put_u64(writer, roll->times.heard);
    cop__put_u64(writer, roll->times.proposed);
    cop__put_u64(writer, roll->times.stable);
    cop__put_u64(writer, roll->times.committed);
    cop__put_u64(writer, roll->times.epoch);
    cop__put_u32(writer, roll->n);
    cop__put_u64(writer, roll->first);
    cop__put_u64(writer, roll->event_total);
    cop__put_u32(writer, roll->held_total);
    cop__put_u64(writer, roll->held_ns);
}

static void get_fixed(struct cop__reader *reader, struct roll *roll)
{
    roll->self = cop__get_u32(reader);
    roll->incarnation = cop__get_u64(reader);
    roll->is_member = cop__get_u8(reader) != 0;
    roll->is_degraded = cop__get_u8(reader) != 0;
    roll->serial = cop__get_u64(reader);
    roll->installed_ns = cop__get_u64(reader);
    roll->times.heard = cop__get_u64(reader);
    roll->times.proposed = cop__get_u64(reader);
    roll->times.stable = cop__get_u64(reader);
    roll->times.committed = cop__get_u64(reader);
    roll->times.epoch = cop__get_u64(reader);
    roll->n = cop__get_u32(reader);
    roll->first = cop__get_u64(reader);
    roll->event_total = cop__get_u64(reader);
    roll->held_total = cop__get_u32(reader);
    roll->held_ns = cop__get_u64(reader);
}

struct cop_buf *roll_encode(const struct roll *roll)
{
    struct cop_buf *view = cop__view_encode(roll->view);
    size_t length = FIXED_SIZE + 4 + strlen(roll->shape) + 4 + strlen(roll->quorum) +
                    4 + strlen(roll->security) + 4 + roll->event_count * EVENT_SIZE +
                    4 + 4 + 4 * roll_held(roll);
    struct cop_buf *buf = view ? cop_buf_create(length + view->length) : NULL;
    if (buf != NULL) {
        struct cop__writer writer = cop__writer(buf->data, buf->length);
        put_fixed(&writer, roll);
        put_text(&writer, roll->shape);
        put_text(&writer, roll->quorum);
        put_text(&writer, roll->security);
        cop__put_u32(&writer, roll->event_count);
        for (uint32_t i = 0; i < roll->event_count; i++)
            put_event(&writer, &roll->events[i]);
        cop__put_u32(&writer, roll_held(roll));
        for (uint32_t i = 0; i < roll_held(roll); i++)
            cop__put_u32(&writer, roll->held[i]);
        cop__put_bytes(&writer, (struct cop__bytes){view->data, view->length});
        COP_ASSERT(!writer.failed && writer.at == writer.end);
    }
    cop_buf_unref(view);
    return buf;
}

static int decode_view(struct roll *roll, struct cop__bytes bytes)
{
    struct cop_shape shape;
    struct cop_view *start;
    if (cop_shape_parse(roll->shape, &shape, NULL, 0) != 0)
        return COP_EMALFORMED;
    int error = cop_view_create_static(roll->n, &shape, roll->first, &start);
    if (error)
        return error == COP_ENOMEM ? error : COP_EMALFORMED;
    error = cop__view_decode(bytes, start, &roll->view);
    cop_view_unref(start);
    return error;
}

int roll_decode(struct cop__bytes body, struct roll *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    struct roll roll = {0};
    get_fixed(&reader, &roll);
    cop__get_text(&reader, roll.shape, sizeof roll.shape);
    cop__get_text(&reader, roll.quorum, sizeof roll.quorum);
    cop__get_text(&reader, roll.security, sizeof roll.security);
    struct cop__list events = cop__get_list(&reader, EVENT_SIZE);
    struct cop__list held = cop__get_list(&reader, 4);
    struct cop__bytes view = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || events.count > ROLL_EVENTS_MAX ||
        held.count != roll_held(&roll))
        return COP_EMALFORMED;
    struct cop__reader ids = cop__reader(held.data, (size_t)held.count * 4);
    for (uint32_t i = 0; i < held.count; i++)
        roll.held[i] = cop__get_u32(&ids);
    roll.event_count = events.count;
    struct cop__reader each =
        cop__reader(events.data, (size_t)events.count * EVENT_SIZE);
    for (uint32_t i = 0; i < events.count; i++)
        get_event(&each, &roll.events[i]);
    int error = each.failed ? COP_EMALFORMED : decode_view(&roll, view);
    if (!error)
        *out = roll;
    return error;
}

void roll_free(struct roll *roll)
{
    cop_view_unref(roll->view);
    roll->view = NULL;
}

/* ---- names ----------------------------------------------------------------------- */

void roll_name(const struct roll *roll, const struct cluster *cluster, cop_id id,
               char out[COP_NAME_MAX + 1])
{
    if (cluster != NULL && id < cluster->n)
        cluster_name(cluster, id, out);
    else
        cop_view_name(roll->view, id, out, COP_NAME_MAX + 1);
}

char *roll_fold(const struct roll *roll, const struct cluster *cluster,
                const cop_id *ids, uint32_t count)
{
    struct nodeset set = {0};
    char name[COP_NAME_MAX + 1];
    char *folded = NULL;
    int error = 0;
    for (uint32_t i = 0; i < count && !error; i++) {
        roll_name(roll, cluster, ids[i], name);
        error = nodeset_add(&set, name);
    }
    if (!error)
        folded = nodeset_fold(&set);
    nodeset_free(&set);
    return folded;
}

cop_id roll_find(const struct roll *roll, const struct cluster *cluster,
                 const char *text)
{
    char name[COP_NAME_MAX + 1];
    uint32_t slots = cop_view_slots(roll->view);
    struct cop_member member;
    uint64_t number;
    for (cop_id id = 0; id < slots; id++) {
        if (cop_view_member(roll->view, id, &member) != 0)
            continue;
        roll_name(roll, cluster, id, name);
        if (strcmp(name, text) == 0)
            return id;
    }
    if (parse_number(text, 0, slots - 1, &number) == 0 &&
        cop_view_member(roll->view, (cop_id)number, &member) == 0)
        return (cop_id)number;
    return COP_ID_NONE;
}

/* ---- what changed ---------------------------------------------------------------- */

const char *roll_event_name(const struct roll_event *event)
{
    switch (event->change.kind) {
    case COP_VIEW_JOINED:
        return "joined";
    case COP_VIEW_LEFT:
        return event->presence == COP_LEFT ? "left" : "removed";
    case COP_VIEW_RETURNED:
        return "returned";
    case COP_VIEW_REPLACED:
        return "replaced";
    case COP_VIEW_DRAINED:
        return "drained";
    case COP_VIEW_UNDRAINED:
        return "undrained";
    }
    return "?";
}

void roll_event_text(const struct roll *roll, const struct cluster *cluster,
                     const struct roll_event *event, char *out, size_t size)
{
    char name[COP_NAME_MAX + 1], before[COP_NAME_MAX + 1];
    const struct cop_view_change *change = &event->change;
    if (change->kind != COP_VIEW_REPLACED) {
        roll_name(roll, cluster, change->id, name);
        snprintf(out, size, "%s %s", name, roll_event_name(event));
        return;
    }
    roll_name(roll, cluster, change->new_worker, name);
    roll_name(roll, cluster, change->old_worker, before);
    snprintf(out, size, "%s has the rank %" PRIu32 " of %s",
             change->new_worker == COP_ID_NONE ? "nobody" : name, change->role, before);
}

/* ---- who is what ----------------------------------------------------------------- */

bool roll_is_present(const struct cop_member *member)
{
    return member->presence == COP_PRESENT;
}

bool roll_is_spare(const struct cop_member *member)
{
    return member->presence == COP_PRESENT && member->role == COP_SPARE;
}

bool roll_is_drained(const struct cop_member *member) { return member->drained; }

bool roll_is_removed(const struct cop_member *member)
{
    return member->presence == COP_REMOVED;
}

bool roll_has_left(const struct cop_member *member)
{
    return member->presence == COP_LEFT;
}

int roll_select(const struct roll *roll,
                bool (*wanted)(const struct cop_member *member), struct cop_ranks *out)
{
    for (cop_id id = 0; id < cop_view_slots(roll->view); id++) {
        struct cop_member member;
        if (cop_view_member(roll->view, id, &member) == 0 && wanted(&member) &&
            cop_ranks_push(out, id) != 0)
            return COP_ENOMEM;
    }
    return 0;
}
