/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/local.h"

#include "ask/survey.h"
#include "cluster/crew.h"
#include "hosts/run.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#define CALL_TIMEOUT_NS (5 * COP_SEC)
#define STATUS_TIMEOUT_NS (2 * COP_SEC)
/* More than a broadcast takes at most. */
#define GROUPS_TIMEOUT_NS (10 * COP_SEC)
#define PROBE_TIMEOUT_NS COP_SEC /* to find out who does not answer */
#define RESTART_TIMEOUT_NS (60 * COP_SEC)
#define DOWN_TIMEOUT_NS (30 * COP_SEC)
/* From the lock of a cluster that starts to its keeper. */
#define KEEPER_TIMEOUT_NS (10 * COP_SEC)

int local_settings(struct settings *settings, const char *name_flag)
{
    const char *flags[SETTINGS_COUNT] = {NULL};
    flags[SETTING_name] = name_flag;
    return settings_load(settings, flags);
}

/* Four more processes are on the way to another host, and all of them want a processor. */
cop_time local_patience(const struct local *local, cop_time here_ns)
{
    return local != NULL && local->hosts != NULL ? 10 * here_ns : here_ns;
}

static int open_keeper(const struct dir *dir, struct client *out)
{
    char path[DIR_PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/%s", dir->path, KEEPER_SOCKET);
    return client_open(path, out);
}

/* Those who joined later are known to the keeper, and not to the file. */
static int add_extras(struct local *local)
{
    struct cluster *cluster = &local->cluster;
    struct client_reply reply;
    struct list_reply list;
    int code = local_call(local, VERB_LIST, NULL, CALL_TIMEOUT_NS, &reply);
    if (code)
        return code;
    if (list_reply_decode(reply.body, &list) != 0)
        return fail(EXIT_FAILED, "the keeper of '%s' says something unintelligible",
                    local->dir.name);
    uint32_t count = list.count > cluster->n ? list.count - cluster->n : 0;
    cluster->extras = count ? calloc(count, sizeof *cluster->extras) : NULL;
    for (uint32_t i = 0; cluster->extras && i < count; i++) {
        const struct member_status *status = &list.members[cluster->n + i];
        struct cluster_extra *extra = &cluster->extras[i];
        extra->id = status->id;
        snprintf(extra->name, sizeof extra->name, "%s", status->name);
        snprintf(extra->address, sizeof extra->address, "%s", status->address);
    }
    cluster->extra_count = cluster->extras ? count : 0;
    list_reply_free(&list);
    return 0;
}

int local_open(const char *name, struct local *out)
{
    char path[DIR_PATH_SIZE + 16], message[300];
    struct local local = {.keeper = {.fd = -1}};
    if (hosts_is(name))
        return hosts_local(name, out);
    int code = dir_open_needed(name, &local.dir);
    if (code)
        return code;
    snprintf(path, sizeof path, "%s/%s", local.dir.path, CLUSTER_FILE);
    /*
     * Between its first moments and its last the directory may be there without the
     * rest.
     */
    int error = open_keeper(&local.dir, &local.keeper);
    if (error == COP_ENOENT)
        return fail(EXIT_NO_CLUSTER, "cluster '%s' is just starting or ending", name);
    if (error)
        return fail(EXIT_FAILED, "the keeper of '%s' cannot be reached: %s", name,
                    cop_strerror(error));
    if (cluster_open(path, true, &local.cluster, message, sizeof message) != 0) {
        client_close(&local.keeper);
        return fail(EXIT_FAILED, "%s", message);
    }
    *out = local;
    code = add_extras(out);
    if (code)
        local_close(out);
    return code;
}

void local_close(struct local *local)
{
    client_close(&local->keeper);
    cluster_close(&local->cluster);
    if (local->hosts != NULL)
        hosts_close(local->hosts);
    free(local->hosts);
    local->hosts = NULL;
}

/* What came of a call to the keeper: 0, or EXIT_FAILED after one line. */
static int explain_keeper(const struct local *local, int error)
{
    if (error == 0)
        return 0;
    if (error == COP_ETIMEDOUT)
        return fail(EXIT_FAILED, "the keeper of '%s' (pid %d) does not answer",
                    local->dir.name, (int)client_peer(&local->keeper));
    if (error == COP_EAGAIN)
        return fail(EXIT_FAILED, "another command is restarting members of '%s'",
                    local->dir.name);
    return fail(EXIT_FAILED, "the keeper of '%s': %s", local->dir.name,
                cop_strerror(error));
}

int local_call(struct local *local, enum verb verb, const struct cop_buf *body,
               cop_time timeout_ns, struct client_reply *out)
{
    if (local->hosts != NULL)
        return fail(EXIT_USAGE, "cluster '%s' is on hosts, where this is not possible",
                    local->dir.name);
    int error = client_call(&local->keeper, verb, body, timeout_ns, out);
    return explain_keeper(local, error ? error : out->status);
}

int local_list(struct local *local, struct list_reply *out)
{
    struct client_reply reply;
    if (local->hosts != NULL)
        return hosts_list(local, out);
    int code = local_call(local, VERB_LIST, NULL, CALL_TIMEOUT_NS, &reply);
    if (code)
        return code;
    if (list_reply_decode(reply.body, out) != 0)
        return fail(EXIT_FAILED, "the keeper of '%s' says something unintelligible",
                    local->dir.name);
    /* Somebody may have joined since. */
    if (out->count >= cluster_count(&local->cluster))
        return 0;
    list_reply_free(out);
    return fail(EXIT_FAILED, "the keeper of '%s' and its file disagree",
                local->dir.name);
}

/* The same in silence, and by a connection of its own: the keeper may be busy with the first. */
static bool look(const struct local *local, struct list_reply *out)
{
    struct client client;
    struct client_reply reply;
    if (local->hosts != NULL || open_keeper(&local->dir, &client) != 0)
        return false;
    bool is_good =
        client_call(&client, VERB_LIST, NULL, CALL_TIMEOUT_NS, &reply) == 0 &&
        reply.status == 0 && list_reply_decode(reply.body, out) == 0;
    client_close(&client);
    return is_good;
}

bool local_has_left(const struct member_status *status)
{
    return status->state == MEMBER_DEAD && status->wait_status == 0 &&
           status->incarnation != 0;
}

/* *is_partial: some did not answer, and what the others know is there. */
static int read_groups(struct client *client, struct groups *out, bool *is_partial)
{
    struct client_reply reply;
    struct progress progress;
    progress_begin(&progress);
    int error = client_send(client, VERB_GROUPS, NULL);
    cop_time begun = now_ns(), passed = 0;
    while (!error && passed < GROUPS_TIMEOUT_NS && !client_is_ready(client, COP_SEC)) {
        passed = now_ns() - begun;
        progress_show(&progress, "asking all members for groups, seconds",
                      passed / COP_SEC, 0);
    }
    if (!error)
        error = client_receive(client, COP_SEC, &reply);
    progress_end(&progress);
    *is_partial = !error && reply.status == COP_ETIMEDOUT && reply.body.length > 0;
    if (!error && !*is_partial)
        error = reply.status;
    return error ? error : groups_decode(reply.body, out);
}

int client_groups(struct client *client, struct groups *out)
{
    bool is_partial;
    int error = read_groups(client, out, &is_partial);
    if (error || !is_partial)
        return error;
    groups_free(out);
    return COP_ETIMEDOUT;
}

/* Who does not answer, of which nobody has to ask twice. */
static void name_silent(struct client *client, const struct cluster *cluster,
                        const char *command, const char *what)
{
    char *silent = survey_silent(client, cluster, PROBE_TIMEOUT_NS);
    complain("%s: no answer from %s: %s", command, silent ? silent : "some members",
             what);
    free(silent);
}

int client_expand(struct client *client, const struct cluster *cluster,
                  const char *command, char *const *texts, int count, char **out)
{
    struct groups groups;
    char message[200];
    bool is_partial;
    int code = 0;
    int error = read_groups(client, &groups, &is_partial);
    if (error == COP_ETIMEDOUT)
        name_silent(client, cluster, command, "groups are not known");
    else if (error)
        complain("%s: no groups: %s", command, cop_strerror(error));
    if (error)
        return EXIT_FAILED;
    if (is_partial)
        name_silent(client, cluster, command, "groups are as the others know them");
    for (int i = 0; i < count && code == 0; i++) {
        out[i] = groups_expand(&groups, texts[i], message, sizeof message);
        if (out[i] == NULL)
            code = fail(EXIT_USAGE, "%s: %s", command, message);
    }
    groups_free(&groups);
    return code;
}

static int select_plain(const struct local *local, const char *command,
                        char *const *texts, int count, struct cop_ranks *out)
{
    char message[300];
    if (cluster_select(&local->cluster, texts, count, out, message, sizeof message) !=
        0)
        return fail(EXIT_USAGE, "%s: %s", command, message);
    return 0;
}

/* Groups are known to the members; any of them will do. */
static int expand_all(const struct local *local, const char *command,
                      char *const *texts, int count, char **out)
{
    struct client client;
    struct roll roll;
    int code = local_connect_any(local, &client, &roll);
    if (code)
        return code;
    roll_free(&roll);
    code = client_expand(&client, &local->cluster, command, texts, count, out);
    client_close(&client);
    return code;
}

static int select_groups(const struct local *local, const char *command,
                         char *const *texts, int count, struct cop_ranks *out)
{
    char **expanded = calloc((size_t)count, sizeof *expanded);
    int code = expanded ? expand_all(local, command, texts, count, expanded)
                        : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0)
        code = select_plain(local, command, expanded, count, out);
    for (int i = 0; i < count && expanded; i++)
        free(expanded[i]);
    free(expanded);
    return code;
}

int local_select(const struct local *local, const char *command, char *const *texts,
                 int count, struct cop_ranks *out)
{
    bool has_groups = false;
    for (int i = 0; i < count; i++)
        has_groups |= strchr(texts[i], '@') != NULL;
    int code = has_groups ? select_groups(local, command, texts, count, out)
                          : select_plain(local, command, texts, count, out);
    /* To do nothing would look like success. */
    if (code == 0 && count > 0 && out->count == 0)
        code = fail(EXIT_USAGE, "%s: '%s'%s is nobody", command, texts[0],
                    count > 1 ? " with what follows" : "");
    return code;
}

int local_connect(const struct local *local, cop_id id, struct client *out)
{
    char path[DIR_PATH_SIZE + 24];
    if (local->hosts != NULL)
        return hosts_connect(local, id, out);
    snprintf(path, sizeof path, "%s/" CREW_COMMAND_NAME, local->dir.path, id);
    return client_open(path, out);
}

int client_roll(struct client *client, uint64_t known, cop_time timeout_ns,
                struct roll *out)
{
    struct client_reply reply;
    struct cop_buf *body = number_encode(known);
    if (body == NULL)
        return COP_ENOMEM;
    int error = client_call(client, VERB_VIEW, body, timeout_ns, &reply);
    cop_buf_unref(body);
    if (!error)
        error = reply.status;
    return error ? error : roll_decode(reply.body, out);
}

int local_roll(const struct local *local, cop_id id, struct roll *out)
{
    struct client client;
    int error = local_connect(local, id, &client);
    if (error)
        return error;
    error = client_roll(&client, 0, local_patience(local, STATUS_TIMEOUT_NS), out);
    client_close(&client);
    return error;
}

/* Those of whom the keeper knows that they cannot answer; NULL: it knows of nobody. */
static bool *find_stopped(const struct local *local, uint32_t count)
{
    struct list_reply list;
    if (!look(local, &list))
        return NULL;
    bool *stopped = calloc(count, sizeof *stopped);
    for (uint32_t i = 0; stopped && i < count && i < list.count; i++)
        stopped[i] = list.members[i].state == MEMBER_STOPPED;
    list_reply_free(&list);
    return stopped;
}

/* One member: true if it is in the view. COP_ETIMEDOUT if it takes connections and says nothing. */
static bool try_one(const struct local *local, cop_id id, struct client *out,
                    struct roll *roll, int *error)
{
    *error = local_connect(local, id, out);
    if (*error)
        return false;
    *error = client_roll(out, 0, local_patience(local, STATUS_TIMEOUT_NS), roll);
    if (*error == 0 && roll->is_member)
        return true;
    if (*error == 0)
        roll_free(roll);
    client_close(out);
    return false;
}

bool local_find(const struct local *local, struct client *out, struct roll *roll,
                cop_id *slot)
{
    uint32_t count = cluster_count(&local->cluster);
    cop_id first = local->hosts ? hosts_preferred(local->hosts) : 0;
    bool *stopped = NULL, has_looked = false, found = false;
    for (uint32_t i = 0; i < count && !found; i++) {
        cop_id id = (first + i) % count;
        int error;
        if (stopped && stopped[id])
            continue;
        found = try_one(local, id, out, roll, &error);
        *slot = found ? id : *slot;
        if (found && local->hosts != NULL && id != first)
            hosts_prefer(local->hosts, id);
        /* The silence of one is paid for; that of all who are stopped with it is not. */
        if (error == COP_ETIMEDOUT && !has_looked)
            stopped = find_stopped(local, count);
        has_looked |= error == COP_ETIMEDOUT;
    }
    free(stopped);
    return found;
}

int local_nobody(const struct local *local)
{
    const char *name = local->dir.name;
    struct list_reply list = {0};
    struct cop_ranks stopped = {0};
    uint32_t living = 0;
    char *names = NULL;
    bool is_known = look(local, &list);
    for (uint32_t i = 0; is_known && i < list.count; i++) {
        living += list.members[i].state != MEMBER_DEAD;
        if (list.members[i].state == MEMBER_STOPPED && cop_ranks_push(&stopped, i) != 0)
            break;
    }
    if (stopped.count > 0)
        names = cluster_fold(&local->cluster, stopped.items, stopped.count);
    int code;
    if (names != NULL)
        code = fail(EXIT_FAILED,
                    "no member of '%s' answers; first let those go on that are "
                    "stopped: coppice kill --name %s --signal CONT %s",
                    name, name, names);
    else
        code = fail(EXIT_NO_CLUSTER,
                    "no member of '%s' %s (see: coppice ps --name %s); end it with: "
                    "coppice down --name %s, and start it again",
                    name, living > 0 ? "is in the view" : "lives", name, name);
    free(names);
    cop_ranks_free(&stopped);
    if (is_known)
        list_reply_free(&list);
    return code;
}

int local_connect_any(const struct local *local, struct client *out, struct roll *roll)
{
    cop_id ignored;
    return local_find(local, out, roll, &ignored) ? 0 : local_nobody(local);
}

bool local_any_roll(const struct local *local, struct roll *out)
{
    struct client client;
    cop_id ignored;
    if (!local_find(local, &client, out, &ignored))
        return false;
    client_close(&client);
    return true;
}

char *local_status(const struct local *local, cop_id id)
{
    struct client client;
    struct client_reply reply;
    char *text = NULL;
    if (local_connect(local, id, &client) != 0)
        return NULL;
    if (client_call(&client, VERB_STATUS, NULL,
                    local_patience(local, STATUS_TIMEOUT_NS), &reply) == 0 &&
        reply.status == 0)
        text = strndup((const char *)reply.body.data, reply.body.length);
    client_close(&client);
    return text;
}

/* ---- signals --------------------------------------------------------------------- */

/* Whether the keeper has seen what the signal does, for all of them. */
static int has_settled(struct local *local, int number, const struct cop_ranks *ids,
                       bool *out)
{
    struct list_reply list;
    int code = local_list(local, &list);
    if (code)
        return code;
    *out = true;
    for (uint32_t i = 0; i < ids->count; i++) {
        enum member_state state = list.members[ids->items[i]].state;
        bool done = state == MEMBER_DEAD ||
                    (number == SIGSTOP && state == MEMBER_STOPPED) ||
                    (number == SIGCONT && state != MEMBER_STOPPED);
        *out = *out && done;
    }
    list_reply_free(&list);
    return 0;
}

static int wait_until_settled(struct local *local, int number,
                              const struct cop_ranks *ids)
{
    cop_time deadline = now_ns() + CALL_TIMEOUT_NS;
    for (bool settled = false; !settled;) {
        int code = has_settled(local, number, ids, &settled);
        if (code)
            return code;
        if (!settled && now_ns() > deadline)
            return fail(EXIT_FAILED, "the signal was sent, and nothing happened");
        if (!settled)
            poll(NULL, 0, 1);
    }
    return 0;
}

int local_signal(struct local *local, int number, const struct cop_ranks *ids)
{
    struct client_reply reply;
    struct cop_ranks dead = {0};
    uint32_t ignored;
    if (local->hosts != NULL)
        return hosts_signal(local, number, ids);
    struct cop_buf *body = ids_encode((uint32_t)number, ids->items, ids->count);
    if (body == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int code = local_call(local, VERB_SIGNAL, body, CALL_TIMEOUT_NS, &reply);
    cop_buf_unref(body);
    if (code)
        return code;
    if (ids_decode(reply.body, &ignored, &dead) != 0)
        return fail(EXIT_FAILED, "the keeper says something unintelligible");
    code = wait_until_settled(local, number, ids);
    if (code == 0 && dead.count > 0) {
        char *names = cluster_fold(&local->cluster, dead.items, dead.count);
        code = fail(EXIT_FAILED, "dead already: %s", names ? names : "?");
        free(names);
    }
    cop_ranks_free(&dead);
    return code;
}

/* ---- restarts -------------------------------------------------------------------- */

const char *local_way_out(const struct local *local, char out[LOCAL_WAY_OUT_SIZE])
{
    const char *name = local->dir.name;
    struct roll roll;
    bool has_view = local_any_roll(local, &roll);
    if (has_view && roll.is_degraded)
        snprintf(out, LOCAL_WAY_OUT_SIZE,
                 "those in the view go on with: coppice view --name %s --go-on %" PRIu64
                 "; or end it with: coppice down --name %s, and start it again",
                 name, cop_view_epoch(roll.view), name);
    else if (has_view && roll.held_total > 0)
        snprintf(out, LOCAL_WAY_OUT_SIZE,
                 "the guard holds removals: coppice view --name %s names them, coppice "
                 "report lets them go",
                 name);
    else
        snprintf(out, LOCAL_WAY_OUT_SIZE,
                 "end it with: coppice down --name %s, and start it again", name);
    if (has_view)
        roll_free(&roll);
    return out;
}

/* Why those that run are not in the view, and what to do: for what has no other reason, whoever
 * lives and does not take the next view holds it up. */
static void explain_waiting(const struct local *local, const char *names)
{
    char way_out[LOCAL_WAY_OUT_SIZE];
    struct client client;
    struct roll roll;
    char *silent = NULL;
    cop_id ignored;
    if (local_find(local, &client, &roll, &ignored)) {
        if (!roll.is_degraded && roll.held_total == 0)
            silent = survey_silent(&client, &local->cluster, PROBE_TIMEOUT_NS);
        client_close(&client);
        roll_free(&roll);
    }
    if (silent != NULL)
        complain("started, but not in the view: %s; no answer from %s, without which "
                 "the view does not change: continue it (coppice kill --name %s "
                 "--signal CONT %s), or end it (coppice kill --name %s %s)",
                 names, silent, local->dir.name, silent, local->dir.name, silent);
    else
        complain("started, but not in the view: %s; too few members are left to let "
                 "them in, or the guard holds removals: %s",
                 names, local_way_out(local, way_out));
    free(silent);
}

/* The keeper answers with those that did not come back, and those that are not let in. */
static int check_restart(const struct local *local, const struct client_reply *reply)
{
    struct restart_reply got;
    if (restart_reply_decode(reply->body, &got) != 0)
        return fail(EXIT_FAILED, "the keeper says something unintelligible");
    int code = 0;
    const struct cop_ranks *ids = got.failed.count > 0 ? &got.failed : &got.waiting;
    char *names = cluster_fold(&local->cluster, ids->items, ids->count);
    if (got.failed.count > 0) {
        code = fail(EXIT_FAILED, "could not be started: %s; see %s/log",
                    names ? names : "?", local->dir.path);
    } else if (got.waiting.count > 0) {
        explain_waiting(local, names ? names : "?");
        code = EXIT_REFUSED;
    }
    free(names);
    restart_reply_free(&got);
    return code;
}

/* How many of them are in the view again. */
static uint32_t count_back(const struct local *local, const struct cop_ranks *ids)
{
    struct list_reply list;
    uint32_t back = 0;
    if (!look(local, &list))
        return 0;
    for (uint32_t i = 0; i < ids->count; i++)
        back += ids->items[i] < list.count &&
                list.members[ids->items[i]].state == MEMBER_RUNNING;
    list_reply_free(&list);
    return back;
}

/* Says on a terminal for whom it waits. */
static int await_restart(struct local *local, const struct cop_ranks *ids,
                         struct client_reply *out)
{
    char *names = cluster_fold(&local->cluster, ids->items, ids->count);
    cop_time deadline = now_ns() + RESTART_TIMEOUT_NS;
    char what[120];
    struct progress progress;
    snprintf(what, sizeof what, "restart, waiting for %.80s to be let in",
             names ? names : "?");
    free(names);
    progress_begin(&progress);
    while (isatty(STDERR_FILENO) && now_ns() < deadline &&
           !client_is_ready(&local->keeper, COP_SEC))
        progress_show(&progress, what, count_back(local, ids), ids->count);
    progress_end(&progress);
    cop_time now = now_ns();
    int error =
        client_receive(&local->keeper, deadline > now ? deadline - now : 0, out);
    return error ? error : out->status;
}

int local_restart(struct local *local, const struct cop_ranks *ids)
{
    struct client_reply reply;
    if (local->hosts != NULL)
        return hosts_restart(local, ids);
    struct cop_buf *body = ids_encode(0, ids->items, ids->count);
    if (body == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int error = client_send(&local->keeper, VERB_RESTART, body);
    cop_buf_unref(body);
    if (!error)
        error = await_restart(local, ids, &reply);
    int code = explain_keeper(local, error);
    return code ? code : check_restart(local, &reply);
}

/* ---- the end --------------------------------------------------------------------- */

/* A handle on a process that cannot become another one's; -1 if it is gone already. */
static int hold(uint32_t pid) { return pid > 0 ? pidfd_open((pid_t)pid, 0) : -1; }

static bool has_ended(int pidfd)
{
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};
    int got;
    do
        got = poll(&wait, 1, (int)(CALL_TIMEOUT_NS / COP_MSEC));
    while (got < 0 && errno == EINTR);
    return got > 0;
}

/*
 * Until the process is gone. One that has nothing left to do and does not end, as a stopped
 * one, is killed: 0, or EXIT_FAILED after one line.
 */
static int wait_for_end(int pidfd, const char *who, const char *name)
{
    int code = 0;
    if (pidfd >= 0 && !has_ended(pidfd)) {
        code =
            fail(EXIT_FAILED, "the %s of '%s' does not end: it is killed", who, name);
        pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
        if (!has_ended(pidfd))
            complain("the %s of '%s' is still there", who, name);
    }
    if (pidfd >= 0)
        close(pidfd);
    return code;
}

static int does_not_end(const struct dir *dir)
{
    return fail(EXIT_FAILED,
                "cluster '%s' does not end: a process that does not answer holds "
                "%s/lock; end whom `fuser -v %s/lock` names, and try again",
                dir->name, dir->path, dir->path);
}

/* Until nobody holds the directory's lock: the janitor is the last. */
static int wait_until_gone(const struct dir *dir)
{
    cop_time deadline = now_ns() + CALL_TIMEOUT_NS;
    while (dir_is_live(dir->name)) {
        if (now_ns() > deadline)
            return does_not_end(dir);
        poll(NULL, 0, 5);
    }
    return 0;
}

/*
 * The keeper of a cluster that may be just starting, when there is a lock and no keeper yet, or
 * just ending. 0; or, without a keeper, -1 when it has ended by itself; or an exit code.
 */
static int await_keeper(const struct dir *dir, struct client *out)
{
    cop_time deadline = now_ns() + KEEPER_TIMEOUT_NS;
    while (open_keeper(dir, out) != 0) {
        if (!dir_is_live(dir->name))
            return -1;
        if (now_ns() > deadline)
            return does_not_end(dir);
        poll(NULL, 0, 1);
    }
    return 0;
}

static pid_t parent_of(pid_t pid)
{
    char path[32], line[128];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    while (parent == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "PPid: %d", &parent) == 1)
            break;
    fclose(file);
    return parent;
}

/*
 * A keeper that does not answer (somebody stopped it) is killed: its members die with
 * it, and the janitor removes the rest, once it runs.
 */
static int force_down(const struct client *keeper, const struct dir *dir)
{
    const char *name = dir->name;
    pid_t pid = client_peer(keeper);
    pid_t janitor = pid > 0 ? parent_of(pid) : 0;
    if (pid <= 0)
        return fail(EXIT_FAILED, "the keeper of '%s' does not answer", name);
    complain("the keeper of '%s' (pid %d) does not answer: killed", name, (int)pid);
    kill(pid, SIGKILL);
    if (janitor > 1)
        kill(janitor, SIGCONT);
    int code = wait_until_gone(dir);
    return code ? code : EXIT_FAILED;
}

static int compare_ids(const void *a, const void *b)
{
    cop_id x = *(const cop_id *)a, y = *(const cop_id *)b;
    return (x > y) - (x < y);
}

/* Members that did not end when they were told to point to a bug: say so. */
static int check_unclean(const struct client_reply *reply)
{
    struct down_reply down;
    if (down_reply_decode(reply->body, &down) != 0)
        return fail(EXIT_FAILED, "the keeper says something unintelligible");
    int code = 0;
    if (down.unclean.count > 0) {
        qsort(down.unclean.items, down.unclean.count, sizeof(cop_id), compare_ids);
        char *names = nodeset_fold_ids("n", down.unclean.items, down.unclean.count);
        code = fail(EXIT_FAILED, "did not end cleanly: %s (%s)", names ? names : "?",
                    down.why);
        free(names);
    }
    cop_ranks_free(&down.unclean);
    return code;
}

/* Tells the keeper, and waits until it and the janitor are gone. */
static int end_keeper(struct client *keeper, const struct dir *dir)
{
    struct client_reply reply;
    struct list_reply list = {0};
    int code = 0;
    int error = client_call(keeper, VERB_LIST, NULL, CALL_TIMEOUT_NS, &reply);
    if (!error)
        error = list_reply_decode(reply.body, &list);
    int janitor_fd = hold(list.janitor_pid), keeper_fd = hold(list.keeper_pid);
    list_reply_free(&list);
    if (!error)
        error = client_call(keeper, VERB_DOWN, NULL, DOWN_TIMEOUT_NS, &reply);
    if (error == COP_ETIMEDOUT)
        code = force_down(keeper, dir);
    else if (!error && reply.status == 0)
        code = check_unclean(&reply);
    client_close(keeper);
    int slow = wait_for_end(keeper_fd, "keeper", dir->name);
    slow |= wait_for_end(janitor_fd, "janitor", dir->name);
    return code ? code : slow;
}

int local_down(const char *name)
{
    struct dir dir;
    struct client keeper;
    int code = dir_open(name, &dir);
    if (code)
        return code;
    code = await_keeper(&dir, &keeper);
    if (code)
        return code < 0 ? 0 : code;
    code = end_keeper(&keeper, &dir);
    /* Lost or refused: another command was faster. The end is the same. */
    int left = wait_until_gone(&dir);
    return code ? code : left;
}
