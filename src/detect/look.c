/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/state.h"

#include "base/rankset.h"

#include <stdlib.h>

/*
 * PING and PONG. Whoever asks measures; who is asked keeps nothing, and need not know why: so
 * the ring, witnesses, successors and inquiries all ask the same question, and nobody has to
 * agree with anybody about who watches whom.
 *
 * A question is sent once and again only when a connection is made anew: frames between two
 * who live are not lost, and a peer behind a bad link must not find a heap of them.
 */

/* ---- the list -------------------------------------------------------------------- */

struct cop__look *cop__look_find(const struct cop_node *node, cop_id id,
                                 enum cop__purpose purpose)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; senses && i < senses->look_count; i++)
        if (senses->looks[i].id == id && senses->looks[i].purpose == purpose)
            return &senses->looks[i];
    return NULL;
}

static struct cop__look *append(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses_need(node);
    if (!senses)
        return NULL;
    if (senses->look_count == senses->look_capacity) {
        uint32_t capacity = senses->look_capacity ? 2 * senses->look_capacity : 2;
        void *grown = realloc(senses->looks, capacity * sizeof *senses->looks);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        senses->looks = grown;
        senses->look_capacity = capacity;
    }
    return &senses->looks[senses->look_count++];
}

struct cop__look *cop__look_begin(struct cop_node *node, cop_id id,
                                  enum cop__purpose purpose, cop_time patience)
{
    struct cop__look *look = append(node);
    if (!look)
        return NULL;
    *look = (struct cop__look){
        .id = id,
        .incarnation = cop__roster_get(node, id).incarnation,
        .purpose = purpose,
        .patience = patience,
        .deadline = node->now,
        .asker = COP_ID_NONE,
    };
    cop__watch(node, id);
    if (purpose != LOOK_RING)
        cop__look_ask(node, look, patience);
    cop__senses_touch(node);
    return look;
}

void cop__look_end(struct cop_node *node, struct cop__look *look)
{
    struct cop__senses *senses = cop__senses(node);
    cop_id id = look->id;
    *look = senses->looks[--senses->look_count];
    cop__unwatch(node, id);
    cop__senses_touch(node);
}

/* ---- asking ---------------------------------------------------------------------- */

static void send_ping(struct cop_node *node, const struct cop__look *look)
{
    struct cop__msg_ping ping = {look->number, cop__lateness_say(node)};
    cop__emit_send(node, look->id, look->incarnation, COP__KIND_PING,
                   cop__encode_ping(&ping));
}

void cop__look_ask(struct cop_node *node, struct cop__look *look, cop_time patience)
{
    look->number = ++cop__senses(node)->next_number;
    look->open = look->measure = true;
    look->heard = false;
    look->credits = 0;
    look->asked = node->now;
    look->connected = 0;
    look->denial = cop__roster_get(node, look->id).denial;
    look->patience = patience;
    look->deadline = node->now + patience;
    send_ping(node, look);
}

void cop__senses_on_peer_up(struct cop_node *node, cop_id peer)
{
    struct cop__senses *senses = cop__senses(node);
    if (!senses)
        return;
    cop__look_forget_unanswered(node, peer);
    for (uint32_t i = 0; i < senses->look_count; i++) {
        struct cop__look *look = &senses->looks[i];
        if (look->id != peer || !look->open || look->asked >= node->now)
            continue;
        look->connected = node->now;
        send_ping(node, look);
    }
}

void cop__on_ping(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_ping ping;
    if (cop__decode_ping(frame->payload->data, frame->payload->length, &ping)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    cop__lateness_hear(node, ping.late_us);
    struct cop__msg_pong pong = {ping.number, cop__lateness_say(node)};
    cop__emit_send(node, frame->header.sender, frame->header.sender_incarnation,
                   COP__KIND_PONG, cop__encode_pong(&pong));
}

/* ---- being answered -------------------------------------------------------------- */

/* Of the longest way so much is forgotten with each measure. */
#define FADING 64u

/* Smoothed as TCP does it (RFC 6298): an eighth of the way, a quarter of the deviation. */
static void measure(struct cop__senses *senses, cop_time sample)
{
    cop_time mean = senses->round_trip;
    cop_time off = sample > mean ? sample - mean : mean - sample;
    senses->peak -= senses->peak / FADING;
    if (sample > senses->peak)
        senses->peak = sample;
    if (mean == 0) {
        senses->round_trip = sample ? sample : 1;
        senses->deviation = sample / 2;
        return;
    }
    senses->deviation += off / 4;
    senses->deviation -= senses->deviation / 4;
    senses->round_trip = mean - mean / 8 + sample / 8;
    if (senses->round_trip == 0)
        senses->round_trip = 1;
}

/* What lets it wait much longer than it waits anyway was an outage, and not a way. */
#define OUTAGE 16u

void cop__on_pong(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__senses *senses = cop__senses(node);
    struct cop__msg_pong pong;
    if (cop__decode_pong(frame->payload->data, frame->payload->length, &pong)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    uint32_t i = 0;
    while (senses && i < senses->look_count &&
           (senses->looks[i].number != pong.number ||
            senses->looks[i].id != frame->header.sender ||
            senses->looks[i].incarnation != frame->header.sender_incarnation))
        i++;
    if (!senses || i == senses->look_count || pong.number == 0) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    struct cop__look *look = &senses->looks[i];
    cop__lateness_hear(node, pong.late_us);
    if (look->measure && node->now - look->asked <= OUTAGE * look->patience)
        measure(senses, node->now - look->asked);
    look->measure = false;
    if (look->purpose == LOOK_INQUIRY)
        cop__inquiry_see(node, look, SIGHT_REACHED);
}

/* ---- what is seen ---------------------------------------------------------------- */

/* V9: the successor of a root has to know itself. Asked again for as long as it answers. */
static void verify_see(struct cop_node *node, struct cop__look *look,
                       enum cop__sight sight)
{
    cop_id id = look->id;
    if (sight == SIGHT_REACHED) {
        look->heard = true;
        look->open = false;
        return;
    }
    if (sight == SIGHT_SILENT && look->heard) {
        cop__look_ask(node, look, cop__senses_patience(node));
        return;
    }
    cop__look_end(node, look);
    if (sight == SIGHT_GONE || !cop__roster_is_suspect(node, id))
        return;
    cop__detect_find(node, id);
    struct cop__change change = {COP__CHANGE_RESTATED, id,
                                 cop_view_rank(node->view, id)};
    cop__tell_change(node, &change);
}

/* D6: who waits for somebody, whatever for, looks whether it answers. */
static void rely_see(struct cop_node *node, struct cop__look *look,
                     enum cop__sight sight)
{
    cop_id id = look->id;
    cop__look_end(node, look);
    if (sight == SIGHT_SILENT && !cop__senses_are_patient(node))
        cop__accuse(node, id, COP_REASON_SILENT);
}

void cop__look_tell_one(struct cop_node *node, struct cop__look *look,
                        enum cop__sight sight)
{
    switch (look->purpose) {
    case LOOK_RING:
        cop__ring_see(node, look, sight);
        return;
    case LOOK_FAVOUR:
        cop__favour_see(node, look, sight);
        return;
    case LOOK_VERIFY:
        verify_see(node, look, sight);
        return;
    case LOOK_RELY:
        rely_see(node, look, sight);
        return;
    case LOOK_INQUIRY:
        cop__inquiry_see(node, look, sight);
        return;
    }
}

/* Whether this is of interest to that look. */
static bool concerns(const struct cop__look *look, cop_id id, enum cop__sight sight)
{
    if (look->id != id)
        return false;
    /* Any word shows that it lives; but an inquiry wants its answer. */
    if (sight == SIGHT_REACHED)
        return look->open && look->purpose != LOOK_INQUIRY;
    return true;
}

void cop__look_tell(struct cop_node *node, cop_id id, enum cop__sight sight)
{
    struct cop__senses *senses = cop__senses(node);
    /* From the end: what is told may end its look, and the last takes its place. */
    for (uint32_t i = senses ? senses->look_count : 0; i > 0; i--)
        if (i <= senses->look_count && concerns(&senses->looks[i - 1], id, sight))
            cop__look_tell_one(node, &senses->looks[i - 1], sight);
}

static struct cop__look *find_due(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; i < senses->look_count; i++)
        if (senses->looks[i].deadline <= node->now)
            return &senses->looks[i];
    return NULL;
}

void cop__look_mind(struct cop_node *node)
{
    for (struct cop__look *look; !node->failed && (look = find_due(node)) != NULL;)
        cop__look_tell_one(node, look, SIGHT_SILENT);
}

/* ---- what a witness knows -------------------------------------------------------- */

static bool is_known(const struct cop_node *node, const struct cop__unanswered *one)
{
    return one->incarnation != 0 && one->until >= node->now;
}

/* The place of this one; else one that is free, or whose question is the oldest. */
static struct cop__unanswered *place_for(const struct cop_node *node, cop_id id)
{
    struct cop__unanswered *all = cop__senses(node)->unanswered, *place = all;
    for (uint32_t i = 0; i < COP__UNANSWERED_MAX; i++) {
        if (all[i].id == id && is_known(node, &all[i]))
            return &all[i];
        if (is_known(node, place) &&
            (!is_known(node, &all[i]) || all[i].asked < place->asked))
            place = &all[i];
    }
    return place;
}

/* V9: of those before me alone I have to know it myself. */
void cop__look_keep_unanswered(struct cop_node *node, const struct cop__look *look)
{
    if (look->id >= node->self)
        return;
    struct cop__unanswered *place = place_for(node, look->id);
    /* Time that was lost is given to it (D8). */
    cop_time asked = look->deadline - look->patience;
    if (asked < look->connected)
        asked = look->connected;
    if (asked > node->now)
        asked = node->now;
    bool again = place->id == look->id && place->incarnation == look->incarnation &&
                 place->denial == look->denial && is_known(node, place);
    if (again && place->asked < asked)
        asked = place->asked;
    *place = (struct cop__unanswered){look->id, look->incarnation, look->denial, asked,
                                      node->now + cop__senses_patience(node)};
}

void cop__look_forget_unanswered(struct cop_node *node, cop_id id)
{
    struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; i < COP__UNANSWERED_MAX; i++)
        if (senses->unanswered[i].id == id || id == COP_ID_NONE)
            senses->unanswered[i].incarnation = 0;
}

/* How long one whom I have to know about myself has left to answer. */
static cop_time patience_left(const struct cop_node *node, cop_id id)
{
    const struct cop__senses *senses = cop__senses(node);
    struct cop__belief belief = cop__roster_get(node, id);
    cop_time patience = cop__senses_patience(node);
    for (uint32_t i = 0; i < COP__UNANSWERED_MAX; i++) {
        const struct cop__unanswered *one = &senses->unanswered[i];
        if (one->id != id || one->incarnation != belief.incarnation ||
            one->denial != belief.denial || !is_known(node, one))
            continue;
        cop_time age = node->now - one->asked;
        return age < patience ? patience - age : 0;
    }
    return patience;
}

void cop__look_digest_unanswered(const struct cop_node *node,
                                 struct cop__digest *digest)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; i < COP__UNANSWERED_MAX; i++) {
        const struct cop__unanswered *one = &senses->unanswered[i];
        if (!is_known(node, one))
            continue;
        cop__digest_word(digest, one->id);
        cop__digest_word(digest, one->incarnation);
        cop__digest_word(digest, one->denial);
        cop__digest_word(digest, node->now - one->asked);
        cop__digest_word(digest, one->until - node->now);
    }
}

/* ---- having to know it oneself ---------------------------------------------------- */

/* An inquiry or a report from outside needs senses where no detector does. */
static bool has_detector(const struct cop_node *node)
{
    return cop__detect_finds_silence(node) || cop__detect_settings(node)->witnesses > 0;
}

void cop__detect_verify(struct cop_node *node, cop_id id)
{
    if (!has_detector(node) || cop__look_find(node, id, LOOK_VERIFY))
        return;
    /* Its patience stays what it is: so much it has again if I was stopped meanwhile (D8). */
    struct cop__look *look =
        cop__look_begin(node, id, LOOK_VERIFY, cop__senses_patience(node));
    if (look)
        look->deadline = node->now + patience_left(node, id);
}

void cop__look_verify_again(struct cop_node *node, cop_id id)
{
    struct cop__look *look = cop__look_find(node, id, LOOK_VERIFY);
    if (look && cop__roster_get(node, id).denial > look->denial)
        cop__look_ask(node, look, cop__senses_patience(node));
}

void cop__detect_verify_report(struct cop_node *node, cop_id id)
{
    if (!cop__senses_need(node) || cop__look_find(node, id, LOOK_VERIFY))
        return;
    cop__look_begin(node, id, LOOK_VERIFY, cop__senses_deadline(node));
}

void cop__detect_rely(struct cop_node *node, cop_id id)
{
    if (!has_detector(node) || cop__look_find(node, id, LOOK_RELY) ||
        cop__roster_is_suspect(node, id))
        return;
    cop__look_begin(node, id, LOOK_RELY, cop__senses_deadline(node));
}

/* ---- for whom those above wait --------------------------------------------------- */

/* How often this layer watches it itself. */
static uint32_t own_watches(const struct cop_node *node, cop_id id)
{
    const struct cop__senses *senses = cop__senses(node);
    uint32_t count = cop__rankset_has(&cop__detect(node)->neighbours, id);
    for (uint32_t i = 0; i < senses->look_count; i++)
        count += senses->looks[i].id == id;
    for (uint32_t i = 0; i < senses->question_count; i++)
        count += senses->questions[i].witness == id;
    return count;
}

/* Whoever waits for somebody watches it: so these are known without being named. */
static void find_awaited(struct cop_node *node, struct cop_ranks *out)
{
    for (uint32_t i = 0; i < node->watch_count; i++) {
        cop_id id = node->watches[i].peer;
        if (cop_view_rank(node->view, id) != COP_RANK_NONE &&
            node->watches[i].count > own_watches(node, id) && cop_ranks_push(out, id))
            cop__fail(node, COP_ENOMEM);
    }
}

void cop__look_scan(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    struct cop_ranks now = {0};
    if (!senses->scan)
        return;
    senses->scan = false;
    find_awaited(node, &now);
    for (uint32_t i = 0; i < now.count && !node->failed; i++)
        if (cop__rankset_has(&senses->awaited, now.items[i]))
            cop__detect_rely(node, now.items[i]);
    cop_ranks_free(&senses->awaited);
    senses->awaited = now;
}
