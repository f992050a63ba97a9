/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts/up.h"

#include "ask/asker.h"
#include "exec/allow.h"
#include "hosts/run.h"
#include "net/tls/keys.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define CHECK_TIMEOUT_NS (60 * COP_SEC)

/* A start on its way. */
struct plan {
    const struct hosts_order *order;
    struct hosts hosts;
    struct hosts_list list;
    bool *is_out; /* by the place in the list: it failed */
    struct nodeset failed;
    char *members, *key; /* texts */
};

static const char *setting(const struct plan *plan, enum setting which)
{
    return plan->order->settings->at[which].value;
}

static int no_memory(void) { return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM)); }

/* One line, and the host is out. */
__attribute__((format(printf, 3, 4))) static int lose(struct plan *plan, uint32_t i,
                                                      const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    complain("%s: %s", plan->list.items[i].name, text);
    plan->is_out[i] = true;
    return nodeset_add(&plan->failed, plan->list.items[i].name) ? no_memory() : 0;
}

/* ---- the list -------------------------------------------------------------------- */

static int read_list(struct plan *plan)
{
    char message[400];
    uint64_t port = 0;
    if (parse_number(setting(plan, SETTING_port), 1, UINT16_MAX, &port) != 0)
        return fail(EXIT_USAGE, "up: --port is a number from 1 to 65535");
    if (ssh_parse(setting(plan, SETTING_ssh), &plan->hosts.ssh, message,
                  sizeof message) != 0)
        return fail(EXIT_USAGE, "up: --ssh: %s", message);
    snprintf(plan->hosts.remote, sizeof plan->hosts.remote, "%s",
             setting(plan, SETTING_remote));
    int error =
        hosts_list_read(setting(plan, SETTING_hosts), setting(plan, SETTING_user),
                        (uint16_t)port, &plan->list, message, sizeof message);
    if (error)
        return fail(EXIT_USAGE, "up: --hosts: %s", message);
    plan->is_out = calloc(plan->list.count, sizeof *plan->is_out);
    return plan->is_out ? 0 : no_memory();
}

/*
 * As this machine resolves the names. A name that only ssh knows, or that means the machine
 * itself, is left to the host: it knows by which address ssh came.
 */
static void resolve_all(struct plan *plan)
{
    char ignored[200];
    for (uint32_t i = 0; i < plan->list.count; i++) {
        struct host *host = &plan->list.items[i];
        if (host->address[0] == '\0' &&
            host_resolve(host, ignored, sizeof ignored) == 0 &&
            host_is_loopback(host->address))
            host->address[0] = '\0';
    }
}

/* ---- the first round: can they? -------------------------------------------------- */

/*
 * The version, then whether a member could start. An older command without `host` has said
 * its version by then.
 */
static char *check_command(const struct plan *plan, const struct host *host)
{
    char where[160], *text = NULL;
    size_t length = 0;
    const char *remote = plan->hosts.remote;
    snprintf(where, sizeof where, ":%u", host->port);
    if (host->address[0] != '\0')
        host_address(host, where, sizeof where);
    const char *const version[] = {remote, "--version", NULL};
    const char *const check[] = {remote,     "host", "check", plan->hosts.name,
                                 host->name, where,  NULL};
    char *first = ssh_quote(version), *second = ssh_quote(check);
    FILE *out = first && second ? open_memstream(&text, &length) : NULL;
    if (out != NULL) {
        fprintf(out, "%s && %s", first, second);
        fclose(out);
    }
    free(first);
    free(second);
    return text;
}

/* "tcp:10.0.0.1:7640", as the host says it, to the number in it. */
static int take_address(struct host *host, const char *text)
{
    const char *start = text + 4, *end = strrchr(text, ':');
    if (strncmp(text, "tcp:", 4) != 0 || end <= start)
        return COP_EINVAL;
    if (*start == '[' && end[-1] == ']') {
        start++;
        end--;
    }
    if (end - start >= (ptrdiff_t)sizeof host->address)
        return COP_EINVAL;
    snprintf(host->address, sizeof host->address, "%.*s", (int)(end - start), start);
    return 0;
}

/* Users at the hosts may run commands there: they could anyway. */
static int allow_user(struct nodeset *users, const char *user)
{
    return nodeset_add(users, user) == COP_ENOMEM ? no_memory() : 0;
}

static int judge_check(struct plan *plan, uint32_t i, const struct ssh_job *job,
                       struct nodeset *users)
{
    char version[64], user[64], where[160];
    bool is_ours = strncmp(job->error, "coppice: ", 9) == 0;
    const char *error = job->error + (is_ours ? 9 : 0);
    if (job->status == SSH_STATUS_FAILED)
        return lose(plan, i, "not reached: %s", error);
    if (job->status == 127 || job->status == 126)
        return lose(plan, i, "there is no %s there (%s): install it, or see --remote",
                    plan->hosts.remote, error);
    if (job->status == 0 &&
        sscanf(job->output, HOST_CHECK_SCAN, version, user, where) == 3 &&
        take_address(&plan->list.items[i], where) == 0)
        return strcmp(version, COPPICE_VERSION) == 0
                   ? allow_user(users, user)
                   : lose(plan, i, "it has another version, %s", version);
    if (job->status == 0 || strncmp(job->output, "coppice ", 8) == 0)
        return lose(plan, i, "%s", job->status == 0 ? "it says nothing of use" : error);
    return lose(plan, i, "%s is not what was expected: %s", plan->hosts.remote, error);
}

/* The same version everywhere, or nothing starts: all who have another are in one line. */
static int check_versions(struct plan *plan, const struct ssh_job *jobs)
{
    struct nodeset others = {0};
    char seen[64] = "";
    int error = 0;
    for (uint32_t i = 0; i < plan->list.count && error == 0; i++) {
        char version[64] = "";
        bool is_said = sscanf(jobs[i].first, "coppice %63s", version) == 1;
        if (!is_said || strcmp(version, COPPICE_VERSION) == 0)
            continue;
        snprintf(seen, sizeof seen, "%s", version);
        plan->is_out[i] = true;
        error = nodeset_add(&others, plan->list.items[i].name);
        if (error == 0)
            error = nodeset_add(&plan->failed, plan->list.items[i].name);
    }
    char *names = error == 0 && others.count > 0 ? nodeset_fold(&others) : NULL;
    if (names != NULL)
        complain("another version of coppice than %s here: %s (%s%s)", COPPICE_VERSION,
                 names, others.count > 1 ? "for one " : "", seen);
    free(names);
    nodeset_free(&others);
    return error ? no_memory() : 0;
}

static int print_allowed(struct plan *plan, const struct nodeset *users)
{
    char *out = plan->hosts.allow_exec;
    size_t size = sizeof plan->hosts.allow_exec, used;
    if (plan->order->allow_exec != NULL || plan->order->is_insecure) {
        snprintf(out, size, "%s",
                 plan->order->allow_exec ? plan->order->allow_exec : "none");
        return 0;
    }
    used = (size_t)snprintf(out, size, "user:root");
    for (uint32_t i = 0; i < users->count; i++) {
        if (strcmp(users->names[i], "root") == 0)
            continue;
        int more = snprintf(out + used, size - used, ",user:%s", users->names[i]);
        if (more < 0 || (size_t)more >= size - used)
            return fail(EXIT_USAGE, "up: too many users: give --allow-exec");
        used += (size_t)more;
    }
    return 0;
}

static int check_all(struct plan *plan)
{
    uint32_t count = plan->list.count;
    struct nodeset users = {0};
    struct ssh_job *jobs = calloc(count, sizeof *jobs);
    int code = jobs ? 0 : no_memory();
    for (uint32_t i = 0; i < count && code == 0; i++) {
        jobs[i].user = plan->list.items[i].user;
        jobs[i].host = plan->list.items[i].host;
        jobs[i].command = check_command(plan, &plan->list.items[i]);
        if (jobs[i].command == NULL)
            code = no_memory();
    }
    int error = code == 0 ? ssh_run(&plan->hosts.ssh, jobs, count, plan->hosts.fanout,
                                    CHECK_TIMEOUT_NS, "hosts checked")
                          : 0;
    if (error)
        code = error == COP_EABORTED ? fail(EXIT_CANCELLED, "interrupted: nothing was "
                                                            "started")
                                     : fail(EXIT_FAILED, "%s", cop_strerror(error));
    if (code == 0)
        code = check_versions(plan, jobs);
    for (uint32_t i = 0; i < count && code == 0; i++)
        if (!plan->is_out[i])
            code = judge_check(plan, i, &jobs[i], &users);
    if (code == 0)
        code = print_allowed(plan, &users);
    nodeset_free(&users);
    ssh_jobs_free(jobs, count);
    return code;
}

/* ---- the file of members --------------------------------------------------------- */

/* Without those that are out. */
static void drop_lost(struct plan *plan)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->list.count; i++)
        if (!plan->is_out[i])
            plan->list.items[kept++] = plan->list.items[i];
    plan->list.count = kept;
    memset(plan->is_out, 0, kept * sizeof *plan->is_out);
}

/* What would be found out later, at a host, and be harder to understand. */
static int check_addresses(const struct plan *plan)
{
    uint32_t loops = 0;
    const struct host *loop = NULL;
    for (uint32_t i = 0; i < plan->list.count; i++) {
        const struct host *host = &plan->list.items[i];
        if (host->address[0] == '\0')
            return fail(EXIT_FAILED,
                        "%s: it has no address: give it one with address=IP "
                        "in a file of hosts",
                        host->name);
        if (host_is_loopback(host->address)) {
            loop = host;
            loops++;
        }
        for (uint32_t k = 0; k < i; k++)
            if (plan->list.items[k].port == host->port &&
                strcmp(plan->list.items[k].address, host->address) == 0)
                return fail(
                    EXIT_USAGE,
                    "up: %s and %s would both listen on %s port %u: give one of "
                    "them another, as HOST:PORT in a file of hosts",
                    plan->list.items[k].name, host->name, host->address, host->port);
    }
    if (loops > 0 && loops < plan->list.count)
        return fail(EXIT_FAILED,
                    "%s: others cannot reach its address %s: give it another with "
                    "address=IP in a file of hosts",
                    loop->name, loop->address);
    return 0;
}

static uint64_t time_of_day(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * COP_SEC + (uint64_t)now.tv_nsec;
}

/* A machine without power is silent: on hosts the ring is on unless somebody says so. */
static const char *detector_of(const struct plan *plan)
{
    bool is_default =
        strcmp(plan->order->settings->at[SETTING_detector].origin, "default") == 0;
    return is_default ? "ring:100ms,witnesses:2" : setting(plan, SETTING_detector);
}

static int write_members(struct plan *plan)
{
    uint8_t id[16];
    size_t length = 0;
    uint64_t instance = time_of_day();
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
        return fail(EXIT_FAILED, "no random numbers: %s", strerror(errno));
    FILE *out = open_memstream(&plan->members, &length);
    if (out == NULL)
        return no_memory();
    fputs("cluster ", out);
    for (int i = 0; i < 16; i++)
        fprintf(out, "%02x", id[i]);
    fprintf(out,
            "\ninstance %" PRIu64 "\nfirst %" PRIu64
            "\nshape %s\nquorum %s\ndetector %s\nguard %s\n",
            instance, instance, setting(plan, SETTING_shape),
            setting(plan, SETTING_quorum), detector_of(plan),
            setting(plan, SETTING_guard));
    for (uint32_t i = 0; i < plan->list.count; i++) {
        char where[160];
        host_address(&plan->list.items[i], where, sizeof where);
        fprintf(out, "%" PRIu32 " %s %s\n", i, plan->list.items[i].name, where);
    }
    return fclose(out) == 0 ? 0 : no_memory();
}

/* A quorum of somebody who is not there is found here, and not at every host. */
static int check_members(const struct plan *plan)
{
    struct cluster cluster;
    char message[400];
    if (cluster_read("up", plan->members, strlen(plan->members), &cluster, message,
                     sizeof message) != 0)
        return fail(EXIT_USAGE, "%s", message);
    cluster_close(&cluster);
    return 0;
}

/* ---- the key --------------------------------------------------------------------- */

static void print_key(FILE *out, const char *what, const struct cop__key *key)
{
    fprintf(out, "%s ", what);
    for (size_t i = 0; i < sizeof key->bytes; i++)
        fprintf(out, "%02x", key->bytes[i]);
    fputc('\n', out);
}

/* A new one, or that of the setting; as the text of a file. */
static int make_key(struct plan *plan)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    const char *path = setting(plan, SETTING_key);
    char message[400];
    size_t length = 0;
    if (plan->order->is_insecure)
        return 0;
    if (path[0] == '\0' && cop__key_make(&keys.use) != 0)
        return fail(EXIT_FAILED, "there are no random numbers");
    if (path[0] != '\0' && cop__keys_read(path, &keys, message, sizeof message) != 0)
        return fail(EXIT_FAILED, "%s", message);
    FILE *out = open_memstream(&plan->key, &length);
    if (out != NULL) {
        print_key(out, "use", &keys.use);
        if (keys.step != COP__KEYS_ALONE)
            print_key(out, keys.step == COP__KEYS_NEXT ? "next" : "former",
                      &keys.other);
    }
    cop__keys_wipe(&keys);
    return out != NULL && fclose(out) == 0 ? 0 : no_memory();
}

/* ---- the second round: they do --------------------------------------------------- */

static int fill_ways(struct plan *plan)
{
    struct hosts *hosts = &plan->hosts;
    hosts->ways = calloc(plan->list.count, sizeof *hosts->ways);
    if (hosts->ways == NULL)
        return no_memory();
    for (uint32_t i = 0; i < plan->list.count; i++) {
        hosts->ways[i].user = strdup(plan->list.items[i].user);
        hosts->ways[i].host = strdup(plan->list.items[i].host);
        hosts->count++;
        if (hosts->ways[i].user == NULL || hosts->ways[i].host == NULL)
            return no_memory();
    }
    return 0;
}

static void free_inputs(char **inputs, uint32_t count)
{
    for (uint32_t i = 0; i < count && inputs; i++) {
        if (inputs[i] != NULL)
            explicit_bzero(inputs[i], strlen(inputs[i]));
        free(inputs[i]);
    }
    free(inputs);
}

static char **encode_starts(const struct plan *plan)
{
    char **inputs = calloc(plan->list.count, sizeof *inputs);
    for (uint32_t i = 0; i < plan->list.count && inputs; i++) {
        const struct host_start start = {.id = i,
                                         .is_first = true,
                                         .is_insecure = plan->order->is_insecure,
                                         .patience_ns = plan->order->patience_ns,
                                         .allow_exec = plan->hosts.allow_exec,
                                         .members = plan->members,
                                         .key = plan->key};
        inputs[i] = host_start_encode(&start);
        if (inputs[i] == NULL) {
            free_inputs(inputs, plan->list.count);
            return NULL;
        }
    }
    return inputs;
}

/* *all: their ids; those that failed are out. */
static int start_all(struct plan *plan, struct cop_ranks *all)
{
    uint32_t count = plan->list.count;
    const char **names = calloc(count, sizeof *names);
    char **inputs = encode_starts(plan);
    bool cancelled = false;
    int code = names && inputs ? 0 : no_memory();
    for (uint32_t i = 0; i < count && code == 0; i++) {
        names[i] = plan->list.items[i].name;
        if (cop_ranks_push(all, i) != 0)
            code = no_memory();
    }
    struct ssh_job *jobs = code == 0 ? hosts_do(&plan->hosts, names, all, "start", NULL,
                                                inputs, &cancelled)
                                     : NULL;
    if (code == 0 && jobs == NULL)
        code = EXIT_FAILED;
    for (uint32_t i = 0; i < count && code == 0 && !cancelled; i++) {
        const char *error = jobs[i].error;
        if (jobs[i].status != 0)
            code = lose(plan, i, "%s%s",
                        jobs[i].status == SSH_STATUS_FAILED ? "not reached: " : "",
                        error + (strncmp(error, "coppice: ", 9) == 0 ? 9 : 0));
    }
    if (cancelled)
        code = fail(EXIT_CANCELLED, "interrupted: what was started is stopped");
    ssh_jobs_free(jobs, jobs ? count : 0);
    free_inputs(inputs, count);
    free(names);
    return code;
}

/* ---- and are they? --------------------------------------------------------------- */

/* Who failed to start is waited for by the others, unless somebody tells them. */
static int report_lost(const struct plan *plan, struct client *client)
{
    int error = 0;
    for (uint32_t i = 0; i < plan->list.count && !error; i++) {
        struct report_command command = {.member = i};
        struct client_reply reply;
        if (!plan->is_out[i])
            continue;
        snprintf(command.why, sizeof command.why, "it could not be started");
        struct cop_buf *body = report_command_encode(&command);
        error = body ? client_call(client, VERB_REPORT, body, 10 * COP_SEC, &reply)
                     : COP_ENOMEM;
        cop_buf_unref(body);
    }
    return error;
}

/* A probe that goes through all of them: it ends when everybody has answered. */
static int await_all(const struct plan *plan, const struct local *local)
{
    const struct probe_command command = {.count = 1,
                                          .timeout_ns = plan->order->patience_ns};
    struct client client;
    struct asker asker;
    uint32_t first = 0, alive = 0, answered = 0;
    while (first < plan->list.count && plan->is_out[first])
        first++;
    for (uint32_t i = 0; i < plan->list.count; i++)
        alive += !plan->is_out[i];
    int error = hosts_connect(local, first, &client);
    if (error)
        return fail(EXIT_FAILED, "%s: the agent that was just started is gone",
                    plan->list.items[first].name);
    error = report_lost(plan, &client);
    if (!error)
        error = asker_run(&client, &command, NULL, NULL, &asker);
    client_close(&client);
    if (!error) {
        answered = asker.count > 0 ? asker.samples[asker.count - 1].answered : 0;
        asker_free(&asker);
    }
    if (error)
        return fail(EXIT_FAILED, "the members do not find each other: %s",
                    cop_strerror(error));
    return answered >= alive
               ? 0
               : fail(EXIT_FAILED,
                      "only %" PRIu32 " of %" PRIu32
                      " members found each other: can they connect to each other's "
                      "addresses, and to port %u?",
                      answered, alive, plan->list.items[first].port);
}

/* ---- all of it ------------------------------------------------------------------- */

/* After the second round, whatever came of it. */
static int settle(struct plan *plan, const struct cop_ranks *all, int code,
                  struct hosts_result *out)
{
    struct local local;
    uint32_t lost = 0;
    int opened = hosts_local(plan->hosts.name, &local);
    if (opened)
        return opened;
    for (uint32_t i = 0; i < plan->list.count; i++)
        lost += plan->is_out[i];
    bool goes_on =
        code == 0 && lost < plan->list.count && (lost == 0 || plan->order->keep_going);
    if (goes_on) {
        code = await_all(plan, &local);
        goes_on = code == 0 || plan->order->keep_going;
    }
    if (goes_on) {
        out->members = plan->list.count - lost;
    } else {
        /* Both say themselves what went wrong; the start has failed already. */
        if (hosts_stop(&local, all) == 0)
            (void)hosts_remove(&plan->hosts);
        else
            complain("what is left is removed by: coppice down --name %s",
                     plan->hosts.name);
        if (code == 0)
            code = EXIT_FAILED;
    }
    local_close(&local);
    return code;
}

static int prepare(struct plan *plan)
{
    int code = read_list(plan);
    if (code)
        return code;
    resolve_all(plan);
    if (!plan->order->print)
        code = check_all(plan);
    if (code)
        return code;
    if (plan->failed.count > 0 && !plan->order->keep_going)
        return fail(EXIT_FAILED, "nothing was started; --keep-going starts the others");
    drop_lost(plan);
    if (plan->list.count == 0)
        return fail(EXIT_FAILED, "no host is left");
    code = check_addresses(plan);
    if (code == 0)
        code = write_members(plan);
    return code ? code : check_members(plan);
}

static int run(struct plan *plan, struct hosts_result *out)
{
    struct cop_ranks all = {0};
    int code = prepare(plan);
    if (code == 0 && plan->order->print) {
        fputs(plan->members, stdout);
        return 0;
    }
    if (code == 0)
        code = make_key(plan);
    if (code == 0)
        code = fill_ways(plan);
    if (code == 0)
        code = hosts_create(&plan->hosts, plan->members, plan->key);
    if (code == 0) {
        code = start_all(plan, &all);
        code = settle(plan, &all, code, out);
    }
    cop_ranks_free(&all);
    return code;
}

int hosts_up(const struct hosts_order *order, struct hosts_result *out)
{
    struct plan plan = {.order = order, .hosts = {.fanout = order->fanout}};
    const char *name = settings_name(order->settings);
    *out = (struct hosts_result){0};
    int code = hosts_path(name, &plan.hosts);
    if (code == 0 && !order->print && (hosts_is(name) || dir_is_live(name)))
        code = fail(EXIT_FAILED,
                    "cluster '%s' is already up; choose another --name, or: coppice "
                    "down --name %s",
                    name, name);
    if (code == 0)
        code = run(&plan, out);
    if (plan.failed.count > 0) {
        out->failed = nodeset_fold(&plan.failed);
        code = code ? code : EXIT_FAILED;
    }
    if (plan.key != NULL)
        explicit_bzero(plan.key, strlen(plan.key));
    free(plan.key);
    free(plan.members);
    free(plan.is_out);
    nodeset_free(&plan.failed);
    hosts_list_free(&plan.list);
    hosts_close(&plan.hosts);
    return code;
}
