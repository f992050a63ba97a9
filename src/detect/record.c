/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/state.h"

#include <stdlib.h>
#include <string.h>

/* D10. Who accused whom, why, and what came of it; and how often a peer has died. */

static struct cop__records *need(struct cop_node *node)
{
    struct cop__detect *detect = cop__detect(node);
    if (!detect->records)
        detect->records = calloc(1, sizeof *detect->records);
    if (!detect->records)
        cop__fail(node, COP_ENOMEM);
    return detect->records;
}

void cop__record_fini(struct cop_node *node)
{
    struct cop__records *records = cop__detect(node)->records;
    if (!records)
        return;
    free(records->deaths);
    free(records->events);
    free(records);
}

size_t cop__record_bytes(const struct cop_node *node)
{
    const struct cop__records *records = cop__detect(node)->records;
    if (!records)
        return 0;
    return sizeof *records + records->death_capacity * sizeof *records->deaths +
           records->event_capacity * sizeof *records->events;
}

/* ---- accusations ----------------------------------------------------------------- */

#define EVENTS_FIRST 4u

/* Doubled while it is not as large as it may be: until then nothing has wrapped. */
static bool make_room(struct cop_node *node, struct cop__records *records)
{
    uint32_t capacity = records->event_capacity;
    if (records->event_count < capacity || capacity == COP_SUSPICIONS_MAX)
        return true;
    capacity = capacity ? 2 * capacity : EVENTS_FIRST;
    void *grown = realloc(records->events, capacity * sizeof *records->events);
    if (!grown) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    records->events = grown;
    records->event_capacity = capacity;
    return true;
}

/* Once a step is enough: whoever wants to know asks for all that is new. */
static void say(struct cop_node *node, struct cop__records *records)
{
    const struct cop_effects *effects = node->effects;
    if (!effects)
        return;
    if (records->said_at < effects->count &&
        effects->items[records->said_at].kind == COP_EFFECT_SUSPICION)
        return;
    records->said_at = effects->count;
    cop__emit_state(node, COP_EFFECT_SUSPICION, 0);
}

void cop__record_accusation(struct cop_node *node, cop_id accuser, cop_id accused,
                            enum cop_reason reason)
{
    struct cop__records *records = need(node);
    if (!records || !make_room(node, records))
        return;
    uint64_t number = records->event_count++;
    records->events[number % records->event_capacity] = (struct cop_suspicion){
        .number = number,
        .at = node->now,
        .accuser = accuser,
        .accused = accused,
        .incarnation = cop__roster_get(node, accused).incarnation,
        .reason = reason,
    };
    say(node, records);
}

static uint64_t first_kept(const struct cop__records *records)
{
    return records->event_count > records->event_capacity
               ? records->event_count - records->event_capacity
               : 0;
}

static struct cop_suspicion *at(const struct cop__records *records, uint64_t number)
{
    return &records->events[number % records->event_capacity];
}

static bool is_about(const struct cop_suspicion *event, cop_id accused,
                     cop_incarnation incarnation)
{
    return event->outcome == COP_OUTCOME_PENDING && event->accused == accused &&
           event->incarnation <= incarnation;
}

void cop__record_outcome(struct cop_node *node, cop_id accused,
                         cop_incarnation incarnation, enum cop_outcome outcome)
{
    struct cop__records *records = cop__detect(node)->records;
    for (uint64_t i = records ? first_kept(records) : 0;
         records && i < records->event_count; i++) {
        struct cop_suspicion *event = at(records, i);
        if (!is_about(event, accused, incarnation))
            continue;
        event->outcome = outcome;
        say(node, records);
    }
}

/* By the view alone: it may have skipped the one in which that life came. */
void cop__record_view(struct cop_node *node)
{
    struct cop__records *records = cop__detect(node)->records;
    for (uint64_t i = records ? first_kept(records) : 0;
         records && i < records->event_count; i++) {
        struct cop_suspicion *event = at(records, i);
        if (event->outcome != COP_OUTCOME_PENDING ||
            cop_view_has(node->view, event->accused, event->incarnation) ||
            event->incarnation > cop_view_incarnation(node->view, event->accused))
            continue;
        event->outcome = COP_OUTCOME_REMOVED;
        event->epoch = cop_view_epoch(node->view);
        say(node, records);
    }
}

bool cop__record_is_pending(const struct cop_node *node, cop_id accused)
{
    const struct cop__records *records = cop__detect(node)->records;
    cop_incarnation life = cop__roster_get(node, accused).incarnation;
    for (uint64_t i = records ? first_kept(records) : 0;
         records && i < records->event_count; i++)
        if (is_about(at(records, i), accused, life))
            return true;
    return false;
}

uint32_t cop_node_events(const struct cop_node *node, uint64_t from,
                         struct cop_suspicion *out, uint32_t max)
{
    const struct cop__records *records = cop__detect(node)->records;
    uint32_t count = 0;
    if (!records)
        return 0;
    if (from < first_kept(records))
        from = first_kept(records);
    while (count < max && from < records->event_count)
        out[count++] = *at(records, from++);
    return count;
}

/* ---- deaths ---------------------------------------------------------------------- */

static uint32_t find(const struct cop__records *records, cop_id id)
{
    uint32_t low = 0, high = records->death_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (records->deaths[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct cop__deaths *deaths_of(const struct cop_node *node, cop_id id)
{
    const struct cop__records *records = cop__detect(node)->records;
    uint32_t i = records ? find(records, id) : 0;
    return records && i < records->death_count && records->deaths[i].id == id
               ? &records->deaths[i]
               : NULL;
}

static struct cop__deaths *add_deaths(struct cop_node *node, cop_id id)
{
    struct cop__records *records = need(node);
    if (!records)
        return NULL;
    if (records->death_count == records->death_capacity) {
        uint32_t capacity = records->death_capacity ? 2 * records->death_capacity : 2;
        void *grown = realloc(records->deaths, capacity * sizeof *records->deaths);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        records->deaths = grown;
        records->death_capacity = capacity;
    }
    uint32_t i = find(records, id);
    memmove(records->deaths + i + 1, records->deaths + i,
            (records->death_count - i) * sizeof *records->deaths);
    records->deaths[i] = (struct cop__deaths){.id = id};
    records->death_count++;
    return &records->deaths[i];
}

/* What the view itself says need not be kept by each member once more: that somebody is gone,
 * and has not come back since, is one death. */
static bool view_tells_death(const struct cop_view *view, cop_id id)
{
    cop_incarnation last = cop_view_incarnation(view, id);
    return last != 0 && !cop_view_has(view, id, last);
}

void cop__record_death(struct cop_node *node, cop_id id, cop_incarnation incarnation)
{
    struct cop__deaths *deaths = deaths_of(node, id);
    bool told = !deaths && view_tells_death(node->view, id);
    if (id == node->self ||
        (told && cop_view_incarnation(node->view, id) >= incarnation) ||
        (deaths && (deaths->incarnation > incarnation ||
                    (deaths->incarnation == incarnation && deaths->dead))))
        return;
    if (!deaths)
        deaths = add_deaths(node, id);
    if (!deaths)
        return;
    deaths->count += 1 + told;
    deaths->incarnation = incarnation;
    deaths->dead = true;
}

void cop__record_life(struct cop_node *node, cop_id id, cop_incarnation incarnation,
                      const struct cop_view *old)
{
    struct cop__deaths *deaths = deaths_of(node, id);
    if (!deaths && id != node->self && view_tells_death(old, id)) {
        deaths = add_deaths(node, id);
        if (deaths)
            deaths->count = 1;
    }
    if (deaths && deaths->incarnation <= incarnation) {
        deaths->incarnation = incarnation;
        deaths->dead = false;
    }
}

uint32_t cop_node_aliveness(const struct cop_node *node, cop_id id)
{
    const struct cop__deaths *deaths = deaths_of(node, id);
    return deaths ? deaths->count : view_tells_death(node->view, id);
}
