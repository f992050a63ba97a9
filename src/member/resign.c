/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/detect.h"
#include "member/state.h"

#include <stdlib.h>

/*
 * V20. Whose turn it is to propose, and who has lost a quorum, may be the only one who has: the
 * next in line finds it alive and waits for it, and so does everybody else. So it resigns: it
 * says so to those who follow in line and whom it does not suspect, and takes its own accusations
 * of others for a doubt about itself. The next in line proposes at once, and marks it in the view
 * as one that is drained (V18) because it resigned. It comes back by its own word.
 *
 * It is said of one view and of one life, is forgotten after a while, and is no more than a
 * change in the order of proposers: whatever is proposed by whomever is judged as ever.
 */

/* So long without a quorum, or with one again; longer each time. */
#define RESIGN_AFTER COP_SEC
#define TIMES_MAX 4u
/* After this it counts as the first time. */
#define RESIGN_FORGOTTEN (UINT64_C(60) * COP_SEC)
/* Nobody took over: I try again myself. */
#define RESIGN_VAIN (UINT64_C(10) * COP_SEC)
/* It is said again after this, longer each time, and forgotten if it is not. */
#define RESIGN_AGAIN (500 * COP_MSEC)
#define AGAIN_DOUBLINGS 4u
#define RESIGN_MEMORY (UINT64_C(20) * COP_SEC)
/* So many who follow in line are told: who of them cannot do better resigns, too. */
#define TOLD 4u

/* ---- who has --------------------------------------------------------------------- */

static struct cop__resigned *find(const struct cop_node *node, cop_id id,
                                  cop_incarnation incarnation)
{
    const struct cop__member *member = cop__member(node);
    for (uint32_t i = 0; i < member->resigned_count; i++)
        if (member->resigned[i].id == id &&
            member->resigned[i].incarnation == incarnation)
            return &member->resigned[i];
    return NULL;
}

bool cop__resign_is_said(const struct cop_node *node, cop_id id,
                         cop_incarnation incarnation)
{
    const struct cop__member *member = cop__member(node);
    if (id == node->self)
        return member->resigning.resigned;
    const struct cop__resigned *one = find(node, id, incarnation);
    return one && one->on && node->now < one->until;
}

static void remember(struct cop_node *node, cop_id id, cop_incarnation incarnation,
                     bool on)
{
    struct cop__member *member = cop__member(node);
    struct cop__resigned *one = find(node, id, incarnation);
    if (!one && member->resigned_count == member->resigned_capacity) {
        uint32_t capacity =
            member->resigned_capacity ? 2 * member->resigned_capacity : 2;
        void *grown = realloc(member->resigned, capacity * sizeof *member->resigned);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return;
        }
        member->resigned = grown;
        member->resigned_capacity = capacity;
    }
    if (!one)
        one = &member->resigned[member->resigned_count++];
    *one = (struct cop__resigned){id, incarnation, on, node->now + RESIGN_MEMORY};
    cop__member_look_soon(node);
}

static void forget_old(struct cop_node *node)
{
    struct cop__member *member = cop__member(node);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < member->resigned_count; i++) {
        const struct cop__resigned *one = &member->resigned[i];
        if (node->now >= one->until ||
            !cop_view_has(node->view, one->id, one->incarnation))
            continue;
        cop__member_wake_at(node, one->until);
        member->resigned[kept++] = *one;
    }
    member->resigned_count = kept;
}

static bool is_marked(const struct cop_view *view, cop_id id)
{
    struct cop__entry entry;
    return cop__view_entry(view, id, &entry) && entry.presence == COP_PRESENT &&
           entry.flags & COP__ENTRY_RESIGNED;
}

/* ---- saying it ------------------------------------------------------------------- */

static void say(struct cop_node *node, cop_id to, bool on)
{
    struct cop_ballot ballot = cop_view_ballot(cop__member(node)->base);
    struct cop__msg_resign message = {ballot.epoch, ballot.root, ballot.incarnation,
                                      on};
    cop__roster_send(node, to, COP__KIND_RESIGN, cop__encode_resign(&message));
}

/* The next after `id`, around, whom I do not suspect; NONE: there is nobody. */
static cop_id next_reached(const struct cop_node *node, cop_id id)
{
    for (uint32_t i = 0; i <= cop_view_size(node->view); i++) {
        id = cop_view_next(node->view, id);
        if (id != COP_ID_NONE && id != node->self && !cop__roster_is_suspect(node, id))
            return id;
    }
    return COP_ID_NONE;
}

static void say_to_those_in_line(struct cop_node *node, bool on)
{
    cop_id first = next_reached(node, node->self), id = first;
    for (uint32_t i = 0; i < TOLD && id != COP_ID_NONE; i++) {
        say(node, id, on);
        id = next_reached(node, id);
        if (id == first)
            return;
    }
}

/* ---- whether I do ---------------------------------------------------------------- */

static bool lacks_quorum(const struct cop_node *node)
{
    return !cop__member_could_change(node, cop__member(node)->base);
}

/*
 * Once I had no quorum, having one again says little: others deny what I accuse them of, and I
 * still do not reach them. It says something when what I proposed meanwhile is over.
 */
static bool is_stuck(const struct cop_node *node)
{
    const struct cop__member *member = cop__member(node);
    return lacks_quorum(node) ||
           (member->resigning.since != 0 && member->proposal_count > 0);
}

/* Whether `condition` has held for `time`. */
static bool has_lasted(struct cop_node *node, bool condition, cop_time *since,
                       cop_time time)
{
    if (!condition) {
        *since = 0;
        return false;
    }
    if (*since == 0)
        *since = node->now ? node->now : 1;
    if (node->now >= *since + time)
        return true;
    cop__member_wake_at(node, *since + time);
    return false;
}

static void resign(struct cop_node *node)
{
    struct cop__resigning *mine = &cop__member(node)->resigning;
    COP__COUNT(node, resignations);
    mine->resigned = true;
    mine->times += mine->times < TIMES_MAX;
    mine->vain_at = node->now + RESIGN_VAIN;
    mine->again = mine->said = 0;
    mine->since = 0;
    cop__member_look_soon(node); /* somebody else proposes now */
}

static void come_back(struct cop_node *node)
{
    struct cop__resigning *mine = &cop__member(node)->resigning;
    mine->resigned = false;
    mine->again = mine->said = 0;
    mine->since = 0;
    say_to_those_in_line(node, false);
    cop__member_look_soon(node);
}

static bool is_time_to_say(struct cop_node *node)
{
    struct cop__resigning *mine = &cop__member(node)->resigning;
    bool due = node->now >= mine->again;
    if (due) {
        uint32_t doublings =
            mine->said < AGAIN_DOUBLINGS ? mine->said : AGAIN_DOUBLINGS;
        mine->said++;
        mine->again = node->now + (RESIGN_AGAIN << doublings);
    }
    cop__member_wake_at(node, mine->again);
    return due;
}

/* V19: somebody outside says that I am to go on. */
static bool is_told_to_go_on(const struct cop_node *node)
{
    return cop__member(node)->go_on.until != 0;
}

/* Whether I am to take part as ever. */
static bool is_over(struct cop_node *node, bool marked)
{
    struct cop__resigning *mine = &cop__member(node)->resigning;
    if (is_told_to_go_on(node) || (!marked && node->now >= mine->vain_at) ||
        has_lasted(node, !lacks_quorum(node), &mine->since,
                   RESIGN_AFTER << mine->times))
        return true;
    if (!marked)
        cop__member_wake_at(node, mine->vain_at);
    return false;
}

void cop__resign_mind(struct cop_node *node, cop_id proposer)
{
    struct cop__resigning *mine = &cop__member(node)->resigning;
    bool marked = is_marked(cop__member(node)->base, node->self);
    forget_old(node);
    if (!mine->resigned) {
        if (!marked && mine->since == 0 &&
            node->now >= mine->vain_at + RESIGN_FORGOTTEN)
            mine->times = 0;
        bool may = is_stuck(node) && proposer == node->self &&
                   !is_told_to_go_on(node) &&
                   next_reached(node, node->self) != COP_ID_NONE;
        if (has_lasted(node, may, &mine->since, RESIGN_AFTER << mine->times))
            resign(node);
    } else if (is_over(node, marked)) {
        come_back(node);
    }
    if (mine->resigned && !marked && is_time_to_say(node))
        say_to_those_in_line(node, true);
    else if (!mine->resigned && marked && proposer != COP_ID_NONE &&
             proposer != node->self && is_time_to_say(node))
        say(node, proposer, false);
}

/* ---- hearing it ------------------------------------------------------------------ */

void cop__on_resign(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_resign message;
    const struct cop_header *header = &frame->header;
    cop_incarnation life = header->sender_incarnation;
    if (cop__decode_resign(frame->payload->data, frame->payload->length, &message) ||
        message.on > 1) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__member(node)->phase != PHASE_MEMBER ||
        !cop_view_has(node->view, header->sender, life)) {
        COP__COUNT(node, ignored_stranger);
        return;
    }
    /* It is said of one view: who has another one decides there. */
    struct cop_ballot theirs = {message.epoch, message.root, message.incarnation};
    struct cop_ballot mine = cop_view_ballot(cop__member(node)->base);
    if (cop__is_later(theirs, mine))
        cop__member_ask_view(node, header->sender, life);
    else if (cop__is_later(mine, theirs))
        cop__member_update(node, header->sender, life);
    else
        remember(node, header->sender, life, message.on != 0);
}

/* ---- what becomes of it ---------------------------------------------------------- */

static int mark(const struct cop_view *base, const struct cop__resigned *one,
                struct cop__delta *delta)
{
    struct cop__entry entry;
    const struct cop__entry *drafted = cop__delta_find(delta, one->id);
    if (!drafted && !cop__view_entry(base, one->id, &entry))
        return 0;
    if (drafted)
        entry = *drafted;
    uint8_t marks = COP__ENTRY_DRAINED | COP__ENTRY_RESIGNED;
    bool is = (entry.flags & COP__ENTRY_RESIGNED) != 0;
    /* Whom somebody outside has drained stays so. */
    bool drained = (entry.flags & COP__ENTRY_DRAINED) != 0;
    if (entry.presence != COP_PRESENT || entry.incarnation != one->incarnation ||
        is == one->on || (one->on && drained))
        return 0;
    entry.flags = (uint8_t)(one->on ? entry.flags | marks : entry.flags & ~marks);
    cop_buf_ref(entry.card);
    return cop__delta_put(delta, &entry);
}

int cop__resign_draft(const struct cop_node *node, const struct cop_view *base,
                      struct cop__delta *delta)
{
    const struct cop__member *member = cop__member(node);
    int error = 0;
    for (uint32_t i = 0; i < member->resigned_count && !error; i++)
        if (node->now < member->resigned[i].until)
            error = mark(base, &member->resigned[i], delta);
    /* Where nobody else is left in line I lead though I am marked, and need nobody's word. */
    struct cop__resigned me = {node->self, node->incarnation, false, COP_TIME_NEVER};
    if (!error && !member->resigning.resigned)
        error = mark(base, &me, delta);
    return error;
}

void cop__resign_digest(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__member *member = cop__member(node);
    cop__digest_word(digest, (uint64_t)member->resigning.times << 2 |
                                 (uint64_t)member->resigning.resigned << 1 |
                                 (member->resigning.since != 0));
    for (uint32_t i = 0; i < member->resigned_count; i++)
        cop__digest_word(digest, (uint64_t)member->resigned[i].id << 1 |
                                     (uint64_t)member->resigned[i].on);
}
