/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a local cluster, and the process that cleans up after it: see keeper.h.
 */
#include "commands.h"
#include "keeper.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the janitor ----------------------------------------------------------------- */

/* Standard input from nowhere, output to the log of the cluster. */
static int redirect(const struct dir *dir)
{
    char path[DIR_PATH_SIZE + 8];
    snprintf(path, sizeof path, "%s/log", dir->path);
    int in = open("/dev/null", O_RDONLY);
    int out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        return -errno;
    if (in > 2)
        close(in);
    if (out > 2)
        close(out);
    return 0;
}

/* Waits for the keeper and for all members that it left behind. */
static void wait_for_all(void)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
}

static int report(int status_fd, const char *what, int error)
{
    dprintf(status_fd, "error %s: %s\n", what, strerror(error));
    return EXIT_FAILED;
}

static int run_janitor(const struct keeper_config *config, pid_t starter, int status_fd)
{
    pid_t self = getpid();
    /* The keeper follows the janitor, as always. */
    if (config->is_private &&
        (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != starter))
        return report(status_fd, "the starter", ESRCH);
    if (setsid() < 0 || chdir("/") != 0)
        return report(status_fd, "a session of its own", errno);
    int error = redirect(config->dir);
    if (error)
        return report(status_fd, config->dir->path, -error);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return report(status_fd, "PR_SET_CHILD_SUBREAPER", errno);
    (void)prctl(PR_SET_NAME, "coppice:janitor");
    pid_t keeper = fork();
    if (keeper < 0)
        return report(status_fd, "fork", errno);
    if (keeper == 0)
        exit(keeper_run(config, self, status_fd));
    close(status_fd);
    wait_for_all();
    return EXIT_DONE;
}

/* ---- `up` ------------------------------------------------------------------------ */

/* Follows the keeper's lines until it is ready or says why not. */
static int follow(FILE *lines, uint32_t n)
{
    char line[640];
    struct progress progress;
    progress_begin(&progress);
    while (fgets(line, sizeof line, lines)) {
        unsigned count;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "up %u", &count) == 1) {
            progress_show(&progress, "members up", count, n);
        } else if (strcmp(line, "ready") == 0) {
            progress_end(&progress);
            return 0;
        } else if (strncmp(line, "error ", 6) == 0) {
            progress_end(&progress);
            return fail(EXIT_FAILED, "%s", line + 6);
        }
    }
    progress_end(&progress);
    return fail(EXIT_FAILED, "the keeper ended before the members were up");
}

/* After a failure: until the janitor has cleaned up, so that nothing is left. */
static void wait_for_janitor(pid_t janitor)
{
    while (waitpid(janitor, NULL, 0) < 0 && errno == EINTR)
        ;
}

int keeper_launch(const struct keeper_config *config)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail(EXIT_FAILED, "pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t self = getpid();
    pid_t janitor = fork();
    if (janitor == 0) {
        close(ends[0]);
        int code = run_janitor(config, self, ends[1]);
        dir_remove(config->dir);
        exit(code);
    }
    int error = errno;
    close(ends[1]);
    FILE *lines = janitor > 0 ? fdopen(ends[0], "re") : NULL;
    if (lines == NULL) {
        close(ends[0]);
        dir_remove(config->dir);
        return fail(EXIT_FAILED, "fork: %s", strerror(error));
    }
    int code = follow(lines, config->n);
    fclose(lines);
    if (code)
        wait_for_janitor(janitor);
    return code;
}
