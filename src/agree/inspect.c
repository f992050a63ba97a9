/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

/* Looking in: for the explorer, for tests. */

static void digest_buf(struct cop__digest *digest, const struct cop_buf *buf)
{
    cop__digest_word(digest, buf != NULL);
    if (buf)
        cop__digest_bytes(digest, buf->data, buf->length);
}

static void digest_child(struct cop__digest *digest, const struct cop__child *child)
{
    cop__digest_word(digest, (uint64_t)child->place << 2 | (uint64_t)child->voted << 1 |
                                 (uint64_t)child->locked);
    cop__digest_word(digest, child->round);
    digest_buf(digest, child->share.value);
    digest_buf(digest, child->lock);
}

static void digest_agreement(struct cop__digest *digest,
                             const struct cop__agreement *agreement)
{
    uint64_t flags = (uint64_t)agreement->called << 5 |
                     (uint64_t)agreement->waiting << 4 |
                     (uint64_t)agreement->laid << 3 | (uint64_t)agreement->cast << 2 |
                     (uint64_t)agreement->ever_cast << 1 | (uint64_t)agreement->kept;
    cop__digest_word(digest, agreement->number << 6 | flags);
    cop__digest_word(digest, agreement->round);
    cop__digest_word(digest, agreement->cast_round);
    cop__digest_word(digest, (uint64_t)agreement->parent << 32 | agreement->lost_count);
    cop__digest_word(digest, agreement->child_count);
    for (uint32_t i = 0; i < agreement->child_count; i++)
        digest_child(digest, &agreement->children[i]);
    digest_buf(digest, agreement->lock);
    cop__digest_word(digest, agreement->lock_round);
    digest_buf(digest, agreement->decision);
    cop__digest_word(digest, agreement->asked_round << 32 | agreement->asked_count);
    for (uint32_t i = 0; i < agreement->asked_count; i++)
        cop__digest_word(digest, (uint64_t)agreement->asked[i].place << 1 |
                                     (uint64_t)agreement->asked[i].answered);
}

void cop__agree_digest(const struct cop_node *node, struct cop__digest *digest)
{
    const struct cop__agree *agree = cop__agree(node);
    for (uint32_t i = 0; i < agree->group_count; i++) {
        const struct cop__agree_group *group = agree->groups[i];
        cop__digest_word(digest, group->number);
        cop__digest_word(digest, group->called);
        cop__digest_word(digest, group->last << 1 | (uint64_t)group->closing);
        for (uint32_t j = 0; j < group->ring_size; j++)
            if (group->ring[j])
                digest_agreement(digest, group->ring[j]);
    }
    for (uint32_t i = 0; i < agree->over_count; i++) {
        cop__digest_word(digest, agree->over[i].first);
        cop__digest_word(digest, agree->over[i].last);
    }
    for (uint32_t i = 0; i < agree->early_count; i++) {
        cop__digest_word(digest, agree->early[i].frame.header.epoch);
        cop__digest_word(digest, agree->early[i].frame.header.sender);
        digest_buf(digest, agree->early[i].frame.payload);
    }
}

uint32_t cop__agree_groups(const struct cop_node *node)
{
    return cop__has_views(node) ? cop__agree(node)->group_count : 0;
}

static const char *check_agreement(const struct cop__agreement *agreement)
{
    if (agreement->waiting && (!agreement->called || agreement->decision))
        return "agree: a caller waits for what is decided, or was not called";
    if (agreement->waiting && !cop__timer_is_running(&agreement->timer.timer))
        return "agree: a caller waits without a deadline";
    if (agreement->decision)
        return agreement->failed ? NULL : "agree: a decision without its failures";
    if (agreement->cast && agreement->parent == COP_RANK_NONE)
        return "agree: voted to nobody";
    for (uint32_t i = 0; i < agreement->child_count; i++) {
        const struct cop__child *child = &agreement->children[i];
        if (i > 0 && agreement->children[i - 1].place >= child->place)
            return "agree: children are not sorted";
        if (agreement->cast && !child->voted)
            return "agree: voted before all below had";
        if (child->voted &&
            child->round < cop__agreement_touched(agreement, child->place))
            return "agree: keeps a vote that does not hold";
    }
    return NULL;
}

static const char *check_group(const struct cop_node *node,
                               const struct cop__agree_group *group)
{
    if (group->closed)
        return "agree: a group that all are done with is kept";
    for (uint32_t i = 0; i < group->watched.count; i++)
        if (!cop__is_watched(node, group->watched.items[i]))
            return "agree: a neighbour is not watched";
    for (uint32_t i = 0; i < group->ring_size; i++) {
        const char *wrong = group->ring[i] ? check_agreement(group->ring[i]) : NULL;
        if (wrong)
            return wrong;
    }
    return NULL;
}

bool cop__agree_has_group(const struct cop_node *node, uint64_t number)
{
    return cop__agree_group_find(node, number) != NULL;
}

const char *cop__agree_check(const struct cop_node *node)
{
    const struct cop__agree *agree = cop__agree(node);
    if (agree->early_count > COP__EARLY_MAX || agree->early_bytes > COP__EARLY_BYTES)
        return "agree: keeps too many frames";
    for (uint32_t i = 0; i < agree->group_count; i++) {
        const char *wrong = check_group(node, agree->groups[i]);
        if (wrong)
            return wrong;
        if (i > 0 && agree->groups[i - 1]->number >= agree->groups[i]->number)
            return "agree: groups are not sorted";
    }
    return NULL;
}

static size_t bytes_of(const struct cop__agreement *agreement)
{
    size_t sum = sizeof *agreement +
                 agreement->child_count * sizeof *agreement->children +
                 agreement->order.capacity * sizeof(cop_rank) +
                 agreement->asked_count * sizeof *agreement->asked +
                 agreement->lost_count * sizeof *agreement->lost +
                 agreement->empty_count * sizeof(cop_rank);
    if (agreement->decision)
        sum += agreement->decision->length;
    return sum;
}

size_t cop__agree_bytes(const struct cop_node *node)
{
    const struct cop__agree *agree = cop__agree(node);
    size_t sum = agree->group_capacity * sizeof(struct cop__agree_group *) +
                 agree->early_capacity * sizeof *agree->early +
                 agree->over_capacity * sizeof *agree->over;
    for (uint32_t i = 0; i < agree->group_count; i++) {
        const struct cop__agree_group *group = agree->groups[i];
        sum += sizeof *group + group->span_count * sizeof *group->spans +
               group->gone_count * sizeof *group->gone +
               group->ring_size * sizeof(struct cop__agreement *) +
               group->watched.capacity * sizeof(cop_id) +
               group->spare.child_count * sizeof *group->spare.children +
               group->spare.order.capacity * sizeof(cop_rank);
        for (uint32_t j = 0; j < group->ring_size; j++)
            sum += group->ring[j] ? bytes_of(group->ring[j]) : 0;
    }
    return sum;
}
