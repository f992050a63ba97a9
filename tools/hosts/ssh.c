/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts/ssh.h"

#include "base/assert.h"
#include "run/text.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long a host may take to answer at all, and to be silent afterwards. */
#define CONNECT_OPTIONS                                                                \
    "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5",               \
        "-oServerAliveCountMax=6", "-T"
#define CONNECT_TIMEOUT_NS (60 * COP_SEC)

int ssh_parse(const char *text, struct ssh *out, char *message, size_t size)
{
    uint32_t count = 0;
    char *rest = out->text, *word;
    if (strlen(text) >= sizeof out->text)
        return cop__explain(message, size, "the ssh command is too long");
    memcpy(out->text, text, strlen(text) + 1);
    while ((word = strsep(&rest, " \t")) != NULL) {
        if (*word == '\0')
            continue;
        if (count == SSH_WORDS_MAX)
            return cop__explain(message, size, "the ssh command has too many words");
        out->words[count++] = word;
    }
    out->words[count] = NULL;
    return count > 0 ? 0 : cop__explain(message, size, "the ssh command is empty");
}

char *ssh_quote(const char *const *words)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    for (const char *const *word = words; *word != NULL; word++) {
        fputs(word == words ? "'" : " '", out);
        for (const char *at = *word; *at; at++)
            fputs(*at == '\'' ? "'\\''" : (char[]){*at, '\0'}, out);
        fputc('\'', out);
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- one process ----------------------------------------------------------------- */

/*
 * The life of the process that becomes ssh. It is in a session of its own: what is typed
 * at the terminal ends the command, which then ends ssh as it thinks fit.
 */
static void become_ssh(const struct ssh *ssh, const char *user, const char *host,
                       const char *command, const int fds[3])
{
    static const char *const options[] = {CONNECT_OPTIONS};
    const char *words[SSH_WORDS_MAX + 16];
    sigset_t none;
    size_t count = 0;
    for (; ssh->words[count] != NULL; count++)
        words[count] = ssh->words[count];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        words[count++] = options[i];
    if (user[0] != '\0') {
        words[count++] = "-l";
        words[count++] = user;
    }
    words[count++] = host;
    words[count++] = command;
    words[count] = NULL;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0)
            _exit(SSH_STATUS_FAILED);
    execvp(words[0], (char *const *)(uintptr_t)words);
    dprintf(2, "%s: %s\n", words[0], strerror(errno));
    _exit(SSH_STATUS_FAILED);
}

static pid_t spawn(const struct ssh *ssh, const char *user, const char *host,
                   const char *command, const int fds[3])
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_ssh(ssh, user, host, command, fds);
    return pid;
}

/* The last line of a text that is not empty, without its end. */
static void last_line(const char *text, size_t length, char *out, size_t size)
{
    while (length > 0 && strchr("\r\n", text[length - 1]))
        length--;
    size_t start = length;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    snprintf(out, size, "%.*s", (int)(length - start), text + start);
}

/* The last words in a file that ssh wrote. */
static void last_words(int fd, char *out, size_t size)
{
    char text[2048];
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from = end > (off_t)sizeof text ? end - (off_t)sizeof text : 0;
    ssize_t got = end > 0 ? pread(fd, text, sizeof text, from) : 0;
    last_line(text, got > 0 ? (size_t)got : 0, out, size);
}

static void first_words(int fd, char *out, size_t size)
{
    ssize_t got = pread(fd, out, size - 1, 0);
    out[got > 0 ? got : 0] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
}

/* ---- many ------------------------------------------------------------------------ */

/* A job under way. Its outputs are files in memory: nobody has to read them in time. */
struct run {
    struct ssh_job *job; /* NULL: free */
    pid_t pid;
    int in, out, err; /* our end of its input, -1 when it has all; its outputs */
    size_t sent;
    cop_time deadline;
};

static void close_run(struct run *run)
{
    if (run->in >= 0)
        close(run->in);
    if (run->out >= 0)
        close(run->out);
    if (run->err >= 0)
        close(run->err);
    *run = (struct run){.in = -1, .out = -1, .err = -1};
}

/* What became of it: its status, and its last lines. */
static void finish(struct run *run, int wait_status, const char *why)
{
    struct ssh_job *job = run->job;
    job->status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : SSH_STATUS_FAILED;
    if (run->out >= 0) {
        first_words(run->out, job->first, sizeof job->first);
        last_words(run->out, job->output, sizeof job->output);
    }
    if (run->err >= 0)
        last_words(run->err, job->error, sizeof job->error);
    if (why != NULL)
        snprintf(job->error, sizeof job->error, "%s", why);
    else if (job->error[0] == '\0' && job->status != 0)
        snprintf(job->error, sizeof job->error, "exit status %d", job->status);
    close_run(run);
}

static void begin(const struct ssh *ssh, struct ssh_job *job, cop_time timeout_ns,
                  struct run *run)
{
    int pair[2] = {-1, -1};
    *run = (struct run){.job = job, .in = -1, .deadline = now_ns() + timeout_ns};
    run->out = memfd_create("ssh-out", MFD_CLOEXEC);
    run->err = memfd_create("ssh-err", MFD_CLOEXEC);
    if (run->out >= 0 && run->err >= 0 && pipe2(pair, O_CLOEXEC) == 0) {
        const int fds[3] = {pair[0], run->out, run->err};
        run->pid = spawn(ssh, job->user, job->host, job->command, fds);
        close(pair[0]);
        run->in = pair[1];
    } else {
        run->pid = -1;
    }
    if (run->pid <= 0) {
        job->status = SSH_STATUS_FAILED;
        snprintf(job->error, sizeof job->error, "no process for ssh: %s",
                 strerror(errno));
        close_run(run);
        return;
    }
    fcntl(run->in, F_SETFL, O_NONBLOCK);
}

/* More of its input. One that does not want it has its reasons, and says them. */
static void feed(struct run *run)
{
    const struct ssh_job *job = run->job;
    size_t left = job->input_length - run->sent;
    ssize_t done = left > 0 ? write(run->in, job->input + run->sent, left) : 0;
    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (done > 0)
        run->sent += (size_t)done;
    if (done < 0 || run->sent == job->input_length) {
        close(run->in);
        run->in = -1;
    }
}

static bool reap(struct run *run)
{
    /* Where our parent had us ignore SIGCHLD nobody knows how it ended. */
    int status = SSH_STATUS_FAILED << 8;
    pid_t pid = waitpid(run->pid, &status, WNOHANG);
    if (pid == 0 && now_ns() < run->deadline)
        return false;
    if (pid == 0) {
        kill(run->pid, SIGKILL);
        waitpid(run->pid, &status, 0);
        finish(run, status, "it takes too long, and was given up");
        return true;
    }
    finish(run, status, NULL);
    return true;
}

struct crowd_of_runs {
    struct run *runs;
    struct pollfd *waits; /* one for each run, and the signals */
    uint32_t fanout, alive;
    int signals;
    sigset_t before;
};

static int open_crowd(struct crowd_of_runs *crowd, uint32_t fanout)
{
    sigset_t wanted;
    *crowd = (struct crowd_of_runs){.fanout = fanout, .signals = -1};
    crowd->runs = calloc(fanout, sizeof *crowd->runs);
    crowd->waits = calloc(fanout + 1, sizeof *crowd->waits);
    if (crowd->runs == NULL || crowd->waits == NULL)
        return COP_ENOMEM;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGHUP);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGPIPE);
    sigprocmask(SIG_BLOCK, &wanted, &crowd->before);
    crowd->signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    return crowd->signals < 0 ? COP_EIO : 0;
}

static void close_crowd(struct crowd_of_runs *crowd)
{
    if (crowd->signals >= 0) {
        /* A pipe that nobody read from has left a signal, which is not to end us now. */
        struct signalfd_siginfo info;
        while (read(crowd->signals, &info, sizeof info) > 0)
            ;
        close(crowd->signals);
        sigprocmask(SIG_SETMASK, &crowd->before, NULL);
    }
    free(crowd->runs);
    free(crowd->waits);
}

/* Whether somebody wants the end. */
static bool take_signals(struct crowd_of_runs *crowd)
{
    struct signalfd_siginfo info;
    bool is_end = false;
    while (read(crowd->signals, &info, sizeof info) == (ssize_t)sizeof info)
        is_end |= info.ssi_signo != SIGCHLD && info.ssi_signo != SIGPIPE;
    return is_end;
}

static void wait_for_some(struct crowd_of_runs *crowd)
{
    cop_time now = now_ns(), next = now + COP_SEC;
    for (uint32_t i = 0; i < crowd->fanout; i++) {
        const struct run *run = &crowd->runs[i];
        crowd->waits[i] = (struct pollfd){.fd = -1, .events = POLLOUT};
        if (run->job == NULL)
            continue;
        crowd->waits[i].fd = run->in;
        next = run->deadline < next ? run->deadline : next;
    }
    crowd->waits[crowd->fanout] =
        (struct pollfd){.fd = crowd->signals, .events = POLLIN};
    cop_time left = next > now ? next - now : 0;
    (void)poll(crowd->waits, crowd->fanout + 1, (int)(left / COP_MSEC) + 1);
}

static void cancel_all(struct crowd_of_runs *crowd)
{
    for (uint32_t i = 0; i < crowd->fanout; i++) {
        struct run *run = &crowd->runs[i];
        if (run->job == NULL)
            continue;
        int status = SSH_STATUS_FAILED << 8;
        kill(run->pid, SIGKILL);
        waitpid(run->pid, &status, 0);
        finish(run, status, "interrupted");
    }
}

int ssh_run(const struct ssh *ssh, struct ssh_job *jobs, uint32_t count,
            uint32_t fanout, cop_time timeout_ns, const char *what)
{
    struct crowd_of_runs crowd;
    struct progress progress;
    uint32_t begun = 0, done = 0;
    int error = open_crowd(&crowd, fanout < count ? fanout : count);
    for (uint32_t i = 0; i < count; i++) {
        jobs[i].status = SSH_STATUS_FAILED;
        jobs[i].first[0] = jobs[i].output[0] = '\0';
        snprintf(jobs[i].error, sizeof jobs[i].error, "not begun");
    }
    progress_begin(&progress);
    while (error == 0 && done < count) {
        for (uint32_t i = 0; i < crowd.fanout; i++) {
            struct run *run = &crowd.runs[i];
            if (run->job == NULL && begun < count) {
                begin(ssh, &jobs[begun++], timeout_ns, run);
                done += run->job == NULL;
            }
        }
        progress_show(&progress, what, done, count);
        if (done < count)
            wait_for_some(&crowd);
        for (uint32_t i = 0; i < crowd.fanout; i++) {
            struct run *run = &crowd.runs[i];
            if (run->job != NULL && run->in >= 0 && crowd.waits[i].revents != 0)
                feed(run);
            done += run->job != NULL && reap(run);
        }
        if (take_signals(&crowd)) {
            cancel_all(&crowd);
            error = COP_EABORTED;
        }
    }
    progress_end(&progress);
    close_crowd(&crowd);
    return error;
}

void ssh_jobs_free(struct ssh_job *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count && jobs; i++)
        free(jobs[i].command);
    free(jobs);
}

/* ---- a connection ---------------------------------------------------------------- */

/*
 * Byte by byte: what comes after the line is not ours. What a shell says at its start, which
 * it should not, is passed over.
 */
static int await_line(int fd, const char *wanted)
{
    char line[256];
    size_t used = 0, passed = 0;
    cop_time deadline = now_ns() + CONNECT_TIMEOUT_NS;
    while (now_ns() < deadline && passed < 65536) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, 1000) <= 0)
            continue;
        char byte;
        ssize_t got = read(fd, &byte, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return COP_ENOENT;
        passed++;
        if (byte != '\n') {
            if (used < sizeof line - 1)
                line[used++] = byte;
            continue;
        }
        line[used] = '\0';
        if (strcmp(line, wanted) == 0)
            return 0;
        used = 0;
    }
    return COP_ETIMEDOUT;
}

int ssh_connect(const struct ssh *ssh, const char *user, const char *host,
                const char *command, struct client *out, char *message, size_t size)
{
    int pair[2];
    int err = memfd_create("ssh-err", MFD_CLOEXEC);
    if (err < 0)
        return COP_EIO;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        close(err);
        return COP_EIO;
    }
    const int fds[3] = {pair[1], pair[1], err};
    pid_t pid = spawn(ssh, user, host, command, fds);
    close(pair[1]);
    int error = pid > 0 ? await_line(pair[0], SSH_CONNECTED) : COP_EIO;
    if (error == 0) {
        *out = (struct client){.fd = pair[0]};
    } else {
        close(pair[0]);
        if (pid > 0) {
            /* At its own pace, or what it says of the reason is lost. */
            if (error == COP_ETIMEDOUT)
                kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        last_words(err, message, size);
        error = COP_ENOENT;
    }
    close(err);
    return error;
}
