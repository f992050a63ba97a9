/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TALK_PROCFS_H
#define COP_TOOLS_TALK_PROCFS_H

#include <coppice/types.h>

/* What the kernel says about a process. */
struct process_use {
    uint64_t private_bytes;  /* RssAnon: memory that nobody shares */
    uint64_t resident_bytes; /* VmRSS */
    cop_time cpu_ns;         /* user and system, since its start */
};

/* False if there is no such process any more. */
bool process_use(uint32_t pid, struct process_use *out);

#endif
