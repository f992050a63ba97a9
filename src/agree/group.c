/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include "base/rankset.h"
#include "tree/shape.h"
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

/* Groups: who is in them, who of those is gone, and the ring of agreements. */

/* ---- agreed failures ------------------------------------------------------------- */

struct cop__failed *cop__failed_ref(struct cop__failed *failed)
{
    if (failed)
        failed->refs++;
    return failed;
}

void cop__failed_unref(struct cop__failed *failed)
{
    if (!failed || --failed->refs > 0)
        return;
    cop_buf_unref(failed->ids);
    free(failed);
}

bool cop__failed_has(const struct cop__failed *failed, cop_rank rank)
{
    struct cop_dead dead = {0};
    if (!failed)
        return false;
    dead.extra = failed->ranks;
    dead.extra_count = failed->count;
    return cop_dead_has(&dead, rank);
}

struct cop__failed *cop__failed_add(struct cop__failed *base, struct cop__list ranks)
{
    uint32_t old = base ? base->count : 0;
    if (base && ranks.count == 0)
        return cop__failed_ref(base);
    struct cop__failed *sum =
        malloc(sizeof *sum + (size_t)(old + ranks.count) * sizeof(cop_rank));
    if (!sum)
        return NULL;
    sum->refs = 1;
    sum->count = 0;
    sum->covers = 0;
    sum->ids = NULL;
    uint32_t i = 0, j = 0;
    while (i < old || j < ranks.count) {
        cop_rank a = i < old ? base->ranks[i] : COP_RANK_NONE;
        cop_rank b = j < ranks.count ? cop__listed_rank(ranks, j) : COP_RANK_NONE;
        sum->ranks[sum->count++] = a < b ? a : b;
        i += a <= b;
        j += b <= a;
    }
    return sum;
}

/* ---- finding --------------------------------------------------------------------- */

static uint32_t place_of(const struct cop__agree *agree, uint64_t number)
{
    uint32_t low = 0, high = agree->group_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (agree->groups[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct cop__agree_group *cop__agree_group_find(const struct cop_node *node,
                                               uint64_t number)
{
    const struct cop__agree *agree = cop__agree(node);
    uint32_t at = place_of(agree, number);
    return at < agree->group_count && agree->groups[at]->number == number
               ? agree->groups[at]
               : NULL;
}

/* ---- making ---------------------------------------------------------------------- */

static int choose_shape(const struct cop_node *node,
                        const struct cop_agree_group *options,
                        struct cop__agree_group *group)
{
    group->shape = options->shape.kind ? options->shape : *cop_view_shape(node->view);
    if (group->algorithm == COP_AGREE_LINEAR)
        group->shape = (struct cop_shape){.kind = COP_SHAPE_FLAT};
    struct cop_tree tree = {.shape = group->shape, .n = group->count};
    return cop_tree_check(&tree);
}

static uint64_t digest_of(const struct cop__agree_group *group)
{
    struct cop__digest digest;
    cop__digest_init(&digest);
    cop__agree_group_digest(group, &digest);
    cop__digest_word(&digest, (uint64_t)group->shape.kind << 32 | group->shape.k);
    cop__digest_word(&digest, (uint64_t)group->algorithm << 32 | group->window);
    cop__digest_word(&digest,
                     (uint64_t)group->keep_tree << 1 | (uint64_t)group->promote);
    return cop__digest_value(&digest);
}

static int fill(struct cop_node *node, const struct cop_agree_group *options,
                struct cop__agree_group *group)
{
    group->number = options->number;
    group->algorithm = options->algorithm;
    group->window = options->window ? options->window : 1;
    group->keep_tree = options->keep_tree;
    group->promote = options->promote;
    if ((unsigned)group->algorithm >= COP_ALGORITHMS ||
        group->window > COP_AGREE_WINDOW_MAX)
        return COP_EINVAL;
    int error = cop__agree_group_read(node, options, group);
    if (!error)
        error = choose_shape(node, options, group);
    if (error)
        return error;
    group->ahead = COP__AHEAD_WINDOWS * group->window;
    group->ring_size = 2 * group->ahead;
    if (cop__agree_group_is_two_phase(group))
        group->ahead += group->count * group->window;
    group->oldest = 1;
    group->ring = calloc(group->ring_size, sizeof(struct cop__agreement *));
    if (!group->ring)
        return COP_ENOMEM;
    cop_shape_ref(&group->shape);
    group->digest = digest_of(group);
    group->surveys = 1;
    cop__agree_group_survey(node, group);
    return 0;
}

static void free_empty(struct cop__agree_group *group)
{
    cop__spare_free(&group->spare);
    free(group->spans);
    free(group->gone);
    free(group->ring);
    free(group);
}

static int insert(struct cop_node *node, struct cop__agree_group *group)
{
    struct cop__agree *agree = cop__agree(node);
    if (agree->group_count == agree->group_capacity) {
        uint32_t capacity = agree->group_capacity ? 2 * agree->group_capacity : 2;
        void *grown =
            realloc(agree->groups, capacity * sizeof(struct cop__agree_group *));
        if (!grown)
            return COP_ENOMEM;
        agree->groups = grown;
        agree->group_capacity = capacity;
    }
    uint32_t at = place_of(agree, group->number);
    memmove(agree->groups + at + 1, agree->groups + at,
            (agree->group_count - at) * sizeof(struct cop__agree_group *));
    agree->groups[at] = group;
    agree->group_count++;
    return 0;
}

int cop__agree_group_create(struct cop_node *node,
                            const struct cop_agree_group *options)
{
    if (cop__agree_group_find(node, options->number) ||
        cop__agree_is_over(cop__agree(node), options->number))
        return COP_EEXIST;
    struct cop__agree_group *group = calloc(1, sizeof *group);
    if (!group)
        return COP_ENOMEM;
    int error = fill(node, options, group);
    if (error) {
        free_empty(group);
        return error;
    }
    error = insert(node, group);
    if (error) {
        cop_shape_unref(&group->shape);
        free_empty(group);
    }
    return error;
}

static void free_agreement(struct cop_node *node, struct cop__agreement *agreement)
{
    if (!agreement)
        return;
    cop__timer_cancel(node, &agreement->timer);
    cop__agreement_shrink(agreement);
    cop__failed_unref(agreement->base);
    cop__failed_unref(agreement->failed);
    cop_buf_unref(agreement->decision);
    free(agreement);
}

void cop__agree_group_free(struct cop_node *node, struct cop__agree_group *group)
{
    for (uint32_t i = 0; i < group->ring_size; i++)
        free_agreement(node, group->ring[i]);
    cop_ranks_free(&group->watched);
    cop_shape_unref(&group->shape);
    free_empty(group);
}

/* ---- who is gone ----------------------------------------------------------------- */

static bool is_same(const struct cop__agree_group *group, const struct cop__gone *gone,
                    uint32_t count)
{
    if (count != group->gone_count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (gone[i].at != group->gone[i].at || gone[i].epoch != group->gone[i].epoch)
            return false;
    return true;
}

static void unwatch_gone(struct cop_node *node, struct cop__agree_group *group)
{
    for (uint32_t i = 0; i < group->gone_count; i++) {
        cop_id id = cop__agree_group_life(group, group->gone[i].at).id;
        if (!cop__rankset_has(&group->watched, id))
            continue;
        cop__rankset_drop(&group->watched, id);
        cop__unwatch(node, id);
    }
}

/* A function of the view alone, so that all who have the same view have the same list: the
 * epoch is that of the last change of a place, also if somebody lives there again. */
bool cop__agree_group_survey(struct cop_node *node, struct cop__agree_group *group)
{
    uint32_t changes = cop_view_changes(node->view), count = 0;
    struct cop__gone *gone = changes ? malloc(changes * sizeof *gone) : NULL;
    if (changes && !gone) {
        cop__fail(node, COP_ENOMEM);
        return false;
    }
    for (uint32_t i = 0; i < changes; i++) {
        const struct cop__entry *entry = cop__view_change(node->view, i);
        cop_rank rank = cop__agree_group_rank_of(group, entry->id);
        if (rank == COP_RANK_NONE ||
            cop_view_has(node->view, entry->id,
                         cop__agree_group_life(group, rank).incarnation))
            continue;
        gone[count++] = (struct cop__gone){rank, entry->since};
    }
    if (is_same(group, gone, count)) {
        free(gone);
        return false;
    }
    free(group->gone);
    group->gone = gone;
    group->gone_count = count;
    group->surveys++;
    unwatch_gone(node, group);
    return true;
}

void cop__agree_group_watch(struct cop_node *node, struct cop__agree_group *group,
                            cop_rank rank)
{
    cop_id id = cop__agree_group_life(group, rank).id;
    if (cop__rankset_has(&group->watched, id))
        return;
    if (cop__rankset_put(&group->watched, id))
        cop__fail(node, COP_ENOMEM);
    else
        cop__watch(node, id);
}

/* ---- the ring -------------------------------------------------------------------- */

struct cop__agreement *cop__agree_group_at(const struct cop__agree_group *group,
                                           uint64_t number)
{
    struct cop__agreement *agreement = group->ring[number % group->ring_size];
    return agreement && agreement->number == number ? agreement : NULL;
}

bool cop__agree_group_may_open(const struct cop__agree_group *group, uint64_t number)
{
    return number >= group->oldest && number < group->called + group->ahead;
}

void cop__agree_group_settle(struct cop_node *node, struct cop__agree_group *group,
                             uint64_t number)
{
    if (number <= group->settled)
        return;
    group->settled = number;
    for (; group->oldest + group->window <= number; group->oldest++) {
        struct cop__agreement **slot = &group->ring[group->oldest % group->ring_size];
        free_agreement(node, *slot);
        *slot = NULL;
    }
}

/* G9: the tree is that of those who were not agreed to have failed a window ago. */
static bool find_base(struct cop__agree_group *group, uint64_t number,
                      struct cop__failed **base)
{
    *base = NULL;
    if (number <= group->window)
        return true;
    const struct cop__agreement *before =
        cop__agree_group_at(group, number - group->window);
    if (!before || !before->decision)
        return false;
    if (group->algorithm != COP_AGREE_ALLREDUCE)
        *base = cop__failed_ref(before->failed);
    return true;
}

/* Whether the tree is laid anew over those who are left. */
static bool is_dense(const struct cop__agree_group *group)
{
    return !group->keep_tree &&
           cop__shape_row(group->shape.kind)->rebalance == COP__REBALANCE_DENSE;
}

/* By doubling: numbers that have different slots keep different slots. */
static int grow_ring(struct cop__agree_group *group)
{
    uint32_t size = 2 * group->ring_size;
    struct cop__agreement **ring = calloc(size, sizeof(struct cop__agreement *));
    if (!ring)
        return COP_ENOMEM;
    for (uint32_t i = 0; i < group->ring_size; i++)
        if (group->ring[i])
            ring[group->ring[i]->number % size] = group->ring[i];
    free(group->ring);
    group->ring = ring;
    group->ring_size = size;
    return 0;
}

/* The slot of a number, which is empty or has it; NULL: another one is there. Those that are
 * kept are less than twice `ahead` apart (G12), and in most groups much less. */
static struct cop__agreement **slot_of(struct cop_node *node,
                                       struct cop__agree_group *group, uint64_t number)
{
    for (;;) {
        struct cop__agreement **slot = &group->ring[number % group->ring_size];
        if (!*slot || (*slot)->number == number)
            return slot;
        if (group->ring_size >= 2 * group->ahead)
            return NULL;
        if (grow_ring(group)) {
            cop__fail(node, COP_ENOMEM);
            return NULL;
        }
    }
}

struct cop__agreement *cop__agree_group_open(struct cop_node *node,
                                             struct cop__agree_group *group,
                                             uint64_t number)
{
    struct cop__failed *base;
    struct cop__agreement **slot = slot_of(node, group, number);
    if (!slot || *slot)
        return slot ? *slot : NULL;
    if (!find_base(group, number, &base))
        return NULL;
    struct cop__agreement *agreement = calloc(1, sizeof *agreement);
    if (!agreement) {
        cop__failed_unref(base);
        cop__fail(node, COP_ENOMEM);
        return NULL;
    }
    *slot = agreement;
    agreement->group = group;
    agreement->number = number;
    agreement->base = base;
    agreement->dense = is_dense(group);
    agreement->parent = COP_RANK_NONE;
    cop__timer_init(&agreement->timer.timer);
    return agreement;
}

void cop__agreement_shrink(struct cop__agreement *agreement)
{
    cop__agreement_leave_layout(agreement);
    for (uint32_t i = 0; i < agreement->child_count; i++) {
        cop__share_free(&agreement->children[i].share);
        cop_buf_unref(agreement->children[i].lock);
    }
    cop__share_free(&agreement->own);
    free(agreement->children);
    free(agreement->lost);
    free(agreement->empty_places);
    free(agreement->asked);
    cop_ranks_free(&agreement->order);
    cop_buf_unref(agreement->lock);
    agreement->children = NULL;
    agreement->lost = NULL;
    agreement->empty_places = NULL;
    agreement->asked = NULL;
    agreement->lock = NULL;
    agreement->order = (struct cop_ranks){0};
    agreement->child_count = agreement->lost_count = agreement->asked_count = 0;
    agreement->first_open = 0;
    agreement->empty_count = 0;
}
