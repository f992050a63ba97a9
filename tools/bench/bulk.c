/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bulk.h"

#include "bench/copies.h"
#include "bench/crowd.h"
#include "term/commands.h"

#include <coppice/error.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SERVICE 3u
#define SILENCE_MS 60000
#define TIMEOUT (3600 * COP_SEC)

/* Of two clusters the second does not read. */
enum { READING, SENDING, SIDES };

/* What a member notes of itself, in memory that all share. */
struct note {
    uint64_t idle_bytes;  /* resident, before the first bulk */
    uint64_t most_bytes;  /* the most since then */
    uint64_t taken_bytes; /* of the bulk of now */
};

struct bench {
    const struct bulk_config *config;
    struct side {
        struct crowd *crowd;
        struct note *notes;
    } sides[SIDES];
    uint8_t *bytes;
    double copies[BENCH_ROUNDS_MAX], bulk[BENCH_ROUNDS_MAX], sent[BENCH_ROUNDS_MAX];
};

/* ---- the members ----------------------------------------------------------------- */

/* A line of /proc/self/status, in KiB; 0: it is not there. */
static uint64_t status_bytes(const char *key)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[200];
    uint64_t kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtoull(line + strlen(key), NULL, 10);
    if (file)
        fclose(file);
    return kib << 10;
}

/* From here on the kernel's high-water mark counts. */
static void note_idle(struct note *note)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "5", 1) == 1)
            note->idle_bytes = status_bytes("VmRSS:");
        close(fd);
    }
}

static int take(void *context, struct cop_run *run, struct cop_task *task,
                const struct cop_piece *piece)
{
    struct note *note = (struct note *)context + cop_self(run);
    (void)task;
    note->taken_bytes += piece->length;
    return 0;
}

static int check(void *context, struct cop_run *run, struct cop_task *task)
{
    struct note *note = (struct note *)context + cop_self(run);
    note->taken_bytes = 0;
    if (task->bulk_length == 0)
        note_idle(note);
    return 0;
}

static void note_most(void *context, struct cop_run *run, struct cop_task *task)
{
    struct note *note = (struct note *)context + cop_self(run);
    (void)task;
    note->most_bytes = status_bytes("VmHWM:");
}

/* ---- one turn -------------------------------------------------------------------- */

struct end {
    bool is_over;
    int status;
    uint32_t answered;
};

static void on_end(void *context, int status, const struct cop_bcast_result *result)
{
    struct end *end = context;
    *end = (struct end){true, status, result ? result->answered : 0};
}

static int call(struct bench *bench, const struct side *side,
                const struct cop_bulk *bulk, double *took_ns)
{
    const struct cop_call all = {
        .service = SERVICE, .bulk = bulk, .timeout_ns = TIMEOUT};
    struct end end = {0};
    cop_time begun = now_ns();
    int error = cop_rpc(side->crowd->run, &all, on_end, &end);
    if (error)
        return fail(EXIT_FAILED, "bench: a call failed: %s", cop_strerror(error));
    while (!end.is_over)
        if (cop_poll(side->crowd->run, SILENCE_MS) != 0)
            return fail(EXIT_FAILED, "bench: this member was removed");
    *took_ns = (double)(now_ns() - begun);
    if (end.status != 0 || end.answered != bench->config->n)
        return fail(EXIT_FAILED,
                    "bench: only %" PRIu32 " of %" PRIu32 " have all of it: %s",
                    end.answered, bench->config->n, cop_strerror(end.status));
    return 0;
}

static int time_bulk(struct bench *bench, const struct side *side, double *took_ns)
{
    const struct cop_bulk bulk = {.length = bench->config->length,
                                  .bytes = bench->bytes,
                                  .chunk = bench->config->chunk};
    int code = call(bench, side, &bulk, took_ns);
    for (uint32_t i = 1; i < bench->config->n && code == 0; i++)
        if (side->notes[i].taken_bytes != bench->config->length)
            code = fail(EXIT_FAILED, "bench: member %" PRIu32 " took %" PRIu64 " bytes",
                        i, side->notes[i].taken_bytes);
    return code;
}

static int time_copies(const struct bench *bench, double *took_ns)
{
    const struct copies_config copies = {.count = bench->config->n - 1,
                                         .bytes = bench->bytes,
                                         .length = bench->config->length};
    return copies_run(&copies, took_ns);
}

static int take_turns(struct bench *bench, struct progress *progress)
{
    double ignored;
    struct side *sending = bench->config->is_local ? &bench->sides[SENDING] : NULL;
    int code = call(bench, &bench->sides[READING], NULL, &ignored);
    if (code == 0 && sending)
        code = call(bench, sending, NULL, &ignored);
    for (uint32_t i = 0; i < bench->config->rounds && code == 0; i++) {
        progress_show(progress, "rounds", i, bench->config->rounds);
        code = time_copies(bench, &bench->copies[i]);
        if (code == 0)
            code = time_bulk(bench, &bench->sides[READING], &bench->bulk[i]);
        if (code == 0 && sending)
            code = time_bulk(bench, sending, &bench->sent[i]);
    }
    return code;
}

/* ---- all of it ------------------------------------------------------------------- */

static void sum_up_memory(const struct bench *bench, struct bulk_result *out)
{
    uint64_t idle[CROWD_MAX];
    uint32_t count = bench->config->n - 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct note *note = &bench->sides[READING].notes[i + 1];
        idle[i] = note->idle_bytes;
        if (note->most_bytes > note->idle_bytes + out->grown_bytes)
            out->grown_bytes = note->most_bytes - note->idle_bytes;
    }
    out->idle_bytes = (uint64_t)median_time(idle, count);
}

static void sum_up(struct bench *bench, struct bulk_result *out)
{
    double shares[BENCH_ROUNDS_MAX], gains[BENCH_ROUNDS_MAX];
    uint32_t rounds = bench->config->rounds;
    for (uint32_t i = 0; i < rounds; i++)
        shares[i] = bench->copies[i] / bench->bulk[i];
    for (uint32_t i = 0; i < rounds; i++)
        gains[i] = bench->sent[i] / bench->bulk[i];
    out->share = summarize(shares, rounds);
    out->copies_ns = summarize(bench->copies, rounds);
    out->bulk_ns = summarize(bench->bulk, rounds);
    out->sent_ns = summarize(bench->sent, rounds);
    out->gain = summarize(gains, rounds);
    sum_up_memory(bench, out);
}

static int open_side(const struct bench *bench, int which)
{
    const struct side *side = &bench->sides[which];
    const struct cop_handlers service = {.size = sizeof service,
                                         .service = SERVICE,
                                         .context = side->notes,
                                         .check = check,
                                         .piece = take,
                                         .sent = note_most};
    const struct crowd_config config = {.n = bench->config->n,
                                        .shape = bench->config->shape,
                                        .service = &service,
                                        .is_local = bench->config->is_local,
                                        .no_reads = which == SENDING};
    return crowd_open(side->crowd, &config);
}

static int measure_opened(struct bench *bench, struct progress *progress,
                          struct bulk_result *out)
{
    int code = 0;
    /* Only now, so that the others do not have them. */
    bench->bytes = malloc(bench->config->length);
    if (bench->bytes == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    for (uint64_t i = 0; i < bench->config->length; i++)
        bench->bytes[i] = (uint8_t)(i * 31 + i / 251);
    code = take_turns(bench, progress);
    if (code == 0)
        sum_up(bench, out);
    free(bench->bytes);
    return code;
}

static int measure(struct bench *bench, struct progress *progress,
                   struct bulk_result *out)
{
    int count = bench->config->is_local ? SIDES : 1, opened = 0, code = 0;
    while (opened < count && code == 0)
        if ((code = open_side(bench, opened)) == 0)
            opened++;
    if (code == 0)
        code = measure_opened(bench, progress, out);
    while (opened > 0)
        crowd_close(bench->sides[--opened].crowd);
    return code;
}

int bench_bulk(const struct bulk_config *config, struct progress *progress,
               struct bulk_result *out)
{
    struct bench *bench = calloc(1, sizeof *bench);
    struct crowd *crowds = malloc(SIDES * sizeof *crowds);
    size_t size = SIDES * config->n * sizeof(struct note);
    struct note *shared =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int code;
    *out = (struct bulk_result){0};
    if (bench == NULL || crowds == NULL || shared == MAP_FAILED) {
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    } else {
        bench->config = config;
        for (int i = 0; i < SIDES; i++)
            bench->sides[i] = (struct side){&crowds[i], shared + (size_t)i * config->n};
        code = measure(bench, progress, out);
    }
    if (shared != MAP_FAILED)
        munmap(shared, size);
    free(crowds);
    free(bench);
    return code;
}
