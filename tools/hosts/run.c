/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts/run.h"

#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening --------------------------------------------------------------------- */

int hosts_local(const char *name, struct local *out)
{
    char path[PATH_MAX + 16], message[400];
    struct local local = {.keeper = {.fd = -1}, .dir = {.lock = -1}};
    local.hosts = calloc(1, sizeof *local.hosts);
    if (local.hosts == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    int code = hosts_open(name, local.hosts);
    if (code) {
        free(local.hosts);
        return code;
    }
    snprintf(local.dir.name, sizeof local.dir.name, "%s", name);
    snprintf(path, sizeof path, "%s/" CLUSTER_FILE, local.hosts->path);
    if (cluster_open(path, false, &local.cluster, message, sizeof message) != 0)
        code = fail(EXIT_FAILED, "%s", message);
    else if (local.cluster.n != local.hosts->count)
        code = fail(EXIT_FAILED, "%s: its files disagree", local.hosts->path);
    *out = local;
    if (code)
        local_close(out);
    return code;
}

/* ---- all at once ----------------------------------------------------------------- */

/* One kind of thing done at some hosts: names and jobs, in the order of `ids`. */
struct round {
    const struct local *local;
    const struct cop_ranks *ids;
    char (*texts)[NODESET_NAME_LENGTH + 1];
    const char **names;
    struct ssh_job *jobs;
    bool cancelled;
};

static void close_round(struct round *round)
{
    ssh_jobs_free(round->jobs, round->jobs ? round->ids->count : 0);
    free(round->names);
    free(round->texts);
}

/* 0, or an exit code after one line. */
static int do_round(struct round *round, const char *verb, const char *word,
                    char *const *inputs)
{
    uint32_t count = round->ids->count;
    round->texts = calloc(count + 1, sizeof *round->texts);
    round->names = calloc(count + 1, sizeof *round->names);
    if (round->texts == NULL || round->names == NULL) {
        close_round(round);
        *round = (struct round){0};
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    }
    for (uint32_t i = 0; i < count; i++) {
        cluster_name(&round->local->cluster, round->ids->items[i], round->texts[i]);
        round->names[i] = round->texts[i];
    }
    round->jobs = hosts_do(round->local->hosts, round->names, round->ids, verb, word,
                           inputs, &round->cancelled);
    if (round->jobs != NULL)
        return 0;
    close_round(round);
    *round = (struct round){0};
    return EXIT_FAILED;
}

/* What a command said at a host, without its "coppice: ", behind the name of the member. */
static int complain_of(const struct round *round, uint32_t i)
{
    const struct ssh_job *job = &round->jobs[i];
    bool is_ours = strncmp(job->error, "coppice: ", 9) == 0;
    const char *text = job->error + (is_ours ? 9 : 0);
    if (job->status == SSH_STATUS_FAILED)
        complain("%s: not reached: %s", round->names[i], text);
    else
        complain("%s: %s", round->names[i], text);
    return job->status == EXIT_REFUSED ? EXIT_REFUSED : EXIT_FAILED;
}

/* All members, or those with this outcome. */
static int all_ids(const struct local *local, struct cop_ranks *out)
{
    for (cop_id id = 0; id < local->cluster.n; id++)
        if (cop_ranks_push(out, id) != 0)
            return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    return 0;
}

/* ---- one ------------------------------------------------------------------------- */

int hosts_connect(const struct local *local, cop_id id, struct client *out)
{
    const struct hosts *hosts = local->hosts;
    char name[NODESET_NAME_LENGTH + 1], message[400] = "";
    if (id >= hosts->count)
        return COP_ENOENT;
    cluster_name(&local->cluster, id, name);
    const char *const words[] = {hosts->remote, "host", "connect",
                                 hosts->name,   name,   NULL};
    char *command = ssh_quote(words);
    if (command == NULL)
        return COP_ENOMEM;
    int error = ssh_connect(&hosts->ssh, hosts->ways[id].user, hosts->ways[id].host,
                            command, out, message, sizeof message);
    free(command);
    return error;
}

/* ---- ps -------------------------------------------------------------------------- */

static bool read_status(const char *line, struct member_status *out)
{
    unsigned pid, id;
    int state, wait_status;
    unsigned long long incarnation, private_bytes, resident, cpu;
    if (sscanf(line, HOST_LIST_SCAN, &pid, &state, &wait_status, &incarnation, &id,
               &private_bytes, &resident, &cpu) != 8 ||
        state < 0 || state > MEMBER_DEAD)
        return false;
    *out = (struct member_status){.pid = pid,
                                  .state = (enum member_state)state,
                                  .wait_status = wait_status,
                                  .incarnation = incarnation,
                                  .id = id,
                                  .use = {private_bytes, resident, cpu}};
    return true;
}

int hosts_list(const struct local *local, struct list_reply *out)
{
    struct cop_ranks ids = {0};
    struct list_reply list = {.count = local->cluster.n};
    struct round round = {.local = local, .ids = &ids};
    list.members = calloc(list.count, sizeof *list.members);
    int code = list.members ? all_ids(local, &ids)
                            : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0)
        code = do_round(&round, "list", NULL, NULL);
    for (uint32_t i = 0; i < ids.count && code == 0; i++) {
        struct member_status *status = &list.members[i];
        const struct ssh_job *job = &round.jobs[i];
        if (job->status == 0 && read_status(job->output, status))
            continue;
        bool is_gone = job->status == EXIT_NO_CLUSTER;
        *status = (struct member_status){
            .id = ids.items[i], .state = is_gone ? MEMBER_DEAD : MEMBER_UNREACHABLE};
        if (!is_gone)
            complain_of(&round, i);
    }
    if (code == 0) {
        if (round.cancelled)
            code = EXIT_CANCELLED;
        close_round(&round);
    }
    if (code)
        list_reply_free(&list);
    else
        *out = list;
    cop_ranks_free(&ids);
    return code;
}

/* ---- kill, restart, down --------------------------------------------------------- */

int hosts_signal(const struct local *local, int number, const struct cop_ranks *ids)
{
    struct round round = {.local = local, .ids = ids};
    char word[16];
    snprintf(word, sizeof word, "%d", number);
    int code = do_round(&round, "signal", word, NULL);
    if (code)
        return code;
    for (uint32_t i = 0; i < ids->count; i++)
        if (round.jobs[i].status != 0)
            code = complain_of(&round, i);
    if (round.cancelled)
        code = EXIT_CANCELLED;
    close_round(&round);
    return code;
}

/* What each of them needs that its host does not have. */
static int encode_starts(const struct local *local, const struct cop_ranks *ids,
                         char **out)
{
    const struct hosts *hosts = local->hosts;
    char *members = hosts_read(hosts, CLUSTER_FILE);
    char *key = hosts->is_insecure ? NULL : hosts_read(hosts, KEEPER_KEY);
    bool good = members != NULL && (key != NULL || hosts->is_insecure);
    for (uint32_t i = 0; i < ids->count && good; i++) {
        const struct host_start start = {.id = ids->items[i],
                                         .is_insecure = hosts->is_insecure,
                                         .allow_exec = hosts->allow_exec,
                                         .members = members,
                                         .key = key};
        out[i] = host_start_encode(&start);
        good = out[i] != NULL;
    }
    free(members);
    if (key != NULL)
        explicit_bzero(key, strlen(key));
    free(key);
    return good ? 0 : EXIT_FAILED;
}

static int start_again(const struct local *local, const struct cop_ranks *ids)
{
    struct round round = {.local = local, .ids = ids};
    char **inputs = calloc(ids->count, sizeof *inputs);
    int code = inputs ? encode_starts(local, ids, inputs)
                      : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0)
        code = do_round(&round, "start", NULL, inputs);
    bool is_done = code == 0;
    for (uint32_t i = 0; i < ids->count && is_done; i++)
        if (round.jobs[i].status != 0)
            code = complain_of(&round, i);
    if (is_done)
        close_round(&round);
    for (uint32_t i = 0; i < ids->count && inputs; i++) {
        if (inputs[i] != NULL)
            explicit_bzero(inputs[i], strlen(inputs[i]));
        free(inputs[i]);
    }
    free(inputs);
    return code;
}

int hosts_restart(const struct local *local, const struct cop_ranks *ids)
{
    struct round round = {.local = local, .ids = ids};
    struct cop_ranks forgotten = {0};
    int code = do_round(&round, "restart", NULL, NULL);
    if (code)
        return code;
    for (uint32_t i = 0; i < ids->count; i++) {
        if (round.jobs[i].status == EXIT_NO_CLUSTER) {
            if (cop_ranks_push(&forgotten, ids->items[i]) != 0)
                code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
        } else if (round.jobs[i].status != 0) {
            code = complain_of(&round, i);
        }
    }
    if (round.cancelled)
        code = EXIT_CANCELLED;
    close_round(&round);
    if (forgotten.count > 0 && code != EXIT_CANCELLED) {
        int late = start_again(local, &forgotten);
        code = code ? code : late;
    }
    cop_ranks_free(&forgotten);
    return code;
}

int hosts_push_key(const struct local *local)
{
    struct cop_ranks ids = {0};
    struct round round = {.local = local, .ids = &ids};
    char *key = hosts_read(local->hosts, KEEPER_KEY);
    char **inputs = calloc(local->cluster.n, sizeof *inputs);
    int code = key == NULL ? EXIT_FAILED : all_ids(local, &ids);
    if (code == 0 && inputs == NULL)
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    for (uint32_t i = 0; i < ids.count && code == 0; i++)
        inputs[i] = key;
    if (code == 0)
        code = do_round(&round, "key", NULL, inputs);
    if (round.jobs != NULL) {
        for (uint32_t i = 0; i < ids.count; i++)
            if (round.jobs[i].status != 0 && round.jobs[i].status != EXIT_NO_CLUSTER)
                code = complain_of(&round, i);
        if (round.cancelled)
            code = EXIT_CANCELLED;
        close_round(&round);
    }
    if (key != NULL)
        explicit_bzero(key, strlen(key));
    free(key);
    free(inputs);
    cop_ranks_free(&ids);
    return code;
}

int hosts_stop(const struct local *local, const struct cop_ranks *ids)
{
    struct round round = {.local = local, .ids = ids};
    int code = do_round(&round, "stop", NULL, NULL);
    if (code)
        return code;
    for (uint32_t i = 0; i < ids->count; i++)
        if (round.jobs[i].status != 0 && round.jobs[i].status != EXIT_NO_CLUSTER)
            code = complain_of(&round, i);
    if (round.cancelled)
        code = EXIT_CANCELLED;
    close_round(&round);
    return code;
}

int hosts_down(const char *name, bool force)
{
    struct local local;
    struct cop_ranks ids = {0};
    int code = hosts_local(name, &local);
    if (code)
        return code;
    code = all_ids(&local, &ids);
    if (code == 0)
        code = hosts_stop(&local, &ids);
    if (code != 0 && code != EXIT_CANCELLED && !force)
        complain(
            "cluster '%s' is kept in mind: run this again when they can be reached, "
            "or, to forget them: coppice down --force --name %s",
            name, name);
    if (code == 0 || (force && code != EXIT_CANCELLED)) {
        int removed = hosts_remove(local.hosts);
        code = code ? code : removed;
    }
    cop_ranks_free(&ids);
    local_close(&local);
    return code;
}
