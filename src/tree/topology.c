/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tree/shape.h"
#include "tree/table.h"

/*
 * Reads a topology file:
 *
 *   file      = { statement }
 *   statement = name "=>" name { name } ";"
 *   name      = host ":" number         host of letters, digits, '.', '-' and '_'
 *
 * Blanks separate; '#' begins a comment that ends with the line. A parent may have
 * several statements: its children add up. The names must form one tree.
 *
 * Bounds: the text is read once, each byte by next_token and nobody else. Memory is
 * asked for once, by the number of colons, which no number of names exceeds. Nothing
 * recurses.
 */
#define NAME_MAX_LENGTH 255
#define HOST_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

#define SEPARATORS " \t\r\n;#="

enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_ARROW, TOKEN_SEMICOLON, TOKEN_BAD };

struct token {
    enum token_kind kind;
    const char *text;
    uint32_t length;
    uint32_t line;
};

/* A name, in the order of first mention. The children are a list in the file's order.
 *  */
struct name {
    const char *text;
    uint32_t length;
    uint32_t line;
    uint32_t parent; /* these four are numbers of names, or NONE */
    uint32_t first_child;
    uint32_t last_child;
    uint32_t next_sibling;
    cop_rank rank;
};

struct parser {
    const char *at;
    const char *end;
    uint32_t line;
    struct token token;
    struct name *names;
    uint32_t count;
    uint32_t capacity;
    uint32_t *slots; /* hash of names: number + 1, or 0 */
    uint32_t slot_mask;
    char *message;
    size_t size;
};

/* ---- complaints ------------------------------------------------------------------ */

#define SHOWN_MAX 60

/* For a sentence: cut if it is long, and without bytes that a terminal might obey. */
static const char *show(const char *text, uint32_t length, char out[SHOWN_MAX + 4])
{
    uint32_t shown = length < SHOWN_MAX ? length : SHOWN_MAX;
    for (uint32_t i = 0; i < shown; i++)
        out[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
    memcpy(out + shown, "...", 4);
    if (shown == length)
        out[shown] = '\0';
    return out;
}

/* "line 3: <before><text><after>" */
static int complain(const struct parser *parser, uint32_t line, const char *before,
                    const char *text, uint32_t length, const char *after)
{
    char shown[SHOWN_MAX + 4];
    if (parser->message != NULL && parser->size > 0)
        (void)snprintf(parser->message, parser->size, "line %lu: %s%s%s",
                       (unsigned long)line, before, show(text, length, shown), after);
    return COP_EINVAL;
}

static int complain_name(const struct parser *parser, uint32_t number,
                         const char *before, const char *after)
{
    const struct name *name = &parser->names[number];
    return complain(parser, name->line, before, name->text, name->length, after);
}

/* What stands where something else was expected. */
static int complain_token(const struct parser *parser, const char *expected)
{
    char after[96];
    if (parser->token.kind == TOKEN_END) {
        (void)snprintf(after, sizeof(after), "the text ends, but %s was expected",
                       expected);
        return complain(parser, parser->line, after, "", 0, "");
    }
    (void)snprintf(after, sizeof(after), "\" where %s was expected", expected);
    return complain(parser, parser->line, "\"", parser->token.text,
                    parser->token.length, after);
}

/* ---- tokens ---------------------------------------------------------------------- */

static void skip_blanks(struct parser *parser)
{
    bool comment = false;
    for (; parser->at < parser->end; parser->at++) {
        char byte = *parser->at;
        comment = byte != '\n' && (comment || byte == '#');
        if (byte == '\n')
            parser->line++;
        else if (!comment && byte != ' ' && byte != '\t' && byte != '\r')
            return;
    }
}

/* Strictly a byte of the set; the 0 at the end of the set is none of it. */
static bool is_one_of(char byte, const char *set)
{
    return byte != '\0' && strchr(set, byte) != NULL;
}

static uint32_t run_of(const struct parser *parser, uint32_t from, const char *set)
{
    uint32_t length = from;
    while (parser->at + length < parser->end && is_one_of(parser->at[length], set))
        length++;
    return length;
}

/* The length of a well-formed name at the front, or 0. */
static uint32_t name_length(const struct parser *parser)
{
    uint32_t host = run_of(parser, 0, HOST_BYTES);
    if (host == 0 || parser->at + host == parser->end || parser->at[host] != ':')
        return 0;
    uint32_t whole = run_of(parser, host + 1, "0123456789");
    return whole > host + 1 ? whole : 0;
}

/* What to show of something that is no token: up to the next blank or separator. */
static uint32_t bad_length(const struct parser *parser)
{
    uint32_t length = 1;
    while (length <= SHOWN_MAX && parser->at + length < parser->end &&
           !is_one_of(parser->at[length], SEPARATORS))
        length++;
    return length;
}

static void next_token(struct parser *parser)
{
    skip_blanks(parser);
    struct token *token = &parser->token;
    size_t left = (size_t)(parser->end - parser->at);
    *token = (struct token){TOKEN_END, parser->at, 0, parser->line};
    if (left == 0)
        return;
    uint32_t name = name_length(parser);
    bool joined = name != 0 && name < left && !is_one_of(parser->at[name], SEPARATORS);
    if (parser->at[0] == ';')
        *token = (struct token){TOKEN_SEMICOLON, parser->at, 1, parser->line};
    else if (left >= 2 && memcmp(parser->at, "=>", 2) == 0)
        *token = (struct token){TOKEN_ARROW, parser->at, 2, parser->line};
    else if (name != 0 && !joined)
        *token = (struct token){TOKEN_NAME, parser->at, name, parser->line};
    else
        *token =
            (struct token){TOKEN_BAD, parser->at, bad_length(parser), parser->line};
    parser->at += token->length;
}

/* ---- names ----------------------------------------------------------------------- */

/* FNV-1a: short texts, no adversary (a user's own file), and the same everywhere. */
static uint32_t hash(const struct token *token)
{
    uint32_t value = UINT32_C(2166136261);
    for (uint32_t i = 0; i < token->length; i++)
        value = (value ^ (uint8_t)token->text[i]) * UINT32_C(16777619);
    return value ^ value >> 15;
}

static uint32_t *find_slot(const struct parser *parser, const struct token *token)
{
    for (uint32_t at = hash(token);; at++) {
        uint32_t *slot = &parser->slots[at & parser->slot_mask];
        if (*slot == 0)
            return slot;
        const struct name *name = &parser->names[*slot - 1];
        if (name->length == token->length &&
            memcmp(name->text, token->text, token->length) == 0)
            return slot;
    }
}

static int intern(struct parser *parser, const struct token *token, uint32_t *number)
{
    if (token->length > NAME_MAX_LENGTH)
        return complain(parser, token->line, "the name ", token->text, token->length,
                        " is longer than 255 bytes");
    uint32_t *slot = find_slot(parser, token);
    if (*slot == 0) {
        if (parser->count == COP_MEMBERS_MAX)
            return complain(parser, token->line, "", token->text, token->length,
                            " is one name more than the 16777216 that are allowed");
        parser->names[parser->count++] =
            (struct name){token->text,   token->length, token->line,   COP_RANK_NONE,
                          COP_RANK_NONE, COP_RANK_NONE, COP_RANK_NONE, COP_RANK_NONE};
        *slot = parser->count;
    }
    *number = *slot - 1;
    return 0;
}

static int add_child(struct parser *parser, uint32_t line, uint32_t parent,
                     uint32_t child)
{
    struct name *names = parser->names;
    if (names[child].parent != COP_RANK_NONE) {
        char after[SHOWN_MAX + 64];
        char shown[SHOWN_MAX + 4];
        const struct name *other = &names[names[child].parent];
        (void)snprintf(after, sizeof(after), " already has a parent, %s",
                       show(other->text, other->length, shown));
        return complain(parser, line, "", names[child].text, names[child].length,
                        after);
    }
    names[child].parent = parent;
    if (names[parent].first_child == COP_RANK_NONE)
        names[parent].first_child = child;
    else
        names[names[parent].last_child].next_sibling = child;
    names[parent].last_child = child;
    return 0;
}

/* ---- statements ------------------------------------------------------------------ */

/* The current token is a child; goes on to the next. A child before an arrow is none,
 * but the parent of the next statement: somebody forgot a semicolon. */
static int read_child(struct parser *parser, uint32_t parent)
{
    struct token token = parser->token;
    uint32_t child;
    next_token(parser);
    if (parser->token.kind == TOKEN_ARROW)
        return complain(parser, token.line, "", token.text, token.length,
                        " begins a statement, but the one before it has no \";\"");
    int error = intern(parser, &token, &child);
    return error != 0 ? error : add_child(parser, token.line, parent, child);
}

/* The current token is the first child. Ends at the semicolon. */
static int read_children(struct parser *parser, uint32_t parent)
{
    if (parser->token.kind != TOKEN_NAME)
        return complain_token(parser, "a child (host:number)");
    while (parser->token.kind == TOKEN_NAME) {
        int error = read_child(parser, parent);
        if (error != 0)
            return error;
    }
    if (parser->token.kind != TOKEN_SEMICOLON)
        return complain_token(parser, "another child (host:number) or \";\"");
    return 0;
}

static int read_statement(struct parser *parser)
{
    uint32_t parent;
    if (parser->token.kind != TOKEN_NAME)
        return complain_token(parser, "a parent (host:number)");
    int error = intern(parser, &parser->token, &parent);
    if (error != 0)
        return error;
    next_token(parser);
    if (parser->token.kind != TOKEN_ARROW)
        return complain_token(parser, "\"=>\"");
    next_token(parser);
    return read_children(parser, parent);
}

static int read_statements(struct parser *parser)
{
    next_token(parser);
    if (parser->token.kind == TOKEN_END)
        return complain(parser, parser->line,
                        "there is no statement; write for example "
                        "\"a:0 => a:1 a:2 ;\"",
                        "", 0, "");
    while (parser->token.kind != TOKEN_END) {
        int error = read_statement(parser);
        if (error != 0)
            return error;
        next_token(parser);
    }
    return 0;
}

/* ---- from names to ranks --------------------------------------------------------- */

/* Somebody on the cycle that is above a name: as many steps up as there are names. */
static int complain_cycle(const struct parser *parser, uint32_t number)
{
    for (uint32_t i = 0; i < parser->count; i++)
        number = parser->names[number].parent;
    return complain_name(parser, number, "",
                         " is its own ancestor: the names form a cycle");
}

static int find_root(const struct parser *parser, uint32_t *root)
{
    uint32_t found = COP_RANK_NONE;
    for (uint32_t i = 0; i < parser->count; i++) {
        if (parser->names[i].parent != COP_RANK_NONE)
            continue;
        if (found != COP_RANK_NONE) {
            char after[SHOWN_MAX + 64];
            char shown[SHOWN_MAX + 4];
            const struct name *first = &parser->names[found];
            (void)snprintf(after, sizeof(after),
                           " has no parent, but %s already is the root",
                           show(first->text, first->length, shown));
            return complain_name(parser, i, "", after);
        }
        found = i;
    }
    if (found == COP_RANK_NONE)
        return complain_cycle(parser, 0);
    *root = found;
    return 0;
}

/* Ranks in level order: `queue` holds the names by rank, and is its own work list. */
static int rank_names(const struct parser *parser, uint32_t root, uint32_t *queue)
{
    uint32_t known = 0;
    parser->names[root].rank = known;
    queue[known++] = root;
    for (uint32_t i = 0; i < known; i++) {
        uint32_t child = parser->names[queue[i]].first_child;
        for (; child != COP_RANK_NONE; child = parser->names[child].next_sibling) {
            parser->names[child].rank = known;
            queue[known++] = child;
        }
    }
    for (uint32_t i = 0; i < parser->count; i++) {
        if (parser->names[i].rank == COP_RANK_NONE)
            return complain_cycle(parser, i);
    }
    return 0;
}

/* ---- from ranks to the table ----------------------------------------------------- */

static struct cop_shape_table *create_table(uint32_t n, size_t label_bytes)
{
    struct cop_shape_table *table = cop__table_create(n, (size_t)n * 7 + 1);
    if (table == NULL)
        return NULL;
    uint32_t *next = table->pool;
    table->as.file.parent = next;
    table->as.file.depth = next += n;
    table->as.file.second = next += n;
    table->as.file.order = next += n;
    table->as.file.slot = next += n;
    table->as.file.label_at = next += n;
    table->as.file.first = next + n;
    COP_ASSERT(label_bytes > 0); /* every rank has a name */
    table->as.file.labels = malloc(label_bytes);
    if (table->as.file.labels == NULL) {
        free(table);
        return NULL;
    }
    return table;
}

static void fill_ranks(const struct parser *parser, const uint32_t *queue,
                       struct cop_shape_table *table)
{
    uint32_t at = 0;
    uint32_t children = 1;
    for (cop_rank rank = 0; rank < table->n; rank++) {
        /* The queue has all n names. NOLINTNEXTLINE(clang-analyzer-core.*) */
        const struct name *name = &parser->names[queue[rank]];
        table->as.file.parent[rank] =
            rank == 0 ? COP_RANK_NONE : parser->names[name->parent].rank;
        table->as.file.first[rank] = children;
        for (uint32_t child = name->first_child; child != COP_RANK_NONE;
             child = parser->names[child].next_sibling)
            children++;
        table->as.file.label_at[rank] = at;
        memcpy(table->as.file.labels + at, name->text, name->length);
        at += name->length;
        table->as.file.labels[at++] = '\0';
    }
    table->as.file.first[table->n] = table->n;
}

/* From the last rank up, since children have higher ranks than their parents. */
static void fill_depths(struct cop_shape_table *table)
{
    uint32_t *depth = table->as.file.depth;
    for (cop_rank rank = table->n; rank-- > 0;) {
        depth[rank]++; /* until here: the depth of its deepest child */
        if (rank == 0)
            break;
        cop_rank parent = table->as.file.parent[rank];
        uint32_t second = depth[rank];
        if (second > depth[parent]) {
            second = depth[parent];
            depth[parent] = depth[rank];
        }
        if (second > table->as.file.second[parent])
            table->as.file.second[parent] = second;
    }
}

/*
 * The children of each rank, deepest first, then the higher rank. Counts the ranks by
 * depth and takes them from the deepest on, each to the next free slot of its parent:
 * O(n). `work` has 3n + 1 numbers.
 */
static void fill_order(struct cop_shape_table *table, uint32_t *work)
{
    uint32_t n = table->n;
    uint32_t *start = work; /* by n - depth */
    uint32_t *sorted = work + n + 1;
    uint32_t *next = sorted + n;
    memset(start, 0, ((size_t)n + 1) * sizeof(*start));
    for (cop_rank rank = 0; rank < n; rank++) {
        start[n - table->as.file.depth[rank] + 1]++;
        next[rank] = table->as.file.first[rank];
    }
    for (uint32_t i = 0; i < n; i++)
        start[i + 1] += start[i];
    for (cop_rank rank = n; rank-- > 0;)
        sorted[start[n - table->as.file.depth[rank]]++] = rank;
    for (uint32_t i = 0; i < n; i++) {
        cop_rank rank = sorted[i];
        if (rank == 0)
            continue;
        uint32_t slot = next[table->as.file.parent[rank]]++;
        table->as.file.order[slot] = rank;
        table->as.file.slot[rank] = slot;
    }
}

static size_t label_bytes(const struct parser *parser)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < parser->count; i++)
        bytes += (size_t)parser->names[i].length + 1;
    return bytes;
}

static int build_table(const struct parser *parser, struct cop_shape *out, uint32_t *n)
{
    uint32_t root = 0;
    int error = find_root(parser, &root);
    if (error != 0)
        return error;
    uint32_t *work = malloc(((size_t)parser->count * 3 + 1) * sizeof(*work));
    if (work == NULL)
        return COP_ENOMEM;
    struct cop_shape_table *table = NULL;
    error = rank_names(parser, root, work);
    if (error == 0) {
        table = create_table(parser->count, label_bytes(parser));
        error = table == NULL ? COP_ENOMEM : 0;
    }
    if (error == 0) {
        fill_ranks(parser, work, table);
        fill_depths(table);
        fill_order(table, work);
        *out = (struct cop_shape){.kind = COP_SHAPE_TABLE, .table = table};
        *n = parser->count;
    }
    free(work);
    return error;
}

/* ---- all of it ------------------------------------------------------------------- */

/* Room for as many names as there can be; each has one colon. */
static int make_room(struct parser *parser, size_t length)
{
    size_t colons = 0;
    for (size_t i = 0; i < length; i++)
        colons += parser->at[i] == ':';
    parser->capacity =
        colons < COP_MEMBERS_MAX ? (uint32_t)colons + 1 : COP_MEMBERS_MAX;
    uint32_t slots = 2;
    while (slots < parser->capacity * 2)
        slots *= 2;
    parser->slot_mask = slots - 1;
    parser->names = malloc(parser->capacity * sizeof(*parser->names));
    parser->slots = calloc(slots, sizeof(*parser->slots));
    return parser->names == NULL || parser->slots == NULL ? COP_ENOMEM : 0;
}

int cop_shape_from_topology(const char *text, size_t length, struct cop_shape *out,
                            uint32_t *n, char *message, size_t size)
{
    struct parser parser = {
        .at = text, .end = text + length, .line = 1, .message = message, .size = size};
    /* Lines, lengths and places of labels are 32-bit numbers. */
    if (length > UINT32_MAX / 2)
        return complain(&parser, 1, "the file is larger than 2 GiB", "", 0, "");
    int error = make_room(&parser, length);
    if (error == 0)
        error = read_statements(&parser);
    if (error == 0)
        error = build_table(&parser, out, n);
    if (error == COP_ENOMEM && message != NULL && size > 0)
        (void)snprintf(message, size, "out of memory");
    free(parser.names);
    free(parser.slots);
    return error;
}
