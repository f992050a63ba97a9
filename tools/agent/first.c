/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/first.h"

#include "term/commands.h"
#include "term/say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 96u

static void describe(const struct cluster *cluster, char out[LINE_SIZE])
{
    size_t used = 0;
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(out + used, LINE_SIZE - used, "%02x", cluster->id[i]);
    snprintf(out + used, LINE_SIZE - used, " %" PRIu64 "\n", cluster->instance);
}

/* In one step, and on the disk when this returns. */
static int write_line(const char *directory, const char *path, const char *line)
{
    char next[PATH_MAX + 16];
    snprintf(next, sizeof next, "%s.new", path);
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write(fd, line, strlen(line)) == (ssize_t)strlen(line) &&
                fsync(fd) == 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (good && rename(next, path) != 0) {
        error = errno;
        good = false;
    }
    int above = good ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (good && (above < 0 || fsync(above) != 0)) {
        error = errno;
        good = false;
    }
    if (above >= 0)
        close(above);
    return good ? 0 : fail(EXIT_FAILED, "%s: %s", path, strerror(error));
}

int first_start(const char *directory, const struct cluster *cluster, bool *is_first)
{
    char path[PATH_MAX], was[LINE_SIZE] = "", line[LINE_SIZE];
    snprintf(path, sizeof path, "%s/started", directory);
    describe(cluster, line);
    FILE *file = fopen(path, "re");
    if (file == NULL && errno != ENOENT)
        return fail(EXIT_FAILED, "%s: %s", path, strerror(errno));
    if (file != NULL) {
        if (fgets(was, sizeof was, file) == NULL)
            was[0] = '\0';
        fclose(file);
    }
    *is_first = strcmp(was, line) != 0;
    return *is_first ? write_line(directory, path, line) : 0;
}
