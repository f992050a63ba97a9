/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char cut_mark[] = "...";

void cop__log_clean(char *line)
{
    for (; *line != '\0'; line++)
        if ((unsigned char)*line < ' ' || *line == 0x7f)
            *line = '?';
}

void cop__log(const struct cop_log *log, enum cop_log_level level, const char *format,
              ...)
{
    if (log == NULL || log->write == NULL || level > log->limit)
        return;

    /* On the stack, so that "out of memory" can be logged. */
    char line[COP__LOG_LINE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);

    if (length < 0)
        return;
    if ((size_t)length >= sizeof(line))
        memcpy(line + sizeof(line) - sizeof(cut_mark), cut_mark, sizeof(cut_mark));
    cop__log_clean(line);
    log->write(log->context, level, line);
}

const char *cop__log_level_name(enum cop_log_level level)
{
    switch (level) {
    case COP_LOG_ERROR:
        return "error";
    case COP_LOG_WARN:
        return "warn";
    case COP_LOG_INFO:
        return "info";
    case COP_LOG_DEBUG:
        return "debug";
    }
    return "unknown";
}
