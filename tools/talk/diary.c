/* SPDX-License-Identifier: Apache-2.0 */
#include "talk/diary.h"

#include "base/assert.h"

#include <coppice/error.h>

#define SUSPICION_SIZE (8u + 8 + 4 + 4 + 8 + 1 + 1 + 8)

/* ---- bytes ----------------------------------------------------------------------- */

static void put_suspicion(struct cop__writer *writer,
                          const struct cop_suspicion *suspicion)
{
    cop__put_u64(writer, suspicion->number);
    cop__put_u64(writer, suspicion->at);
    cop__put_u32(writer, suspicion->accuser);
    cop__put_u32(writer, suspicion->accused);
    cop__put_u64(writer, suspicion->incarnation);
    cop__put_u8(writer, (uint8_t)suspicion->reason);
    cop__put_u8(writer, (uint8_t)suspicion->outcome);
    cop__put_u64(writer, suspicion->epoch);
}

static void get_suspicion(struct cop__reader *reader, struct cop_suspicion *suspicion)
{
    suspicion->number = cop__get_u64(reader);
    suspicion->at = cop__get_u64(reader);
    suspicion->accuser = cop__get_u32(reader);
    suspicion->accused = cop__get_u32(reader);
    suspicion->incarnation = cop__get_u64(reader);
    suspicion->reason = (enum cop_reason)cop__get_u8(reader);
    suspicion->outcome = (enum cop_outcome)cop__get_u8(reader);
    suspicion->epoch = cop__get_u64(reader);
    if (suspicion->reason > COP_REASON_HEARSAY ||
        suspicion->outcome > COP_OUTCOME_REMOVED)
        reader->failed = true;
}

struct cop_buf *diary_encode(const struct diary *diary)
{
    struct cop_buf *roll = roll_encode(&diary->roll);
    size_t length = 8 + 4 + (size_t)diary->count * SUSPICION_SIZE + 4;
    struct cop_buf *buf = roll ? cop_buf_create(length + roll->length) : NULL;
    if (buf != NULL) {
        struct cop__writer writer = cop__writer(buf->data, buf->length);
        cop__put_u64(&writer, diary->serial);
        cop__put_u32(&writer, diary->count);
        for (uint32_t i = 0; i < diary->count; i++)
            put_suspicion(&writer, &diary->suspicions[i]);
        cop__put_bytes(&writer, (struct cop__bytes){roll->data, roll->length});
        COP_ASSERT(!writer.failed && writer.at == writer.end);
    }
    cop_buf_unref(roll);
    return buf;
}

int diary_decode(struct cop__bytes body, struct diary *out)
{
    struct cop__reader reader = cop__reader(body.data, body.length);
    out->serial = cop__get_u64(&reader);
    struct cop__list list = cop__get_list(&reader, SUSPICION_SIZE);
    struct cop__bytes roll = cop__get_bytes(&reader);
    if (!cop__reader_is_done(&reader) || list.count > COP_SUSPICIONS_MAX)
        return COP_EMALFORMED;
    struct cop__reader each =
        cop__reader(list.data, (size_t)list.count * SUSPICION_SIZE);
    out->count = list.count;
    for (uint32_t i = 0; i < list.count; i++) {
        get_suspicion(&each, &out->suspicions[i]);
        if (i > 0 && out->suspicions[i].number <= out->suspicions[i - 1].number)
            each.failed = true;
    }
    return each.failed ? COP_EMALFORMED : roll_decode(roll, &out->roll);
}

/* ---- reading one after the other ------------------------------------------------- */

/* What one call of diary_read needs. */
struct reading {
    struct diary_reader *reader;
    const struct diary *diary;
    bool is_same; /* the diary of the same life as the last one */
    void (*show)(void *context, const struct diary_entry *entry);
    void *context;
};

/* The record of a suspicion that was shown; of a foreign one, the last about that life. */
static const struct cop_suspicion *find_record(const struct diary *diary,
                                               const struct diary_open *open)
{
    const struct cop_suspicion *wanted = &open->suspicion;
    for (uint32_t i = diary->count; i > 0; i--) {
        const struct cop_suspicion *known = &diary->suspicions[i - 1];
        if (open->is_foreign ? known->accused == wanted->accused &&
                                   known->incarnation == wanted->incarnation
                             : known->number == wanted->number)
            return known;
    }
    return NULL;
}

/* What came of it; where no record says so the view does. */
static bool find_outcome(const struct diary *diary, struct diary_open *open)
{
    const struct cop_suspicion *known = find_record(diary, open);
    struct cop_suspicion *suspicion = &open->suspicion;
    struct cop_member member;
    if (known != NULL) {
        suspicion->outcome = known->outcome;
        suspicion->epoch = known->epoch;
        return known->outcome != COP_OUTCOME_PENDING;
    }
    open->is_foreign = true;
    if (cop_view_has(diary->roll.view, suspicion->accused, suspicion->incarnation) ||
        cop_view_member(diary->roll.view, suspicion->accused, &member) != 0 ||
        member.incarnation < suspicion->incarnation)
        return false;
    suspicion->outcome = COP_OUTCOME_REMOVED;
    suspicion->epoch = member.since;
    return true;
}

/* When it was known: with the view that removed it, if that is what came of it. */
static cop_time settled_at(const struct diary *diary,
                           const struct cop_suspicion *suspicion, cop_time now)
{
    const struct roll *roll = &diary->roll;
    for (uint32_t i = 0; i < roll->event_count; i++)
        if (suspicion->outcome == COP_OUTCOME_REMOVED &&
            roll->events[i].epoch == suspicion->epoch)
            return roll->events[i].at_ns;
    return now;
}

static void settle(const struct reading *reading, cop_time now)
{
    struct diary_reader *reader = reading->reader;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < reader->open_count; i++) {
        struct diary_open *open = &reader->open[i];
        struct diary_entry entry = {.kind = DIARY_SETTLED,
                                    .suspicion = &open->suspicion};
        open->is_foreign |= !reading->is_same;
        if (find_outcome(reading->diary, open)) {
            entry.at_ns = settled_at(reading->diary, &open->suspicion, now);
            reading->show(reading->context, &entry);
        } else {
            reader->open[kept++] = *open;
        }
    }
    reader->open_count = kept;
}

static void show_lost(const struct reading *reading, cop_time now)
{
    const struct diary_reader *reader = reading->reader;
    const struct diary *diary = reading->diary;
    const struct roll *roll = &diary->roll;
    uint64_t next = reading->is_same ? reader->next : 0;
    uint64_t total = reading->is_same ? reader->event_total : 0;
    struct diary_entry entry = {.kind = DIARY_LOST, .at_ns = now};
    /* What another agent forgot may have been shown already. */
    if (reader->has_read && !reading->is_same)
        return;
    if (diary->count > 0 && diary->suspicions[0].number > next)
        entry.lost += diary->suspicions[0].number - next;
    if (roll->event_total - roll->event_count > total)
        entry.lost += roll->event_total - roll->event_count - total;
    if (entry.lost > 0)
        reading->show(reading->context, &entry);
}

static bool is_new(const struct reading *reading, const struct cop_suspicion *suspicion)
{
    const struct diary_reader *reader = reading->reader;
    if (reading->is_same)
        return suspicion->number >= reader->next;
    return !reader->has_read || suspicion->at > reader->read_ns;
}

static void keep_open(struct diary_reader *reader,
                      const struct cop_suspicion *suspicion)
{
    if (suspicion->outcome == COP_OUTCOME_PENDING &&
        reader->open_count < COP_SUSPICIONS_MAX)
        reader->open[reader->open_count++] = (struct diary_open){*suspicion, false};
}

/* Suspicions and changes, each in their order, together by time. */
static void show_new(const struct reading *reading)
{
    const struct diary *diary = reading->diary;
    const struct roll *roll = &diary->roll;
    uint32_t i = 0, k = 0;
    for (;;) {
        while (i < diary->count && !is_new(reading, &diary->suspicions[i]))
            i++;
        while (k < roll->event_count && roll->events[k].epoch <= reading->reader->epoch)
            k++;
        bool has_one = i < diary->count, has_other = k < roll->event_count;
        if (!has_one && !has_other)
            return;
        struct diary_entry entry = {0};
        if (has_one &&
            (!has_other || diary->suspicions[i].at <= roll->events[k].at_ns)) {
            entry.kind = DIARY_SUSPECTED;
            entry.suspicion = &diary->suspicions[i++];
            entry.at_ns = entry.suspicion->at;
            keep_open(reading->reader, entry.suspicion);
        } else {
            entry.kind = DIARY_CHANGED;
            entry.event = &roll->events[k++];
            entry.at_ns = entry.event->at_ns;
        }
        reading->show(reading->context, &entry);
    }
}

/* After the suspicions that led to it. Who is not the root says nothing of it. */
static void show_held(const struct reading *reading)
{
    struct diary_reader *reader = reading->reader;
    const struct roll *roll = &reading->diary->roll;
    struct diary_entry entry = {
        .kind = DIARY_HELD, .at_ns = roll->held_ns, .held = roll};
    cop_time held_ns = roll->held_total > 0 ? roll->held_ns : 0;
    if (held_ns != reader->held_ns && (held_ns != 0 || reading->is_same))
        reading->show(reading->context, &entry);
    reader->held_ns = held_ns;
}

void diary_read(struct diary_reader *reader, const struct diary *diary, cop_time now,
                void (*show)(void *context, const struct diary_entry *entry),
                void *context)
{
    const struct roll *roll = &diary->roll;
    struct reading reading = {
        .reader = reader,
        .diary = diary,
        .is_same = reader->has_read && reader->self == roll->self &&
                   reader->incarnation == roll->incarnation,
        .show = show,
        .context = context,
    };
    show_lost(&reading, now);
    settle(&reading, now);
    show_new(&reading);
    show_held(&reading);
    reader->has_read = true;
    reader->self = roll->self;
    reader->incarnation = roll->incarnation;
    if (!reading.is_same)
        reader->next = 0;
    if (diary->count > 0)
        reader->next = diary->suspicions[diary->count - 1].number + 1;
    reader->event_total = roll->event_total;
    for (uint32_t i = 0; i < roll->event_count; i++)
        if (roll->events[i].epoch > reader->epoch)
            reader->epoch = roll->events[i].epoch;
    reader->read_ns = now;
}
