/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bitmap.h"
#include "base/random.h"

/*
 * What one question to a tree of a million costs when 1 % of it is dead. One JSON
 * object per line: shape, repair, how many of the dead are in the bitmap and how many
 * in the differences since, and nanoseconds per call, the median of several rounds.
 * Ranks are asked in random order, so that the caches help no more than they would in a
 * simulator.
 *
 *   bench_tree_cost [n]
 */
#define ROUNDS 7
#define CALLS 100000U

struct bench {
    struct cop_tree tree;
    cop_rank *from; /* living ranks, CALLS of each */
    cop_rank *to;
    struct cop_ranks children;
    uint64_t sum; /* of answers, so that no call can be left out */
};

typedef void question(struct bench *bench, uint32_t i);

static void ask_parent(struct bench *bench, uint32_t i)
{
    bench->sum += cop_tree_parent(&bench->tree, bench->from[i]);
}

static void ask_children(struct bench *bench, uint32_t i)
{
    if (cop_tree_children(&bench->tree, bench->from[i], &bench->children) != 0)
        exit(1);
    bench->sum += bench->children.count;
}

static void ask_next_hop(struct bench *bench, uint32_t i)
{
    bench->sum += cop_tree_next_hop(&bench->tree, bench->from[i], bench->to[i]);
}

static void ask_size(struct bench *bench, uint32_t i)
{
    bench->sum += cop_tree_size(&bench->tree, bench->from[i]);
}

/* Of this process only: the machine may be busy with others. */
static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * COP_SEC + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;
    return (*left > *right) - (*left < *right);
}

/* Nanoseconds for CALLS calls, the median. */
static uint64_t measure(struct bench *bench, question *ask)
{
    uint64_t took[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t start = now_ns();
        for (uint32_t i = 0; i < CALLS; i++)
            ask(bench, i);
        took[round] = now_ns() - start;
    }
    qsort(took, ROUNDS, sizeof(took[0]), compare);
    return took[ROUNDS / 2];
}

static void print_cost(const char *name, uint64_t ns)
{
    printf(",\"%s_ns\":%.1f", name, (double)ns / CALLS);
}

static void run(struct bench *bench, const char *shape, enum cop_repair repair)
{
    static const char *const names[] = {"splice", "promote", "rebalance"};
    const struct cop_dead *dead = bench->tree.dead;
    bench->tree.repair = repair;
    if (cop_shape_parse(shape, &bench->tree.shape, NULL, 0) != 0)
        exit(2);
    printf("{\"schema\":\"coppice.bench.tree_cost.v1\",\"shape\":\"%s\",\"n\":%u,"
           "\"repair\":\"%s\",\"dead_base\":%u,\"dead_extra\":%u",
           shape, bench->tree.n, dead == NULL ? "none" : names[repair],
           dead == NULL ? 0 : cop_dead_count(dead) - dead->extra_count,
           dead == NULL ? 0 : dead->extra_count);
    print_cost("parent", measure(bench, ask_parent));
    print_cost("children", measure(bench, ask_children));
    print_cost("next_hop", measure(bench, ask_next_hop));
    print_cost("size", measure(bench, ask_size));
    printf(",\"check\":%llu}\n", (unsigned long long)bench->sum);
    (void)fflush(stdout);
}

/* Sorted, without repetition: each of n with the chance of `per_mille`. */
static uint32_t choose(cop_rank *out, uint32_t n, uint32_t per_mille,
                       struct cop__random *random)
{
    uint32_t count = 0;
    for (cop_rank rank = 0; rank < n; rank++) {
        if (cop__random_chance(random, per_mille, 1000))
            out[count++] = rank;
    }
    return count;
}

static cop_rank some_living(const struct cop_dead *dead, uint32_t n,
                            struct cop__random *random)
{
    cop_rank rank;
    do {
        rank = (cop_rank)cop__random_below(random, n);
    } while (cop_dead_has(dead, rank));
    return rank;
}

static void choose_questions(struct bench *bench, struct cop__random *random)
{
    for (uint32_t i = 0; i < CALLS; i++) {
        bench->from[i] = some_living(bench->tree.dead, bench->tree.n, random);
        bench->to[i] = some_living(bench->tree.dead, bench->tree.n, random);
    }
}

static void run_all(struct bench *bench, const struct cop_dead *dead,
                    struct cop__random *random)
{
    static const char *const shapes[] = {"radix:4", "kary:16", "knomial:2"};
    bench->tree.dead = dead;
    bench->tree.root = some_living(dead, bench->tree.n, random);
    choose_questions(bench, random);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        run(bench, shapes[i], COP_REPAIR_SPLICE);
        if (dead == NULL)
            continue;
        run(bench, shapes[i], COP_REPAIR_REBALANCE);
        run(bench, shapes[i], COP_REPAIR_PROMOTE);
    }
}

/* Of the 1 % some are news: those that the bitmap does not have yet. */
static uint32_t take_news(cop_rank *dead, uint32_t count, cop_rank *news, uint32_t want)
{
    uint32_t taken = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (taken < want && (uint64_t)i * want / count >= taken)
            news[taken++] = dead[i];
        else
            dead[kept++] = dead[i];
    }
    return taken;
}

/* With nobody dead, with 1 % of them, and with some of these as news. */
static int run_with(struct bench *bench, cop_rank *ranks, cop_rank *news,
                    struct cop__random *random)
{
    uint32_t n = bench->tree.n;
    uint32_t count = choose(ranks, n, 10, random);
    struct cop_bitmap *all = cop__bitmap_create(n, ranks, count);
    uint32_t news_count = take_news(ranks, count, news, 3000);
    struct cop_bitmap *most = cop__bitmap_create(n, ranks, count - news_count);
    bool has_both = all != NULL && most != NULL;
    if (has_both) {
        run_all(bench, NULL, random);
        run_all(bench, &(struct cop_dead){all, NULL, 0}, random);
        run_all(bench, &(struct cop_dead){most, news, news_count}, random);
    }
    cop__bitmap_unref(all);
    cop__bitmap_unref(most);
    return has_both ? 0 : 1;
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : UINT32_C(1) << 20;
    if (n < 1000 || n > COP_MEMBERS_MAX) {
        (void)fprintf(stderr, "tree_cost: n must be from 1000 to %u\n",
                      COP_MEMBERS_MAX);
        return 2;
    }
    struct cop__random random;
    cop__random_init(&random, 1);
    struct bench bench = {.tree = {.n = n}};
    cop_rank *ranks = calloc(n, sizeof(*ranks));
    cop_rank *news = calloc(n, sizeof(*news));
    bench.from = calloc(CALLS, sizeof(*bench.from));
    bench.to = calloc(CALLS, sizeof(*bench.to));
    int status = 1;
    if (ranks != NULL && news != NULL && bench.from != NULL && bench.to != NULL)
        status = run_with(&bench, ranks, news, &random);
    if (status != 0)
        (void)fputs("tree_cost: out of memory\n", stderr);
    cop_ranks_free(&bench.children);
    free(ranks);
    free(news);
    free(bench.from);
    free(bench.to);
    return status;
}
