/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/state.h"

#include "roster/roster.h"

#include <stdlib.h>
#include <string.h>

/*
 * The numbers of attachments (T8). What an adopter says goes up to the root, so that all above
 * it know it; and down only where a slot covers the one who moved, for nobody else can have it
 * under a lower number. A slot that comes to cover it later is told then.
 */

/* Index of the first that is not below. */
static uint32_t place(const struct cop__network *network, cop_id id)
{
    uint32_t low = 0, high = network->report_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (network->reports[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct cop__report *cop__report_find(const struct cop__network *network,
                                           cop_id id)
{
    uint32_t at = place(network, id);
    return at < network->report_count && network->reports[at].id == id
               ? &network->reports[at]
               : NULL;
}

static bool is_later(const struct cop__report *a, const struct cop__report *b)
{
    return a->incarnation != b->incarnation ? a->incarnation > b->incarnation
                                            : a->number > b->number;
}

static void put(struct cop_node *node, struct cop__network *network,
                const struct cop__report *report)
{
    uint32_t at = place(network, report->id);
    if (at == network->report_count || network->reports[at].id != report->id) {
        if (!cop__grow(node, &network->reports, network->report_count,
                       &network->report_capacity, sizeof *network->reports))
            return;
        memmove(network->reports + at + 1, network->reports + at,
                (network->report_count - at) * sizeof *network->reports);
        network->report_count++;
    }
    network->reports[at] = *report;
}

static bool is_covered(const struct cop__stream_slot *slot,
                       const struct cop__report *report)
{
    if (cop__lives_find(&slot->cover, report->id) == report->incarnation)
        return true;
    for (uint32_t i = 0; i < slot->pending_count; i++)
        if (cop__lives_find(&cop__slot_at(slot, i)->cover, report->id) ==
            report->incarnation)
            return true;
    return false;
}

/* Whether it may be below this child. */
static bool may_have(const struct cop__network *network, cop_id child,
                     const struct cop__report *report)
{
    for (uint32_t i = 0; i < network->stream_count; i++) {
        const struct cop__stream_slot *slot =
            cop__slot_find(network->streams[i], child);
        if (slot && is_covered(slot, report))
            return true;
    }
    return false;
}

static void say(struct cop_node *node, const struct cop__network *network, cop_id to,
                const struct cop__report *reports, uint32_t count)
{
    cop__network_say(node, network, to,
                     &(struct cop__news){.reports = reports, .report_count = count});
}

void cop__network_report(struct cop_node *node, struct cop__network *network,
                         const struct cop__report *report, cop_id from)
{
    const struct cop__report *known = cop__report_find(network, report->id);
    if (known && is_later(known, report))
        return;
    bool is_new = !known || is_later(report, known);
    struct cop__report heard = *report;
    heard.via = from;
    put(node, network, &heard);
    /* One who was asked, and has yet to answer, has heard what there was when it was asked. */
    if (is_new && network->parent != COP_ID_NONE && network->parent != from)
        say(node, network, network->parent, &heard, 1);
    /* T8: who is heard of under a higher number is not below me under a lower one. */
    const struct cop__stream_child *child = cop__network_child(network, report->id);
    if (child && child->incarnation == report->incarnation &&
        child->number < report->number)
        cop__network_drop_child(node, network, report->id);
    for (uint32_t i = 0; i < network->child_count && !node->failed; i++) {
        cop_id id = network->children[i].id;
        if (id != from && id != report->id && (is_new || from == network->parent) &&
            may_have(network, id, report))
            say(node, network, id, &heard, 1);
    }
}

void cop__report_compare(struct cop_node *node, const struct cop__network *network,
                         cop_id child, const struct cop__lives *cover)
{
    struct cop__report mine = {node->self, node->incarnation, network->attempt, 0};
    struct cop__report *some = NULL;
    uint32_t count = 0, capacity = 0;
    for (uint32_t i = 0; i <= network->report_count; i++) {
        const struct cop__report *one =
            i < network->report_count ? &network->reports[i] : &mine;
        if (one->via == child || one->id == child ||
            cop__lives_find(cover, one->id) != one->incarnation)
            continue;
        if (!cop__grow(node, &some, count, &capacity, sizeof *some))
            break;
        some[count++] = *one;
    }
    if (count > 0 && !node->failed)
        say(node, network, child, some, count);
    free(some);
}
