/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/signals.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct signals *signals = poll->data;
    struct signalfd_siginfo info;
    (void)status;
    (void)events;
    /* One for each turn of the loop: `raised` may end everything. */
    if (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info)
        signals->raised(signals, (int)info.ssi_signo);
}

int signals_start(struct signals *signals, uv_loop_t *loop, const sigset_t *wanted,
                  void (*raised)(struct signals *signals, int number))
{
    signals->raised = raised;
    if (sigprocmask(SIG_SETMASK, wanted, NULL) != 0)
        return -errno;
    signals->fd = signalfd(-1, wanted, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals->fd < 0)
        return -errno;
    int error = uv_poll_init(loop, &signals->poll, signals->fd);
    if (error) {
        close(signals->fd);
        return error;
    }
    signals->poll.data = signals;
    return uv_poll_start(&signals->poll, UV_READABLE, on_readable);
}

void signals_close(struct signals *signals)
{
    uv_close((uv_handle_t *)&signals->poll, NULL);
    close(signals->fd);
}
