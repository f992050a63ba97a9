/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/crew.h"

#include "agent/agent.h"
#include "base/assert.h"
#include "net/tls/tls.h"
#include "run/listen.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where a process finds what it inherits. The keeper keeps nothing of its own there. */
enum { CHILD_LISTEN_FD = 3, CHILD_READY_FD = 4 };

int crew_create(const struct dir *dir, uint32_t n, bool tcp, cop_incarnation first,
                struct crew *out)
{
    struct crew crew = {
        .dir = dir, .n = n, .start = n, .tcp = tcp, .first = first, .last = first};
    crew.members = calloc(n, sizeof *crew.members);
    crew.ready_fd = -1;
    if (crew.members == NULL)
        return COP_ENOMEM;
    for (cop_id id = 0; id < n; id++) {
        crew.members[id].listen_fd = -1;
        crew.members[id].state = MEMBER_DEAD;
        crew.members[id].id = id;
    }
    *out = crew;
    return 0;
}

void crew_free(struct crew *crew)
{
    for (cop_id id = 0; id < crew->n; id++)
        if (crew->members[id].listen_fd >= 0)
            close(crew->members[id].listen_fd);
    free(crew->members);
    crew->members = NULL;
}

/* ---- sockets --------------------------------------------------------------------- */

/* The directory was checked to be short enough for every socket in it. */
static void make_path(const struct crew *crew, char kind, cop_id id,
                      char out[DIR_PATH_SIZE])
{
    size_t length = strlen(crew->dir->path);
    memcpy(out, crew->dir->path, length);
    int more =
        snprintf(out + length, DIR_PATH_SIZE - length, "/%c%" PRIu32 ".sock", kind, id);
    COP_ASSERT(more > 0 && (size_t)more < DIR_PATH_SIZE - length);
}

/*
 * The first time any port will do; after that it must be the one that the others know.
 */
static int bind_member(struct crew *crew, cop_id id)
{
    struct crew_member *member = &crew->members[id];
    char path[DIR_PATH_SIZE];
    int fd;
    if (crew->one != NULL) {
        fd = cop__listen_address(&crew->one->listen);
    } else if (!crew->tcp) {
        make_path(crew, 'm', id, path);
        fd = cop__listen_unix(path);
    } else if (member->port == 0) {
        fd = cop__listen_loopback(&member->port);
    } else {
        struct cop__address address = {.length = sizeof(struct sockaddr_in)};
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_port = htons(member->port)};
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        memcpy(&address.storage, &in, sizeof in);
        fd = cop__listen_address(&address);
    }
    if (fd < 0)
        return fd;
    member->listen_fd = fd;
    return 0;
}

int crew_bind(struct crew *crew, cop_id *failed)
{
    for (cop_id id = 0; id < crew->n; id++) {
        int error = bind_member(crew, id);
        if (error) {
            *failed = id;
            return error;
        }
    }
    return 0;
}

int crew_write_file(const struct crew *crew, const uint8_t id[16], const char *shape,
                    const char *quorum, const char *detector, uint32_t guard)
{
    char path[DIR_PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/" CLUSTER_FILE, crew->dir->path);
    FILE *out = fopen(path, "wxe");
    if (out == NULL)
        return -errno;
    fputs("cluster ", out);
    for (int i = 0; i < 16; i++)
        fprintf(out, "%02x", id[i]);
    fprintf(out, "\ninstance %" PRIu64 "\nfirst %" PRIu64 "\nshape %s\nquorum %s\n",
            crew->first, crew->first, shape, quorum);
    fprintf(out, "detector %s\nguard %" PRIu32 "\n", detector, guard);
    for (cop_id i = 0; i < crew->n; i++)
        if (crew->tcp)
            fprintf(out, "%u " CREW_NAME " tcp:127.0.0.1:%u\n", i, i,
                    crew->members[i].port);
        else
            fprintf(out, "%u " CREW_NAME " unix:" CREW_SOCKET_NAME "\n", i, i, i);
    int failed = ferror(out);
    int error = errno;
    if (fclose(out) != 0)
        return -errno;
    return failed ? -error : 0;
}

/* ---- those who join ------------------------------------------------------------- */

void crew_address(const struct crew *crew, cop_id slot, char *out, size_t size)
{
    char path[DIR_PATH_SIZE];
    if (crew->tcp) {
        snprintf(out, size, "tcp:127.0.0.1:%u", crew->members[slot].port);
        return;
    }
    make_path(crew, 'm', slot, path);
    snprintf(out, size, "unix:%s", path);
}

int crew_add(struct crew *crew, const char *name, bool is_spare, cop_id *out)
{
    size_t size = (crew->n + 1) * sizeof *crew->members;
    struct crew_member *members = realloc(crew->members, size);
    if (members == NULL)
        return -ENOMEM;
    crew->members = members;
    struct crew_member *member = &members[crew->n];
    *member = (struct crew_member){
        .state = MEMBER_DEAD, .listen_fd = -1, .id = COP_ID_NONE, .is_spare = is_spare};
    snprintf(member->name, sizeof member->name, "%s", name);
    *out = crew->n++;
    return 0;
}

/* ---- processes ------------------------------------------------------------------- */

/* Whom the keeper is just forking, and what came of its descriptors: 0 or an errno. ENOMEM as long
 * as nothing did, for that is why nobody would be asked. */
static const struct crew *heir_of;
static cop_id heir;
static int inherited = ENOMEM;

/*
 * The rest of the keeper's descriptors are closed, what it holds in memory is not used. But for
 * libuv, which has a pipe of its own for all loops of a process. In a fork it closes the numbers
 * that it remembers, whatever they are by then, and makes another: so this must come before that,
 * or each process that the member forks later would lose two descriptors that it has use for.
 */
static void inherit(void)
{
    if (heir_of == NULL)
        return;
    bool is_done = dup2(heir_of->members[heir].listen_fd, CHILD_LISTEN_FD) >= 0 &&
                   dup2(heir_of->ready_fd, CHILD_READY_FD) >= 0 &&
                   close_range(CHILD_READY_FD + 1, ~0u, 0) == 0;
    inherited = is_done ? 0 : errno;
    heir_of = NULL;
}

/* These are called in the order in which they were asked for, and libuv asks with its first loop. */
__attribute__((constructor)) static void ask_to_inherit(void)
{
    (void)pthread_atfork(NULL, NULL, inherit);
}

/*
 * A member dies with its keeper. The keeper may have died before we asked for that:
 * then our parent is no longer the one that forked us.
 */
static int die_with(pid_t keeper)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return fail(EXIT_FAILED, "prctl: %s", strerror(errno));
    if (getppid() != keeper)
        return fail(EXIT_FAILED, "the keeper is gone");
    return 0;
}

/* The life of a member in the process that was forked for it. Returns its exit code. */
static int live(const struct crew *crew, cop_id id, pid_t keeper)
{
    char file[DIR_PATH_SIZE + 16], command[DIR_PATH_SIZE], message[400];
    char where[160];
    struct cluster cluster;
    int code = die_with(keeper);
    if (code)
        return code;
    if (inherited != 0)
        return fail(EXIT_FAILED, "descriptors: %s", strerror(inherited));
    snprintf(file, sizeof file, "%s/" CLUSTER_FILE, crew->dir->path);
    if (cluster_open(file, true, &cluster, message, sizeof message) != 0)
        return fail(EXIT_FAILED, "%s", message);
    make_path(crew, 'c', id, command);
    const struct crew_member *member = &crew->members[id];
    bool is_new = id >= crew->start;
    crew_address(crew, id, where, sizeof where);
    /* The file may have changed since the keeper read it. */
    if (crew->tls != NULL && cop__tls_reload(crew->tls, message, sizeof message) != 0)
        return fail(EXIT_FAILED, "%s", message);
    const struct agent_config config = {
        .cluster = &cluster,
        .id = is_new      ? COP_ID_NONE
              : crew->one ? crew->one->id
                          : id,
        .name = is_new ? member->name : NULL,
        .where = is_new ? where : NULL,
        .tls = crew->tls,
        .incarnation = member->incarnation,
        .is_first = member->incarnation == crew->first,
        .patience_ns = crew->one ? crew->one->patience_ns : 0,
        .is_new = is_new && member->lives == 1,
        .is_spare = member->is_spare,
        .listen_fd = CHILD_LISTEN_FD,
        .note_fd = CHILD_READY_FD,
        .slot = id,
        .command_path = command,
        .allow_exec = crew->allow_exec,
    };
    code = agent_run(&config);
    cluster_close(&cluster);
    return code;
}

/*
 * Members are forked and not executed, so all of them have the same memory layout: one
 * that the keeper was given at random. A processor predicts and caches by address; where
 * hundreds of processes take turns on it, each wakes to what the one before has warmed up,
 * and a message costs a fifth less. What is linked and relocated is shared as well.
 */
static int fork_member(const struct crew *crew, cop_id id, pid_t *out)
{
    pid_t keeper = getpid();
    heir_of = crew;
    heir = id;
    pid_t pid = fork();
    if (pid == 0)
        exit(live(crew, id, keeper));
    heir_of = NULL;
    if (pid < 0)
        return -errno;
    *out = pid;
    return 0;
}

int crew_spawn(struct crew *crew, cop_id id)
{
    struct crew_member *member = &crew->members[id];
    COP_ASSERT(member->pid == 0);
    int error = member->listen_fd < 0 ? bind_member(crew, id) : 0;
    if (error)
        return error;
    /*
     * All begin in the first incarnation; whoever comes back is newer than everybody.
     */
    bool is_first = member->incarnation == 0 && id < crew->start &&
                    (crew->one == NULL || crew->one->is_first);
    member->incarnation = is_first ? crew->first : ++crew->last;
    member->lives++;
    error = fork_member(crew, id, &member->pid);
    /* A dead member's address must refuse, so only the process may hold its socket. */
    close(member->listen_fd);
    member->listen_fd = -1;
    if (error) {
        member->pid = 0;
        return error;
    }
    member->state = MEMBER_STARTING;
    crew->alive++;
    return 0;
}

static cop_id find(const struct crew *crew, pid_t pid)
{
    for (cop_id id = 0; id < crew->n; id++)
        if (crew->members[id].pid == pid)
            return id;
    return COP_ID_NONE;
}

bool crew_reap(struct crew *crew, cop_id *out)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        cop_id id = find(crew, pid);
        if (id == COP_ID_NONE)
            continue;
        struct crew_member *member = &crew->members[id];
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            /* A member that starts is not running before it has said so. */
            if (member->state != MEMBER_STARTING)
                member->state = WIFSTOPPED(status) ? MEMBER_STOPPED : MEMBER_RUNNING;
        } else {
            member->state = MEMBER_DEAD;
            member->wait_status = status;
            member->pid = 0;
            crew->alive--;
        }
        *out = id;
        return true;
    }
    return false;
}

bool crew_signal(const struct crew *crew, cop_id id, int number)
{
    pid_t pid = crew->members[id].pid;
    /* Not yet waited for, so the number cannot belong to anybody else. */
    return pid > 0 && kill(pid, number) == 0;
}

const char *crew_print_end(int wait_status, char *out, size_t size)
{
    if (WIFSIGNALED(wait_status)) {
        const char *name = sigabbrev_np(WTERMSIG(wait_status));
        snprintf(out, size, "killed by SIG%s", name ? name : "?");
    } else {
        snprintf(out, size, "exit status %d", WEXITSTATUS(wait_status));
    }
    return out;
}
