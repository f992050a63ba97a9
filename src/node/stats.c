/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/messages.h"

#include <coppice/stats.h>
#include <stdio.h>

_Static_assert(COP__KINDS <= COP_STATS_KINDS, "a counter for every kind");

static void each_kind(const uint64_t *counters, const char *what,
                      void (*visit)(void *, const char *, uint64_t), void *context)
{
    for (int i = 0; i < COP__KINDS; i++) {
        if (counters[i] == 0)
            continue;
        char name[64];
        snprintf(name, sizeof name, "%s_%s", what,
                 cop__kind_at((enum cop__kind_index)i)->name);
        visit(context, name, counters[i]);
    }
}

void cop_stats_each(const struct cop_stats *stats,
                    void (*visit)(void *context, const char *name, uint64_t value),
                    void *context)
{
    each_kind(stats->sent, "sent", visit, context);
    each_kind(stats->received, "received", visit, context);
#define VISIT(field)                                                                   \
    if (stats->field)                                                                  \
        visit(context, #field, stats->field);
    VISIT(sent_bytes)
    VISIT(received_bytes)
    VISIT(steps)
    VISIT(suspicions)
    VISIT(denials)
    VISIT(revivals)
    VISIT(accusations)
    VISIT(accusations_dropped)
    VISIT(accusations_held)
    VISIT(relayed)
    VISIT(credits)
    VISIT(deadline_ns)
    VISIT(sweeps_started)
    VISIT(sweeps_completed)
    VISIT(sweeps_timed_out)
    VISIT(sweeps_aborted)
    VISIT(sweeps_joined)
    VISIT(sweeps_ended)
    VISIT(adoptions)
    VISIT(turns)
    VISIT(holds)
    VISIT(supplements)
    VISIT(proposals)
    VISIT(proposals_failed)
    VISIT(proposals_refused)
    VISIT(views_installed)
    VISIT(digests_differ)
    VISIT(frames_held)
    VISIT(agreements)
    VISIT(revotes)
    VISIT(terminations)
    VISIT(stream_waves)
    VISIT(stream_orphans)
    VISIT(stream_attempts)
    VISIT(stream_adoptions)
    VISIT(stream_closed)
    VISIT(stream_down_failed)
    VISIT(stream_stillborn)
    VISIT(stream_rings)
#define VISIT_IGNORED(name, text) VISIT(ignored_##name)
    COP_IGNORES(VISIT_IGNORED)
#undef VISIT_IGNORED
#undef VISIT
}
