/* SPDX-License-Identifier: Apache-2.0 */
#include "say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static void say(const char *format, va_list arguments)
{
    char line[1024];
    int length = vsnprintf(line, sizeof line, format, arguments);
    if (length < 0)
        return;
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    fprintf(stderr, "coppice: %s\n", line);
}

int fail(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    return code;
}

void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

bool has_colour(FILE *out)
{
    const char *no = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return (no == NULL || *no == '\0') && isatty(fileno(out)) &&
           (terminal == NULL || strcmp(terminal, "dumb") != 0);
}

const char *colour(FILE *out, enum colour which)
{
    static const char *const sequences[] = {"\033[0m",  "\033[1m",  "\033[2m",
                                            "\033[31m", "\033[32m", "\033[33m",
                                            "\033[34m"};
    return has_colour(out) ? sequences[which] : "";
}

bool has_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (value == NULL || *value == '\0')
            continue;
        const char *set = strchr(value, '.');
        return set != NULL &&
               (strcasecmp(set, ".utf-8") == 0 || strcasecmp(set, ".utf8") == 0);
    }
    return true;
}

cop_time now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (cop_time)now.tv_sec * COP_SEC + (cop_time)now.tv_nsec;
}

void progress_begin(struct progress *progress)
{
    progress->begun_ns = now_ns();
    progress->shown = false;
}

void progress_show(struct progress *progress, const char *what, uint64_t done,
                   uint64_t all)
{
    if (!isatty(STDERR_FILENO) || now_ns() - progress->begun_ns < COP_SEC)
        return;
    progress->shown = true;
    fprintf(stderr, "\r\033[K%s: %" PRIu64 " of %" PRIu64, what, done, all);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}

const char *print_duration(cop_time ns, char out[DURATION_SIZE])
{
    static const struct {
        cop_time unit;
        const char *name;
    } units[] = {{COP_SEC, "s"}, {COP_MSEC, "ms"}, {COP_USEC, "us"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (ns < units[i].unit)
            continue;
        double value = (double)ns / (double)units[i].unit;
        int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
        snprintf(out, DURATION_SIZE, "%.*f %s", decimals, value, units[i].name);
        return out;
    }
    snprintf(out, DURATION_SIZE, "%" PRIu64 " ns", ns);
    return out;
}

int parse_duration(const char *text, cop_time *out)
{
    static const struct {
        const char *name;
        double unit;
    } units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"m", 60e9}};
    char *end;
    /* Only plain decimal numbers: strtod alone would take "inf", " 1" and "0x1p3". */
    size_t length = strspn(text, "0123456789.");
    errno = 0;
    double value = strtod(text, &end);
    if (length == 0 || end != text + length)
        return COP_EINVAL;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        value *= units[i].unit;
        if (errno != 0 || value < 1 || value > 86400e9)
            return COP_ERANGE;
        *out = (cop_time)value;
        return 0;
    }
    return COP_EINVAL;
}

int parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    size_t length = strlen(text);
    if (length == 0 || strspn(text, "0123456789") != length)
        return COP_EINVAL;
    errno = 0;
    unsigned long long value = strtoull(text, NULL, 10);
    if (errno != 0 || value < least || value > most)
        return COP_ERANGE;
    *out = value;
    return 0;
}
