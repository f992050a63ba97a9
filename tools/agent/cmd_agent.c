/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "agent/boot.h"
#include "agent/first.h"
#include "agent/security.h"
#include "exec/allow.h"
#include "run/listen.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/boot.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Somebody types the same command on each machine, or systemd starts them all. */
#define PATIENCE_NS (30 * COP_SEC)

/* What was typed. */
struct options {
    const char *members, *listen, *command, *id, *allow_exec, *state;
    uint64_t incarnation;
    bool first;
    cop_time patience_ns;
    struct security_options security;
};

/* An id, or the name of a member. */
static int find_self(const struct cluster *cluster, const char *text, cop_id *out)
{
    struct cop_ranks found = {0};
    char message[200];
    char *texts[] = {(char *)(uintptr_t)text};
    if (cluster_select(cluster, texts, 1, &found, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "agent: --id: %s", message);
    uint32_t count = found.count;
    if (count == 1)
        *out = found.items[0];
    cop_ranks_free(&found);
    if (count != 1)
        return fail(EXIT_USAGE, "agent: --id takes one member, not '%s'", text);
    return 0;
}

static int open_listener(const struct cluster *cluster, cop_id self,
                         const struct options *options, const struct cop__tls *tls,
                         int *out)
{
    struct cop__address address;
    char text[160], message[200];
    cluster_address_text(cluster, self, text, sizeof text);
    const char *where = options->listen ? options->listen : text;
    const char *directory = options->listen ? "." : cluster->directory;
    if (cluster_parse_address(where, directory, &address, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "agent: --listen %s: %s", where, message);
    int code = security_check("agent", &address, tls, options->security.insecure);
    if (code)
        return code;
    int fd = cop__listen_address(&address);
    if (fd == -EADDRINUSE)
        return fail(EXIT_FAILED, "%s is taken: another process listens there", where);
    if (fd < 0)
        return fail(EXIT_FAILED, "cannot listen on %s: %s", where, strerror(-fd));
    *out = fd;
    return 0;
}

/*
 * Nanoseconds since 1970: larger than in every earlier life, as long as the clock is.
 */
static cop_incarnation incarnation_of_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (cop_incarnation)now.tv_sec * COP_SEC + (cop_incarnation)now.tv_nsec;
}

static int run(const struct options *options, const struct cluster *cluster)
{
    char where[160] = "";
    if (options->listen != NULL)
        cluster_absolute(options->listen, where, sizeof where);
    struct agent_config config = {
        .cluster = cluster,
        .incarnation = options->incarnation,
        .is_first = options->first,
        .patience_ns = options->patience_ns,
        .where = options->listen ? where : NULL,
        .note_fd = -1,
        .command_path = options->command,
        .allow_exec = options->allow_exec,
    };
    int code = find_self(cluster, options->id, &config.id);
    if (code)
        return code;
    if (options->first && options->incarnation == 0)
        config.incarnation = cluster->first;
    else if (config.incarnation == 0)
        config.incarnation = incarnation_of_now();
    if (config.incarnation < cluster->first)
        return fail(EXIT_USAGE, "agent: --incarnation must be at least %llu, the first",
                    (unsigned long long)cluster->first);
    code = security_open("agent", &options->security, &config.tls);
    if (code == 0)
        code =
            open_listener(cluster, config.id, options, config.tls, &config.listen_fd);
    if (code == 0) {
        fprintf(stderr, "coppice: member %s of %u is up\n", options->id, cluster->n);
        code = agent_run(&config);
    }
    cop__tls_destroy(config.tls);
    return code;
}

int cmd_agent(int argc, char **argv)
{
    struct options got = {.patience_ns = PATIENCE_NS};
    const struct args_option options[] = {
        {0, "members", "FILE", "who is in the cluster, and where", ARGS_TEXT,
         &got.members, 0, 0},
        {0, "id", "MEMBER", "which of them this is, by id or name", ARGS_TEXT, &got.id,
         0, 0},
        {0, "listen", "ADDRESS", "listen here, not where FILE says", ARGS_TEXT,
         &got.listen, 0, 0},
        {0, "command", "SOCKET", "take commands on this Unix socket", ARGS_TEXT,
         &got.command, 0, 0},
        {0, "incarnation", "N", "of this life; the time of day otherwise", ARGS_NUMBER,
         &got.incarnation, 1, UINT64_MAX - 1},
        {0, "first", NULL, "its first start: it is in the view that FILE describes",
         ARGS_FLAG, &got.first, 0, 0},
        {0, "state", "DIR", "--first the first time, as DIR remembers", ARGS_TEXT,
         &got.state, 0, 0},
        {0, "patience", "TIME", "with --first: so long others may take to start (30s)",
         ARGS_DURATION, &got.patience_ns, 0, 0},
        {0, "allow-exec", "LIST",
         "who may run commands: members, user:NAME, all or none", ARGS_TEXT,
         &got.allow_exec, 0, 0},
        SECURITY_OPTIONS(got.security),
        {0},
    };
    struct args args = {
        .name = "agent",
        .usage = "[--members FILE --id MEMBER] [options]",
        .text =
            "Runs one member of a cluster in the foreground, until SIGTERM or SIGINT.\n"
            "`coppice up` starts agents by itself. In a job of mpirun, srun or "
            "mpiexec\n"
            "neither FILE nor MEMBER is needed: the launcher knows the others, and %r\n"
            "in SOCKET becomes the rank.",
        .options = options,
    };
    struct cluster cluster;
    char message[400];
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.state != NULL && got.first)
        return fail(EXIT_USAGE, "agent: --first and --state exclude each other");
    code = exec_allow_check("agent", got.allow_exec);
    if (code)
        return code;
    if (got.members == NULL && got.id == NULL && got.listen == NULL &&
        cop_boot_is_there())
        return agent_boot(got.command, got.allow_exec);
    if (got.members == NULL || got.id == NULL)
        return fail(EXIT_USAGE,
                    "agent: --members and --id are needed (try: coppice help "
                    "agent)");
    if (cluster_open(got.members, false, &cluster, message, sizeof message))
        return fail(EXIT_USAGE, "%s", message);
    if (got.state != NULL)
        code = first_start(got.state, &cluster, &got.first);
    if (code == 0)
        code = run(&got, &cluster);
    cluster_close(&cluster);
    return code;
}
