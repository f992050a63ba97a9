/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/link.h"

#include <string.h>

#include "base/assert.h"
#include "wire/messages.h"

/* Nothing larger is taken in before it is known who sends it. */
#define COMMAND_MAX 1024u

void cop__link_init(struct cop__link *link) { memset(link, 0, sizeof *link); }

void cop__link_fini(struct cop__link *link)
{
    cop_buf_unref(link->parser.now.payload);
    cop_buf_unref(link->parser.bulk.payload);
    memset(link, 0, sizeof *link);
}

void cop__link_open(struct cop__link *link, struct cop__session *session)
{
    link->session = session;
    link->bulk_offset = 0;
}

/* ---- bytes in -------------------------------------------------------------------- */

/*
 * The next `length` bytes in one place, or NULL if they have not all come. In the common
 * case they are where they were read; otherwise their first part waits in `part`.
 */
static const uint8_t *take(struct cop__parser *parser, struct cop__bytes *in,
                           uint32_t length)
{
    const uint8_t *at = in->data;
    if (parser->part_length == 0 && in->length >= length) {
        in->data += length;
        in->length -= length;
        return at;
    }
    uint32_t more = length - parser->part_length;
    if (more > in->length)
        more = in->length;
    if (more > 0)
        memcpy(parser->part + parser->part_length, at, more);
    parser->part_length += more;
    in->data += more;
    in->length -= more;
    if (parser->part_length < length)
        return NULL;
    parser->part_length = 0;
    return parser->part;
}

static bool is_greeting(uint8_t type)
{
    return type == COP__RECORD_HELLO || type == COP__RECORD_WELCOME ||
           type == COP__RECORD_REFUSE;
}

/* A guest's: in a frame of its own, and no longer than a greeting may be. */
static bool is_command(const struct cop__parser *parser,
                       const struct cop_header *header)
{
    return parser->record.type == COP__RECORD_FRAME &&
           header->kind == COP__KIND_COMMAND && header->length <= COMMAND_MAX;
}

/* Which records may come: greetings before the handshake is over, everything else after. */
static bool is_legal(const struct cop__link *link, uint8_t type)
{
    if (link->session == NULL && link->takes_commands && type == COP__RECORD_FRAME)
        return true;
    if (type == COP__RECORD_REFUSE)
        return link->session == NULL;
    return is_greeting(type) == (link->session == NULL);
}

/* A buffer for `length` bytes that are to come. */
static int open_body(struct cop__parser *parser, uint32_t length)
{
    parser->now.payload = NULL;
    parser->filled = 0;
    parser->state = COP__PARSE_BODY;
    if (length == 0)
        return 0;
    parser->now.payload = cop_buf_create(length);
    return parser->now.payload ? 0 : COP_ENOMEM;
}

/* The rest of a BULK frame goes on from where the last piece ended. */
static int reopen_bulk(struct cop__parser *parser)
{
    parser->now = parser->bulk;
    parser->filled = parser->bulk_filled;
    parser->bulk.payload = NULL;
    parser->bulk_is_open = false;
    uint32_t rest = parser->now.header.length - parser->filled;
    bool is_last = (parser->record.flags & COP__RECORD_LAST) != 0;
    if (parser->left == 0 || parser->left > rest || is_last != (parser->left == rest))
        return COP_EMALFORMED;
    parser->state = parser->bulk_is_skipped ? COP__PARSE_SKIP : COP__PARSE_BODY;
    return 0;
}

static int start_record(struct cop__link *link, const uint8_t *head)
{
    struct cop__parser *parser = &link->parser;
    int error = cop__record_decode(head, &parser->record);
    if (error != 0)
        return error;
    uint8_t type = parser->record.type;
    if (!is_legal(link, type))
        return COP_EMALFORMED;
    link->other_keeps = (parser->record.flags & COP__RECORD_KEEP) != 0;
    parser->left = parser->record.length;
    if (is_greeting(type))
        return open_body(parser, parser->left);
    if (type == COP__RECORD_PIECE && parser->bulk_is_open)
        return reopen_bulk(parser);
    if (type == COP__RECORD_SHOW || type == COP__RECORD_THERE) {
        uint32_t size = type == COP__RECORD_SHOW ? COP__SHOW_SIZE : COP__THERE_SIZE;
        parser->state = COP__PARSE_PLACE;
        return parser->left == size ? 0 : COP_EMALFORMED;
    }
    if (type == COP__RECORD_FRAME || type == COP__RECORD_PIECE) {
        parser->state = COP__PARSE_HEADER;
        return parser->left >= COP__HEADER_SIZE ? 0 : COP_EMALFORMED;
    }
    parser->state = COP__PARSE_BODY;
    return 0;
}

/* Whether the record's length fits what the frame's header says. */
static bool fits(const struct cop__parser *parser, const struct cop_header *header)
{
    if (parser->record.type == COP__RECORD_PIECE &&
        !(parser->record.flags & COP__RECORD_LAST))
        return parser->left < header->length;
    return parser->left == header->length;
}

static int start_frame(const struct cop__link *link, struct cop__parser *parser,
                       const uint8_t *head)
{
    /* A header of another major version leaves this as it is, and so does not fit. */
    struct cop_header header = {.length = UINT32_MAX};
    int error = cop__header_decode(head, &header);
    parser->left -= COP__HEADER_SIZE;
    bool can_skip =
        (error == COP_EKIND || error == COP_EVERSION) && header.length != UINT32_MAX;
    if ((error != 0 && !can_skip) || !fits(parser, &header))
        return error != 0 ? error : COP_EMALFORMED;
    if (!link->session && (error != 0 || !is_command(parser, &header)))
        return COP_EMALFORMED;
    parser->now.header = header;
    if (error == 0)
        return open_body(parser, header.length);
    parser->now.payload = NULL;
    parser->filled = 0;
    parser->state = COP__PARSE_SKIP;
    return 0;
}

/* Takes what there is of the body. Returns whether the record is whole. */
static bool take_body(struct cop__parser *parser, struct cop__bytes *in)
{
    uint32_t length = parser->left < in->length ? parser->left : in->length;
    if (length > 0 && parser->state == COP__PARSE_BODY)
        memcpy(parser->now.payload->data + parser->filled, in->data, length);
    in->data += length;
    in->length -= length;
    parser->filled += length;
    parser->left -= length;
    return parser->left == 0;
}

/* Sets the BULK frame aside until its next piece comes. */
static void put_bulk_aside(struct cop__parser *parser)
{
    parser->bulk = parser->now;
    parser->bulk_filled = parser->filled;
    parser->bulk_is_open = true;
    parser->bulk_is_skipped = parser->state == COP__PARSE_SKIP;
    parser->now.payload = NULL;
}

static void finish_frame(struct cop__link *link, struct cop__item *out)
{
    struct cop__parser *parser = &link->parser;
    bool is_bulk = parser->record.type != COP__RECORD_FRAME;
    if (link->session)
        cop__session_received(link->session,
                              is_bulk ? COP__LANE_BULK : COP__LANE_CONTROL,
                              COP__KEPT_OVERHEAD + parser->now.header.length);
    out->type = COP__RECORD_FRAME;
    out->skipped = parser->state == COP__PARSE_SKIP;
    out->frame = parser->now;
    parser->now.payload = NULL;
}

/* 1 if the record means something to the caller, 0 if it was for the link alone. */
static int finish_record(struct cop__link *link, struct cop__item *out)
{
    struct cop__parser *parser = &link->parser;
    const struct cop__record *record = &parser->record;
    int found = 1;
    out->record = *record;
    out->type = record->type;
    out->skipped = false;
    out->body = NULL;
    if (is_greeting(record->type)) {
        out->body = parser->now.payload;
        parser->now.payload = NULL;
        parser->state = COP__PARSE_RECORD;
        return 1;
    }
    struct cop__counts counts = {{record->count, record->bulk}};
    int error = link->session ? cop__session_counted(link->session, &counts) : 0;
    if (error != 0)
        return error;
    if (record->type == COP__RECORD_PIECE && !(record->flags & COP__RECORD_LAST)) {
        put_bulk_aside(parser);
        found = 0;
    } else if (record->type == COP__RECORD_FRAME || record->type == COP__RECORD_PIECE) {
        finish_frame(link, out);
    } else {
        found = record->type != COP__RECORD_ACK;
    }
    parser->state = COP__PARSE_RECORD;
    return found;
}

/* A frame that is to be read where it lies, unless it is of no use here. */
static int find_frame(struct cop__link *link, const uint8_t *body,
                      struct cop__item *out)
{
    struct cop__parser *parser = &link->parser;
    int error = cop__header_decode(body, &parser->now.header);
    if (parser->bulk_is_open || (error && error != COP_EKIND && error != COP_EVERSION))
        return COP_EMALFORMED;
    if (error) {
        parser->state = COP__PARSE_SKIP;
        finish_frame(link, out);
        return 1;
    }
    out->frame = (struct cop_frame){.header = parser->now.header};
    return out->frame.header.length > 0 ? 1 : COP_EMALFORMED;
}

/* What lies where, in the memory of the other side. */
static int finish_place(struct cop__link *link, const uint8_t *body,
                        struct cop__item *out)
{
    struct cop__parser *parser = &link->parser;
    const struct cop__record *record = &parser->record;
    struct cop__counts counts = {{record->count, record->bulk}};
    bool is_mark = record->type == COP__RECORD_SHOW;
    struct cop__reader reader =
        cop__reader(body + (is_mark ? 0 : COP__HEADER_SIZE), sizeof out->address);
    int error = cop__session_counted(link->session, &counts);
    if (error != 0)
        return error;
    *out = (struct cop__item){.type = record->type, .record = *record};
    out->address = cop__get_u64(&reader);
    if (is_mark)
        memcpy(out->mark, body + sizeof out->address, COP__MARK_SIZE);
    int found = is_mark ? 1 : find_frame(link, body, out);
    parser->state = COP__PARSE_RECORD;
    return found;
}

void cop__link_fetched(struct cop__link *link, struct cop__item *item,
                       struct cop_buf *payload)
{
    cop__session_received(link->session, COP__LANE_BULK,
                          COP__KEPT_OVERHEAD + payload->length);
    item->type = COP__RECORD_FRAME;
    item->frame.payload = payload;
}

int cop__link_input(struct cop__link *link, struct cop__bytes *in,
                    struct cop__item *out)
{
    struct cop__parser *parser = &link->parser;
    for (;;) {
        int error = 0;
        const uint8_t *head;
        switch (parser->state) {
        case COP__PARSE_RECORD:
            head = take(parser, in, COP__RECORD_SIZE);
            if (!head)
                return 0;
            error = start_record(link, head);
            break;
        case COP__PARSE_HEADER:
            head = take(parser, in, COP__HEADER_SIZE);
            if (!head)
                return 0;
            error = start_frame(link, parser, head);
            break;
        case COP__PARSE_PLACE:
            head = take(parser, in, parser->left);
            if (!head)
                return 0;
            error = finish_place(link, head, out);
            break;
        case COP__PARSE_BODY:
        case COP__PARSE_SKIP:
            if (!take_body(parser, in))
                return 0;
            error = finish_record(link, out);
            break;
        }
        if (error != 0)
            return error;
    }
}

/* ---- bytes out ------------------------------------------------------------------- */

/* Payloads up to this size are copied: cheaper than one more element for the kernel. */
#define COPY_MAX 4096u
/* What one record may add to `space`. */
#define RECORD_ROOM                                                                    \
    (COP__RECORD_SIZE + COP__SHOW_SIZE + COP__RECORD_SIZE + COP__HEADER_SIZE + COPY_MAX)

void cop__batch_init(struct cop__batch *batch, uint8_t *space, size_t size)
{
    batch->space = space;
    batch->size = size;
    batch->used = batch->bytes = 0;
    batch->count = batch->frames = 0;
}

static void add_span(struct cop__batch *batch, const uint8_t *data, size_t length)
{
    struct iovec *last = batch->count ? &batch->spans[batch->count - 1] : NULL;
    batch->bytes += length;
    if (last && (const uint8_t *)last->iov_base + last->iov_len == data) {
        last->iov_len += length;
        return;
    }
    COP_ASSERT(batch->count < COP__BATCH_SPANS);
    batch->spans[batch->count++] = (struct iovec){(void *)(uintptr_t)data, length};
}

static uint8_t *add_room(struct cop__batch *batch, size_t length)
{
    COP_ASSERT(length <= batch->size - batch->used);
    uint8_t *at = batch->space + batch->used;
    batch->used += length;
    add_span(batch, at, length);
    return at;
}

void cop__batch_copy(struct cop__batch *batch, const void *data, size_t length)
{
    if (length > 0)
        memcpy(add_room(batch, length), data, length);
}

static void add_bytes(struct cop__batch *batch, const uint8_t *data, size_t length)
{
    if (length <= COPY_MAX)
        cop__batch_copy(batch, data, length);
    else
        add_span(batch, data, length);
}

static bool has_room(const struct cop__batch *batch)
{
    return batch->size - batch->used >= RECORD_ROOM &&
           batch->count + 2 < COP__BATCH_SPANS && batch->bytes < COP__BATCH_BYTES;
}

static void add_record(struct cop__link *link, struct cop__batch *batch,
                       enum cop__record_type type, uint8_t flags, uint32_t length)
{
    struct cop__counts counts = cop__session_counts(link->session);
    struct cop__record record = {(uint8_t)type, flags, length,
                                 counts.lanes[COP__LANE_CONTROL],
                                 counts.lanes[COP__LANE_BULK]};
    if (link->keep)
        record.flags |= COP__RECORD_KEEP;
    cop__record_encode(&record, add_room(batch, COP__RECORD_SIZE));
    cop__session_told(link->session);
    link->must_tell = false;
}

void cop__link_say(struct cop__link *link, struct cop__batch *batch,
                   enum cop__record_type type)
{
    add_record(link, batch, type, 0, 0);
}

static void add_frame(struct cop__link *link, struct cop__batch *batch,
                      const struct cop__kept *kept)
{
    uint32_t length = kept->payload ? kept->payload->length : 0;
    add_record(link, batch, COP__RECORD_FRAME, 0, COP__HEADER_SIZE + length);
    cop__header_encode(&kept->header, add_room(batch, COP__HEADER_SIZE));
    if (length > 0)
        add_bytes(batch, kept->payload->data, length);
    cop__session_advance(link->session, COP__LANE_CONTROL);
}

static void add_piece(struct cop__link *link, struct cop__batch *batch,
                      const struct cop__kept *kept)
{
    uint32_t head = link->bulk_offset == 0 ? COP__HEADER_SIZE : 0;
    uint32_t whole = kept->payload ? kept->payload->length : 0;
    COP_ASSERT(link->bulk_offset <= whole);
    uint32_t length = whole - link->bulk_offset;
    if (length > COP__PIECE_SIZE)
        length = COP__PIECE_SIZE;
    bool is_last = link->bulk_offset + length == whole;
    add_record(link, batch, COP__RECORD_PIECE, is_last ? COP__RECORD_LAST : 0,
               head + length);
    if (head > 0)
        cop__header_encode(&kept->header, add_room(batch, COP__HEADER_SIZE));
    if (length > 0)
        add_bytes(batch, kept->payload->data + link->bulk_offset, length);
    link->bulk_offset = is_last ? 0 : link->bulk_offset + length;
    if (is_last)
        cop__session_advance(link->session, COP__LANE_BULK);
}

/* Its payload stays where it is, for as long as the session keeps it. */
static void add_there(struct cop__link *link, struct cop__batch *batch,
                      const struct cop__kept *kept)
{
    add_record(link, batch, COP__RECORD_THERE, 0, COP__THERE_SIZE);
    cop__header_encode(&kept->header, add_room(batch, COP__HEADER_SIZE));
    struct cop__writer writer = cop__writer(add_room(batch, 8), 8);
    cop__put_u64(&writer, (uintptr_t)kept->payload->data);
    cop__session_advance(link->session, COP__LANE_BULK);
}

static void add_mark(struct cop__link *link, struct cop__batch *batch)
{
    add_record(link, batch, COP__RECORD_SHOW, 0, COP__SHOW_SIZE);
    struct cop__writer writer = cop__writer(add_room(batch, 8), 8);
    cop__put_u64(&writer, (uintptr_t)link->mark);
    cop__batch_copy(batch, link->mark, COP__MARK_SIZE);
    link->shown = COP__SHOWN;
}

/* The mark is shown before the first frame that it is for; that one is sent. */
static void add_bulk(struct cop__link *link, struct cop__batch *batch,
                     const struct cop__kept *kept)
{
    bool is_large = link->mark && link->bulk_offset == 0 && kept->payload &&
                    kept->payload->length >= COP__THERE_LEAST;
    if (is_large && link->shown == COP__NOT_SHOWN)
        add_mark(link, batch);
    if (is_large && link->shown == COP__SEEN)
        add_there(link, batch, kept);
    else
        add_piece(link, batch, kept);
}

/* The next frame or piece, control before bulk. Whether there was one. */
static bool add_next(struct cop__link *link, struct cop__batch *batch)
{
    const struct cop__kept *kept = cop__session_next(link->session, COP__LANE_CONTROL);
    if (kept) {
        add_frame(link, batch, kept);
        return true;
    }
    kept = cop__session_next(link->session, COP__LANE_BULK);
    if (kept)
        add_bulk(link, batch, kept);
    return kept != NULL;
}

bool cop__link_gather(struct cop__link *link, struct cop__batch *batch)
{
    if (link->must_see && has_room(batch)) {
        cop__link_say(link, batch, COP__RECORD_SEES);
        link->must_see = false;
    }
    while (has_room(batch)) {
        if (add_next(link, batch)) {
            batch->frames++;
            continue;
        }
        if (link->must_tell)
            cop__link_say(link, batch, COP__RECORD_ACK);
        return false;
    }
    return true;
}
