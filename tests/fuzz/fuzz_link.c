/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes into a link, before and after the handshake. The first byte of the input says
 * which (bit 0) and in parts of what size (the other bits; 0 is all at once). The same bytes
 * must give the same records however they are cut, the memory that is held must stay
 * bounded, and the session must stay sound.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "net/tcp/handshake.h"
#include "wire/messages.h"

/* What one reading of the input came to. */
struct outcome {
    uint32_t items, skipped, refused;
    int error;
    uint64_t sum;
};

static struct cop_view *view;

static void push(struct cop__session *session, uint16_t kind)
{
    struct cop_frame frame = {.header = {.kind = kind, .length = 40},
                              .payload = cop_buf_create(40)};
    enum cop__lane_index lane = COP__LANE_CONTROL;
    if (kind == COP__KIND_DATA)
        lane = COP__LANE_BULK;
    COP_ASSERT(frame.payload);
    memset(frame.payload->data, 7, 40);
    COP_ASSERT(cop__session_push(session, lane, &frame) == 0);
    cop_buf_unref(frame.payload);
}

/* Frames that the other side may claim to have counted. */
static void fill(struct cop__session *session)
{
    cop__session_meet(session, 1);
    for (int i = 0; i < 4; i++) {
        push(session, COP__KIND_NEWS);
        push(session, COP__KIND_DATA);
    }
    for (int i = 0; i < 3; i++) {
        cop__session_advance(session, COP__LANE_CONTROL);
        cop__session_advance(session, COP__LANE_BULK);
    }
}

static void take_greeting(const struct cop__item *item, struct outcome *outcome)
{
    const struct cop__identity identity = {{1, 2, 3}, 4, 2, 10, view, false};
    struct cop__acquaintance friend;
    struct cop__greeting greeting;
    uint64_t resent;
    char text[64];
    cop__acquaintance_init(&friend);
    enum cop__refusal refusal = cop__hello_judge(&identity, item, &greeting);
    if (refusal != COP__REFUSE_NONE)
        refusal = cop__welcome_judge(&identity, 1, item, &greeting);
    if (refusal == COP__REFUSE_NONE)
        refusal = cop__hello_admit(&identity, &friend, 5, COP__ATTEMPT_NONE, &greeting);
    if (refusal == COP__REFUSE_NONE)
        refusal = cop__greeting_accept(&friend, &greeting, &resent);
    outcome->refused += refusal != COP__REFUSE_NONE;
    outcome->sum += cop__refuse_read(item, text, sizeof text) + strlen(text);
    cop__acquaintance_fini(&friend);
}

static void take_item(struct cop__item *item, struct outcome *outcome)
{
    outcome->items++;
    outcome->skipped += item->skipped;
    outcome->sum = outcome->sum * 31 + item->type;
    if (item->type == COP__RECORD_SHOW || item->type == COP__RECORD_THERE)
        outcome->sum += item->address + item->frame.header.length + item->mark[0];
    if (item->type == COP__RECORD_FRAME && !item->skipped) {
        struct cop_buf *payload = item->frame.payload;
        COP_ASSERT(item->frame.header.length == (payload ? payload->length : 0));
        for (uint32_t i = 0; payload && i < payload->length; i++)
            outcome->sum += payload->data[i];
        cop_buf_unref(payload);
    }
    if (item->body) {
        take_greeting(item, outcome);
        cop_buf_unref(item->body);
    }
}

static void check_bounds(const struct cop__link *link)
{
    const struct cop__parser *parser = &link->parser;
    uint64_t held = 0;
    if (parser->now.payload)
        held += parser->now.payload->length;
    if (parser->bulk.payload)
        held += parser->bulk.payload->length;
    COP_ASSERT(held <= (link->session ? 2 * COP__FRAME_MAX : 1024));
    COP_ASSERT(!link->session || cop__session_check(link->session) == NULL);
}

static struct outcome read_all(const uint8_t *data, size_t size, bool is_open,
                               size_t step)
{
    struct outcome outcome = {0};
    struct cop__session session;
    struct cop__link link;
    cop__session_init(&session);
    cop__link_init(&link);
    fill(&session);
    if (is_open)
        cop__link_open(&link, &session);
    for (size_t at = 0; at < size && outcome.error == 0; at += step) {
        size_t length = size - at < step ? size - at : step;
        struct cop__bytes in = {data + at, (uint32_t)length};
        struct cop__item item;
        while ((outcome.error = cop__link_input(&link, &in, &item)) > 0)
            take_item(&item, &outcome);
        check_bounds(&link);
    }
    cop__link_fini(&link);
    cop__session_fini(&session);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cop_shape shape;
    if (!view) {
        COP_ASSERT(cop_shape_make(COP_SHAPE_KARY, 2, &shape) == 0);
        COP_ASSERT(cop_view_create_static(8, &shape, 1, &view) == 0);
    }
    if (size < 2)
        return 0;
    bool is_open = data[0] & 1;
    size_t step = data[0] >> 1;
    struct outcome whole = read_all(data + 1, size - 1, is_open, size - 1);
    struct outcome parts = read_all(data + 1, size - 1, is_open, step ? step : size);
    COP_ASSERT(whole.items == parts.items && whole.skipped == parts.skipped);
    COP_ASSERT(whole.error == parts.error && whole.refused == parts.refused);
    COP_ASSERT(whole.sum == parts.sum);
    return 0;
}
