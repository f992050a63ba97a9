/* SPDX-License-Identifier: Apache-2.0 */
#include "term/bars.h"

#include "base/assert.h"
#include "term/say.h"

#include <inttypes.h>

#define ROWS_MAX 32u

/* Full block, and from one eighth to seven. */
static const char *const eighths[] = {"\xe2\x96\x88", "\xe2\x96\x8f", "\xe2\x96\x8e",
                                      "\xe2\x96\x8d", "\xe2\x96\x8c", "\xe2\x96\x8b",
                                      "\xe2\x96\x8a", "\xe2\x96\x89"};

void bars_draw(const struct bars *bars, double value, double most)
{
    double share = most > 0 ? value / most : 0;
    uint32_t steps = bars->utf8 ? 8 : 1;
    uint32_t length = (uint32_t)(share * bars->width * steps + 0.5);
    if (length == 0 && value > 0)
        length = 1;
    for (; length >= steps; length -= steps)
        fputs(bars->utf8 ? eighths[0] : "#", bars->out);
    if (length > 0)
        fputs(eighths[length], bars->out);
}

/*
 * A round step that divides [least, most] into at most `rows`: 1, 2 or 5 times ten to
 * x.
 */
static cop_time round_step(cop_time least, cop_time most, uint32_t rows)
{
    static const cop_time factors[] = {1, 2, 5};
    for (cop_time ten = 1; ten < UINT64_MAX / 10; ten *= 10)
        for (size_t i = 0; i < 3; i++) {
            cop_time step = factors[i] * ten;
            if (most / step - least / step < rows)
                return step;
        }
    return most;
}

static void draw_row(const struct bars *bars, const char *label, uint32_t count,
                     uint32_t most)
{
    fprintf(bars->out, "  %12s  %5" PRIu32 "  ", label, count);
    fputs(colour(bars->out, GREEN), bars->out);
    bars_draw(bars, count, most);
    fprintf(bars->out, "%s\n", colour(bars->out, PLAIN));
}

void bars_histogram(const struct bars *bars, const cop_time *sorted, uint32_t count,
                    uint32_t rows)
{
    COP_ASSERT(count >= 1 && rows >= 1 && rows <= ROWS_MAX);
    uint32_t counts[ROWS_MAX + 1] = {0}, most = 0;
    cop_time high = sorted[(uint64_t)(count - 1) * 99 / 100];
    cop_time step = round_step(sorted[0], high, rows);
    cop_time first = sorted[0] / step;
    uint32_t used = (uint32_t)(high / step - first) + 1;
    for (uint32_t i = 0; i < count; i++) {
        cop_time row = sorted[i] / step - first;
        counts[row < used ? row : used]++;
    }
    for (uint32_t i = 0; i <= used; i++)
        most = counts[i] > most ? counts[i] : most;
    char label[DURATION_SIZE + 2], time[DURATION_SIZE];
    for (uint32_t i = 0; i < used; i++)
        draw_row(bars, print_duration((first + i) * step, time), counts[i], most);
    if (counts[used] > 0) {
        snprintf(label, sizeof label, "> %s",
                 print_duration((first + used) * step, time));
        draw_row(bars, label, counts[used], most);
    }
}
