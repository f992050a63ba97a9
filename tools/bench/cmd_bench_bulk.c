/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bulk.h"
#include "bench/crowd.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"

#include <coppice/error.h>
#include <coppice/tree.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *size, *shape;
    uint64_t n, chunk_kib, rounds;
    bool is_local, as_json;
};

/* "64M", "100K", "1G", "12345". */
static int parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMG";
    char digits[24];
    size_t length = strspn(text, "0123456789");
    const char *unit = text[length] ? strchr(units, text[length]) : NULL;
    if (length == 0 || length >= sizeof digits || (text[length] && !unit) ||
        (unit && text[length + 1]))
        return COP_EINVAL;
    memcpy(digits, text, length);
    digits[length] = '\0';
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    int error = parse_number(digits, 1, COP_BULK_MAX >> shift, out);
    if (!error)
        *out <<= shift;
    return error;
}

static double rate(const struct bulk_config *config, const struct summary *summary)
{
    return (double)config->length * (config->n - 1) / summary->median * 1e9 / 1048576;
}

static void print_text(const struct bulk_config *config,
                       const struct bulk_result *result)
{
    char copies[DURATION_SIZE], bulk[DURATION_SIZE], sent[DURATION_SIZE];
    printf("%" PRIu64 " bytes to each of %" PRIu32 " others, %s, %s, median of %" PRIu32
           " rounds, with the interval that holds it in 99 %%\n\n",
           config->length, config->n - 1, config->shape,
           config->is_local ? "Unix sockets" : "TCP", config->rounds);
    printf("copies at once, one hop  %10s %8.0f MiB/s in all\n",
           print_duration((cop_time)result->copies_ns.median, copies),
           rate(config, &result->copies_ns));
    printf("bulk through the tree    %10s %8.0f MiB/s in all\n",
           print_duration((cop_time)result->bulk_ns.median, bulk),
           rate(config, &result->bulk_ns));
    if (config->is_local)
        printf("the same, nothing read   %10s %8.0f MiB/s in all: takes %.2f times as "
               "long (%.2f-%.2f)\n",
               print_duration((cop_time)result->sent_ns.median, sent),
               rate(config, &result->sent_ns), result->gain.median, result->gain.low,
               result->gain.high);
    printf("share of the bandwidth   %s%9.0f %%%s (%.0f-%.0f)\n",
           colour(stdout, result->share.median >= 0.6 ? GREEN : YELLOW),
           100 * result->share.median, colour(stdout, PLAIN), 100 * result->share.low,
           100 * result->share.high);
    printf("memory of a member       %7" PRIu64 " KiB idle, at most %" PRIu64
           " KiB more\n",
           result->idle_bytes >> 10, result->grown_bytes >> 10);
}

static void print_json(const struct bulk_config *config,
                       const struct bulk_result *result)
{
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.bench.bulk.v1");
    json_put_u64(&json, "n", config->n);
    json_put_string(&json, "shape", config->shape);
    json_put_u64(&json, "bytes", config->length);
    json_put_u64(&json, "chunk_bytes", config->chunk);
    json_put_u64(&json, "rounds", config->rounds);
    bench_put_summary(&json, "copies_ns", &result->copies_ns, 0);
    bench_put_summary(&json, "bulk_ns", &result->bulk_ns, 0);
    bench_put_summary(&json, "share", &result->share, 4);
    if (config->is_local) {
        bench_put_summary(&json, "sent_ns", &result->sent_ns, 0);
        bench_put_summary(&json, "gain", &result->gain, 4);
    }
    json_put_u64(&json, "idle_bytes", result->idle_bytes);
    json_put_u64(&json, "grown_bytes", result->grown_bytes);
    json_end_object(&json);
}

static int run(const struct options *options)
{
    struct bulk_config config = {.n = (uint32_t)options->n,
                                 .shape = options->shape,
                                 .chunk = (uint32_t)(options->chunk_kib << 10),
                                 .rounds = (uint32_t)options->rounds,
                                 .is_local = options->is_local};
    struct cop_shape shape;
    struct bulk_result result;
    struct progress progress;
    char message[200];
    if (parse_size(options->size, &config.length) != 0)
        return fail(EXIT_USAGE, "bench: --size is a number of bytes as 64M, not '%s'",
                    options->size);
    if (cop_shape_parse(options->shape, &shape, message, sizeof message) != 0)
        return fail(EXIT_USAGE, "bench: --shape: %s", message);
    if (config.chunk == 0)
        config.chunk = COP_BULK_CHUNK;
    progress_begin(&progress);
    int code = bench_bulk(&config, &progress, &result);
    progress_end(&progress);
    if (code == 0)
        (options->as_json ? print_json : print_text)(&config, &result);
    return code;
}

int cmd_bench_bulk(int argc, char **argv)
{
    struct options got = {.size = "64M", .shape = "kary:2", .n = 32, .rounds = 5};
    const struct args_option options[] = {
        {'n', "members", "N", "how many processes: 32", ARGS_NUMBER, &got.n, 2,
         CROWD_MAX},
        {0, "size", "BYTES", "how much: 64M", ARGS_TEXT, &got.size, 0, 0},
        {0, "shape", "SHAPE", "of the tree: kary:2", ARGS_TEXT, &got.shape, 0, 0},
        {0, "chunk", "KIB", "how long a piece is: 128", ARGS_NUMBER, &got.chunk_kib, 1,
         COP_BULK_CHUNK_MAX >> 10},
        {0, "rounds", "R", "how often both have a turn: 5", ARGS_NUMBER, &got.rounds, 1,
         BENCH_ROUNDS_MAX},
        {0, "local", NULL, "Unix sockets: members read each other's memory", ARGS_FLAG,
         &got.is_local, 0, 0},
        {0, "json", NULL, "print one object: coppice.bench.bulk.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "bench",
        .usage = "bulk [options]",
        .text =
            "Measures bulk of one member to all, through a tree, against bare copies:\n"
            "as many connections of one hop, all at once; and the memory that it "
            "takes\n"
            "at a member. With --local also with and without reading it in the memory\n"
            "of whoever has it.",
        .options = options,
        .most = 0,
    };
    int code;
    return args_parse(&args, argc, argv, &code) ? run(&got) : code;
}
