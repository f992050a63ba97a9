/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_WIRE_HEADER_H
#define COP_WIRE_HEADER_H

#include <coppice/node.h>

/*
 * The two fixed layouts in front of payloads.
 *
 * Frame header, 48 bytes: magic 'C' 'p', major, minor (of the version that brought the
 * kind), kind 16, flags 16, sender 32, receiver 32, sender incarnation 64, receiver incarnation 64, epoch 64, length 32,
 * reserved 32 (zero when sent, ignored when read).
 */
#define COP__HEADER_SIZE 48u
#define COP__PROTOCOL_MAJOR 1u
/* A test builds a command of the next version, see tests/live/upgrade.sh. */
#ifndef COP__PROTOCOL_MINOR
#define COP__PROTOCOL_MINOR 0u
#endif

void cop__header_encode(const struct cop_header *header, uint8_t out[COP__HEADER_SIZE]);
/*
 * 0; COP_EMALFORMED (not ours: cut the connection); COP_EVERSION (other major or a
 * newer minor), COP_EKIND, COP_ETOOBIG. For EVERSION (newer minor) and EKIND `out` is
 * filled, so that the frame can be skipped politely. A payload shorter or longer than
 * its kind allows is COP_ETOOBIG or COP_EMALFORMED.
 */
int cop__header_decode(const uint8_t in[COP__HEADER_SIZE], struct cop_header *out);

/*
 * Link record, 24 bytes, in front of everything on a stream connection: type 8, flags
 * 8, reserved 16, length of the body 32, count 64, bulk 64: how many whole frames of
 * the other side its sender has received in this pair of incarnations, of the control
 * class and of the bulk class (an acknowledgement that costs nothing). In HELLO and
 * WELCOME, whose `received` already says the first, `count` is the number of the
 * sender's latest attempt to connect to the other.
 */
#define COP__RECORD_SIZE 24u
#define COP__FRAME_MAX_BODY (COP__HEADER_SIZE + (UINT32_C(1) << 20))

enum cop__record_type {
    COP__RECORD_HELLO = 1,   /* body: payload of HELLO */
    COP__RECORD_WELCOME = 2, /* body: payload of WELCOME */
    COP__RECORD_REFUSE = 3, /* body: payload of REFUSE; then the connection is closed */
    COP__RECORD_FRAME = 4,  /* body: frame header and payload */
    COP__RECORD_PIECE = 5,  /* body: next piece of the one BULK frame under way */
    COP__RECORD_ACK = 6,    /* no body: only the counts */
    COP__RECORD_BYE = 7,    /* no body: orderly close, not a sign of death */
    COP__RECORD_SHOW = 8,   /* body: where in my memory a mark lies, and the mark */
    COP__RECORD_SEES = 9,   /* no body: I have found the mark there */
    COP__RECORD_THERE =
        10, /* body: header of a BULK frame, and where its payload lies */
};
#define COP__MARK_SIZE 16u
#define COP__SHOW_SIZE (8u + COP__MARK_SIZE)
#define COP__THERE_SIZE (COP__HEADER_SIZE + 8u)
#define COP__RECORD_LAST 0x01u /* flag of PIECE: the frame is whole */
#define COP__RECORD_KEEP 0x02u /* flag of all: its sender needs the connection */

struct cop__record {
    uint8_t type;
    uint8_t flags;
    uint32_t length;
    uint64_t count;
    uint64_t bulk;
};
void cop__record_encode(const struct cop__record *record,
                        uint8_t out[COP__RECORD_SIZE]);
/*
 * 0, or COP_EMALFORMED (unknown type, reserved bits), COP_ETOOBIG (length beyond its
 * type's limit): then cut the connection.
 */
int cop__record_decode(const uint8_t in[COP__RECORD_SIZE], struct cop__record *out);

#endif
