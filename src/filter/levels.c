/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/levels.h"

#include "filter/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * A state: u8 length of the type, the type; the parameters as a span; then entries: u8 stage,
 * number of the group, state as a span; sorted by stage and group.
 */

/* How many packets each group has, and the sum of that. */
#define DEFAULT "count@1,sum"
static const char over[] = " over ";

/* ---- parameters ------------------------------------------------------------------ */

/* Bytes up to one of `ends`, or to the end. */
static bool read_word(struct cop_span *text, const char *ends, char *out, uint32_t most)
{
    uint32_t length = 0;
    while (length < text->length && text->bytes[length] != 0 &&
           strchr(ends, text->bytes[length]) == NULL)
        length++;
    if (length > most)
        return false;
    memcpy(out, text->bytes, length);
    out[length] = '\0';
    text->bytes += length;
    text->length -= length;
    return true;
}

/* NAME, NAME(PARAMETERS), and @LEVEL behind all but the last. */
static const char *read_stage(struct cop_span *text, struct cop__stage *out)
{
    char name[COP_FILTER_NAME_MAX + 1];
    *out = (struct cop__stage){0};
    if (!read_word(text, "(@, ", name, COP_FILTER_NAME_MAX))
        return "a stage has a name that is too long";
    out->filter = cop_filter_find(name);
    if (!out->filter || cop__filter_is_levels(out->filter))
        return "a stage is not a filter of the library";
    if (out->filter->flags & COP_FILTER_DOWN)
        return "a stage is a filter down";
    if (cop__read_byte(text, '(') &&
        (!read_word(text, ")", out->params, COP__LEVELS_PARAMS) ||
         out->params[0] == '\0' || !cop__read_byte(text, ')')))
        return "parameters of a stage are empty, too long, or without an end";
    if (cop__read_byte(text, '@') &&
        (!cop__read_number(text, &out->level) || out->level == 0))
        return "a level is a number from 1 on";
    return NULL;
}

/* The order of levels; and each takes what the one before it says. */
static const char *fit(struct cop__levels *levels, uint32_t at)
{
    struct cop__stage *stage = &levels->stages[at];
    char room[COP_FILTER_NAME_MAX + 1];
    const char *given = stage->type;
    if (at > 0) {
        const struct cop__stage *last = stage - 1;
        if (last->level == 0)
            return "every stage but the last says at which level it ends";
        if (stage->level >= last->level)
            return "a stage does not end above the one before it";
        given = cop_filter_output(last->filter, last->type, room);
        memcpy(stage->type, given, strlen(given) + 1);
    }
    if (!cop_filter_output(stage->filter, stage->type, room))
        return at > 0 ? "a stage does not take what the one before it gives"
                      : "the first stage does not take such packets";
    return NULL;
}

/* KIND:K:N, where N is how many places there are. */
static const char *read_plan(struct cop_span *text, struct cop__levels *out)
{
    uint32_t kind, k, n;
    if (text->length < sizeof over - 1 ||
        memcmp(text->bytes, over, sizeof over - 1) != 0)
        return "there is something behind the last stage";
    text->bytes += sizeof over - 1;
    text->length -= (uint32_t)sizeof over - 1;
    if (!cop__read_number(text, &kind) || !cop__read_byte(text, ':') ||
        !cop__read_number(text, &k) || !cop__read_byte(text, ':') ||
        !cop__read_number(text, &n) || text->length > 0 || n == 0 ||
        n > COP_MEMBERS_MAX || kind > COP_SHAPE_CHAIN ||
        cop_shape_make((enum cop_shape_kind)kind, k, &out->plan.shape))
        return "there is no such tree";
    out->plan.n = n;
    return NULL;
}

static const char *parse(struct cop_span type, struct cop_span text,
                         struct cop__levels *out)
{
    const char *why = NULL;
    *out = (struct cop__levels){0};
    if (type.length > COP_FILTER_NAME_MAX)
        return "there is no such type";
    memcpy(out->stages[0].type, type.bytes, type.length);
    do {
        if (out->count == COP__LEVELS_MAX)
            return "there are too many stages";
        struct cop__stage *stage = &out->stages[out->count];
        char first[sizeof stage->type];
        memcpy(first, stage->type, sizeof first);
        why = read_stage(&text, stage);
        memcpy(stage->type, first, sizeof first);
        if (why || (why = fit(out, out->count++)))
            return why;
    } while (cop__read_byte(&text, ','));
    if (out->count < 2 || out->stages[out->count - 1].level != 0)
        return "there are at least two stages, and the last one has no level";
    return text.length > 0 ? read_plan(&text, out) : NULL;
}

int cop__levels_parse(struct cop_span type, struct cop_span params,
                      struct cop__levels *out, const char **why)
{
    const char *wrong = parse(type, params, out);
    if (why)
        *why = wrong ? wrong : "";
    return wrong ? COP_EINVAL : 0;
}

static struct cop_span text_of(const char *text)
{
    return (struct cop_span){(const uint8_t *)text, (uint32_t)strlen(text)};
}

static int init_stage(const struct cop__levels *levels, uint32_t at,
                      struct cop_buf **out)
{
    const struct cop__stage *stage = &levels->stages[at];
    return cop_filter_init(stage->filter, stage->type, stage->params, out);
}

int cop_levels_valid(const char *type, const char *params, const char **why)
{
    struct cop__levels levels;
    int error = cop__levels_parse(text_of(type), text_of(*params ? params : DEFAULT),
                                  &levels, why);
    for (uint32_t i = 0; error == 0 && i < levels.count; i++) {
        struct cop_buf *empty;
        error = init_stage(&levels, i, &empty);
        if (error == 0)
            cop_buf_unref(empty);
        else if (why)
            *why = "parameters of a stage are not for it";
    }
    return error;
}

static void put_number(struct cop__writer *writer, uint32_t value)
{
    char digits[10];
    uint32_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    while (at < sizeof digits)
        cop__put_u8(writer, (uint8_t)digits[at++]);
}

static void put_text(struct cop__writer *writer, const char *text)
{
    for (; *text; text++)
        cop__put_u8(writer, (uint8_t)*text);
}

int cop__levels_plan(const char *params, const struct cop_shape *shape, uint32_t n,
                     char out[COP_FILTER_PARAMS_MAX + 1])
{
    struct cop__writer writer = cop__writer((uint8_t *)out, COP_FILTER_PARAMS_MAX);
    if (strstr(params, over) || shape->kind > COP_SHAPE_CHAIN)
        return COP_EINVAL;
    put_text(&writer, *params ? params : DEFAULT);
    put_text(&writer, over);
    put_number(&writer, (uint32_t)shape->kind);
    put_text(&writer, ":");
    put_number(&writer, shape->k);
    put_text(&writer, ":");
    put_number(&writer, n);
    if (writer.failed)
        return COP_EINVAL;
    *writer.at = 0;
    return 0;
}

bool cop__filter_is_cumulative(const struct cop_filter *filter, const char *type,
                               const char *params)
{
    struct cop__levels levels;
    if (!cop__filter_is_levels(filter))
        return filter->flags & COP_FILTER_CUMULATIVE;
    /* Later stages get one packet of each group, whatever the wave. */
    return cop__levels_parse(text_of(type), text_of(*params ? params : DEFAULT),
                             &levels, NULL) == 0 &&
           levels.stages[0].filter->flags & COP_FILTER_CUMULATIVE;
}

/* ---- groups ---------------------------------------------------------------------- */

cop_id cop__levels_group(const struct cop__levels *levels, uint32_t level, cop_id id)
{
    if (level == 0)
        return 0; /* the last stage has one */
    if (id >= levels->plan.n)
        return id;
    for (uint32_t at = cop_tree_level(&levels->plan, id); at > level; at--)
        id = cop_tree_parent(&levels->plan, id);
    return id;
}

/* ---- states ---------------------------------------------------------------------- */

struct state {
    struct cop__levels levels;
    struct cop_span head;
    struct cop__reader body;
};

static int read(struct cop_span bytes, struct state *out)
{
    struct cop__reader reader = cop__reader(bytes.bytes, bytes.length);
    uint32_t length = cop__get_u8(&reader);
    if (reader.failed || (size_t)(reader.end - reader.at) < length)
        return COP_EMALFORMED;
    struct cop_span type = {reader.at, length};
    reader.at += length;
    struct cop_span params = cop__get_span(&reader);
    if (reader.failed || params.length > COP_FILTER_PARAMS_MAX ||
        parse(type, params, &out->levels))
        return COP_EMALFORMED;
    out->head = (struct cop_span){bytes.bytes, (uint32_t)(reader.at - bytes.bytes)};
    out->body = reader;
    return 0;
}

int cop__levels_of(const struct cop_buf *state, struct cop__levels *out)
{
    struct state mine;
    int error = read((struct cop_span){state->data, state->length}, &mine);
    if (error == 0)
        *out = mine.levels;
    return error;
}

struct entry {
    uint32_t stage;
    cop_id group;
    struct cop_span bytes;
    struct cop_buf *owned; /* what the bytes are of; NULL: of somebody else */
};

static int compare(const struct entry *a, const struct entry *b)
{
    if (a->stage != b->stage)
        return a->stage < b->stage ? -1 : 1;
    return a->group < b->group ? -1 : a->group > b->group;
}

/* The next entry; false at the end, or where there is none (the reader has failed then). */
static bool next(struct state *state, struct entry *out)
{
    struct cop__reader *reader = &state->body;
    if (reader->failed || reader->at == reader->end)
        return false;
    *out = (struct entry){.stage = cop__get_u8(reader)};
    uint64_t group = cop__get_varint(reader);
    out->bytes = cop__get_span(reader);
    out->group = (cop_id)group;
    if (out->stage >= state->levels.count || group >= COP_ID_NONE ||
        (out->stage + 1 == state->levels.count && group != 0))
        reader->failed = true;
    return !reader->failed;
}

static void put(struct cop_filter_out *out, const struct entry *entry)
{
    uint8_t stage = (uint8_t)entry->stage;
    cop_filter_put(out, &stage, 1);
    cop__put_varint(out, entry->group);
    cop__put_span(out, entry->bytes);
}

/* ---- the functions of the table --------------------------------------------------- */

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    const char *text = *params ? params : DEFAULT;
    int error = cop_levels_valid(type, text, NULL);
    if (error)
        return error;
    uint8_t length = (uint8_t)strlen(type);
    cop_filter_put(out, &length, 1);
    cop_filter_put(out, type, length);
    return cop__put_span(out, text_of(text));
}

static struct cop_span span_of(const struct cop_buf *buf)
{
    return (struct cop_span){buf->data, buf->length};
}

/* What one packet is for a stage. */
static int lift_stage(const struct cop__levels *levels, uint32_t at,
                      const struct cop_packet *packet, struct entry *out)
{
    struct cop_buf *empty, *lifted;
    int error = init_stage(levels, at, &empty);
    if (error)
        return error;
    error = cop_filter_lift(levels->stages[at].filter, empty, packet, &lifted);
    cop_buf_unref(empty);
    if (error)
        return error;
    *out = (struct entry){
        at, cop__levels_group(levels, levels->stages[at].level, packet->leaf),
        span_of(lifted), lifted};
    return 0;
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct state state;
    struct entry entry;
    if (read(empty, &state))
        return COP_EMALFORMED;
    int error = lift_stage(&state.levels, 0, packet, &entry);
    if (error)
        return error;
    cop_filter_put(out, state.head.bytes, state.head.length);
    put(out, &entry);
    cop_buf_unref(entry.owned);
    return out->error;
}

typedef int combine(struct cop_span a, struct cop_span b, struct cop_filter_out *out);

/* Two of one key as one. */
static int put_combined(const struct entry *a, const struct entry *b, combine *with,
                        struct cop_filter_out *out)
{
    struct cop__sink sink;
    struct cop_buf *buf;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = cop__sink_take(&sink, with(a->bytes, b->bytes, &sink.out), &buf);
    if (error)
        return error;
    put(out, &(struct entry){a->stage, a->group, span_of(buf), NULL});
    cop_buf_unref(buf);
    return out->error;
}

/* Both in the order of keys. Of a difference: what `b` has too, and is the same, is left out. */
static int walk(struct cop_span a, struct cop_span b, bool differ,
                struct cop_filter_out *out)
{
    struct state left, right;
    struct entry x, y;
    if (read(a, &left) || read(b, &right))
        return COP_EMALFORMED;
    if (cop__span_compare(left.head, right.head) != 0)
        return COP_EINVAL;
    cop_filter_put(out, left.head.bytes, left.head.length);
    bool has_x = next(&left, &x), has_y = next(&right, &y);
    int error = 0;
    while (error == 0 && (has_x || has_y)) {
        int order = !has_y ? -1 : !has_x ? 1 : compare(&x, &y);
        const struct cop_filter *filter =
            left.levels.stages[(order <= 0 ? &x : &y)->stage].filter;
        if (order != 0 && (order < 0 || !differ))
            put(out, order < 0 ? &x : &y);
        else if (order == 0 && !(differ && cop__span_compare(x.bytes, y.bytes) == 0))
            error = put_combined(&x, &y, differ ? filter->diff : filter->join, out);
        if (order <= 0)
            has_x = next(&left, &x);
        if (order >= 0)
            has_y = next(&right, &y);
    }
    if (left.body.failed || right.body.failed)
        return COP_EMALFORMED;
    return error ? error : out->error;
}

static int join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    return walk(a, b, false, out);
}

static int diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    return walk(now, old, true, out);
}

/* What its filter takes, and with the parameters of its stage. */
static int check_entry(const struct cop__levels *levels, const struct entry *entry,
                       struct cop_buf **empties)
{
    uint32_t at = entry->stage;
    int error = empties[at] ? 0 : init_stage(levels, at, &empties[at]);
    return error
               ? error
               : cop_filter_check(levels->stages[at].filter, empties[at], entry->bytes);
}

/* Want of memory is no word about the bytes. */
static int check(struct cop_span bytes)
{
    struct state state;
    struct entry entry, last = {0};
    struct cop_buf *empties[COP__LEVELS_MAX] = {0};
    int error = read(bytes, &state);
    for (uint32_t i = 0; error == 0 && next(&state, &entry); i++) {
        bool ascends = i == 0 || compare(&last, &entry) < 0;
        error = ascends ? check_entry(&state.levels, &entry, empties) : COP_EMALFORMED;
        last = entry;
    }
    for (uint32_t i = 0; i < COP__LEVELS_MAX; i++)
        cop_buf_unref(empties[i]);
    if (error == 0 && state.body.failed)
        error = COP_EMALFORMED;
    return error && error != COP_ENOMEM ? COP_EMALFORMED : error;
}

/* ---- closing --------------------------------------------------------------------- */

/* Entries in order. */
struct list {
    struct entry *items;
    uint32_t count, capacity;
};

static void list_free(struct list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        cop_buf_unref(list->items[i].owned);
    free(list->items);
}

static uint32_t place(const struct list *list, const struct entry *entry)
{
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(&list->items[middle], entry) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Takes over what the entry owns. */
static int list_insert(struct list *list, uint32_t at, const struct entry *entry)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 8;
        void *grown = realloc(list->items, capacity * sizeof *list->items);
        if (!grown) {
            cop_buf_unref(entry->owned);
            return COP_ENOMEM;
        }
        list->items = grown;
        list->capacity = capacity;
    }
    memmove(list->items + at + 1, list->items + at,
            (list->count - at) * sizeof *list->items);
    list->items[at] = *entry;
    list->count++;
    return 0;
}

static int list_read(struct state *state, struct list *out)
{
    struct entry entry;
    int error = 0;
    while (error == 0 && next(state, &entry))
        error = list_insert(out, out->count, &entry);
    return state->body.failed ? COP_EMALFORMED : error;
}

/* Joined to what the next stage has of that group, or the first of it. Takes it over. */
static int list_join(const struct cop__levels *levels, struct list *list,
                     const struct entry *entry)
{
    uint32_t at = place(list, entry);
    struct cop__sink sink;
    struct cop_buf *buf;
    if (at == list->count || compare(&list->items[at], entry) != 0)
        return list_insert(list, at, entry);
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    int error = levels->stages[entry->stage].filter->join(list->items[at].bytes,
                                                          entry->bytes, &sink.out);
    error = cop__sink_take(&sink, error, &buf);
    cop_buf_unref(entry->owned);
    if (error)
        return error;
    cop_buf_unref(list->items[at].owned);
    list->items[at].bytes = span_of(buf);
    list->items[at].owned = buf;
    return 0;
}

/* What a stage says of a group, for the next. COP_ENOENT: nothing. */
static int say(const struct cop__levels *levels, const struct entry *entry,
               struct entry *out)
{
    const struct cop__stage *stage = &levels->stages[entry->stage];
    struct cop_buf *state = cop_buf_copy(entry->bytes.bytes, entry->bytes.length),
                   *said;
    if (!state)
        return COP_ENOMEM;
    int error = cop_filter_result(stage->filter, stage->type, state, &said);
    cop_buf_unref(state);
    if (error)
        return error;
    struct cop_packet packet = {stage[1].type, entry->group, 0, span_of(said)};
    error = lift_stage(levels, entry->stage + 1, &packet, out);
    cop_buf_unref(said);
    return error;
}

/* From the lowest stage on, so that what has just become whole can go on at once. */
static int close_list(const struct cop__levels *levels, struct list *list,
                      cop__levels_may *may, void *context)
{
    for (uint32_t i = 0; i < list->count;) {
        struct entry entry = list->items[i], said;
        if (entry.stage + 1 == levels->count)
            break;
        if (may && !may(context, levels->stages[entry.stage].level, entry.group)) {
            i++;
            continue;
        }
        int error = say(levels, &entry, &said);
        if (error && error != COP_ENOENT)
            return error;
        cop_buf_unref(entry.owned);
        list->count--;
        memmove(list->items + i, list->items + i + 1,
                (list->count - i) * sizeof *list->items);
        if (error == 0 && (error = list_join(levels, list, &said)) != 0)
            return error;
    }
    return 0;
}

int cop__levels_close(const struct cop_buf *state, cop__levels_may *may, void *context,
                      struct cop_buf **out)
{
    struct state mine;
    struct list list = {0};
    struct cop__sink sink;
    int error = read(span_of(state), &mine);
    if (error == 0)
        error = list_read(&mine, &list);
    if (error == 0)
        error = close_list(&mine.levels, &list, may, context);
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    if (error == 0)
        cop_filter_put(&sink.out, mine.head.bytes, mine.head.length);
    for (uint32_t i = 0; error == 0 && i < list.count; i++)
        put(&sink.out, &list.items[i]);
    list_free(&list);
    return cop__sink_take(&sink, error, out);
}

/* What the last stage says when all groups are closed. */
static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct state state;
    struct entry entry;
    struct cop_buf *copy = cop_buf_copy(bytes.bytes, bytes.length);
    struct cop_buf *closed = NULL, *empty = NULL;
    if (!copy)
        return COP_ENOMEM;
    int error = cop__levels_close(copy, NULL, NULL, &closed);
    cop_buf_unref(copy);
    if (error)
        return error;
    error = read(span_of(closed), &state);
    uint32_t last = error == 0 ? state.levels.count - 1 : 0;
    if (error == 0 && !next(&state, &entry)) {
        error = init_stage(&state.levels, last, &empty);
        if (error == 0)
            entry.bytes = span_of(empty);
    }
    if (error == 0)
        error = state.levels.stages[last].filter->result(entry.bytes, out);
    cop_buf_unref(empty);
    cop_buf_unref(closed);
    return error;
}

const struct cop_filter cop__filter_levels = {
    .abi = COP_FILTER_ABI,
    .name = "levels",
    .about = "a filter for each level of the tree (count@1,sum)",
    .state = "levels/1",
    .inputs = "any",
    .outputs = "bytes",
    .params = "count@2,sum@1,max",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
};
