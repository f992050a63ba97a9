/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/warm.h"

#include <stddef.h>

#include "detect/heir.h"
#include "net/tcp/peers.h"

/* So long there must have been nothing to read; but one who is always busy comes to it, too. */
#define QUIET (400 * COP_MSEC)
#define POSTPONED_MAX 10u
/* Members of one view do not all call in the same moment. */
#define SPREAD (200 * COP_MSEC)
/* Members that start together on one machine take about a millisecond each; until all are
 * there nobody makes work for those who still start. */
#define START_EACH (2 * COP_MSEC)
#define START_MAX (4 * COP_SEC)
/* After a failure or a loss; doubled each time. */
#define PAUSE (5 * COP_SEC)
#define PAUSE_DOUBLINGS 7u
/* Where more would call the same member, none do: the tree is wide, and deaths that need it
 * are rare. */
#define CROWD_MAX 32u

/* A moment of its own for each member. */
static cop_time spread_of(cop_id id)
{
    return (cop_time)(id * UINT32_C(2654435761) >> 16) % SPREAD;
}

/* The first time, when others may still start. */
static cop_time time_of_start(struct cop__warmth *warmth)
{
    cop_time time = START_EACH * cop_view_size(cop_node_view(warmth->node));
    if (warmth->has_begun)
        return 0;
    warmth->has_begun = true;
    return time < START_MAX ? time : START_MAX;
}

static void wait_for(struct cop__warmth *warmth, cop_time time)
{
    warmth->reads = warmth->stats->reads;
    cop__alarm_start(warmth->clock, &warmth->alarm, cop__clock_now() + time);
}

static void hold(struct cop__warmth *warmth, cop_id id)
{
    if (warmth->held != id && warmth->held != COP_ID_NONE)
        cop__peers_cool(warmth->peers, warmth->held);
    warmth->held = id;
    if (id != COP_ID_NONE)
        cop__peers_warm(warmth->peers, id);
}

static void on_alarm(struct cop__alarm *alarm, cop_time now)
{
    struct cop__warmth *warmth =
        (struct cop__warmth *)((char *)alarm - offsetof(struct cop__warmth, alarm));
    struct cop__heir heir;
    (void)now;
    if (warmth->stats->reads != warmth->reads && warmth->postponed < POSTPONED_MAX) {
        warmth->postponed++;
        wait_for(warmth, QUIET);
        return;
    }
    warmth->postponed = 0;
    /* It can be done without: no memory is no reason to stop here. */
    if (cop__heir(warmth->node, &heir) != 0 || heir.crowd > CROWD_MAX)
        heir.id = COP_ID_NONE;
    hold(warmth, heir.id);
}

void cop__warmth_init(struct cop__warmth *warmth, struct cop__clock *clock,
                      struct cop__peers *peers, const struct cop_node *node,
                      const struct cop__tcp_stats *stats)
{
    *warmth = (struct cop__warmth){.clock = clock,
                                   .peers = peers,
                                   .node = node,
                                   .stats = stats,
                                   .held = COP_ID_NONE};
    cop__alarm_init(&warmth->alarm, on_alarm);
}

void cop__warmth_renew(struct cop__warmth *warmth)
{
    warmth->failures = 0;
    warmth->postponed = 0;
    wait_for(warmth,
             QUIET + spread_of(cop_node_id(warmth->node)) + time_of_start(warmth));
}

void cop__warmth_cooled(struct cop__warmth *warmth)
{
    warmth->held = COP_ID_NONE;
    /* A view is expected, and looked for soon enough. */
    if (cop__alarm_is_set(&warmth->alarm))
        return;
    wait_for(warmth, PAUSE << warmth->failures);
    if (warmth->failures < PAUSE_DOUBLINGS)
        warmth->failures++;
}

void cop__warmth_fini(struct cop__warmth *warmth)
{
    cop__alarm_stop(warmth->clock, &warmth->alarm);
}
