/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>
#include <stdlib.h>

#include "base/map.h"
#include "tree/living.h"
#include "tree/shape.h"
#include "tree/table.h"

/*
 * Two levels: the members of a host are leaves below its leader, and the leaders form a
 * tree of another shape, the inner one. The leader of a host is its lowest rank, but
 * the root leads its own. In the inner tree hosts stand in the order of their lowest
 * ranks, rotated so that the root's host is first.
 *
 * With cop__layout.dead the dead are left out: the lowest living rank of a host leads
 * it, and a host with nobody living has no place in the inner tree. Finding which hosts
 * those are costs O(dead); without dead everything costs what the inner shape does.
 *
 * Children are listed members first, lowest rank first, so that `promote` gives a dead
 * leader's place to a member of its own host.
 */

/* ---- making one ------------------------------------------------------------------ */

/* Numbers the hosts in the order of their lowest ranks and counts them. */
static int number_hosts(const uint32_t *host_of, uint32_t n, uint32_t *number,
                        uint32_t *count)
{
    struct cop__map map;
    cop__map_init(&map);
    *count = 0;
    for (uint32_t rank = 0; rank < n; rank++) {
        const uint32_t *known = cop__map_get(&map, host_of[rank]);
        number[rank] = known != NULL ? *known : (*count)++;
        if (known == NULL &&
            cop__map_put(&map, host_of[rank], &number[rank], NULL) != 0) {
            cop__map_fini(&map);
            return COP_ENOMEM;
        }
    }
    cop__map_fini(&map);
    return 0;
}

/* Sorts the ranks by host. start[] is of n + 1, since the hosts are not counted before.
 *  */
static void group_members(struct cop_shape_table *table)
{
    uint32_t *start = table->as.hosts.start;
    for (uint32_t rank = 0; rank < table->n; rank++)
        start[table->as.hosts.host_of[rank] + 1]++;
    for (uint32_t host = 0; host < table->as.hosts.count; host++) {
        table->as.hosts.crowded |= start[host + 1] > 1;
        start[host + 1] += start[host];
    }
    /* Uses start[host] as the place for the next member, and then moves all back by
     * one. */
    for (uint32_t rank = 0; rank < table->n; rank++) {
        uint32_t slot = start[table->as.hosts.host_of[rank]]++;
        table->as.hosts.members[slot] = rank;
        table->as.hosts.slot[rank] = slot;
    }
    for (uint32_t host = table->as.hosts.count; host > 0; host--)
        start[host] = start[host - 1];
    start[0] = 0;
}

int cop_shape_from_hosts(const struct cop_shape *leaders, const uint32_t *host_of,
                         uint32_t n, struct cop_shape *out)
{
    struct cop_shape inner;
    if (n == 0 || n > COP_MEMBERS_MAX ||
        cop_shape_make(leaders->kind, leaders->k, &inner) != 0)
        return COP_EINVAL;
    struct cop_shape_table *table = cop__table_create(n, (size_t)n * 4 + 1);
    if (table == NULL)
        return COP_ENOMEM;
    table->as.hosts.host_of = table->pool;
    table->as.hosts.members = table->pool + n;
    table->as.hosts.slot = table->pool + (size_t)n * 2;
    table->as.hosts.start = table->pool + (size_t)n * 3;
    int error =
        number_hosts(host_of, n, table->as.hosts.host_of, &table->as.hosts.count);
    if (error != 0) {
        free(table);
        return error;
    }
    group_members(table);
    *out = (struct cop_shape){COP_SHAPE_HOSTS, inner.k, inner.kind, table};
    return 0;
}

/* ---- hosts and their leaders ----------------------------------------------------- */

static uint32_t host_of(const struct cop__layout *at, cop_rank rank)
{
    return at->shape->table->as.hosts.host_of[rank];
}

/* The first living member of a host from a slot on, but not `skip`; NONE if none. */
static cop_rank member_from(const struct cop__layout *at, uint32_t host, uint32_t slot,
                            cop_rank skip)
{
    const struct cop_shape_table *table = at->shape->table;
    for (; slot < table->as.hosts.start[host + 1]; slot++) {
        cop_rank rank = table->as.hosts.members[slot];
        if (rank != skip && !cop_dead_has(at->dead, rank))
            return rank;
    }
    return COP_RANK_NONE;
}

/* NONE if nobody lives there. */
static cop_rank leader_of(const struct cop__layout *at, uint32_t host)
{
    if (host == host_of(at, at->root))
        return at->root;
    return member_from(at, host, at->shape->table->as.hosts.start[host], COP_RANK_NONE);
}

static bool is_leader(const struct cop__layout *at, cop_rank rank)
{
    return leader_of(at, host_of(at, rank)) == rank;
}

static uint32_t living_members(const struct cop__layout *at, uint32_t host)
{
    const uint32_t *start = at->shape->table->as.hosts.start;
    uint32_t count = start[host + 1] - start[host];
    if (at->dead == NULL)
        return count;
    for (uint32_t slot = start[host]; slot < start[host + 1]; slot++)
        count -= cop_dead_has(at->dead, at->shape->table->as.hosts.members[slot]);
    return count;
}

/*
 * Hosts with nobody living, lowest first. Its lowest rank is then among the dead, and
 * the dead come in the order of ranks, as hosts do by their lowest.
 */
static uint32_t next_lost_host(const struct cop__layout *at,
                               struct cop__dead_walk *walk)
{
    const struct cop_shape_table *table = at->shape->table;
    for (;;) {
        cop_rank rank = cop__dead_next(walk);
        if (rank >= at->n)
            return UINT32_MAX;
        uint32_t host = host_of(at, rank);
        uint32_t start = table->as.hosts.start[host];
        if (table->as.hosts.members[start] == rank &&
            member_from(at, host, start, COP_RANK_NONE) == COP_RANK_NONE)
            return host;
    }
}

/* How many hosts below this one have somebody living. */
static uint32_t hosts_before(const struct cop__layout *at, uint32_t host)
{
    uint32_t count = host;
    struct cop__dead_walk walk = {at->dead, 0, 0};
    while (at->dead != NULL && next_lost_host(at, &walk) < host)
        count--;
    return count;
}

/* The i-th host with somebody living. */
static uint32_t select_host(const struct cop__layout *at, uint32_t i)
{
    struct cop__dead_walk walk = {at->dead, 0, 0};
    while (at->dead != NULL && next_lost_host(at, &walk) <= i)
        i++;
    return i;
}

/* ---- the inner tree -------------------------------------------------------------- */

struct inner {
    struct cop__layout layout;
    const struct cop__shape_ops *ops;
    uint32_t origin; /* number of the root's host among those with somebody living */
};

static struct inner inner_of(const struct cop__layout *at)
{
    struct inner inner = {
        .layout = {.n = hosts_before(at, at->shape->table->as.hosts.count),
                   .k = at->k,
                   .shape = at->shape},
        .ops = cop__shape_row(at->shape->inner)->ops,
        .origin = hosts_before(at, host_of(at, at->root)),
    };
    return inner;
}

static cop_rank inner_place(const struct cop__layout *at, const struct inner *inner,
                            uint32_t host)
{
    uint32_t number = hosts_before(at, host);
    return number >= inner->origin ? number - inner->origin
                                   : number + inner->layout.n - inner->origin;
}

static uint32_t host_at(const struct cop__layout *at, const struct inner *inner,
                        cop_rank place)
{
    uint32_t to_end = inner->layout.n - inner->origin;
    return select_host(at, place < to_end ? place + inner->origin : place - to_end);
}

static cop_rank leader_at(const struct cop__layout *at, const struct inner *inner,
                          cop_rank place)
{
    return place == COP_RANK_NONE ? COP_RANK_NONE
                                  : leader_of(at, host_at(at, inner, place));
}

/* ---- the tree -------------------------------------------------------------------- */

static cop_rank parent(const struct cop__layout *at, cop_rank place)
{
    uint32_t host = host_of(at, place);
    cop_rank leader = leader_of(at, host);
    if (place != leader)
        return leader;
    struct inner inner = inner_of(at);
    cop_rank mine = inner_place(at, &inner, host);
    return leader_at(at, &inner, inner.ops->parent(&inner.layout, mine));
}

static cop_rank first_leader_below(const struct cop__layout *at, cop_rank place)
{
    struct inner inner = inner_of(at);
    cop_rank mine = inner_place(at, &inner, host_of(at, place));
    return leader_at(at, &inner, inner.ops->first_child(&inner.layout, mine));
}

static cop_rank first_child(const struct cop__layout *at, cop_rank place)
{
    if (!is_leader(at, place))
        return COP_RANK_NONE;
    uint32_t host = host_of(at, place);
    cop_rank member =
        member_from(at, host, at->shape->table->as.hosts.start[host], place);
    return member != COP_RANK_NONE ? member : first_leader_below(at, place);
}

static cop_rank next_child(const struct cop__layout *at, cop_rank place, cop_rank child)
{
    uint32_t host = host_of(at, place);
    if (host_of(at, child) == host) {
        uint32_t slot = at->shape->table->as.hosts.slot[child] + 1;
        cop_rank member = member_from(at, host, slot, place);
        return member != COP_RANK_NONE ? member : first_leader_below(at, place);
    }
    struct inner inner = inner_of(at);
    cop_rank mine = inner_place(at, &inner, host);
    cop_rank last = inner_place(at, &inner, host_of(at, child));
    return leader_at(at, &inner, inner.ops->next_child(&inner.layout, mine, last));
}

static uint32_t child_count(const struct cop__layout *at, cop_rank place)
{
    if (!is_leader(at, place))
        return 0;
    uint32_t host = host_of(at, place);
    struct inner inner = inner_of(at);
    cop_rank mine = inner_place(at, &inner, host);
    return living_members(at, host) - 1 + inner.ops->child_count(&inner.layout, mine);
}

/* The living members of the hosts low .. high. */
static uint32_t living_in(const struct cop__layout *at, uint32_t low, uint32_t high)
{
    const uint32_t *start = at->shape->table->as.hosts.start;
    uint32_t count = start[high + 1] - start[low];
    if (at->dead == NULL)
        return count;
    struct cop__dead_walk walk = {at->dead, 0, 0};
    cop_rank rank;
    while ((rank = cop__dead_next(&walk)) < at->n)
        count -= host_of(at, rank) >= low && host_of(at, rank) <= high;
    return count;
}

/* A span of the inner tree may wrap from the last host to the first. */
static uint32_t size_of_span(const struct cop__layout *at, const struct inner *inner,
                             const struct cop__span *span)
{
    uint32_t low = host_at(at, inner, span->first);
    uint32_t high = host_at(at, inner, span->last);
    if (low <= high)
        return living_in(at, low, high);
    return living_in(at, low, at->shape->table->as.hosts.count - 1) +
           living_in(at, 0, high);
}

static uint32_t size(const struct cop__layout *at, cop_rank place)
{
    if (!is_leader(at, place))
        return 1;
    uint32_t size = 0;
    struct inner inner = inner_of(at);
    cop_rank mine = inner_place(at, &inner, host_of(at, place));
    struct cop__span span = {0};
    while (inner.ops->next_span(&inner.layout, mine, &span))
        size += size_of_span(at, &inner, &span);
    return size;
}

/*
 * One more level than the inner tree if there are hosts with several members. That the
 * deepest of them is such a one would cost a search, so this is a bound; exact where
 * all hosts have one member, or all have more.
 */
static uint32_t depth(const struct cop__layout *at, cop_rank place)
{
    if (!is_leader(at, place))
        return 1;
    uint32_t host = host_of(at, place);
    struct inner inner = inner_of(at);
    cop_rank mine = inner_place(at, &inner, host);
    uint32_t levels = inner.ops->depth(&inner.layout, mine);
    if (levels == 1)
        return living_members(at, host) > 1 ? 2 : 1;
    return levels + at->shape->table->as.hosts.crowded;
}

static uint32_t level(const struct cop__layout *at, cop_rank place)
{
    struct inner inner = inner_of(at);
    cop_rank mine = inner_place(at, &inner, host_of(at, place));
    return inner.ops->level(&inner.layout, mine) + !is_leader(at, place);
}

static bool is_below(const struct cop__layout *at, cop_rank place, cop_rank ancestor)
{
    if (!is_leader(at, ancestor))
        return place == ancestor;
    struct inner inner = inner_of(at);
    return inner.ops->is_below(&inner.layout,
                               inner_place(at, &inner, host_of(at, place)),
                               inner_place(at, &inner, host_of(at, ancestor)));
}

static cop_rank child_towards(const struct cop__layout *at, cop_rank ancestor,
                              cop_rank place)
{
    uint32_t from = host_of(at, ancestor);
    uint32_t to = host_of(at, place);
    if (from == to)
        return place;
    struct inner inner = inner_of(at);
    cop_rank next = inner.ops->child_towards(
        &inner.layout, inner_place(at, &inner, from), inner_place(at, &inner, to));
    return leader_at(at, &inner, next);
}

const struct cop__shape_ops cop__hosts_ops = {
    .parent = parent,
    .first_child = first_child,
    .next_child = next_child,
    .child_count = child_count,
    .size = size,
    .depth = depth,
    .level = level,
    .is_below = is_below,
    .child_towards = child_towards,
    .next_span = NULL,
};
