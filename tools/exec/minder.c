/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/minder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A group that begins is its number, one that has ended the negative of it. */
struct list {
    pid_t groups[MINDER_GROUPS_MAX];
    uint32_t count;
};

static void note(struct list *list, int32_t number)
{
    if (number > 0 && list->count < MINDER_GROUPS_MAX) {
        list->groups[list->count++] = number;
        return;
    }
    for (uint32_t i = 0; i < list->count; i++)
        if (list->groups[i] == -number) {
            list->groups[i] = list->groups[--list->count];
            return;
        }
}

/* Its whole life. Nobody else has the other end of the pipe, so its end is the agent's. */
static void watch(int fd)
{
    struct list list = {.count = 0};
    int32_t number;
    ssize_t got;
    do {
        got = read(fd, &number, sizeof number);
        if (got == (ssize_t)sizeof number)
            note(&list, number);
    } while (got > 0 || (got < 0 && errno == EINTR));
    for (uint32_t i = 0; i < list.count; i++)
        kill(-list.groups[i], SIGKILL);
}

/* It must not be hit by what is meant for the agent, nor keep anything of it open. */
static void become(int fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    (void)prctl(PR_SET_NAME, "coppice:minder");
    if (dup2(fd, 0) < 0 || close_range(1, ~0u, 0) != 0)
        _exit(1);
    watch(0);
    _exit(0);
}

int minder_start(struct minder *minder)
{
    int fds[2];
    if (minder->fd >= 0)
        return 0;
    if (pipe2(fds, O_CLOEXEC) != 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[1]);
        become(fds[0]);
    }
    int error = -errno;
    close(fds[0]);
    if (pid < 0) {
        close(fds[1]);
        return error;
    }
    minder->fd = fds[1];
    minder->pid = pid;
    return 0;
}

static int say(const struct minder *minder, int32_t number)
{
    ssize_t sent;
    do
        sent = write(minder->fd, &number, sizeof number);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof number ? 0 : -EIO;
}

int minder_add(const struct minder *minder, pid_t group) { return say(minder, group); }

void minder_remove(const struct minder *minder, pid_t group)
{
    /* If the minder is gone there is nobody who could kill it any more. */
    (void)say(minder, -group);
}

void minder_stop(struct minder *minder)
{
    if (minder->fd < 0)
        return;
    close(minder->fd);
    minder->fd = -1;
    while (waitpid(minder->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
