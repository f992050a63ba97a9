/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/print.h"

#include "exec/job.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------- */

static bool is_fine(const struct exec_class *class)
{
    return class->end == JOB_EXITED && class->code == 0 &&
           !(class->flags & (EXEC_TIMED_OUT | EXEC_CANCELLED));
}

/* "exit 3", "killed by SIGKILL, timed out"; "" if all is well. */
static void describe_end(const struct exec_class *class, char *out, size_t size)
{
    const char *why = class->flags & EXEC_TIMED_OUT   ? ", timed out"
                      : class->flags & EXEC_CANCELLED ? ", cancelled"
                                                      : "";
    const char *name;
    if (is_fine(class)) {
        out[0] = '\0';
    } else if (class->end == JOB_EXITED) {
        snprintf(out, size, "exit %" PRIu32 "%s", class->code, why);
    } else if (class->end == JOB_SIGNALLED) {
        name = sigabbrev_np((int)class->code);
        snprintf(out, size, "killed by SIG%s%s", name ? name : "?", why);
    } else {
        snprintf(out, size, "cannot be started: %s%s", strerror((int)class->code), why);
    }
}

static char *fold(const struct exec_names *names, const struct cop_ranks *ids)
{
    char *folded = roll_fold(names->roll, names->cluster, ids->items, ids->count);
    return folded ? folded : strdup("?");
}

static int compare_classes(const void *a, const void *b)
{
    const struct exec_class *x = a, *y = b;
    if (x->ids.count != y->ids.count)
        return x->ids.count > y->ids.count ? -1 : 1;
    return x->ids.items[0] < y->ids.items[0] ? -1 : 1;
}

/* The most members first, of those that were not printed. */
static void sort_classes(const struct exec_outcome *outcome)
{
    uint32_t count = outcome->class_count - outcome->printed;
    if (count > 1)
        qsort(outcome->classes + outcome->printed, count, sizeof *outcome->classes,
              compare_classes);
}

/* ---- outputs --------------------------------------------------------------------- */

static void print_header(FILE *out, const struct exec_class *class, const char *folded,
                         const char *how)
{
    fprintf(out, "%s-- %s (%" PRIu32 ")%s%s%s\n", colour(out, BOLD), folded,
            class->ids.count, *how ? ": " : "", how, colour(out, PLAIN));
}

static void print_bytes(FILE *out, const struct exec_class *class, int which)
{
    uint32_t used = class->used[which];
    fwrite(class->text[which], 1, used, out);
    if (used > 0 && class->text[which][used - 1] != '\n')
        fputc('\n', out);
}

static void print_cuts(const struct exec_class *class, const char *folded)
{
    static const char *const streams[] = {"standard output", "standard error"};
    for (int which = 0; which < 2; which++)
        if (class->kept[which] < class->total[which])
            complain("%s: %s is cut off after %" PRIu32 " of %" PRIu64
                     " bytes (see --limit)",
                     folded, streams[which], class->kept[which], class->total[which]);
    if (class->is_gone)
        complain("%s: the output is lost: nobody is left who had it", folded);
}

static void print_class(const struct exec_class *class, const struct exec_names *names)
{
    char how[120];
    char *folded = fold(names, &class->ids);
    describe_end(class, how, sizeof how);
    if (folded == NULL)
        return;
    if (class->used[0] > 0 || *how != '\0')
        print_header(stdout, class, folded, how);
    print_bytes(stdout, class, 0);
    fflush(stdout);
    if (class->used[1] > 0)
        print_header(stderr, class, folded, "standard error");
    print_bytes(stderr, class, 1);
    fflush(stderr);
    print_cuts(class, folded);
    free(folded);
}

/* ---- who did not run it ---------------------------------------------------------- */

static const char *failure_key(const struct cop_failure *failure)
{
    switch (failure->status) {
    case COP_ELOST:
        return "dead";
    case COP_ETIMEDOUT:
        return "silent";
    case COP_EREFUSED:
        return "refused";
    case COP_EABORTED:
        return "not_begun";
    default:
        return failure->phase == COP_PHASE_SERVICE ||
                       failure->phase == COP_PHASE_VERSION
                   ? "unable"
                   : "failed";
    }
}

static const char *const failure_keys[] = {"dead",      "silent", "refused",
                                           "not_begun", "unable", "failed"};
#define FAILURE_KEYS (sizeof failure_keys / sizeof *failure_keys)

static const char *failure_text(const char *key)
{
    if (strcmp(key, "refused") == 0)
        return " (they do not run commands for you: see --allow-exec)";
    if (strcmp(key, "silent") == 0)
        return " (stopped, or out of reach: see coppice ps; if dead for certain: "
               "coppice report)";
    if (strcmp(key, "unable") == 0)
        return " (they know nothing of this service)";
    return "";
}

/* All of one kind, folded; to be freed. NULL: there is nobody, or no memory. */
static char *fold_failures(const struct exec_outcome *outcome,
                           const struct exec_names *names, const char *key)
{
    struct cop_ranks ids = {0};
    int error = 0;
    for (uint32_t i = 0; i < outcome->failure_count && !error; i++)
        if (strcmp(failure_key(&outcome->failures[i]), key) == 0)
            error = cop_ranks_push(&ids, outcome->failures[i].node);
    char *folded = ids.count > 0 && !error ? fold(names, &ids) : NULL;
    cop_ranks_free(&ids);
    return folded;
}

static void print_failures(const struct exec_outcome *outcome,
                           const struct exec_names *names)
{
    for (size_t i = 0; i < FAILURE_KEYS; i++) {
        char *folded = fold_failures(outcome, names, failure_keys[i]);
        if (folded != NULL)
            complain("%s: %s%s", i == 3 ? "not begun" : failure_keys[i], folded,
                     failure_text(failure_keys[i]));
        free(folded);
    }
}

static uint32_t count_fine(const struct exec_outcome *outcome)
{
    uint32_t fine = 0;
    for (uint32_t i = 0; i < outcome->class_count; i++)
        fine += is_fine(&outcome->classes[i]) ? outcome->classes[i].ids.count : 0;
    return fine;
}

static void print_sum(const struct exec_outcome *outcome)
{
    uint32_t fine = count_fine(outcome);
    if (outcome->is_whole && fine < outcome->members)
        complain("%" PRIu32 " of %" PRIu32 " ran it with exit status 0%s", fine,
                 outcome->members, outcome->is_cancelled ? "; cancelled" : "");
}

void exec_print_wave(struct exec_outcome *outcome, const struct exec_names *names)
{
    sort_classes(outcome);
    while (outcome->printed < outcome->class_count)
        print_class(&outcome->classes[outcome->printed++], names);
}

void exec_print_text(struct exec_outcome *outcome, const struct exec_names *names)
{
    exec_print_wave(outcome, names);
    print_failures(outcome, names);
    print_sum(outcome);
}

void exec_print_ends(const struct exec_outcome *outcome, const struct exec_names *names)
{
    char how[120];
    sort_classes(outcome);
    fflush(stdout);
    for (uint32_t i = 0; i < outcome->class_count; i++) {
        char *folded = fold(names, &outcome->classes[i].ids);
        describe_end(&outcome->classes[i], how, sizeof how);
        if (*how != '\0' && folded != NULL)
            complain("%s: %s", folded, how);
        free(folded);
    }
    print_failures(outcome, names);
    print_sum(outcome);
}

int exec_exit_code(const struct exec_outcome *outcome)
{
    bool all_refused = outcome->class_count == 0 && outcome->failure_count > 0;
    for (uint32_t i = 0; i < outcome->failure_count; i++)
        all_refused = all_refused && outcome->failures[i].status == COP_EREFUSED;
    if (outcome->is_cancelled)
        return EXIT_CANCELLED;
    if (outcome->is_whole && count_fine(outcome) == outcome->members)
        return EXIT_DONE;
    return all_refused ? EXIT_REFUSED : EXIT_FAILED;
}

/* ---- JSON ------------------------------------------------------------------------ */

static void put_text(struct json *json, const char *key, const struct exec_class *class,
                     int which)
{
    json_key(json, key);
    json_bytes(json, class->text[which], class->used[which]);
}

static void put_class(struct json *json, const struct exec_class *class,
                      const struct exec_names *names)
{
    char *folded = fold(names, &class->ids);
    json_begin_object(json);
    json_put_string(json, "members", folded);
    json_put_u64(json, "count", class->ids.count);
    json_key(json, "exit");
    if (class->end == JOB_EXITED)
        json_u64(json, class->code);
    else
        json_null(json);
    json_key(json, "signal");
    if (class->end == JOB_SIGNALLED)
        json_u64(json, class->code);
    else
        json_null(json);
    json_put_string(json, "error",
                    class->end == JOB_NOT_STARTED ? strerror((int)class->code) : NULL);
    json_put_bool(json, "timed_out", class->flags & EXEC_TIMED_OUT);
    json_put_bool(json, "cancelled", class->flags & EXEC_CANCELLED);
    put_text(json, "stdout", class, 0);
    json_put_u64(json, "stdout_bytes", class->total[0]);
    put_text(json, "stderr", class, 1);
    json_put_u64(json, "stderr_bytes", class->total[1]);
    json_end_object(json);
    free(folded);
}

void exec_print_json(const struct exec_outcome *outcome, const struct exec_names *names)
{
    struct json json;
    sort_classes(outcome);
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.exec.v1");
    json_put_u64(&json, "members", outcome->members);
    json_put_u64(&json, "succeeded", count_fine(outcome));
    json_put_bool(&json, "cancelled", outcome->is_cancelled);
    json_put_u64(&json, "elapsed_ns", outcome->elapsed_ns);
    json_key(&json, "ends");
    json_begin_array(&json);
    for (uint32_t i = 0; i < outcome->class_count; i++)
        put_class(&json, &outcome->classes[i], names);
    json_end_array(&json);
    for (size_t i = 0; i < FAILURE_KEYS; i++) {
        char *folded = fold_failures(outcome, names, failure_keys[i]);
        json_put_string(&json, failure_keys[i], folded ? folded : "");
        free(folded);
    }
    json_end_object(&json);
}
