/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/follow.h"
#include "ask/pick.h"
#include "base/log.h"
#include "put/put.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The least time that a put has, and what a megabyte adds to it. */
#define LEAST_TIMEOUT (60 * COP_SEC)
/* When nothing has moved for so long a person wants to know what it waits for. */
#define QUIET_NS (2 * COP_SEC)
#define REPLY_TIMEOUT (COP_SEC * 3700)
#define TIMEOUT_MAX (COP_SEC * 3600)
/* Each member reads and sends once or twice: the file goes through the root twice at most. */
#define SHAPE "kary:2"

struct options {
    const char *name, *agent, *from, *members, *shape;
    cop_time timeout_ns;
    bool as_json;
};

/* What to give to whom. */
struct task {
    char file[PATH_MAX];
    char dest[PUT_PATH_MAX];
    uint64_t length;
    cop_time timeout_ns;
};

/* ---- output ---------------------------------------------------------------------- */

/* Members with the same fate. */
struct fate {
    struct cop_ranks ids;
    char why[PUT_TEXT_MAX + 64];
};

struct report {
    const struct task *task;
    const struct roll *roll;
    const struct cluster *cluster;
    uint32_t members, whole;
    cop_time elapsed_ns;
    struct fate *fates;
    uint32_t fate_count;
};

static int add_fate(struct report *report, const char *why, cop_id id)
{
    struct fate *fate = NULL;
    for (uint32_t i = 0; i < report->fate_count && !fate; i++)
        if (strcmp(report->fates[i].why, why) == 0)
            fate = &report->fates[i];
    if (fate == NULL) {
        struct fate *grown =
            realloc(report->fates, (report->fate_count + 1) * sizeof *grown);
        if (grown == NULL)
            return COP_ENOMEM;
        report->fates = grown;
        fate = &report->fates[report->fate_count++];
        *fate = (struct fate){.ids = {0}};
        snprintf(fate->why, sizeof fate->why, "%s", why);
    }
    return cop_ranks_push(&fate->ids, id);
}

/* A failure of the broadcast as a sentence. */
static void explain(const struct report *report, const struct cop_failure *failure,
                    char *out, size_t size)
{
    char at[COP_NAME_MAX + 1];
    roll_name(report->roll, report->cluster, failure->at, at);
    if (failure->status == COP_ELOST)
        snprintf(out, size, "dead");
    else if (failure->at != failure->node)
        snprintf(out, size, "%s, at %s", cop_strerror(failure->status), at);
    else
        snprintf(out, size, "%s",
                 failure->status == COP_ETIMEDOUT
                     ? "no answer in time: stopped, out of reach, or slow"
                     : cop_strerror(failure->status));
}

/* `skipped`: the root, if it was not meant: it has answered, and has no file. */
static int make_report(const struct cop_bcast_result *result, bool skips_root,
                       struct report *out)
{
    const uint8_t *bytes;
    uint32_t at = 0, length, count, ranges, entry = 0;
    char why[PUT_TEXT_MAX + 64];
    int error = 0;
    out->members = result->members - skips_root;
    out->elapsed_ns = result->elapsed_ns;
    while (!error && cop_count_next(result, &at, &bytes, &length, &count, &ranges)) {
        if (length == 0)
            out->whole += count;
        snprintf(why, sizeof why, "%.*s", (int)length, (const char *)bytes);
        cop__log_clean(why);
        for (uint32_t i = 0; i < ranges && length > 0 && !error; i++) {
            struct cop_id_range range = cop_count_range(result, entry, i);
            for (cop_id id = range.first; id <= range.last && !error; id++)
                error = add_fate(out, why, id);
        }
        entry = at;
    }
    out->whole -= skips_root && out->whole > 0;
    for (uint32_t i = 0; i < result->failure_count && !error; i++) {
        explain(out, &result->failures[i], why, sizeof why);
        error = add_fate(out, why, result->failures[i].node);
    }
    return error;
}

static void free_report(struct report *report)
{
    for (uint32_t i = 0; i < report->fate_count; i++)
        cop_ranks_free(&report->fates[i].ids);
    free(report->fates);
}

static char *names_of(const struct report *report, const struct fate *fate)
{
    return roll_fold(report->roll, report->cluster, fate->ids.items, fate->ids.count);
}

static void print_json(const struct report *report)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.put.v1");
    json_put_string(&json, "dest", report->task->dest);
    json_put_u64(&json, "bytes", report->task->length);
    json_put_u64(&json, "members", report->members);
    json_put_u64(&json, "written", report->whole);
    json_put_u64(&json, "elapsed_ns", report->elapsed_ns);
    json_key(&json, "failures");
    json_begin_array(&json);
    for (uint32_t i = 0; i < report->fate_count; i++) {
        char *names = names_of(report, &report->fates[i]);
        json_begin_object(&json);
        json_put_string(&json, "nodes", names ? names : "");
        json_put_u64(&json, "count", report->fates[i].ids.count);
        json_put_string(&json, "why", report->fates[i].why);
        json_end_object(&json);
        free(names);
    }
    json_end_array(&json);
    json_end_object(&json);
}

static void print_text(const struct report *report)
{
    char took[DURATION_SIZE];
    bool all = report->whole == report->members;
    printf("%s%" PRIu32 " of %" PRIu32 "%s have %s: %" PRIu64 " bytes, %s\n",
           colour(stdout, all ? GREEN : YELLOW), report->whole, report->members,
           colour(stdout, PLAIN), report->task->dest, report->task->length,
           print_duration(report->elapsed_ns, took));
    for (uint32_t i = 0; i < report->fate_count; i++) {
        char *names = names_of(report, &report->fates[i]);
        fprintf(stderr, "%s (%" PRIu32 "): %s\n", names ? names : "?",
                report->fates[i].ids.count, report->fates[i].why);
        free(names);
    }
}

/* Who refuses says so in the same words everywhere. */
static int exit_code(const struct report *report)
{
    if (report->whole == report->members)
        return EXIT_DONE;
    return report->fate_count == 1 && report->fates[0].ids.count == report->members &&
                   strcmp(report->fates[0].why, PUT_REFUSED) == 0
               ? EXIT_REFUSED
               : EXIT_FAILED;
}

/* ---- asking ---------------------------------------------------------------------- */

static int complain_of(int error, const struct task *task)
{
    switch (error) {
    case COP_ELOST:
        return fail(EXIT_FAILED, "the agent that was asked is gone");
    case COP_ESTATE:
        return fail(EXIT_REFUSED, "the agent that was asked is not in the view");
    case COP_ENOENT:
        return fail(EXIT_FAILED, "the agent that was asked cannot read %s", task->file);
    case COP_ERANGE:
        return fail(EXIT_USAGE,
                    "put: %s cannot be read as far as its size says, as files of /proc "
                    "and /sys: copy it first, and put the copy",
                    task->file);
    case COP_EINVAL:
        return fail(EXIT_USAGE,
                    "put: %s must be the whole path of a file, with no %% "
                    "but %%m and %%%%",
                    task->dest);
    case COP_ETOOBIG:
        return fail(EXIT_USAGE, "put: too many members for -w (about 400), or paths "
                                "that are too long");
    case COP_EKIND:
        return fail(EXIT_FAILED, "the agent that was asked is too old for this");
    default:
        return fail(EXIT_FAILED, "put failed: %s", cop_strerror(error));
    }
}

/* Waits for the end. The body is the client's. */
static int wait_for_end(struct follow *follow, struct client_reply *reply)
{
    struct progress progress;
    uint64_t done, all;
    int error = 0;
    bool is_told = false;
    progress_begin(&progress);
    do {
        if (!is_told && !client_is_ready(&follow->client, QUIET_NS)) {
            progress_end(&progress);
            is_told = true;
            follow_wait(follow, 0, "waiting, until --timeout is over, for");
        }
        error = client_receive(&follow->client, REPLY_TIMEOUT, reply);
        if (!error && reply->more && put_news_decode(reply->body, &done, &all) == 0)
            progress_show(&progress, "put, KiB read", done >> 10, all >> 10);
    } while (!error && reply->more);
    progress_end(&progress);
    return error ? error : reply->status;
}

static int read_result(struct cop__bytes body, bool skips_root, struct report *report)
{
    struct cop_bcast_result result;
    struct cop_buf *copy = cop_buf_copy(body.data, body.length);
    int error = copy ? cop_bcast_result(copy, &result) : COP_ENOMEM;
    if (!error) {
        error = make_report(&result, skips_root, report);
        cop_bcast_result_free(&result);
    }
    cop_buf_unref(copy);
    return error;
}

static int ask(struct follow *follow, const struct roll *roll,
               const struct options *options, const struct task *task,
               struct put_order *order, const struct cop_ranks *ids)
{
    struct client_reply reply;
    struct report report = {.task = task,
                            .roll = roll,
                            .cluster = follow->local ? &follow->local->cluster : NULL};
    bool skips_root = ids->count > 0;
    for (uint32_t i = 0; i < ids->count; i++)
        skips_root &= ids->items[i] != roll->self;
    struct cop_buf *body = put_order_encode(order);
    int error = body ? client_send(&follow->client, VERB_PUT, body) : COP_ENOMEM;
    cop_buf_unref(body);
    if (!error)
        error = wait_for_end(follow, &reply);
    if (!error)
        error = read_result(reply.body, skips_root, &report);
    int code = EXIT_DONE;
    if (error) {
        code = complain_of(error, task);
    } else {
        (options->as_json ? print_json : print_text)(&report);
        code = exit_code(&report);
    }
    free_report(&report);
    return code;
}

static struct cop__bytes bytes_of(const char *text)
{
    return (struct cop__bytes){(const uint8_t *)text, (uint32_t)strlen(text)};
}

static int run(struct local *local, const struct options *options,
               const struct task *task)
{
    struct follow follow = {.local = local,
                            .agent = options->agent,
                            .from = options->from,
                            .command = "put"};
    struct roll roll;
    struct cop_ranks ids = {0};
    struct put_order order = {.timeout_ns = task->timeout_ns,
                              .file = bytes_of(task->file),
                              .dest = bytes_of(task->dest),
                              .shape = bytes_of(options->shape)};
    int code = follow_open(&follow, &roll);
    if (code)
        return code;
    if (options->members != NULL)
        code = pick_ids(&follow, &roll, options->members, &ids);
    if (code == 0 && options->members != NULL && ids.count == 0)
        code = fail(EXIT_USAGE, "put: '%s' is nobody", options->members);
    uint8_t *ranges = pick_ranges(&ids, &order.ids.count);
    order.ids.data = ranges;
    if (code == 0 && ranges == NULL)
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0)
        code = ask(&follow, &roll, options, task, &order, &ids);
    free(ranges);
    cop_ranks_free(&ids);
    roll_free(&roll);
    follow_close(&follow);
    return code;
}

/* ---- the command ----------------------------------------------------------------- */

static int make_task(const struct options *options, char **operands, struct task *out)
{
    struct stat status;
    const char *dest = operands[1], *base = strrchr(operands[0], '/');
    base = base ? base + 1 : operands[0];
    size_t length = strlen(dest);
    bool is_folder = length > 0 && dest[length - 1] == '/';
    if (realpath(operands[0], out->file) == NULL || stat(out->file, &status) != 0)
        return fail(EXIT_USAGE, "put: %s: %s", operands[0], strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(EXIT_USAGE, "put: %s is not a file", operands[0]);
    if (dest[0] != '/')
        return fail(EXIT_USAGE,
                    "put: %s: where it goes must begin with '/', for members "
                    "have folders of their own",
                    dest);
    int n = snprintf(out->dest, sizeof out->dest, "%s%s", dest, is_folder ? base : "");
    if (n < 0 || (size_t)n >= sizeof out->dest)
        return fail(EXIT_USAGE, "put: %s is too long", dest);
    out->length = (uint64_t)status.st_size;
    uint64_t megabytes = out->length >> 20;
    out->timeout_ns = megabytes < TIMEOUT_MAX / COP_SEC
                          ? LEAST_TIMEOUT + megabytes * COP_SEC
                          : TIMEOUT_MAX;
    if (options->timeout_ns)
        out->timeout_ns = options->timeout_ns;
    if (out->timeout_ns > TIMEOUT_MAX)
        out->timeout_ns = TIMEOUT_MAX;
    return 0;
}

static int check(const struct options *got)
{
    struct cop_shape shape;
    char message[200];
    if (got->agent != NULL && (got->name != NULL || got->from != NULL))
        return fail(EXIT_USAGE, "put: --agent excludes --name and --from");
    if (cop_shape_parse(got->shape, &shape, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "put: --shape: %s", message);
    return 0;
}

int cmd_put(int argc, char **argv)
{
    struct options got = {.shape = SHAPE};
    const struct args_option options[] = {
        {'w', "members", "NODESET", "who gets it; all members otherwise", ARGS_TEXT,
         &got.members, 0, 0},
        {'t', "timeout", "TIME", "give up after this time, such as 30s", ARGS_DURATION,
         &got.timeout_ns, 0, 0},
        {0, "shape", "SHAPE", "of the tree (kary:2)", ARGS_TEXT, &got.shape, 0, 0},
        {0, "json", NULL, "print one object: coppice.put.v1", ARGS_FLAG, &got.as_json,
         0, 0},
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &got.name, 0, 0},
        {0, "from", "MEMBER", "who reads it; the lowest that lives otherwise",
         ARGS_TEXT, &got.from, 0, 0},
        {0, "agent", "SOCKET", "ask this agent, not one of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {0},
    };
    struct args args = {
        .name = "put",
        .usage = "[options] FILE DEST",
        .text =
            "Gives a file to every member, or to some, through a tree: each passes "
            "on what\n"
            "it has while more comes. DEST is a whole path; %m in it is the name of "
            "the\n"
            "member, and after a '/' at its end comes the name of the file. A member "
            "has\n"
            "all of the file under that name, or what was there before.\n"
            "Exit status: 0 all have it, 1 otherwise, 4 all refused, 130 interrupted.",
        .options = options,
        .least = 2,
        .most = 2,
    };
    struct settings settings;
    struct local local;
    struct task task;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = check(&got);
    if (code == 0)
        code = make_task(&got, args.operands, &task);
    if (code)
        return code;
    if (got.agent != NULL)
        return run(NULL, &got, &task);
    code = local_settings(&settings, got.name);
    if (code == 0)
        code = local_open(settings_name(&settings), &local);
    if (code)
        return code;
    code = run(&local, &got, &task);
    local_close(&local);
    return code;
}
