/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/state.h"

#include "base/random.h"
#include "base/rankset.h"

#include <stdlib.h>

/*
 * D12. Time is counted in cycles, one a period, and whoever hears of a later cycle is in it.
 * In each, everyone writes the cycle down as its own stamp and sends all the stamps that it
 * has to somebody, another one each time by a hash. The larger stamp wins. A stamp spreads to
 * everyone in a number of periods that grows with the logarithm of the members; whoever's has
 * not grown for a few times that is accused.
 *
 * What I wait for I count in my own periods, each when I see it: a period in which I was
 * stopped is none.
 *
 * D13. A life that remembers nothing of its former one is in stealth: it takes stamps in and
 * says nothing, so that the others find the former one dead. It ends when they must have, or
 * when it hears that they did long ago. Who accuses me meanwhile hears my denial (D4) then: it
 * was told nothing, and would not ask again.
 */

/* Stamps in one frame; if there are more they take turns. */
#define PULSES_MAX 8192u
/* A clock that is further ahead than this is none. */
#define CYCLES_MAX (UINT64_C(1) << 40)

struct pulse {
    cop_incarnation incarnation; /* 0: not heard of */
    uint64_t stamp;
    uint64_t grown; /* my period in which it grew last */
};

struct cop__gossip {
    uint64_t cycle;
    uint64_t periods; /* that I saw */
    cop_time next;
    uint64_t silent_until; /* period: stealth */
    bool stealth;
    struct cop_ranks accusers; /* who said meanwhile that I am gone */
    cop_id from;               /* the next stamp to send, if there are too many */
    struct pulse *pulses;      /* by id */
    uint32_t capacity;
};

static cop_time period_of(const struct cop_node *node)
{
    return cop__detect_settings(node)->gossip_period_ns;
}

/* After so many periods without a new stamp. */
static uint64_t limit_of(const struct cop_node *node)
{
    uint64_t log = 0;
    while (UINT64_C(1) << log < cop_view_size(node->view))
        log++;
    return 6 + 3 * log;
}

/* ---- life ------------------------------------------------------------------------ */

void cop__gossip_start(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    if (!senses || period_of(node) == 0)
        return;
    senses->gossip = calloc(1, sizeof *senses->gossip);
    if (!senses->gossip) {
        cop__fail(node, COP_ENOMEM);
        return;
    }
    senses->gossip->next = node->now + period_of(node);
    senses->gossip->stealth = cop__detect_settings(node)->stealth;
    senses->gossip->silent_until = 2 * limit_of(node);
}

void cop__gossip_fini(struct cop__gossip *gossip)
{
    if (!gossip)
        return;
    cop_ranks_free(&gossip->accusers);
    free(gossip->pulses);
    free(gossip);
}

size_t cop__gossip_bytes(const struct cop__gossip *gossip)
{
    if (!gossip)
        return 0;
    return sizeof *gossip + gossip->capacity * sizeof *gossip->pulses +
           gossip->accusers.capacity * sizeof(cop_rank);
}

bool cop__detect_is_stealthy(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    return senses && senses->gossip && senses->gossip->stealth;
}

/* The denial is taken now, and said when I speak again. */
void cop__detect_hear_in_stealth(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__gossip *gossip = cop__senses(node)->gossip;
    const struct cop_header *header = &frame->header;
    struct cop__msg_news news;
    if (header->kind != COP__KIND_NEWS ||
        !cop_view_has(node->view, header->sender, header->sender_incarnation) ||
        cop__decode_news(frame->payload->data, frame->payload->length, &news))
        return;
    for (uint32_t i = 0; i < news.beliefs.count; i++) {
        struct cop__belief belief = cop__belief_at(news.beliefs, i);
        if (belief.id != node->self || belief.incarnation != node->incarnation ||
            belief.status < COP_SUSPECT)
            continue;
        cop__roster_merge(node, &belief);
        if (cop__rankset_put(&gossip->accusers, header->sender))
            cop__fail(node, COP_ENOMEM);
    }
}

static void end_stealth(struct cop_node *node)
{
    struct cop__gossip *gossip = cop__senses(node)->gossip;
    gossip->stealth = false;
    for (uint32_t i = 0; i < gossip->accusers.count; i++)
        cop__detect_tell_about_me(node, gossip->accusers.items[i]);
    gossip->accusers.count = 0;
    struct cop__change change = {COP__CHANGE_RESTATED, node->self, node->rank};
    cop__tell_change(node, &change);
    cop__senses_touch(node);
}

/* ---- stamps ---------------------------------------------------------------------- */

static struct pulse *pulse_of(struct cop_node *node, cop_id id)
{
    struct cop__gossip *gossip = cop__senses(node)->gossip;
    if (id < gossip->capacity)
        return &gossip->pulses[id];
    uint32_t capacity = cop_view_slots(node->view);
    struct pulse *grown = realloc(gossip->pulses, capacity * sizeof *grown);
    if (!grown) {
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    for (uint32_t i = gossip->capacity; i < capacity; i++)
        grown[i] = (struct pulse){0};
    gossip->pulses = grown;
    gossip->capacity = capacity;
    return &gossip->pulses[id];
}

/* What is known of the life that the view has: from now on, if nothing was. */
static struct pulse *present_pulse(struct cop_node *node, cop_id id)
{
    struct pulse *pulse = pulse_of(node, id);
    cop_incarnation life = cop_view_incarnation(node->view, id);
    if (pulse && pulse->incarnation != life)
        *pulse = (struct pulse){life, 0, cop__senses(node)->gossip->periods};
    return pulse;
}

static bool take_pulse(struct cop_node *node, const struct cop__pulse *heard)
{
    if (heard->id == node->self ||
        !cop_view_has(node->view, heard->id, heard->incarnation))
        return false;
    struct pulse *pulse = present_pulse(node, heard->id);
    if (!pulse || heard->stamp <= pulse->stamp)
        return false;
    pulse->stamp = heard->stamp;
    pulse->grown = cop__senses(node)->gossip->periods;
    return true;
}

/* ---- speaking -------------------------------------------------------------------- */

static cop_id next_member(const struct cop_node *node, cop_id id)
{
    id = cop_view_next(node->view, id);
    return id == COP_ID_NONE ? cop_view_next(node->view, COP_ID_NONE) : id;
}

static struct cop_buf *encode(struct cop_node *node)
{
    struct cop__gossip *gossip = cop__senses(node)->gossip;
    uint32_t count = cop_view_size(node->view);
    count = count < PULSES_MAX ? count : PULSES_MAX;
    uint8_t *bytes = malloc((size_t)count * COP__SIZE_pulse);
    if (!bytes)
        return NULL;
    struct cop__writer writer = cop__writer(bytes, (size_t)count * COP__SIZE_pulse);
    uint32_t written = 0;
    for (uint32_t i = 0; i < count && !node->failed; i++) {
        gossip->from = next_member(node, gossip->from);
        const struct pulse *pulse = present_pulse(node, gossip->from);
        if (!pulse || pulse->stamp == 0)
            continue;
        struct cop__pulse said = {gossip->from, pulse->incarnation, pulse->stamp};
        cop__pulse_put(&writer, &said);
        written++;
    }
    struct cop__msg_gossip message = {gossip->cycle, {bytes, written}};
    struct cop_buf *buf = node->failed ? NULL : cop__encode_gossip(&message);
    free(bytes);
    return buf;
}

static void speak(struct cop_node *node)
{
    struct cop__gossip *gossip = cop__senses(node)->gossip;
    uint64_t hash = cop__mix64(cop__mix64(node->incarnation ^ gossip->periods) ^
                               cop__mix64((uint64_t)node->self + 1));
    struct cop__walk walk = cop__ring_walk(node, (uint32_t)hash);
    walk.with_drained = true;
    cop_id to = cop__ring_next(node, &walk);
    struct pulse *mine = present_pulse(node, node->self);
    if (!mine || to == COP_ID_NONE)
        return;
    mine->stamp = gossip->cycle;
    mine->grown = gossip->periods;
    cop__roster_send(node, to, COP__KIND_GOSSIP, encode(node));
}

/* That nothing came of it by way of others is a matter of chance (D12). Where witnesses are wanted,
 * and nobody is there to be one, I ask it myself. */
static void doubt(struct cop_node *node, cop_id id)
{
    if (cop__detect_settings(node)->witnesses > 0 && !cop__case_has_witnesses(node, id))
        cop__detect_rely(node, id);
    else
        cop__accuse(node, id, COP_REASON_SILENT);
}

static void accuse_old(struct cop_node *node)
{
    struct cop__gossip *gossip = cop__senses(node)->gossip;
    uint64_t limit = limit_of(node);
    for (cop_id id = cop_view_next(node->view, COP_ID_NONE);
         id != COP_ID_NONE && !node->failed; id = cop_view_next(node->view, id)) {
        struct pulse *pulse = present_pulse(node, id);
        if (!pulse || id == node->self || gossip->periods - pulse->grown <= limit)
            continue;
        pulse->grown = gossip->periods; /* if nothing comes of it, once more */
        if (!cop__roster_is_suspect(node, id) && !cop__view_is_drained(node->view, id))
            doubt(node, id);
    }
}

void cop__gossip_mind(struct cop_node *node)
{
    struct cop__gossip *gossip = cop__senses(node)->gossip;
    if (!gossip || node->now < gossip->next)
        return;
    gossip->next += period_of(node);
    if (gossip->next <= node->now)
        gossip->next = node->now + period_of(node);
    gossip->periods++;
    gossip->cycle++;
    cop__senses(node)->scan = true;
    if (gossip->stealth && gossip->periods >= gossip->silent_until)
        end_stealth(node);
    if (gossip->stealth || !cop__is_inside(node))
        return;
    speak(node);
    accuse_old(node);
}

cop_time cop__gossip_next(const struct cop_node *node)
{
    const struct cop__gossip *gossip = cop__senses(node)->gossip;
    return gossip ? gossip->next : COP_TIME_NEVER;
}

/* ---- hearing --------------------------------------------------------------------- */

/* D13: what the others have of a life of mine is so old that they have given it up. */
static bool is_given_up(const struct cop_node *node, const struct cop__pulse *heard,
                        uint64_t cycle)
{
    return heard->id == node->self && cycle - heard->stamp > limit_of(node);
}

void cop__on_gossip(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__senses *senses = cop__senses(node);
    struct cop__msg_gossip message;
    if (cop__decode_gossip(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (!senses || !senses->gossip) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    struct cop__gossip *gossip = senses->gossip;
    if (message.cycle > gossip->cycle && message.cycle - gossip->cycle > CYCLES_MAX) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (message.cycle > gossip->cycle)
        gossip->cycle = message.cycle;
    bool any = false;
    for (uint32_t i = 0; i < message.pulses.count && !node->failed; i++) {
        struct cop__pulse pulse = cop__pulse_at(message.pulses, i);
        if (pulse.stamp > message.cycle)
            continue; /* nobody is ahead of the time in which it is told */
        any |= take_pulse(node, &pulse);
        if (gossip->stealth && is_given_up(node, &pulse, message.cycle))
            end_stealth(node);
    }
    if (!any)
        COP__COUNT(node, ignored_repeated);
}

void cop__gossip_digest(const struct cop__gossip *gossip, struct cop__digest *digest)
{
    if (!gossip)
        return;
    cop__digest_word(digest, gossip->cycle << 1 | gossip->stealth);
    for (uint32_t i = 0; i < gossip->accusers.count; i++)
        cop__digest_word(digest, gossip->accusers.items[i]);
    for (uint32_t i = 0; i < gossip->capacity; i++)
        cop__digest_word(digest, gossip->pulses[i].stamp);
}
