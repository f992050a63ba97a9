/* SPDX-License-Identifier: Apache-2.0 */
#include "member/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * V18. A member that is drained stays one, and carries nobody: it has no place inside the tree,
 * is root only where nobody else is left, and is not watched. Whoever is asked to drain a member
 * tells the root, and again until its own view says so.
 */
#define DRAIN_AGAIN (500 * COP_MSEC)
#define DRAIN_TIMEOUT (UINT64_C(10) * COP_SEC)
/* What another wants is forgotten after this, if it does not say so again. */
#define DRAIN_MEMORY (UINT64_C(2) * COP_SEC)
#define WISHES_MAX 4096u

static struct cop__wish *find(const struct cop_node *node, cop_id id, uint64_t token)
{
    const struct cop__member *member = cop__member(node);
    for (uint32_t i = 0; i < member->wish_count; i++)
        if (member->wishes[i].id == id && member->wishes[i].token == token)
            return &member->wishes[i];
    return NULL;
}

/* NULL: too many, or no memory, and then the node has failed. */
static struct cop__wish *add(struct cop_node *node, cop_id id, uint64_t token)
{
    struct cop__member *member = cop__member(node);
    struct cop__wish *wish = find(node, id, token);
    if (wish || member->wish_count == WISHES_MAX)
        return wish;
    if (member->wish_count == member->wish_capacity) {
        uint32_t capacity = member->wish_capacity ? 2 * member->wish_capacity : 2;
        void *grown = realloc(member->wishes, capacity * sizeof *member->wishes);
        if (!grown) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
        member->wishes = grown;
        member->wish_capacity = capacity;
    }
    wish = &member->wishes[member->wish_count++];
    *wish = (struct cop__wish){.id = id, .token = token, .asked = COP_ID_NONE};
    return wish;
}

int cop__drain_submit(struct cop_node *node, const struct cop_request *request)
{
    cop_incarnation life = cop_view_incarnation(node->view, request->member);
    if (!cop_view_has(node->view, request->member, life))
        return COP_EINVAL;
    if (find(node, request->member, request->token) || request->token == 0)
        return COP_EINVAL;
    struct cop__wish *wish = add(node, request->member, request->token);
    if (!wish)
        return node->failed ? COP_ENOMEM : COP_EAGAIN;
    wish->incarnation = life;
    wish->on = !request->undo;
    wish->deadline =
        node->now + (request->timeout_ns ? request->timeout_ns : DRAIN_TIMEOUT);
    cop__member_look_soon(node);
    return 0;
}

void cop__on_drain(struct cop_node *node, const struct cop_frame *frame)
{
    struct cop__msg_drain message;
    if (cop__decode_drain(frame->payload->data, frame->payload->length, &message) ||
        message.on > 1) {
        COP__COUNT(node, ignored_malformed);
        return;
    }
    if (cop__member_proposer(node) != node->self ||
        !cop_view_has(node->view, message.member, message.incarnation)) {
        COP__COUNT(node, ignored_unasked);
        return;
    }
    struct cop__wish *wish = add(node, message.member, 0);
    if (!wish)
        return;
    wish->incarnation = message.incarnation;
    wish->on = message.on != 0;
    wish->deadline = node->now + DRAIN_MEMORY;
    cop__member_look_soon(node);
}

/* ---- what becomes of it ---------------------------------------------------------- */

static void tell(struct cop_node *node, struct cop__wish *wish, cop_id proposer)
{
    struct cop__msg_drain message = {
        .member = wish->id, .incarnation = wish->incarnation, .on = wish->on};
    wish->asked = proposer;
    wish->again = node->now + DRAIN_AGAIN;
    cop__roster_send(node, proposer, COP__KIND_DRAIN, cop__encode_drain(&message));
}

/* 0 while nothing has come of it. */
static int judge(const struct cop_node *node, const struct cop__wish *wish,
                 cop_id proposer, bool *over)
{
    *over = true;
    if (!cop_view_has(node->view, wish->id, wish->incarnation))
        return COP_ELOST;
    if (cop__view_is_drained(node->view, wish->id) == wish->on)
        return 0;
    if (node->now >= wish->deadline)
        return COP_ETIMEDOUT;
    /* Who wants it tells the next root itself. */
    *over = wish->token == 0 && proposer != node->self;
    return 0;
}

void cop__drain_mind(struct cop_node *node, cop_id proposer)
{
    struct cop__member *member = cop__member(node);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < member->wish_count; i++) {
        struct cop__wish *wish = &member->wishes[i];
        bool over;
        int status = judge(node, wish, proposer, &over);
        if (over && wish->token != 0)
            cop__emit_complete(node, wish->token, status, NULL);
        if (over)
            continue;
        if (wish->token != 0 && proposer != node->self && proposer != COP_ID_NONE) {
            if (wish->asked != proposer || node->now >= wish->again)
                tell(node, wish, proposer);
            cop__member_wake_at(node, wish->again);
        }
        cop__member_wake_at(node, wish->deadline);
        member->wishes[kept++] = *wish;
    }
    member->wish_count = kept;
}

int cop__drain_draft(const struct cop_node *node, const struct cop_view *base,
                     struct cop__delta *delta)
{
    const struct cop__member *member = cop__member(node);
    int error = 0;
    for (uint32_t i = 0; i < member->wish_count && !error; i++) {
        const struct cop__wish *wish = &member->wishes[i];
        struct cop__entry entry;
        const struct cop__entry *drafted = cop__delta_find(delta, wish->id);
        if (!drafted && !cop__view_entry(base, wish->id, &entry))
            continue;
        if (drafted)
            entry = *drafted;
        if (entry.presence != COP_PRESENT || entry.incarnation != wish->incarnation ||
            ((entry.flags & COP__ENTRY_DRAINED) != 0) == wish->on)
            continue;
        entry.flags ^= COP__ENTRY_DRAINED;
        cop_buf_ref(entry.card);
        error = cop__delta_put(delta, &entry);
    }
    return error;
}

void cop__drain_end(struct cop_node *node, int status)
{
    struct cop__member *member = cop__member(node);
    for (uint32_t i = 0; i < member->wish_count; i++)
        if (member->wishes[i].token != 0)
            cop__emit_complete(node, member->wishes[i].token, status, NULL);
    member->wish_count = 0;
}
