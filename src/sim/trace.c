/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/world.h"

#include "wire/messages.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The digest of everything that happens, and the same as text for people. */

#define LINE_MAX_BYTES 512

void cop__print_time(cop_time time, char out[32])
{
    static const struct {
        cop_time unit;
        const char *name;
    } units[] = {{COP_SEC, "s"}, {COP_MSEC, "ms"}, {COP_USEC, "us"}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (time >= units[i].unit && time % units[i].unit == 0) {
            snprintf(out, 32, "%llu%s", (unsigned long long)(time / units[i].unit),
                     units[i].name);
            return;
        }
    }
    snprintf(out, 32, "%lluns", (unsigned long long)time);
}

const char *cop__down_name(uint64_t why)
{
    static const char *const names[] = {"closed", "refused", "silent"};
    return why < 3 ? names[why] : "?";
}

/* Microseconds, with a fraction only where there is one, so that columns stay readable. */
static int print_stamp(cop_time now, char *out, size_t size)
{
    unsigned long long us = now / COP_USEC;
    unsigned long long ns = now % COP_USEC;
    return ns ? snprintf(out, size, "[%5llu.%03lluus] ", us, ns)
              : snprintf(out, size, "[%5lluus] ", us);
}

void cop__trace_line(struct cop_sim *sim, const char *format, ...)
{
    if (!sim->config.trace)
        return;
    char line[LINE_MAX_BYTES + 64];
    int used = print_stamp(sim->now, line, sizeof(line));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, sizeof(line) - (size_t)used, format, arguments);
    va_end(arguments);
    sim->config.trace(sim->config.context, line);
}

/* ---- events ---------------------------------------------------------------------- */

void cop__print_frame(const char *verb, const char *whom, uint16_t kind,
                      const struct cop_buf *payload, char *out, size_t size)
{
    char text[LINE_MAX_BYTES];
    cop__print_message(kind, payload ? payload->data : NULL,
                       payload ? payload->length : 0, text, sizeof(text));
    char *rest = strchr(text, ' ');
    if (rest)
        *rest++ = '\0';
    snprintf(out, size, "%s %s %s%s%s", verb, text, whom, rest ? ": " : "",
             rest ? rest : "");
}

static void trace_frame(struct cop_sim *sim, const struct cop__sim_event *event)
{
    char text[LINE_MAX_BYTES];
    char whom[32];
    snprintf(whom, sizeof(whom), "from %u", (unsigned)event->src);
    cop__print_frame("recv", whom, event->frame_kind, event->payload, text,
                     sizeof(text));
    cop__trace_line(sim, "%u > %s", (unsigned)event->dst, text);
}

static void trace_text(struct cop_sim *sim, const struct cop__sim_event *event)
{
    unsigned dst = (unsigned)event->dst;
    switch (event->kind) {
    case COP__SIM_FRAME:
        trace_frame(sim, event);
        return;
    case COP__SIM_UP:
        cop__trace_line(sim, "%u > peer %u is up, incarnation %llu", dst,
                        (unsigned)event->src, (unsigned long long)event->word);
        return;
    case COP__SIM_DOWN:
    case COP__SIM_TOLD:
        cop__trace_line(sim, "%u > peer %u is down: %s", dst, (unsigned)event->src,
                        cop__down_name(event->word));
        return;
    case COP__SIM_TICK:
        cop__trace_line(sim, "%u > tick", dst);
        return;
    default:
        return; /* submissions are shown by their action */
    }
}

void cop__trace_event(struct cop_sim *sim, const struct cop__sim_event *event)
{
    struct cop__digest *digest = &sim->digest;
    cop__digest_word(digest, event->time);
    cop__digest_word(digest, (uint64_t)event->dst << 32 | event->src);
    cop__digest_word(digest, (uint64_t)event->kind << 48 |
                                 (uint64_t)event->frame_kind << 32 |
                                 (uint64_t)event->dst_life << 16 | event->src_life);
    cop__digest_word(digest, event->word);
    if (event->payload)
        cop__digest_bytes(digest, event->payload->data, event->payload->length);
    if (sim->config.trace)
        trace_text(sim, event);
}

void cop__trace_action(struct cop_sim *sim, const struct cop_sim_action *action)
{
    cop__digest_word(&sim->digest, sim->now);
    cop__digest_word(&sim->digest, (uint64_t)action->kind << 32 | action->a);
    if (!sim->config.trace)
        return;
    struct cop_sim_action shown = *action;
    char text[LINE_MAX_BYTES];
    shown.at = sim->now;
    shown.when = COP_SIM_AT;
    cop__print_action(&shown, text, sizeof(text));
    /* Without the "at T " in front: the line has its time already. */
    const char *what = strchr(text + 3, ' ');
    cop__trace_line(sim, "* %s", what ? what + 1 : text);
}

/* ---- effects --------------------------------------------------------------------- */

static bool same_message(const struct cop_effect *a, const struct cop_effect *b)
{
    if (b->kind != COP_EFFECT_SEND || a->frame.header.kind != b->frame.header.kind ||
        a->frame.header.length != b->frame.header.length)
        return false;
    return a->frame.header.length == 0 ||
           memcmp(a->frame.payload->data, b->frame.payload->data,
                  a->frame.header.length) == 0;
}

/* One message to several peers is one line. Returns the index of the last one in it. */
static uint32_t trace_send(struct cop_sim *sim, cop_id id, uint32_t i)
{
    const struct cop_effects *effects = &sim->effects;
    const struct cop_effect *first = &effects->items[i];
    char text[LINE_MAX_BYTES];
    char whom[160];
    int used = snprintf(whom, sizeof(whom), "to %u", (unsigned)first->peer);
    while (i + 1 < effects->count && same_message(first, &effects->items[i + 1])) {
        i++;
        if (used > 0 && (size_t)used < sizeof(whom) - 16)
            used += snprintf(whom + used, sizeof(whom) - (size_t)used, ", %u",
                             (unsigned)effects->items[i].peer);
    }
    cop__print_frame("send", whom, first->frame.header.kind, first->frame.payload, text,
                     sizeof(text));
    cop__trace_line(sim, "%u > %s", (unsigned)id, text);
    return i;
}

/* "3 = run 7 of 0", "3 = reply 7 from 5: success". */
static void trace_upcall(struct cop_sim *sim, cop_id id,
                         const struct cop_effect *effect)
{
    static const char *const names[] = {"check", "run",     "reply", "done",
                                        "sent",  "resolve", "piece", "want"};
    struct cop_upcall upcall;
    if (cop_upcall(effect, &upcall) != 0 || upcall.kind > COP_UPCALL_WANT)
        return;
    unsigned long long handle = upcall.handle;
    const char *name = names[upcall.kind];
    if (upcall.kind == COP_UPCALL_REPLY)
        cop__trace_line(sim, "%u = reply %llu from %u: %s, %u bytes", (unsigned)id,
                        handle, (unsigned)upcall.peer, cop_strerror(upcall.status),
                        (unsigned)upcall.length);
    else if (upcall.kind == COP_UPCALL_DONE || upcall.kind == COP_UPCALL_SENT)
        cop__trace_line(sim, "%u = %s %llu: %s", (unsigned)id, name, handle,
                        cop_strerror(upcall.status));
    else
        cop__trace_line(sim, "%u = %s %llu of %u, %u bytes", (unsigned)id, name, handle,
                        (unsigned)upcall.root, (unsigned)upcall.length);
}

/* "3 = view 5 of root 0: 0-4,6" and other words about the view. */
static void trace_state(struct cop_sim *sim, cop_id id, const struct cop_effect *effect)
{
    char members[160] = "";
    size_t used = 0;
    if (effect->kind == COP_EFFECT_DEGRADED) {
        cop__trace_line(sim, "%u = %s", (unsigned)id,
                        effect->status ? "degraded" : "no longer degraded");
        return;
    }
    if (effect->kind == COP_EFFECT_HELD) {
        cop__trace_line(sim, "%u = %d held by the guard", (unsigned)id, effect->status);
        return;
    }
    if (effect->kind == COP_EFFECT_OUT) {
        cop__trace_line(sim, "%u = out: %s", (unsigned)id,
                        cop_strerror(effect->status));
        return;
    }
    if (effect->kind == COP_EFFECT_DELIVER) {
        cop__trace_line(sim, "%u = deliver %u bytes from %u", (unsigned)id,
                        (unsigned)effect->result->length, (unsigned)effect->peer);
        return;
    }
    if (effect->kind == COP_EFFECT_UPCALL) {
        trace_upcall(sim, id, effect);
        return;
    }
    const struct cop_view *view = effect->view;
    for (cop_id first = cop_view_next(view, COP_ID_NONE);
         first != COP_ID_NONE && used + 24 < sizeof(members);) {
        cop_id last = first;
        while (cop_view_next(view, last) == last + 1)
            last++;
        int n = snprintf(members + used, sizeof(members) - used,
                         last == first ? "%s%u" : "%s%u-%u", used ? "," : "",
                         (unsigned)first, (unsigned)last);
        used += n > 0 ? (size_t)n : 0;
        first = cop_view_next(view, last);
    }
    cop__trace_line(sim, "%u = view %llu of %u: %s", (unsigned)id,
                    (unsigned long long)cop_view_epoch(view),
                    (unsigned)cop_view_ballot(view).root, members);
}

void cop__trace_effects(struct cop_sim *sim, cop_id id)
{
    if (!sim->config.trace)
        return;
    for (uint32_t i = 0; i < sim->effects.count; i++) {
        const struct cop_effect *effect = &sim->effects.items[i];
        if (effect->kind == COP_EFFECT_SEND)
            i = trace_send(sim, id, i);
        else if (effect->kind == COP_EFFECT_CONNECT)
            cop__trace_line(sim, "%u > connect to %u", (unsigned)id,
                            (unsigned)effect->peer);
        else if (effect->kind == COP_EFFECT_CLOSE)
            cop__trace_line(sim, "%u > close %u", (unsigned)id, (unsigned)effect->peer);
        else if (effect->kind != COP_EFFECT_COMPLETE &&
                 effect->kind != COP_EFFECT_SUSPICION &&
                 effect->kind != COP_EFFECT_STREAM)
            trace_state(sim, id, effect);
    }
}

static void print_ranks(const char *name, const struct cop_ranks *ranks, char *out,
                        size_t size)
{
    int used = snprintf(out, size, "%s", ranks->count ? name : "");
    for (uint32_t i = 0; i < ranks->count && used > 0 && (size_t)used + 16 < size; i++)
        used += snprintf(out + used, size - (size_t)used, "%s%u", i ? "," : " ",
                         (unsigned)ranks->items[i]);
}

/* "3 = complete 7: success, 5 of 6 answered; 4 lost at 4 (reply)". False if it is none. */
static bool trace_bcast(struct cop_sim *sim, cop_id id, const struct cop_effect *effect)
{
    struct cop_bcast_result result;
    char failures[200] = "";
    size_t used = 0;
    if (!effect->result || !cop__coll_token(sim, id, effect->token) ||
        cop_bcast_result(effect->result, &result) != 0)
        return false;
    for (uint32_t i = 0; i < result.failure_count && used + 80 < sizeof failures; i++) {
        const struct cop_failure *failure = &result.failures[i];
        int n = snprintf(failures + used, sizeof failures - used, "; %u: %s (%s at %u)",
                         (unsigned)failure->node, cop_strerror(failure->status),
                         cop_phase_name(failure->phase), (unsigned)failure->at);
        used += n > 0 ? (size_t)n : 0;
    }
    cop__trace_line(sim, "%u = complete %llu: %s, %u of %u answered%s", (unsigned)id,
                    (unsigned long long)effect->token, cop_strerror(effect->status),
                    (unsigned)result.answered, (unsigned)result.members, failures);
    cop_bcast_result_free(&result);
    return true;
}

static void trace_result(struct cop_sim *sim, cop_id id,
                         const struct cop_effect *effect)
{
    struct cop_probe_result result;
    if (trace_bcast(sim, id, effect))
        return;
    if (!effect->result || cop_probe_result(effect->result, &result) != 0) {
        cop__trace_line(sim, "%u = complete %llu: %s", (unsigned)id,
                        (unsigned long long)effect->token,
                        cop_strerror(effect->status));
        return;
    }
    char dead[160];
    char silent[160];
    print_ranks(", dead", &result.dead, dead, sizeof(dead));
    print_ranks(", silent", &result.silent, silent, sizeof(silent));
    cop__trace_line(sim, "%u = complete %llu: %s, %u of %u answered%s%s", (unsigned)id,
                    (unsigned long long)effect->token, cop_strerror(effect->status),
                    (unsigned)result.answered, (unsigned)result.members, dead, silent);
    cop_probe_result_free(&result);
}

void cop__trace_complete(struct cop_sim *sim, cop_id id,
                         const struct cop_effect *effect)
{
    cop__digest_word(&sim->digest, (uint64_t)id << 32 | (uint32_t)effect->status);
    cop__digest_word(&sim->digest, effect->token);
    if (effect->result)
        cop__digest_bytes(&sim->digest, effect->result->data, effect->result->length);
    if (sim->config.trace)
        trace_result(sim, id, effect);
}

static const char *stream_word(enum cop_stream_event_kind kind)
{
    static const char *const words[] = {"",     "opened", "closed", "room",
                                        "down", "output", "moved",  "reached"};
    return (unsigned)kind < sizeof words / sizeof *words ? words[kind] : "";
}

/* "0 = output 3: complete, 8 back-ends, 1 departed: 2a00000000000000". */
void cop__trace_stream(struct cop_sim *sim, cop_id id, const struct cop_effect *effect)
{
    struct cop_stream_event event;
    char bytes[65] = "";
    cop__digest_word(&sim->digest, (uint64_t)id << 32 | effect->result->length);
    cop__digest_bytes(&sim->digest, effect->result->data, effect->result->length);
    if (!sim->config.trace || cop_stream_event(effect->result, &event) != 0)
        return;
    if (event.kind != COP_STREAM_OUTPUT) {
        cop__trace_line(sim, "%u = %s %llu", (unsigned)id, stream_word(event.kind),
                        (unsigned long long)event.wave);
        return;
    }
    for (uint32_t i = 0; i < event.length && i < 32; i++)
        snprintf(bytes + 2 * i, 3, "%02x", ((const uint8_t *)event.bytes)[i]);
    cop__trace_line(sim,
                    "%u = output %llu of %llu: %s, %u back-ends, %u departed, %s%s",
                    (unsigned)id, (unsigned long long)event.wave,
                    (unsigned long long)event.regeneration,
                    event.complete ? "complete" : "transient", (unsigned)event.covered,
                    (unsigned)event.departed, event.whole ? "" : "+", bytes);
}
