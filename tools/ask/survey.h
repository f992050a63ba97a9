/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_ASK_SURVEY_H
#define COP_TOOLS_ASK_SURVEY_H

#include "ask/asker.h"
#include "cluster/local.h"

/*
 * Questions to everybody, asked of one agent and summed up: what `probe` and `bcast` have in
 * common.
 */
struct survey {
    const char *command; /* whose messages these are: "probe" */
    const char *schema;
    const char *name, *from, *agent; /* the cluster, and who asks; may be NULL */
    bool as_json, histogram;
    struct probe_command questions;
    bool is_bcast;
    struct cop__bytes payload; /* of broadcasts */
};

/* Asks and prints. An exit code, after one line if it failed. */
int survey_run(const struct survey *survey);

/*
 * Who does not answer one probe of this agent: folded names, or ids without `cluster`; with those
 * who cannot answer past such a one. For a command that has waited for something in vain. NULL:
 * nobody, or it could not be found out.
 */
char *survey_silent(struct client *client, const struct cluster *cluster,
                    cop_time timeout_ns);

#endif
