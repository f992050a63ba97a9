/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TOP_HOST_SAMPLE_H
#define COP_TOOLS_TOP_HOST_SAMPLE_H

#include "filter/hosts.h"

/* What a host is doing, from /proc, in integers, so that it can be folded exactly. */
#define HOST_NAME_MAX_BYTES 64
#define HOST_KEY_MAX 96
struct host_sample {
    char host[HOST_NAME_MAX_BYTES];
    /* The same for all processes that see the same machine: its boot, and the namespaces of
     * processes and of the network. Of samples with the same key one counts. */
    char key[HOST_KEY_MAX];
    uint64_t value[COP__HOST_METRICS];
};

/* Only name and key. COP_EIO. */
int host_sample_name(struct host_sample *out);
/* Takes `interval_ns`: rates need two readings. COP_EIO. */
int host_sample_take(cop_time interval_ns, struct host_sample *out);

/* Counters of the kernel at a moment. */
struct host_counters {
    uint64_t busy, all, receive, send;
    cop_time at;
};
int host_counters_read(struct host_counters *out);
/* The metrics as of now, with rates since `before`, which becomes now. COP_EIO. */
int host_sample_since(struct host_counters *before, uint64_t value[COP__HOST_METRICS]);

/* A sample as one line, and back. Something may stand before it, such as who printed it.
 * COP_ENOENT: there is none in the line; COP_EMALFORMED. */
#define HOST_LINE_MAX 512
void host_sample_print(const struct host_sample *sample, char out[HOST_LINE_MAX]);
int host_sample_parse(const char *line, struct host_sample *out);

#endif
