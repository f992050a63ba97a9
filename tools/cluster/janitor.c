/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a local cluster, and the process that cleans up after it: see keeper.h.
 */
#include "cluster/keeper.h"
#include "term/commands.h"
#include "term/say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
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

/*
 * Signals are as they were before `up` held them. What a terminal sent to all of its
 * processes was meant for `up`, which tells the keeper.
 */
static void release_signals(const sigset_t *before)
{
    const struct timespec at_once = {0};
    sigset_t terminal;
    sigemptyset(&terminal);
    sigaddset(&terminal, SIGINT);
    sigaddset(&terminal, SIGHUP);
    while (sigtimedwait(&terminal, NULL, &at_once) > 0)
        ;
    sigprocmask(SIG_SETMASK, before, NULL);
}

static int run_janitor(const struct keeper_config *config, pid_t starter, int status_fd,
                       const sigset_t *before)
{
    pid_t self = getpid();
    /* The keeper follows the janitor, as always. */
    if (config->is_private &&
        (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != starter))
        return report(status_fd, "the starter", ESRCH);
    if (setsid() < 0 || chdir("/") != 0)
        return report(status_fd, "a session of its own", errno);
    release_signals(before);
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

/* `up` while it waits: the keeper's lines, and what would interrupt it. */
struct wait {
    int lines_fd;   /* each line is one packet */
    int signals_fd; /* these are blocked */
    sigset_t before;
};

/*
 * Nothing that ends `up` may come between the keeper's word and ours, so signals are asked for
 * where they can be answered.
 */
static int hold_signals(struct wait *wait)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    sigset_t held;
    sigemptyset(&held);
    /* One that is ignored, as by nohup, would no longer be: what is blocked is kept. */
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (sigaction(wanted[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&held, wanted[i]);
    if (sigprocmask(SIG_BLOCK, &held, &wait->before) != 0)
        return -errno;
    wait->signals_fd = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK);
    return wait->signals_fd < 0 ? -errno : 0;
}

static bool is_interrupted(const struct wait *wait)
{
    struct signalfd_siginfo info;
    return read(wait->signals_fd, &info, sizeof info) == (ssize_t)sizeof info;
}

/* The next line; its length, 0 when the keeper is gone, -1 when we are interrupted. */
static ssize_t next_line(const struct wait *wait, char *line, size_t size)
{
    struct pollfd both[] = {{.fd = wait->signals_fd, .events = POLLIN},
                            {.fd = wait->lines_fd, .events = POLLIN}};
    while (poll(both, 2, -1) < 0 && errno == EINTR)
        ;
    if (is_interrupted(wait))
        return -1;
    ssize_t got = recv(wait->lines_fd, line, size - 1, 0);
    line[got > 0 ? got : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return got > 0 ? got : 0;
}

/*
 * The cluster stays from here on, or the keeper ends it because nobody has said this. False:
 * it has ended already, and its last line says why. For a cluster that is to stay the signals
 * are held for good: it is too late for them, and all that is left to do is to say that it is
 * up.
 */
static bool confirm(const struct wait *wait)
{
    return send(wait->lines_fd, KEEPER_WANTED, sizeof KEEPER_WANTED, MSG_NOSIGNAL) > 0;
}

/* Follows the keeper's lines until it is ready or says why not. */
static int follow(const struct wait *wait, uint32_t n)
{
    char line[640];
    struct progress progress;
    ssize_t got;
    progress_begin(&progress);
    while ((got = next_line(wait, line, sizeof line)) > 0) {
        unsigned count;
        if (sscanf(line, "up %u", &count) == 1)
            progress_show(&progress, "members up", count, n);
        else if (strncmp(line, "error ", 6) == 0)
            break;
        else if (strcmp(line, "ready") == 0 && confirm(wait))
            break;
    }
    progress_end(&progress);
    if (got < 0)
        return EXIT_CANCELLED;
    if (got == 0)
        return fail(EXIT_FAILED, "the keeper ended before the members were up");
    return line[0] == 'r' ? 0 : fail(EXIT_FAILED, "%s", line + 6);
}

/* After a failure: until the janitor has cleaned up, so that nothing is left. */
static void wait_for_janitor(pid_t janitor)
{
    while (waitpid(janitor, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* The janitor's life, in the process that was forked for it. */
static int be_janitor(const struct keeper_config *config, pid_t starter, int status_fd,
                      const struct wait *wait)
{
    close(wait->lines_fd);
    close(wait->signals_fd);
    int code = run_janitor(config, starter, status_fd, &wait->before);
    dir_remove(config->dir);
    return code;
}

/* What `up` does until the cluster is there, or nothing of it is left. */
static int see_through(const struct keeper_config *config, pid_t janitor,
                       const struct wait *wait)
{
    int code = follow(wait, config->n);
    close(wait->lines_fd);
    close(wait->signals_fd);
    if (code || config->is_private)
        sigprocmask(SIG_SETMASK, &wait->before, NULL);
    if (code)
        wait_for_janitor(janitor);
    return code == EXIT_CANCELLED
               ? fail(code, "interrupted: what was started of '%s' is stopped",
                      config->dir->name)
               : code;
}

int keeper_launch(const struct keeper_config *config)
{
    struct wait wait;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return fail(EXIT_FAILED, "socketpair: %s", strerror(errno));
    wait.lines_fd = ends[0];
    int error = hold_signals(&wait);
    fflush(NULL);
    pid_t self = getpid();
    pid_t janitor = error ? -1 : fork();
    if (janitor == 0)
        exit(be_janitor(config, self, ends[1], &wait));
    if (janitor < 0 && !error)
        error = -errno;
    close(ends[1]);
    if (!error)
        return see_through(config, janitor, &wait);
    close(ends[0]);
    dir_remove(config->dir);
    return fail(EXIT_FAILED, "fork: %s", strerror(-error));
}
