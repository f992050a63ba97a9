/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cost.h"

#include "bench/chorus.h"
#include "term/commands.h"

#include <coppice/coppice.h>
#include <coppice/stats.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WINDOW 64u
#define WARM_UP 16u
#define LINK_RECORD 24u
#define PATIENCE_S 120

static uint32_t size_of(uint32_t k) { return 1 + k + k * k; }

static uint32_t flags_of(const struct cost_config *config, enum cost_way way)
{
    return (config->all ? 0u : COP_STREAM_LEAVES) |
           (way == COST_FRAGILE ? COP_STREAM_FRAGILE : 0u);
}

/* ---- a whole tree in one process ------------------------------------------------- */

struct delivery {
    cop_id to;
    cop_id from;
    struct cop_frame frame;
};

/* Written by a process that is traced, and read by the one that traces it. */
struct ledger {
    struct cop_stats before, after;
    int status;
};

struct grove {
    const struct cost_config *config;
    enum cost_way way;
    uint32_t n;
    struct cop_node *nodes[CHORUS_MAX];
    bool gives[CHORUS_MAX];
    struct cop_stats stats;
    struct delivery *queue; /* a ring */
    uint32_t head, tail, capacity;
    struct cop_effects effects;
    uint64_t seen, taken, down, answered;
    int status;
};

static void push(struct grove *grove, cop_id from, const struct cop_effect *effect)
{
    if (grove->tail - grove->head == grove->capacity) {
        grove->status = COP_ENOMEM;
        return;
    }
    struct delivery *delivery = &grove->queue[grove->tail++ % grove->capacity];
    *delivery = (struct delivery){effect->peer, from, effect->frame};
    cop_buf_ref(delivery->frame.payload);
}

static void hear(struct grove *grove, cop_id id, const struct cop_effect *effect)
{
    struct cop_stream_event event;
    if (cop_stream_event(effect->result, &event) != 0)
        grove->status = COP_EBUG;
    else if (event.kind == COP_STREAM_OPENED)
        grove->gives[id] = true;
    else if (event.kind == COP_STREAM_OUTPUT && event.complete)
        grove->seen = event.wave;
    else if (event.kind == COP_STREAM_CLOSED)
        grove->status = COP_ELOST;
}

static void step(struct grove *grove, cop_id id, struct cop_event *event)
{
    event->now = COP_SEC;
    int error = cop_step(grove->nodes[id], event, &grove->effects);
    if (error)
        grove->status = error;
    for (uint32_t i = 0; i < grove->effects.count; i++) {
        const struct cop_effect *effect = &grove->effects.items[i];
        if (effect->kind == COP_EFFECT_SEND)
            push(grove, id, effect);
        else if (effect->kind == COP_EFFECT_STREAM)
            hear(grove, id, effect);
    }
}

static void deliver_all(struct grove *grove)
{
    while (grove->head != grove->tail && grove->status == 0) {
        struct delivery delivery = grove->queue[grove->head++ % grove->capacity];
        struct cop_event event = {
            .kind = COP_EVENT_RECV, .peer = delivery.from, .frame = &delivery.frame};
        step(grove, delivery.to, &event);
        cop_buf_unref(delivery.frame.payload);
    }
}

static void submit(struct grove *grove, cop_id id, struct cop_request *request)
{
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = request};
    request->token = 1;
    request->group = 1;
    step(grove, id, &event);
}

/* A packet down, if they are wanted, one of each back-end, and their sum is taken. */
static void run_wave(struct grove *grove)
{
    uint64_t value = grove->seen + 1;
    struct cop_request send = {.kind = COP_REQUEST_STREAM_SEND,
                               .wave = ++grove->down,
                               .bytes = &value,
                               .length = sizeof value};
    if (grove->config->trips)
        submit(grove, 0, &send);
    deliver_all(grove);
    for (cop_id id = 0; id < grove->n && grove->status == 0; id++) {
        struct cop_request put = {
            .kind = COP_REQUEST_STREAM_PUT, .bytes = &value, .length = sizeof value};
        if (grove->gives[id])
            submit(grove, id, &put);
    }
    deliver_all(grove);
    struct cop_request taken = {.kind = COP_REQUEST_STREAM_TAKEN, .wave = grove->seen};
    if (grove->status == 0 && grove->seen != value)
        grove->status = COP_EBUG;
    if (grove->status == 0)
        submit(grove, 0, &taken);
    deliver_all(grove);
}

static int plant(struct grove *grove)
{
    struct cop_shape shape;
    struct cop_view *view;
    int error = cop_shape_make(COP_SHAPE_KARY, grove->config->fan_out, &shape);
    if (error == 0)
        error = cop_view_create_static(grove->n, &shape, 1, &view);
    if (error)
        return error;
    for (cop_id id = 0; id < grove->n && error == 0; id++) {
        struct cop_config config = {.self = id,
                                    .incarnation = 1,
                                    .view = view,
                                    .stats = &grove->stats,
                                    .now = COP_SEC,
                                    .quorum = COP_QUORUM_MAJORITY};
        error = cop_node_create(&config, &grove->nodes[id]);
    }
    cop_view_unref(view);
    grove->capacity = 64 * grove->n;
    grove->queue = calloc(grove->capacity, sizeof *grove->queue);
    return error ? error : grove->queue ? 0 : COP_ENOMEM;
}

static void open_grove(struct grove *grove)
{
    struct cop_stream_options options = {.number = 1,
                                         .network = 1,
                                         .filter = "sum",
                                         .type = "u64",
                                         .flags = flags_of(grove->config, grove->way),
                                         .window = WINDOW};
    struct cop_request open = {.kind = COP_REQUEST_STREAM_OPEN, .stream = &options};
    for (cop_id id = 0; id < grove->n && grove->status == 0; id++) {
        struct cop_event tick = {.kind = COP_EVENT_TICK};
        step(grove, id, &tick);
    }
    deliver_all(grove);
    if (grove->status == 0)
        submit(grove, 0, &open);
    deliver_all(grove);
}

/* Everything, with a stop before and behind the waves whose instructions are counted; never
 * returns. */
_Noreturn static void grow(const struct cost_config *config, enum cost_way way,
                           struct ledger *ledger)
{
    struct grove *grove = calloc(1, sizeof *grove);
    if (grove == NULL)
        _exit(EXIT_FAILED);
    grove->config = config;
    grove->way = way;
    grove->n = size_of(config->fan_out);
    grove->status = plant(grove);
    if (grove->status == 0)
        open_grove(grove);
    for (uint32_t i = 0; i < WARM_UP && grove->status == 0; i++)
        run_wave(grove);
    ledger->before = grove->stats;
    raise(SIGSTOP);
    for (uint32_t i = 0; i < config->waves && grove->status == 0; i++) {
        if (i == config->steps)
            raise(SIGSTOP);
        run_wave(grove);
    }
    ledger->after = grove->stats;
    ledger->status = grove->status;
    _exit(grove->status ? EXIT_FAILED : EXIT_DONE);
}

/* ---- counting its instructions --------------------------------------------------- */

/* Lets it run to its next SIGSTOP, or in single steps, which are counted. False: it is over. */
static bool run_to_stop(pid_t pid, bool steps, uint64_t *count)
{
    int state;
    for (;;) {
        if (ptrace(steps ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, NULL, NULL) != 0 ||
            waitpid(pid, &state, 0) != pid || !WIFSTOPPED(state))
            return false;
        if (WSTOPSIG(state) == SIGSTOP)
            return true;
        ++*count;
    }
}

static bool trace(pid_t pid, uint64_t *count)
{
    int state;
    uint64_t none = 0;
    if (waitpid(pid, &state, 0) != pid || !WIFSTOPPED(state))
        return false;
    /* Who ends this process does not leave one that is stopped. */
    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(uintptr_t)PTRACE_O_EXITKILL);
    bool good = run_to_stop(pid, false, &none) && run_to_stop(pid, true, count);
    ptrace(PTRACE_CONT, pid, NULL, NULL);
    return good;
}

static bool count_steps(const struct cost_config *config, enum cost_way way,
                        struct ledger *ledger, uint64_t *count)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(EXIT_FAILED);
        raise(SIGSTOP);
        grow(config, way, ledger);
    }
    if (pid < 0)
        return false;
    bool good = trace(pid, count);
    if (!good)
        kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return good;
}

static int measure_core(const struct cost_config *config, enum cost_way way,
                        struct cost_result *out)
{
    struct ledger *ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ledger == MAP_FAILED)
        return fail(EXIT_FAILED, "bench: no shared memory: %s", strerror(errno));
    uint64_t count = 0, frames = 0, waves = config->waves;
    ledger->status = COP_ESTATE;
    bool counted = count_steps(config, way, ledger, &count);
    for (int i = 0; i < COP_STATS_KINDS; i++)
        frames += ledger->after.sent[i] - ledger->before.sent[i];
    uint64_t bytes = ledger->after.sent_bytes - ledger->before.sent_bytes;
    int status = ledger->status;
    munmap(ledger, sizeof *ledger);
    if (status)
        return fail(EXIT_FAILED, "bench: the waves could not be counted: %s",
                    cop_strerror(status));
    out->frames[way] = (double)frames / (double)waves;
    out->bytes[way] = (double)(bytes + LINK_RECORD * frames) / (double)waves;
    out->instructions[way] = (double)count / (double)config->steps;
    out->has_instructions = counted;
    return 0;
}

/* ---- system calls of real processes ---------------------------------------------- */

struct front {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct cost_config *config;
    uint64_t wave; /* with the mutex, as all below */
    bool is_done;
};

static uint32_t packet_of(cop_id id, uint64_t wave, uint8_t *out)
{
    uint64_t value = id + wave;
    memcpy(out, &value, sizeof value);
    return sizeof value;
}

static void on_told(void *context, struct cop_run *run, uint64_t stream,
                    const struct cop_stream_event *event)
{
    struct front *front = context;
    bool sends = false;
    pthread_mutex_lock(&front->mutex);
    if (event->kind == COP_STREAM_CLOSED) {
        front->is_done = true;
    } else if (event->kind == COP_STREAM_OUTPUT && event->complete) {
        sends = front->config->trips && (event->wave > front->wave || event->wave == 0);
        front->wave = event->wave;
        front->is_done = front->is_done || event->wave >= front->config->turns;
        sends = sends && !front->is_done;
    }
    if (front->is_done)
        pthread_cond_signal(&front->changed);
    pthread_mutex_unlock(&front->mutex);
    if (sends)
        cop_stream_multicast(run, stream, &stream, sizeof stream);
}

/* The number by which the kernel knows the beginning of a system call; -1: it does not say. */
static long long tracepoint(void)
{
    static const char *const paths[] = {
        "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
        "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id"};
    long long id = -1;
    for (int i = 0; i < 2 && id < 0; i++) {
        FILE *file = fopen(paths[i], "re");
        if (file != NULL && fscanf(file, "%lld", &id) != 1)
            id = -1;
        if (file != NULL)
            fclose(file);
    }
    return id;
}

static bool open_counters(const struct chorus *chorus, int *fds)
{
    long long id = tracepoint();
    struct perf_event_attr attributes = {.type = PERF_TYPE_TRACEPOINT,
                                         .size = sizeof attributes,
                                         .config = (uint64_t)id};
    bool good = id >= 0;
    for (uint32_t i = 0; i < chorus->config.n; i++) {
        fds[i] = -1;
        if (chorus->pids[i] != 0 && good)
            fds[i] = (int)syscall(SYS_perf_event_open, &attributes, chorus->pids[i], -1,
                                  -1, PERF_FLAG_FD_CLOEXEC);
        good = good && (chorus->pids[i] == 0 || fds[i] >= 0);
    }
    return good;
}

static uint64_t read_counters(const int *fds, uint32_t n)
{
    uint64_t sum = 0, one;
    for (uint32_t i = 0; i < n; i++)
        if (fds[i] >= 0 && read(fds[i], &one, sizeof one) == sizeof one)
            sum += one;
    return sum;
}

static int run_turn(struct chorus *chorus, struct front *front, const int *fds,
                    uint64_t number, enum cost_way way, double *calls)
{
    const struct cost_config *config = front->config;
    /* The front-end's own process gives in its callbacks only. */
    uint64_t gives = config->trips ? CHORUS_ANSWER
                     : config->all ? CHORUS_BURST
                                   : CHORUS_FLUSH;
    struct cop_stream_options options = {.number = 3 * number + gives,
                                         .network = 3 * number + gives,
                                         .filter = "sum",
                                         .type = "u64",
                                         .flags = flags_of(config, way),
                                         .window = WINDOW};
    struct timespec until;
    int late = 0;
    front->wave = 0;
    front->is_done = false;
    uint64_t before = read_counters(fds, chorus->config.n);
    int error = cop_stream_open(chorus->run, &options, on_told, front, NULL);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&front->mutex);
    while (error == 0 && !front->is_done && late == 0)
        late = pthread_cond_timedwait(&front->changed, &front->mutex, &until);
    uint64_t wave = front->wave;
    pthread_mutex_unlock(&front->mutex);
    *calls =
        (double)(read_counters(fds, chorus->config.n) - before) / (double)config->turns;
    cop_stream_close(chorus->run, options.number);
    return wave >= config->turns
               ? 0
               : fail(EXIT_FAILED, "bench: the stream ended after wave %" PRIu64, wave);
}

static int count_calls(struct chorus *chorus, struct front *front,
                       struct progress *progress, struct cost_result *out)
{
    static double rows[COST_WAYS][BENCH_ROUNDS_MAX];
    static int fds[CHORUS_MAX];
    uint32_t rounds = front->config->rounds;
    uint64_t number = 0;
    int code = 0;
    enum cost_way only = front->config->only;
    out->has_calls = open_counters(chorus, fds);
    bool runs = out->has_calls || only != COST_WAYS;
    for (uint32_t i = 0; i < rounds && code == 0 && runs; i++) {
        progress_show(progress, "rounds", i, rounds);
        for (int turn = 0; turn < COST_WAYS && code == 0; turn++) {
            /* In turn the first: the machine may be busier in one half of a round. */
            enum cost_way way = (enum cost_way)((turn + (int)i) % COST_WAYS);
            if (only == COST_WAYS || only == way)
                code = run_turn(chorus, front, fds, ++number, way, &rows[way][i]);
        }
    }
    for (uint32_t i = 0; i < chorus->config.n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    for (int way = 0; way < COST_WAYS && code == 0 && out->has_calls; way++)
        out->calls[way] = summarize(rows[way], rounds);
    return code;
}

static int measure_calls(const struct cost_config *config, struct progress *progress,
                         struct cost_result *out)
{
    static struct chorus chorus;
    struct front front = {.config = config};
    char shape[32];
    struct chorus_config cluster = {.n = out->n,
                                    .self = 0,
                                    .shape = shape,
                                    .waves = config->turns,
                                    .packet = packet_of,
                                    .opener = COP_ID_NONE};
    snprintf(shape, sizeof shape, "kary:%" PRIu32, config->fan_out);
    int code = chorus_open(&chorus, &cluster);
    if (code)
        return code;
    pthread_mutex_init(&front.mutex, NULL);
    pthread_cond_init(&front.changed, NULL);
    code = count_calls(&chorus, &front, progress, out);
    chorus_close(&chorus);
    pthread_mutex_destroy(&front.mutex);
    pthread_cond_destroy(&front.changed);
    return code;
}

int bench_cost(const struct cost_config *config, struct progress *progress,
               struct cost_result *out)
{
    *out = (struct cost_result){.n = size_of(config->fan_out)};
    int code = 0;
    bool both = config->only == COST_WAYS;
    for (int way = 0; way < COST_WAYS && code == 0 && both; way++) {
        progress_show(progress, "trees", (uint32_t)way, COST_WAYS);
        code = measure_core(config, (enum cost_way)way, out);
    }
    return code ? code : measure_calls(config, progress, out);
}
