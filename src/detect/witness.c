/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/state.h"

#include "base/random.h"

#include <stdlib.h>

/*
 * D7. An accusation becomes a suspicion when others have found the accused out of reach, too.
 * If one reaches it, it was the way between the two of us, and the accusation is dropped. If
 * nobody answers, it may be me: I accuse nobody until I have heard somebody.
 */

/* Witnesses that do not answer, after which nobody else is asked. */
#define SILENT_MAX 8u
/* Held back for so long, and longer each time. */
#define HOLD_NS (500 * COP_MSEC)
/* Favours at a time. */
#define FAVOURS_MAX 1024u
/* However long somebody wants a witness to look. */
#define PATIENCE_MIN COP_MSEC
#define PATIENCE_MAX (UINT64_C(10) * COP_SEC)

/* ---- the lists ------------------------------------------------------------------- */

static struct cop__case *find_case(const struct cop_node *node, uint64_t token)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; senses && i < senses->case_count; i++)
        if (senses->cases[i].token == token)
            return &senses->cases[i];
    return NULL;
}

static struct cop__case *find_case_of(const struct cop_node *node, cop_id id)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; senses && i < senses->case_count; i++)
        if (senses->cases[i].id == id)
            return &senses->cases[i];
    return NULL;
}

static struct cop__question *find_question(const struct cop_node *node, uint64_t token,
                                           cop_id witness)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; senses && i < senses->question_count; i++)
        if (senses->questions[i].token == token &&
            senses->questions[i].witness == witness)
            return &senses->questions[i];
    return NULL;
}

static uint32_t open_questions(const struct cop_node *node, uint64_t token)
{
    const struct cop__senses *senses = cop__senses(node);
    uint32_t count = 0;
    for (uint32_t i = 0; i < senses->question_count; i++)
        count += senses->questions[i].token == token;
    return count;
}

static void end_question(struct cop_node *node, struct cop__question *question)
{
    struct cop__senses *senses = cop__senses(node);
    cop_id witness = question->witness;
    *question = senses->questions[--senses->question_count];
    cop__unwatch(node, witness);
}

/* A larger array, or NULL and the node has failed. */
static void *grow(struct cop_node *node, void *items, uint32_t *capacity, size_t size)
{
    uint32_t larger = *capacity ? 2 * *capacity : 2;
    void *grown = realloc(items, larger * size);
    if (grown)
        *capacity = larger;
    else
        cop__fail(node, COP_ENOMEM);
    return grown;
}

static bool add_question(struct cop_node *node, uint64_t token, cop_id witness)
{
    struct cop__senses *senses = cop__senses(node);
    if (senses->question_count == senses->question_capacity) {
        void *grown = grow(node, senses->questions, &senses->question_capacity,
                           sizeof *senses->questions);
        if (!grown)
            return false;
        senses->questions = grown;
    }
    senses->questions[senses->question_count++] = (struct cop__question){
        .token = token,
        .witness = witness,
        .deadline = node->now + 2 * cop__senses_patience(node),
    };
    cop__watch(node, witness);
    return true;
}

static struct cop__case *add_case(struct cop_node *node, cop_id id)
{
    struct cop__senses *senses = cop__senses_need(node);
    if (!senses)
        return NULL;
    if (senses->case_count == senses->case_capacity) {
        void *grown =
            grow(node, senses->cases, &senses->case_capacity, sizeof *senses->cases);
        if (!grown)
            return NULL;
        senses->cases = grown;
    }
    struct cop__case *one = &senses->cases[senses->case_count++];
    *one = (struct cop__case){
        .token = ++senses->next_token,
        .id = id,
        .incarnation = cop__roster_get(node, id).incarnation,
        .first = cop__detour_for(node, id, COP__KIND_NEWS, 0),
        .successor = COP_ID_NONE,
        .deadline = COP_TIME_NEVER,
    };
    cop__senses_touch(node);
    return one;
}

static void end_case(struct cop_node *node, struct cop__case *one)
{
    struct cop__senses *senses = cop__senses(node);
    uint64_t token = one->token;
    *one = senses->cases[--senses->case_count];
    for (uint32_t i = senses->question_count; i > 0; i--)
        if (senses->questions[i - 1].token == token)
            end_question(node, &senses->questions[i - 1]);
    cop__senses_touch(node);
}

/* ---- choosing witnesses ---------------------------------------------------------- */

static void send_question(struct cop_node *node, const struct cop__case *one,
                          cop_id witness)
{
    struct cop__msg_witness message = {
        .token = one->token,
        .suspect = one->id,
        .incarnation = one->incarnation,
        .patience_ns = cop__senses_patience(node),
    };
    cop__roster_send(node, witness, COP__KIND_WITNESS, cop__encode_witness(&message));
}

/*
 * Those who have a connection with it anyway, in this order: whom it asks in the ring, and
 * its parent. Anybody else would have to make one first, which on a bad network takes
 * longer than somebody who waits for an answer has.
 */
#define NEAR 2u

static cop_id near_witness(const struct cop_node *node, cop_id accused, uint32_t i)
{
    struct cop__walk walk = cop__ring_walk_from(node, accused);
    struct cop_tree tree = cop__roster_tree(node);
    if (i == 0)
        return cop__ring_next(node, &walk);
    cop_rank parent = cop_tree_parent(&tree, cop_view_rank(node->view, accused));
    cop_id id = parent == COP_RANK_NONE ? COP_ID_NONE : cop_view_id(node->view, parent);
    return id == node->self ? COP_ID_NONE : id;
}

static bool is_near(const struct cop_node *node, cop_id accused, cop_id id, uint32_t to)
{
    for (uint32_t i = 0; i < to; i++)
        if (near_witness(node, accused, i) == id)
            return true;
    return false;
}

/* The next of those who stand near it, or COP_ID_NONE. */
static cop_id next_near(const struct cop_node *node, struct cop__case *one)
{
    while (one->near < NEAR) {
        cop_id id = near_witness(node, one->id, one->near++);
        if (id != COP_ID_NONE && id != one->id &&
            !is_near(node, one->id, id, one->near - 1))
            return id;
    }
    return COP_ID_NONE;
}

static bool ask_one(struct cop_node *node, const struct cop__case *one, cop_id witness)
{
    if (!add_question(node, one->token, witness))
        return false;
    send_question(node, one, witness);
    return true;
}

/*
 * The one who answered me when others did not, or who carries what I say to the accused (D14).
 * Where I have lost most of my links any others would not even hear the question.
 */
static bool ask_first(struct cop_node *node, struct cop__case *one)
{
    if (one->first_is_asked || one->first == COP_ID_NONE)
        return false;
    one->first_is_asked = true;
    if (one->first == one->id ||
        cop_view_rank(node->view, one->first) == COP_RANK_NONE ||
        cop__roster_is_suspect(node, one->first)) {
        one->first = COP_ID_NONE;
        return false;
    }
    return ask_one(node, one, one->first);
}

/* Who proposes without the accused, if it is the turn of that, and has to find out itself. */
static cop_id successor_of(const struct cop_node *node, cop_id accused)
{
    if (!cop__has_views(node) ||
        cop__roster_proposer(node, node->view, COP_ID_NONE) != accused)
        return COP_ID_NONE;
    cop_id next = cop__roster_proposer(node, node->view, accused);
    return next != node->self && next > accused ? next : COP_ID_NONE;
}

/*
 * V9: who proposes has to know itself. As a witness it finds out while the others do, and not
 * after them. It is asked beside those whom the accusation needs, for it may have died together
 * with the accused, or share its way to it with me, and need not have a connection with it; unless
 * it would be asked anyway. That it does not reach the accused counts when nobody else is left.
 */
static bool ask_successor(struct cop_node *node, struct cop__case *one)
{
    if (one->successor_is_asked)
        return false;
    one->successor_is_asked = true;
    one->successor = successor_of(node, one->id);
    if (one->successor == COP_ID_NONE || one->successor == one->first)
        return false;
    one->successor_is_extra = !is_near(node, one->id, one->successor, NEAR);
    return ask_one(node, one, one->successor);
}

/* Asks so many that have not been asked; each two accuse by another order. How many it
 * found. */
static uint32_t ask_witnesses(struct cop_node *node, struct cop__case *one,
                              uint32_t want)
{
    uint32_t start = (uint32_t)cop__mix64((uint64_t)one->id << 32 ^ node->self);
    struct cop__walk walk = cop__ring_walk(node, start + one->walked);
    uint32_t found = ask_first(node, one);
    if (ask_successor(node, one)) {
        found++;
        want += one->successor_is_extra;
    }
    walk.left -= one->walked < walk.left ? one->walked : walk.left;
    while (found < want && !node->failed) {
        uint32_t before = walk.left;
        cop_id witness = next_near(node, one);
        bool is_other = witness == COP_ID_NONE;
        if (is_other)
            witness = cop__ring_next(node, &walk);
        one->walked += before - walk.left;
        if (witness == COP_ID_NONE)
            break;
        if (witness == one->id || witness == one->first || witness == one->successor ||
            (is_other && is_near(node, one->id, witness, NEAR)))
            continue;
        found += ask_one(node, one, witness);
    }
    return found;
}

/* How many there are to ask, up to `most`. */
static uint32_t count_witnesses(const struct cop_node *node, cop_id accused,
                                uint32_t most)
{
    struct cop__walk walk = cop__ring_walk(node, 0);
    uint32_t count = 0;
    while (count < most) {
        cop_id id = cop__ring_next(node, &walk);
        if (id == COP_ID_NONE)
            break;
        count += id != accused;
    }
    return count;
}

bool cop__case_has_witnesses(const struct cop_node *node, cop_id accused)
{
    return count_witnesses(node, accused, 1) > 0;
}

/* ---- the course of a case -------------------------------------------------------- */

static void convict(struct cop_node *node, struct cop__case *one)
{
    cop_id id = one->id;
    end_case(node, one);
    cop__detect_convict(node, id, COP_SUSPECT);
}

/* V19: whether I may believe what I alone see. */
static bool may_be_alone(const struct cop_node *node)
{
    return node->now < cop__senses(node)->alone_until;
}

static void hold_back(struct cop_node *node, struct cop__case *one)
{
    if (may_be_alone(node)) {
        convict(node, one);
        return;
    }
    uint32_t doublings = one->holds < 5 ? one->holds : 5;
    COP__COUNT(node, accusations_held);
    one->held = true;
    one->holds++;
    one->deadline = node->now + (HOLD_NS << doublings);
}

static uint32_t needed(const struct cop_node *node, const struct cop__case *one)
{
    return count_witnesses(node, one->id, cop__detect_settings(node)->witnesses);
}

/* No question is open that it has to wait for, and it is not decided. */
static void go_on(struct cop_node *node, struct cop__case *one)
{
    uint32_t need = needed(node, one);
    if (one->confirmed >= need && (one->confirmed > 0 || need == 0)) {
        convict(node, one);
        return;
    }
    /* More at once the more were silent: a few deadlines, however many they are. */
    uint32_t want = need - one->confirmed + one->silent;
    if (one->silent < SILENT_MAX && ask_witnesses(node, one, want) > 0)
        return;
    one->exhausted = true;
    if (open_questions(node, one->token) > 0) /* the successor's, which is needed now */
        return;
    /* All who answered say the same. */
    if (one->confirmed > 0 || one->successor_confirms)
        convict(node, one);
    else
        hold_back(node, one);
}

static void reset(struct cop__case *one)
{
    one->held = one->first_is_asked = one->successor_is_asked = one->exhausted = false;
    one->successor_is_extra = one->successor_confirms = false;
    one->near = one->walked = one->confirmed = one->silent = 0;
    one->deadline = COP_TIME_NEVER;
}

static void start_anew(struct cop_node *node, struct cop__case *one)
{
    reset(one);
    go_on(node, one);
}

/*
 * Nobody was heard for a while. Where somebody alone may go on, that is what there is to do;
 * with a majority it would not help, and one is asked now and then whether I am back.
 */
static void end_hold(struct cop_node *node, struct cop__case *one)
{
    if (node->quorum != COP_QUORUM_MAJORITY && one->holds > 1) {
        convict(node, one);
        return;
    }
    reset(one);
    one->first = COP_ID_NONE; /* it was silent, too */
    one->successor_is_asked = true;
    one->successor = COP_ID_NONE;
    if (ask_witnesses(node, one, 1) == 0)
        hold_back(node, one);
    else
        one->silent = SILENT_MAX; /* one that does not answer is enough */
}

void cop__detect_go_on(struct cop_node *node, cop_time until)
{
    struct cop__senses *senses = cop__senses(node);
    if (!senses)
        return;
    senses->alone_until = until;
    for (uint32_t i = until ? senses->case_count : 0; i > 0; i--)
        if (i <= senses->case_count && senses->cases[i - 1].held)
            convict(node, &senses->cases[i - 1]);
    cop__senses_touch(node);
}

bool cop__detect_is_cut_off(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; senses && i < senses->case_count; i++)
        if (senses->cases[i].holds > 0)
            return true;
    return false;
}

static void lose_question(struct cop_node *node, struct cop__question *question)
{
    struct cop__case *one = find_case(node, question->token);
    /* The successor is none of those whose silence says that I may be cut off. */
    bool is_extra =
        one && question->witness == one->successor && one->successor_is_extra;
    end_question(node, question);
    if (one && !is_extra)
        one->silent++;
    cop__senses_touch(node);
}

void cop__case_lose_witness(struct cop_node *node, cop_id id)
{
    struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = senses ? senses->question_count : 0; i > 0; i--)
        if (senses->questions[i - 1].witness == id)
            lose_question(node, &senses->questions[i - 1]);
}

void cop__case_close(struct cop_node *node, cop_id id)
{
    struct cop__case *one = find_case_of(node, id);
    if (!one)
        return;
    end_case(node, one);
    /* What I saw was right. */
    if (cop__roster_is_suspect(node, id))
        cop__detect_find(node, id);
}

static void drop_case(struct cop_node *node, struct cop__case *one,
                      enum cop_outcome outcome)
{
    COP__COUNT(node, accusations_dropped);
    cop__record_outcome(node, one->id, one->incarnation, outcome);
    end_case(node, one);
}

void cop__case_hear(struct cop_node *node, cop_id id)
{
    struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = senses->case_count; i > 0; i--) {
        struct cop__case *one = &senses->cases[i - 1];
        if (one->id == id) {
            drop_case(node, one, COP_OUTCOME_DENIED);
        } else if (one->holds > 0) {
            one->holds = 0;
            one->first = id;
            if (one->held) {
                one->deadline = node->now;
            } else { /* one was asked, and perhaps this is its answer: the others are needed, too */
                one->first_is_asked = find_question(node, one->token, id) != NULL;
                one->silent = 0;
            }
            cop__senses_touch(node);
        }
    }
}

static struct cop__question *find_late_question(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; i < senses->question_count; i++)
        if (senses->questions[i].deadline <= node->now)
            return &senses->questions[i];
    return NULL;
}

/* Whether nobody is left to wait for: for the successor, who may be dead, only where there is
 * nobody else to ask, and those who answered were not enough. */
static bool is_answered(const struct cop_node *node, const struct cop__case *one)
{
    uint32_t open = open_questions(node, one->token);
    if (open == 1 && find_question(node, one->token, one->successor) &&
        one->successor_is_extra)
        return !one->exhausted || one->confirmed >= needed(node, one);
    return open == 0;
}

/* A case that has something to do. */
static struct cop__case *find_ready_case(const struct cop_node *node)
{
    const struct cop__senses *senses = cop__senses(node);
    for (uint32_t i = 0; i < senses->case_count; i++) {
        struct cop__case *one = &senses->cases[i];
        if (one->deadline <= node->now || (!one->held && is_answered(node, one)))
            return one;
    }
    return NULL;
}

void cop__case_mind(struct cop_node *node)
{
    struct cop__question *question;
    struct cop__case *one;
    while ((question = find_late_question(node)) != NULL)
        lose_question(node, question);
    while (!node->failed && (one = find_ready_case(node)) != NULL) {
        if (!one->held)
            go_on(node, one);
        else if (one->holds == 0)
            start_anew(node, one);
        else
            end_hold(node, one);
    }
}

/* ---- accusing -------------------------------------------------------------------- */

static bool needs_witnesses(const struct cop_node *node, cop_id id,
                            enum cop_reason reason)
{
    if (!cop__has_views(node) || reason == COP_REASON_OUTSIDE || !cop__is_inside(node))
        return false;
    /* A life that is only about to be a member is one that others need not know. */
    if (!cop_view_has(node->view, id, cop__roster_get(node, id).incarnation))
        return false;
    return cop__detect_settings(node)->witnesses > 0 &&
           cop__case_has_witnesses(node, id);
}

void cop__accuse(struct cop_node *node, cop_id id, enum cop_reason reason)
{
    enum cop_status how = reason == COP_REASON_OUTSIDE ? COP_REPORTED : COP_SUSPECT;
    if (cop__roster_get(node, id).status >= (uint8_t)how) {
        if (how != COP_REPORTED)
            cop__detect_find(node, id);
        return;
    }
    if ((find_case_of(node, id) && how == COP_SUSPECT) || cop__detect_is_stealthy(node))
        return;
    COP__COUNT(node, accusations);
    cop__record_accusation(node, node->self, id, reason);
    if (needs_witnesses(node, id, reason))
        add_case(node, id);
    else
        cop__detect_convict(node, id, how);
}

void cop__on_witnessed(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_witnessed message;
    if (cop__decode_witnessed(frame->payload->data, frame->payload->length, &message) ||
        message.reached > 1) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    struct cop__question *question =
        find_question(node, message.token, frame->header.sender);
    struct cop__case *one = find_case(node, message.token);
    if (!question || !one || one->id != message.suspect) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    end_question(node, question);
    cop__senses_touch(node);
    if (!message.reached) {
        if (one->successor_is_extra && frame->header.sender == one->successor)
            one->successor_confirms = true;
        else
            one->confirmed++;
        one->holds = 0;
        return;
    }
    /* It was the way between us: I try again myself. */
    cop__detect_try_later(node, one->id);
    cop__detour_set(node, one->id, frame->header.sender);
    drop_case(node, one, COP_OUTCOME_NOT_CONFIRMED);
}

/* ---- being a witness ------------------------------------------------------------- */

static void say(struct cop_node *node, cop_id to, cop_incarnation incarnation,
                uint64_t token, cop_id suspect, bool reached)
{
    struct cop__msg_witnessed message = {token, suspect, reached};
    cop__emit_send(node, to, incarnation, COP__KIND_WITNESSED,
                   cop__encode_witnessed(&message));
}

void cop__favour_see(struct cop_node *node, struct cop__look *look,
                     enum cop__sight sight)
{
    struct cop__look done = *look;
    cop__look_end(node, look);
    if (sight != SIGHT_REACHED)
        cop__look_keep_unanswered(node, &done);
    say(node, done.asker, done.asker_incarnation, done.token, done.id,
        sight == SIGHT_REACHED);
}

static uint32_t count_favours(const struct cop_node *node, cop_id asker, uint64_t token,
                              bool *repeated)
{
    const struct cop__senses *senses = cop__senses(node);
    uint32_t count = 0;
    *repeated = false;
    for (uint32_t i = 0; senses && i < senses->look_count; i++) {
        const struct cop__look *look = &senses->looks[i];
        count += look->purpose == LOOK_FAVOUR;
        *repeated |= look->purpose == LOOK_FAVOUR && look->asker == asker &&
                     look->token == token;
    }
    return count;
}

static void look_for(struct cop_node *node, const struct cop_header *header,
                     const struct cop__msg_witness *message)
{
    cop_time patience = message->patience_ns;
    if (patience < PATIENCE_MIN)
        patience = PATIENCE_MIN;
    if (patience > PATIENCE_MAX)
        patience = PATIENCE_MAX;
    struct cop__look *look =
        cop__look_begin(node, message->suspect, LOOK_FAVOUR, patience);
    if (!look)
        return;
    look->asker = header->sender;
    look->asker_incarnation = header->sender_incarnation;
    look->token = message->token;
}

/* A member, or one who is about to be: the accuser may be the only one left who has the view that it
 * came with, and then only those who have not can be asked. */
static bool knows_life(const struct cop_node *node, cop_id id, cop_incarnation life)
{
    return cop_view_has(node->view, id, life) ||
           (life != 0 && cop__roster_get(node, id).incarnation == life);
}

static void answer_at_once_or_look(struct cop_node *node,
                                   const struct cop_header *header,
                                   const struct cop__msg_witness *message)
{
    bool is_me = message->suspect == node->self;
    bool is_over =
        message->suspect < cop_view_slots(node->view) && !is_me &&
        message->incarnation <= cop_view_incarnation(node->view, message->suspect) &&
        !cop_view_has(node->view, message->suspect, message->incarnation);
    if (is_me || is_over)
        say(node, header->sender, header->sender_incarnation, message->token,
            message->suspect, is_me);
    else if (knows_life(node, message->suspect, message->incarnation))
        look_for(node, header, message);
    else /* of a life that I do not know I cannot say anything */
        COP__COUNT(node, ignored_incarnation);
}

/* D7: a witness answers by what it sees itself. */
void cop__on_witness(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_witness message;
    const struct cop_header *header = &frame->header;
    if (cop__decode_witness(frame->payload->data, frame->payload->length, &message)) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    bool repeated;
    uint32_t favours = count_favours(node, header->sender, message.token, &repeated);
    if (!cop__has_views(node) || repeated || favours >= FAVOURS_MAX) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    answer_at_once_or_look(node, header, &message);
}
