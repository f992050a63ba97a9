/* SPDX-License-Identifier: Apache-2.0 */
#include "top/host_sample.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- /proc ----------------------------------------------------------------------- */

static bool read_load(uint64_t *thousandths)
{
    FILE *file = fopen("/proc/loadavg", "re");
    unsigned whole, hundredths;
    if (file == NULL)
        return false;
    bool good = fscanf(file, "%u.%u", &whole, &hundredths) == 2;
    fclose(file);
    *thousandths = (uint64_t)whole * 1000 + (uint64_t)hundredths * 10;
    return good;
}

static bool read_memory(uint64_t *thousandths)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[160];
    uint64_t total = 0, available = 0;
    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "MemTotal: %" SCNu64, &total);
        sscanf(line, "MemAvailable: %" SCNu64, &available);
    }
    fclose(file);
    if (total == 0 || available > total)
        return false;
    *thousandths = (total - available) * 1000 / total;
    return true;
}

static bool read_cpu(struct host_counters *out)
{
    FILE *file = fopen("/proc/stat", "re");
    uint64_t ticks[8] = {0};
    if (file == NULL)
        return false;
    /* user nice system idle iowait irq softirq steal */
    int got = fscanf(file,
                     "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                     " %" SCNu64 " %" SCNu64 " %" SCNu64,
                     &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5],
                     &ticks[6], &ticks[7]);
    fclose(file);
    for (int i = 0; i < 8; i++) {
        out->all += ticks[i];
        out->busy += i == 3 || i == 4 ? 0 : ticks[i];
    }
    return got == 8;
}

static bool read_network(struct host_counters *out)
{
    FILE *file = fopen("/proc/net/dev", "re");
    char line[512], name[64];
    uint64_t receive, send;
    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, " %63[^:]: %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64,
                   name, &receive, &send) == 3 &&
            strcmp(name, "lo") != 0) {
            out->receive += receive;
            out->send += send;
        }
    fclose(file);
    return true;
}

int host_counters_read(struct host_counters *out)
{
    struct host_counters counters = {.at = now_ns()};
    if (!read_cpu(&counters) || !read_network(&counters))
        return COP_EIO;
    *out = counters;
    return 0;
}

/* A counter that went back is of an interface that went away. */
static uint64_t rate(uint64_t before, uint64_t after, cop_time ns)
{
    if (after < before || ns == 0)
        return 0;
    return (uint64_t)((double)(after - before) * 1e9 / (double)ns);
}

/* ---- which host ------------------------------------------------------------------ */

static void add_link(char *key, const char *path)
{
    char target[64];
    ssize_t length = readlink(path, target, sizeof target - 1);
    size_t used = strlen(key);
    if (length < 0)
        length = 0;
    target[length] = '\0';
    /* "net:[4026531840]": the number says it. */
    const char *number = strchr(target, '[');
    snprintf(key + used, HOST_KEY_MAX - used, ":%.*s",
             number ? (int)strcspn(number + 1, "]") : 0, number ? number + 1 : "");
}

static bool name_host(struct host_sample *out)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL)
        return false;
    bool good = fscanf(file, "%40[0-9a-f-]", out->key) == 1;
    fclose(file);
    add_link(out->key, "/proc/self/ns/pid");
    add_link(out->key, "/proc/self/ns/net");
    if (gethostname(out->host, sizeof out->host - 1) != 0 || out->host[0] == '\0')
        snprintf(out->host, sizeof out->host, "unnamed");
    for (char *at = out->host; *at; at++)
        if (*at <= ' ' || *at == '=')
            *at = '_';
    return good;
}

int host_sample_name(struct host_sample *out)
{
    struct host_sample sample = {0};
    if (!name_host(&sample))
        return COP_EIO;
    *out = sample;
    return 0;
}

int host_sample_since(struct host_counters *before, uint64_t value[COP__HOST_METRICS])
{
    struct host_counters after;
    if (host_counters_read(&after) != 0 || !read_load(&value[COP__HOST_LOAD]) ||
        !read_memory(&value[COP__HOST_MEMORY]))
        return COP_EIO;
    uint64_t ticks = after.all - before->all;
    cop_time elapsed = after.at - before->at;
    value[COP__HOST_CPU] = after.all > before->all && after.busy > before->busy
                               ? (after.busy - before->busy) * 1000 / ticks
                               : 0;
    value[COP__HOST_RECEIVE] = rate(before->receive, after.receive, elapsed);
    value[COP__HOST_SEND] = rate(before->send, after.send, elapsed);
    *before = after;
    return 0;
}

int host_sample_take(cop_time interval_ns, struct host_sample *out)
{
    struct host_sample sample = {0};
    struct host_counters before;
    struct timespec pause = {(time_t)(interval_ns / COP_SEC),
                             (long)(interval_ns % COP_SEC)};
    if (!name_host(&sample) || host_counters_read(&before) != 0)
        return COP_EIO;
    nanosleep(&pause, NULL);
    int error = host_sample_since(&before, sample.value);
    if (!error)
        *out = sample;
    return error;
}

/* ---- lines ----------------------------------------------------------------------- */

#define MARK "coppice-host-1 "

void host_sample_print(const struct host_sample *sample, char out[HOST_LINE_MAX])
{
    int used =
        snprintf(out, HOST_LINE_MAX, MARK "host=%s key=%s", sample->host, sample->key);
    for (int i = 0; i < COP__HOST_METRICS && used < HOST_LINE_MAX; i++)
        used += snprintf(out + used, HOST_LINE_MAX - (size_t)used, " %s=%" PRIu64,
                         cop__host_metric_names[i], sample->value[i]);
}

static bool parse_word(const char *word, size_t length, struct host_sample *out,
                       unsigned *seen)
{
    char text[HOST_KEY_MAX + 8];
    if (length >= sizeof text)
        return false;
    memcpy(text, word, length);
    text[length] = '\0';
    char *value = strchr(text, '=');
    if (value == NULL || value[1] == '\0')
        return false;
    *value++ = '\0';
    char *target = strcmp(text, "host") == 0  ? out->host
                   : strcmp(text, "key") == 0 ? out->key
                                              : NULL;
    if (target) {
        size_t room = target == out->host ? sizeof out->host : sizeof out->key;
        *seen |= target == out->host ? 1u : 2u;
        return (size_t)snprintf(target, room, "%s", value) < room;
    }
    for (unsigned i = 0; i < COP__HOST_METRICS; i++)
        if (strcmp(text, cop__host_metric_names[i]) == 0) {
            *seen |= 4u << i;
            return parse_number(value, 0, INT64_MAX, &out->value[i]) == 0;
        }
    return true; /* of a later version */
}

int host_sample_parse(const char *line, struct host_sample *out)
{
    const char *at = strstr(line, MARK);
    struct host_sample sample = {0};
    unsigned seen = 0;
    if (at == NULL)
        return COP_ENOENT;
    at += strlen(MARK);
    while (*at && *at != '\n') {
        size_t length = strcspn(at, " \r\n");
        if (length > 0 && !parse_word(at, length, &sample, &seen))
            return COP_EMALFORMED;
        at += length;
        at += *at == ' ' || *at == '\r';
    }
    if (seen != (4u << COP__HOST_METRICS) - 1)
        return COP_EMALFORMED;
    *out = sample;
    return 0;
}
