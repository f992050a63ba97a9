/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/torus.h"
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

/*
 * Models of the network: when is something that leaves src now at dst? All in integers.
 * Every model but for jitter and recorded times keeps the order of a pair by itself; the
 * caller sees to it for all.
 */
struct cop__net {
    uint32_t dims[3];
    uint32_t *place;   /* TORUS, shuffled: position of a rank; else NULL */
    cop_time *outputs; /* SWITCH: until when the output port of a rank is busy */
    cop_time *uplinks; /* SWITCH: and that of a switch to the others */
};

/* ---- making ---------------------------------------------------------------------- */

/* Fisher and Yates, from the seed. */
static uint32_t *shuffled(const struct cop_sim *sim)
{
    uint32_t n = sim->config.nodes;
    uint32_t *place = malloc(n * sizeof(*place));
    if (!place)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        place[i] = i;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = (uint32_t)cop_sim_draw(sim, COP__PLACE_SHUFFLE, i, 0, i + 1);
        uint32_t other = place[j];
        place[j] = place[i];
        place[i] = other;
    }
    return place;
}

static int make_torus(const struct cop_sim *sim, struct cop__net *net)
{
    const uint32_t *dims = sim->config.net.dims;
    uint32_t n = sim->config.nodes;
    if (dims[0] == 0 && dims[1] == 0 && dims[2] == 0)
        cop__torus_near_cube(n, net->dims);
    else if (cop__torus_holds(dims, n))
        memcpy(net->dims, dims, sizeof(net->dims));
    else
        return COP_EINVAL;
    if (!sim->config.net.shuffle)
        return 0;
    net->place = shuffled(sim);
    return net->place ? 0 : COP_ENOMEM;
}

static int make_switch(const struct cop_sim *sim, struct cop__net *net)
{
    uint32_t n = sim->config.nodes;
    net->outputs = calloc(n, sizeof(*net->outputs));
    net->uplinks = calloc(n, sizeof(*net->uplinks));
    return net->outputs && net->uplinks ? 0 : COP_ENOMEM;
}

int cop__net_create(const struct cop_sim *sim, struct cop__net **out)
{
    struct cop__net *net = calloc(1, sizeof(*net));
    if (!net)
        return COP_ENOMEM;
    int error = 0;
    if (sim->config.net.kind == COP_SIM_NET_TORUS)
        error = make_torus(sim, net);
    else if (sim->config.net.kind == COP_SIM_NET_SWITCH)
        error = make_switch(sim, net);
    else if (sim->config.net.kind == COP_SIM_NET_RECORDED)
        error = sim->config.net.table_count > 0 ? 0 : COP_EINVAL;
    if (error) {
        cop__net_destroy(net);
        return error;
    }
    *out = net;
    return 0;
}

void cop__net_destroy(struct cop__net *net)
{
    if (!net)
        return;
    free(net->place);
    free(net->outputs);
    free(net->uplinks);
    free(net);
}

/* ---- models ---------------------------------------------------------------------- */

static cop_time later(cop_time a, cop_time b) { return a > b ? a : b; }

/* Time on the wire of all bytes but the first. */
static cop_time stretch(const struct cop_sim_net *net, uint32_t bytes)
{
    return bytes > 1 ? (bytes - 1) * net->byte_ps / 1000 : 0;
}

/*
 * LogGP: the sender spends o, the bytes follow one another every G, the wire takes L, the
 * receiver spends o. The next frame of the sender starts g later at the earliest, and not
 * before the bytes of this one have left.
 */
static cop_time loggp(struct cop_sim *sim, cop_id src, uint32_t bytes, cop_time depart)
{
    const struct cop_sim_net *net = &sim->config.net;
    struct cop__sim_node *node = &sim->nodes[src];
    cop_time start = later(depart, node->port);
    cop_time out = start + net->overhead_ns + stretch(net, bytes);
    node->port = later(out, start + net->gap_ns);
    return out + net->latency_ns + net->overhead_ns;
}

static uint32_t hops(const struct cop_sim *sim, cop_id src, cop_id dst)
{
    const struct cop__net *net = sim->net;
    return cop__torus_hops(net->dims, net->place ? net->place[src] : src,
                           net->place ? net->place[dst] : dst);
}

static cop_time queue_at(cop_time *port, cop_time arrival, cop_time service)
{
    *port = later(*port, arrival) + service;
    return *port;
}

/* Frames to one receiver share its port; frames that leave a switch share its uplink. */
static cop_time through_switch(struct cop_sim *sim, cop_id src, cop_id dst,
                               uint32_t bytes, cop_time depart)
{
    const struct cop_sim_net *net = &sim->config.net;
    cop_time service = net->service_ns + stretch(net, bytes);
    cop_time at = depart + net->latency_ns;
    if (net->ports > 0 && src / net->ports != dst / net->ports)
        at = queue_at(&sim->net->uplinks[src / net->ports], at, service) +
             net->latency_ns;
    return queue_at(&sim->net->outputs[dst], at, service);
}

static cop_time recorded(const struct cop_sim *sim, cop_id src, cop_id dst)
{
    const struct cop_sim_net *net = &sim->config.net;
    uint64_t pair = (uint64_t)src << 32 | dst;
    return net->table[cop_sim_draw(sim, COP__PLACE_RECORDED, pair,
                                   sim->nodes[src].sends, net->table_count)];
}

static cop_time model_arrival(struct cop_sim *sim, cop_id src, cop_id dst,
                              uint32_t bytes, cop_time depart)
{
    const struct cop_sim_net *net = &sim->config.net;
    switch (net->kind) {
    case COP_SIM_NET_LOGGP:
        return loggp(sim, src, bytes, depart);
    case COP_SIM_NET_TORUS:
        return depart + net->latency_ns + hops(sim, src, dst) * net->hop_ns;
    case COP_SIM_NET_SWITCH:
        return through_switch(sim, src, dst, bytes, depart);
    case COP_SIM_NET_RECORDED:
        return depart + recorded(sim, src, dst);
    case COP_SIM_NET_CONSTANT:
        break;
    }
    return depart + net->latency_ns;
}

cop_time cop__net_arrival(struct cop_sim *sim, cop_id src, cop_id dst, uint32_t bytes,
                          cop_time depart)
{
    cop_time at = model_arrival(sim, src, dst, bytes, depart);
    cop_time jitter = sim->config.net.jitter_ns;
    if (jitter > 0) {
        uint64_t pair = (uint64_t)src << 32 | dst;
        at += cop_sim_draw(sim, COP__PLACE_JITTER, pair, sim->nodes[src].sends,
                           jitter + 1);
    }
    return at;
}
