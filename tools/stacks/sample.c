/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes, and what they are doing: the part of stacks that looks at this host. */
#include "stacks/stacks.h"
#include "stacks/unwind.h"
#include "term/say.h"

#include <coppice/error.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- which ones ------------------------------------------------------------------ */

/* "12,14-16": is it there? What is not a number ends the list; the command has checked it. */
static bool is_listed(const char *list, uint32_t pid)
{
    while (*list) {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (pid >= first && pid <= last)
            return true;
        list = *end == ',' ? end + 1 : "";
    }
    return false;
}

static bool has_name(uint32_t pid, const char *name)
{
    char path[40], comm[64] = "";
    snprintf(path, sizeof path, "/proc/%u/comm", (unsigned)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool read = fgets(comm, sizeof comm, file) != NULL;
    fclose(file);
    comm[strcspn(comm, "\n")] = '\0';
    /* The kernel keeps 15 bytes of a name. */
    return read && strncmp(comm, name, 15) == 0 &&
           (strlen(name) >= 15 || strlen(comm) == strlen(name));
}

/* By any name that leads to the file. One whose file was replaced or removed since it was
 * started is found by the name that it had: the kernel puts " (deleted)" behind that. */
static bool has_exe(uint32_t pid, const char *exe)
{
    static const char deleted[] = " (deleted)";
    const size_t behind = sizeof deleted - 1;
    char path[40], target[PATH_MAX];
    struct stat running, wanted;
    snprintf(path, sizeof path, "/proc/%u/exe", (unsigned)pid);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    if ((size_t)length > behind && strcmp(target + length - behind, deleted) == 0)
        target[(size_t)length - behind] = '\0';
    if (strchr(exe, '/') && strcmp(target, exe) == 0)
        return true;
    if (strchr(exe, '/'))
        return stat(path, &running) == 0 && stat(exe, &wanted) == 0 &&
               running.st_dev == wanted.st_dev && running.st_ino == wanted.st_ino;
    const char *slash = strrchr(target, '/');
    return strcmp(slash ? slash + 1 : target, exe) == 0;
}

static bool is_wanted(const struct stack_wishes *wishes, uint32_t pid)
{
    return pid != (uint32_t)getpid() &&
           (!wishes->pids || is_listed(wishes->pids, pid)) &&
           (!wishes->name || has_name(pid, wishes->name)) &&
           (!wishes->exe || has_exe(pid, wishes->exe));
}

static int compare_pids(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

int stacks_find(const struct stack_wishes *wishes, uint32_t **pids, uint32_t *count)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    uint32_t *found = NULL, used = 0;
    int error = folder ? 0 : COP_EIO;
    while (!error && (entry = readdir(folder))) {
        uint64_t pid;
        if (parse_number(entry->d_name, 1, UINT32_MAX, &pid) != 0 ||
            !is_wanted(wishes, (uint32_t)pid))
            continue;
        uint32_t *larger = realloc(found, (used + 1) * sizeof *found);
        if (larger == NULL) {
            error = COP_ENOMEM;
            break;
        }
        found = larger;
        found[used++] = (uint32_t)pid;
    }
    if (folder)
        closedir(folder);
    if (error) {
        free(found);
        return error;
    }
    if (used)
        qsort(found, used, sizeof *found, compare_pids);
    *pids = found;
    *count = used;
    return 0;
}

/* ---- what they do ---------------------------------------------------------------- */

static void sample_all(const struct stack_wishes *wishes, const uint32_t *pids,
                       uint32_t count, int fd)
{
    FILE *out = fdopen(fd, "w");
    for (uint32_t i = 0; out && i < count; i++) {
        unwind_process((pid_t)pids[i], wishes->threads, wishes->patience_ns, out);
        fflush(out);
    }
    if (out)
        fclose(out);
}

/* All that comes; NULL if there is no memory. */
static char *read_all(int fd)
{
    size_t room = 4096, length = 0;
    char *text = malloc(room);
    while (text) {
        ssize_t got = read(fd, text + length, room - length - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t)got;
        if (length + 1 < room)
            continue;
        char *larger = realloc(text, room *= 2);
        if (larger == NULL)
            free(text);
        text = larger;
    }
    if (text)
        text[length] = '\0';
    return text;
}

/* Who was not heard of because the sampler broke. */
static char *add_crash(char *lines, const uint32_t *pids, uint32_t count, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return lines;
    size_t length = strlen(lines), more = (size_t)count * 64;
    char *larger = realloc(lines, length + more + 1);
    if (larger == NULL)
        return lines;
    for (uint32_t i = 0; i < count; i++) {
        char start[32];
        snprintf(start, sizeof start, " %u ", (unsigned)pids[i]);
        if (strstr(larger, start) == NULL)
            length += (size_t)snprintf(larger + length, 64,
                                       "M %u the unwinder failed\n", (unsigned)pids[i]);
    }
    return larger;
}

/*
 * In a process of its own: if the library that reads other people's programs trips over one,
 * that is not our end; and the kernel lets everybody go when it is over.
 */
int stacks_sample(const struct stack_wishes *wishes, const uint32_t *pids,
                  uint32_t count, char **lines)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return COP_EIO;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        sample_all(wishes, pids, count, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    char *text = child > 0 ? read_all(ends[0]) : NULL;
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (text == NULL)
        return child > 0 ? COP_ENOMEM : COP_EIO;
    *lines = add_crash(text, pids, count, status);
    return 0;
}
