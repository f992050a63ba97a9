/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_TABLE_H
#define COP_NET_TCP_TABLE_H

#include "base/cold.h"
#include "base/map.h"
#include "net/tcp/limits.h"
#include "net/tcp/notice.h"
#include "net/tcp/peers.h"
#include "net/tcp/sight.h"
#include "net/tcp/stream.h"

/*
 * What the files of the peers share: the table, its members, their connections.
 *
 * Invariants of a peer:
 *   1. Not both `open` and `attempt`: an attempt ends when a connection opens, and none
 *      begins while one is open.
 *   2. `again` is set only if there is neither.
 */
enum cop__conn_state {
    COP__CONN_CONNECTING, /* ours, not connected yet */
    COP__CONN_GREETED,    /* ours, HELLO is out */
    COP__CONN_STRANGER,   /* theirs, no HELLO yet */
    COP__CONN_GUEST,      /* theirs, and came with a COMMAND and not with HELLO */
    COP__CONN_OPEN,
    COP__CONN_CLOSING, /* waits for libuv to let go of it */
};

struct cop__conn {
    struct cop__stream stream; /* first: a stream is its connection */
    /* What each message needs is side by side. */
    struct cop__peers *peers;
    struct cop__peer *peer; /* NULL for a stranger or a guest */
    enum cop__conn_state state;
    bool is_used;      /* since the alarm was last set */
    bool has_progress; /* it was good for something */
    bool is_late;      /* counts waited for a whole turn of `tell` */
    bool is_wise;      /* theirs: it has said something that makes sense */
    bool is_guilty;    /* theirs: it ends by its own fault */
    bool is_over;      /* nobody waits for it, so its end is looked at later */
    bool is_named;     /* it has proved to be the member that it says, or need not */
    bool is_asking;    /* a guest's command is not answered yet */
    struct cop__link link;
    struct cop__alarm alarm; /* the handshake takes too long; nobody uses it */
    struct cop__conn *next, *prev;
    uint8_t mark[COP__MARK_SIZE]; /* that we show; zero: none */
    struct cop__sight sight;      /* into the other side's memory */
    uint64_t guest;               /* its number */
    cop__origin origin;           /* of theirs; 0 if it has none, or is ours */
};

struct cop__peer {
    struct cop__peers *peers;
    cop_id id;
    bool keep;
    bool is_warm; /* held in reserve (warm.h) */
    bool is_dirty, is_wanted;
    bool
        is_hearsay; /* nobody but itself ever spoke of the life that we met, and it has gone */
    bool is_courteous; /* `again` is set to let the other side come first */
    uint32_t
        failures; /* connections and attempts in a row that were good for nothing */
    struct cop__conn *open, *attempt;
    struct cop__alarm again;
    cop_incarnation sought; /* the latest life that a frame was for */
    cop_incarnation
        unseen;        /* the life whose memory could be read, and then could not */
    cop_time patience; /* until when attempts that begin now are repeated */
    cop_time refused;  /* when its address last said that nobody is there */
    cop_incarnation refused_life; /* whom we knew to be there then */
    uint64_t backlog;             /* its share of the statistics */
    uint64_t absent;              /* and of what is kept for those who are not there */
    struct cop__peer *next_dirty, *next_wanted;
    struct cop__acquaintance acquaintance;
};

struct cop__peers {
    struct cop__peers_config config;
    struct cop__map table;
    uint32_t forget_at; /* with so many, those whom nobody knows are forgotten */
    uint64_t absent_bytes,
        forget_bytes; /* kept for those who are not there; and so much of it */
    struct cop__peer *dirty, **dirty_end;   /* something is to be written */
    struct cop__peer *wanted, **wanted_end; /* a connection is to be made */
    struct cop__conn *heard; /* has brought frames since the last flush */
    struct cop__alarm tell;
    bool is_choked; /* the node knows that the backlog is too large */
    /* Of its space hardly more than the beginning is ever touched, which is thus near to what
     * is above; what is below is not needed for messages. */
    struct cop__stream_base base;

    struct cop__conn *first, *last; /* in the order in which they were made */
    uint32_t strangers;             /* guests among them */
    uint64_t guests;                /* how many there have been */
    uint64_t secret, marks;         /* of the marks that were made; 0: none were yet */

    /* accept.c */
    uv_poll_t listener;
    int listen_fd, listen_family;
    bool has_early; /* some may wait there that were made before it was tuned */
    struct cop__alarm resume;

    bool is_closing;
    uint32_t handles; /* that libuv has not let go of */
    void (*closed)(void *context);
    void *closed_context;

    struct cop__notice refused_them[COP__REFUSAL_COUNT];
    struct cop__notice refused_us[COP__REFUSAL_COUNT];
    struct cop__notice unproven[COP__FAULT_COUNT], unproven_to_us[COP__FAULT_COUNT];
    struct cop__notice too_often, foreign_user;
    struct cop__limits limits;
    struct cop__notice nonsense, shortage, unreachable, overflow, strangers_full;
};

/* ---- peers.c --------------------------------------------------------------------- */

/* What the other side is told: that the connection is to stay. */
static inline bool cop__peer_is_wanted(const struct cop__peer *peer)
{
    return peer->keep || peer->is_warm;
}
/* Nobody waits for it: it is only held in reserve. */
bool cop__peer_is_spare(const struct cop__peer *peer);
/* It is no longer held in reserve, because it failed. */
void cop__peer_cooled(struct cop__peer *peer);
/* The peer of an id, made if it is new; NULL if there is no memory. */
struct cop__peer *cop__peer_get(struct cop__peers *peers, cop_id id);
void cop__peer_mark_dirty(struct cop__peer *peer);
/* Takes the present backlog of the peer into the statistics. */
void cop__peer_weigh(struct cop__peer *peer);
/* Frames came that the other side does not know to have come. */
void cop__peers_heard(struct cop__conn *conn);
/* After a handle has been closed: the last one ends everything. */
void cop__peers_handle_closed(struct cop__peers *peers);
/* Events. */
void cop__peer_up(struct cop__peer *peer);
/* `life`: with whom the connection was; 0 if there was none. */
void cop__peer_down(struct cop__peer *peer, cop_incarnation life, enum cop_down why);

/* ---- attempts.c ------------------------------------------------------------------ */

/* Makes a connection unless there is one, or one under way. */
void cop__peer_connect(struct cop__peer *peer);
/* Our attempt failed before the handshake was over, with an error of libuv. */
COP__COLD void cop__attempt_failed(struct cop__peer *peer, int error);
/* Our attempt was refused by the other side's driver. */
COP__COLD void cop__attempt_refused(struct cop__peer *peer,
                                    const struct cop__item *item);
/* Ends an attempt, if there is one, without a word. */
void cop__attempt_drop(struct cop__peer *peer);
/* Does what `again` is for when it fires. */
void cop__attempt_again(struct cop__alarm *alarm, cop_time now);

/* ---- conn.c ---------------------------------------------------------------------- */

extern const struct cop__stream_events cop__conn_events;

/* NULL if there is no memory. */
struct cop__conn *cop__conn_create(struct cop__peers *peers,
                                   enum cop__conn_state state);
/* Its memory stays until libuv has let go of it: callers may still look at its state. */
void cop__conn_close(struct cop__conn *conn);
/* Ends one whose socket may never have been opened; it is not to be touched any more. */
void cop__conn_discard(struct cop__conn *conn);
/* Our connection stands: says HELLO. */
void cop__conn_greet(struct cop__conn *conn);
/* An accepted one: waits for HELLO. */
void cop__conn_expect(struct cop__conn *conn);
/* Sets or stops the alarm that ends unused connections. */
void cop__conn_review(struct cop__conn *conn);
/* An open connection broke. */
COP__COLD void cop__conn_lost(struct cop__conn *conn, int error);
/* An open connection whose end was put off, if this is one, breaks now. */
static inline void cop__conn_face(struct cop__conn *conn)
{
    if (conn && conn->is_over)
        cop__conn_lost(conn, UV_EOF);
}
/* An open connection is not with the member that now has the id: as if there had been none. */
COP__COLD void cop__conn_expel(struct cop__conn *conn);
/* What it was made with is no longer accepted: another one takes its place. */
void cop__conn_renew(struct cop__conn *conn);
/* Bytes for a guest. */
void cop__conn_answer(struct cop__conn *conn, const struct cop_buf *bytes);
COP__COLD void cop__conn_say_bye(struct cop__conn *conn);

/* ---- proof.c --------------------------------------------------------------------- */

/* Whether the other side may be this member, which it has not proved yet. */
bool cop__conn_prove(struct cop__conn *conn, cop_id id);
static inline bool cop__conn_is_itself(struct cop__conn *conn, cop_id id)
{
    return conn->is_named || cop__conn_prove(conn, id);
}
/* Whether it may join with this frame. */
bool cop__conn_is_own_join(const struct cop__conn *conn, const struct cop_frame *frame);
/* Counts and logs: it goes by another's name; what a member sent was changed on the way;
 * it did not prove to be one of us. */
COP__COLD void cop__conn_say_impostor(struct cop__conn *conn);
COP__COLD void cop__conn_say_changed(struct cop__conn *conn);
COP__COLD void cop__conn_say_unproven(struct cop__conn *conn);

/* ---- accept.c -------------------------------------------------------------------- */

int cop__accept_start(struct cop__peers *peers);
void cop__accept_stop(struct cop__peers *peers);
/* Takes connections that wait, as when the loop finds them; `expected` of them and some. */
void cop__accept_look(struct cop__peers *peers, uint32_t expected);
/* Closes the stranger that has waited longest; false if there is none. */
bool cop__accept_make_room(struct cop__peers *peers);

#endif
