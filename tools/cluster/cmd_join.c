/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "agent/security.h"
#include "ask/survey.h"
#include "cluster/local.h"
#include "exec/allow.h"
#include "run/listen.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <arpa/inet.h>
#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JOIN_TIMEOUT_NS (60 * COP_SEC)
#define DESCRIBE_TIMEOUT_NS (5 * COP_SEC)

struct options {
    const char *name, *contact, *as, *listen, *command, *allow_exec;
    bool spare, as_json;
    struct security_options security;
};

/* ---- into a local cluster -------------------------------------------------------- */

static int print_joined(const struct joined *joined, const char *cluster, bool as_json)
{
    struct json json;
    if (as_json) {
        json_init(&json, stdout);
        json_begin_object(&json);
        json_put_string(&json, "schema", "coppice.join.v1");
        json_put_string(&json, "cluster", cluster);
        json_put_string(&json, "member", joined->name);
        json_put_u64(&json, "id", joined->id);
        json_put_u64(&json, "incarnation", joined->incarnation);
        json_put_bool(&json, "in_view", !joined->waiting);
        json_end_object(&json);
    } else if (!joined->waiting) {
        printf("%s joined '%s' as %" PRIu32 "\n", joined->name, cluster, joined->id);
    }
    if (joined->waiting)
        return fail(EXIT_REFUSED,
                    "%s runs, but is not in the view; too few members are left to let "
                    "it in, or the guard holds removals",
                    joined->name);
    return 0;
}

/* Whom the view waits for, if anybody; to be freed. */
static char *find_silent(const struct local *local)
{
    struct client client;
    struct roll roll;
    cop_id ignored;
    if (!local_find(local, &client, &roll, &ignored))
        return NULL;
    roll_free(&roll);
    char *names = survey_silent(&client, &local->cluster, COP_SEC);
    client_close(&client);
    return names;
}

/* Says after a second whom it waits for, and at the end, if it has waited for nothing. */
static int call_join(struct local *local, const struct cop_buf *body,
                     struct client_reply *reply)
{
    char *silent = NULL;
    int error = client_send(&local->keeper, VERB_JOIN, body);
    if (!error && !client_is_ready(&local->keeper, COP_SEC)) {
        silent = find_silent(local);
        if (silent != NULL && !client_is_ready(&local->keeper, 0))
            complain("join: the view waits for %s", silent);
    }
    if (!error)
        error = client_receive(&local->keeper, JOIN_TIMEOUT_NS, reply);
    free(silent);
    return error ? error : reply->status;
}

static int join_local(struct local *local, const struct options *options)
{
    struct join_command command = {.spare = options->spare};
    struct client_reply reply;
    struct joined joined;
    if (local->hosts != NULL)
        return fail(EXIT_USAGE,
                    "cluster '%s' is on hosts: at the new one, type: coppice join "
                    "--contact ADDRESS --key FILE",
                    local->dir.name);
    struct roll roll;
    if (!local_any_roll(local, &roll))
        return local_nobody(local); /* who could let it in? */
    roll_free(&roll);
    snprintf(command.name, sizeof command.name, "%s", options->as ? options->as : "");
    struct cop_buf *body = join_command_encode(&command);
    if (body == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int error = call_join(local, body, &reply);
    cop_buf_unref(body);
    if (!error)
        error = joined_decode(reply.body, &joined);
    if (error == COP_EEXIST)
        return fail(EXIT_REFUSED,
                    "there is a member '%s' already; if it is dead or has left, type: "
                    "coppice restart --name %s %s",
                    options->as, local->dir.name, options->as);
    if (error == COP_ETIMEDOUT)
        return fail(EXIT_REFUSED,
                    "it was started, and is not in the view yet; it will be when the "
                    "view changes, see coppice view --name %s",
                    local->dir.name);
    if (error == COP_EIO)
        return fail(EXIT_FAILED, "it could not be started; see %s/log",
                    local->dir.path);
    if (error)
        return fail(EXIT_FAILED, "the keeper of '%s': %s", local->dir.name,
                    cop_strerror(error));
    return print_joined(&joined, local->dir.name, options->as_json);
}

static int run_local(const struct options *options)
{
    struct settings settings;
    struct local local;
    char message[200];
    if (options->as != NULL &&
        cop__name_check(options->as, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "join: %s", message);
    int code = local_settings(&settings, options->name);
    if (code == 0)
        code = local_open(settings_name(&settings), &local);
    if (code)
        return code;
    code = join_local(&local, options);
    local_close(&local);
    return code;
}

/* ---- into any other -------------------------------------------------------------- */

/* Where the contact is: an address, or the path of a command socket. */
static int parse_contact(const char *text, struct cop__address *out)
{
    char with_kind[PATH_MAX], message[200];
    bool is_path = strncmp(text, "unix:", 5) != 0 && strncmp(text, "tcp:", 4) != 0;
    snprintf(with_kind, sizeof with_kind, "%s%s", is_path ? "unix:" : "", text);
    if (cluster_parse_address(with_kind, ".", out, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "join: --contact %s: %s", text, message);
    return 0;
}

/* How the cluster began; and the address by which we reached the contact. */
static int ask_contact(const struct options *options,
                       const struct cop__address *contact, struct cop__tls *tls,
                       struct cluster *out, struct cop__address *own)
{
    struct client client;
    struct client_reply reply;
    char message[300] = "";
    int error = client_open_address(contact, tls, &client, message, sizeof message);
    if (error == COP_EREFUSED && message[0] != '\0')
        return fail(EXIT_REFUSED, "%s: %s", options->contact, message);
    if (error)
        return fail(EXIT_NO_CLUSTER, "nobody answers at %s: %s", options->contact,
                    cop_strerror(error));
    own->length = sizeof own->storage;
    if (getsockname(client.fd, (struct sockaddr *)&own->storage, &own->length) != 0)
        own->length = 0;
    error = client_call(&client, VERB_DESCRIBE, NULL, DESCRIBE_TIMEOUT_NS, &reply);
    if (!error)
        error = reply.status;
    int code = 0;
    if (error)
        code = fail(EXIT_NO_CLUSTER, "%s is no member of a cluster: %s",
                    options->contact, cop_strerror(error));
    else if (cluster_read(options->contact, (const char *)reply.body.data,
                          reply.body.length, out, message, sizeof message) != 0)
        code = fail(EXIT_FAILED, "%s", message);
    client_close(&client);
    return code;
}

/* An address of our own, as the contact could reach it, with a port that is free. */
static void choose_address(const struct cluster *cluster,
                           const struct cop__address *own, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "127.0.0.1";
    if (own->storage.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&own->storage;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(out, size, "tcp:%s:0", host);
    } else if (own->storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&own->storage;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(out, size, "tcp:[%s]:0", host);
    } else {
        snprintf(out, size, "unix:%s/j%d.sock", cluster->directory, (int)getpid());
    }
}

/* The text of an address that others can use, with the port that it was given. */
static int print_address(int fd, char *out, size_t size)
{
    struct sockaddr_storage storage = {0};
    socklen_t length = sizeof storage;
    char host[INET6_ADDRSTRLEN];
    if (getsockname(fd, (struct sockaddr *)&storage, &length) != 0)
        return COP_EIO;
    if (storage.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&storage;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(out, size, "tcp:%s:%u", host, ntohs(v4->sin_port));
    } else if (storage.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&storage;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(out, size, "tcp:[%s]:%u", host, ntohs(v6->sin6_port));
    }
    return 0;
}

/* Listens, and says where: `where` is changed to what the others are to be told. */
static int open_listener(const struct options *options, const struct cop__tls *tls,
                         char *where, size_t size, int *out)
{
    struct cop__address address;
    char message[200];
    if (cluster_parse_listen(where, &address, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "join: --listen %s: %s", where, message);
    int code = security_check("join", &address, tls, options->security.insecure);
    if (code)
        return code;
    int fd = cop__listen_address(&address);
    if (fd == -EADDRINUSE)
        return fail(EXIT_FAILED, "%s is taken: another process listens there", where);
    if (fd < 0)
        return fail(EXIT_FAILED, "cannot listen on %s: %s", where, strerror(-fd));
    if (print_address(fd, where, size) != 0) {
        close(fd);
        return fail(EXIT_FAILED, "no address: %s", strerror(errno));
    }
    *out = fd;
    return 0;
}

static cop_incarnation incarnation_of_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (cop_incarnation)now.tv_sec * COP_SEC + (cop_incarnation)now.tv_nsec;
}

/* The host's name unless given. */
static int choose_name(const struct options *options, char out[64])
{
    char host[NODESET_NAME_LENGTH + 2] = "", message[200];
    const char *name = options->as ? options->as : host;
    if (options->as == NULL && gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    if (cop__name_check(name, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "join: %s%s", message,
                    options->as ? "" : "; give it one with --as");
    memcpy(out, name, strlen(name) + 1); /* it fits: that is part of the rule */
    return 0;
}

static int run_contact(const struct options *options, struct cop__tls *tls)
{
    struct cluster cluster;
    struct cop__address own = {0};
    char name[64], where[300];
    struct agent_config config = {.id = COP_ID_NONE,
                                  .name = name,
                                  .is_new = true,
                                  .is_spare = options->spare,
                                  .where = where,
                                  .tls = tls,
                                  .note_fd = -1,
                                  .command_path = options->command,
                                  .allow_exec = options->allow_exec,
                                  .incarnation = incarnation_of_now()};
    int code = choose_name(options, name);
    if (code == 0)
        code = parse_contact(options->contact, &config.contact);
    if (code == 0)
        code = security_check("join", &config.contact, tls, options->security.insecure);
    if (code == 0)
        code = ask_contact(options, &config.contact, tls, &cluster, &own);
    if (code)
        return code;
    if (options->listen != NULL)
        cluster_absolute(options->listen, where, sizeof where);
    else
        choose_address(&cluster, &own, where, sizeof where);
    code = open_listener(options, tls, where, sizeof where, &config.listen_fd);
    if (code == 0) {
        config.cluster = &cluster;
        config.socket = strncmp(where, "unix:", 5) == 0 ? where + 5 : NULL;
        code = agent_run(&config);
    }
    cluster_close(&cluster);
    return code;
}

int cmd_join(int argc, char **argv)
{
    struct options got = {0};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the local cluster to join", ARGS_TEXT, &got.name, 0, 0},
        {0, "contact", "ADDRESS", "of any member of another one, or its command socket",
         ARGS_TEXT, &got.contact, 0, 0},
        {0, "as", "MEMBER", "name of the new member", ARGS_TEXT, &got.as, 0, 0},
        {0, "spare", NULL, "without a rank, until somebody's is free", ARGS_FLAG,
         &got.spare, 0, 0},
        {0, "listen", "ADDRESS", "with --contact: listen here", ARGS_TEXT, &got.listen,
         0, 0},
        {0, "command", "SOCKET", "with --contact: take commands here", ARGS_TEXT,
         &got.command, 0, 0},
        {0, "allow-exec", "LIST", "with --contact: who may run commands here",
         ARGS_TEXT, &got.allow_exec, 0, 0},
        SECURITY_OPTIONS(got.security),
        {0, "json", NULL, "print one object: coppice.join.v1", ARGS_FLAG, &got.as_json,
         0, 0},
        {0},
    };
    struct args args = {
        .name = "join",
        .usage = "[options]",
        .text = "Starts a new member, which joins a cluster. In a local cluster its "
                "keeper\n"
                "runs it, and the command returns when it is in the view. With "
                "--contact it\n"
                "runs in the foreground, as `coppice agent` does.\n"
                "Exit status: 4 if it is not let in.",
        .options = options,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.contact != NULL && (got.name != NULL || got.as_json))
        return fail(EXIT_USAGE, "join: --contact excludes --name and --json");
    if (got.contact == NULL &&
        (got.listen != NULL || got.command != NULL || got.allow_exec != NULL))
        return fail(EXIT_USAGE,
                    "join: --listen, --command and --allow-exec need --contact");
    code = exec_allow_check("join", got.allow_exec);
    if (code)
        return code;
    if (got.contact == NULL)
        return run_local(&got);
    struct cop__tls *tls;
    code = security_open("join", &got.security, &tls);
    if (code == 0)
        code = run_contact(&got, tls);
    cop__tls_destroy(tls);
    return code;
}
