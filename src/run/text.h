/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_TEXT_H
#define COP_RUN_TEXT_H

#include <coppice/node.h>

/* Settings as people write them. *out is written on success only. */

/*
 * Writes one sentence for a person, if there is room for any, and returns COP_EINVAL:
 * `return cop__explain(message, size, "...")`.
 */
int cop__explain(char *message, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "2s", "500ms", "100us", "7ns", "1.5s"; COP_EINVAL, or COP_ERANGE above a day or 0. */
int cop__text_duration(const char *text, cop_time *out);
/* A whole decimal number; COP_EINVAL, or COP_ERANGE outside [least, most]. */
int cop__text_number(const char *text, uint64_t least, uint64_t most, uint64_t *out);
/* "majority", "none", "fixed" or "has:NAMES"; *names are behind the colon. COP_EINVAL. */
int cop__text_quorum(const char *text, enum cop_quorum *out, const char **names);
/* "connection", "ring:PERIOD" or "ring:PERIOD,witnesses:K". COP_EINVAL. */
int cop__text_detector(const char *text, struct cop_detect *out);

#endif
