/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back-end of an agent. Of several agents on one host one samples it; the others give packets
 * of nothing, so that waves need not wait for them. Which one is decided by the kernel: a name in
 * the host's network namespace can be bound by one process, and is free again when that is
 * gone.
 */
#include "top/watch.h"

#include "exec/job.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A root keeps a stream that nobody has asked after for so many of its intervals, and for no
 * less than this: then its front-end died with the root before. */
#define ABANDONED_NS (30 * COP_SEC)
/* What a sampler may write. */
#define LINES_MAX (UINT32_C(1) << 22)

struct sampler {
    struct sampler *next;
    struct watches *watches;
    uint64_t stream, key;
    bool is_hosts, has_wish;
    uv_timer_t *timer;
    cop_time interval_ns, unclaimed_since;
    struct host_counters before;
    struct job *job; /* stacks: while it runs */
};

/* ---- one agent of a host --------------------------------------------------------- */

static void name_of_host(const struct watches *watches, struct sockaddr_un *out,
                         socklen_t *length)
{
    char space[64];
    ssize_t got = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[got > 0 ? got : 0] = '\0';
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int used = snprintf(out->sun_path + 1, sizeof out->sun_path - 1,
                        "coppice-samples-%" PRIx64 "-%s", watches->instance, space);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used);
}

static bool speaks_for_host(struct watches *watches)
{
    struct sockaddr_un name;
    socklen_t length;
    if (watches->host_fd >= 0)
        return true;
    name_of_host(watches, &name, &length);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (bind(fd, (struct sockaddr *)&name, length) != 0) {
        close(fd);
        return false;
    }
    watches->host_fd = fd;
    return true;
}

/* ---- giving ---------------------------------------------------------------------- */

static int give(struct sampler *sampler, const void *bytes, size_t length)
{
    struct cop_request request = {.kind = COP_REQUEST_STREAM_PUT,
                                  .token = sampler->watches->desk.token,
                                  .group = sampler->stream,
                                  .key = sampler->key,
                                  .bytes = bytes,
                                  .length = (uint32_t)length};
    return cop__tcp_submit(sampler->watches->tcp, &request);
}

static const struct cop_node *node_of(const struct sampler *sampler)
{
    return cop__tcp_node(sampler->watches->tcp);
}

/* One that was stopped for a while, or slow, catches up with what the others have given. */
static void give_hosts(struct sampler *sampler, const void *bytes, size_t length)
{
    struct cop_stream_info info;
    int error;
    do
        error = give(sampler, bytes, length);
    while (error == 0 &&
           cop_node_stream(node_of(sampler), sampler->stream, &info) == 0 &&
           info.given <= info.mark);
}

/* ---- streams that nobody wants any more ------------------------------------------ */

static bool has_customer(const struct cop__desk *desk, uint64_t stream)
{
    for (uint32_t i = 0; i < desk->count; i++)
        if (desk->customers[i].stream == stream)
            return true;
    return false;
}

/* The new root, if the front-end died with the one before: nobody else would ever close it. */
static void close_abandoned(struct sampler *sampler)
{
    struct watches *watches = sampler->watches;
    struct cop_stream_info info;
    bool is_root =
        cop_node_stream(node_of(sampler), sampler->stream, &info) == 0 && info.root;
    if (!is_root || has_customer(&watches->desk, sampler->stream)) {
        sampler->unclaimed_since = 0;
        return;
    }
    if (sampler->unclaimed_since == 0)
        sampler->unclaimed_since = now_ns();
    if (now_ns() - sampler->unclaimed_since < (4 * sampler->interval_ns > ABANDONED_NS
                                                   ? 4 * sampler->interval_ns
                                                   : ABANDONED_NS))
        return;
    struct cop_stream_options options = {.number = sampler->stream};
    struct cop_request request = {.kind = COP_REQUEST_STREAM_OPEN,
                                  .token = watches->desk.token,
                                  .stream = &options,
                                  .group = sampler->stream};
    if (cop__tcp_submit(watches->tcp, &request) != 0)
        return;
    request.kind = COP_REQUEST_STREAM_CLOSE;
    if (cop__tcp_submit(watches->tcp, &request) == 0)
        cop__log(watches->log, COP_LOG_INFO, "a stream that nobody watches is closed");
}

/* A wish that had come to all before this member came: nobody waits for more from it. */
static void give_late(struct sampler *sampler)
{
    struct cop_stream_info info;
    if (!sampler->has_wish &&
        cop_node_stream(node_of(sampler), sampler->stream, &info) == 0 && info.down > 0)
        sampler->has_wish = give(sampler, NULL, 0) == 0;
}

/* ---- hosts ----------------------------------------------------------------------- */

static void on_interval(uv_timer_t *timer)
{
    struct sampler *sampler = timer->data;
    uint64_t value[COP__HOST_METRICS];
    uint8_t bytes[8 * COP__HOST_METRICS];
    close_abandoned(sampler);
    if (!sampler->is_hosts) {
        give_late(sampler);
        return;
    }
    if (!speaks_for_host(sampler->watches) ||
        host_sample_since(&sampler->before, value) != 0) {
        give_hosts(sampler, NULL, 0);
        return;
    }
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(value[i / 8] >> (8 * (i % 8)));
    give_hosts(sampler, bytes, sizeof bytes);
}

/* ---- stacks ---------------------------------------------------------------------- */

struct lines {
    char *bytes;
    size_t used, room;
};

/* "S 12 main;work" as it is, without the letter; "M 12 why" as the one frame "!why". What does
 * not fit any more is left out, and said. */
static void add_line(struct lines *lines, const char *line, size_t length)
{
    static const char full[] = "0 !more stacks than fit into one packet\n";
    size_t digits = length > 2 ? strspn(line + 2, "0123456789") : 0;
    if (digits == 0 || (line[0] != 'S' && line[0] != 'M') || length < digits + 4)
        return;
    const char *rest = line + 3 + digits;
    size_t left = length - 3 - digits;
    if (lines->used + length + 2 + sizeof full > lines->room) {
        if (lines->used + sizeof full <= lines->room && lines->room > 0) {
            memcpy(lines->bytes + lines->used, full, sizeof full - 1);
            lines->used += sizeof full - 1;
        }
        lines->room = lines->used;
        return;
    }
    char *at = lines->bytes + lines->used;
    memcpy(at, line + 2, digits);
    at[digits] = ' ';
    at += digits + 1;
    if (line[0] == 'M')
        *at++ = '!';
    for (size_t i = 0; i < left; i++)
        *at++ = line[0] == 'M' && rest[i] == ';' ? ',' : rest[i];
    *at++ = '\n';
    lines->used = (size_t)(at - lines->bytes);
}

/* Lines of `coppice stacks --sample`: a mark, the host and its key, then what it is. */
static void add_lines(struct lines *out, const char *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        const char *end = memchr(bytes + at, '\n', length - at);
        size_t next = end ? (size_t)(end - bytes) : length;
        size_t blanks = 0, from = at;
        while (from < next && blanks < 3)
            blanks += bytes[from++] == ' ';
        if (end != NULL && blanks == 3)
            add_line(out, bytes + from, next - from);
        at = next + 1;
    }
}

static void on_sampled(void *context, struct job *job)
{
    struct sampler *sampler = context;
    const struct job_output *output = job_output(job, 0);
    struct lines lines = {.bytes = malloc(COP_STREAM_PACKET_MAX),
                          .room = COP_STREAM_PACKET_MAX};
    if (lines.bytes != NULL)
        add_lines(&lines, (const char *)output->bytes, output->used);
    int code;
    bool is_good = job_end(job, &code) == JOB_EXITED && code == 0;
    if (lines.bytes != NULL && !is_good && lines.used < lines.room - 64)
        lines.used +=
            (size_t)snprintf(lines.bytes + lines.used, 64, "0 !the sampler failed\n");
    give(sampler, lines.bytes, lines.used);
    free(lines.bytes);
    sampler->job = NULL;
    job_free(job);
}

static int start_job(struct sampler *sampler, char *const *words)
{
    struct watches *watches = sampler->watches;
    struct job_config job = {.loop = watches->loop,
                             .minder = &watches->minder,
                             .words = words,
                             .environment = environ,
                             .limit = LINES_MAX,
                             .ended = on_sampled,
                             .context = sampler};
    int error = minder_start(&watches->minder);
    return error ? COP_EIO : job_start(&job, &sampler->job);
}

/* In a process of its own: it takes its time, and looks into other people's programs. */
static void sample_stacks(struct sampler *sampler, struct cop__bytes bytes)
{
    struct watch_wish wish;
    char patience[32];
    if (sampler->has_wish)
        return;
    sampler->has_wish = true;
    if (watch_wish_decode(bytes, &wish) != 0 || !speaks_for_host(sampler->watches)) {
        give(sampler, NULL, 0);
        return;
    }
    char *words[16] = {"/proc/self/exe", "stacks", "--sample"};
    uint32_t count = 3;
    const struct {
        const char *option;
        char *value;
    } options[] = {{"--pid", wish.pids}, {"--name", wish.name}, {"--exe", wish.exe}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].value[0] != '\0') {
            words[count++] = (char *)(uintptr_t)options[i].option;
            words[count++] = options[i].value;
        }
    if (wish.threads)
        words[count++] = "--threads";
    snprintf(patience, sizeof patience, "%" PRIu64 "ns", wish.patience_ns);
    words[count++] = "--patience";
    words[count++] = patience;
    if (start_job(sampler, words) != 0)
        give(sampler, NULL, 0);
}

/* ---- life ------------------------------------------------------------------------ */

static struct sampler *find(const struct watches *watches, uint64_t stream)
{
    struct sampler *sampler = watches->samplers;
    while (sampler != NULL && sampler->stream != stream)
        sampler = sampler->next;
    return sampler;
}

static void free_timer(uv_handle_t *handle) { free(handle); }

static void end(struct sampler *sampler)
{
    struct watches *watches = sampler->watches;
    struct sampler **link = &watches->samplers;
    while (*link != sampler)
        link = &(*link)->next;
    *link = sampler->next;
    if (sampler->job != NULL)
        job_free(sampler->job);
    uv_close((uv_handle_t *)sampler->timer, free_timer);
    free(sampler);
    if (watches->samplers == NULL && watches->host_fd >= 0) {
        close(watches->host_fd);
        watches->host_fd = -1;
    }
}

void samplers_end(struct watches *watches)
{
    while (watches->samplers != NULL)
        end(watches->samplers);
}

/* Streams of programs are not ours; nor are those of agents that know more than this one. */
static bool is_ours(const struct cop_stream_info *info)
{
    const char *name = info->filter->name;
    return (strcmp(name, "hosts") == 0 && strcmp(info->type, "bytes") == 0) ||
           (strcmp(name, "stacks") == 0 && strcmp(info->type, "text") == 0);
}

static void begin(struct watches *watches, uint64_t stream, uint64_t key)
{
    struct cop_stream_info info;
    if (cop_node_stream(cop__tcp_node(watches->tcp), stream, &info) != 0 ||
        !is_ours(&info))
        return;
    struct sampler *sampler = calloc(1, sizeof *sampler);
    uv_timer_t *timer = sampler ? calloc(1, sizeof *timer) : NULL;
    if (timer == NULL) {
        free(sampler);
        cop__log(watches->log, COP_LOG_ERROR, "%s", cop_strerror(COP_ENOMEM));
        return;
    }
    *sampler = (struct sampler){.next = watches->samplers,
                                .watches = watches,
                                .stream = stream,
                                .key = key,
                                .is_hosts = info.filter->name[0] == 'h',
                                .timer = timer,
                                .interval_ns = COP_SEC};
    watches->samplers = sampler;
    struct cop_span empty = {info.empty->data, info.empty->length};
    if (sampler->is_hosts)
        cop__hosts_interval(empty, &sampler->interval_ns);
    host_counters_read(&sampler->before);
    uv_timer_init(watches->loop, timer);
    timer->data = sampler;
    uint64_t ms = sampler->interval_ns / COP_MSEC;
    uv_timer_start(timer, on_interval, ms, ms);
}

void samplers_event(struct watches *watches, uint64_t stream,
                    const struct cop_stream_event *event)
{
    struct sampler *sampler = find(watches, stream);
    if (event->kind == COP_STREAM_OPENED && sampler == NULL)
        begin(watches, stream, event->key);
    else if (sampler == NULL)
        return;
    else if (event->kind == COP_STREAM_CLOSED)
        end(sampler);
    else if (event->kind == COP_STREAM_DOWN && !sampler->is_hosts)
        sample_stacks(sampler, (struct cop__bytes){event->bytes, event->length});
}
