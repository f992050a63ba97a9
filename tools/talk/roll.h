/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TALK_ROLL_H
#define COP_TOOLS_TALK_ROLL_H

#include "names/cluster.h"
#include "talk/command.h"

#include <coppice/node.h>

/*
 * The view of one agent, as it tells it to a command: the answer to VIEW. The static start
 * goes with it, so that somebody who knows nothing of the cluster can read it.
 */
#define ROLL_EVENTS_MAX 64u
#define ROLL_HELD_MAX 256u

#define ROLL_INSECURE "none"

/* Something that a view changed. */
struct roll_event {
    cop_epoch epoch;
    cop_time
        at_ns; /* when this agent installed it, on this machine's monotonic clock */
    struct cop_view_change change;
    enum cop_presence presence; /* LEFT: how it went */
};

struct roll {
    cop_id self;
    cop_incarnation incarnation;
    bool is_member, is_degraded;
    uint64_t serial;       /* another one after every change */
    cop_time installed_ns; /* when the view was */
    struct cop_change_times times;
    uint32_t n;
    cop_incarnation first;
    char shape[64], quorum[128];
    char security[32]; /* "unix", "key ID", "certificates" or ROLL_INSECURE */
    struct cop_view *view;
    /* Whom this member, as the root, may not remove because of the guard. */
    uint32_t held_total;
    cop_id held[ROLL_HELD_MAX]; /* the first of them */
    cop_time held_ns;           /* since when it is these */
    uint64_t event_total;       /* ever, in this process */
    uint32_t event_count;
    struct roll_event events[ROLL_EVENTS_MAX]; /* the oldest first */
};

/* "joined", "left", "removed", "returned" or "replaced". */
const char *roll_event_name(const struct roll_event *event);
/* The same as a sentence: "n3 joined". */
#define ROLL_TEXT_SIZE (2 * COP_NAME_MAX + 64)
void roll_event_text(const struct roll *roll, const struct cluster *cluster,
                     const struct roll_event *event, char *out, size_t size);

/* How many there are in `held`. */
static inline uint32_t roll_held(const struct roll *roll)
{
    return roll->held_total < ROLL_HELD_MAX ? roll->held_total : ROLL_HELD_MAX;
}

struct cop_buf *roll_encode(const struct roll *roll);
/* 0, COP_EMALFORMED, COP_ENOMEM. The view is the caller's. */
int roll_decode(struct cop__bytes body, struct roll *out);
void roll_free(struct roll *roll);

/* The name of a member: of the file, if that has one, or of the view. */
void roll_name(const struct roll *roll, const struct cluster *cluster, cop_id id,
               char out[COP_NAME_MAX + 1]);
/* Folded names of ids, to be freed; NULL: no memory. */
char *roll_fold(const struct roll *roll, const struct cluster *cluster,
                const cop_id *ids, uint32_t count);

/* Members of the view for whom `wanted` says so; ids in order. COP_ENOMEM. */
int roll_select(const struct roll *roll,
                bool (*wanted)(const struct cop_member *member), struct cop_ranks *out);
bool roll_is_present(const struct cop_member *member);
bool roll_is_spare(const struct cop_member *member);
bool roll_is_drained(const struct cop_member *member);
bool roll_is_removed(const struct cop_member *member);
bool roll_has_left(const struct cop_member *member);

/* The id of a member that was typed: a name, or digits; COP_ID_NONE. */
cop_id roll_find(const struct roll *roll, const struct cluster *cluster,
                 const char *text);

#endif
