/* SPDX-License-Identifier: Apache-2.0 */
#include "demo/show.h"

#include "term/json.h"
#include "term/say.h"

#include <inttypes.h>
#include <string.h>

/*
 * The picture: COLUMNS of time, the kill at a quarter of them. A column of a service that has
 * operations is as high as the slowest that was under way in it, by the slowest in the picture; that
 * of the view, as many as had the last view by then.
 */
#define COLUMNS 56u
#define COLUMNS_BEFORE (COLUMNS / 4)
#define COLUMN_LEAST_NS (500 * COP_USEC)
#define HEIGHTS 8u

static const char *const blocks[2][HEIGHTS + 1] = {
    {" ", "_", ".", ":", "-", "=", "+", "*", "#"},
    {" ", "\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83", "\xe2\x96\x84",
     "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87", "\xe2\x96\x88"},
};

struct span {
    cop_time from_ns, column_ns;
};

/* So wide that the slowest healing ends before three quarters; 1, 2 or 5 of something. */
static struct span find_span(const struct demo_claim *claims, uint32_t count,
                             cop_time killed_ns)
{
    cop_time longest = 0, column = COLUMN_LEAST_NS;
    static const cop_time factors[] = {1, 2, 5};
    for (uint32_t i = 0; i < count; i++)
        if (claims[i].healed_ns > longest)
            longest = claims[i].healed_ns;
    for (uint32_t i = 1; column * (COLUMNS / 2) < longest; i++) {
        column = COLUMN_LEAST_NS * factors[i % 3];
        for (uint32_t k = 0; k < i / 3; k++)
            column *= 10;
    }
    cop_time before = column * COLUMNS_BEFORE;
    return (struct span){killed_ns > before ? killed_ns - before : 0, column};
}

/* Of those that were under way then. */
static cop_time slowest_in(const struct demo_claim *claim, cop_time from, cop_time to)
{
    cop_time slowest = 0;
    for (uint32_t i = 0; i < claim->count; i++) {
        const struct demo_op *op = &claim->ops[i];
        if (op->at_ns < to && op->at_ns + op->elapsed_ns >= from &&
            op->elapsed_ns > slowest)
            slowest = op->elapsed_ns;
    }
    return slowest;
}

static double share_of_steps(const struct demo_claim *claim, cop_time to)
{
    uint32_t done = 0;
    while (done < claim->step_count && claim->steps[done] < to)
        done++;
    return (double)done / claim->step_count;
}

static void draw_claim(const struct demo_claim *claim, const struct span *span)
{
    char took[DURATION_SIZE];
    enum colour last = PLAIN;
    cop_time end = span->from_ns + COLUMNS * span->column_ns;
    cop_time most = claim->steps ? 0 : slowest_in(claim, span->from_ns, end);
    printf("  %-10s ", claim->name);
    for (uint32_t i = 0; i < COLUMNS; i++) {
        cop_time from = span->from_ns + i * span->column_ns;
        cop_time to = from + span->column_ns;
        double share = claim->steps ? share_of_steps(claim, to)
                       : most > 0   ? (double)slowest_in(claim, from, to) / (double)most
                                    : 0;
        uint32_t height = (uint32_t)(share * HEIGHTS + 0.999);
        enum colour now =
            i < COLUMNS_BEFORE ? DIM
            : from < span->from_ns + COLUMNS_BEFORE * span->column_ns + claim->healed_ns
                ? YELLOW
                : GREEN;
        if (now != last)
            printf("%s%s", colour(stdout, PLAIN), colour(stdout, now));
        last = now;
        fputs(blocks[has_utf8()][height > HEIGHTS ? HEIGHTS : height], stdout);
    }
    printf("%s  %s%9s%s\n", colour(stdout, PLAIN), colour(stdout, BOLD),
           print_duration(claim->healed_ns, took), colour(stdout, PLAIN));
}

void demo_show_times(const struct demo_claim *claims, uint32_t count,
                     cop_time killed_ns)
{
    struct span span = find_span(claims, count, killed_ns);
    char whole[DURATION_SIZE], right[DURATION_SIZE + 16];
    for (uint32_t i = 0; i < count; i++)
        draw_claim(&claims[i], &span);
    snprintf(right, sizeof right, "+%s",
             print_duration(span.column_ns * (COLUMNS - COLUMNS_BEFORE), whole));
    printf("  %-10s %s%*s%-*s%s%s  to heal\n", "", colour(stdout, DIM),
           (int)COLUMNS_BEFORE, "", (int)(COLUMNS - COLUMNS_BEFORE - strlen(right)),
           has_utf8() ? "\xe2\x86\x91 kill -9" : "^ kill -9", right,
           colour(stdout, PLAIN));
}

void demo_show_claims(const struct demo_claim *claims, uint32_t count)
{
    char median[DURATION_SIZE], slowest[DURATION_SIZE];
    bool utf8 = has_utf8();
    for (uint32_t i = 0; i < count; i++) {
        const struct demo_claim *claim = &claims[i];
        printf("  %s%s%s %-10s %s", colour(stdout, claim->is_kept ? GREEN : RED),
               claim->is_kept ? (utf8 ? "\xe2\x9c\x93" : "ok")
                              : (utf8 ? "\xe2\x9c\x97" : "NO"),
               colour(stdout, PLAIN), claim->name, claim->text);
        if (claim->is_kept && claim->median_ns > 0)
            printf("; median %s, the slowest after the kill %s",
                   print_duration(claim->median_ns, median),
                   print_duration(claim->slowest_ns, slowest));
        putchar('\n');
    }
}

static void put_claim(struct json *json, const struct demo_claim *claim)
{
    json_begin_object(json);
    json_put_string(json, "service", claim->name);
    json_put_bool(json, "ok", claim->is_kept);
    json_put_string(json, "text", claim->text);
    json_put_u64(json, "count", claim->count);
    json_put_u64(json, "median_ns", claim->median_ns);
    json_put_u64(json, "slowest_ns", claim->slowest_ns);
    json_put_u64(json, "healed_ns", claim->healed_ns);
    json_end_object(json);
}

void demo_show_json(const struct demo_summary *summary)
{
    struct json json;
    bool is_good = true;
    for (uint32_t i = 0; i < summary->count; i++)
        is_good = is_good && summary->claims[i].is_kept;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.demo.v1");
    json_put_bool(&json, "ok", is_good);
    json_put_u64(&json, "members", summary->members);
    json_put_string(&json, "transport", summary->transport);
    json_put_string(&json, "killed", summary->killed);
    json_put_u64(&json, "survivors", summary->survivors);
    json_put_string(&json, "root", summary->root);
    json_put_u64(&json, "elapsed_ns", summary->elapsed_ns);
    json_key(&json, "services");
    json_begin_array(&json);
    for (uint32_t i = 0; i < summary->count; i++)
        put_claim(&json, &summary->claims[i]);
    json_end_array(&json);
    json_end_object(&json);
}
