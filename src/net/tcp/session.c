/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define RING_MIN 4u
/* A ring larger than this is given back when it runs empty. */
#define RING_IDLE_MAX 64u

void cop__session_init(struct cop__session *session)
{
    memset(session, 0, sizeof *session);
}

static uint64_t kept_size(const struct cop__kept *kept)
{
    return COP__KEPT_OVERHEAD + (uint64_t)(kept->payload ? kept->payload->length : 0);
}

static struct cop__kept *kept_at(const struct cop__lane *lane, uint32_t i)
{
    return &lane->ring[(lane->first + i) & (lane->capacity - 1)];
}

static void drop_ring(struct cop__lane *lane)
{
    free(lane->ring);
    lane->ring = NULL;
    lane->capacity = lane->first = 0;
}

/* Takes the first kept frame out of the lane, whoever has it now. */
static void drop_first(struct cop__session *session, struct cop__lane *lane)
{
    struct cop__kept *kept = kept_at(lane, 0);
    session->kept_bytes -= kept_size(kept);
    if (lane->sent > 0)
        lane->sent--;
    else
        session->unsent_bytes -= kept_size(kept);
    cop_buf_unref(kept->payload);
    lane->first = (lane->first + 1) & (lane->capacity - 1);
    lane->count--;
    if (lane->count == 0 && lane->capacity > RING_IDLE_MAX)
        drop_ring(lane);
}

void cop__session_fini(struct cop__session *session)
{
    for (int i = 0; i < COP__LANES; i++) {
        struct cop__lane *lane = &session->lanes[i];
        while (lane->count > 0)
            drop_first(session, lane);
        drop_ring(lane);
    }
}

/* ---- sending --------------------------------------------------------------------- */

static int grow(struct cop__lane *lane)
{
    uint32_t capacity = lane->capacity ? lane->capacity * 2 : RING_MIN;
    struct cop__kept *ring = malloc(capacity * sizeof *ring);
    if (!ring)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < lane->count; i++)
        ring[i] = *kept_at(lane, i);
    free(lane->ring);
    lane->ring = ring;
    lane->capacity = capacity;
    lane->first = 0;
    return 0;
}

int cop__session_push(struct cop__session *session, enum cop__lane_index index,
                      const struct cop_frame *frame)
{
    struct cop__lane *lane = &session->lanes[index];
    struct cop__kept kept = {frame->header, frame->payload};
    /* The bound on bytes also bounds the ring: every frame has its overhead. */
    if (session->lost ||
        session->kept_bytes + kept_size(&kept) > COP__SESSION_KEPT_MAX) {
        session->lost = true;
        return COP_ELOST;
    }
    if (lane->count == lane->capacity && grow(lane) != 0)
        return COP_ENOMEM;
    cop_buf_ref(kept.payload);
    *kept_at(lane, lane->count) = kept;
    lane->count++;
    session->kept_bytes += kept_size(&kept);
    session->unsent_bytes += kept_size(&kept);
    return 0;
}

const struct cop__kept *cop__session_next(const struct cop__session *session,
                                          enum cop__lane_index index)
{
    const struct cop__lane *lane = &session->lanes[index];
    return lane->sent < lane->count ? kept_at(lane, lane->sent) : NULL;
}

void cop__session_advance(struct cop__session *session, enum cop__lane_index index)
{
    struct cop__lane *lane = &session->lanes[index];
    COP_ASSERT(lane->sent < lane->count);
    session->unsent_bytes -= kept_size(kept_at(lane, lane->sent));
    lane->sent++;
    if (lane->offered < lane->counted + lane->sent)
        lane->offered = lane->counted + lane->sent;
}

bool cop__session_is_owing(const struct cop__session *session)
{
    return session->lanes[COP__LANE_CONTROL].count > 0 ||
           session->lanes[COP__LANE_BULK].count > 0;
}

/* ---- receiving and counting ------------------------------------------------------ */

void cop__session_received(struct cop__session *session, enum cop__lane_index index,
                           uint32_t bytes)
{
    session->lanes[index].received++;
    if (session->untold_bytes <= COP__SESSION_UNTOLD_BYTES)
        session->untold_bytes += bytes;
}

struct cop__counts cop__session_counts(const struct cop__session *session)
{
    struct cop__counts counts;
    for (int i = 0; i < COP__LANES; i++)
        counts.lanes[i] = session->lanes[i].received;
    return counts;
}

void cop__session_told(struct cop__session *session)
{
    for (int i = 0; i < COP__LANES; i++)
        session->lanes[i].told = session->lanes[i].received;
    session->untold_bytes = 0;
}

static uint64_t untold_frames(const struct cop__session *session)
{
    uint64_t frames = 0;
    for (int i = 0; i < COP__LANES; i++)
        frames += session->lanes[i].received - session->lanes[i].told;
    return frames;
}

bool cop__session_has_untold(const struct cop__session *session)
{
    return untold_frames(session) > 0;
}

bool cop__session_must_tell(const struct cop__session *session)
{
    return untold_frames(session) >= COP__SESSION_UNTOLD_FRAMES ||
           session->untold_bytes >= COP__SESSION_UNTOLD_BYTES;
}

int cop__session_counted(struct cop__session *session, const struct cop__counts *counts)
{
    for (int i = 0; i < COP__LANES; i++) {
        const struct cop__lane *lane = &session->lanes[i];
        uint64_t count = counts->lanes[i];
        if (count < lane->counted || count - lane->counted > lane->sent)
            return COP_EMALFORMED;
    }
    for (int i = 0; i < COP__LANES; i++) {
        struct cop__lane *lane = &session->lanes[i];
        while (lane->counted < counts->lanes[i]) {
            drop_first(session, lane);
            lane->counted++;
        }
    }
    return 0;
}

/* ---- connections ----------------------------------------------------------------- */

/* A frame that names a life of its receiver is of no use to a later one. */
static bool is_outlived(const struct cop__kept *kept, cop_incarnation incarnation)
{
    return kept->header.receiver_incarnation != 0 &&
           kept->header.receiver_incarnation < incarnation;
}

static void restart_lane(struct cop__session *session, struct cop__lane *lane,
                         cop_incarnation incarnation)
{
    uint32_t count = lane->count;
    for (uint32_t i = 0; i < count; i++) {
        struct cop__kept kept = *kept_at(lane, 0);
        if (is_outlived(&kept, incarnation)) {
            drop_first(session, lane);
        } else {
            /* To the end of the ring: after `count` turns the order is the old one. */
            lane->first = (lane->first + 1) & (lane->capacity - 1);
            *kept_at(lane, lane->count - 1) = kept;
        }
    }
    lane->counted = lane->offered = lane->received = lane->told = 0;
}

bool cop__session_meet(struct cop__session *session, cop_incarnation incarnation)
{
    if (session->incarnation == incarnation)
        return false;
    cop__session_break(session);
    for (int i = 0; i < COP__LANES; i++)
        restart_lane(session, &session->lanes[i], incarnation);
    session->incarnation = incarnation;
    session->untold_bytes = 0;
    session->lost = false;
    return true;
}

void cop__session_break(struct cop__session *session)
{
    for (int i = 0; i < COP__LANES; i++)
        session->lanes[i].sent = 0;
    session->unsent_bytes = session->kept_bytes;
}

int cop__session_resume(struct cop__session *session, const struct cop__counts *counts,
                        uint64_t *resent)
{
    for (int i = 0; i < COP__LANES; i++) {
        const struct cop__lane *lane = &session->lanes[i];
        /* What no connection was ever given cannot have come. */
        if (counts->lanes[i] < lane->counted || counts->lanes[i] > lane->offered)
            return COP_EMALFORMED;
    }
    cop__session_break(session);
    uint64_t again = 0;
    for (int i = 0; i < COP__LANES; i++) {
        struct cop__lane *lane = &session->lanes[i];
        while (lane->counted < counts->lanes[i]) {
            drop_first(session, lane);
            lane->counted++;
        }
        if (lane->offered > lane->counted)
            again += lane->offered - lane->counted;
    }
    if (resent)
        *resent = again;
    return 0;
}

const char *cop__session_check(const struct cop__session *session)
{
    uint64_t kept = 0, unsent = 0;
    for (int i = 0; i < COP__LANES; i++) {
        const struct cop__lane *lane = &session->lanes[i];
        if (lane->sent > lane->count)
            return "more was sent than is kept";
        if (lane->count > lane->capacity)
            return "more is kept than there is room for";
        if (lane->told > lane->received)
            return "more was told than came";
        if (lane->offered > lane->counted + lane->count)
            return "a frame was sent that nobody has any more";
        for (uint32_t j = 0; j < lane->count; j++) {
            uint64_t size = kept_size(kept_at(lane, j));
            kept += size;
            unsent += j < lane->sent ? 0 : size;
        }
    }
    if (kept != session->kept_bytes || unsent != session->unsent_bytes)
        return "the bytes do not add up";
    return NULL;
}
