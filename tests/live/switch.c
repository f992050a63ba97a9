/* SPDX-License-Identifier: Apache-2.0 */
#include "switch.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
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

/*
 * live_switch HOSTS COMMAND...   makes the hosts, runs the command beside them, and is the
 *                                switch between them until the command ends
 * live_switch --in HOST COMMAND...   becomes the command on that host; only below the
 *                                    first; with HOST "-" it stays where it is
 * live_switch --stop PID             stops a process, and prints when: nanoseconds of the
 *                                    clock that agents have
 *
 * The command has descriptor 98 for orders to the switch (rules_order), a line each, and 99
 * for answers, a line for each order. When the switch is killed so is the command; what
 * was begun with --in dies with whoever began it.
 */

#define PARENT "LIVE_SWITCH_PID"

static int say_error(const char *what)
{
    fprintf(stderr, "live_switch: %s: %s\n", what, strerror(errno));
    return EXIT_FAILURE;
}

/* ---- frames ---------------------------------------------------------------------- */

/* A frame that is on its way, for some time. */
struct delayed {
    struct delayed *next, *before;
    uint64_t due;
    unsigned to;
    size_t size;
    uint8_t bytes[];
};

struct fabric {
    struct rules rules;
    int ports[HOSTS_MAX];
    struct delayed *first, *last; /* by time, and equal times in order */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A full port loses a frame, as a real one does. */
static void deliver(struct fabric *fabric, unsigned to, const uint8_t *bytes,
                    size_t size)
{
    if (send(fabric->ports[to], bytes, size, MSG_DONTWAIT) < 0)
        fabric->rules.lost++;
}

static void delay(struct fabric *fabric, unsigned to, const uint8_t *bytes, size_t size,
                  uint64_t due)
{
    struct delayed *frame = malloc(sizeof *frame + size);
    if (frame == NULL) {
        fabric->rules.lost++;
        return;
    }
    struct delayed *before = fabric->last;
    while (before != NULL && before->due > due)
        before = before->before;
    *frame = (struct delayed){.before = before, .due = due, .to = to, .size = size};
    frame->next = before ? before->next : fabric->first;
    memcpy(frame->bytes, bytes, size);
    *(before ? &before->next : &fabric->first) = frame;
    *(frame->next ? &frame->next->before : &fabric->last) = frame;
}

static void deliver_due(struct fabric *fabric)
{
    uint64_t now = fabric->first ? now_ns() : 0;
    while (fabric->first != NULL && fabric->first->due <= now) {
        struct delayed *frame = fabric->first;
        fabric->first = frame->next;
        *(frame->next ? &frame->next->before : &fabric->last) = NULL;
        deliver(fabric, frame->to, frame->bytes, frame->size);
        free(frame);
    }
}

static int wait_ms(const struct fabric *fabric)
{
    if (fabric->first == NULL)
        return -1;
    uint64_t now = now_ns();
    uint64_t due = fabric->first->due;
    return due <= now ? 0 : (int)((due - now + 999999) / 1000000);
}

static void pass(struct fabric *fabric, unsigned from, unsigned to,
                 const uint8_t *bytes, size_t size)
{
    uint64_t delay_ns;
    if (from == to || !rules_pass(&fabric->rules, from, to, &delay_ns))
        return;
    if (delay_ns == 0)
        deliver(fabric, to, bytes, size);
    else
        delay(fabric, to, bytes, size, now_ns() + delay_ns);
}

/* IPv4 and ARP; a host's number is the end of its hardware address. */
static void forward(struct fabric *fabric, unsigned from, const uint8_t *bytes,
                    size_t size)
{
    static const uint8_t prefix[5] = {2, 0, 0, 0, 0};
    if (size < 14 || bytes[12] != 8 || (bytes[13] != 0 && bytes[13] != 6))
        return;
    if (memcmp(bytes, prefix, sizeof prefix) == 0 && bytes[5] < fabric->rules.count) {
        pass(fabric, from, bytes[5], bytes, size);
        return;
    }
    for (unsigned to = 0; to < fabric->rules.count; to++)
        pass(fabric, from, to, bytes, size);
}

/* Some at a time, so that one host does not keep the others waiting. */
static void take_frames(struct fabric *fabric, unsigned from)
{
    uint8_t bytes[FRAME_MAX];
    for (int i = 0; i < 64; i++) {
        ssize_t size = recv(fabric->ports[from], bytes, sizeof bytes, MSG_TRUNC);
        if (size <= 0)
            return;
        if ((size_t)size <= sizeof bytes)
            forward(fabric, from, bytes, (size_t)size);
        else
            fabric->rules.lost++;
    }
}

/* ---- orders ---------------------------------------------------------------------- */

struct desk {
    int orders, answers;
    size_t used;
    char text[1024];
};

static void answer(struct fabric *fabric, const struct desk *desk, char *line)
{
    char text[128];
    if (strcmp(line, "count") == 0) {
        snprintf(text, sizeof text, "passed %llu lost %llu\n",
                 (unsigned long long)fabric->rules.passed,
                 (unsigned long long)fabric->rules.lost);
    } else {
        const char *wrong = rules_order(&fabric->rules, line);
        snprintf(text, sizeof text, "%s%s\n", wrong ? "no: " : "ok",
                 wrong ? wrong : "");
    }
    if (write(desk->answers, text, strlen(text)) < 0)
        say_error("an answer");
}

static void take_orders(struct fabric *fabric, struct desk *desk)
{
    ssize_t got =
        read(desk->orders, desk->text + desk->used, sizeof desk->text - 1 - desk->used);
    if (got <= 0)
        return;
    desk->used += (size_t)got;
    desk->text[desk->used] = '\0';
    char *line = desk->text, *end;
    while ((end = strchr(line, '\n')) != NULL) {
        *end = '\0';
        answer(fabric, desk, line);
        line = end + 1;
    }
    desk->used -= (size_t)(line - desk->text);
    memmove(desk->text, line, desk->used);
    if (desk->used == sizeof desk->text - 1)
        desk->used = 0;
}

/* ---- the command ----------------------------------------------------------------- */

/* Dies with its parent, who is not to be gone already. */
static void die_with_parent(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_FAILURE);
}

static void become(char **command)
{
    execvp(command[0], command);
    say_error(command[0]);
    _exit(127);
}

static pid_t begin(char **command, const sigset_t *before, struct desk *desk)
{
    int orders[2], answers[2];
    char number[16];
    pid_t self = getpid();
    if (pipe2(orders, 0) != 0 || pipe2(answers, 0) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        die_with_parent(self);
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, before, NULL);
        snprintf(number, sizeof number, "%d", (int)self);
        if (setenv(PARENT, number, 1) != 0 || dup2(orders[1], ORDERS_FD) < 0 ||
            dup2(answers[0], ANSWERS_FD) < 0)
            _exit(EXIT_FAILURE);
        close(orders[0]);
        close(orders[1]);
        close(answers[0]);
        close(answers[1]);
        become(command);
    }
    close(orders[1]);
    close(answers[0]);
    *desk = (struct desk){.orders = orders[0], .answers = answers[1]};
    return pid;
}

/* True when the command has ended; signals to us are for it. */
static bool take_signal(int fd, pid_t pid, int *status)
{
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof info) != (ssize_t)sizeof info)
        return false;
    if (info.ssi_signo != SIGCHLD) {
        kill(pid, (int)info.ssi_signo);
        return false;
    }
    return waitpid(pid, status, WNOHANG) == pid;
}

static int serve(struct fabric *fabric, struct desk *desk, int signals, pid_t pid)
{
    struct pollfd polls[HOSTS_MAX + 2];
    unsigned count = fabric->rules.count;
    int status = 0;
    for (unsigned i = 0; i < count; i++)
        polls[i] = (struct pollfd){.fd = fabric->ports[i], .events = POLLIN};
    polls[count] = (struct pollfd){.fd = desk->orders, .events = POLLIN};
    polls[count + 1] = (struct pollfd){.fd = signals, .events = POLLIN};
    for (;;) {
        if (poll(polls, count + 2, wait_ms(fabric)) < 0 && errno != EINTR)
            return say_error("poll");
        deliver_due(fabric);
        for (unsigned i = 0; i < count; i++)
            if (polls[i].revents & POLLIN)
                take_frames(fabric, i);
        if (polls[count].revents & POLLIN)
            take_orders(fabric, desk);
        else if (polls[count].revents & POLLHUP)
            polls[count].fd = -1;
        if ((polls[count + 1].revents & POLLIN) && take_signal(signals, pid, &status))
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static int run(unsigned count, char **command)
{
    static struct fabric fabric;
    struct desk desk;
    sigset_t ours, before;
    if (!hosts_create(count, fabric.ports))
        return EXIT_SKIPPED;
    rules_init(&fabric.rules, count, (uint64_t)getpid() * UINT64_C(0x9E3779B97F4A7C15));
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&ours);
    sigaddset(&ours, SIGCHLD);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, &before);
    int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return say_error("signals");
    pid_t pid = begin(command, &before, &desk);
    if (pid < 0)
        return say_error("the command cannot be started");
    int code = serve(&fabric, &desk, signals, pid);
    kill(-pid, SIGKILL); /* what it left running */
    return code;
}

/* ---- on a host ------------------------------------------------------------------- */

static int enter(const char *host, char **command)
{
    const char *above = getenv(PARENT);
    char *end;
    unsigned long number = strtoul(host, &end, 10);
    pid_t parent = getppid();
    if (above == NULL || parent == (pid_t)atol(above) || parent == 1) {
        fputs("live_switch: --in works below a switch only\n", stderr);
        return EXIT_FAILURE;
    }
    die_with_parent(parent);
    if (strcmp(host, "-") != 0 && (*end != '\0' || end == host || number >= HOSTS_MAX ||
                                   setns(HOST_FD + (int)number, CLONE_NEWNET) != 0))
        return say_error("no such host");
    for (int i = 0; i < (int)HOSTS_MAX; i++)
        close(HOST_FD + i);
    close(ORDERS_FD);
    close(ANSWERS_FD);
    become(command);
    return EXIT_FAILURE;
}

/* ---- a moment -------------------------------------------------------------------- */

static int stop(const char *text)
{
    char *end;
    long pid = strtol(text, &end, 10);
    uint64_t when = now_ns();
    if (*end != '\0' || pid <= 1 || kill((pid_t)pid, SIGSTOP) != 0)
        return say_error("it cannot be stopped");
    printf("%llu\n", (unsigned long long)when);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--stop") == 0)
        return stop(argv[2]);
    if (argc > 3 && strcmp(argv[1], "--in") == 0)
        return enter(argv[2], argv + 3);
    char *end = NULL;
    unsigned long count = argc > 2 ? strtoul(argv[1], &end, 10) : 0;
    if (count == 0 || count > HOSTS_MAX || *end != '\0') {
        fputs("usage: live_switch HOSTS COMMAND...\n"
              "       live_switch --in HOST COMMAND...\n"
              "       live_switch --stop PID\n",
              stderr);
        return 2;
    }
    return run((unsigned)count, argv + 2);
}
