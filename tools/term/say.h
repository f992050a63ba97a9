/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TERM_SAY_H
#define COP_TOOLS_TERM_SAY_H

#include <coppice/types.h>
#include <stdio.h>

/* How the command speaks: messages, colours, progress, durations. */

/*
 * One line on standard error, "coppice: ...", and `code` back: `return fail(EXIT_USAGE,
 * "...")`. Control characters in what users typed are shown as '?', so that one message
 * stays one line.
 */
int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The analyser follows no call with a variable number of arguments: this is what comes back. */
#ifdef __clang_analyzer__
#define fail(code, ...) ((void)fail(code, __VA_ARGS__), (code))
#endif
/* The same line without an end. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW, BLUE };
/* Whether `out` is a terminal that should get colours (NO_COLOR is not set). */
bool has_colour(FILE *out);
/* The sequence that switches to a colour, or "" where has_colour(out) is false. */
const char *colour(FILE *out, enum colour which);

/*
 * Whether text may be UTF-8: yes, unless the environment names another character set.
 */
bool has_utf8(void);

/*
 * "up: 100 of 256", or "states: 100" where `all` is 0, on a terminal's standard error,
 * overwritten by the next and cut to its width; nothing elsewhere, and nothing before a
 * second has passed.
 */
struct progress {
    cop_time begun_ns;
    bool shown;
};
void progress_begin(struct progress *progress);
void progress_show(struct progress *progress, const char *what, uint64_t done,
                   uint64_t all);
void progress_end(struct progress *progress);

/* Monotonic nanoseconds. */
cop_time now_ns(void);

/* "873 ns", "12.3 us", "4.56 ms", "1.20 s". */
#define DURATION_SIZE 24
const char *print_duration(cop_time ns, char out[DURATION_SIZE]);
/* "2s", "500ms", "100us", "7ns", "1.5s"; COP_EINVAL, or COP_ERANGE above a day or 0. */
int parse_duration(const char *text, cop_time *out);
/* A whole decimal number; COP_EINVAL, or COP_ERANGE outside [least, most]. */
int parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out);

#endif
