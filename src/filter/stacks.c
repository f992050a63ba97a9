/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/stacks.h"
#include "filter/filter.h"

#include <stdlib.h>
#include <string.h>

/*
 * stacks: see stacks.h. A packet has a line for each stack: "main;work;read", the outermost
 * frame first; before it, and a blank, may be the number of a process, so that one leaf can
 * speak for many. Nodes: depth, label, set. Nobody is at a node who is not at the one above.
 * Result, a line for each node: depth, how many, who ("leaf" or "leaf:number"), the label.
 */

#define INPUTS "text"

bool cop__frame_next(struct cop__reader *body, struct cop__frame *out)
{
    struct cop__frame frame;
    if (body->failed || body->at == body->end)
        return false;
    uint64_t depth = cop__get_varint(body);
    frame.label = cop__get_span(body);
    frame.set = cop__ranges_get(body);
    if (depth == 0 || depth > COP__STACK_DEPTH_MAX)
        body->failed = true;
    if (body->failed)
        return false;
    frame.depth = (uint32_t)depth;
    *out = frame;
    return true;
}

static void put(struct cop_filter_out *out, const struct cop__frame *frame)
{
    cop__put_varint(out, frame->depth);
    cop__put_span(out, frame->label);
    cop_filter_put(out, frame->set.bytes, frame->set.length);
}

static bool label_is_good(struct cop_span label)
{
    return label.length > 0 && !memchr(label.bytes, ';', label.length) &&
           !memchr(label.bytes, '\n', label.length);
}

static int read(struct cop_span bytes, struct cop__state *out)
{
    return cop__state_read(bytes, out) == 0 && cop__state_is(out, INPUTS, 0)
               ? 0
               : COP_EMALFORMED;
}

/* `path` has the last node at each depth down to that of the one before. */
static bool follows(const struct cop__frame *frame, const struct cop__frame *path,
                    uint32_t before)
{
    if (frame->depth > before + 1 || !label_is_good(frame->label) ||
        cop__ranges_are_empty(frame->set))
        return false;
    if (frame->depth <= before &&
        cop__span_compare(path[frame->depth].label, frame->label) >= 0)
        return false;
    return frame->depth == 1 ||
           cop__ranges_include(path[frame->depth - 1].set, frame->set);
}

static int check(struct cop_span bytes)
{
    struct cop__state state;
    struct cop__frame path[COP__STACK_DEPTH_MAX + 1], frame;
    uint32_t before = 0;
    if (read(bytes, &state))
        return COP_EMALFORMED;
    while (cop__frame_next(&state.body, &frame)) {
        if (!follows(&frame, path, before))
            return COP_EMALFORMED;
        path[frame.depth] = frame;
        before = frame.depth;
    }
    return state.body.failed ? COP_EMALFORMED : 0;
}

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    return *params ? COP_EINVAL : cop__head_put(out, type, NULL, 0);
}

/* ---- two trees ------------------------------------------------------------------- */

/*
 * Both are walked at once. The deeper of the two next nodes is still below what was last
 * taken, so it comes first; at the same depth the labels decide, and equal ones are one.
 */
struct walk {
    struct cop__state a, b;
    struct cop__frame x, y;
    bool has_x, has_y;
};

static int walk_begin(struct walk *walk, struct cop_span a, struct cop_span b)
{
    int error = cop__state_read_pair(a, b, &walk->a, &walk->b);
    if (error)
        return error;
    walk->has_x = cop__frame_next(&walk->a.body, &walk->x);
    walk->has_y = cop__frame_next(&walk->b.body, &walk->y);
    return 0;
}

/* -1: x is next, 1: y is, 0: both are. */
static int whose_turn(const struct walk *walk)
{
    if (!walk->has_x || !walk->has_y)
        return walk->has_x ? -1 : 1;
    if (walk->x.depth != walk->y.depth)
        return walk->x.depth > walk->y.depth ? -1 : 1;
    return cop__span_compare(walk->x.label, walk->y.label);
}

static void advance(struct walk *walk, int turn)
{
    if (turn <= 0)
        walk->has_x = cop__frame_next(&walk->a.body, &walk->x);
    if (turn >= 0)
        walk->has_y = cop__frame_next(&walk->b.body, &walk->y);
}

static int walk_end(const struct walk *walk, const struct cop_filter_out *out)
{
    bool failed = walk->a.body.failed || walk->b.body.failed;
    return failed ? COP_EMALFORMED : out->error;
}

static int join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    struct walk walk;
    int error = walk_begin(&walk, a, b);
    if (error)
        return error;
    cop_filter_put(out, walk.a.head.bytes, walk.a.head.length);
    while (out->error == 0 && (walk.has_x || walk.has_y)) {
        int turn = whose_turn(&walk);
        if (turn != 0) {
            put(out, turn < 0 ? &walk.x : &walk.y);
        } else {
            cop__put_varint(out, walk.x.depth);
            cop__put_span(out, walk.x.label);
            cop__ranges_combine(COP__SET_UNION, walk.x.set, walk.y.set, out);
        }
        advance(&walk, turn);
    }
    return walk_end(&walk, out);
}

/* ---- differences ----------------------------------------------------------------- */

/* Which nodes of `now` are not in `old` as they are; their depths on the way. */
static uint32_t mark_changes(struct walk *walk, bool *changed, uint32_t *depths)
{
    uint32_t count = 0;
    while (walk->has_x) {
        int turn = whose_turn(walk);
        if (turn <= 0) {
            bool same = turn == 0 && cop__span_compare(walk->x.set, walk->y.set) == 0;
            depths[count] = walk->x.depth;
            changed[count++] = !same;
        }
        advance(walk, turn);
    }
    return count;
}

/* What is above a change goes along, so that the difference is a tree. */
static void mark_above(bool *changed, const uint32_t *depths, uint32_t count)
{
    bool below[COP__STACK_DEPTH_MAX + 2] = {false};
    for (uint32_t i = count; i-- > 0;) {
        uint32_t depth = depths[i];
        changed[i] |= below[depth + 1];
        below[depth + 1] = false;
        below[depth] |= changed[i];
    }
}

static uint32_t count_frames(struct cop__reader body)
{
    struct cop__frame frame;
    uint32_t count = 0;
    while (cop__frame_next(&body, &frame))
        count++;
    return count;
}

static int diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    struct walk walk;
    struct cop__frame frame;
    int error = walk_begin(&walk, now, old);
    if (error)
        return error;
    struct cop__state state = walk.a;
    if (cop__state_read(now, &state))
        return COP_EMALFORMED;
    size_t count = count_frames(state.body);
    bool *changed = calloc(count + 1, sizeof *changed);
    uint32_t *depths = malloc((count + 1) * sizeof *depths);
    if (changed && depths) {
        mark_above(changed, depths, mark_changes(&walk, changed, depths));
        cop_filter_put(out, state.head.bytes, state.head.length);
        for (uint32_t i = 0; cop__frame_next(&state.body, &frame); i++)
            if (changed[i])
                put(out, &frame);
        error = walk_end(&walk, out);
    } else {
        error = COP_ENOMEM;
    }
    free(changed);
    free(depths);
    return error;
}

/* ---- packets --------------------------------------------------------------------- */

/* Takes "1234 " from the front of a line, if it is there. */
static bool take_number(struct cop_span *line, uint32_t *number)
{
    uint64_t value;
    const uint8_t *blank = memchr(line->bytes, ' ', line->length);
    uint32_t digits = blank ? (uint32_t)(blank - line->bytes) : 0;
    if (cop__param_u64((struct cop_span){line->bytes, digits}, &value) ||
        value > UINT32_MAX)
        return false;
    *number = (uint32_t)value;
    line->bytes += digits + 1;
    line->length -= digits + 1;
    return true;
}

/* One line as a tree of its own. */
static int put_line(struct cop_span line, cop_id leaf, struct cop_filter_out *out)
{
    uint32_t number = 0;
    if (line.length == 0)
        return COP_EINVAL;
    bool has_number = take_number(&line, &number);
    uint64_t member = cop__stack_member(leaf, has_number, number);
    for (uint32_t at = 0, depth = 1; at <= line.length; depth++) {
        const uint8_t *end =
            at < line.length ? memchr(line.bytes + at, ';', line.length - at) : NULL;
        uint32_t next = end ? (uint32_t)(end - line.bytes) : line.length;
        struct cop_span label = {line.bytes + at, next - at};
        if (!label_is_good(label) || depth > COP__STACK_DEPTH_MAX)
            return COP_EINVAL;
        cop__put_varint(out, depth);
        cop__put_span(out, label);
        cop__ranges_put_one(out, member);
        at = next + 1;
    }
    return out->error;
}

static int make_line(const struct cop__state *state, struct cop_span line, cop_id leaf,
                     struct cop_buf **out)
{
    struct cop__sink sink;
    cop__sink_init(&sink, COP_FILTER_STATE_MAX);
    cop_filter_put(&sink.out, state->head.bytes, state->head.length);
    return cop__sink_take(&sink, put_line(line, leaf, &sink.out), out);
}

static uint32_t count_lines(struct cop_span text)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < text.length; i++)
        count += text.bytes[i] == '\n';
    return count;
}

/* All lines, each as a tree; how many is in `count` on failure too. */
static int make_lines(const struct cop__state *state, const struct cop_packet *packet,
                      struct cop_buf **lines, uint32_t *count)
{
    struct cop_span text = packet->data;
    while (text.length > 0) {
        const uint8_t *end = memchr(text.bytes, '\n', text.length);
        uint32_t length = end ? (uint32_t)(end - text.bytes) : text.length;
        struct cop_span line = {text.bytes, length};
        int error = make_line(state, line, packet->leaf, &lines[*count]);
        if (error)
            return error;
        (*count)++;
        length += end ? 1 : 0;
        text.bytes += length;
        text.length -= length;
    }
    return 0;
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop_buf *tree = NULL;
    uint32_t count = 0;
    if (read(empty, &state))
        return COP_EMALFORMED;
    struct cop_buf **lines =
        malloc(count_lines(packet->data) * sizeof(struct cop_buf *));
    struct cop_buf *nothing = cop_buf_copy(state.head.bytes, state.head.length);
    int error =
        lines && nothing ? make_lines(&state, packet, lines, &count) : COP_ENOMEM;
    if (error == 0)
        error = cop_filter_fold(&cop__filter_stacks, nothing, lines, count, &tree);
    if (error == 0)
        error = cop_filter_put(out, tree->data, tree->length);
    cop_buf_unref(tree);
    cop_buf_unref(nothing);
    for (uint32_t i = 0; i < count; i++)
        cop_buf_unref(lines[i]);
    free(lines);
    return error;
}

/* ---- results --------------------------------------------------------------------- */

static void print_member(struct cop_filter_out *out, uint64_t member)
{
    cop__put_decimal(out, cop__stack_leaf(member));
    if (!cop__stack_has_number(member))
        return;
    cop__put_text(out, ":");
    cop__put_decimal(out, member & UINT32_MAX);
}

static void print_set(struct cop_filter_out *out, struct cop_span set)
{
    struct cop__ranges ranges = cop__ranges_begin(set);
    struct cop__range range;
    for (bool first = true; cop__ranges_next(&ranges, &range); first = false) {
        if (!first)
            cop__put_text(out, ",");
        print_member(out, range.first);
        if (range.last == range.first)
            continue;
        cop__put_text(out, "-");
        print_member(out, range.last);
    }
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__frame frame;
    if (read(bytes, &state))
        return COP_EMALFORMED;
    while (cop__frame_next(&state.body, &frame)) {
        cop__put_decimal(out, frame.depth);
        cop__put_text(out, "\t");
        cop__put_decimal(out, cop__ranges_count(frame.set));
        cop__put_text(out, "\t");
        print_set(out, frame.set);
        cop__put_text(out, "\t");
        cop_filter_put(out, frame.label.bytes, frame.label.length);
        cop__put_text(out, "\n");
    }
    return state.body.failed ? COP_EMALFORMED : out->error;
}

/* A few stacks of frames a to d, with and without numbers. */
static int sample(const char *type, const uint64_t *words, uint32_t count,
                  struct cop_filter_out *out)
{
    (void)type;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t word = words[i];
        if (word % 2)
            cop__put_decimal(out, word / 2 % 8), cop__put_text(out, " ");
        word /= 16;
        for (uint64_t frames = word % 4 + 1; frames > 0; frames--) {
            word /= 4;
            char frame[2] = {(char)('a' + word % 4), frames > 1 ? ';' : '\n'};
            cop_filter_put(out, frame, 2);
        }
    }
    return out->error;
}

const struct cop_filter cop__filter_stacks = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_IDEMPOTENT | COP_FILTER_CUMULATIVE,
    .name = "stacks",
    .about = "call stacks as one prefix tree, with who is at each place",
    .state = "stacks/1",
    .inputs = INPUTS,
    .outputs = "text",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
    .sample = sample,
};
