/* SPDX-License-Identifier: Apache-2.0 */
#include "talk/procfs.h"

#include <inttypes.h>
#include <stdio.h>

static bool read_memory(uint32_t pid, struct process_use *use)
{
    char path[40], line[160];
    unsigned found = 0;
    uint64_t kib;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/status", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (found < 2 && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %" SCNu64 " kB", &kib) == 1) {
            use->private_bytes = kib * 1024;
            found++;
        } else if (sscanf(line, "VmRSS: %" SCNu64 " kB", &kib) == 1) {
            use->resident_bytes = kib * 1024;
            found++;
        }
    fclose(file);
    return found == 2;
}

/*
 * A process that was forked shares pages with the one that it came from until it writes to
 * them; RssAnon counts these as well. Who may not look this closely has that.
 */
static void read_private(uint32_t pid, struct process_use *use)
{
    char path[40], line[160];
    uint64_t kib;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/smaps_rollup", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Dirty: %" SCNu64 " kB", &kib) == 1)
            use->private_bytes = kib * 1024;
    fclose(file);
}

/*
 * From schedstat, which counts nanoseconds: stat counts ticks of 10 ms, by sampling,
 * which is more than an idle process uses in a minute.
 */
static bool read_cpu(uint32_t pid, struct process_use *use)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/schedstat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool good = fscanf(file, "%" SCNu64, &use->cpu_ns) == 1;
    fclose(file);
    return good;
}

bool process_use(uint32_t pid, struct process_use *out)
{
    struct process_use use = {0};
    if (!read_memory(pid, &use) || !read_cpu(pid, &use))
        return false;
    read_private(pid, &use);
    *out = use;
    return true;
}
