/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/chorus.h"

#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- giving ---------------------------------------------------------------------- */

/* Counted before it is given, so that nobody can have more than was counted. */
static int give_one(struct chorus *chorus, struct cop_run *run, uint64_t stream)
{
    uint8_t packet[CHORUS_PACKET_MAX];
    struct chorus_note *note = &chorus->notes[chorus->config.self];
    uint32_t length =
        chorus->config.packet(chorus->config.self, chorus->given + 1, packet);
    atomic_store(&note->given, chorus->given + 1);
    int error = cop_stream_send(run, stream, packet, length);
    if (error == 0)
        chorus->given++;
    else
        atomic_store(&note->given, chorus->given);
    return error;
}

static void note_opened(struct chorus *chorus, uint64_t stream, uint64_t wave)
{
    struct chorus_note *note = &chorus->notes[chorus->config.self];
    chorus->given = wave;
    atomic_store(&note->given, wave);
    atomic_store(&note->began, wave + 1);
    if (stream % 3 == CHORUS_FLUSH)
        chorus->flushed = stream;
}

/* Credit comes after everything that has to be mended, so this is where it is known. */
static void note_recovery(struct chorus *chorus, struct cop_run *run, uint64_t stream)
{
    struct chorus_note *note = &chorus->notes[chorus->config.self];
    struct cop_stream_info info;
    if (cop_stream_info(run, stream, &info) != 0)
        return;
    atomic_store(&note->lost, info.recovery.lost);
    atomic_store(&note->asked, info.recovery.asked);
    atomic_store(&note->adopted, info.recovery.adopted);
}

static void note_heard(struct chorus *chorus, const struct cop_stream_event *event)
{
    const struct chorus_config *config = &chorus->config;
    struct chorus_note *note = &chorus->notes[config->self];
    bool is_next = event->wave == atomic_fetch_add(&note->heard, 1) + 1;
    if (!is_next || !config->is_right(config->context, config->self, event))
        atomic_fetch_add(&note->wrong, 1);
}

static void on_stream(void *context, struct cop_run *run, uint64_t stream,
                      const struct cop_stream_event *event)
{
    struct chorus *chorus = context;
    uint64_t way = stream % 3;
    if (event->kind == COP_STREAM_DOWN && chorus->config.is_right != NULL)
        note_heard(chorus, event);
    if (event->kind == COP_STREAM_OPENED)
        note_opened(chorus, stream, event->wave);
    else if (event->kind == COP_STREAM_ROOM)
        note_recovery(chorus, run, stream);
    else if (event->kind == COP_STREAM_DOWN && way == CHORUS_ANSWER) {
        if (chorus->config.is_struck)
            note_recovery(chorus, run, stream);
        give_one(chorus, run, stream);
    } else if (event->kind == COP_STREAM_CLOSED)
        chorus->flushed = 0;
    if (way != CHORUS_BURST ||
        (event->kind != COP_STREAM_OPENED && event->kind != COP_STREAM_ROOM))
        return;
    while (chorus->given < chorus->config.waves && give_one(chorus, run, stream) == 0)
        continue;
}

/* Each packet in a turn of the loop of its own, so that it goes by itself. Never returns. */
_Noreturn static void flush_all(struct chorus *chorus, struct cop_run *run)
{
    for (;;) {
        bool has_more = chorus->flushed != 0 && chorus->given < chorus->config.waves;
        if (has_more && give_one(chorus, run, chorus->flushed) != 0)
            has_more = false; /* until there is room */
        if (cop_poll(run, has_more ? 0 : -1) != 0)
            _exit(EXIT_FAILED);
    }
}

/* ---- members --------------------------------------------------------------------- */

/* Of this process a thread of the library's own is the member; a forked one is nothing else. */
static int start(struct chorus *chorus, bool is_alone, struct cop_run **out, char *why,
                 size_t size)
{
    const struct chorus_config *config = &chorus->config;
    struct cop_settings settings = {.size = sizeof settings,
                                    .cluster = "chorus",
                                    .instance = 1,
                                    .addresses = chorus->addresses,
                                    .count = config->n,
                                    .self = config->self,
                                    .shape = config->shape,
                                    .detector = "connection",
                                    .patience_ns = 120 * COP_SEC,
                                    .all_listen = true,
                                    .listen_fd = chorus->listeners[config->self],
                                    .key_file = config->key_file,
                                    .insecure = config->key_file == NULL,
                                    .context = chorus,
                                    .on_stream = on_stream};
    return is_alone ? cop_start(&settings, out, why, size)
                    : cop_start_thread(&settings, out, why, size);
}

static void ignore_told(void *context, struct cop_run *run, uint64_t stream,
                        const struct cop_stream_event *event)
{
    (void)context, (void)run, (void)stream, (void)event;
}

static int wait_for_view(struct cop_run *run)
{
    struct cop_view *view;
    int error = cop_view_wait(run, 0, 180 * COP_SEC, &view);
    if (error == 0)
        cop_view_unref(view);
    return error;
}

/* The first front-end, as soon as it is a member. */
static void open_stream(const struct chorus *chorus, struct cop_run *run)
{
    int error = 0;
    while (error == 0 && cop_state(run) == COP_RUN_JOINING)
        error = cop_poll(run, -1);
    if (error == 0)
        error = cop_stream_open(run, &chorus->config.options, ignore_told, NULL, NULL);
    if (error)
        complain("member %" PRIu32 ": %s", chorus->config.self, cop_strerror(error));
}

/* Never returns. Dies with whoever forked it. */
_Noreturn static void serve(struct chorus *chorus, cop_id self, pid_t parent)
{
    struct cop_run *run;
    char why[200];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    chorus->config.self = self;
    for (uint32_t i = 0; i < chorus->config.n; i++)
        if (i != self && chorus->listeners[i] >= 0)
            close(chorus->listeners[i]);
    if (start(chorus, true, &run, why, sizeof why) != 0) {
        complain("member %" PRIu32 ": %s", self, why);
        _exit(EXIT_FAILED);
    }
    if (self == chorus->config.opener)
        open_stream(chorus, run);
    flush_all(chorus, run);
}

static int fork_all(struct chorus *chorus)
{
    pid_t parent = getpid();
    for (uint32_t i = 0; i < chorus->config.n; i++) {
        if (i == chorus->config.self)
            continue;
        pid_t pid = fork();
        if (pid < 0)
            return fail(EXIT_FAILED, "no process for member %" PRIu32 ": %s", i,
                        strerror(errno));
        if (pid == 0)
            serve(chorus, i, parent);
        chorus->pids[i] = pid;
        close(chorus->listeners[i]);
        chorus->listeners[i] = -1;
    }
    return 0;
}

/* All listen before anybody is there, so nobody is missed. */
static int listen_all(struct chorus *chorus)
{
    for (uint32_t i = 0; i < chorus->config.n; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr *any = (struct sockaddr *)&address;
        socklen_t length = sizeof address;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        chorus->listeners[i] = fd;
        if (fd < 0 || bind(fd, any, length) != 0 || listen(fd, SOMAXCONN) != 0 ||
            getsockname(fd, any, &length) != 0)
            return fail(EXIT_FAILED, "no socket for member %" PRIu32 ": %s", i,
                        strerror(errno));
        snprintf(chorus->texts[i], sizeof chorus->texts[i], "tcp:127.0.0.1:%u",
                 (unsigned)ntohs(address.sin_port));
        chorus->addresses[i] = chorus->texts[i];
    }
    return 0;
}

static int join(struct chorus *chorus)
{
    char why[200];
    if (start(chorus, false, &chorus->run, why, sizeof why) != 0)
        return fail(EXIT_FAILED, "member %" PRIu32 ": %s", chorus->config.self, why);
    chorus->listeners[chorus->config.self] = -1;
    int error = wait_for_view(chorus->run);
    return error ? fail(EXIT_FAILED, "not all of %" PRIu32 " processes came: %s",
                        chorus->config.n, cop_strerror(error))
                 : 0;
}

int chorus_open(struct chorus *chorus, const struct chorus_config *config)
{
    *chorus = (struct chorus){.config = *config};
    for (uint32_t i = 0; i < CHORUS_MAX; i++)
        chorus->listeners[i] = -1;
    void *shared = mmap(NULL, CHORUS_MAX * sizeof *chorus->notes,
                        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return fail(EXIT_FAILED, "no shared memory: %s", strerror(errno));
    chorus->notes = shared;
    fflush(NULL);
    int code = listen_all(chorus);
    if (code == 0)
        code = fork_all(chorus);
    if (code == 0)
        code = join(chorus);
    if (code)
        chorus_close(chorus);
    return code;
}

/* ---- the end --------------------------------------------------------------------- */

bool chorus_lives(const struct chorus *chorus, cop_id id)
{
    return id == chorus->config.self || (id < CHORUS_MAX && chorus->pids[id] != 0);
}

uint64_t chorus_given(const struct chorus *chorus, cop_id id)
{
    return atomic_load(&chorus->notes[id].given);
}

uint64_t chorus_began(const struct chorus *chorus, cop_id id)
{
    uint64_t first = atomic_load(&chorus->notes[id].began);
    return first > 0 ? first - 1 : 0;
}

uint64_t chorus_heard(const struct chorus *chorus, cop_id id, uint64_t *wrong)
{
    *wrong = atomic_load(&chorus->notes[id].wrong);
    return atomic_load(&chorus->notes[id].heard);
}

bool chorus_has_begun(const struct chorus *chorus, cop_id id)
{
    return atomic_load(&chorus->notes[id].began) > 0;
}

static void bury(struct chorus *chorus, cop_id id)
{
    while (waitpid(chorus->pids[id], NULL, 0) < 0 && errno == EINTR)
        continue;
    chorus->pids[id] = 0;
}

void chorus_strike(struct chorus *chorus, cop_id id)
{
    if (id != chorus->config.self && chorus_lives(chorus, id))
        kill(chorus->pids[id], SIGKILL);
}

void chorus_kill(struct chorus *chorus, cop_id id)
{
    if (id == chorus->config.self || !chorus_lives(chorus, id))
        return;
    chorus_strike(chorus, id);
    bury(chorus, id);
}

void chorus_close(struct chorus *chorus)
{
    cop_free(chorus->run);
    chorus->run = NULL;
    /* A tool that they run in, which SIGKILL would not let say what it has counted, may end. */
    for (uint32_t i = 0; i < chorus->config.n; i++)
        if (chorus->pids[i] != 0)
            kill(chorus->pids[i], SIGTERM);
    for (uint32_t i = 0; i < chorus->config.n; i++)
        if (chorus->pids[i] != 0)
            bury(chorus, i);
    for (uint32_t i = 0; i < chorus->config.n; i++)
        if (chorus->listeners[i] >= 0)
            close(chorus->listeners[i]);
    if (chorus->notes != NULL)
        munmap(chorus->notes, CHORUS_MAX * sizeof *chorus->notes);
    chorus->notes = NULL;
}
