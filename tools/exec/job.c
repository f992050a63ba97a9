/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/job.h"

#include "base/assert.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_SIZE 16384u

struct pipe_end {
    uv_poll_t poll;
    int fd;
    bool open;
};

struct job {
    struct job_config config;
    pid_t pid;
    uv_poll_t exit; /* of its pidfd */
    int pidfd;
    int news;         /* the errno of a command that could not be started comes here */
    uv_timer_t timer; /* of the time-out, then of the grace */
    struct pipe_end pipes[2];
    struct job_output outputs[2];
    uint32_t handles; /* that libuv has not let go of */
    bool stopping, timed_out, exited, ended, freed;
    enum job_end end;
    int code;
};

/* ---- the end --------------------------------------------------------------------- */

static void free_if_closed(struct job *job)
{
    if (job->handles > 0 || !job->freed)
        return;
    free(job->outputs[0].bytes);
    free(job->outputs[1].bytes);
    free(job);
}

static void on_closed(uv_handle_t *handle)
{
    struct job *job = handle->data;
    job->handles--;
    free_if_closed(job);
}

static void close_handle(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void close_pipe(struct job *job, int which)
{
    struct pipe_end *end = &job->pipes[which];
    if (!end->open)
        return;
    end->open = false;
    close_handle(&end->poll);
    close(end->fd);
}

/* The number is its own until it has been waited for; so the group is killed before. */
static void reap(struct job *job)
{
    int status = 0;
    if (job->pid <= 0)
        return;
    kill(-job->pid, SIGKILL);
    minder_remove(job->config.minder, job->pid);
    while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR)
        ;
    job->pid = 0;
    job->end = WIFSIGNALED(status) ? JOB_SIGNALLED : JOB_EXITED;
    job->code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    int why;
    if (read(job->news, &why, sizeof why) == (ssize_t)sizeof why) {
        job->end = JOB_NOT_STARTED;
        job->code = why;
    }
    close(job->news);
}

static bool may_read(const struct job *job);

static void end_if_done(struct job *job)
{
    if (job->ended || !job->exited || job->pipes[0].open || job->pipes[1].open ||
        !may_read(job))
        return;
    job->ended = true;
    close_handle(&job->timer);
    job->config.ended(job->config.context, job);
}

static void close_exit(struct job *job)
{
    if (job->pidfd < 0)
        return;
    close_handle(&job->exit);
    close(job->pidfd);
    job->pidfd = -1;
}

void job_free(struct job *job)
{
    reap(job);
    close_exit(job);
    close_pipe(job, 0);
    close_pipe(job, 1);
    close_handle(&job->timer);
    job->freed = true;
    free_if_closed(job);
}

/* ---- outputs --------------------------------------------------------------------- */

/* Room for what is kept; false: there is no memory, or it is enough. */
static bool grow(struct job_output *output, uint32_t limit)
{
    if (output->used < output->capacity)
        return true;
    if (output->used >= limit)
        return false;
    uint32_t wanted = output->capacity ? 2 * output->capacity : READ_SIZE / 4;
    wanted = wanted < limit ? wanted : limit;
    uint8_t *bytes = realloc(output->bytes, wanted);
    if (bytes == NULL)
        return false;
    output->bytes = bytes;
    output->capacity = wanted;
    return true;
}

static void keep(struct job *job, int which, const uint8_t *bytes, size_t length)
{
    struct job_output *output = &job->outputs[which];
    output->total += length;
    while (length > 0 && grow(output, job->config.limit)) {
        size_t room = output->capacity - output->used;
        size_t part = length < room ? length : room;
        memcpy(output->bytes + output->used, bytes, part);
        output->used += (uint32_t)part;
        bytes += part;
        length -= part;
    }
}

static bool is_passed_on(const struct job *job) { return job->config.output != NULL; }

/* One that passes on waits until what it has was taken. */
static bool may_read(const struct job *job)
{
    return !is_passed_on(job) || job->outputs[0].used + job->outputs[1].used == 0;
}

/* Once. False: there is nothing now; at its end the pipe is closed. */
static bool read_pipe(struct job *job, int which)
{
    uint8_t bytes[READ_SIZE];
    struct pipe_end *end = &job->pipes[which];
    size_t size = sizeof bytes;
    if (is_passed_on(job) && job->config.limit < size)
        size = job->config.limit;
    ssize_t got = read(end->fd, bytes, size);
    if (got > 0) {
        keep(job, which, bytes, (size_t)got);
        return true;
    }
    if (got < 0 && errno == EINTR)
        return true;
    /* Somebody who left the group may hold the other end; that is not waited for. */
    bool is_empty = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (!is_empty || job->exited)
        close_pipe(job, which);
    return false;
}

static void on_readable(uv_poll_t *poll, int status, int events);

/* Polls what may be read, and only that. */
static void set_polls(struct job *job)
{
    for (int which = 0; which < 2; which++) {
        struct pipe_end *end = &job->pipes[which];
        if (!end->open)
            continue;
        if (may_read(job))
            uv_poll_start(&end->poll, UV_READABLE, on_readable);
        else
            uv_poll_stop(&end->poll);
    }
}

/* What is left in the pipes after its end. */
static void drain(struct job *job)
{
    for (int which = 0; which < 2; which++)
        while (job->pipes[which].open && may_read(job) && read_pipe(job, which))
            ;
}

static void proceed(struct job *job)
{
    if (job->exited)
        drain(job);
    if (!may_read(job)) {
        set_polls(job);
        job->config.output(job->config.context, job);
    }
    end_if_done(job);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct job *job = poll->data;
    int which = poll == &job->pipes[0].poll ? 0 : 1;
    (void)events;
    if (status < 0)
        close_pipe(job, which);
    else if (job->pipes[which].open && may_read(job))
        read_pipe(job, which);
    proceed(job);
}

void job_take(struct job *job)
{
    job->outputs[0].used = job->outputs[1].used = 0;
    if (job->exited)
        drain(job);
    set_polls(job);
    if (!may_read(job))
        job->config.output(job->config.context, job);
    end_if_done(job);
}

/* ---- time ------------------------------------------------------------------------ */

static void on_grace(uv_timer_t *timer)
{
    struct job *job = timer->data;
    if (job->pid > 0)
        kill(-job->pid, SIGKILL);
}

void job_stop(struct job *job)
{
    if (job->stopping || job->ended || job->pid <= 0)
        return;
    job->stopping = true;
    kill(-job->pid, SIGTERM);
    uv_timer_start(&job->timer, on_grace, JOB_GRACE_MS, 0);
}

static void on_timeout(uv_timer_t *timer)
{
    struct job *job = timer->data;
    if (!job->exited)
        job->timed_out = true;
    job_stop(job);
}

static void on_exit_of(uv_poll_t *poll, int status, int events)
{
    struct job *job = poll->data;
    (void)status;
    (void)events;
    reap(job);
    close_exit(job);
    job->exited = true;
    proceed(job);
}

/* A command that never began ends as one that did: from the loop. */
static void on_not_started(uv_timer_t *timer)
{
    struct job *job = timer->data;
    job->exited = true;
    end_if_done(job);
}

/* ---- the beginning --------------------------------------------------------------- */

/* What both sides of the fork have. The first of a pair is ours. */
struct plumbing {
    int input[2], output[2][2], news[2];
};

static void close_all(struct plumbing *plumbing)
{
    int *all = (int *)plumbing;
    for (size_t i = 0; i < sizeof *plumbing / sizeof *all; i++)
        if (all[i] >= 0)
            close(all[i]);
}

/* Small enough to be in the pipe at once. */
static int open_input(const struct job_config *config, int input[2])
{
    int fds[2];
    if (config->input == NULL) {
        input[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return input[1] < 0 ? -errno : 0;
    }
    if (pipe2(fds, O_CLOEXEC) != 0)
        return -errno;
    input[0] = fds[1];
    input[1] = fds[0];
    ssize_t sent = write(input[0], config->input, config->input_length);
    return sent == (ssize_t)config->input_length ? 0 : -EIO;
}

static int open_plumbing(const struct job_config *config, struct plumbing *out)
{
    *out = (struct plumbing){{-1, -1}, {{-1, -1}, {-1, -1}}, {-1, -1}};
    int error = open_input(config, out->input);
    for (int which = 0; which < 2 && error == 0; which++)
        if (pipe2(out->output[which], O_CLOEXEC) != 0)
            error = -errno;
    if (error == 0 && pipe2(out->news, O_CLOEXEC) != 0)
        error = -errno;
    for (int which = 0; which < 2 && error == 0; which++)
        if (fcntl(out->output[which][0], F_SETFL, O_NONBLOCK) != 0)
            error = -errno;
    return error;
}

static void forget_signals(void)
{
    static const int ours[] = {SIGPIPE, SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGCHLD};
    sigset_t none;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        signal(ours[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the new process, up to the command; comes back only with an errno. */
static int become(const struct job_config *config, const struct plumbing *plumbing,
                  pid_t parent)
{
    setsid();
    if (minder_add(config->minder, getpid()) != 0)
        return EIO;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        return ESRCH;
    if (dup2(plumbing->input[1], 0) < 0 || dup2(plumbing->output[0][1], 1) < 0 ||
        dup2(plumbing->output[1][1], 2) < 0 ||
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0)
        return errno;
    forget_signals();
    execvpe(config->words[0], config->words, config->environment);
    return errno;
}

/* 0 or an errno. Whether the command could be started is known when its process has ended. */
static int spawn(struct job *job, struct plumbing *plumbing)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        int error = become(&job->config, plumbing, parent);
        ssize_t ignored = write(plumbing->news[1], &error, sizeof error);
        _exit(ignored > 0 ? 127 : 126);
    }
    job->pid = pid;
    job->news = plumbing->news[0];
    plumbing->news[0] = -1;
    return 0;
}

static int watch(struct job *job, struct plumbing *plumbing)
{
    uv_loop_t *loop = job->config.loop;
    job->pidfd = pidfd_open(job->pid, 0);
    if (job->pidfd < 0)
        return errno;
    int error = uv_poll_init(loop, &job->exit, job->pidfd);
    if (error) {
        close(job->pidfd);
        job->pidfd = -1;
        return -error;
    }
    job->exit.data = job;
    job->handles++;
    for (int which = 0; which < 2; which++) {
        struct pipe_end *end = &job->pipes[which];
        end->fd = plumbing->output[which][0];
        error = uv_poll_init(loop, &end->poll, end->fd);
        if (error)
            return -error;
        end->poll.data = job;
        plumbing->output[which][0] = -1;
        end->open = true;
        job->handles++;
    }
    error = uv_poll_start(&job->exit, UV_READABLE, on_exit_of);
    return -error;
}

static void begin(struct job *job)
{
    struct plumbing plumbing;
    int error = -open_plumbing(&job->config, &plumbing);
    if (error == 0)
        error = spawn(job, &plumbing);
    if (error == 0)
        error = watch(job, &plumbing);
    close_all(&plumbing);
    if (error == 0) {
        set_polls(job);
        uint64_t ms = job->config.timeout_ns / COP_MSEC;
        if (job->config.timeout_ns > 0)
            uv_timer_start(&job->timer, on_timeout, ms > 0 ? ms : 1, 0);
        return;
    }
    reap(job);
    close_pipe(job, 0);
    close_pipe(job, 1);
    job->end = JOB_NOT_STARTED;
    job->code = error;
    uv_timer_start(&job->timer, on_not_started, 0, 0);
}

int job_start(const struct job_config *config, struct job **out)
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return COP_ENOMEM;
    job->config = *config;
    job->pidfd = -1;
    COP_ASSERT(uv_timer_init(config->loop, &job->timer) == 0);
    job->timer.data = job;
    job->handles = 1;
    begin(job);
    /* They were the caller's for the call. */
    job->config.words = job->config.environment = NULL;
    job->config.input = NULL;
    *out = job;
    return 0;
}

/* ---- questions ------------------------------------------------------------------- */

bool job_has_ended(const struct job *job) { return job->ended; }

enum job_end job_end(const struct job *job, int *code)
{
    *code = job->code;
    return job->end;
}

bool job_timed_out(const struct job *job) { return job->timed_out; }

const struct job_output *job_output(const struct job *job, int which)
{
    return &job->outputs[which];
}
