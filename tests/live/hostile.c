/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member that has the key, says who it is, and then says what no honest member would: sets
 * of everybody, epochs of the future, answers and outcomes of sweeps that are others', and
 * noise in every kind of message; trees of everybody there could be, sweeps of lives that it makes
 * up, the last view that there could be, words of strangers, and letters that nobody waits for; but no
 * accusation and no proposal, which members are entitled to make.
 *
 *   live_hostile MEMBERS KEY ID COUNT SEED
 *
 * Sends COUNT frames to every other member; ends when all are written, or when nobody takes
 * them any more.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/random.h"
#include "names/cluster.h"
#include "net/tcp/peers.h"
#include "net/tls/tls.h"
#include "node/node.h"
#include "run/listen.h"
#include "view/view.h"
#include "wire/messages.h"

#define BURST 64u
#define TURN_MS 2
#define MEMBERS_MAX 16u
#define WELL_MADE_BURST 4u  /* large ones are among them */
#define PATIENCE_TURNS 5000 /* until they have come: 10 s */

struct hostile {
    struct cluster cluster;
    struct cop_view *view;
    struct cop__clock clock;
    struct cop__peers *peers;
    struct cop__tcp_stats stats;
    struct cop__random random;
    struct cop_log log;
    uv_timer_t timer;
    cop_id self;
    uint64_t left, turns, waited;
    uint64_t noisy; /* so many of the frames, the last ones */
    /* Sent to each, and how many of them it has, by its own word. */
    uint64_t letters[MEMBERS_MAX], received[MEMBERS_MAX];
    uint32_t ups;
};

static const uint16_t kinds[] = {
    COP__KIND_PING,
    COP__KIND_PONG,
    COP__KIND_WITNESSED,
    COP__KIND_GOSSIP,
    COP__KIND_WHOLE,
    COP__KIND_SYNC,
    COP__KIND_INVITED,
    COP__KIND_ASK,
    COP__KIND_ANSWER,
    COP__KIND_TURN,
    COP__KIND_OUTCOME,
    COP__KIND_DONE,
    COP__KIND_HOLD,
    COP__KIND_LETTER,
    COP__KIND_RECEIPT,
    COP__KIND_DATA,
    COP__KIND_REPLY,
    COP__KIND_COMMAND,
    9999,
};

/* ---- frames ---------------------------------------------------------------------- */

/* Small, or absurd. */
static uint64_t some(struct hostile *hostile)
{
    static const uint64_t odd[] = {0, 1, 2, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1};
    uint64_t pick = cop__random_below(&hostile->random, 12);
    return pick < 6 ? odd[pick] : cop__random_below(&hostile->random, 8);
}

static struct cop_buf *noise(struct hostile *hostile, uint32_t length)
{
    struct cop_buf *buf = cop_buf_create(length);
    COP_ASSERT(buf != NULL);
    for (uint32_t i = 0; i < length; i++)
        buf->data[i] = (uint8_t)cop__random_below(&hostile->random, 256);
    return buf;
}

/* An answer, or an outcome, of a sweep that somebody else has begun, or never will. */
static struct cop_buf *sweep_frame(struct hostile *hostile, uint16_t kind)
{
    struct cop_buf *bytes = noise(hostile, (uint32_t)some(hostile) % 60000u);
    struct cop__bytes all = {bytes->data, bytes->length};
    struct cop_buf *frame;
    if (kind == COP__KIND_ANSWER) {
        struct cop__msg_answer answer = {.initiator = (cop_id)some(hostile),
                                         .incarnation = hostile->cluster.first,
                                         .sequence = some(hostile),
                                         .mark = some(hostile),
                                         .floor = some(hostile),
                                         .flags = (uint8_t)some(hostile),
                                         .parts = all};
        frame = cop__encode_answer(&answer);
    } else {
        struct cop__msg_ask ask = {.initiator = (cop_id)some(hostile),
                                   .incarnation = hostile->cluster.first,
                                   .sequence = some(hostile),
                                   .mark = some(hostile),
                                   .epoch = some(hostile),
                                   .left_ns = some(hostile),
                                   .hop_ns = some(hostile),
                                   .protocol = (uint8_t)some(hostile),
                                   .flags = (uint8_t)some(hostile),
                                   .shape = (uint8_t)some(hostile),
                                   .arity = (uint32_t)some(hostile),
                                   .members = (uint32_t)some(hostile),
                                   .payload = all};
        frame = cop__encode_ask(&ask);
    }
    cop_buf_unref(bytes);
    COP_ASSERT(frame != NULL);
    return frame;
}

/* ---- frames in which everything is right but what they say ------------------------ */

static struct cop__msg_ask own_ask(struct hostile *hostile)
{
    return (struct cop__msg_ask){.initiator = hostile->self,
                                 .incarnation = hostile->cluster.first,
                                 .sequence =
                                     1 + cop__random_below(&hostile->random, 100),
                                 .epoch = 1,
                                 .left_ns = 3600 * COP_SEC,
                                 .hop_ns = COP_SEC,
                                 .flags = 1};
}

static struct cop_buf *ask_everybody(struct hostile *hostile)
{
    struct cop__msg_ask ask = own_ask(hostile);
    ask.shape = COP_SHAPE_CHAIN;
    ask.members = COP_MEMBERS_MAX;
    return cop__encode_ask(&ask);
}

static struct cop_buf *ask_in_another_life(struct hostile *hostile)
{
    struct cop_buf *bytes = noise(hostile, 800000);
    struct cop__msg_ask ask = own_ask(hostile);
    ask.incarnation += 1 + cop__random_below(&hostile->random, 1000000);
    ask.shape = COP_SHAPE_FLAT;
    ask.members = hostile->cluster.n;
    ask.payload = (struct cop__bytes){bytes->data, bytes->length};
    struct cop_buf *frame = cop__encode_ask(&ask);
    cop_buf_unref(bytes);
    return frame;
}

static struct cop_buf *last_view(struct hostile *hostile)
{
    struct cop_ballot ballot = cop_view_ballot(hostile->view);
    struct cop__delta delta = {0};
    struct cop_view *view;
    ballot.epoch = UINT64_MAX;
    COP_ASSERT(cop__view_derive(hostile->view, &ballot, &delta, &view) == 0);
    struct cop_buf *bytes = cop__view_encode(view);
    COP_ASSERT(bytes != NULL);
    struct cop__msg_whole whole = {.view = {bytes->data, bytes->length}};
    struct cop_buf *frame = cop__encode_whole(&whole);
    cop_buf_unref(bytes);
    cop_view_unref(view);
    return frame;
}

static struct cop_buf *word_of_a_stranger(struct hostile *hostile, cop_id to)
{
    struct cop__msg_sync sync = {.epoch = 0};
    struct cop_buf *payload = cop__encode_sync(&sync);
    COP_ASSERT(payload != NULL);
    struct cop_frame frame = {
        .header = {.kind = COP__KIND_SYNC,
                   .sender = 100 + (cop_id)cop__random_below(&hostile->random, 1 << 20),
                   .receiver = to,
                   .sender_incarnation = 1,
                   .receiver_incarnation = hostile->cluster.first,
                   .epoch = 1,
                   .length = payload->length},
        .payload = payload,
    };
    struct cop_buf *wrapped = cop__detour_wrap(&frame);
    cop_buf_unref(payload);
    return wrapped;
}

/* One that is for somebody else than an agent. */
static struct cop_buf *letter_to(struct hostile *hostile, cop_id to)
{
    struct cop_ballot ballot = cop_view_ballot(hostile->view);
    struct cop__msg_letter letter = {.number = ++hostile->letters[to],
                                     .epoch = ballot.epoch,
                                     .root = ballot.root,
                                     .incarnation = ballot.incarnation,
                                     .bytes = {(const uint8_t *)"hello", 5}};
    return cop__encode_letter(&letter);
}

static void send_well_made(struct hostile *hostile, cop_id to)
{
    /* The last is a letter: whoever has it has all the others. */
    bool is_last = hostile->left == hostile->noisy + 1;
    uint64_t pick = is_last ? 4 : cop__random_below(&hostile->random, 5);
    static const uint16_t well_made[] = {COP__KIND_ASK, COP__KIND_ASK, COP__KIND_WHOLE,
                                         COP__KIND_RELAY, COP__KIND_LETTER};
    struct cop_buf *payload = pick == 0   ? ask_everybody(hostile)
                              : pick == 1 ? ask_in_another_life(hostile)
                              : pick == 2 ? last_view(hostile)
                              : pick == 3 ? word_of_a_stranger(hostile, to)
                                          : letter_to(hostile, to);
    COP_ASSERT(payload != NULL);
    struct cop_frame frame = {
        .header = {.kind = well_made[pick],
                   .sender = hostile->self,
                   .receiver = to,
                   .sender_incarnation = hostile->cluster.first,
                   .receiver_incarnation = hostile->cluster.first,
                   .epoch = 1,
                   .length = payload->length},
        .payload = payload,
    };
    COP_ASSERT(cop__peers_send(hostile->peers, to, &frame) == 0);
    cop_buf_unref(payload);
}

static bool all_have_come(const struct hostile *hostile)
{
    for (cop_id to = 0; to < hostile->cluster.n; to++)
        if (hostile->received[to] < hostile->letters[to])
            return false;
    return true;
}

/* Noise ends the connection sooner or later: what is well made comes before it. */
static void send_one(struct hostile *hostile, cop_id to)
{
    if (hostile->left > hostile->noisy) {
        send_well_made(hostile, to);
        return;
    }
    uint64_t pick = cop__random_below(&hostile->random, sizeof kinds / sizeof *kinds);
    uint16_t kind = kinds[pick];
    bool is_sweep = kind == COP__KIND_ASK || kind == COP__KIND_ANSWER;
    struct cop_buf *payload =
        is_sweep ? sweep_frame(hostile, kind)
                 : noise(hostile, (uint32_t)cop__random_below(&hostile->random, 200));
    struct cop_frame frame = {
        .header = {.kind = kind,
                   .sender = hostile->self,
                   .receiver = to,
                   .sender_incarnation = hostile->cluster.first,
                   .receiver_incarnation = hostile->cluster.first,
                   .epoch = pick % 3 == 0 ? some(hostile) : 1,
                   .length = payload->length},
        .payload = payload,
    };
    COP_ASSERT(cop__peers_send(hostile->peers, to, &frame) == 0);
    cop_buf_unref(payload);
}

/* ---- the loop -------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct hostile *hostile = timer->data;
    cop_id others = hostile->cluster.n - 1;
    /* First it is there, as a member should be. */
    for (cop_id to = 0; hostile->ups < others && to < hostile->cluster.n; to++)
        if (to != hostile->self)
            COP_ASSERT(cop__peers_keep(hostile->peers, to) == 0);
    bool is_noise = hostile->left <= hostile->noisy;
    uint32_t burst = is_noise ? BURST : WELL_MADE_BURST;
    if (hostile->ups < others ||
        (is_noise && !all_have_come(hostile) && ++hostile->waited < PATIENCE_TURNS))
        burst = 0;
    for (uint32_t i = 0; i < burst && hostile->left > (is_noise ? 0 : hostile->noisy);
         i++) {
        for (cop_id to = 0; to < hostile->cluster.n; to++)
            if (to != hostile->self)
                send_one(hostile, to);
        hostile->left--;
    }
    cop__peers_flush(hostile->peers);
    /* What was cut for nonsense is not waited for. */
    if (hostile->left == 0 && ++hostile->turns > 200) {
        printf("%" PRIu32 " connections\n", hostile->ups);
        fflush(stdout);
        _Exit(hostile->ups > 0 ? 0 : 1);
    }
}

static void note_receipt(struct hostile *hostile, const struct cop_frame *frame)
{
    struct cop__msg_receipt receipt;
    cop_id from = frame->header.sender;
    if (from < MEMBERS_MAX &&
        cop__decode_receipt(frame->payload->data, frame->payload->length, &receipt) ==
            0)
        hostile->received[from] = receipt.number;
}

static void on_event(void *context, const struct cop_event *event)
{
    struct hostile *hostile = context;
    hostile->ups += event->kind == COP_EVENT_PEER_UP;
    if (event->kind == COP_EVENT_RECV && event->frame->header.kind == COP__KIND_RECEIPT)
        note_receipt(hostile, event->frame);
}

static cop_incarnation on_known(void *context, cop_id id)
{
    const struct hostile *hostile = context;
    return id < hostile->cluster.n ? hostile->cluster.first : 0;
}

static int on_address(void *context, cop_id id, struct cop__address *out)
{
    struct hostile *hostile = context;
    return cluster_address(&hostile->cluster, id, out);
}

static void on_line(void *context, enum cop_log_level level, const char *line)
{
    (void)context;
    (void)level;
    fprintf(stderr, "hostile: %s\n", line);
}

int main(int argc, char **argv)
{
    static struct hostile hostile;
    char message[400];
    uv_loop_t *loop = uv_default_loop();
    struct cop__tls *tls;
    if (argc != 6 ||
        cluster_open(argv[1], false, &hostile.cluster, message, sizeof message) != 0)
        return 2;
    struct cop__tls_files files = {.key = argv[2]};
    COP_ASSERT(cop__tls_create(&files, &tls, message, sizeof message) == 0);
    hostile.self = (cop_id)atoi(argv[3]);
    hostile.left = (uint64_t)atoll(argv[4]);
    hostile.noisy = hostile.left - hostile.left / 4;
    COP_ASSERT(hostile.cluster.n <= MEMBERS_MAX);
    cop__random_init(&hostile.random, (uint64_t)atoll(argv[5]));
    hostile.log = (struct cop_log){on_line, NULL, COP_LOG_INFO};
    COP_ASSERT(cop_view_create_static(hostile.cluster.n, &hostile.cluster.shape,
                                      hostile.cluster.first, &hostile.view) == 0);
    COP_ASSERT(cop__clock_init(&hostile.clock, loop) == 0);
    hostile.clock.context = &hostile;
    struct cop__address own;
    COP_ASSERT(cluster_address(&hostile.cluster, hostile.self, &own) == 0);
    int listener = cop__listen_address(&own);
    COP_ASSERT(listener >= 0);
    struct cop__peers_config config = {
        .identity = {{0},
                     hostile.cluster.instance,
                     hostile.self,
                     hostile.cluster.first,
                     hostile.view,
                     true},
        .clock = &hostile.clock,
        .loop = loop,
        .tls = tls,
        .log = &hostile.log,
        .stats = &hostile.stats,
        .listen_fd = listener,
        .connect_timeout_ns = 10 * COP_SEC,
        .idle_close_ns = 60 * COP_SEC,
        .handshake_timeout_ns = 10 * COP_SEC,
        .strangers_max = 16,
        .acquaintances_max = UINT32_MAX,
        .address = on_address,
        .address_context = &hostile,
        .event = on_event,
        .known = on_known,
        .context = &hostile,
    };
    memcpy(config.identity.cluster, hostile.cluster.id, sizeof hostile.cluster.id);
    COP_ASSERT(cop__peers_create(&config, &hostile.peers) == 0);
    COP_ASSERT(uv_timer_init(loop, &hostile.timer) == 0);
    hostile.timer.data = &hostile;
    uv_timer_start(&hostile.timer, on_timer, 0, TURN_MS);
    return uv_run(loop, UV_RUN_DEFAULT);
}
