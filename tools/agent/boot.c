/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/boot.h"

#include "agent/agent.h"
#include "agent/security.h"
#include "cluster/settings.h"
#include "run/start.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/boot.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

/* What somebody has set; of the defaults a job has its own. */
static const char *chosen(const struct settings *settings, enum setting which)
{
    bool is_default = strcmp(settings->at[which].origin, "default") == 0;
    return is_default ? NULL : settings->at[which].value;
}

static int fill_start(struct cop__start *start, const struct cop_settings *job,
                      char *message, size_t size)
{
    cop__start_init(start);
    cop__start_set_name(start, job->cluster);
    start->instance = start->first = job->instance;
    start->guard = job->guard;
    int error = cop__start_set_shape(start, job->shape, message, size);
    if (error == 0)
        error = cop__start_set_quorum(start, job->quorum, message, size);
    if (error == 0)
        error = cop__start_set_detector(start, job->detector, message, size);
    for (uint32_t i = 0; error == 0 && i < job->count; i++)
        error = cop__start_add(start, NULL, job->addresses[i], message, size);
    return error ? error : cop__start_check(start, message, size);
}

/* The job as the file of a cluster that an agent reads. */
static int describe_job(const struct cop_settings *job, struct cluster *out)
{
    char message[400] = "no memory";
    struct cop__start start;
    int error = fill_start(&start, job, message, sizeof message);
    struct cop_buf *text = error == 0 ? cop__start_describe(&start) : NULL;
    if (error == 0 && text == NULL)
        error = COP_ENOMEM;
    if (error == 0)
        error = cluster_read("the launcher", (const char *)text->data, text->length,
                             out, message, sizeof message);
    cop_buf_unref(text);
    cop__start_free(&start);
    return error ? fail(EXIT_USAGE, "agent: %s", message) : 0;
}

/* "%r" becomes the rank. */
static int expand(const char *pattern, cop_id rank, char *out, size_t size)
{
    const char *mark = strstr(pattern, "%r");
    int length = mark == NULL
                     ? snprintf(out, size, "%s", pattern)
                     : snprintf(out, size, "%.*s%" PRIu32 "%s", (int)(mark - pattern),
                                pattern, rank, mark + 2);
    return length < (int)size
               ? 0
               : fail(EXIT_USAGE, "agent: --command %s: the path is too long", pattern);
}

static int run_member(const struct cop_settings *job, const char *command,
                      const char *allow_exec)
{
    char path[200];
    struct cluster cluster;
    struct agent_config config = {.cluster = &cluster,
                                  .id = job->self,
                                  .incarnation = job->instance,
                                  .is_first = true,
                                  .listen_fd = job->listen_fd,
                                  .note_fd = -1,
                                  .command_path = command ? path : NULL,
                                  .allow_exec = allow_exec};
    const struct security_options security = {.key = job->key_file};
    int code = command ? expand(command, job->self, path, sizeof path) : 0;
    if (code == 0)
        code = describe_job(job, &cluster);
    if (code)
        return code;
    code = security_open("agent", &security, &config.tls);
    if (code == 0) {
        fprintf(stderr, "coppice: member n%" PRIu32 " of %" PRIu32 " is up\n",
                job->self, job->count);
        code = agent_run(&config);
    }
    cop__tls_destroy(config.tls);
    cluster_close(&cluster);
    return code;
}

int agent_boot(const char *command, const char *allow_exec)
{
    char message[400];
    struct cop_boot *boot;
    struct settings settings;
    const char *flags[SETTINGS_COUNT] = {0};
    int code = settings_load(&settings, flags);
    if (code)
        return code;
    struct cop_settings job = {.size = sizeof job,
                               .shape = chosen(&settings, SETTING_shape),
                               .quorum = chosen(&settings, SETTING_quorum),
                               .detector = chosen(&settings, SETTING_detector),
                               .guard = settings_guard(&settings)};
    if (cop_boot(&boot, message, sizeof message) != 0)
        return fail(EXIT_FAILED, "agent: %s", message);
    cop_boot_settings(boot, &job);
    /* A launcher that is killed cannot end its processes: the kernel does. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    code = run_member(&job, command, allow_exec);
    cop_boot_free(boot);
    return code;
}
