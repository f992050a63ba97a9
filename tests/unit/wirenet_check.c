/* SPDX-License-Identifier: Apache-2.0 */
#include "wirenet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these first */
#include <cmocka.h>

const struct wirenet_end *wirenet_end(const struct wirenet *net, cop_id id,
                                      uint64_t token)
{
    const struct wirenet_end *found = NULL;
    for (uint32_t i = 0; i < net->end_count; i++) {
        if (net->ends[i].id != id || net->ends[i].token != token)
            continue;
        if (found)
            fail_msg("request %u of node %u completed twice", (unsigned)token,
                     (unsigned)id);
        found = &net->ends[i];
    }
    return found;
}

void wirenet_result(const struct wirenet *net, cop_id id, uint64_t token,
                    struct cop_probe_result *out)
{
    const struct wirenet_end *end = wirenet_end(net, id, token);
    assert_non_null(end);
    assert_non_null(end->result);
    assert_int_equal(cop_probe_result(end->result, out), 0);
    wirenet_assert_partition(net, out);
}

bool wirenet_ranks_have(const struct cop_ranks *ranks, cop_rank rank)
{
    for (uint32_t i = 0; i < ranks->count; i++)
        if (ranks->items[i] == rank)
            return true;
    return false;
}

void wirenet_assert_partition(const struct wirenet *net,
                              const struct cop_probe_result *result)
{
    uint64_t fingerprint = 0;
    uint32_t answered = 0;
    assert_int_equal(result->members, net->n);
    for (cop_rank rank = 0; rank < net->n; rank++) {
        bool dead = wirenet_ranks_have(&result->dead, rank);
        bool silent = wirenet_ranks_have(&result->silent, rank);
        assert_false(dead && silent);
        if (dead || silent)
            continue;
        answered++;
        fingerprint += cop_probe_fingerprint(cop_view_id(net->view, rank));
    }
    assert_int_equal(result->answered, answered);
    assert_int_equal(result->dead.count + result->silent.count + answered, net->n);
    assert_true(result->fingerprint == fingerprint);
}

void wirenet_assert_result(const struct wirenet *net, cop_id id, uint64_t token,
                           uint32_t answered, uint32_t dead, uint32_t silent)
{
    struct cop_probe_result result;
    wirenet_result(net, id, token, &result);
    assert_int_equal(result.answered, answered);
    assert_int_equal(result.dead.count, dead);
    assert_int_equal(result.silent.count, silent);
    cop_probe_result_free(&result);
}

void wirenet_assert_dead(const struct wirenet *net, cop_id id, uint64_t token,
                         cop_id dead)
{
    struct cop_probe_result result;
    wirenet_result(net, id, token, &result);
    assert_true(wirenet_ranks_have(&result.dead, dead));
    cop_probe_result_free(&result);
}

void wirenet_assert_ran_once(const struct wirenet *net)
{
    for (cop_id id = 0; id < net->n; id++) {
        assert_true(net->nodes[id].asks <= 1);
        if (wirenet_lives(net, id))
            assert_int_equal(net->nodes[id].asks, 1);
    }
}

void wirenet_assert_told_once(const struct wirenet *net, cop_id initiator, int status)
{
    for (cop_id id = 0; id < net->n; id++) {
        const struct wirenet_node *node = &net->nodes[id];
        if (!wirenet_lives(net, id) || id == initiator)
            continue;
        assert_int_equal(node->outcomes, 1);
        assert_int_equal(node->outcome_status, status);
        assert_int_equal(node->outcome_length > 0, status == 0);
    }
}

void wirenet_assert_nothing_kept(const struct wirenet *net)
{
    for (cop_id id = 0; id < net->n; id++)
        if (wirenet_lives(net, id))
            assert_int_equal(cop_node_sweeps(net->nodes[id].node), 0);
}
