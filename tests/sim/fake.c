/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "wire/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char fake_log[65536];

struct fake {
    cop_id self;
    cop_incarnation incarnation;
    uint32_t sent;
};

void fake_reset(void) { fake_log[0] = '\0'; }

bool fake_heard(const char *text) { return strstr(fake_log, text) != NULL; }

unsigned fake_count(const char *text)
{
    unsigned count = 0;
    for (const char *at = fake_log; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void note(const struct fake *fake, cop_time now, const char *what, uint64_t a,
                 int64_t b)
{
    size_t used = strlen(fake_log);
    char detail[32] = "";
    if (b >= 0)
        snprintf(detail, sizeof(detail), ".%lld", (long long)b);
    snprintf(fake_log + used, sizeof(fake_log) - used, "[%u %s%llu%s +%llu]",
             (unsigned)fake->self, what, (unsigned long long)a, detail,
             (unsigned long long)now);
}

static int create(void *context, const struct cop_config *config, void **out)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    (void)context;
    if (!fake)
        return COP_ENOMEM;
    fake->self = config->self;
    fake->incarnation = config->incarnation;
    *out = fake;
    return 0;
}

static struct cop_effect *emit(struct cop_effects *effects, enum cop_effect_kind kind,
                               cop_id peer)
{
    if (effects->count == effects->capacity) {
        uint32_t capacity = effects->capacity ? 2 * effects->capacity : 8;
        struct cop_effect *items = realloc(effects->items, capacity * sizeof(*items));
        if (!items)
            abort();
        effects->items = items;
        effects->capacity = capacity;
    }
    struct cop_effect *effect = &effects->items[effects->count++];
    memset(effect, 0, sizeof(*effect));
    effect->kind = kind;
    effect->peer = peer;
    return effect;
}

static void emit_frame(struct fake *fake, struct cop_effects *effects, cop_id to)
{
    struct cop__msg_data data = {.stream = ++fake->sent, .payload = {NULL, 0}};
    struct cop_effect *effect = emit(effects, COP_EFFECT_SEND, to);
    effect->frame.payload = cop__encode_data(&data);
    effect->frame.header = (struct cop_header){
        .kind = COP__KIND_DATA,
        .sender = fake->self,
        .receiver = to,
        .sender_incarnation = fake->incarnation,
        .receiver_incarnation = 1,
        .length = effect->frame.payload->length,
    };
}

static void on_submit(struct fake *fake, const struct cop_request *request,
                      struct cop_effects *effects)
{
    cop_id to = (cop_id)request->target;
    if (request->outcome)
        emit(effects, COP_EFFECT_CONNECT, to);
    for (uint64_t i = 0; i < request->token; i++)
        emit_frame(fake, effects, to);
}

static int step(void *node, const struct cop_event *event, struct cop_effects *effects)
{
    static const char *const down[] = {"closed", "refused", "silent"};
    struct fake *fake = node;
    struct cop__msg_data data;
    cop_effects_clear(effects);
    switch (event->kind) {
    case COP_EVENT_SUBMIT:
        on_submit(fake, event->request, effects);
        break;
    case COP_EVENT_RECV:
        if (cop__decode_data(event->frame->payload->data, event->frame->payload->length,
                             &data) == 0)
            note(fake, event->now, "got", event->peer, (int64_t)data.stream);
        break;
    case COP_EVENT_PEER_UP:
        note(fake, event->now, "up", event->peer, (int64_t)event->incarnation);
        break;
    case COP_EVENT_PEER_DOWN:
        note(fake, event->now, down[event->why], event->peer, -1);
        break;
    default:
        break;
    }
    return 0;
}

static cop_time deadline(const void *node)
{
    (void)node;
    return COP_TIME_NEVER;
}

const struct cop_sim_actor fake_actor = {
    .size = sizeof(struct cop_sim_actor),
    .create = create,
    .destroy = free,
    .step = step,
    .deadline = deadline,
};

/* ---- simulations of fakes -------------------------------------------------------- */

struct cop_sim *fake_sim(uint32_t nodes, const struct cop_sim_net *net, uint32_t flags)
{
    struct cop_sim_config config = {
        .nodes = nodes, .seed = 7, .flags = flags, .actor = &fake_actor};
    struct cop_sim *sim;
    fake_reset();
    config.net.latency_ns = 10;
    if (net)
        config.net = *net;
    if (cop_shape_make(COP_SHAPE_FLAT, 0, &config.shape) != 0 ||
        cop_sim_create(&config, &sim) != 0)
        abort();
    return sim;
}

static void submit(struct cop_sim *sim, cop_time at, cop_id from, cop_id to,
                   uint32_t count, bool connect)
{
    struct cop_sim_action action;
    memset(&action, 0, sizeof(action));
    action.kind = COP_SIM_PROBE;
    action.at = at;
    action.a = from;
    action.b = COP_ID_NONE;
    action.request.token = count;
    action.request.target = to;
    action.request.outcome = connect;
    if (cop_sim_at(sim, &action) != 0)
        abort();
}

void fake_send(struct cop_sim *sim, cop_time at, cop_id from, cop_id to, uint32_t count)
{
    submit(sim, at, from, to, count, false);
}

void fake_connect(struct cop_sim *sim, cop_time at, cop_id from, cop_id to)
{
    submit(sim, at, from, to, 0, true);
}

void fake_do(struct cop_sim *sim, const char *line)
{
    char text[256];
    char message[256];
    struct cop_sim_script script;
    snprintf(text, sizeof(text), "nodes %u\n%s\n", (unsigned)cop_sim_nodes(sim), line);
    if (cop_sim_script_parse(text, &script, message, sizeof(message)) != 0 ||
        cop_sim_at(sim, &script.actions[0]) != 0) {
        fprintf(stderr, "%s: %s\n", line, message);
        abort();
    }
    cop_sim_script_free(&script);
}
