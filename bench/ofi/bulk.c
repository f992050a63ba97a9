/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk over libfabric next to bulk over our own sockets: member 0 broadcasts so many bytes to all
 * others, which are processes on this machine, in turns over
 *
 *   sockets          TCP, in clear, as `coppice bench bulk` measures it
 *   local            Unix sockets: whoever gets a chunk reads it where it lies, if the
 *                    kernel permits it, as `coppice bench bulk --local`
 *   PROVIDER         libfabric: whoever gets a chunk reads it where it lies
 *   PROVIDER packets the same with chunks sent in packets
 *
 * What to compare: a provider over TCP with the sockets, one in shared memory with the local
 * ones.
 *
 *   bench_ofi [--mib M] [--members N] [--sets S] [--rounds R] [--json] [PROVIDER...]
 *   bench_ofi --kill [--mib M] [--members N] [PROVIDER...]
 *
 * With --kill nothing is measured: the members are a chain, member 1 is killed when it has
 * half of the bytes, and those below it have to get the rest from member 0.
 */
#include <coppice/coppice.h>
#include <coppice/net_ofi.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/crowd.h"
#include "number/sample.h"
#include "term/json.h"

#define SERVICE 3u
#define MEMBERS_MAX 64u
#define SETS_MAX 100u
#define WAYS_MAX 16u
#define TIMEOUT (600 * COP_SEC)
/* The first ways are our own. */
enum { SOCKETS, LOCAL, OWN_WAYS };

struct options {
    uint64_t mib, members, sets, rounds;
    bool json, kill;
};

/* What all processes share. */
struct board {
    struct cop_ofi_name names[MEMBERS_MAX];
    atomic_uint named, is_over;
    _Atomic uint64_t taken[MEMBERS_MAX], read[MEMBERS_MAX];
};

struct way {
    const char *provider; /* NULL: our own sockets */
    bool is_local;        /* these: Unix sockets, and memory that is read */
    bool no_reads;
    double ns[SETS_MAX];
    uint64_t read; /* payloads, by all */
};

static struct options options = {.mib = 64, .members = 2, .sets = 5, .rounds = 5};
static struct board *board;
static uint8_t *bytes;
static uint64_t length;

/* One member. */
static struct cop_ofi *ofi;
static cop_id self;
static uint64_t asked; /* the token of what is waited for */
static bool is_done;
static int status;

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_ofi: member %u: %s: %s\n", self, what, why);
    exit(1);
}

/* ---- a member over libfabric ----------------------------------------------------- */

static void on_upcall(const struct cop_effect *effect)
{
    struct cop_upcall upcall;
    struct cop_coll coll = {0};
    struct cop_request request = {.coll = &coll};
    if (cop_upcall(effect, &upcall) != 0)
        die("an upcall", "cannot be read");
    coll.handle = upcall.handle;
    if (upcall.kind == COP_UPCALL_PIECE) {
        board->taken[self] += upcall.length;
        if (options.kill && self == 1 && board->taken[self] >= length / 2)
            raise(SIGKILL);
        request.kind = COP_REQUEST_TAKEN;
    } else {
        coll.offset = upcall.offset;
        request.kind = COP_REQUEST_GIVE;
        request.bytes = bytes + upcall.offset;
        request.length = upcall.length;
    }
    int error = cop_ofi_submit(ofi, &request);
    if (error)
        die("a piece", cop_strerror(error));
}

static void on_effect(void *context, const struct cop_effect *effect)
{
    (void)context;
    if (effect->kind == COP_EFFECT_OUT)
        die("removed", cop_strerror(effect->status));
    if (effect->kind == COP_EFFECT_UPCALL)
        on_upcall(effect);
    if (effect->kind != COP_EFFECT_COMPLETE || effect->token != asked)
        return;
    is_done = true;
    status = effect->status;
}

static void wait_a_while(void)
{
    int error = cop_ofi_wait(ofi, COP_MSEC);
    if (error < 0)
        die("the driver", cop_strerror(error));
}

static void ask(struct cop_request *request)
{
    request->token = ++asked;
    is_done = false;
    int error = cop_ofi_submit(ofi, request);
    while (error == 0 && !is_done)
        wait_a_while();
    if (error || status != 0)
        die("a request", cop_strerror(error ? error : status));
}

static void start_member(const struct way *way, cop_incarnation life)
{
    char why[200];
    if (cop_ofi_open(way->provider, NULL, &ofi, why, sizeof why) != 0)
        die("no endpoint", why);
    cop_ofi_name(ofi, &board->names[self]);
    board->named++;
    while (board->named < options.members)
        usleep(1000);
    struct cop_ofi_config config = {.size = sizeof config,
                                    .names = board->names,
                                    .count = (uint32_t)options.members,
                                    .self = self,
                                    .incarnation = life,
                                    .effect = on_effect,
                                    .node = {.quorum = COP_QUORUM_NONE},
                                    .shape = options.kill ? "chain" : NULL,
                                    .no_reads = way->no_reads};
    if (options.kill)
        config.node.detect =
            (struct cop_detect){.ring_period_ns = COP_SEC, .witnesses = 2};
    if (cop_ofi_start(ofi, &config, why, sizeof why) != 0)
        die("no member", why);
    struct cop_coll coll = {
        .service = {.id = SERVICE,
                    .version = 1,
                    .wants = COP_WANTS(COP_UPCALL_PIECE) | COP_WANTS(COP_UPCALL_WANT)}};
    struct cop_request serve = {.kind = COP_REQUEST_SERVICE, .coll = &coll};
    int error = cop_ofi_submit(ofi, &serve);
    if (error)
        die("no service", cop_strerror(error));
}

static void end_member(void)
{
    board->read[self] = cop_ofi_stats(ofi).payloads_read;
    cop_ofi_destroy(ofi, COP_SEC);
    ofi = NULL;
}

static _Noreturn void be_member(const struct way *way, cop_incarnation life)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    start_member(way, life);
    while (!board->is_over)
        wait_a_while();
    end_member();
    exit(0);
}

static void broadcast(uint64_t count)
{
    struct cop_coll coll = {.service = {.id = SERVICE, .version = 1},
                            .group = COP_GROUP_ALL,
                            .flags = COP_BCAST_BULK | COP_BCAST_HEAL,
                            .version = 1,
                            .bulk_length = count};
    struct cop_request request = {
        .kind = COP_REQUEST_BCAST, .coll = &coll, .timeout_ns = TIMEOUT};
    ask(&request);
}

static void wait_for_members(const pid_t *pids)
{
    for (uint64_t i = 1; i < options.members; i++) {
        int code;
        if (waitpid(pids[i], &code, 0) != pids[i] ||
            code != (options.kill && i == 1 ? SIGKILL : 0))
            die("another member", "has failed");
    }
}

static void start_all(const struct way *way, pid_t *pids)
{
    cop_incarnation life = now_ns();
    memset(board, 0, sizeof *board);
    fflush(stdout);
    for (self = 1; self < options.members; self++)
        if ((pids[self] = fork()) == 0)
            be_member(way, life);
    self = 0;
    start_member(way, life);
}

/* They are over, and from `first` on all have taken `rounds` times the bytes. */
static void end_all(struct way *way, const pid_t *pids, uint64_t first, uint64_t rounds)
{
    board->is_over = 1;
    end_member();
    wait_for_members(pids);
    for (uint64_t i = first; i < options.members; i++) {
        if (board->taken[i] != rounds * length)
            die("another member", "has not taken all of it, or more");
        way->read += board->read[i];
    }
}

/* Each way: how long one broadcast takes, in ns. */
static double time_ofi(struct way *way)
{
    pid_t pids[MEMBERS_MAX] = {0};
    start_all(way, pids);
    broadcast(length);
    cop_time begun = now_ns();
    for (uint64_t i = 0; i < options.rounds; i++)
        broadcast(length);
    double took = (double)(now_ns() - begun) / (double)options.rounds;
    end_all(way, pids, 1, options.rounds + 1);
    return took;
}

static void lose_one(struct way *way)
{
    pid_t pids[MEMBERS_MAX] = {0};
    start_all(way, pids);
    broadcast(length);
    end_all(way, pids, 2, 1);
    printf("%s %s: member 1 was killed, the others have all\n", way->provider,
           way->read > 0 ? "read" : "sent");
}

/* ---- our own sockets ------------------------------------------------------------- */

static int take(void *context, struct cop_run *run, struct cop_task *task,
                const struct cop_piece *piece)
{
    (void)task;
    ((struct board *)context)->taken[cop_self(run)] += piece->length;
    return 0;
}

static void on_end(void *context, int error, const struct cop_bcast_result *result)
{
    (void)context;
    (void)result;
    is_done = true;
    status = error;
}

static void call(struct cop_run *run)
{
    const struct cop_bulk bulk = {.length = length, .bytes = bytes};
    const struct cop_call all = {
        .service = SERVICE, .bulk = &bulk, .timeout_ns = TIMEOUT};
    is_done = false;
    int error = cop_rpc(run, &all, on_end, NULL);
    while (error == 0 && !is_done)
        error = cop_poll(run, -1);
    if (error || status != 0)
        die("a call", cop_strerror(error ? error : status));
}

static double time_sockets(const struct way *way)
{
    static struct crowd crowd;
    const struct cop_handlers service = {
        .size = sizeof service, .service = SERVICE, .context = board, .piece = take};
    const struct crowd_config config = {
        .n = (uint32_t)options.members, .is_local = way->is_local, .service = &service};
    memset(board, 0, sizeof *board);
    if (crowd_open(&crowd, &config) != 0)
        exit(1);
    call(crowd.run);
    cop_time begun = now_ns();
    for (uint64_t i = 0; i < options.rounds; i++)
        call(crowd.run);
    double took = (double)(now_ns() - begun) / (double)options.rounds;
    crowd_close(&crowd);
    for (uint64_t i = 1; i < options.members; i++)
        if (board->taken[i] != (options.rounds + 1) * length)
            die("another member", "has not taken all of it");
    return took;
}

/* ---- what came of it ------------------------------------------------------------- */

/* How many times as fast as `other`, set by set. */
static struct summary over(const struct way *way, const struct way *other)
{
    double ratios[SETS_MAX];
    for (uint64_t i = 0; i < options.sets; i++)
        ratios[i] = other->ns[i] / way->ns[i];
    return summarize(ratios, (uint32_t)options.sets);
}

static const char *name_of(const struct way *way)
{
    return way->provider ? way->provider : way->is_local ? "local" : "sockets";
}

/* Whether the kernel lets local members read is theirs to find out. */
static const char *chunks_of(const struct way *way)
{
    return way->is_local ? "either" : way->read > 0 ? "read" : "sent";
}

static void print_way(struct json *json, struct way *way, const struct way *ways)
{
    double speeds[SETS_MAX];
    for (uint64_t i = 0; i < options.sets; i++)
        speeds[i] = (double)length / way->ns[i];
    struct summary speed = summarize(speeds, (uint32_t)options.sets);
    struct summary sockets = over(way, &ways[SOCKETS]), local = over(way, &ways[LOCAL]);
    if (options.json) {
        json_begin_object(json);
        json_put_string(json, "schema", "coppice.bench_ofi.v1");
        json_put_string(json, "way", name_of(way));
        json_put_string(json, "chunks", chunks_of(way));
        json_put_u64(json, "members", options.members);
        json_put_u64(json, "bytes", length);
        json_put_u64(json, "sets", options.sets);
        bench_put_summary(json, "gb_per_s", &speed, 3);
        bench_put_summary(json, "over_sockets", &sockets, 3);
        bench_put_summary(json, "over_local", &local, 3);
        json_end_object(json);
        return;
    }
    printf("%-16s %-6s  %.2f GB/s, %.2f times the sockets' (99 %%: %.2f-%.2f), "
           "%.2f times the local ones' (99 %%: %.2f-%.2f) of %llu sets\n",
           name_of(way), chunks_of(way), speed.median, sockets.median, sockets.low,
           sockets.high, local.median, local.low, local.high,
           (unsigned long long)options.sets);
}

static int measure(struct way *ways, uint32_t count)
{
    struct json json;
    for (uint64_t i = 0; i < options.sets; i++)
        for (uint32_t turn = 0; turn < count; turn++) {
            struct way *way = &ways[(turn + i) % count];
            way->ns[i] = way->provider ? time_ofi(way) : time_sockets(way);
        }
    json_init(&json, stdout);
    for (uint32_t i = 0; i < count; i++)
        print_way(&json, &ways[i], ways);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* ---- life ------------------------------------------------------------------------ */

static int usage(void)
{
    fprintf(stderr,
            "usage: bench_ofi [--kill] [--mib M] [--members N] [--sets S] [--rounds R] "
            "[--json] "
            "[PROVIDER...]\n"
            "N is from 2 (with --kill 3) to %u, S at most %u; at most %u providers.\n",
            MEMBERS_MAX, SETS_MAX, WAYS_MAX / 2 - 1);
    return 2;
}

static bool read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"mib", 1, NULL, 'm'},    {"members", 1, NULL, 'n'}, {"sets", 1, NULL, 's'},
        {"rounds", 1, NULL, 'r'}, {"json", 0, NULL, 'j'},    {"kill", 0, NULL, 'k'},
        {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        uint64_t *number = c == 'm'   ? &options.mib
                           : c == 'n' ? &options.members
                           : c == 's' ? &options.sets
                           : c == 'r' ? &options.rounds
                                      : NULL;
        char *end = "";
        if (number != NULL)
            *number = strtoull(optarg, &end, 10);
        else if (c == 'j')
            options.json = true;
        else if (c == 'k')
            options.kill = true;
        else
            return false;
        if (*end != '\0' || (number != NULL && *number == 0))
            return false;
    }
    return options.members >= (options.kill ? 3 : 2) &&
           options.members <= MEMBERS_MAX && options.sets <= SETS_MAX &&
           options.mib <= 4096 && options.rounds <= 1000 &&
           argc - optind < (int)WAYS_MAX / 2;
}

int main(int argc, char **argv)
{
    static struct way ways[WAYS_MAX];
    static char *both[] = {"tcp;ofi_rxm", "shm", NULL};
    uint32_t count = OWN_WAYS;
    if (!read_options(argc, argv))
        return usage();
    ways[LOCAL].is_local = true;
    char **provider = optind < argc ? argv + optind : both;
    for (; *provider != NULL; provider++) {
        ways[count++] = (struct way){.provider = *provider};
        ways[count++] = (struct way){.provider = *provider, .no_reads = true};
    }
    length = options.mib << 20;
    bytes = malloc(length);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == NULL || board == MAP_FAILED)
        die("no memory", "try fewer --mib");
    for (uint64_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251);
    int code = options.kill ? 0 : measure(ways, count);
    for (uint32_t i = OWN_WAYS; options.kill && i < count; i += 2)
        lose_one(&ways[i]);
    free(bytes);
    return code;
}
