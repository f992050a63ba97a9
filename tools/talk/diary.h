/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TALK_DIARY_H
#define COP_TOOLS_TALK_DIARY_H

#include "talk/roll.h"

/*
 * What an agent remembers, as it tells it to a command: the answer to EVENTS. The last
 * suspicions that its node made or heard of, and the last changes of the view (in the roll).
 */
struct diary {
    uint64_t serial; /* another one after every change */
    struct roll roll;
    uint32_t count;
    struct cop_suspicion suspicions[COP_SUSPICIONS_MAX]; /* the oldest first */
};

struct cop_buf *diary_encode(const struct diary *diary);
/* 0, COP_EMALFORMED, COP_ENOMEM. The view in the roll is the caller's. */
int diary_decode(struct cop__bytes body, struct diary *out);

/* What a reader of diaries has shown so far. */
struct diary_reader {
    bool has_read;
    cop_id self; /* whose diary was read last, in which life */
    cop_incarnation incarnation;
    uint64_t next;        /* number of the first suspicion that was not shown */
    uint64_t event_total; /* of that diary's roll */
    cop_epoch epoch;      /* of the last change that was shown */
    cop_time held_ns;     /* of the last diary with somebody held; 0: nobody was */
    cop_time read_ns;     /* when the last diary was read */
    /* Shown, and without an outcome then. */
    struct diary_open {
        struct cop_suspicion suspicion;
        bool is_foreign; /* its number is of another diary, or forgotten there */
    } open[COP_SUSPICIONS_MAX];
    uint32_t open_count;
};

enum diary_kind {
    DIARY_SUSPECTED, /* `suspicion` */
    DIARY_SETTLED,   /* the same, which was shown before without an outcome */
    DIARY_CHANGED,   /* `event` */
    DIARY_HELD, /* the guard holds others than before: `held`, or nobody any more */
    DIARY_LOST, /* `lost` entries were not kept long enough to be read */
};
struct diary_entry {
    enum diary_kind kind;
    cop_time at_ns;
    const struct cop_suspicion *suspicion;
    const struct roll_event *event;
    const struct roll *held;
    uint64_t lost;
};

/*
 * Gives `show` all that is new since the last diary, the oldest first. Another agent's diary
 * goes on where the last one ended: with what happened after that was read.
 */
void diary_read(struct diary_reader *reader, const struct diary *diary, cop_time now,
                void (*show)(void *context, const struct diary_entry *entry),
                void *context);

#endif
