/* SPDX-License-Identifier: Apache-2.0 */
#include "run/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cop__explain(char *message, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (size > 0)
        vsnprintf(message, size, format, arguments);
    va_end(arguments);
    return COP_EINVAL;
}

int cop__text_duration(const char *text, cop_time *out)
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

int cop__text_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
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

int cop__text_quorum(const char *text, enum cop_quorum *out, const char **names)
{
    static const struct {
        const char *text;
        enum cop_quorum quorum;
    } words[] = {{"majority", COP_QUORUM_MAJORITY},
                 {"none", COP_QUORUM_NONE},
                 {"fixed", COP_QUORUM_FIXED}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].text, text) == 0) {
            *out = words[i].quorum;
            *names = "";
            return 0;
        }
    if (strncmp(text, "has:", 4) != 0 || text[4] == '\0')
        return COP_EINVAL;
    *out = COP_QUORUM_HAS;
    *names = text + 4;
    return 0;
}

/* Shorter, and a busy machine is taken for a dead one; longer, and nobody would wait. */
#define RING_MIN (10 * COP_MSEC)
#define RING_MAX (60 * COP_SEC)

int cop__text_detector(const char *text, struct cop_detect *out)
{
    struct cop_detect detect = {0};
    char period[32];
    unsigned witnesses = 0;
    char rest;
    if (strcmp(text, "connection") == 0) {
        *out = detect;
        return 0;
    }
    int got = sscanf(text, "ring:%31[^,],witnesses:%9u%c", period, &witnesses, &rest);
    if ((got != 1 && got != 2) || (got == 1 && strchr(text, ',') != NULL) ||
        witnesses > COP_WITNESSES_MAX ||
        cop__text_duration(period, &detect.ring_period_ns) != 0 ||
        detect.ring_period_ns < RING_MIN || detect.ring_period_ns > RING_MAX)
        return COP_EINVAL;
    detect.witnesses = witnesses;
    *out = detect;
    return 0;
}
