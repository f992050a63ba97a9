/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/stacks.h"
#include "filter/stacks.h"
#include "term/json.h"

#include <coppice/error.h>
#include <coppice/filter.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- from lines to a tree -------------------------------------------------------- */

struct merging {
    const struct cop_filter *filter;
    struct cop_buf *empty, *tree;
    cop_id leaf;
};

static int add_text(struct merging *merging, const char *text, size_t length)
{
    struct cop_packet packet = {
        "text", merging->leaf, 0, {(const uint8_t *)text, (uint32_t)length}};
    struct cop_buf *more, *joined;
    int error = cop_filter_lift(merging->filter, merging->empty, &packet, &more);
    if (error)
        return error;
    error = cop_filter_join(merging->filter, merging->tree, more, &joined);
    cop_buf_unref(more);
    if (error)
        return error;
    cop_buf_unref(merging->tree);
    merging->tree = joined;
    return 0;
}

/* Lines with 'S', without it, packed into packets of a bounded size. */
static int add_lines(struct merging *merging, const char *lines, char *packed,
                     size_t room)
{
    size_t used = 0;
    int error = 0;
    for (const char *at = lines; *at && !error;) {
        size_t length = strcspn(at, "\n");
        size_t next = length + (at[length] ? 1 : 0);
        if (used > 0 && used + length > room) {
            error = add_text(merging, packed, used);
            used = 0;
        }
        if (at[0] == 'S' && length > 2 && length <= room) {
            memcpy(packed + used, at + 2, length - 2);
            used += length - 2;
            packed[used++] = '\n';
        }
        at += next;
    }
    return error || used == 0 ? error : add_text(merging, packed, used);
}

int stacks_tree(cop_id leaf, const char *lines, struct cop_buf **out)
{
    struct merging merging = {.filter = cop_filter_find("stacks"), .leaf = leaf};
    size_t room = COP_PACKET_MAX / 2;
    char *packed = malloc(room);
    int error = packed ? cop_filter_init(merging.filter, "text", "", &merging.empty)
                       : COP_ENOMEM;
    merging.tree = cop_buf_ref(merging.empty);
    if (!error)
        error = add_lines(&merging, lines, packed, room);
    free(packed);
    cop_buf_unref(merging.empty);
    if (error) {
        cop_buf_unref(merging.tree);
        return error;
    }
    *out = merging.tree;
    return 0;
}

/* ---- who ------------------------------------------------------------------------- */

struct names {
    const char *const *hosts;
    uint32_t count;
};

static void print_host(FILE *out, const struct names *names, cop_id leaf)
{
    if (leaf < names->count)
        fputs(names->hosts[leaf], out);
    else
        fprintf(out, "n%u", (unsigned)leaf);
}

/* "host:[12,14-16],other:7": the numbers of one host together. */
static void print_members(FILE *out, const struct names *names, struct cop_span set)
{
    struct cop__ranges ranges = cop__ranges_begin(set);
    struct cop__range range, next;
    bool has = cop__ranges_next(&ranges, &range);
    while (has) {
        cop_id leaf = cop__stack_leaf(range.first);
        bool numbers = cop__stack_has_number(range.first);
        bool more = cop__ranges_next(&ranges, &next);
        bool many = numbers && (range.last != range.first ||
                                (more && cop__stack_leaf(next.first) == leaf));
        print_host(out, names, leaf);
        if (numbers)
            fputs(many ? ":[" : ":", out);
        for (;;) {
            if (numbers)
                fprintf(out, "%" PRIu64, range.first & UINT32_MAX);
            if (numbers && range.last != range.first)
                fprintf(out, "-%" PRIu64, range.last & UINT32_MAX);
            has = more;
            range = next;
            if (!has || !numbers || cop__stack_leaf(range.first) != leaf)
                break;
            fputc(',', out);
            more = cop__ranges_next(&ranges, &next);
        }
        if (many)
            fputc(']', out);
        if (has)
            fputc(',', out);
    }
}

static bool is_same(struct cop_span a, struct cop_span b)
{
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

/* ---- text and JSON --------------------------------------------------------------- */

static void print_text(FILE *out, struct cop__reader body, const struct names *names)
{
    struct cop_span above[COP__STACK_DEPTH_MAX + 1] = {{0}};
    struct cop__frame frame;
    while (cop__frame_next(&body, &frame)) {
        fprintf(out, "%*s%.*s", (int)(frame.depth - 1) * 2, "", (int)frame.label.length,
                (const char *)frame.label.bytes);
        above[frame.depth] = frame.set;
        /* Who is there is said where it changes. */
        if (frame.depth == 1 || !is_same(frame.set, above[frame.depth - 1])) {
            fprintf(out, "  %" PRIu64 " ", cop__ranges_count(frame.set));
            print_members(out, names, frame.set);
        }
        fputc('\n', out);
    }
}

static char *text_of_members(const struct names *names, struct cop_span set)
{
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        return NULL;
    print_members(memory, names, set);
    return fclose(memory) == 0 ? text : (free(text), NULL);
}

static int print_json(FILE *out, struct cop__reader body, const struct names *names)
{
    struct cop__frame frame;
    while (cop__frame_next(&body, &frame)) {
        struct json json;
        char *members = text_of_members(names, frame.set);
        char *label = strndup((const char *)frame.label.bytes, frame.label.length);
        if (members && label) {
            json_init(&json, out);
            json_begin_object(&json);
            json_put_string(&json, "schema", "coppice.stacks.v1");
            json_put_u64(&json, "depth", frame.depth);
            json_put_string(&json, "frame", label);
            json_put_u64(&json, "processes", cop__ranges_count(frame.set));
            json_put_string(&json, "members", members);
            json_end_object(&json);
        }
        bool good = members && label;
        free(members);
        free(label);
        if (!good)
            return COP_ENOMEM;
    }
    return 0;
}

/* ---- graphs ---------------------------------------------------------------------- */

static void print_quoted(FILE *out, struct cop_span text)
{
    for (uint32_t i = 0; i < text.length; i++) {
        if (text.bytes[i] == '"' || text.bytes[i] == '\\')
            fputc('\\', out);
        fputc(text.bytes[i], out);
    }
}

static void print_dot(FILE *out, struct cop__reader body, const struct names *names)
{
    uint32_t above[COP__STACK_DEPTH_MAX + 1] = {0}, number = 0;
    struct cop__frame frame;
    fputs("digraph stacks {\n    node [shape=box];\n    0 [label=\"\"];\n", out);
    while (cop__frame_next(&body, &frame)) {
        above[frame.depth] = ++number;
        fprintf(out, "    %u [label=\"", (unsigned)number);
        print_quoted(out, frame.label);
        fprintf(out, "\"];\n    %u -> %u [label=\"%" PRIu64 ": ",
                frame.depth > 1 ? (unsigned)above[frame.depth - 1] : 0,
                (unsigned)number, cop__ranges_count(frame.set));
        print_members(out, names, frame.set);
        fputs("\"];\n", out);
    }
    fputs("}\n", out);
}

/* A box of the flame graph. A process with two threads may be at two boxes above one, so a box
 * is at least as wide as those above it together. */
struct box {
    struct cop__frame frame;
    uint64_t width, at, used;
    uint32_t below;
};

static uint32_t count_boxes(struct cop__reader body)
{
    struct cop__frame frame;
    uint32_t count = 0;
    while (cop__frame_next(&body, &frame))
        count++;
    return count;
}

/* boxes[0] is under all others. */
static void lay_out(struct box *boxes, uint32_t count, uint32_t *deepest)
{
    for (uint32_t i = count; i-- > 1;) {
        struct box *box = &boxes[i];
        uint64_t own = cop__ranges_count(box->frame.set);
        box->width = box->width > own ? box->width : own;
        boxes[box->below].width += box->width;
        *deepest = box->frame.depth > *deepest ? box->frame.depth : *deepest;
    }
    for (uint32_t i = 1; i < count; i++) {
        struct box *below = &boxes[boxes[i].below];
        boxes[i].at = below->at + below->used;
        below->used += boxes[i].width;
    }
}

static void print_xml(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '<' || c == '>' || c == '&' || c == '"')
            fprintf(out, "&#%d;", c);
        else
            fputc((unsigned char)c < ' ' ? '?' : c, out);
    }
}

#define SVG_WIDTH 1200.0
#define SVG_ROW 18.0
#define SVG_LETTER 7.0

static int print_box(FILE *out, const struct box *box, double scale, double height,
                     const struct names *names)
{
    double x = (double)box->at * scale, width = (double)box->width * scale;
    double y = height - (double)box->frame.depth * SVG_ROW;
    /* Warm colours by the label, so that the same function looks the same everywhere. */
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < box->frame.label.length; i++)
        hash = (hash ^ box->frame.label.bytes[i]) * 16777619u;
    char *members = text_of_members(names, box->frame.set);
    if (members == NULL)
        return COP_ENOMEM;
    fprintf(out,
            "<g><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.0f\" "
            "fill=\"hsl(%u,80%%,%u%%)\"/><title>",
            x, y, width, SVG_ROW - 1, (unsigned)(hash % 50),
            60u + (unsigned)(hash >> 8) % 15);
    print_xml(out, (const char *)box->frame.label.bytes, box->frame.label.length);
    fprintf(out, ": %" PRIu64 " ", cop__ranges_count(box->frame.set));
    print_xml(out, members, strlen(members));
    fputs("</title>", out);
    free(members);
    size_t letters = width > 2 * SVG_LETTER ? (size_t)(width / SVG_LETTER) - 1 : 0;
    if (letters > box->frame.label.length)
        letters = box->frame.label.length;
    fprintf(out, "<text x=\"%.2f\" y=\"%.2f\">", x + 3, y + SVG_ROW - 5);
    print_xml(out, (const char *)box->frame.label.bytes, letters);
    fputs("</text></g>\n", out);
    return 0;
}

static int print_svg(FILE *out, struct cop__reader body, const struct names *names)
{
    uint32_t count = count_boxes(body) + 1, deepest = 0, last[COP__STACK_DEPTH_MAX + 1];
    struct box *boxes = calloc(count, sizeof *boxes);
    if (boxes == NULL)
        return COP_ENOMEM;
    last[0] = 0;
    for (uint32_t i = 1; i < count && cop__frame_next(&body, &boxes[i].frame); i++) {
        uint32_t depth = boxes[i].frame.depth;
        boxes[i].below = last[depth - 1];
        last[depth] = i;
    }
    lay_out(boxes, count, &deepest);
    double height = (deepest + 1) * SVG_ROW, scale = SVG_WIDTH;
    if (boxes[0].width)
        scale /= (double)boxes[0].width;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"monospace\" font-size=\"11\">\n",
            SVG_WIDTH, height);
    int error = 0;
    for (uint32_t i = 1; i < count && !error; i++)
        error = print_box(out, &boxes[i], scale, height - SVG_ROW / 2, names);
    fputs("</svg>\n", out);
    free(boxes);
    return error;
}

int stacks_print(FILE *out, enum stacks_form form, const struct cop_buf *tree,
                 const char *const *hosts, uint32_t host_count)
{
    struct names names = {hosts, host_count};
    struct cop__state state;
    if (cop__state_read((struct cop_span){tree->data, tree->length}, &state) != 0)
        return COP_EMALFORMED;
    if (form == STACKS_JSON)
        return print_json(out, state.body, &names);
    if (form == STACKS_SVG)
        return print_svg(out, state.body, &names);
    (form == STACKS_DOT ? print_dot : print_text)(out, state.body, &names);
    return 0;
}
