/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/laws.h"
#include "base/random.h"
#include "filter/state.h"

#include <string.h>

static const struct {
    const char *name, *text;
} laws[] = {
    [COP__LAW_NONE] = {"none", "all laws are kept"},
    [COP__LAW_INIT] = {"init", "init gives a state that check takes"},
    [COP__LAW_LIFT] = {"lift",
                       "a packet of a declared type becomes a state, or is refused"},
    [COP__LAW_STATE] = {"state", "check takes every state that was made"},
    [COP__LAW_EMPTY] = {"empty", "join(empty, a) = a = join(a, empty)"},
    [COP__LAW_ORDER] = {"order", "join(a, b) = join(b, a)"},
    [COP__LAW_GROUPING] = {"grouping", "join(join(a, b), c) = join(a, join(b, c))"},
    [COP__LAW_REPETITION] = {"repetition",
                             "join(a, a) = a, for it says it is idempotent"},
    [COP__LAW_DIFFERENCE] = {"difference", "join(a, diff(join(a, b), a)) = join(a, b)"},
    [COP__LAW_ENCODING] = {"encoding", "join(empty, x) = x for all x that check takes"},
    [COP__LAW_RESULT] = {"result", "the result is of the declared type"},
    [COP__LAW_PURITY] = {"purity",
                         "the same in, the same out, and inputs stay as they are"},
    [COP__LAW_GROWTH] =
        {"growth", "64 equal waves are hardly larger than 8, for it says cumulative"},
    [COP__LAW_DOWN] = {"down", "what goes on down is of the type that came in"},
};

const char *cop__law_name(enum cop__law law) { return laws[law].name; }
const char *cop__law_text(enum cop__law law) { return laws[law].text; }

/* ---- one case -------------------------------------------------------------------- */

struct trial {
    const struct cop_filter *filter;
    const char *type;
    const struct cop__law_case *script;
    struct cop_buf *empty, *state[3];
    volatile uint32_t *law_now;
    enum cop__law broken;
    int error;
    uint64_t skipped;
};

static struct cop_span span_of(const struct cop_buf *buf)
{
    return (struct cop_span){buf->data, buf->length};
}

static bool is_same(const struct cop_buf *a, const struct cop_buf *b)
{
    return cop__span_compare(span_of(a), span_of(b)) == 0;
}

static bool goes_on(const struct trial *trial)
{
    return trial->broken == COP__LAW_NONE && trial->error != COP_ENOMEM;
}

/* The first one that breaks is the one that is told. */
static void breaks(struct trial *trial, enum cop__law law, int error)
{
    if (!goes_on(trial))
        return;
    trial->error = error;
    if (error != COP_ENOMEM)
        trial->broken = law;
}

/* What a function has written, checked; NULL if it failed. */
static struct cop_buf *take(struct trial *trial, enum cop__law law,
                            struct cop__sink *sink, int error)
{
    struct cop_buf *buf = NULL;
    error = cop__sink_take(sink, error, &buf);
    if (error) {
        breaks(trial, law, error);
        return NULL;
    }
    if (trial->filter->check(span_of(buf)) == 0)
        return buf;
    breaks(trial, COP__LAW_STATE, 0);
    cop_buf_unref(buf);
    return NULL;
}

typedef int of_two(struct cop_span a, struct cop_span b, struct cop_filter_out *out);

/* Calls join or diff, gives the references of a and b back. NULL in, NULL out. */
static struct cop_buf *call(struct trial *trial, enum cop__law law, of_two *function,
                            struct cop_buf *a, struct cop_buf *b)
{
    struct cop_buf *result = NULL;
    struct cop__sink sink;
    if (a && b && goes_on(trial)) {
        cop__sink_init(&sink, COP_FILTER_STATE_MAX);
        result = take(trial, law, &sink, function(span_of(a), span_of(b), &sink.out));
    }
    cop_buf_unref(a);
    cop_buf_unref(b);
    return result;
}

static struct cop_buf *join(struct trial *trial, enum cop__law law, struct cop_buf *a,
                            struct cop_buf *b)
{
    return call(trial, law, trial->filter->join, cop_buf_ref(a), cop_buf_ref(b));
}

/* Both are given back. */
static void must_be_same(struct trial *trial, enum cop__law law, struct cop_buf *a,
                         struct cop_buf *b)
{
    if (a && b && !is_same(a, b))
        breaks(trial, law, 0);
    cop_buf_unref(a);
    cop_buf_unref(b);
}

/* ---- laws ------------------------------------------------------------------------ */

static void try_empty(struct trial *trial)
{
    struct cop_buf *a = trial->state[0];
    must_be_same(trial, COP__LAW_EMPTY, join(trial, COP__LAW_EMPTY, trial->empty, a),
                 cop_buf_ref(a));
    must_be_same(trial, COP__LAW_EMPTY, join(trial, COP__LAW_EMPTY, a, trial->empty),
                 cop_buf_ref(a));
}

static void try_order(struct trial *trial)
{
    struct cop_buf *a = trial->state[0], *b = trial->state[1];
    must_be_same(trial, COP__LAW_ORDER, join(trial, COP__LAW_ORDER, a, b),
                 join(trial, COP__LAW_ORDER, b, a));
}

static void try_grouping(struct trial *trial)
{
    of_two *function = trial->filter->join;
    struct cop_buf *a = trial->state[0], *b = trial->state[1], *c = trial->state[2];
    struct cop_buf *left = call(trial, COP__LAW_GROUPING, function,
                                join(trial, COP__LAW_GROUPING, a, b), cop_buf_ref(c));
    struct cop_buf *right = call(trial, COP__LAW_GROUPING, function, cop_buf_ref(a),
                                 join(trial, COP__LAW_GROUPING, b, c));
    must_be_same(trial, COP__LAW_GROUPING, left, right);
}

static void try_repetition(struct trial *trial)
{
    struct cop_buf *a = trial->state[0];
    if (trial->filter->flags & COP_FILTER_IDEMPOTENT)
        must_be_same(trial, COP__LAW_REPETITION, join(trial, COP__LAW_REPETITION, a, a),
                     cop_buf_ref(a));
}

static void try_difference(struct trial *trial)
{
    struct cop_buf *a = trial->state[0], *b = trial->state[1];
    struct cop_buf *now = join(trial, COP__LAW_DIFFERENCE, a, b);
    struct cop_buf *rest = call(trial, COP__LAW_DIFFERENCE, trial->filter->diff,
                                cop_buf_ref(now), cop_buf_ref(a));
    struct cop_buf *again =
        call(trial, COP__LAW_DIFFERENCE, trial->filter->join, cop_buf_ref(a), rest);
    must_be_same(trial, COP__LAW_DIFFERENCE, again, now);
}

/* One byte of a state is changed. What is still a state must be written as it is. */
static void try_encoding(struct trial *trial)
{
    const struct cop_buf *a = trial->state[0];
    struct cop__sink sink;
    struct cop_buf *joined = NULL;
    struct cop_buf *changed = cop_buf_copy(a->data, a->length);
    if (!changed) {
        trial->error = COP_ENOMEM;
        return;
    }
    uint64_t mutation = trial->script->mutation;
    if (changed->length > 0)
        changed->data[mutation % changed->length] = (uint8_t)(mutation >> 32);
    if (trial->filter->check(span_of(changed)) == 0) {
        cop__sink_init(&sink, COP_FILTER_STATE_MAX);
        int error =
            trial->filter->join(span_of(trial->empty), span_of(changed), &sink.out);
        error = cop__sink_take(&sink, error, &joined);
        /* The changed byte may be in the parameters: then it is not for this one. */
        if (error && error != COP_EINVAL)
            breaks(trial, COP__LAW_ENCODING, error);
        else if (error == 0 && !is_same(joined, changed))
            breaks(trial, COP__LAW_ENCODING, 0);
    }
    cop_buf_unref(joined);
    cop_buf_unref(changed);
}

static void try_result(struct trial *trial)
{
    struct cop_buf *first = NULL, *second = NULL;
    int error = cop_filter_result(trial->filter, trial->type, trial->state[0], &first);
    int again = cop_filter_result(trial->filter, trial->type, trial->state[0], &second);
    if (error && error != COP_ENOENT)
        breaks(trial, COP__LAW_RESULT, error);
    else if (again == COP_ENOMEM)
        breaks(trial, COP__LAW_PURITY, again);
    else if (error != again || (first && second && !is_same(first, second)))
        breaks(trial, COP__LAW_PURITY, 0);
    cop_buf_unref(first);
    cop_buf_unref(second);
}

/* The same call with other calls in between, and its inputs before and after. */
static void try_purity(struct trial *trial)
{
    struct cop_buf *a = trial->state[0], *b = trial->state[1];
    struct cop_buf *before_a = cop_buf_copy(a->data, a->length);
    struct cop_buf *before_b = cop_buf_copy(b->data, b->length);
    struct cop_buf *first = join(trial, COP__LAW_PURITY, a, b);
    cop_buf_unref(join(trial, COP__LAW_PURITY, b, trial->state[2]));
    struct cop_buf *second = join(trial, COP__LAW_PURITY, a, b);
    if (!before_a || !before_b)
        trial->error = COP_ENOMEM;
    must_be_same(trial, COP__LAW_PURITY, first, second);
    must_be_same(trial, COP__LAW_PURITY, before_a, cop_buf_ref(a));
    must_be_same(trial, COP__LAW_PURITY, before_b, cop_buf_ref(b));
}

/* ---- packets --------------------------------------------------------------------- */

/* The state of a packet; NULL if the filter does not want it, or breaks a law. */
static struct cop_buf *lift(struct trial *trial, const struct cop__law_packet *packet)
{
    struct cop_buf *bytes = NULL;
    struct cop__sink sink;
    int error = cop__law_packet_make(trial->filter, trial->type, packet, &bytes);
    if (error) {
        breaks(trial, COP__LAW_LIFT, error);
        return NULL;
    }
    struct cop_packet whole = {trial->type, packet->leaf, packet->wave, span_of(bytes)};
    if (cop_type_check(trial->type, whole.data)) {
        breaks(trial, COP__LAW_LIFT, COP_EINVAL);
        cop_buf_unref(bytes);
        return NULL;
    }
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    error = trial->filter->lift(span_of(trial->empty), &whole, &sink.out);
    cop_buf_unref(bytes);
    if (error == COP_EINVAL) {
        trial->skipped++;
        cop__sink_drop(&sink);
        return NULL;
    }
    return take(trial, COP__LAW_LIFT, &sink, error);
}

static void add_packet(struct trial *trial, const struct cop__law_packet *packet)
{
    struct cop_buf **state = &trial->state[packet->group];
    struct cop_buf *more = lift(trial, packet);
    struct cop_buf *joined = more ? call(trial, COP__LAW_LIFT, trial->filter->join,
                                         cop_buf_ref(*state), more)
                                  : NULL;
    if (!joined)
        return;
    cop_buf_unref(*state);
    *state = joined;
}

#define FEW_WAVES 8u
#define MANY_WAVES 64u

/* One leaf says the same in every wave. */
static void try_growth(struct trial *trial)
{
    if (!(trial->filter->flags & COP_FILTER_CUMULATIVE) || trial->script->count == 0)
        return;
    struct cop__law_packet packet = trial->script->packets[0];
    struct cop_buf *state = cop_buf_ref(trial->empty);
    uint64_t few = 0;
    for (uint32_t i = 0; i < MANY_WAVES && state; i++, packet.wave++) {
        if (i == FEW_WAVES)
            few = state->length;
        struct cop_buf *more = lift(trial, &packet);
        if (!more)
            break;
        state = call(trial, COP__LAW_GROWTH, trial->filter->join, state, more);
    }
    /* Numbers in it may have grown by some bytes. */
    if (state && few && state->length > few * 2 + 64)
        breaks(trial, COP__LAW_GROWTH, 0);
    cop_buf_unref(state);
}

/* ---- down ------------------------------------------------------------------------ */

/* What becomes of it at one place, asked twice. NULL: it goes no further, or breaks a law. */
static struct cop_buf *go_down(struct trial *trial, const struct cop_place *place,
                               const struct cop_packet *packet)
{
    struct cop_buf *first = NULL, *second = NULL;
    const struct cop_filter *filter = trial->filter;
    int error = cop_filter_down(filter, trial->empty, place, packet, &first);
    int again = cop_filter_down(filter, trial->empty, place, packet, &second);
    if (error && error != COP_ENOENT && error != COP_EINVAL)
        breaks(trial, COP__LAW_DOWN, error);
    else if (again == COP_ENOMEM)
        breaks(trial, COP__LAW_PURITY, again);
    else if (error != again || (first && second && !is_same(first, second)))
        breaks(trial, COP__LAW_PURITY, 0);
    trial->skipped += error == COP_EINVAL;
    cop_buf_unref(second);
    return first;
}

/* Each packet along a way, to a leaf that is one of four, or came later. */
static void send_packet(struct trial *trial, const struct cop__law_packet *packet)
{
    struct cop_place place = {.leaf = packet->leaf,
                              .depth = packet->group,
                              .index = packet->leaf,
                              .count = 4};
    struct cop_buf *bytes = NULL;
    int error = cop__law_packet_make(trial->filter, trial->type, packet, &bytes);
    if (error)
        breaks(trial, COP__LAW_DOWN, error);
    struct cop_buf *before = bytes ? cop_buf_copy(bytes->data, bytes->length) : NULL;
    struct cop_buf *at = cop_buf_ref(bytes);
    if (bytes && !before)
        breaks(trial, COP__LAW_DOWN, COP_ENOMEM);
    for (; at && place.level <= place.depth && goes_on(trial); place.level++) {
        struct cop_packet whole = {trial->type, packet->leaf, packet->wave,
                                   span_of(at)};
        place.id = place.level == place.depth ? place.leaf : place.level;
        struct cop_buf *below = go_down(trial, &place, &whole);
        cop_buf_unref(at);
        at = below;
    }
    cop_buf_unref(at);
    must_be_same(trial, COP__LAW_PURITY, before, bytes);
}

/* ---- trying a case --------------------------------------------------------------- */

static void (*const trials[COP__LAWS])(struct trial *trial) = {
    [COP__LAW_EMPTY] = try_empty,           [COP__LAW_ORDER] = try_order,
    [COP__LAW_GROUPING] = try_grouping,     [COP__LAW_REPETITION] = try_repetition,
    [COP__LAW_DIFFERENCE] = try_difference, [COP__LAW_ENCODING] = try_encoding,
    [COP__LAW_RESULT] = try_result,         [COP__LAW_PURITY] = try_purity,
    [COP__LAW_GROWTH] = try_growth,
};

static void say_law(const struct trial *trial, enum cop__law law)
{
    if (trial->law_now)
        *trial->law_now = law;
}

static void run_down(struct trial *trial, const struct cop__law_case *script)
{
    say_law(trial, COP__LAW_DOWN);
    for (uint32_t i = 0; i < script->count && goes_on(trial); i++)
        send_packet(trial, &script->packets[i]);
    say_law(trial, COP__LAW_NONE);
}

static bool is_down(const struct trial *trial)
{
    return trial->filter->flags & COP_FILTER_DOWN;
}

static void run(struct trial *trial, const struct cop__law_case *script)
{
    trial->script = script;
    trial->broken = COP__LAW_NONE;
    trial->error = 0;
    if (is_down(trial)) {
        run_down(trial, script);
        return;
    }
    for (int i = 0; i < 3; i++)
        trial->state[i] = cop_buf_ref(trial->empty);
    say_law(trial, COP__LAW_LIFT);
    for (uint32_t i = 0; i < script->count && goes_on(trial); i++)
        add_packet(trial, &script->packets[i]);
    for (uint32_t law = 0; law < COP__LAWS && goes_on(trial); law++) {
        if (!trials[law])
            continue;
        say_law(trial, law);
        trials[law](trial);
    }
    say_law(trial, COP__LAW_NONE);
    for (int i = 0; i < 3; i++)
        cop_buf_unref(trial->state[i]);
}

/* ---- making smaller -------------------------------------------------------------- */

/* Takes the smaller case if it breaks the same law. */
static bool try_smaller(struct trial *trial, const struct cop__law_case *smaller,
                        struct cop__law_report *report)
{
    run(trial, smaller);
    report->steps++;
    if (trial->broken != report->broken)
        return false;
    report->smallest = *smaller;
    report->error = trial->error;
    return true;
}

static bool drop_packets(struct trial *trial, struct cop__law_report *report)
{
    bool any = false;
    for (uint32_t i = report->smallest.count; i-- > 0;) {
        struct cop__law_case smaller = report->smallest;
        memmove(&smaller.packets[i], &smaller.packets[i + 1],
                (smaller.count - i - 1) * sizeof *smaller.packets);
        smaller.count--;
        any |= try_smaller(trial, &smaller, report);
    }
    return any;
}

/* A number towards 0, by halves. */
static bool shrink_number(struct trial *trial, struct cop__law_report *report,
                          uint64_t *(*which)(struct cop__law_case *script, uint32_t i,
                                             uint32_t j),
                          uint32_t i, uint32_t j)
{
    bool any = false;
    for (uint32_t shift = 64; shift > 0; shift = shift / 2) {
        struct cop__law_case smaller = report->smallest;
        uint64_t *number = which(&smaller, i, j);
        uint64_t before = *number;
        *number = shift == 64 ? 0 : before >> shift;
        if (*number != before && try_smaller(trial, &smaller, report)) {
            any = true;
            shift = 128; /* again from the most */
        }
    }
    return any;
}

static uint64_t *word_of(struct cop__law_case *script, uint32_t i, uint32_t j)
{
    return &script->packets[i].words[j];
}

static uint64_t *wave_of(struct cop__law_case *script, uint32_t i, uint32_t j)
{
    (void)j;
    return &script->packets[i].wave;
}

static bool shrink_packet(struct trial *trial, struct cop__law_report *report,
                          uint32_t i)
{
    bool any = false;
    while (report->smallest.packets[i].count > 1) {
        struct cop__law_case smaller = report->smallest;
        smaller.packets[i].count--;
        if (!try_smaller(trial, &smaller, report))
            break;
        any = true;
    }
    for (uint32_t j = 0; j < report->smallest.packets[i].count; j++)
        any |= shrink_number(trial, report, word_of, i, j);
    any |= shrink_number(trial, report, wave_of, i, 0);
    while (report->smallest.packets[i].leaf > 0) {
        struct cop__law_case smaller = report->smallest;
        smaller.packets[i].leaf--;
        if (!try_smaller(trial, &smaller, report))
            break;
        any = true;
    }
    return any;
}

static void shrink(struct trial *trial, const struct cop__law_case *script,
                   struct cop__law_report *report)
{
    report->broken = trial->broken;
    report->error = trial->error;
    report->smallest = *script;
    for (bool any = true; any;) {
        any = drop_packets(trial, report);
        for (uint32_t i = 0; i < report->smallest.count; i++)
            any |= shrink_packet(trial, report, i);
    }
}

/* ---- all of it ------------------------------------------------------------------- */

static void draw(struct cop__random *random, struct cop__law_case *out)
{
    out->count = (uint32_t)cop__random_below(random, COP__LAW_PACKETS + 1);
    out->mutation = cop__random_next(random);
    for (uint32_t i = 0; i < out->count; i++) {
        struct cop__law_packet *packet = &out->packets[i];
        packet->group = (uint8_t)cop__random_below(random, 3);
        packet->leaf = (cop_id)cop__random_below(random, 6);
        packet->wave = cop__random_below(random, 4);
        packet->count = 1 + (uint32_t)cop__random_below(random, COP__LAW_WORDS);
        for (uint32_t j = 0; j < COP__LAW_WORDS; j++)
            packet->words[j] = cop__random_next(random);
        /* A leaf that says the same as another. */
        if (i > 0 && cop__random_chance(random, 1, 3))
            memcpy(packet->words, out->packets[i - 1].words, sizeof packet->words);
    }
}

static int make_empty(struct trial *trial, const char *params)
{
    struct cop__sink sink;
    say_law(trial, COP__LAW_INIT);
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = trial->filter->init(trial->type, params, &sink.out);
    error = cop__sink_take(&sink, error, &trial->empty);
    if (error == 0 && !is_down(trial) &&
        trial->filter->check(span_of(trial->empty)) != 0)
        error = COP_EMALFORMED;
    return error;
}

int cop__laws_try(const struct cop_filter *filter, const char *type, const char *params,
                  uint64_t seed, uint64_t runs, volatile uint32_t *law_now,
                  struct cop__law_report *out)
{
    struct trial trial = {.filter = filter, .type = type, .law_now = law_now};
    struct cop__law_report report = {0};
    struct cop__random random;
    struct cop__law_case script;
    int error = make_empty(&trial, params);
    if (error && error != COP_ENOMEM) {
        report.broken = COP__LAW_INIT;
        report.error = error;
        error = 0;
        runs = 0;
    }
    cop__random_init(&random, seed);
    for (; error == 0 && report.runs < runs && !report.broken; report.runs++) {
        draw(&random, &script);
        run(&trial, &script);
        if (trial.error == COP_ENOMEM)
            error = COP_ENOMEM;
        else if (trial.broken)
            shrink(&trial, &script, &report);
    }
    report.skipped = trial.skipped;
    cop_buf_unref(trial.empty);
    if (error == 0)
        *out = report;
    return error;
}
