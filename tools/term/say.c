/* SPDX-License-Identifier: Apache-2.0 */
#include "term/say.h"

#include "run/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
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

#undef fail
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

/* Of the terminal; as most have where it does not say. */
static int columns(int fd)
{
    struct winsize size;
    bool is_known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return is_known ? size.ws_col : 80;
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
    char count[64], line[256];
    snprintf(count, sizeof count, all ? ": %" PRIu64 " of %" PRIu64 : ": %" PRIu64,
             done, all);
    snprintf(line, sizeof line, "%s%s", what, count);
    /* A line that wraps could not be overwritten: the end of `what` goes first. */
    int most = columns(STDERR_FILENO) - 1, room = most - (int)strlen(count);
    if (room < (int)strlen(what))
        snprintf(line, sizeof line, "%.*s%s", room > 0 ? room : 0, what, count);
    fprintf(stderr, "\r\033[K%.*s", most, line);
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
    return cop__text_duration(text, out);
}

int parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    return cop__text_number(text, least, most, out);
}
