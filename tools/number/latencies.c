/* SPDX-License-Identifier: Apache-2.0 */
#include "number/latencies.h"

#include "base/assert.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 65536u
#define LINE_SIZE 256
#define LATENCY_MAX_NS 86400e9 /* a day */

static const char columns[] = "pattern,n,latency_ns";

const char *pattern_print(uint32_t fan_out, char out[PATTERN_SIZE])
{
    if (fan_out == 1)
        snprintf(out, PATTERN_SIZE, "pairs");
    else
        snprintf(out, PATTERN_SIZE, "tree:%" PRIu32, fan_out);
    return out;
}

int pattern_parse(const char *text, uint32_t *fan_out)
{
    uint64_t children = 1;
    bool is_tree = strncmp(text, "tree:", 5) == 0;
    if (is_tree ? parse_number(text + 5, 2, FAN_OUT_MAX, &children) != 0
                : strcmp(text, "pairs") != 0)
        return COP_EINVAL;
    *fan_out = (uint32_t)children;
    return 0;
}

/* ---- the file -------------------------------------------------------------------- */

void latencies_write(FILE *out, const struct latency_row *rows, uint32_t count)
{
    fprintf(out, "%s,low_ns,high_ns,confidence\n", columns);
    for (uint32_t i = 0; i < count; i++) {
        char pattern[PATTERN_SIZE];
        fprintf(out, "%s,%" PRIu32 ",%.0f,%.0f,%.0f,%.4f\n",
                pattern_print(rows[i].fan_out, pattern), rows[i].n, rows[i].ns.median,
                rows[i].ns.low, rows[i].ns.high, rows[i].ns.confidence);
    }
}

/* "tree:4,20,51000" and whatever follows a further comma. */
static bool parse_row(char *line, struct latency_row *out)
{
    char *rest = line;
    const char *pattern = strsep(&rest, ",");
    const char *n = strsep(&rest, ",");
    const char *latency = strsep(&rest, ",");
    uint64_t number;
    char *end;
    if (latency == NULL || pattern_parse(pattern, &out->fan_out) != 0 ||
        parse_number(n, 2, COP_MEMBERS_MAX, &number) != 0)
        return false;
    /* Only plain decimal numbers: strtod alone would take "inf", " 1" and "0x1p3". */
    size_t length = strspn(latency, "0123456789.");
    out->n = (uint32_t)number;
    out->ns = (struct summary){.median = strtod(latency, &end)};
    return length > 0 && end == latency + length && *end == '\0' &&
           out->ns.median > 0 && out->ns.median <= LATENCY_MAX_NS;
}

static int add_row(struct latencies *latencies, const struct latency_row *row)
{
    /* The array doubles at every power of two. */
    if ((latencies->count & (latencies->count - 1)) == 0) {
        size_t room = latencies->count == 0 ? 1 : 2 * (size_t)latencies->count;
        void *rows = realloc(latencies->rows, room * sizeof *row);
        if (rows == NULL)
            return COP_ENOMEM;
        latencies->rows = rows;
    }
    latencies->rows[latencies->count++] = *row;
    return 0;
}

static int wrong(char *message, size_t size, uint32_t line, const char *what)
{
    snprintf(message, size, "line %" PRIu32 ": %s", line, what);
    return COP_EINVAL;
}

static bool are_columns(const char *line)
{
    size_t length = sizeof columns - 1;
    return strncmp(line, columns, length) == 0 &&
           (line[length] == ',' || line[length] == '\0');
}

static int read_lines(FILE *in, struct latencies *out, char *message, size_t size)
{
    char line[LINE_SIZE];
    bool has_columns = false;
    for (uint32_t number = 1; fgets(line, sizeof line, in) != NULL; number++) {
        struct latency_row row;
        size_t length = strcspn(line, "\r\n");
        if (length == sizeof line - 1)
            return wrong(message, size, number, "it is too long");
        line[length] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        if (!has_columns) {
            has_columns = are_columns(line);
            if (!has_columns)
                return wrong(message, size, number,
                             "the columns must begin with pattern,n,latency_ns");
            continue;
        }
        if (!parse_row(line, &row))
            return wrong(message, size, number,
                         "expected a row such as tree:4,20,51000");
        if (out->count == ROWS_MAX)
            return wrong(message, size, number, "these are too many rows");
        if (add_row(out, &row) != 0)
            return COP_ENOMEM;
    }
    return 0;
}

static int compare_rows(const void *a, const void *b)
{
    const struct latency_row *x = a, *y = b;
    if (x->fan_out != y->fan_out)
        return x->fan_out < y->fan_out ? -1 : 1;
    return (x->n > y->n) - (x->n < y->n);
}

/* Sorts the rows, which must be there and differ. */
static int put_in_order(struct latencies *latencies, char *message, size_t size)
{
    if (latencies->count == 0) {
        snprintf(message, size, "there are no rows in it");
        return COP_EINVAL;
    }
    qsort(latencies->rows, latencies->count, sizeof *latencies->rows, compare_rows);
    for (uint32_t i = 1; i < latencies->count; i++) {
        char pattern[PATTERN_SIZE];
        const struct latency_row *row = &latencies->rows[i];
        if (compare_rows(row - 1, row) != 0)
            continue;
        snprintf(message, size, "there are two rows for %s and n = %" PRIu32,
                 pattern_print(row->fan_out, pattern), row->n);
        return COP_EINVAL;
    }
    return 0;
}

int latencies_read(FILE *in, struct latencies *out, char *message, size_t size)
{
    struct latencies latencies = {.count = 0};
    errno = 0;
    int error = read_lines(in, &latencies, message, size);
    if (error == 0 && ferror(in)) {
        snprintf(message, size, "%s", strerror(errno));
        error = COP_EINVAL;
    }
    if (error == 0)
        error = put_in_order(&latencies, message, size);
    if (error != 0)
        latencies_free(&latencies);
    else
        *out = latencies;
    return error;
}

void latencies_free(struct latencies *latencies)
{
    free(latencies->rows);
    *latencies = (struct latencies){.count = 0};
}

/* ---- asking ---------------------------------------------------------------------- */

static double on_line(const struct latency_row *a, const struct latency_row *b,
                      uint32_t n)
{
    double slope = (b->ns.median - a->ns.median) / ((double)b->n - (double)a->n);
    return a->ns.median + slope * ((double)n - (double)a->n);
}

/* The rows of one fan-out: [first, first + count). */
static const struct latency_row *find_curve(const struct latencies *latencies,
                                            uint32_t fan_out, uint32_t *count)
{
    const struct latency_row *rows = latencies->rows;
    uint32_t first = 0, end = 1;
    while (end < latencies->count &&
           (rows[end].fan_out == rows[first].fan_out || rows[end].fan_out <= fan_out)) {
        if (rows[end].fan_out != rows[first].fan_out)
            first = end;
        end++;
    }
    *count = end - first;
    return rows + first;
}

/* A line that falls would end below zero; more nodes are not less contention. */
static struct latency beyond(const struct latency_row *last, uint32_t count, uint32_t n)
{
    struct latency held = {
        .ns = last->ns.median, .fan_out = last->fan_out, .origin = LATENCY_HELD};
    if (count < 2 || last[-1].ns.median > last->ns.median)
        return held;
    held.ns = on_line(last - 1, last, n);
    held.origin = LATENCY_EXTRAPOLATED;
    return held;
}

struct latency latencies_at(const struct latencies *latencies, uint32_t fan_out,
                            uint32_t n)
{
    uint32_t count, i = 0;
    COP_ASSERT(latencies->count > 0);
    const struct latency_row *rows = find_curve(latencies, fan_out, &count);
    while (i < count && rows[i].n < n)
        i++;
    if (i == count)
        return beyond(&rows[count - 1], count, n);
    struct latency latency = {.ns = rows[i].ns.median, .fan_out = rows[i].fan_out};
    if (rows[i].n == n) {
        latency.origin = LATENCY_MEASURED;
    } else if (i == 0) {
        latency.origin = LATENCY_HELD;
    } else {
        latency.origin = LATENCY_INTERPOLATED;
        latency.ns = on_line(&rows[i - 1], &rows[i], n);
    }
    return latency;
}
