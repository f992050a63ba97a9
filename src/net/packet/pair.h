/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_PACKET_PAIR_H
#define COP_NET_PACKET_PAIR_H

#include <coppice/node.h>

/*
 * What two processes say to each other where a network carries packets of a limited size
 * (MPI, libfabric): frames become a stream of bytes that is cut into packets, and are put
 * together again. No I/O, no clock.
 *
 * The network loses nothing between two that live, but may hand packets over in another
 * order; they are numbered. It need not be asked how much the other side can take: nobody has
 * more than COP__PAIR_WINDOW packets under way to one that has not said that it took them,
 * which every packet in the other direction says.
 *
 * Control and bulk are two streams with their own frames under way, so that one can overtake
 * the other; the numbers and the window are those of both together.
 *
 * Where the network can read the memory of another process a large bulk frame is not sent but
 * *offered*: its header, and where its payload is. The other side fetches that, says how many
 * it has, and gives frames in the order of their offers. What comes after in the stream waits
 * until all that was offered is fetched, so nothing overtakes; control goes on.
 *
 * Packet, 12 bytes in front: kind 8, zero 24, number 32, taken 32 (how many numbered packets
 * of the other side its sender has taken). Numbers count from 0, modulo 2^32.
 */
#define COP__PACKET_HEADER 12u
#define COP__PAIR_WINDOW 32u
/* Frames that are offered and not fetched, at most. */
#define COP__PAIR_OFFERS 16u
/* A peer for whom more than this waits is given up. */
#define COP__PAIR_QUEUE_MAX (UINT64_C(64) << 20)

enum cop__packet_kind {
    COP__PACKET_CONTROL = 1, /* numbered: bytes of the stream of control frames */
    COP__PACKET_BULK = 2,    /* the same of bulk */
    COP__PACKET_CREDIT = 3,  /* not numbered: only `taken` */
    COP__PACKET_HELLO = 4, /* not numbered: incarnation 64; to be answered by WELCOME */
    COP__PACKET_WELCOME = 5, /* the same, in return */
    /* Not numbered: fetched 32, how many offers of the other side were. */
    COP__PACKET_FETCHED = 6,
    /* Numbered: the header of a bulk frame, address 64, key 64. */
    COP__PACKET_OFFER = 7,
};
#define COP__PAIR_STREAMS 2

struct cop__parcel {
    struct cop_header header;
    struct cop_buf *payload; /* a reference, or NULL */
};

/* One direction of one stream. */
struct cop__outgoing {
    struct cop__parcel *ring;
    uint32_t capacity, first, count; /* capacity: 0 or a power of two */
    uint32_t cut; /* bytes of the first that are in packets already */
};
struct cop__incoming {
    uint8_t head[48]; /* COP__HEADER_SIZE */
    uint32_t have;    /* bytes of the frame under way, with its header */
    struct cop_header header;
    struct cop_buf *payload;
    bool is_skipped; /* of a kind that this version does not know */
};
/* Where a payload is, in the words of the network. */
struct cop__remote {
    uint64_t address, key;
};
/* A payload that the other side may fetch. */
struct cop__offer {
    struct cop_buf *payload; /* a reference */
    void *region;            /* the host's: what makes it readable */
    uint32_t bytes;          /* that it counts for in queued_bytes */
};
/* One that this side fetches. */
struct cop__fetch {
    struct cop_header header;
    struct cop_buf *payload;
    struct cop__remote remote;
    bool is_skipped, is_done;
};
/* A packet that came before its turn. */
struct cop__early {
    struct cop__early *next;
    uint32_t number;
    size_t length;
    uint8_t bytes[];
};

struct cop__pair {
    struct cop__outgoing out[COP__PAIR_STREAMS];
    uint64_t queued_bytes, queue_max; /* 0: COP__PAIR_QUEUE_MAX */
    uint32_t sent, acknowledged;      /* packets */

    struct cop__incoming in[COP__PAIR_STREAMS];
    uint32_t taken, told; /* packets: taken in their order, and what the other knows */
    struct cop__early *early; /* by number */
    const uint8_t *at, *end;  /* what is left of the packet that is being read */
    struct cop__incoming *stream;
    struct cop__early *reading; /* where it is, if it came early */
    bool is_offer;              /* it is an OFFER */

    /* Of mine, by their number: released <= fetched <= offered. */
    uint32_t fetch_least; /* payloads from this size on are offered; 0: none are */
    bool is_plain;        /* the first bulk frame could not be offered, and is sent */
    struct cop__offer offers[COP__PAIR_OFFERS];
    uint32_t offered, fetched, released;
    /* Of the other side: given <= begun <= seen. */
    struct cop__fetch fetches[COP__PAIR_OFFERS];
    uint32_t seen, begun, given;
};

void cop__pair_init(struct cop__pair *pair);
void cop__pair_fini(struct cop__pair *pair);

/* ---- sending --------------------------------------------------------------------- */

/* Takes a reference to the payload. COP_ENOMEM; COP_ELOST: too much waits. */
int cop__pair_push(struct cop__pair *pair, const struct cop_frame *frame);
/* Whether a packet can be made now. */
bool cop__pair_has_packet(const struct cop__pair *pair);
/* The next packet, of at most `size` bytes; its length. Only if there is one. */
size_t cop__pair_pack(struct cop__pair *pair, uint8_t *out, size_t size);
/* Whether that has to be an offer (cop__pair_pack_offer), or is_plain to be set. */
bool cop__pair_wants_offer(const struct cop__pair *pair);
/* The payload that is to be offered next; borrowed. */
struct cop_buf *cop__pair_next_payload(const struct cop__pair *pair);
/* The offer of it, as a packet; its length. `out` has COP__PACKET_OFFER_BYTES. */
#define COP__PACKET_OFFER_BYTES (COP__PACKET_HEADER + 64u)
size_t cop__pair_pack_offer(struct cop__pair *pair, const struct cop__remote *remote,
                            void *region, uint8_t *out);
/* An offer that is over, with its reference; whether there was one. */
bool cop__pair_next_released(struct cop__pair *pair, struct cop__offer *out);
/* All offers are over, whether they were fetched or not. */
void cop__pair_withdraw(struct cop__pair *pair);
/* Whether the other side should be told what was taken, even if nothing goes to it. */
bool cop__pair_must_tell(const struct cop__pair *pair);
/* A packet without a frame: CREDIT to FETCHED; its length. `out` has 20 bytes. */
size_t cop__pair_pack_bare(struct cop__pair *pair, enum cop__packet_kind kind,
                           cop_incarnation incarnation, uint8_t *out);
/* Forgets what waits, but for the rest of a frame that has gone in part. */
void cop__pair_drop(struct cop__pair *pair);
static inline bool cop__pair_is_empty(const struct cop__pair *pair)
{
    return pair->out[0].count + pair->out[1].count == 0;
}

/* ---- receiving ------------------------------------------------------------------- */

/* What a packet said beside its frames. */
struct cop__said {
    enum cop__packet_kind kind;
    cop_incarnation incarnation; /* HELLO, WELCOME */
};
/*
 * A packet came: borrowed until cop__pair_next has said that there is nothing more.
 * COP_EMALFORMED: it cannot be; COP_ENOMEM. Then nothing changed.
 */
int cop__pair_take(struct cop__pair *pair, const uint8_t *packet, size_t length,
                   struct cop__said *out);
/*
 * The next whole frame: 1, with a reference to its payload that is the caller's; 0 if there
 * is none; COP_EMALFORMED if what comes is no stream of frames (nothing of it can be read
 * any more), or COP_ENOMEM. To be called until it says something else than 1.
 */
int cop__pair_next(struct cop__pair *pair, struct cop_frame *out);
/* What is to be fetched next, or NULL; its number is pair->begun, which is then raised. */
struct cop__fetch *cop__pair_next_fetch(struct cop__pair *pair);
/* It is there: cop__pair_next may have a frame, and FETCHED is to be said. */
void cop__pair_on_fetched(struct cop__pair *pair, uint32_t number);

#endif
