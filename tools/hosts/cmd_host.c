/* SPDX-License-Identifier: Apache-2.0 */
/* What `coppice up --hosts` and the commands after it run at each host; see hosts.h. */
#include "cluster/crew.h"
#include "cluster/local.h"
#include "exec/allow.h"
#include "hosts/hosts.h"
#include "run/listen.h"
#include "talk/procfs.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RESTART_TIMEOUT_NS (60 * COP_SEC)
/* 65,536 members with long names. */
#define START_MAX (32u << 20)

struct site {
    const char *cluster, *member, *word;
    char name[sizeof((struct dir *)NULL)->name]; /* of the directory: CLUSTER@MEMBER */
};

/* ---- the keeper of this host ------------------------------------------------------ */

/* A local cluster of one, whose member has the name that it has among all. */
static int open_site(const struct site *site, struct local *out)
{
    char path[DIR_PATH_SIZE + 16];
    struct local local = {.keeper = {.fd = -1}};
    int code = dir_open(site->name, &local.dir);
    if (code)
        return code;
    snprintf(path, sizeof path, "%s/" KEEPER_SOCKET, local.dir.path);
    int error = client_open(path, &local.keeper);
    if (error)
        return fail(EXIT_NO_CLUSTER, "%s is just starting or ending", site->name);
    local.cluster.extras = calloc(1, sizeof *local.cluster.extras);
    if (local.cluster.extras == NULL) {
        client_close(&local.keeper);
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    local.cluster.extra_count = 1;
    snprintf(local.cluster.extras[0].name, sizeof local.cluster.extras[0].name, "%s",
             site->member);
    *out = local;
    return 0;
}

/* ---- check ----------------------------------------------------------------------- */

/* The address by which ssh came here. */
static int address_of_ssh(char *out, size_t size)
{
    const char *connection = getenv("SSH_CONNECTION");
    char address[64] = "";
    if (connection == NULL || sscanf(connection, "%*s %*s %63s", address) != 1)
        return fail(EXIT_FAILED, "nobody says which address this host has: give it one "
                                 "with address=IP in a file of hosts");
    /* Of IPv4 in the clothes of IPv6. */
    bool is_mapped = strncmp(address, "::ffff:", 7) == 0;
    snprintf(out, size, "%s", address + (is_mapped ? 7 : 0));
    return 0;
}

/* Whether a member could start here. `word` is "tcp:IP:PORT", or ":PORT": find the rest. */
static int check(const struct site *site)
{
    struct cop__address address;
    struct host host = {.port = 0};
    char text[160], message[200], user[EXEC_USER_MAX];
    uint64_t port;
    snprintf(text, sizeof text, "%s", site->word);
    if (text[0] == ':') {
        if (parse_number(text + 1, 1, UINT16_MAX, &port) != 0)
            return fail(EXIT_USAGE, "host: '%s' is not a port", text + 1);
        int code = address_of_ssh(host.address, sizeof host.address);
        if (code)
            return code;
        host.port = (uint16_t)port;
        host_address(&host, text, sizeof text);
    }
    if (cluster_parse_address(text, ".", &address, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "host: %s: %s", text, message);
    if (dir_is_live(site->name))
        return fail(EXIT_FAILED, "cluster '%s' is up here already", site->cluster);
    int fd = cop__listen_address(&address);
    if (fd == -EADDRINUSE)
        return fail(EXIT_FAILED, "%s is taken: another process listens there", text);
    if (fd < 0)
        return fail(EXIT_FAILED, "cannot listen on %s: %s", text, strerror(-fd));
    close(fd);
    exec_user_name(geteuid(), user);
    printf(HOST_CHECK_PRINT, COPPICE_VERSION, user, text);
    return 0;
}

/* ---- start ----------------------------------------------------------------------- */

/* What came by standard input: nothing of it was on a command line. */
struct parcel {
    char *text;
    size_t length;
    struct host_start start;
    char *allow_exec, *members, *key; /* owned */
    size_t members_length, key_length;
};

static int read_all(struct parcel *parcel)
{
    parcel->text = malloc(START_MAX + 1);
    if (parcel->text == NULL)
        return COP_ENOMEM;
    while (parcel->length < START_MAX) {
        ssize_t got =
            read(0, parcel->text + parcel->length, START_MAX - parcel->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return COP_EIO;
        if (got == 0)
            break;
        parcel->length += (size_t)got;
    }
    parcel->text[parcel->length] = '\0';
    return 0;
}

/* A connection that broke before all was there has started nothing. */
static int open_parcel(struct parcel *parcel)
{
    size_t allow, members, key;
    unsigned id;
    int is_first, is_insecure;
    unsigned long long patience;
    char *end = memchr(parcel->text, '\n', parcel->length);
    if (end == NULL || sscanf(parcel->text, HOST_START_SCAN, &id, &is_first,
                              &is_insecure, &patience, &allow, &members, &key) != 7)
        return COP_EMALFORMED;
    char *body = end + 1;
    size_t length = parcel->length - (size_t)(body - parcel->text);
    if (allow > length || members > length - allow || key != length - allow - members)
        return COP_EMALFORMED;
    parcel->start = (struct host_start){
        .id = id,
        .is_first = is_first != 0,
        .is_insecure = is_insecure != 0,
        .patience_ns = patience,
    };
    parcel->allow_exec = strndup(body, allow);
    parcel->members = body + allow;
    parcel->members_length = members;
    parcel->key = body + allow + members;
    parcel->key_length = key;
    return parcel->allow_exec ? 0 : COP_ENOMEM;
}

static void close_parcel(struct parcel *parcel)
{
    if (parcel->text != NULL)
        explicit_bzero(parcel->text, parcel->length);
    free(parcel->text);
    free(parcel->allow_exec);
}

static int write_file(const struct dir *dir, const char *file, const char *text,
                      size_t length)
{
    char path[DIR_PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/%s", dir->path, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t wrote = fd >= 0 ? write(fd, text, length) : -1;
    int error = wrote < 0 ? errno : ENOSPC;
    if (fd >= 0)
        close(fd);
    return wrote == (ssize_t)length
               ? 0
               : fail(EXIT_FAILED, "%s: %s", path, strerror(error));
}

/* The files, then the processes; on failure nothing is left. */
static int launch(const struct dir *dir, const struct parcel *parcel)
{
    char path[DIR_PATH_SIZE + 16], message[400];
    struct cluster cluster;
    struct keeper_one one = {.id = parcel->start.id,
                             .is_first = parcel->start.is_first,
                             .patience_ns = parcel->start.patience_ns};
    const struct keeper_config config = {.dir = dir,
                                         .n = 1,
                                         .tcp = true,
                                         .insecure = parcel->start.is_insecure,
                                         .allow_exec = parcel->allow_exec,
                                         .one = &one};
    int code = write_file(dir, CLUSTER_FILE, parcel->members, parcel->members_length);
    if (code == 0 && !parcel->start.is_insecure)
        code = write_file(dir, KEEPER_KEY, parcel->key, parcel->key_length);
    snprintf(path, sizeof path, "%s/" CLUSTER_FILE, dir->path);
    if (code == 0 && cluster_open(path, false, &cluster, message, sizeof message) != 0)
        code = fail(EXIT_FAILED, "%s", message);
    if (code == 0) {
        if (one.id >= cluster.n || cluster_address(&cluster, one.id, &one.listen) != 0)
            code = fail(EXIT_FAILED, "there is no member %u", one.id);
        one.first = cluster.first;
        cluster_close(&cluster);
    }
    if (code == 0)
        return keeper_launch(&config);
    dir_remove(dir);
    return code;
}

static int start(const struct site *site)
{
    struct parcel parcel = {0};
    struct dir dir;
    int error = read_all(&parcel);
    if (!error)
        error = open_parcel(&parcel);
    int code = error ? fail(EXIT_FAILED, "what is to be started did not arrive: %s",
                            cop_strerror(error))
                     : dir_create(site->name, KEEPER_SOCKET_LONGEST, &dir);
    if (code == 0) {
        code = launch(&dir, &parcel);
        close(dir.lock);
    }
    close_parcel(&parcel);
    return code;
}

/* ---- key ------------------------------------------------------------------------- */

/* Another key comes in the place of the old one, in one step; the agent is told by others. */
static int take_key(const struct site *site)
{
    struct parcel parcel = {0};
    struct dir dir;
    char path[DIR_PATH_SIZE + 16], next[DIR_PATH_SIZE + 16];
    int code = dir_open(site->name, &dir);
    if (code)
        return code;
    int error = read_all(&parcel);
    if (error || parcel.length == 0)
        code = fail(EXIT_FAILED, "the key did not arrive: %s",
                    cop_strerror(error ? error : COP_EMALFORMED));
    snprintf(path, sizeof path, "%s/" KEEPER_KEY, dir.path);
    snprintf(next, sizeof next, "%s/" KEEPER_KEY ".new", dir.path);
    /* One that was interrupted may have left it. */
    if (code == 0 && unlink(next) != 0 && errno != ENOENT)
        code = fail(EXIT_FAILED, "%s: %s", next, strerror(errno));
    if (code == 0)
        code = write_file(&dir, KEEPER_KEY ".new", parcel.text, parcel.length);
    if (code == 0 && rename(next, path) != 0)
        code = fail(EXIT_FAILED, "%s: %s", path, strerror(errno));
    close_parcel(&parcel);
    return code;
}

/* ---- connect --------------------------------------------------------------------- */

/* Some bytes from one to the other. False: there will be no more. */
static bool pass(int from, int to)
{
    char bytes[16384];
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    for (ssize_t done = 0; done < got;) {
        ssize_t wrote = write(to, bytes + done, (size_t)(got - done));
        if (wrote < 0 && errno != EINTR)
            return false;
        done += wrote > 0 ? wrote : 0;
    }
    return got > 0;
}

/* Our standard input and output are the agent's command socket, until one side ends. */
static int connect_agent(const struct site *site)
{
    struct dir dir;
    struct client client;
    char path[DIR_PATH_SIZE + 24];
    int code = dir_open(site->name, &dir);
    if (code)
        return code;
    snprintf(path, sizeof path, "%s/" CREW_COMMAND_NAME, dir.path, 0u);
    if (client_open(path, &client) != 0)
        return fail(EXIT_NO_CLUSTER, "the agent of %s is dead", site->member);
    puts(SSH_CONNECTED);
    fflush(stdout);
    struct pollfd waits[] = {{.fd = 0, .events = POLLIN},
                             {.fd = client.fd, .events = POLLIN}};
    for (bool is_open = true; is_open;) {
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            break;
        if (waits[0].revents != 0)
            is_open = pass(0, client.fd);
        if (is_open && waits[1].revents != 0)
            is_open = pass(client.fd, 1);
    }
    client_close(&client);
    return 0;
}

/* ---- list, signal, restart, stop ------------------------------------------------- */

static int list(const struct site *site)
{
    struct local local;
    struct list_reply got;
    struct process_use use = {0};
    int code = open_site(site, &local);
    if (code)
        return code;
    code = local_list(&local, &got);
    if (code == 0) {
        const struct member_status *status = &got.members[0];
        if (status->pid > 0 && !process_use(status->pid, &use))
            use = (struct process_use){0};
        printf(HOST_LIST_PRINT, status->pid, (int)status->state,
               (int)status->wait_status, (unsigned long long)status->incarnation,
               status->id, (unsigned long long)use.private_bytes,
               (unsigned long long)use.resident_bytes, (unsigned long long)use.cpu_ns);
        list_reply_free(&got);
    }
    local_close(&local);
    return code;
}

static int send_signal(const struct site *site)
{
    struct local local;
    uint64_t number;
    cop_id slot = 0;
    const struct cop_ranks only = {.items = &slot, .count = 1};
    if (parse_number(site->word, 1, 64, &number) != 0)
        return fail(EXIT_USAGE, "host: '%s' is not the number of a signal", site->word);
    int code = open_site(site, &local);
    if (code)
        return code;
    code = local_signal(&local, (int)number, &only);
    local_close(&local);
    return code;
}

static int check_restart(const struct site *site, const struct client_reply *reply)
{
    struct restart_reply got;
    int code = 0;
    if (restart_reply_decode(reply->body, &got) != 0)
        return fail(EXIT_FAILED, "the keeper says something unintelligible");
    if (got.failed.count > 0)
        code = fail(EXIT_FAILED, "%s could not be started", site->member);
    else if (got.waiting.count > 0)
        code = fail(EXIT_REFUSED, "%s runs, but is not in the view", site->member);
    restart_reply_free(&got);
    return code;
}

static int restart(const struct site *site)
{
    struct local local;
    struct client_reply reply;
    cop_id slot = 0;
    int code = open_site(site, &local);
    if (code)
        return code;
    struct cop_buf *body = ids_encode(0, &slot, 1);
    code = body ? local_call(&local, VERB_RESTART, body, RESTART_TIMEOUT_NS, &reply)
                : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    cop_buf_unref(body);
    if (code == 0)
        code = check_restart(site, &reply);
    local_close(&local);
    return code;
}

static int stop(const struct site *site) { return local_down(site->name); }

/* ---- the command ----------------------------------------------------------------- */

struct deed {
    const char *name;
    int (*run)(const struct site *site);
    int words; /* beside cluster and member */
};

static const struct deed deeds[] = {
    {"check", check, 1},           {"start", start, 0}, {"key", take_key, 0},
    {"connect", connect_agent, 0}, {"list", list, 0},   {"signal", send_signal, 1},
    {"restart", restart, 0},       {"stop", stop, 0},
};

int cmd_host(int argc, char **argv)
{
    static const struct args_option options[] = {{0}};
    struct args args = {
        .name = "host",
        .usage =
            "check|start|key|connect|list|signal|restart|stop CLUSTER MEMBER [WORD]",
        .text = "What `coppice up --hosts` and the commands after it run at each host, "
                "over\n"
                "ssh: not for hands.",
        .options = options,
        .least = 3,
        .most = 4,
    };
    struct site site;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    site = (struct site){.cluster = args.operands[1],
                         .member = args.operands[2],
                         .word = args.count > 3 ? args.operands[3] : NULL};
    int length =
        snprintf(site.name, sizeof site.name, "%s@%s", site.cluster, site.member);
    if (length >= (int)sizeof site.name || strchr(site.name, '/') != NULL ||
        site.name[0] == '.')
        return fail(EXIT_USAGE, "host: '%s' cannot be a cluster's and a member's name",
                    site.name);
    /* The one of a login session goes with it, and the members are to stay. */
    unsetenv("XDG_RUNTIME_DIR");
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++)
        if (strcmp(deeds[i].name, args.operands[0]) == 0)
            return deeds[i].words == args.count - 3
                       ? deeds[i].run(&site)
                       : fail(EXIT_USAGE, "host: %s takes %d words", deeds[i].name,
                              deeds[i].words + 2);
    return fail(EXIT_USAGE, "host: there is no '%s'", args.operands[0]);
}
