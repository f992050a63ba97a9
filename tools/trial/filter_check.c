/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/filter_check.h"

#include <coppice/filter.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the example ----------------------------------------------------------------- */

static void append(char *text, const char *more)
{
    size_t length = strlen(text);
    snprintf(text + length, FILTER_EXAMPLE_MAX - length, "%s", more);
}

static void append_number(char *text, const char *type, const uint8_t *at)
{
    char word[48];
    uint64_t bits = cop_filter_get_u64(at);
    if (type[0] == 'f') {
        double value;
        memcpy(&value, &bits, sizeof value);
        snprintf(word, sizeof word, " %.17g", value);
    } else if (type[0] == 'u') {
        snprintf(word, sizeof word, " %" PRIu64, bits);
    } else {
        int64_t value;
        memcpy(&value, &bits, sizeof value);
        snprintf(word, sizeof word, " %" PRId64, value);
    }
    append(text, word);
}

static void append_bytes(char *text, const struct cop_buf *bytes)
{
    append(text, " \"");
    for (uint32_t i = 0; i < bytes->length; i++) {
        uint8_t byte = bytes->data[i];
        char word[8];
        bool plain = byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
        snprintf(word, sizeof word, plain ? "%c" : "\\x%02x", byte);
        append(text, word);
    }
    append(text, "\"");
}

static void append_packet(char *text, const struct cop_filter *filter, const char *type,
                          const struct cop__law_packet *packet)
{
    char head[96];
    struct cop_buf *bytes;
    if (cop__law_packet_make(filter, type, packet, &bytes) != 0)
        return;
    snprintf(head, sizeof head, "%c: leaf %u, wave %" PRIu64 ", %s",
             'a' + packet->group, (unsigned)packet->leaf, packet->wave, type);
    append(text, head);
    bool numbers = strncmp(type, "text", 4) != 0 && strncmp(type, "bytes", 5) != 0;
    for (uint32_t i = 0; numbers && i + 8 <= bytes->length; i += 8)
        append_number(text, type, bytes->data + i);
    if (!numbers)
        append_bytes(text, bytes);
    append(text, "\n");
    cop_buf_unref(bytes);
}

static void describe(struct filter_trial *trial, const struct cop_filter *filter)
{
    const struct cop__law_case *smallest = &trial->report.smallest;
    for (uint8_t group = 0; group < 3; group++)
        for (uint32_t i = 0; i < smallest->count; i++)
            if (smallest->packets[i].group == group)
                append_packet(trial->example, filter, trial->type,
                              &smallest->packets[i]);
}

/* ---- in the process of its own --------------------------------------------------- */

static void try_type(struct filter_trials *trials, const struct filter_wishes *wishes,
                     const struct cop_filter *filter, const char *type)
{
    if (trials->error || trials->count == FILTER_TRIALS_MAX)
        return;
    struct filter_trial *trial = &trials->at[trials->count];
    const char *params = wishes->params   ? wishes->params
                         : filter->params ? filter->params
                                          : "";
    snprintf(trial->filter, sizeof trial->filter, "%s", filter->name);
    snprintf(trial->type, sizeof trial->type, "%s", type);
    snprintf(trial->params, sizeof trial->params, "%s", params);
    trials->count++;
    trials->error = cop__laws_try(filter, type, params, wishes->seed, wishes->runs,
                                  &trials->law_now, &trial->report);
    if (trials->error)
        return;
    describe(trial, filter);
    trial->done = true;
}

static void try_filter(struct filter_trials *trials, const struct filter_wishes *wishes,
                       const struct cop_filter *filter)
{
    static const char *const any[] = {"u64", "f64", "i64[]", "text", "bytes"};
    char room[COP_FILTER_NAME_MAX + 1];
    if (wishes->type) {
        if (cop_filter_output(filter, wishes->type, room))
            try_type(trials, wishes, filter, wishes->type);
        return;
    }
    if (strcmp(filter->inputs, "any") == 0) {
        for (size_t i = 0; i < sizeof any / sizeof *any; i++)
            try_type(trials, wishes, filter, any[i]);
        return;
    }
    for (const char *at = filter->inputs; *at;) {
        size_t length = strcspn(at, " ");
        snprintf(room, sizeof room, "%.*s", (int)length, at);
        if (length > 0)
            try_type(trials, wishes, filter, room);
        at += length + (at[length] ? 1 : 0);
    }
}

static void try_all(struct filter_trials *trials, const struct filter_wishes *wishes)
{
    const struct cop_filter *filter = cop_filter_find(wishes->what);
    struct cop_plugin *plugin = NULL;
    if (filter) {
        try_filter(trials, wishes, filter);
        return;
    }
    trials->error =
        cop_plugin_load(wishes->what, &plugin, trials->why, sizeof trials->why);
    for (uint32_t i = 0; !trials->error && (filter = cop_plugin_at(plugin, i)); i++)
        try_filter(trials, wishes, filter);
    cop_plugin_unload(plugin);
}

/* A filter that never returns is ended by the kernel. */
static void limit_cpu(uint64_t seconds)
{
    struct rlimit limit = {seconds, seconds + 1}, no_core = {0, 0};
    setrlimit(RLIMIT_CPU, &limit);
    setrlimit(RLIMIT_CORE, &no_core);
}

/* ---- around it ------------------------------------------------------------------- */

static int wait_for(pid_t child, struct filter_trials *trials)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    if (WIFSIGNALED(status))
        trials->signal = WTERMSIG(status);
    return 0;
}

struct filter_trials *filter_trials_run(const struct filter_wishes *wishes)
{
    struct filter_trials *trials = mmap(NULL, sizeof *trials, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trials == MAP_FAILED)
        return NULL;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        limit_cpu(wishes->seconds);
        try_all(trials, wishes);
        trials->finished = true;
        _exit(0);
    }
    if (child < 0 || wait_for(child, trials) != 0) {
        filter_trials_free(trials);
        return NULL;
    }
    return trials;
}

void filter_trials_free(struct filter_trials *trials)
{
    munmap(trials, sizeof *trials);
}
