/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/bulk.h"

/*
 * Where the bulk of a call goes: along the sweep if it heals, and otherwise along the tree of
 * its group, which stays as it is.
 */

/* Calls that heal are numbered by sweeps, the others by themselves. */
#define NUMBER_PLAIN (UINT64_C(1) << 63)

const struct cop_tree *cop__bulk_tree(const struct cop__bulk *bulk)
{
    const struct cop__call *call = bulk->call;
    return call->sweep ? cop__sweep_tree(call->sweep) : &call->tree;
}

cop_rank cop__bulk_self(const struct cop__bulk *bulk)
{
    const struct cop__call *call = bulk->call;
    return call->sweep ? cop__sweep_self(call->sweep) : call->self;
}

cop_rank cop__bulk_place_of(const struct cop__bulk *bulk, cop_id id)
{
    const struct cop__call *call = bulk->call;
    return call->sweep ? cop__sweep_place_of(call->sweep, id)
                       : cop__roll_rank(call->group->roll, id);
}

cop_id cop__bulk_id(const struct cop__bulk *bulk, cop_rank rank)
{
    const struct cop__call *call = bulk->call;
    return call->sweep ? cop__sweep_id(call->sweep, rank)
                       : call->group->roll->ids[rank];
}

bool cop__bulk_is_lost(const struct cop_node *node, const struct cop__bulk *bulk,
                       cop_rank rank)
{
    const struct cop__call *call = bulk->call;
    if (call->sweep)
        return cop__sweep_is_lost(node, call->sweep, rank);
    return !cop__plain_owes(call, cop__bulk_id(bulk, rank));
}

cop_id cop__bulk_asker(const struct cop__bulk *bulk)
{
    const struct cop__call *call = bulk->call;
    return call->sweep ? cop__sweep_asker(call->sweep) : call->parent;
}

uint64_t cop__bulk_number(const struct cop__call *call)
{
    return call->sweep ? cop__sweep_sequence(call->sweep) : call->number | NUMBER_PLAIN;
}
