/* SPDX-License-Identifier: Apache-2.0 */
#include "model/bcast.h"
#include "simulate/heap.h"

#include <coppice/error.h>
#include <coppice/sim.h>
#include <inttypes.h>
#include <stdio.h>

/* Up to this the checkers look on; they would take most of the time of a large one. */
#define CHECKED_NODES 4096u
/* What a node in a sweep takes, with what the simulator keeps of it. */
#define NODE_BYTES 1536u

static int make_script(const struct cop_shape *shape, uint32_t n, cop_time o_ns,
                       cop_time l_ns, cop_time timeout_ns, struct cop_sim_script *out)
{
    char text[400], printed[32], message[200];
    cop_shape_print(shape, printed, sizeof printed);
    snprintf(text, sizeof text,
             "nodes %" PRIu32 "\nshape %s\nseed 1\nflags quiet\n"
             "net loggp %" PRIu64 "ns 0ns %" PRIu64 "ns 0\nuntil-complete\n"
             "at 0ns bcast 0 timeout %" PRIu64 "ns prompt\n",
             n, printed, l_ns, o_ns, timeout_ns);
    int error = cop_sim_script_parse(text, out, message, sizeof message);
    if (error == 0 && n > CHECKED_NODES)
        out->config.flags &= ~(uint32_t)COP_SIM_CHECK;
    return error;
}

int model_bcast_simulate(const struct cop_shape *shape, uint32_t n, cop_time o_ns,
                         cop_time l_ns, cop_time *last_ns)
{
    struct model_bcast model;
    struct cop_sim_script script;
    struct cop_sim_report report;
    int error = model_bcast(shape, n, o_ns, l_ns, &model);
    /* Time enough: the way back is as long, and every level keeps a share for it. */
    if (error == 0)
        error =
            make_script(shape, n, o_ns, l_ns, COP_SEC + 16 * model.last_ns, &script);
    if (error)
        return error;
    heap_expect((size_t)n * NODE_BYTES);
    error = cop_sim_script_run(&script, &report);
    cop_sim_script_free(&script);
    if (error)
        return error;
    if (report.failure[0] || report.answered != n)
        return COP_EIO;
    *last_ns = report.told_ns;
    return 0;
}
