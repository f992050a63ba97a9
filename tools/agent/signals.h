/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_SIGNALS_H
#define COP_TOOLS_AGENT_SIGNALS_H

#include <signal.h>
#include <uv.h>

/*
 * Signals as events of a loop. Not with uv_signal: its handles are known to the whole
 * process, and a process that is forked, as members are, would go on writing to the
 * descriptors of its parent's loop. A signalfd is closed like any other descriptor.
 */
struct signals {
    uv_poll_t poll;
    int fd;
    void (*raised)(struct signals *signals, int number);
    void *data;
};

/*
 * Blocks the signals of `wanted`, and no others, and calls `raised` for each that comes.
 * 0 or an error of libuv, and then nothing is to be closed.
 */
int signals_start(struct signals *signals, uv_loop_t *loop, const sigset_t *wanted,
                  void (*raised)(struct signals *signals, int number));
void signals_close(struct signals *signals);

#endif
