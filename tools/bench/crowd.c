/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/crowd.h"

#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int reply_one(void *context, struct cop_run *run, struct cop_task *task)
{
    int64_t one = 1;
    (void)context;
    return cop_reply(run, task->number, 0, &one, sizeof one);
}

static int start(const struct crowd *crowd, const struct crowd_config *config,
                 uint32_t self, struct cop_run **out, char *why, size_t size)
{
    const struct cop_handlers one = {
        .size = sizeof one, .service = CROWD_SERVICE, .run = reply_one};
    uint32_t count = config->service_count ? config->service_count : 1;
    struct cop_settings settings = {.size = sizeof settings,
                                    .cluster = "crowd",
                                    .instance = 1,
                                    .addresses = crowd->addresses,
                                    .count = crowd->n,
                                    .self = self,
                                    .shape = config->shape,
                                    .detector = "connection",
                                    .listen_fd = crowd->listeners[self],
                                    .insecure = !config->is_local,
                                    .no_reads = config->no_reads,
                                    .services =
                                        config->service ? config->service : &one,
                                    .service_count = count};
    return cop_start(&settings, out, why, size);
}

/* ---- the others ------------------------------------------------------------------ */

/* Never returns. Dies with whoever measures. */
_Noreturn static void serve(struct crowd *crowd, const struct crowd_config *config,
                            uint32_t self, pid_t parent)
{
    struct cop_run *run;
    char why[200];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
    for (uint32_t i = 0; i < crowd->n; i++)
        if (i != self)
            close(crowd->listeners[i]);
    if (config->prepare != NULL)
        config->prepare(config->context);
    if (start(crowd, config, self, &run, why, sizeof why) != 0) {
        complain("member %" PRIu32 ": %s", self, why);
        _exit(EXIT_FAILED);
    }
    while (cop_poll(run, -1) != COP_ESTATE)
        continue;
    _exit(0);
}

static int fork_all(struct crowd *crowd, const struct crowd_config *config)
{
    pid_t parent = getpid();
    for (uint32_t i = 1; i < crowd->n; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return fail(EXIT_FAILED, "no process for member %" PRIu32 ": %s", i,
                        strerror(errno));
        if (pid == 0)
            serve(crowd, config, i, parent);
        crowd->pids[crowd->forked++] = pid;
        close(crowd->listeners[i]);
        crowd->listeners[i] = -1;
    }
    return 0;
}

/* ---- this one -------------------------------------------------------------------- */

static bool listen_tcp(struct crowd *crowd, uint32_t i)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *any = (struct sockaddr *)&address;
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    crowd->listeners[i] = fd;
    if (fd < 0 || bind(fd, any, length) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, any, &length) != 0)
        return false;
    snprintf(crowd->texts[i], sizeof crowd->texts[i], "tcp:127.0.0.1:%u",
             (unsigned)ntohs(address.sin_port));
    return true;
}

static bool listen_unix(struct crowd *crowd, uint32_t i)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    crowd->listeners[i] = fd;
    snprintf(crowd->texts[i], sizeof crowd->texts[i], "unix:%s/%" PRIu32, crowd->folder,
             i);
    snprintf(address.sun_path, sizeof address.sun_path, "%s",
             crowd->texts[i] + strlen("unix:"));
    return fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
           listen(fd, SOMAXCONN) == 0;
}

/* All listen before anybody is there, so nobody is missed. */
static int listen_all(struct crowd *crowd, bool is_local)
{
    char folder[] = "/tmp/coppice-XXXXXX";
    if (is_local && mkdtemp(folder) == NULL)
        return fail(EXIT_FAILED, "no folder for sockets in /tmp: %s", strerror(errno));
    if (is_local)
        memcpy(crowd->folder, folder, sizeof folder);
    for (uint32_t i = 0; i < crowd->n; i++) {
        crowd->addresses[i] = crowd->texts[i];
        if (!(is_local ? listen_unix(crowd, i) : listen_tcp(crowd, i)))
            return fail(EXIT_FAILED, "no socket for member %" PRIu32 ": %s", i,
                        strerror(errno));
    }
    return 0;
}

static void remove_folder(const struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->n && crowd->texts[i][0]; i++)
        unlink(crowd->texts[i] + strlen("unix:"));
    rmdir(crowd->folder);
}

static int join(struct crowd *crowd, const struct crowd_config *config)
{
    char why[200];
    if (start(crowd, config, 0, &crowd->run, why, sizeof why) != 0)
        return fail(EXIT_FAILED, "member 0: %s", why);
    crowd->listeners[0] = -1;
    while (cop_state(crowd->run) == COP_RUN_JOINING)
        cop_poll(crowd->run, -1);
    return 0;
}

int crowd_open(struct crowd *crowd, const struct crowd_config *config)
{
    *crowd = (struct crowd){.n = config->n};
    for (uint32_t i = 0; i < CROWD_MAX; i++)
        crowd->listeners[i] = -1;
    fflush(NULL);
    int code = listen_all(crowd, config->is_local);
    if (code == 0)
        code = fork_all(crowd, config);
    if (code == 0)
        code = join(crowd, config);
    if (code)
        crowd_close(crowd);
    return code;
}

void crowd_close(struct crowd *crowd)
{
    cop_free(crowd->run);
    crowd->run = NULL;
    for (uint32_t i = 0; i < crowd->forked; i++)
        kill(crowd->pids[i], SIGKILL);
    for (uint32_t i = 0; i < crowd->forked; i++)
        while (waitpid(crowd->pids[i], NULL, 0) < 0 && errno == EINTR)
            continue;
    for (uint32_t i = 0; i < crowd->n; i++)
        if (crowd->listeners[i] >= 0)
            close(crowd->listeners[i]);
    if (crowd->folder[0])
        remove_folder(crowd);
}
