/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_LOG_H
#define COP_BASE_LOG_H

#include "base/cold.h"

#include <coppice/log.h>
#include <coppice/types.h>

/*
 * Logging through a hook: who owns a node or a driver says where its lines go. There is no
 * global; a NULL log is silence. The function that decides an error logs it, once.
 */
typedef void cop_log_write(void *context, enum cop_log_level level, const char *line);
struct cop_log {
    cop_log_write *write;
    void *context;
    enum cop_log_level limit; /* lines above it are not formatted */
};

/* Lets compilers that can check the arguments against the format; others see nothing. */
#if defined(__GNUC__)
#define COP__LOG_FORMAT __attribute__((format(printf, 3, 4)))
#else
#define COP__LOG_FORMAT
#endif

/* A line longer than COP__LOG_LINE_MAX - 1 bytes is cut and ends in "...". */
#define COP__LOG_LINE_MAX 512
COP__COLD void cop__log(const struct cop_log *log, enum cop_log_level level,
                        const char *format, ...) COP__LOG_FORMAT;
/* What a terminal would act on, or would make two lines of one, becomes '?': lines have words
 * of others in them. cop__log does it. */
void cop__log_clean(char *line);
/* "error", "warn", "info", "debug"; "unknown" for any other number. */
const char *cop__log_level_name(enum cop_log_level level);

#endif
